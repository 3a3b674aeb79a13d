#pragma once

#include <string>

#include "provisioner/planner/planner.h"
#include "ps/base/status.h"
#include "ps/proto/catalog.h"
#include "ps/proto/plan.h"

namespace ps::provisioner {

struct OutlookSetup {
  double start_up_s = 120;  // from a revocation until the successor's machine is up
  // Published ones (PublishedLifetimeNames) for types without any in the catalog; empty: none.
  std::string lifetimes = {};
};

/// What revocations do to a fleet until its loss, in the mean: worker-seconds are conserved, each
/// worker at the speed that it has in the whole fleet (ExpectRun). Machines are new when it begins.
/// Without a loss or without any lifetimes there is nothing but the types that lack them. Requires:
/// a problem made of `catalog`. Errors: kInvalidArgument (no such published lifetimes, numbers
/// below 0), kNotFound (revocations make it ten times as long).
Result<proto::PlanRevocations> ExpectRevocations(
    const proto::Catalog& catalog,
    const PlanProblem& problem,
    const FleetChoice& choice,
    const OutlookSetup& setup);

}  // namespace ps::provisioner
