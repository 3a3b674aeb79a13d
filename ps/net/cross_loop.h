#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "ps/net/loop.h"

namespace ps::net {

/// Functions that other threads have a loop run, in order. Unlike Loop::Post it takes any number:
/// who puts them limits how many there are. It has one place of the mailbox at a time.
class CrossLoop {
 public:
  /// `loop` outlives it.
  explicit CrossLoop(Loop* loop) : state_(std::make_shared<State>()) { state_->loop = loop; }

  CrossLoop(const CrossLoop&) = delete;
  CrossLoop& operator=(const CrossLoop&) = delete;

  ~CrossLoop() { Close(); }

  /// Where the mailbox is full, `fn` comes with the next one. Thread: any.
  void Put(std::function<void()> fn);
  /// What has not begun is dropped, and so is what is put later. Thread: any; on another one than
  /// the loop's, what has begun goes on.
  void Close();

 private:
  struct State {
    Loop* loop = nullptr;
    std::mutex mutex;
    // Guarded by mutex.
    std::deque<std::function<void()>> waiting;
    bool is_told = false;  // the loop
    bool is_closed = false;
  };

  static void RunWaiting(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace ps::net
