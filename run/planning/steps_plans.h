#pragma once

#include <memory>
#include <string>
#include <vector>

#include "provisioner/planner/planner.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "run/planning/plan_request.h"
#include "run/planning/planning.h"

namespace ps::run {

// How many minibatches workers make by themselves (train.local_steps), chosen together with the
// fleet: a plan for each number, and the best of them.

/// The plan with one number of local steps.
struct StepsPlan {
  std::unique_ptr<Planning> planning;
  provisioner::PlanAnswer answer;
  // What the objective compares, with revocations where the strategy counts them: USD, seconds, or
  // seconds for a sample of the profile's worth. Infinity without a fleet.
  double score = 0;

  int local_steps() const { return planning->problem.local_steps; }
};

/// The numbers that come into question, the least first: powers of two and some that are common, up
/// to the command's most, with the job's own. Above the job's own only such whose penalty was
/// measured; `note` says which are left out for that. One for strategies that know no others, and
/// for a run that has its own. Requires: PreparePlan of `planning` was OK. Errors:
/// kInvalidArgument.
Result<std::vector<int>> LocalStepsToTry(
    const PlanCommand& command, const Planning& planning, std::string* note);

/// Solves with each number of LocalStepsToTry, the best first; of equals the fewest local steps.
/// Each plan is the strategy's own, so the first one is as certain as the least certain of them
/// (its answer says so). `prepared`: by PreparePlan with the same command. `watch` sees all
/// searches. Errors: as PreparePlan and SolvePlan.
Result<std::vector<StepsPlan>> SolveForSteps(
    const PlanCommand& command,
    std::unique_ptr<Planning> prepared,
    provisioner::SearchWatch* watch);

/// Why the first of several is the best, and by how much: "local steps 50 of 1, 2, ...". Empty for
/// one. Requires: the first has a fleet.
std::string StepsReason(const PlanCommand& command, const std::vector<StepsPlan>& plans);

}  // namespace ps::run
