#pragma once

#include "provisioner/planner/planner.h"
#include "ps/base/status.h"
#include "ps/proto/files/plan.h"
#include "run/planning/plan_request.h"
#include "run/planning/planning.h"

namespace ps::psctl {

/// The best fleet of an answer beside what else there is: the next best, the one on demand, what
/// quotas cost, slower or cheaper ones, and what prices twice as high would change. Requires:
/// `answer` has one.
proto::Plan ComparedPlan(
    const run::PlanCommand& command,
    const run::Planning& planning,
    const provisioner::PlanAnswer& answer);

}  // namespace ps::psctl
