#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "ps/base/status.h"
#include "ps/base/time.h"

namespace ps::worker {

/// How far a data set is loaded, and the way to end that before it is done. Whatever takes time in
/// proportion to the data calls Advance, at least once for some megabytes: loading has no time
/// limit, so this is how a worker that loads can be told to leave. Thread: any.
class LoadProgress {
 public:
  /// So many bytes more are to be read or gone over.
  void Expect(uint64_t bytes) { expected_ += bytes; }

  /// So many of them are done. Errors: kCancelled.
  Status Advance(uint64_t bytes) {
    done_ += bytes;
    return is_cancelled_ ? Status::Cancelled("loading was ended") : Status::Ok();
  }

  void Cancel() {
    {
      const std::lock_guard lock(mutex_);
      is_cancelled_ = true;
    }
    changed_.notify_all();
  }

  /// Waits for so long; false, at once, when it is cancelled.
  bool Wait(Duration wait) {
    std::unique_lock lock(mutex_);
    return !changed_.wait_for(lock, wait, [this] { return is_cancelled_.load(); });
  }

  bool is_cancelled() const { return is_cancelled_; }

  /// For people: why it does not advance just now. Empty: nothing is in the way.
  void SetTrouble(std::string why) {
    const std::lock_guard lock(mutex_);
    trouble_ = std::move(why);
  }

  std::string trouble() const {
    const std::lock_guard lock(mutex_);
    return trouble_;
  }

  /// So many bytes are done.
  uint64_t done() const { return done_; }

  /// From 0 to 1.
  double share() const {
    const auto expected = static_cast<double>(std::max<uint64_t>(expected_, 1));
    return std::min(static_cast<double>(done_) / expected, 1.0);
  }

 private:
  std::atomic<uint64_t> expected_ = 0;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<bool> is_cancelled_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::string trouble_;  // guarded by mutex_
};

}  // namespace ps::worker
