#include "ps/net/loop.h"

#include <fmt/core.h>
#include <sys/wait.h>

#include <algorithm>
#include <asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include "ps/base/check.h"
#include "ps/net/internal/loop_impl.h"
#include "ps/process/process_start.h"

namespace ps::net {

Loop::Loop(size_t mailbox_max) : impl_(std::make_unique<Impl>(mailbox_max)) {}

Loop::~Loop() = default;

void Loop::Run() {
  impl_->Run();
}

void Loop::Stop() {
  impl_->Stop();
}

Status Loop::Post(std::function<void()> fn) {
  return impl_->Post(std::move(fn));
}

TimerId Loop::RunAfter(Duration delay, std::function<void()> fn) {
  return impl_->StartTimer(delay, Duration::zero(), std::move(fn));
}

TimerId Loop::RunEvery(Duration period, std::function<void()> fn) {
  PS_CHECK(period > Duration::zero()) << "a period of " << period.count() << " ns";
  return impl_->StartTimer(period, period, std::move(fn));
}

void Loop::Cancel(TimerId timer) {
  impl_->Cancel(timer);
}

Status Loop::OnSignal(const std::vector<int>& signals, std::function<void(int)> fn) {
  return impl_->OnSignal(signals, std::move(fn));
}

void Loop::WatchChild(pid_t pid, std::function<void(int)> fn) {
  impl_->WatchChild(pid, std::move(fn));
}

bool Loop::IsOwner() const {
  return impl_->IsOwner();
}

void Loop::Impl::Run() {
  PS_CHECK(runner_.exchange(std::this_thread::get_id()) == std::thread::id{})
      << "two threads run one loop";
  io_.run();
  io_.restart();
  runner_.store(std::thread::id{});
}

bool Loop::Impl::IsOwner() const {
  const std::thread::id runner = runner_.load(std::memory_order_relaxed);
  return runner == std::thread::id{} || runner == std::this_thread::get_id();
}

Status Loop::Impl::Post(std::function<void()> fn) {
  if (mailbox_count_.fetch_add(1, std::memory_order_relaxed) >= mailbox_max_) {
    mailbox_count_.fetch_sub(1, std::memory_order_relaxed);
    return Status::Overloaded(
        fmt::format("the loop's mailbox holds {} functions already", mailbox_max_));
  }
  asio::post(io_, [this, fn = std::move(fn)] {
    mailbox_count_.fetch_sub(1, std::memory_order_relaxed);
    fn();
  });
  return Status::Ok();
}

TimerId Loop::Impl::StartTimer(Duration delay, Duration period, std::function<void()> fn) {
  PS_CHECK(IsOwner()) << "a timer started from a foreign thread";
  const TimerId id(++last_timer_);
  auto timer = std::make_shared<Timer>(io_, id, period, std::move(fn));
  timer->wait.expires_after(std::max(delay, Duration::zero()));
  timers_.emplace(id, timer);
  Arm(timer);
  return id;
}

void Loop::Impl::Arm(const std::shared_ptr<Timer>& timer) {
  timer->wait.async_wait([this, timer](const asio::error_code& error) {
    if (!error && !timer->is_cancelled) {
      Fire(timer);
    }
  });
}

void Loop::Impl::Fire(const std::shared_ptr<Timer>& timer) {
  if (timer->period == Duration::zero()) {
    timers_.erase(timer->id);
    timer->fn();
    return;
  }
  timer->fn();
  if (timer->is_cancelled) {
    return;
  }
  const TimePoint now = SystemTime().Now();
  const auto next = timer->wait.expiry() + timer->period;
  timer->wait.expires_at(next > now ? next : now + timer->period);
  Arm(timer);
}

void Loop::Impl::Cancel(TimerId timer) {
  PS_CHECK(IsOwner()) << "a timer cancelled from a foreign thread";
  const auto found = timers_.find(timer);
  if (found == timers_.end()) {
    return;
  }
  found->second->is_cancelled = true;
  found->second->wait.cancel();
  timers_.erase(found);
}

Status Loop::Impl::OnSignal(const std::vector<int>& signals, std::function<void(int)> fn) {
  PS_CHECK(IsOwner()) << "signals asked for from a foreign thread";
  auto watch = std::make_shared<SignalWatch>(io_);
  watch->fn = std::move(fn);
  for (const int signal : SignalsToHandle(signals)) {
    asio::error_code error;
    watch->set.add(signal, error);
    if (error) {
      return Status::InvalidArgument(
          fmt::format("signal {} can't be handled: {}", signal, error.message()));
    }
  }
  signals_.push_back(watch);
  Arm(watch);
  return Status::Ok();
}

void Loop::Impl::Arm(const std::shared_ptr<SignalWatch>& watch) {
  watch->set.async_wait([this, watch](const asio::error_code& error, int signal) {
    if (error) {
      return;
    }
    Arm(watch);
    watch->fn(signal);
  });
}

void Loop::Impl::WatchChild(pid_t pid, std::function<void(int)> fn) {
  PS_CHECK(IsOwner()) << "a child watched from a foreign thread";
  if (!watches_children_) {
    watches_children_ = true;
    const Status status = OnSignal({SIGCHLD}, [this](int) { ReapChildren(); });
    PS_CHECK(status.ok()) << status;
  }
  PS_CHECK(children_.emplace(pid, std::move(fn)).second) << "child " << pid << " watched twice";
  // A child that exited before the handler was in place raised its signal for nobody.
  asio::post(io_, [this] { ReapChildren(); });
}

void Loop::Impl::ReapChildren() {
  std::vector<std::pair<std::function<void(int)>, int>> exited;
  for (auto it = children_.begin(); it != children_.end();) {
    int wait_status = 0;
    pid_t reaped = 0;
    do {
      reaped = ::waitpid(it->first, &wait_status, WNOHANG);
    } while (reaped < 0 && errno == EINTR);
    if (reaped == 0) {
      ++it;
      continue;
    }
    exited.emplace_back(std::move(it->second), reaped < 0 ? -1 : wait_status);
    it = children_.erase(it);
  }
  for (const auto& [fn, wait_status] : exited) {
    fn(wait_status);
  }
}

}  // namespace ps::net
