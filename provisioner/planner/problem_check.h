#pragma once

#include "provisioner/planner/planner.h"
#include "ps/base/status.h"

namespace ps::provisioner {

/// What every strategy looks at before it searches: goal, offers, what runs already, and servers.
/// Errors: kInvalidArgument for a problem that makes no sense, with what is wrong with it.
Status CheckProblem(const PlanProblem& problem);

}  // namespace ps::provisioner
