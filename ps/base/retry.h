#pragma once

#include "ps/base/random.h"
#include "ps/base/time.h"

namespace ps {

/// The waits between attempts: `first`, then twice as long each time up to `limit`, each one varied
/// by +-25 % so that many clients do not retry at the same moment.
class Backoff {
 public:
  Backoff() = default;

  /// Requires: first <= limit.
  Backoff(Duration first, Duration limit) : first_(first), limit_(limit), next_(first) {}

  /// The wait before the next attempt.
  Duration Next(Random* random) {
    const double factor = 0.75 + 0.5 * random->Unit();
    const Duration wait = FromSeconds(Seconds(next_) * factor);
    next_ = next_ > limit_ / 2 ? limit_ : next_ * 2;
    return wait;
  }

  /// The next wait is `first` again.
  void Reset() { next_ = first_; }

 private:
  Duration first_{};
  Duration limit_{};
  Duration next_{};
};

/// When to send an unanswered request again. Its owner asks: it holds no clock.
class RetryTimer {
 public:
  RetryTimer() = default;

  RetryTimer(Duration first, Duration limit) : backoff_(first, limit) {}

  bool is_armed() const { return is_armed_; }

  bool IsDue(TimePoint now) const { return is_armed_ && now >= due_; }

  /// Starts over: the request was just sent for the first time.
  void Start(TimePoint now, Random* random) {
    backoff_.Reset();
    Again(now, random);
  }

  /// The request was just sent again.
  void Again(TimePoint now, Random* random) { DueAt(now + backoff_.Next(random)); }

  /// Due from `time` on.
  void DueAt(TimePoint time) {
    due_ = time;
    is_armed_ = true;
  }

  void Stop() { is_armed_ = false; }

 private:
  Backoff backoff_;
  TimePoint due_{};
  bool is_armed_ = false;
};

}  // namespace ps
