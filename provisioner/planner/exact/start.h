#pragma once

#include <span>

#include "provisioner/planner/exact/region.h"
#include "provisioner/planner/fleet_judge.h"

namespace ps::provisioner {

/// Puts good fleets into the list before the search begins, so that it can prune: where bounds are
/// loose, the relaxation's own fleets seldom meet the goal. For every server side it adds the
/// workers that speed up most for their price, first one by one, later several at once, until the
/// fleet meets the goal or the effort is used up. Then it exchanges or drops single workers while
/// that makes the fleet cheaper. `servers`: indices of the basis's server sides, the most promising
/// first; the effort may not last for all of them.
void FindFirstFleets(
    const ExactBasis& basis, std::span<const int> servers, FleetJudge* judge, BestFleets* best);

}  // namespace ps::provisioner
