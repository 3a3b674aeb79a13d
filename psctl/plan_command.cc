#include "psctl/plan_command.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/report/plan_report.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "psctl/plan_arguments.h"
#include "psctl/plan_view.h"
#include "psctl/planning.h"

namespace ps::psctl {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kPlotWorkersMax = 32;

/// The cost of the same goal without spot instances, within the budget or beyond it.
std::optional<proto::PlanAlternative> OnDemandOf(const Planning& planning) {
  provisioner::PlanSetup setup = planning.input.setup;
  setup.market = provisioner::MarketChoice::kOnDemand;
  setup.goal.usd_max = kInfinity;
  setup.held.clear();  // they are rented as spot
  Result<provisioner::PlanProblem> problem =
      provisioner::MakePlanProblem(planning.catalog, planning.models, setup);
  if (!problem.ok()) {
    return std::nullopt;
  }
  const Result<provisioner::PlanAnswer> answer =
      provisioner::MakeStrategy("on-demand")->Solve(*problem);
  if (!answer.ok() || answer->best.empty()) {
    return std::nullopt;
  }
  return AlternativeOf(*problem, planning.profile, answer->best.front(), "on demand");
}

/// The chosen plan beside what else there is.
proto::Plan ComparedPlan(
    const PlanCommand& command, const Planning& planning, const provisioner::PlanAnswer& answer) {
  const provisioner::FleetChoice& choice = answer.best.front();
  proto::Plan plan = PlanOf(planning, choice, command.strategy);
  plan.quotas = provisioner::WhatQuotaBuys(planning.problem, choice);
  plan.bottleneck = provisioner::BindingBottleneck(choice, plan.quotas);
  for (size_t i = 1; i < answer.best.size(); ++i) {
    plan.alternatives.push_back(
        AlternativeOf(planning.problem, planning.profile, answer.best[i], "next best"));
  }
  if (planning.input.setup.market != provisioner::MarketChoice::kOnDemand) {
    if (std::optional<proto::PlanAlternative> on_demand = OnDemandOf(planning)) {
      plan.alternatives.push_back(*std::move(on_demand));
    }
  }
  if (!planning.models.not_profiled.empty()) {
    plan.notes.push_back(
        "left out, since the profile has no figures for them: " +
        Plural(planning.models.not_profiled.size(), "type") + " of the catalog");
  }
  plan.certainty = answer.certainty;
  if (answer.certainty == proto::Certainty::kBestFound && answer.usd_bound > 0) {
    plan.notes.push_back(
        "too many fleets to look at all: a cheaper one may exist, at no less than " +
        FormatUsd(answer.usd_bound) + " USD; offer fewer types for a proof");
  }
  return plan;
}

Status ParseGoal(const PlanCommand& command, Planning* planning) {
  provisioner::PlanSetup& setup = planning->input.setup;
  setup.goal.seconds_max = kInfinity;
  setup.goal.usd_max = kInfinity;
  if (!(command.common.loss > 0)) {
    return Status::InvalidArgument("--loss wants the loss to reach, above 0, as in --loss 0.8");
  }
  if (!command.within.empty()) {
    PS_ASSIGN(setup.goal.seconds_max, ParseDuration("--within", command.within));
  }
  if (command.has_budget) {
    if (!(command.budget_usd > 0)) {
      return Status::InvalidArgument("--budget wants USD above 0, as in --budget 5");
    }
    setup.goal.usd_max = command.budget_usd;
  }
  PS_ASSIGN(setup.quotas, ParseTypeCounts("--quota", command.quotas));
  PS_ASSIGN(setup.held, ParseTypeCounts("--held", command.held));
  if (!command.takeover.empty()) {
    PS_ASSIGN(setup.goal.takeover_s, ParseDuration("--takeover", command.takeover));
    if (setup.held.empty()) {
      return Status::InvalidArgument(
          "--takeover is what a change of the fleet costs: say with --held which one runs");
    }
  }
  PS_ASSIGN(setup.servers, ParseServerRanges("--servers", command.servers));
  return Status::Ok();
}

Status CheckStrategy(const std::string& name) {
  std::vector<std::string> known;
  for (const std::string_view strategy : provisioner::StrategyNames()) {
    known.emplace_back(strategy);
  }
  if (provisioner::MakeStrategy(name) != nullptr) {
    return Status::Ok();
  }
  const std::string nearest = NearestName(name, known);
  return Status::InvalidArgument(
      "unknown strategy '" + Printable(name) + "'; " +
      (nearest.empty() ? "there are: " + Join(known) : "did you mean '" + nearest + "'?"));
}

Status WritePlot(
    const PlanCommand& command,
    const Planning& planning,
    const provisioner::FleetChoice& choice,
    const proto::Plan& plan) {
  int quota = 0;
  for (const provisioner::Offer& offer : planning.problem.offers) {
    quota += offer.quota;
  }
  const int chosen = provisioner::WorkersOf(choice.counts);
  const int workers_max = std::min({quota, std::max(12, 2 * chosen), kPlotWorkersMax});
  const std::vector<provisioner::PlotPoint> points =
      provisioner::PlotPoints(planning.problem, choice, std::max(workers_max, chosen));
  const provisioner::PlotTexts texts = {
      plan.job + ": " + GoalText(plan),
      "best fleet of each size behind " + provisioner::ServersText(plan.servers) + ", " +
          plan.speed_model + " model"};
  return WriteFileAtomically(command.plot_path, provisioner::PlotSvg(points, chosen, texts));
}

Status Prepare(const PlanCommand& command, Planning* planning) {
  PS_TRY(CheckStrategy(command.strategy));
  PS_TRY(ParseGoal(command, planning));
  PS_TRY(PreparePlanning(command.common, planning));
  if (planning->problem.loss == nullptr) {
    return Status::InvalidArgument(
        command.common.profile_path +
        ": no loss curve is fitted, so no time to a loss can be told; train the job for a while, "
        "or ask psctl predict for speeds");
  }
  return Status::Ok();
}

}  // namespace

int RunPlan(const PlanCommand& command, const Console& console) {
  Planning planning;
  if (const Status ready = Prepare(command, &planning); !ready.ok()) {
    return Misuse(console, ready);
  }
  if (command.strategy == "spotdnn") {
    provisioner::LimitSizesAsSpotDnn(planning.profile, &planning.problem);
  }
  const Result<provisioner::PlanAnswer> answer =
      provisioner::MakeStrategy(command.strategy)->Solve(planning.problem);
  if (!answer.ok()) {
    return Misuse(console, answer.status());
  }
  if (answer->best.empty()) {
    console.err("psctl: " + RenderInfeasible(answer->infeasible, planning.problem.goal));
    return kExitFailed;
  }
  const provisioner::FleetChoice& choice = answer->best.front();
  const proto::Plan plan = ComparedPlan(command, planning, *answer);
  Status status;
  if (!command.output.empty()) {
    status = WriteFileAtomically(command.output, proto::PrintPlan(plan));
  }
  if (status.ok() && !command.plot_path.empty()) {
    status = WritePlot(command, planning, choice, plan);
  }
  if (!status.ok()) {
    return Fail(console, status);
  }
  if (command.common.is_json) {
    console.out(proto::PrintPlan(plan));
    return kExitOk;
  }
  const bool has_held = !planning.input.setup.held.empty();
  console.out(RenderPlan(plan, has_held, console.out_width));
  if (command.explains) {
    console.out(
        "\n" + RenderExplanation(planning.catalog, planning.problem, choice, console.out_width));
  }
  return kExitOk;
}

}  // namespace ps::psctl
