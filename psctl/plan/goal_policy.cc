#include "psctl/plan/goal_policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "provisioner/planner/memory_fit.h"
#include "provisioner/profile/local_steps.h"
#include "ps/base/text.h"
#include "ps/proto/messages.h"
#include "run/planning/goal_policy.h"
#include "run/planning/plan_arguments.h"

namespace ps::psctl {
namespace {

constexpr double kLossMax = 1e6;
constexpr int kHalvings = 60;

/// The job with workers of that type alone, as many as it begins with.
proto::JobConfig ConfigOfOneType(const SimulateCommand& command, const proto::JobConfig& config) {
  proto::JobConfig one = config;
  proto::WorkerGroup group = config.workers.empty() ? proto::WorkerGroup() : config.workers.front();
  group.count = 0;
  for (const proto::WorkerGroup& some : config.workers) {
    group.count += some.type == command.type || some.type.empty() ? some.count : 0;
  }
  group.count = std::max(group.count, 1U);
  group.type = command.type;
  one.workers = {std::move(group)};
  one.goal.profile = command.profile_path;
  one.goal.catalog = command.catalog_path;
  return one;
}

}  // namespace

/// Looks whenever it is asked, and asks the planner as psctl train does: see replan.h.
class SimulatedGoal::Policy final : public provisioner::FleetPolicy {
 public:
  Policy(const SimulatedGoal& goal, const provisioner::SimulatedJob& job)
      : goal_(goal),
        job_(job),
        type_(goal.config_.workers.front().type),
        policy_(goal.config_, "", {goal.servers_}),
        wanted_(std::min(goal.config_.workers.front().count, job.workers_max())) {}

  std::string_view name() const override { return kGoalPolicy; }

  provisioner::FleetWish Decide(const provisioner::FleetView& view) override {
    // Those that are wanted and held no more.
    revocations_ += seen_spot_ - std::min({view.spot, seen_spot_, wanted_});
    const proto::PolicyView seen = {.status = StatusFor(view)};
    const proto::FleetDecision decision = policy_.Look(seen);
    Note(decision.wants_newer_view ? policy_.Look(seen) : decision);
    seen_spot_ = std::min(view.spot, wanted_);
    return {.spot = std::min(wanted_, view.available), .on_demand = 0};
  }

  provisioner::PolicyReason Explain() const override {
    return {.why = why_, .forecast = {}, .worth_of = "", .alternatives = {}};
  }

 private:
  proto::JobStatus StatusFor(const provisioner::FleetView& view) const {
    proto::JobStatus status;
    status.state = proto::RunState::kTraining;
    const double steps = view.samples / goal_.step_samples_;
    status.steps_counted =
        static_cast<uint64_t>(steps / std::max(goal_.config_.train.local_steps, 1U));
    status.train_loss = steps > 0 ? goal_.LossAfter(steps) : 0;
    status.elapsed_s = view.now_s;
    status.samples_per_s = job_.samples_per_s[std::min(view.spot_working, job_.workers_max())];
    status.revocations_unnoticed = revocations_;
    status.fleet = {{type_, wanted_, view.spot_working}};
    status.servers.count = goal_.config_.servers.count;
    return status;
  }

  void Note(const proto::FleetDecision& decision) {
    why_ = decision.why.empty() ? why_ : decision.why;
    for (const proto::ScaleChange& change : decision.changes) {
      if (change.type == type_) {
        wanted_ = std::min(static_cast<uint32_t>(std::max(change.count, 0)), job_.workers_max());
      }
    }
  }

  const SimulatedGoal& goal_;
  const provisioner::SimulatedJob& job_;
  const std::string type_;
  run::GoalPolicy policy_;
  uint32_t wanted_;  // whether or not so many can be had
  uint32_t seen_spot_ = 0;
  uint64_t revocations_ = 0;
  std::string why_ = "the fleet that the job begins with";
};

Result<std::unique_ptr<SimulatedGoal>> SimulatedGoal::Make(
    const SimulateCommand& command, const proto::JobConfig& config, uint32_t workers) {
  if (command.profile_path.empty()) {
    return Status::InvalidArgument(
        "the policy 'goal' asks the planner, which needs a --profile, with --type and --ps");
  }
  // The constructor is private.
  std::unique_ptr<SimulatedGoal> made(new SimulatedGoal(ConfigOfOneType(command, config)));
  SimulatedGoal& goal = *made;
  goal.servers_ = command.servers;
  PS_ASSIGN(const auto servers, run::ParseServerRanges("--ps", {command.servers}));
  goal.config_.servers.count = static_cast<uint32_t>(servers.front().hosts_min);
  goal.planning_.input.setup.servers = servers;
  goal.planning_.input.setup.goal.seconds_max = std::numeric_limits<double>::infinity();
  goal.planning_.input.setup.goal.usd_max = std::numeric_limits<double>::infinity();
  goal.planning_.input.models.instance_types = {command.type};
  run::PlanningCommand plan;
  plan.profile_path = command.profile_path;
  plan.catalog_path = command.catalog_path;
  plan.loss = static_cast<double>(config.goal.loss);
  plan.market = "both";
  const proto::ExchangeScheme scheme = provisioner::SchemeOf(config);
  plan.local_steps = scheme.local_steps;
  plan.push = scheme.push;
  plan.pull = scheme.pull;
  PS_TRY(run::PreparePlanning(plan, &goal.planning_));
  const provisioner::PlanProblem& problem = goal.planning_.problem;
  PS_TRY(provisioner::CheckServerMemory(
      problem.servers.front(), static_cast<int>(workers), servers.front().hosts_min));
  if (problem.loss == nullptr) {
    return Status::InvalidArgument(fmt::format(
        "{} has no loss curve, so nothing is known of the way to goal.loss",
        Printable(command.profile_path)));
  }
  std::vector<int> counts(problem.speed->classes().size(), 0);
  counts.front() = static_cast<int>(workers);
  const provisioner::ServerSide side = {
      servers.front().hosts_min, problem.servers.front().link_bytes_per_s};
  goal.largest_ =
      provisioner::TraitsOf(problem.speed->Predict(counts, side), static_cast<int>(workers));
  goal.step_samples_ = problem.speed->classes().front().samples;
  goal.steps_wanted_ = problem.loss->StepsTo(plan.loss, goal.largest_);
  if (!std::isfinite(goal.steps_wanted_)) {
    return Status::InvalidArgument(fmt::format(
        "goal.loss {:.4g} is never reached; the profile's loss falls to {:.4g}",
        plan.loss,
        problem.loss->floor()));
  }
  return made;
}

double SimulatedGoal::LossAfter(double steps) const {
  const provisioner::LossModel& model = *planning_.problem.loss;
  double low = static_cast<double>(config_.goal.loss);
  double high = kLossMax;
  if (model.StepsTo(low, largest_) <= steps) {
    return low;
  }
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = std::sqrt(low * high);
    (model.StepsTo(middle, largest_) > steps ? low : high) = middle;
  }
  return high;
}

std::unique_ptr<provisioner::FleetPolicy> SimulatedGoal::MakePolicy(
    const provisioner::SimulatedJob& job) const {
  return std::make_unique<Policy>(*this, job);
}

}  // namespace ps::psctl
