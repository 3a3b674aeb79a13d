#pragma once

#include <optional>
#include <string>
#include <vector>

#include "provisioner/planner/replan.h"
#include "ps/base/status.h"
#include "ps/proto/fleet_policy.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/messages.h"
#include "run/planning/market_prices.h"

namespace ps::run {

provisioner::ReplanSettings SettingsOf(const proto::GoalConfig& goal);

/// All but the catalog's mark. Requires: the job has a goal.
provisioner::ReplanFacts ReplanFactsOf(
    const proto::JobStatus& status, const proto::JobConfig& config);

/// What the planner says of what is left of such a run, to go on with the fleet that is wanted or
/// with another one of the job's types. `servers`: "TYPE=N", where somebody knows. `prices`: of
/// now, instead of the catalog's. `watch` may end it early; null: nobody does. Errors: of the
/// profile or the catalog, or there is nothing left to plan.
Result<provisioner::ReplanAnswer> AskPlanner(
    const proto::JobStatus& status,
    const proto::JobConfig& config,
    const std::vector<std::string>& servers,
    const std::string& today,
    provisioner::SearchWatch* watch,
    const std::vector<proto::MarketPrice>& prices = {});

/// Plans a job with a goal anew while it goes on: at its begin, when workers were revoked, when
/// somebody wants another fleet, when prices have changed, and when the speed is not as predicted.
class GoalPolicy final : public proto::FleetPolicy {
 public:
  /// `today` as "2026-07-20"; empty: nobody changes the catalog meanwhile. `servers` as AskPlanner.
  GoalPolicy(proto::JobConfig config, std::string today, std::vector<std::string> servers = {});

  proto::Asker asker() const override { return proto::Asker::kPlan; }

  double look_every_s() const override;
  /// Asks the planner where that is due, and holds its answer against the next view.
  proto::FleetDecision Look(const proto::PolicyView& view) override;

 private:
  proto::FleetDecision Plan(const proto::PolicyView& view);
  proto::FleetDecision Decide(const provisioner::ReplanFacts& facts);

  const proto::JobConfig config_;
  const std::string today_;
  const std::vector<std::string> servers_;
  provisioner::Replanner replanner_;
  PriceWatch market_;
  std::optional<provisioner::ReplanAnswer> answer_;  // that is not decided about yet
  std::string last_trouble_;
};

}  // namespace ps::run
