#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/base/time.h"

namespace ps::net {

/// A timer of one loop. Never reused; 0 is none.
using TimerId = Id<struct TimerIdTag, uint64_t>;

/// One thread's event loop. Everything that is made on a loop (timers, endpoints, their handlers)
/// belongs to the thread that runs it; other threads may only call Post and Stop. Outlives the
/// endpoints made on it. Callbacks must not throw.
class Loop {
 public:
  /// `mailbox_max` bounds the posted functions that have not run yet.
  explicit Loop(size_t mailbox_max = size_t{1} << 16);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Runs callbacks on this thread until Stop. May be called again afterwards.
  void Run();
  /// Makes Run return after the callback under way; before Run, makes the next Run return at once.
  /// Thread: any.
  void Stop();

  /// Queues `fn` to run on the loop, after what was queued before. Thread: any.
  /// Errors: kOverloaded when the mailbox is full; `fn` is dropped then.
  Status Post(std::function<void()> fn);

  /// Runs `fn` once, `delay` from now. Thread: the loop's, or before Run.
  TimerId RunAfter(Duration delay, std::function<void()> fn);
  /// Runs `fn` each `period` from now. Beats missed while the loop was busy are left out, not made
  /// up. Requires: period > 0.  Thread: the loop's, or before Run.
  TimerId RunEvery(Duration period, std::function<void()> fn);
  /// After it returns the timer's function is not called any more. Unknown and finished ids are
  /// fine, also from inside the timer's own function. Thread: the loop's, or before Run.
  void Cancel(TimerId timer);

  /// Calls `fn(signal)` on the loop for each of `signals` the process gets from now on, instead of
  /// the default action; what was ignored stays so (SignalsToHandle). Every loop that asked is
  /// told. Thread: the loop's, or before Run. Errors: kInvalidArgument for one that can't be
  /// caught.
  Status OnSignal(const std::vector<int>& signals, std::function<void(int)> fn);

  /// Calls `fn` once with waitpid's status when the child has exited, and reaps it; also if it has
  /// exited already. Other children are left alone. `fn` gets -1 if `pid` is no child of this
  /// process (or somebody else reaped it). Thread: the loop's, or before Run.
  void WatchChild(pid_t pid, std::function<void(int wait_status)> fn);

  /// Whether the caller may touch what belongs to this loop: nobody runs it, or this thread does.
  bool IsOwner() const;

  class Impl;

  /// For ps/net only.
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace ps::net
