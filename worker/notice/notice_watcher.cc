#include "worker/notice/notice_watcher.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ps/base/check.h"

namespace ps::worker {

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

NoticeWatcher::NoticeWatcher(
    const Options& options, std::function<void(const ProviderNotice&)> on_notice, const Logger* log)
    : options_(options),
      on_notice_(std::move(on_notice)),
      log_(log),
      source_(MakeNoticeSource(
          options.service,
          {options.url, [this] { return is_ending_.load(); }, options.patience_max})),
      thread_([this] { Watch(); }) {}

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
    const std::optional<ProviderNotice>& notice = *answer;
    if (notice && !notice->is_advice && notice->grace <= options_.told_before) {
      on_notice_(*notice);
      return;
    }
    const std::string what = notice ? notice->what : "nothing";
    if (what != said_) {
      log_->Info(
          notice ? "notice_ahead" : "notice_withdrawn",
          {{"what", notice ? what : said_}, {"grace_s", notice ? Seconds(notice->grace) : 0.0}});
      said_ = what;
    }
  } while (Pause(period));
}

}  // namespace ps::worker
