#pragma once

#include "ps/base/status.h"
#include "ps/proto/messages.h"
#include "run/directory/run_directory.h"
#include "run/planning/plan_request.h"
#include "run/planning/run_facts.h"

namespace ps::run {

/// The config that the run was started with. Errors: kNotFound, kInvalidArgument.
Result<proto::JobConfig> ConfigOfRun(const RunPaths& run);

/// `psctl plan --run`: what the flags do not say, from the run and its job's goal: loss, limits
/// less what is used up, steps, fleet, measured speeds, profile and catalog. Errors: of the run or
/// its files; kInvalidArgument when nothing is left to plan.
Result<PlanCommand> FillFromRun(const PlanCommand& command, const RunPaths& run);

/// The same for a job of that config that is where `facts` say.
Result<PlanCommand> FillFromFacts(
    const PlanCommand& command, const RunFacts& facts, const proto::JobConfig& config);

}  // namespace ps::run
