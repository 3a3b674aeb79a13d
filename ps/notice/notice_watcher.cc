#include "ps/notice/notice_watcher.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ps/base/check.h"
#include "ps/notice/local_sources.h"

namespace ps::notice {

std::unique_ptr<NoticeSource> MakeNoticeSource(
    proto::NoticeService service, const NoticeSettings& settings) {
  switch (service) {
    case proto::NoticeService::kEc2:
      return MakeEc2Source(settings);
    case proto::NoticeService::kGcp:
      return MakeGcpSource(settings);
    case proto::NoticeService::kAzure:
      return MakeAzureSource(settings);
    case proto::NoticeService::kNone:
      break;
  }
  PS_CHECK(false) << "there is no such service to ask";
  return nullptr;
}

NoticeWatcher::NoticeWatcher(const Options& options, Callbacks callbacks, const Logger* log)
    : options_(options),
      callbacks_(std::move(callbacks)),
      log_(log),
      source_(MakeSource()),
      thread_([this] { Watch(); }) {}

std::unique_ptr<NoticeSource> NoticeWatcher::MakeSource() const {
  if (!options_.file.empty()) {
    return std::make_unique<FileSource>(options_.file);
  }
  NoticeSettings settings;
  settings.url = options_.url;
  settings.is_cancelled = [this] { return is_ending_.load(); };
  settings.patience_max = options_.patience_max;
  return MakeNoticeSource(options_.service, settings);
}

NoticeWatcher::~NoticeWatcher() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

bool NoticeWatcher::Pause(Duration duration) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, duration, [this] { return is_ending_.load(); });
}

void NoticeWatcher::NoteFailure(const Status& why) {
  if (!is_failing_ && !is_ending_) {
    log_->Warning("notices_not_readable", {{"service", source_->name()}, {"why", why}});
  }
  is_failing_ = true;
}

/// Said once, and again when it becomes something else.
void NoticeWatcher::NoteIgnored() {
  std::string ignored = source_->ignored();
  if (ignored == ignored_) {
    return;
  }
  if (!ignored.empty()) {
    log_->Info(
        "notice_ignored",
        {{"service", source_->name()}, {"what", ignored}, {"machine", source_->machine()}});
  }
  ignored_ = std::move(ignored);
  if (callbacks_.on_ignored) {
    callbacks_.on_ignored(ignored_);
  }
}

void NoticeWatcher::NoteRisk(bool is_at_risk) {
  if (std::exchange(is_at_risk_, is_at_risk) != is_at_risk && callbacks_.on_risk) {
    callbacks_.on_risk(is_at_risk);
  }
}

void NoticeWatcher::Watch() {
  const Duration period = std::min(source_->period(), options_.period_max);
  do {
    const Result<std::optional<ProviderNotice>> answer = source_->Ask();
    if (!answer.ok()) {
      NoteFailure(answer.status());
      continue;
    }
    if (is_failing_ || said_.empty()) {
      log_->Info("notices_readable", {{"service", source_->name()}});
      said_ = "nothing";
      is_failing_ = false;
    }
    NoteIgnored();
    const std::optional<ProviderNotice>& notice = *answer;
    if (notice && !notice->is_advice &&
        (notice->grace <= options_.told_before || !source_->may_withdraw())) {
      callbacks_.on_notice(*notice);
      return;
    }
    NoteRisk(notice && notice->is_advice);
    const std::string what = notice ? notice->what : "nothing";
    if (what != said_) {
      log_->Info(
          notice ? "notice_ahead" : "notice_withdrawn",
          {{"what", notice ? what : said_}, {"grace_s", notice ? Seconds(notice->grace) : 0.0}});
      said_ = what;
    }
  } while (Pause(period));
}

}  // namespace ps::notice
