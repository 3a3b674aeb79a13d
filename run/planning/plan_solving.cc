// Plans as they are asked for: the goal and the limits of a request, and the search for its fleet.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/infeasible.h"
#include "provisioner/planner/objective.h"
#include "provisioner/planner/planner.h"
#include "provisioner/strategies/lifetimes.h"
#include "provisioner/strategies/revocable_objective.h"
#include "provisioner/strategies/revocable_plan.h"
#include "ps/base/text.h"
#include "run/planning/plan_arguments.h"
#include "run/planning/planning.h"

namespace ps::run {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Where the run is that goes on.
Status ParseProgress(const PlanCommand& command, Planning* planning) {
  provisioner::Goal& goal = planning->input.setup.goal;
  if (!command.has_from_loss) {
    return command.has_steps_done || !command.done_by.empty()
               ? Status::InvalidArgument(
                     "--steps-done and --done-by are of a run on its way: say with --from-loss "
                     "which loss it is down to")
               : Status::Ok();
  }
  if (!(command.from_loss > 0 && std::isfinite(command.from_loss))) {
    return Status::InvalidArgument("--from-loss wants a loss above 0, as in --from-loss 0.9");
  }
  if (command.from_loss <= command.common.loss) {
    return Status::InvalidArgument(fmt::format(
        "the run is down to {:g} by --from-loss, so --loss {:g} is met already: ask for less",
        command.from_loss,
        command.common.loss));
  }
  goal.loss_now = command.from_loss;
  if (command.has_steps_done) {
    if (!(command.steps_done >= 1 && std::isfinite(command.steps_done))) {
      return Status::InvalidArgument("--steps-done wants a number from 1 on, as in 5200");
    }
    goal.steps_done = command.steps_done;
    PS_ASSIGN(planning->done_by, ParseTypeCounts("--done-by", command.done_by));
    if (planning->done_by.empty()) {
      planning->done_by = planning->input.setup.held;
    }
    if (planning->done_by.empty()) {
      return Status::InvalidArgument(
          "--steps-done tells how fast the run gets on: say with --done-by, or --held, which "
          "fleet made them");
    }
  }
  return Status::Ok();
}

Status ParseGoal(const PlanCommand& command, Planning* planning) {
  provisioner::PlanSetup& setup = planning->input.setup;
  setup.goal.seconds_max = kInfinity;
  setup.goal.usd_max = kInfinity;
  const bool needs_loss = planning->objective != proto::Objective::kThroughputPerHour;
  if (needs_loss && command.common.loss == 0) {
    return Status::InvalidArgument("--loss wants the loss to reach, above 0, as in --loss 0.8");
  }
  if (!needs_loss) {
    setup.goal.usd_per_hour_max = command.usd_per_hour;
  }
  if (command.has_within) {
    PS_ASSIGN(setup.goal.seconds_max, ParseDuration("--within", command.within));
  }
  if (command.has_budget) {
    if (!(command.budget_usd > 0)) {
      return Status::InvalidArgument("--budget wants USD above 0, as in --budget 5");
    }
    setup.goal.usd_max = command.budget_usd;
  }
  provisioner::JobModelOptions& models = planning->input.models;
  PS_ASSIGN(models.instance_types, ParseTypes("--types", command.types));
  PS_ASSIGN(models.left_out, ParseTypes("--without", command.without));
  for (const std::string& type : models.left_out) {
    if (std::ranges::count(models.instance_types, type) > 0) {
      return Status::InvalidArgument(
          fmt::format("{} is named by --types and by --without: which is it?", Printable(type)));
    }
  }
  setup.left_out = models.left_out;
  PS_ASSIGN(setup.quotas, ParseTypeCounts("--quota", command.quotas));
  for (const provisioner::TypeCount& quota : setup.quotas) {
    if (quota.minibatch > 0) {
      return Status::InvalidArgument(fmt::format(
          "--quota is of a type, whatever its minibatch, as in {}={}",
          Printable(quota.instance_type),
          quota.count));
    }
  }
  PS_ASSIGN(setup.vcpu_quotas, ParseFamilyQuotas("--quota-vcpus", command.vcpu_quotas));
  PS_ASSIGN(setup.on_demand_quotas, ParseTypeCounts("--quota-on-demand", command.on_demand_quotas));
  if (!setup.on_demand_quotas.empty() &&
      (command.common.market == "on-demand" || command.strategy == "on-demand")) {
    return Status::InvalidArgument(
        "--quota-on-demand is of machines on demand beside spot ones; a plan on demand alone takes "
        "--quota");
  }
  PS_ASSIGN(setup.held, ParseHeld("--held", command.held));
  planning->outlook.held = setup.held;
  setup.may_drop_held = command.drops_held;
  if (command.drops_held && setup.held.empty()) {
    return Status::InvalidArgument(
        "--drop-held lets a plan do without what runs: say with --held which that is");
  }
  if (command.has_takeover) {
    PS_ASSIGN(setup.goal.takeover_s, ParseDuration("--takeover", command.takeover));
    if (setup.held.empty()) {
      return Status::InvalidArgument(
          "--takeover is what a change of the fleet costs: say with --held which one runs");
    }
  }
  PS_ASSIGN(setup.servers, ParseServerRanges("--servers", command.servers));
  setup.servers_run = command.servers_run;
  return ParseProgress(command, planning);
}

Status CheckStrategy(const std::string& name) {
  std::vector<std::string> known = {kDeepVmStrategy, kParcaeStrategy};
  for (const std::string_view strategy : provisioner::StrategyNames()) {
    known.emplace_back(strategy);
  }
  if (provisioner::MakeStrategy(name) != nullptr) {
    return Status::Ok();
  }
  const std::string nearest = NearestName(name, known);
  return Status::InvalidArgument(fmt::format(
      "unknown strategy '{}'; {}",
      Printable(name),
      nearest.empty() ? "there are: " + Join(known) : "did you mean '" + nearest + "'?"));
}

Status ParseObjective(const PlanCommand& command, Planning* planning) {
  const std::pair<const char*, proto::Objective> known[] = {
      {"cost", proto::Objective::kCost},
      {"time", proto::Objective::kTime},
      {"throughput-per-hour", proto::Objective::kThroughputPerHour}};
  const auto* const found =
      std::ranges::find_if(known, [&](const auto& one) { return one.first == command.objective; });
  if (found == std::end(known)) {
    return Status::InvalidArgument(fmt::format(
        "--objective wants cost, time or throughput-per-hour; got '{}'",
        Printable(command.objective)));
  }
  planning->objective = found->second;
  if (planning->objective != proto::Objective::kCost && command.strategy != "exact") {
    return Status::InvalidArgument(fmt::format(
        "--objective {} is planned by the strategy exact alone; leave out --strategy {}",
        command.objective,
        command.strategy));
  }
  if (planning->objective != proto::Objective::kThroughputPerHour) {
    return command.usd_per_hour == 0
               ? Status::Ok()
               : Status::InvalidArgument(
                     "--price-per-hour is of --strategy deepvm and of --objective "
                     "throughput-per-hour; other plans take --budget");
  }
  if (!(command.usd_per_hour > 0 && std::isfinite(command.usd_per_hour))) {
    return Status::InvalidArgument(
        "--objective throughput-per-hour wants --price-per-hour, USD above 0, as in "
        "--price-per-hour 3");
  }
  return command.has_within || command.has_budget
             ? Status::InvalidArgument(
                   "--within and --budget limit the way to a loss, which --objective "
                   "throughput-per-hour does not plan: leave them out, or take --objective time")
             : Status::Ok();
}

Status ParseOutlook(const PlanCommand& command, provisioner::OutlookSetup* outlook) {
  if (command.ignores_revocations && command.strategy != "exact") {
    return Status::InvalidArgument(fmt::format(
        "--ignore-revocations is of the strategies exact and parcae; {} does not look at "
        "revocations when it chooses, so leave it out",
        command.strategy));
  }
  if (!command.start_up.empty()) {
    PS_ASSIGN(outlook->start_up_s, ParseDurationOrZero("--start-up", command.start_up));
  }
  outlook->detect_s = command.detect_s;
  outlook->lifetimes = command.lifetimes;
  const std::vector<std::string> known = provisioner::PublishedLifetimeNames();
  if (command.lifetimes.empty() || std::ranges::count(known, command.lifetimes) > 0) {
    return Status::Ok();
  }
  return Status::InvalidArgument(fmt::format(
      "--lifetimes: none are published of '{}'; there are {}",
      Printable(command.lifetimes),
      Join(known)));
}

/// The strategy on-demand has a market of its own.
Status ChooseMarket(const PlanCommand& command, provisioner::PlanSetup* setup) {
  if (command.strategy != "on-demand") {
    return Status::Ok();
  }
  if (!command.common.market.empty() && command.common.market != "on-demand") {
    return Status::InvalidArgument(fmt::format(
        "--strategy on-demand plans without spot instances; leave out --market {}",
        Printable(command.common.market)));
  }
  setup->market = provisioner::MarketChoice::kOnDemand;
  return Status::Ok();
}

/// The longest that searches may take; what `effort_max` says when the user did not.
Status ParseEffort(const PlanCommand& command, Planning* planning, Duration* effort) {
  *effort = Duration::max();
  if (command.has_effort) {
    PS_ASSIGN(const double seconds, ParseDuration("--effort", command.effort));
    *effort = FromSeconds(seconds);
    planning->problem.effort_max = std::numeric_limits<uint64_t>::max();
  }
  return Status::Ok();
}

Result<provisioner::PlanAnswer> SolveWithout(
    const PlanCommand& command,
    const provisioner::PlanProblem& problem,
    proto::Objective objective) {
  switch (objective) {
    case proto::Objective::kTime:
      return provisioner::SolveForTime(problem);
    case proto::Objective::kThroughputPerHour:
      return provisioner::SolveForThroughput(problem);
    case proto::Objective::kCost:
      break;
  }
  return provisioner::MakeStrategy(command.strategy)->Solve(problem);
}

}  // namespace

