#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
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
  explicit RequestThread(std::function<void(Request)> work) : state_(std::make_shared<State>()) {
    state_->work = std::move(work);
    thread_ = std::thread([state = state_] { Run(state.get()); });
  }

  RequestThread(const RequestThread&) = delete;
  RequestThread& operator=(const RequestThread&) = delete;

  /// Waits for the request that is being worked on; the others are dropped.
  ~RequestThread() {
    AskToEnd();
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  /// As the destructor, which is all that may follow, but waits at most so long. The work function
  /// is destroyed by the thread, with what it owns. Returns false when the thread is left to
  /// itself: it may come back from its request at any time, so the work function must own all that
  /// it uses.
  bool EndWithin(Duration limit) {
    AskToEnd();
    std::unique_lock lock(state_->mutex);
    if (!state_->wake.wait_for(lock, limit, [this] { return state_->has_ended; })) {
      thread_.detach();
      return false;
    }
    return true;
  }

  void Add(Request request) {
    {
      const std::lock_guard lock(state_->mutex);
      state_->requests.push_back(std::move(request));
    }
    state_->wake.notify_all();
  }

  /// Waits for so long. Returns false, and at once, when the thread is to end.
  bool PauseUnlessEnding(Duration pause) {
    std::unique_lock lock(state_->mutex);
    return !state_->wake.wait_for(lock, pause, [this] { return state_->is_ending; });
  }

 private:
  struct State {
    std::function<void(Request)> work;  // the thread's
    std::mutex mutex;
    std::condition_variable wake;
    std::deque<Request> requests;  // under the mutex
    bool is_ending = false;        // likewise
    bool has_ended = false;        // likewise
  };

  void AskToEnd() {
    {
      const std::lock_guard lock(state_->mutex);
      state_->is_ending = true;
    }
    state_->wake.notify_all();
  }

  static void Run(State* state) {
    std::unique_lock lock(state->mutex);
    while (true) {
      state->wake.wait(lock, [state] { return state->is_ending || !state->requests.empty(); });
      if (state->is_ending) {
        break;
      }
      Request request = std::move(state->requests.front());
      state->requests.pop_front();
      lock.unlock();
      state->work(std::move(request));
      lock.lock();
    }
    lock.unlock();
    state->work = nullptr;
    lock.lock();
    state->has_ended = true;
    state->wake.notify_all();
  }

  const std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace ps
