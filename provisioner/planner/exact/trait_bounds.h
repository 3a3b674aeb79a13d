#pragma once

#include <vector>

#include "provisioner/planner/exact/least_sums.h"
#include "provisioner/planner/exact/ratio_search.h"
#include "provisioner/planner/exact/region.h"

namespace ps::provisioner {

// Bounds of what the steps of a region's fleets depend on.

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

/// How even a region's fleets can be at least, given how fast they are together.
///
/// With V the fleet's speed, v the fastest worker's and Q the sum of the workers' squared speeds,
///     R^2 = 1 - 2 v / V + Q / V^2.
/// Q >= V^2 / n always holds, and Q >= L(t) + 2 t V for any t >= 0, with L(t) the least sum in the
/// box of (square of the least speed - 2 t times the largest speed): tight where the two are close.
class HeterogeneityBound {
 public:
  /// `is_tight`: speeds are known closely enough for the second bound to be worth its time.
  HeterogeneityBound(const std::vector<Slot>& slots, const RatioProblem& box, bool is_tight);

  /// No fleet with a speed of `speed` or more has less.
  double LeastAt(double speed);

  /// No fleet is faster.
  double speed_max() const { return speed_max_; }

 private:
  struct Tangent {
    double t = 0;
    double least = 0;  // L(t)
  };

  void MakeTangents(double mean);
  /// A lower bound of R^2 over all speeds from `speed` to the largest, by one tangent.
  double LeastSquare(double speed, const Tangent& tangent) const;

  LeastSums sums_;
  std::vector<double> speeds_;  // of one worker, per slot, at most
  std::vector<double> speeds_min_;
  std::vector<double> values_;  // scratch
  std::vector<Tangent> tangents_;
  bool is_tight_;
  int workers_;
  double fastest_ = 0;
  double speed_min_ = 0;
  double speed_max_ = 0;
};

}  // namespace ps::provisioner
