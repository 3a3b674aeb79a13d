#pragma once

#include "run/planning/plan_request.h"
#include "run/report/console.h"

namespace ps::psctl {

/// `psctl plan --strategy deepvm`: the three fleets with the most operations for a dollar within a
/// price of an hour. It needs a catalog and no profile. Returns the exit code, as RunPlan.
int RunDeepVmPlan(const run::PlanCommand& command, const run::Console& console);

}  // namespace ps::psctl
