#pragma once

#include <set>
#include <utility>

#include "ps/base/ids.h"

namespace ps::coordinator {

/// How long the steps of the members take, the slowest at hand: under ssp and bsp one may wait for
/// another, so the slowest says how long anybody may make no progress.
class FleetSpeed {
 public:
  /// It has a lease, and no step yet.
  void NoteWarmingUp(Incarnation incarnation) { warming_up_.insert(incarnation); }

  /// Its steps took `before` (0: none yet) and now take `now`.
  void NoteStep(Incarnation incarnation, double before_s, double now_s) {
    warming_up_.erase(incarnation);
    seconds_.erase({before_s, incarnation});
    seconds_.emplace(now_s, incarnation);
  }

  void Remove(Incarnation incarnation, double step_seconds) {
    warming_up_.erase(incarnation);
    seconds_.erase({step_seconds, incarnation});
  }

  /// 0: nobody has made a step.
  double slowest_s() const { return seconds_.empty() ? 0 : seconds_.rbegin()->first; }

  /// Somebody is at its first step, which includes what is only done once.
  bool is_anybody_warming_up() const { return !warming_up_.empty(); }

 private:
  std::set<std::pair<double, Incarnation>> seconds_;
  std::set<Incarnation> warming_up_;
};

}  // namespace ps::coordinator
