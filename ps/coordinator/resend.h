#pragma once

#include <algorithm>

#include "ps/base/random.h"
#include "ps/base/time.h"

namespace ps::coordinator {

/// When to send an unanswered message again: after `first`, then twice as long each time up to
/// `limit`, each wait +-25 %.
class ResendTimer {
 public:
  void Start(Duration first, TimePoint now, Random* random) {
    delay_ = first;
    Arm(now, random);
  }

  void Again(Duration limit, TimePoint now, Random* random) {
    delay_ = std::min(delay_ * 2, limit);
    Arm(now, random);
  }

  void Stop() { is_armed_ = false; }

  bool is_armed() const { return is_armed_; }

  bool IsDue(TimePoint now) const { return is_armed_ && now >= next_; }

 private:
  void Arm(TimePoint now, Random* random) {
    next_ = now + FromSeconds(Seconds(delay_) * (0.75 + 0.5 * random->Unit()));
    is_armed_ = true;
  }

  Duration delay_{};
  TimePoint next_{};
  bool is_armed_ = false;
};

}  // namespace ps::coordinator
