#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "provisioner/planner/exact/ratio_search.h"

namespace ps::provisioner {

/// Least sums over a problem's box, sum and pools, of one set of values after the other: the order
/// of the terms changes little from one to the next.
class LeastSums {
 public:
  explicit LeastSums(const RatioProblem& problem);

  /// The least values . x. Requires: a value per term.
  double Of(std::span<const double> values);

  /// values . x of the last x that was the least.
  double Again(std::span<const double> values) const;

 private:
  struct Part {
    size_t term;
    int spare;  // beyond its least count
    int pool;
  };

  std::vector<int> lows_;
  std::vector<Part> parts_;  // terms that can vary
  int spare_ = 0;            // of the sum, beyond the least counts
  std::vector<int> pools_;
  mutable std::vector<int> pools_left_;  // scratch
};

/// The largest value of values . x over the box and the sum.
double LargestSum(const RatioProblem& problem, double RatioTerm::*value);
double SmallestSum(const RatioProblem& problem, double RatioTerm::*value);

}  // namespace ps::provisioner
