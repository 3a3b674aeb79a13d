#pragma once

#include "provisioner/planner/exact/region.h"
#include "provisioner/planner/fleet_judge.h"

namespace ps::provisioner {

/// Puts good fleets into the list before the search begins, so that it can prune: where bounds are
/// loose, the relaxation's own fleets seldom meet the goal. For every server side workers are added
/// one by one, later several at once, those that speed up most for their price, until the goal is
/// met or that takes too long; then single workers are exchanged or dropped while that makes the
/// fleet cheaper.
void FindFirstFleets(const ExactBasis& basis, FleetJudge* judge, BestFleets* best);

}  // namespace ps::provisioner
