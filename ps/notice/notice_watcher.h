#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "ps/base/logger.h"
#include "ps/notice/notice_source.h"

namespace ps::notice {

/// Asks a metadata service, or looks for a file, on a thread of its own, until that says that the
/// machine goes.
class NoticeWatcher {
 public:
  struct Options {
    proto::NoticeService service = proto::NoticeService::kNone;
    std::string url;   // as NoticeSettings::url
    std::string file;  // instead of a service, when it is not empty
    /// What is announced for later and may be withdrawn is not told yet.
    Duration told_before = std::chrono::minutes(2);
    // For tests: between two questions, and for an answer.
    Duration period_max = std::chrono::hours(1);
    Duration patience_max = std::chrono::hours(1);
  };

  /// On the watcher's thread.
  struct Callbacks {
    std::function<void(const ProviderNotice&)> on_notice;  // at most once, and the last
    std::function<void(bool)> on_risk;  // there is advice to move, or none any more; may be null
    std::function<void(const std::string&)> on_ignored;  // NoticeSource::ignored; may be null
  };

  /// `log` outlives it.
  NoticeWatcher(const Options& options, Callbacks callbacks, const Logger* log);
  NoticeWatcher(const NoticeWatcher&) = delete;
  NoticeWatcher& operator=(const NoticeWatcher&) = delete;
  /// Takes up to a second when a question is under way.
  ~NoticeWatcher();

 private:
  std::unique_ptr<NoticeSource> MakeSource() const;
  void Watch();
  void NoteFailure(const Status& why);
  void NoteIgnored();
  void NoteRisk(bool is_at_risk);
  /// False when the watch is to end.
  bool Pause(Duration duration);

  const Options options_;
  const Callbacks callbacks_;
  const Logger* const log_;
  std::atomic<bool> is_ending_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::unique_ptr<NoticeSource> source_;
  // Used by the thread alone.
  bool is_failing_ = false;
  bool is_at_risk_ = false;
  std::string said_;     // the last that was logged and was not for now
  std::string ignored_;  // by the source, as it was told
  std::thread thread_;   // the last: it uses the others
};

}  // namespace ps::notice
