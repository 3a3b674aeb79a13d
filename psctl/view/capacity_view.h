#pragma once

#include <string>

#include "ps/proto/files/plan.h"
#include "psctl/view/plan_view.h"

namespace ps::psctl {

/// What a plan's fleet and others come to along traces of spot machines, and the fleet over time.
/// Requires: plan.capacity has a row.
std::string RenderCapacity(const proto::Plan& plan, const PlanViewOptions& options);

}  // namespace ps::psctl
