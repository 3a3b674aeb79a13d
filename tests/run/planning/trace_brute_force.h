#pragma once

#include <cstddef>
#include <vector>

#include "provisioner/planner/planner.h"
#include "ps/proto/files/plan.h"
#include "run/planning/capacity/spot_capacity.h"
#include "run/planning/capacity/trace_problem.h"

namespace ps::run {

// Fleets along traces, without bounds, caches or shared sums: what is there is looked up anew at
// each moment at which something may change. Of the code under test it shares the input alone.

/// What is given.
struct BruteTraces {
  const provisioner::PlanProblem& problem;
  std::vector<SpotPool> pools;
  PoolTimes times;
  double limit_s = 0;
  int windows = 0;  // at most
  std::vector<ZonedType> zoned = {};
  proto::Objective objective = proto::Objective::kCost;
};

/// A fleet in the mean of all windows.
struct BruteOutlook {
  provisioner::FleetChoice choice;
  double in_goal = 0;
  double reached = 0;
  double seconds = 0;
  double usd = 0;
  double revocations = 0;
};

BruteOutlook FollowBrutally(const BruteTraces& traces, const provisioner::FleetChoice& choice);

/// All fleets that there are and that get to the loss at all, in any order.
std::vector<BruteOutlook> AllBrutally(const BruteTraces& traces);

}  // namespace ps::run