bool CountsRevocations(const PlanCommand& command) {
  return command.strategy == "exact" && !command.ignores_revocations;
}

bool ChoosesByTraces(const PlanCommand& command) {
  return command.strategy == "exact" && !command.spot_traces.empty();
}

Status PreparePlan(const PlanCommand& command, Planning* planning, Duration* effort) {
  PS_TRY(CheckStrategy(command.strategy));
  if (!command.trace_path.empty() || !command.history.empty() || !command.at.empty()) {
    return Status::InvalidArgument(
        "--trace, --at and --history are of --strategy parcae; --capacity TYPE=TRACE says what a "
        "plan comes to on a trace, and psctl simulate what policies do");
  }
  PS_TRY(ParseObjective(command, planning));
  PS_TRY(ParseOutlook(command, &planning->outlook));
  PS_TRY(ChooseMarket(command, &planning->input.setup));
  PS_TRY(ParseGoal(command, planning));
  planning->measured = command.measured;
  planning->spot_traces = command.spot_traces;
  PS_TRY(PreparePlanning(command.common, planning));
  if (planning->problem.loss == nullptr && command.common.loss > 0) {
    return Status::InvalidArgument(fmt::format(
        "{}: no loss curve is fitted, so no time to a loss can be told; train the job for a while, "
        "or ask psctl predict for speeds",
        command.common.profile_path));
  }
  return ParseEffort(command, planning, effort);
}

