#pragma once

#include <string>
#include <vector>

#include "provisioner/planner/plan_setup.h"
#include "provisioner/planner/planner.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/plan.h"
#include "ps/proto/files/profile.h"

namespace ps::provisioner {

/// What a plan was made of; everything that a change can be tried on. Points at its owner's values.
struct PlanInput {
  const proto::Catalog* catalog = nullptr;
  const proto::JobProfile* profile = nullptr;
  JobModelOptions models;
  PlanSetup setup;
};

/// One more worker of each class, one more server host, twice the servers' network, twice the
/// workers' and twice the PCIe, each with all else as it is. Requires: a problem with a loss model,
/// made of `input`.
std::vector<proto::PlanGain> WhatMoreBuys(
    const PlanInput& input, const PlanProblem& problem, const FleetChoice& choice);

/// For every quota that the choice uses up, the best plan with one more; only what saves something.
std::vector<proto::PlanQuota> WhatQuotaBuys(const PlanProblem& problem, const FleetChoice& choice);

/// "quota" when one that is used up costs money and compute is what limits; else the fleet's.
std::string BindingBottleneck(
    const FleetChoice& choice, const std::vector<proto::PlanQuota>& quotas);

}  // namespace ps::provisioner
