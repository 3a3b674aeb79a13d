#pragma once

#include <string_view>

#include "provisioner/planner.h"

namespace ps::provisioner {

/// Why `strategy` found no plan, and the nearest goals that can be met. Requires: a problem that
/// CheckProblem accepts.
Infeasible ExplainInfeasible(const PlanProblem& problem, std::string_view strategy);

/// The exact search alone: no reasons when nothing is found. With a gap, the answer may cost that
/// share more than the optimum. Requires: as above.
PlanAnswer SolveExactly(const PlanProblem& problem, double gap);

}  // namespace ps::provisioner
