#pragma once

#include <string>
#include <vector>

#include "provisioner/plan_setup.h"
#include "provisioner/planner.h"
#include "ps/proto/catalog.h"
#include "ps/proto/profile.h"

namespace ps::provisioner {

/// What a plan was made of; everything that a change can be tried on. Points at its owner's values.
struct PlanInput {
  const proto::Catalog* catalog = nullptr;
  const proto::JobProfile* profile = nullptr;
  JobModelOptions models;
  PlanSetup setup;
};

/// What a fleet would do with more of something.
struct Gain {
  std::string change;      // "one more g4dn.4xlarge", "twice the servers' network"
  double speed_share = 0;  // samples/s gained, as a share
  double seconds = 0;      // then
  double usd = 0;
};

/// One more worker of each class, one more server host, twice the servers' network, twice the
/// workers' and twice the PCIe, each with all else as it is. Requires: a problem with a loss model,
/// made of `input`.
std::vector<Gain> WhatMoreBuys(
    const PlanInput& input, const PlanProblem& problem, const FleetChoice& choice);

/// What raising a quota that is used up would save.
struct QuotaGain {
  std::string instance_type;
  double usd = 0;  // of the best plan with one more allowed
};

/// For every quota that the choice uses up, the best plan with one more; only what saves something.
std::vector<QuotaGain> WhatQuotaBuys(const PlanProblem& problem, const FleetChoice& choice);

/// "quota" when one that is used up costs money and compute is what limits; else the fleet's.
std::string BindingBottleneck(const FleetChoice& choice, const std::vector<QuotaGain>& quota_gains);

}  // namespace ps::provisioner
