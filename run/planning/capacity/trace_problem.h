#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "provisioner/planner/planner.h"
#include "ps/proto/files/plan.h"
#include "run/planning/capacity/spot_capacity.h"

namespace ps::run {

// A problem whose spot machines can't always be had.

/// A fleet with what it comes to along the traces.
struct FollowedFleet {
  provisioner::FleetChoice choice;
  CapacityOutlook outlook;
};

/// Offers of one type in several zones, whose machines count for one quota.
struct ZonedType {
  std::vector<size_t> offers;
  int quota = 0;
};

struct TraceProblem {
  const provisioner::PlanProblem& problem;
  const SpotCapacity& capacity;
  proto::Objective objective = proto::Objective::kCost;  // or kTime
  std::vector<ZonedType> zoned = {};
  // Up to so many fleets are all looked at; of more, those that searches without the traces find.
  double all_most = 5'000;
  uint64_t followed_most = 3'000;
};

/// The problem, with no more of an offer than could ever be had, or runs.
provisioner::PlanProblem Narrowed(const TraceProblem& traces);

/// Machines of these offers.
int SumOf(const std::vector<size_t>& offers, const std::vector<int>& counts);

/// Whether zones of a type take no more together than its quota.
bool KeepsQuotas(const std::vector<ZonedType>& zoned, const std::vector<int>& counts);

/// Whether neither zones nor minibatches of a type take more than there is of it.
bool SharesWell(const TraceProblem& traces, const std::vector<int>& counts);

}  // namespace ps::run
