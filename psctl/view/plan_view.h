#pragma once

#include <string>

#include "provisioner/planner/planner.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/plan.h"

namespace ps::psctl {

struct PlanViewOptions {
  bool has_held = false;                // tell which of the fleet runs already and what is new
  std::string dropped = {};             // of what runs, with that; empty: nothing
  bool names_minibatches = false;       // of all workers: some type may be used with several
  size_t width_max = 0;                 // 0: as wide as it is
  std::vector<std::string> zoned = {};  // types whose zones are named
};

/// A plan or a prediction for people.
std::string RenderPlan(const proto::Plan& plan, const PlanViewOptions& options);

/// The reason and the nearest goals, a line each.
std::string RenderInfeasible(const provisioner::Infeasible& why, const provisioner::Goal& goal);

/// Every type on offer: its step alone and in the chosen fleet, its price, and how old that is.
std::string RenderExplanation(
    const proto::Catalog& catalog,
    const provisioner::PlanProblem& problem,
    const provisioner::FleetChoice& choice,
    size_t width_max);

/// "loss 0.8 within 40m 00s and 5.00 USD at 90 % confidence"
std::string GoalText(const proto::Plan& plan);

}  // namespace ps::psctl
