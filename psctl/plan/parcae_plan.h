#pragma once

#include "run/planning/plan_request.h"
#include "run/report/console.h"

namespace ps::psctl {

/// `psctl plan --strategy parcae`: how many workers of one type to hold for the next interval, by
/// the counts of machines until now, with the forecast, the liveput and the alternatives. Returns
/// the exit code, as RunPlan.
int RunParcaePlan(const run::PlanCommand& command, const run::Console& console);

}  // namespace ps::psctl
