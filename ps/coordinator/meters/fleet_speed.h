#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ps/base/ids.h"

namespace ps::coordinator {

/// How long the steps of the members take, the slowest at hand: under ssp and bsp one may wait for
/// another, so the slowest says how long anybody may make no progress. Times are kept in buckets of
/// an eighth of an octave, so that a step that takes as long as the last one changes nothing.
class FleetSpeed {
 public:
  /// It has a lease, and no step yet.
  void NoteWarmingUp(Incarnation incarnation) { warming_up_.insert(incarnation); }

  /// Its steps took `before_s` (0: none yet) and now take `now_s` > 0.
  void NoteStep(Incarnation incarnation, double before_s, double now_s) {
    warming_up_.erase(incarnation);
    if (before_s > 0 && BucketOf(before_s) == BucketOf(now_s)) {
      return;
    }
    Leave(before_s);
    ++members_[BucketOf(now_s)];
  }

  void Remove(Incarnation incarnation, double step_seconds) {
    warming_up_.erase(incarnation);
    Leave(step_seconds);
  }

  /// The upper edge of its bucket, at most a tenth above. 0: nobody has made a step.
  double slowest_s() const {
    return members_.empty() ? 0 : std::exp2((members_.rbegin()->first + 1) / kBucketsPerOctave);
  }

  /// Somebody is at its first step, which includes what is only done once.
  bool is_anybody_warming_up() const { return !warming_up_.empty(); }

 private:
  static constexpr double kBucketsPerOctave = 8;

  static int BucketOf(double seconds) {
    constexpr double kLeast = 1e-9;
    constexpr double kMost = 1e9;
    return static_cast<int>(
        std::floor(std::log2(std::clamp(seconds, kLeast, kMost)) * kBucketsPerOctave));
  }

  void Leave(double step_seconds) {
    const auto it = step_seconds > 0 ? members_.find(BucketOf(step_seconds)) : members_.end();
    if (it != members_.end() && --it->second == 0) {
      members_.erase(it);
    }
  }

  std::map<int, size_t> members_;  // how many are in each bucket
  std::set<Incarnation> warming_up_;
};

}  // namespace ps::coordinator
