#pragma once

#include <vector>

#include "provisioner/exact_region.h"
#include "provisioner/ratio_search.h"

namespace ps::provisioner {

/// How even a region's fleets can be at least, given how fast they are together.
///
/// With V the fleet's speed, v the fastest worker's and Q the sum of the workers' squared speeds,
///     R^2 = 1 - 2 v / V + Q / V^2.
/// Q >= V^2 / n always holds. Where speeds are known exactly, Q and V are linear in the counts, and
/// Q >= L(t) + 2 t V for any t, with L(t) the least sum of (speed^2 - 2 t speed) in the box.
class HeterogeneityBound {
 public:
  HeterogeneityBound(const std::vector<Slot>& slots, const RatioProblem& box, bool is_exact);

  /// No fleet with a speed of `speed` or more has less.
  double LeastAt(double speed) const;

  /// No fleet is faster.
  double speed_max() const { return speed_max_; }

 private:
  /// Of R^2 over all speeds from `speed` to the largest, for one t.
  double LeastSquare(double speed, double t) const;

  RatioProblem box_;
  std::vector<double> speeds_;  // of one worker, per slot
  bool is_exact_;
  int workers_;
  double fastest_ = 0;
  double speed_min_ = 0;
  double speed_max_ = 0;
};

}  // namespace ps::provisioner
