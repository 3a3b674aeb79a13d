#pragma once

#include <optional>
#include <string>
#include <vector>

#include "provisioner/planner/plan_setup.h"
#include "provisioner/planner/planner.h"
#include "provisioner/strategies/revocable_plan.h"
#include "ps/base/status.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/plan.h"

namespace ps::provisioner {

struct OutlookSetup {
  // Until a machine that falls silent counts as lost: fleet.max_detect_s of the job.
  double detect_s = 0;
  // From asking for a successor until its machine is up, whatever the catalog says of the type.
  std::optional<double> start_up_s = {};
  // Published ones (PublishedLifetimeNames) for types without any in the catalog; empty: none.
  std::string lifetimes = {};
  // What runs already, with the ages of its machines; the setup's.
  std::vector<TypeCount> held = {};
};

inline constexpr double kStartUpS = 120;  // of a type of which the catalog does not say it

/// The lives of a problem's offers, and where that is known from.
struct CatalogLives {
  FleetLives lives;
  std::vector<std::string> from;  // by offer; empty: it stays, or nothing is known
};

/// Requires: a problem made of `catalog`. Errors: kInvalidArgument (no such published lifetimes).
Result<CatalogLives> LivesOf(
    const proto::Catalog& catalog, const PlanProblem& problem, const OutlookSetup& setup);

/// What revocations do to a fleet, in the mean: until its loss, where worker-seconds are conserved,
/// each worker at the speed that it has in the whole fleet (ExpectRun), and over its next hours
/// (FleetHours). Machines that are not held with an age are new when it begins. Without any
/// lifetimes there is nothing but the types that lack them. Requires:
/// a problem made of `catalog`. Errors: kInvalidArgument (no such published lifetimes, numbers
/// below 0), kNotFound (revocations make it ten times as long).
Result<proto::PlanRevocations> ExpectRevocations(
    const proto::Catalog& catalog,
    const PlanProblem& problem,
    const FleetChoice& choice,
    const OutlookSetup& setup);

}  // namespace ps::provisioner
