#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "ps/base/time.h"

namespace ps {

/// Tells a thread that its owner ends. Both hold it by a shared pointer: a thread that hangs in a
/// system call may look at it when the owner is gone. Thread: any.
class Ending {
 public:
  /// Once it has returned, no Deliver calls anything any more.
  void Begin() {
    {
      const std::lock_guard lock(mutex_);
      has_begun_ = true;
    }
    wake_.notify_all();
  }

  bool has_begun() const {
    const std::lock_guard lock(mutex_);
    return has_begun_;
  }

  /// Waits for so long. Returns false, and at once, when the end has begun.
  bool PauseUnlessBegun(Duration pause) {
    std::unique_lock lock(mutex_);
    return !wake_.wait_for(lock, pause, [this] { return has_begun_; });
  }

  /// Calls `deliver`, which waits for nothing, each millisecond until it returns true or the end
  /// has begun.
  void Deliver(const std::function<bool()>& deliver) {
    std::unique_lock lock(mutex_);
    while (!has_begun_ && !deliver()) {
      wake_.wait_for(lock, std::chrono::milliseconds(1));
    }
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool has_begun_ = false;  // under the mutex
};

}  // namespace ps
