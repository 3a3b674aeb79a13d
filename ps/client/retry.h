#pragma once

#include <algorithm>

#include "ps/base/random.h"
#include "ps/base/time.h"

namespace ps::client {

/// When to send a request again: after `first`, then twice as long each time up to `limit`, each
/// wait varied by +-25 % so that many clients do not come back in step.
class Retry {
 public:
  Retry() = default;

  Retry(Duration first, Duration limit) : first_(first), limit_(limit), delay_(first) {}

  bool is_armed() const { return is_armed_; }

  bool IsDue(TimePoint now) const { return is_armed_ && now >= next_; }

  /// Starts over: the request was just sent for the first time.
  void Start(TimePoint now, Random* random) {
    delay_ = first_;
    Arm(now, random);
  }

  /// The request was just sent again.
  void Again(TimePoint now, Random* random) {
    delay_ = std::min(delay_ * 2, limit_);
    Arm(now, random);
  }

  /// Due from `time` on.
  void DueAt(TimePoint time) {
    next_ = time;
    is_armed_ = true;
  }

  void Stop() { is_armed_ = false; }

 private:
  void Arm(TimePoint now, Random* random) {
    const double factor = 0.75 + 0.5 * random->Unit();
    next_ = now + FromSeconds(Seconds(delay_) * factor);
    is_armed_ = true;
  }

  Duration first_{};
  Duration limit_{};
  Duration delay_{};
  TimePoint next_{};
  bool is_armed_ = false;
};

}  // namespace ps::client
