#pragma once

#include <string>

#include "psctl/cli/command.h"
#include "run/planning/plan_request.h"
#include "run/report/console.h"

namespace ps::psctl {

/// Each returns the exit code: 0 a plan, 1 no fleet meets the goal or the strategy's own one does
/// not, 2 misused. `today` as "2026-07-20", for the age of prices.
int RunPlan(const run::PlanCommand& command, const std::string& today, const run::Console& console);
int RunPredict(
    const run::PredictCommand& command, const std::string& today, const run::Console& console);

extern const Command kPlan;
extern const Command kPredict;

}  // namespace ps::psctl
