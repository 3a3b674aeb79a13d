#pragma once

#include <vector>

#include "provisioner/planner/exact/least_sums.h"
#include "provisioner/planner/exact/ratio_search.h"
#include "provisioner/planner/exact/region.h"

namespace ps::provisioner {

/// How large the batch mean b of a region's fleets can be, given how fast they are together.
///
/// With X the steps per second, b X + a X is at most M(a) for any a >= 0, the largest sum in the
/// box of rate * (samples + a): so that b <= M(a) / X - a.
class BatchBound {
 public:
  BatchBound(const std::vector<Slot>& slots, const RatioProblem& box);

  /// No fleet that makes `rate` steps per second or more has a larger one, if none has a larger one
  /// than `most`.
  double MostAt(double rate, double most);

 private:
  LeastSums sums_;
  std::vector<double> rates_;    // per slot, at most
  std::vector<double> samples_;  // per slot
  std::vector<double> values_;   // scratch
};

}  // namespace ps::provisioner
