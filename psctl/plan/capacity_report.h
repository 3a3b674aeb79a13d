#pragma once

#include <string>
#include <vector>

#include "provisioner/planner/planner.h"
#include "ps/base/status.h"
#include "ps/proto/files/plan.h"
#include "psctl/traces/replay_trace.h"
#include "run/planning/planning.h"

namespace ps::psctl {

// What `psctl plan --capacity` says of a chosen fleet.

/// How many spot machines of a type could be had over time.
struct CapacityTrace {
  std::string type;
  AvailabilityTrace trace;
};

/// Reads what --capacity names, with --unit and --gaps. Errors: kInvalidArgument, and what files
/// that can't be read say.
Result<std::vector<CapacityTrace>> ReadCapacity(const run::PlanCommand& command);

/// Adds what the fleet comes to along the traces, and what each further type with a trace would add
/// where its machines stand in for those that lack. Errors: kInvalidArgument (a type that is not on
/// offer as spot; a trace that ends before the plan does).
Status AddCapacity(
    const std::vector<CapacityTrace>& traces,
    const run::Planning& planning,
    const provisioner::FleetChoice& choice,
    proto::Plan* plan);

}  // namespace ps::psctl
