#pragma once

#include <string>

#include "provisioner/profile/plan_run.h"
#include "provisioner/profile/profile_merge.h"

namespace ps::run {

// What a run came to, beside the plan and the profile that it had.

/// "speed  predicted 812/s (770 to 850)  measured 803/s  +1.1 %", one line each.
std::string RenderPlanOutcome(const provisioner::PlanOutcome& outcome);
/// A JSON object.
std::string PlanOutcomeToJson(const provisioner::PlanOutcome& outcome);

/// A line or two about the file at `path`.
std::string RenderRefinement(const std::string& path, const provisioner::Refinement& refinement);

}  // namespace ps::run
