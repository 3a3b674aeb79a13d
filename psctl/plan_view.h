#pragma once

#include <optional>
#include <string>
#include <vector>

#include "provisioner/plan_report.h"
#include "provisioner/planner.h"
#include "provisioner/sensitivity.h"
#include "ps/proto/catalog.h"
#include "ps/proto/plan.h"

namespace ps::psctl {

/// Everything that `psctl plan` and `psctl predict` say about a fleet.
struct PlanView {
  proto::Plan plan;
  std::string fleet;
  std::string servers;
  double server_busy = 0;
  bool has_held = false;                 // tell what of the fleet runs already and what is new
  std::vector<std::string> notes;        // one line each, at the end
  std::vector<provisioner::Gain> gains;  // empty: not shown
  std::vector<provisioner::QuotaGain> quotas;  // that would save something

  struct Alternative {
    std::string fleet;
    std::string servers;
    proto::Plan plan;
  };

  std::vector<Alternative> next_best;
  std::optional<Alternative> on_demand;
};

std::string RenderPlan(const PlanView& view, size_t width_max);

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
