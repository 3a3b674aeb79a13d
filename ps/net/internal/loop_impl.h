#pragma once

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <map>
#include <thread>

#include "ps/net/loop.h"

namespace ps::net {

/// The Asio side of a loop. A concurrency hint of 1 keeps posting from other threads safe.
class Loop::Impl {
 public:
  explicit Impl(size_t mailbox_max) : mailbox_max_(mailbox_max), work_(io_.get_executor()) {}

  asio::io_context& io() { return io_; }

  void Run();

  void Stop() { io_.stop(); }

  Status Post(std::function<void()> fn);
  TimerId StartTimer(Duration delay, Duration period, std::function<void()> fn);
  void Cancel(TimerId timer);
  Status OnSignal(const std::vector<int>& signals, std::function<void(int)> fn);
  void WatchChild(pid_t pid, std::function<void(int)> fn);
  bool IsOwner() const;

 private:
  struct Timer {
    Timer(asio::io_context& io, TimerId i, Duration p, std::function<void()> f)
        : id(i), period(p), fn(std::move(f)), wait(io) {}

    TimerId id;
    Duration period;  // 0 = once
    std::function<void()> fn;
    asio::steady_timer wait;
    bool is_cancelled = false;
  };

  struct SignalWatch {
    explicit SignalWatch(asio::io_context& io) : set(io) {}

    asio::signal_set set;
    std::function<void(int)> fn;
  };

  void Arm(const std::shared_ptr<Timer>& timer);
  void Fire(const std::shared_ptr<Timer>& timer);
  void Arm(const std::shared_ptr<SignalWatch>& watch);
  void ReapChildren();

  const size_t mailbox_max_;
  std::atomic<size_t> mailbox_count_{0};
  std::atomic<std::thread::id> runner_{};
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;

  // Owned by the loop's thread. Destroyed before io_, as Asio wants.
  uint64_t last_timer_ = 0;
  std::map<TimerId, std::shared_ptr<Timer>> timers_;
  std::vector<std::shared_ptr<SignalWatch>> signals_;
  bool watches_children_ = false;
  std::map<pid_t, std::function<void(int)>> children_;
};

}  // namespace ps::net
