#pragma once

#include "provisioner/planner/planner.h"

namespace ps::provisioner {

// What "exact" chooses when it is not to be the cheapest.

/// The fleet that is soonest at the loss, within the goal's limits, and the cheapest of those that
/// are equally soon. Times are those that fleets keep at the goal's confidence. One answer, with
/// the certainty of the searches that found no faster one. Errors: as Strategy::Solve's.
Result<PlanAnswer> SolveForTime(const PlanProblem& problem);

/// The fleet that makes most samples/s, as expected, of those whose hour costs at most
/// `goal.usd_per_hour_max`. Neither loss nor the other limits matter. Where the problem has a loss
/// model and a loss, the answer says what the fleet takes to it, else its steps, seconds and usd
/// are 0. Errors: as above, and kInvalidArgument without a limit.
Result<PlanAnswer> SolveForThroughput(const PlanProblem& problem);

/// The problem whose fastest fleet is SolveForThroughput's: a number of samples is to be made, in
/// whatever steps. Errors: as above.
Result<PlanProblem> SamplesProblem(const PlanProblem& problem);

/// The fleet of that problem with its figures in `problem`, 0 where it has no loss to reach.
FleetChoice OfProblem(const PlanProblem& problem, const FleetChoice& of_samples);

}  // namespace ps::provisioner
