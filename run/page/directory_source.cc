#include "run/page/directory_source.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "ps/base/file.h"
#include "run/directory/control.h"
#include "run/directory/files.h"
#include "run/page/history.h"
#include "run/page/state_json.h"

namespace ps::run {
namespace {

constexpr Duration kLookEvery = std::chrono::seconds(1);
/// A file of some megabytes takes a while.
constexpr Duration kReadEvery = std::chrono::seconds(5);
constexpr size_t kEventsMax = 1000;

}  // namespace

PageSource::Now DirectorySource::Look() {
  const std::lock_guard lock(mutex_);
  const TimePoint now = SystemTime().Now();
  // An ended run stays as it is.
  const bool is_over = now_.look != nullptr && now_.look->status().state >= proto::RunState::kDone;
  if (now_.look == nullptr || (!is_over && now - looked_at_ >= kLookEvery)) {
    now_.look = std::make_shared<const PageLook>(
        std::make_shared<const proto::JobStatus>(ReadStatus()), "");
    looked_at_ = now;
  }
  return {now_.look, is_over ? 0 : Seconds(now - looked_at_)};
}

proto::JobStatus DirectorySource::ReadStatus() const {
  if (FileLock::IsHeld(paths_.lock())) {
    if (Result<proto::JobStatus> status = FetchStatus(paths_); status.ok()) {
      return std::move(status).value();
    }
  }
  proto::JobStatus status;
  if (const Result<std::string> text = ReadFile(paths_.summary_json()); text.ok()) {
    status = StatusFromSummary(*text, paths_.summary_json());
  } else {
    status.state =
        FileLock::IsHeld(paths_.lock()) ? proto::RunState::kWaiting : proto::RunState::kFailed;
    status.detail = status.state == proto::RunState::kWaiting
                        ? "its coordinator does not answer"
                        : "it has left no summary: it was killed";
    const Result<run::History> history = ReadHistory(paths_.metrics());
    if (history.ok() && !history->points().empty()) {
      const HistoryPoint& last = history->points().back();
      status.elapsed_s = last.elapsed_s;
      status.steps_counted = last.train_loss == last.train_loss ? 1 : 0;
      status.train_loss = last.train_loss;
      status.train_accuracy = last.train_accuracy;
      status.usd_spent = last.usd_spent == last.usd_spent ? last.usd_spent : 0;
    }
  }
  status.run_directory = paths_.root;
  if (status.name.empty()) {
    status.name = JobNameOf(BaseName(paths_.root));
  }
  return status;
}

std::string DirectorySource::History(double after_unix_s, uint32_t thinned) {
  const std::lock_guard lock(mutex_);
  const TimePoint now = SystemTime().Now();
  if (history_at_ == TimePoint() || now - history_at_ >= kReadEvery) {
    if (Result<run::History> history = ReadHistory(paths_.metrics()); history.ok()) {
      history_ = std::move(history).value();
    }
    history_at_ = now;
  }
  return HistoryToJson(history_, after_unix_s, thinned);
}

std::vector<proto::EventRow> DirectorySource::EventsAfter(uint64_t after) {
  const std::lock_guard lock(mutex_);
  Result<std::vector<proto::EventRow>> events = reader_.ReadNew();
  if (events.ok()) {
    for (proto::EventRow& event : *events) {
      // In one row with those of earlier coordinators, and those that have no number.
      event.number = ++numbered_;
      events_.push_back(std::move(event));
    }
  }
  while (events_.size() > kEventsMax) {
    events_.pop_front();
  }
  std::vector<proto::EventRow> wanted;
  std::ranges::copy_if(events_, std::back_inserter(wanted), [after](const proto::EventRow& event) {
    return event.number > after;
  });
  return wanted;
}

}  // namespace ps::run
