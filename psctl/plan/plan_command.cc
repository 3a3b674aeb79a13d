#include "psctl/plan/plan_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/infeasible.h"
#include "provisioner/planner/objective.h"
#include "provisioner/report/plan_report.h"
#include "provisioner/strategies/lifetimes.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "psctl/plan/compared_plan.h"
#include "psctl/plan/deepvm_plan.h"
#include "psctl/plan/parcae_plan.h"
#include "psctl/plan/plan_watch.h"
#include "psctl/view/plan_view.h"
#include "run/planning/plan_arguments.h"
#include "run/planning/planning.h"

namespace ps::psctl {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kPlotWorkersMax = 32;
constexpr char kDeepVmStrategy[] = "deepvm";
constexpr char kParcaeStrategy[] = "parcae";

/// Whether the strategy's own figures keep the goal; "ideal" plans for a world without contention.
bool MeetsGoal(const provisioner::PlanProblem& problem, const provisioner::FleetChoice& choice) {
  const provisioner::FleetJudge judge(problem);
  const provisioner::Verdict verdict = {
      choice.speed,
      choice.steps,
      choice.seconds,
      choice.usd,
      provisioner::WorkersOf(choice.counts)};
  return judge.MeetsGoal(verdict, judge.IsHeld(choice.counts));
}

/// "misses the goal: takes up to 52m 10s of 40m 00s"
std::string MissText(const proto::Plan& plan) {
  std::string text = "this fleet misses the goal, at " + FormatPercent(plan.confidence, 0) +
                     " confidence: it takes up to " + FormatDuration(plan.seconds.high) +
                     " and costs up to " + FormatUsd(plan.usd.high) + " USD";
  return text + "; the strategy exact finds one that meets it, or the nearest goals";
}

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
    PS_ASSIGN(outlook->start_up_s, ParseDuration("--start-up", command.start_up));
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

}  // namespace

Status PreparePlan(const PlanCommand& command, Planning* planning, Duration* effort) {
  PS_TRY(CheckStrategy(command.strategy));
  if (!command.trace_path.empty() || !command.history.empty() || !command.at.empty()) {
    return Status::InvalidArgument(
        "--trace, --at and --history are of --strategy parcae; psctl simulate judges whole runs on "
        "a trace");
  }
  PS_TRY(ParseObjective(command, planning));
  PS_TRY(ParseOutlook(command, &planning->outlook));
  PS_TRY(ChooseMarket(command, &planning->input.setup));
  PS_TRY(ParseGoal(command, planning));
  planning->measured = command.measured;
  PS_TRY(PreparePlanning(command.common, planning));
  if (planning->problem.loss == nullptr && command.common.loss > 0) {
    return Status::InvalidArgument(fmt::format(
        "{}: no loss curve is fitted, so no time to a loss can be told; train the job for a while, "
        "or ask psctl predict for speeds",
        command.common.profile_path));
  }
  return ParseEffort(command, planning, effort);
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

namespace {

/// "2 p3.2xlarge": what runs and is not in the plan; empty: nothing.
std::string DroppedText(
    const provisioner::PlanProblem& problem, const provisioner::FleetChoice& choice) {
  std::vector<provisioner::TypeCount> dropped;
  for (size_t i = 0; i < problem.runs.size(); ++i) {
    const auto k = static_cast<size_t>(problem.offers[i].worker_class);
    const int count = problem.runs[i] - std::min(problem.runs[i], choice.counts[i]);
    if (count > 0) {
      dropped.push_back({problem.speed->classes()[k].name, count, 0});
    }
  }
  return dropped.empty() ? "" : FleetText(dropped);
}

/// Writes the files that were asked for, then the plan as text or JSON.
int Tell(
    const PlanCommand& command,
    const Planning& planning,
    const provisioner::FleetChoice& choice,
    const proto::Plan& plan,
    const Console& console) {
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
  console.out(RenderPlan(
      plan,
      {.has_held = !planning.input.setup.held.empty(),
       .dropped = DroppedText(planning.problem, choice),
       .names_minibatches = provisioner::HasSeveralMinibatches(*planning.problem.speed),
       .width_max = console.out_width}));
  if (command.explains) {
    console.out(
        "\n" + RenderExplanation(planning.catalog, planning.problem, choice, console.out_width));
  }
  return kExitOk;
}

}  // namespace

int RunPlan(const PlanCommand& command, const std::string& today, const Console& console) {
  if (command.strategy == kDeepVmStrategy) {
    return RunDeepVmPlan(command, console);
  }
  if (command.strategy == kParcaeStrategy) {
    return RunParcaePlan(command, console);
  }
  Planning planning(today);
  Duration effort{};
  if (const Status ready = PreparePlan(command, &planning, &effort); !ready.ok()) {
    return Misuse(console, ready);
  }
  PlanWatch watch(effort, SystemTime(), console);
  planning.problem.watch = &watch;
  const Result<provisioner::PlanAnswer> answer = SolvePlan(command, &planning);
  if (!answer.ok()) {
    watch.Finish();
    return Misuse(console, answer.status());
  }
  if (answer->best.empty()) {
    watch.Finish();
    console.err("psctl: " + RenderInfeasible(answer->infeasible, planning.problem.goal));
    return kExitFailed;
  }
  const provisioner::FleetChoice& choice = answer->best.front();
  proto::Plan plan = ComparedPlan(command, planning, *answer);
  watch.Finish();
  if (!watch.reason().empty()) {
    plan.notes.push_back(watch.reason() + ": what it is compared with may be incomplete");
  }
  const bool is_met = planning.objective == proto::Objective::kThroughputPerHour ||
                      MeetsGoal(planning.problem, choice);
  if (!is_met) {
    plan.notes.insert(plan.notes.begin(), MissText(plan));
    console.err("psctl: " + plan.notes.front() + "\n");
  }
  const int exit_code = Tell(command, planning, choice, plan, console);
  return is_met ? exit_code : kExitFailed;
}

}  // namespace ps::psctl