Result<provisioner::PlanAnswer> SolveFor(
    const PlanCommand& command,
    const Planning& planning,
    const provisioner::PlanProblem& problem,
    proto::Objective objective) {
  if (!CountsRevocations(command)) {
    return SolveWithout(command, problem, objective);
  }
  PS_ASSIGN(
      const provisioner::CatalogLives known,
      provisioner::LivesOf(planning.catalog, problem, planning.outlook));
  if (!known.lives.HasLaw()) {
    return SolveWithout(command, problem, objective);
  }
  switch (objective) {
    case proto::Objective::kTime:
      return provisioner::SolveForTimeWithRevocations(problem, known.lives);
    case proto::Objective::kThroughputPerHour:
      return provisioner::SolveForThroughputWithRevocations(problem, known.lives);
    case proto::Objective::kCost:
      break;
  }
  return provisioner::SolveWithRevocations(
      *provisioner::MakeStrategy(command.strategy), problem, known.lives);
}

Result<provisioner::PlanAnswer> SolveProblem(
    const PlanCommand& command, const Planning& planning, const provisioner::PlanProblem& problem) {
  return SolveFor(command, planning, problem, planning.objective);
}

Result<provisioner::PlanAnswer> SolvePlan(const PlanCommand& command, Planning* planning) {
  if (command.strategy == "spotdnn") {
    provisioner::LimitSizesAsSpotDnn(planning->profile, &planning->problem);
  }
  PS_ASSIGN(provisioner::PlanAnswer answer, SolveProblem(command, *planning, planning->problem));
  const bool has_loss = planning->problem.goal.loss > 0;
  if (has_loss && planning->objective == proto::Objective::kThroughputPerHour &&
      !answer.best.empty()) {
    std::string why = provisioner::WhyNoTime(planning->problem, answer.best.front());
    return why.empty() ? Result<provisioner::PlanAnswer>(std::move(answer))
                       : Status::InvalidArgument(std::move(why));
  }
  if (has_loss) {
    provisioner::RefuseMetGoal(planning->problem, &answer);
  }
  return answer;
}

}  // namespace ps::run
