#pragma once

#include <cstddef>
#include <optional>

#include "run/planning/capacity/trace_problem.h"

namespace ps::run {

/// Another fleet with a pool that the first one does not use.
struct Addition {
  size_t pool = 0;
  int added = 0;    // of that pool
  int taken = 0;    // of `from`, in exchange; 0: nothing
  size_t from = 0;  // offer
  FollowedFleet fleet;
};

/// What a further pool would add: of the fleets that have machines of one pool more, beside or in
/// the place of those of one offer, the cheapest that keeps the goal at its confidence and more
/// likely than `fleet`; where none does, the one that most likely does, to a thousandth. Nothing:
/// no pool is left, or none of it fits.
std::optional<Addition> BestAddition(const TraceProblem& traces, const FollowedFleet& fleet);

}  // namespace ps::run
