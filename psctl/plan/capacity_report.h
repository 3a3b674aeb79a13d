#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "provisioner/planner/planner.h"
#include "ps/base/status.h"
#include "ps/proto/files/plan.h"
#include "run/planning/capacity/capacity_choice.h"
#include "run/planning/capacity/spot_capacity.h"
#include "run/planning/planning.h"

namespace ps::psctl {

// `psctl plan --capacity`: fleets along traces of the spot machines that could be had.

/// Reads what --capacity names, with --unit and --gaps. Errors: kInvalidArgument (among them a plan
/// without --within and --budget, as there is nothing to keep), and what files that can't be read
/// say.
Result<std::vector<run::SpotTrace>> ReadCapacity(const run::PlanCommand& command);

/// What a plan's traces tell.
struct TracedPlan {
  std::unique_ptr<run::SpotCapacity> capacity;  // null: the plan has no traces
  std::optional<run::TraceAnswer> chosen;       // none: by a strategy that does not look at them
  // What is chosen without them; none: that takes more of a type in its zones than its quota.
  std::optional<provisioner::FleetChoice> without;

  /// No fleet keeps the goal along the traces at its confidence.
  bool IsMissed() const { return chosen && !chosen->is_kept; }
};

/// Lets `exact` choose by the command's traces: `answer`, which has a fleet, is that without them.
/// Errors: kInvalidArgument (a type that is not on offer, a trace that is too short, an objective
/// without a goal).
Result<TracedPlan> FollowTraces(
    const run::PlanCommand& command,
    const run::Planning& planning,
    provisioner::PlanAnswer* answer);

/// Adds what the fleet comes to along the traces, what the one that is chosen without them does,
/// and what further types and zones would add.
void AddCapacity(
    const run::Planning& planning,
    const TracedPlan& traced,
    const provisioner::FleetChoice& choice,
    proto::Plan* plan);

/// "no fleet keeps the goal along the traces at 90 %: this one most likely does, at 62 %".
/// Requires: IsMissed().
std::string MissedText(const TracedPlan& traced, double confidence);

}  // namespace ps::psctl
