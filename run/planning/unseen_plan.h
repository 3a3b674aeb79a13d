#pragma once

#include <string>

#include "provisioner/planner/planner.h"
#include "ps/base/status.h"
#include "run/planning/planning.h"

namespace ps::run {

// Plans with types of machines on which the job was not measured.

/// Puts reckoned figures of them into the planning's profile and options, if the command asks for
/// them. Errors: kInvalidArgument, kNotFound.
Status UseUnseen(const PlanningCommand& command, Planning* planning);

/// A note for each type of the plan that was reckoned.
void AddUnseenNotes(const Planning& planning, proto::Plan* plan);

/// A type that is worth a profile, and by what.
struct NextProfile {
  std::string instance_type;
  double usd = 0;    // that knowing its speed is expected to save
  double share = 0;  // of the plan's price
};

/// Where the choice depends most on what is not known: of each type that may be worth it, the fleet
/// is chosen again as if it were as fast, and as slow, as it may be, and what the choice before
/// costs more then is its worth. A choice that misses its goal then costs all of the better one. Of
/// at most kTypesTried types, those with the most samples for a dollar if they are fast. Empty:
/// nothing of it would change the choice by 1 %, no type was reckoned, or the plan isn't chosen by
/// its price.
NextProfile NextToProfile(
    const PlanCommand& command, const Planning& planning, const provisioner::FleetChoice& choice);

inline constexpr size_t kTypesTried = 6;

}  // namespace ps::run
