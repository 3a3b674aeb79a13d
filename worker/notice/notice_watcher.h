#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "ps/base/logger.h"
#include "worker/notice/notice_source.h"

namespace ps::worker {

/// Asks a metadata service, on a thread of its own, until it says that the machine goes.
class NoticeWatcher {
 public:
  struct Options {
    proto::NoticeService service = proto::NoticeService::kNone;
    std::string url;  // as NoticeSettings::url
    /// What is announced for later is not told yet, since it may be withdrawn.
    Duration told_before = std::chrono::minutes(2);
    // For tests: between two questions, and for an answer.
    Duration period_max = std::chrono::hours(1);
    Duration patience_max = std::chrono::hours(1);
  };

  /// `on_notice` is called at most once, on the watcher's thread. `log` outlives it.
  NoticeWatcher(
      const Options& options,
      std::function<void(const ProviderNotice&)> on_notice,
      const Logger* log);
  NoticeWatcher(const NoticeWatcher&) = delete;
  NoticeWatcher& operator=(const NoticeWatcher&) = delete;
  /// Takes up to a second when a question is under way.
  ~NoticeWatcher();

 private:
  void Watch();
  void NoteFailure(const Status& why);
  /// False when the watch is to end.
  bool Pause(Duration duration);

  const Options options_;
  const std::function<void(const ProviderNotice&)> on_notice_;
  const Logger* const log_;
  std::atomic<bool> is_ending_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::unique_ptr<NoticeSource> source_;
  // Of the thread.
  bool is_failing_ = false;
  std::string said_;    // the last that was logged and was not for now
  std::thread thread_;  // the last: it uses the others
};

}  // namespace ps::worker
