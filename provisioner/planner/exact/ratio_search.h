#pragma once

#include <limits>
#include <vector>

namespace ps::provisioner {

/// One variable of a RatioProblem: how many of a thing, from `low` to `high`.
struct RatioTerm {
  double cost = 0;
  double rate = 0;
  double weight = 0;
  double crowding = 0;
  int low = 0;
  int high = 0;
  int pool = -1;  // index into RatioProblem::pools; -1: none
};

/// minimise (cost_fixed + cost . x) / X
///   subject to  sum of x = total,  low <= x <= high,  weight . x >= 0,  crowding . x <= 0,
///               rate_min <= X <= rate_max,  X <= rate . x,
///               sum of x - low over the terms of a pool <= that pool
struct RatioProblem {
  std::vector<RatioTerm> terms;
  std::vector<int> pools = {};
  double cost_fixed = 0;
  int total = 0;
  double rate_min = 0;
  double rate_max = 0;  // infinity: none
};

struct RatioBound {
  double ratio = 0;            // no feasible x has a smaller one
  double rate_multiplier = 0;  // with which that is shown
  double weight_multiplier = 0;
  double crowding_multiplier = 0;
  std::vector<std::vector<int>>
      corners;  // whole x around the relaxed optimum; need not be feasible
};

/// Multipliers to begin with.
struct RatioStart {
  double weight = 0;
  double crowding = 0;
};

/// A lower bound by Lagrangian relaxation of all but the box, the sum and the pools: the linear
/// relaxation's optimum up to the accuracy of the search for multipliers. A ratio above `enough` is
/// not improved, and comes without corners. Requires: the sum of `low` is at most `total`, that of
/// `high` at least; all costs are at least 0; some x has rate . x >= rate_min.
RatioBound BoundRatio(
    const RatioProblem& problem,
    const RatioStart& start = {},
    double enough = std::numeric_limits<double>::infinity());

}  // namespace ps::provisioner
