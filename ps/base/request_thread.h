#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "ps/base/time.h"

namespace ps {

/// A thread that does requests one after another, in order. Whoever adds them keeps their number
/// bounded. Thread: any; PauseUnlessEnding from within a request.
template <typename Request>
class RequestThread {
 public:
  explicit RequestThread(std::function<void(Request)> work)
      : work_(std::move(work)), thread_([this] { Run(); }) {}

  RequestThread(const RequestThread&) = delete;
  RequestThread& operator=(const RequestThread&) = delete;

  /// Waits for the request that is being worked on; the others are dropped.
  ~RequestThread() {
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  void Add(Request request) {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(std::move(request));
    }
    wake_.notify_all();
  }

  /// Waits for so long. Returns false, and at once, when the thread is to end.
  bool PauseUnlessEnding(Duration pause) {
    std::unique_lock lock(mutex_);
    return !wake_.wait_for(lock, pause, [this] { return is_ending_; });
  }

 private:
  void Run() {
    while (true) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return is_ending_ || !requests_.empty(); });
      if (is_ending_) {
        return;
      }
      Request request = std::move(requests_.front());
      requests_.pop_front();
      lock.unlock();
      work_(std::move(request));
    }
  }

  const std::function<void(Request)> work_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Request> requests_;  // under the mutex
  bool is_ending_ = false;        // likewise
  std::thread thread_;            // the last: it uses the others
};

}  // namespace ps
