#include "psctl/plan/plan_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/infeasible.h"
#include "provisioner/planner/memory_fit.h"
#include "provisioner/planner/objective.h"
#include "provisioner/profile/exchange_penalty.h"
#include "provisioner/report/plan_report.h"
#include "provisioner/strategies/lifetimes.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "psctl/plan/capacity_report.h"
#include "psctl/plan/compared_plan.h"
#include "psctl/plan/deepvm_plan.h"
#include "psctl/plan/parcae_plan.h"
#include "psctl/plan/plan_watch.h"
#include "psctl/view/plan_view.h"
#include "run/planning/exchange_plans.h"
#include "run/planning/plan_arguments.h"
#include "run/planning/planning.h"
#include "run/planning/start_plan.h"
#include "run/planning/unseen_plan.h"

namespace ps::psctl {
namespace {

constexpr int kPlotWorkersMax = 32;
constexpr size_t kOthersShown = 2;  // exchanges beside the best one

/// Whether the strategy's own figures keep the goal; "ideal" plans for a world without contention.
bool MeetsGoal(const provisioner::PlanProblem& problem, const provisioner::FleetChoice& choice) {
  const provisioner::FleetJudge judge(problem);
  const provisioner::Verdict verdict = {
      .speed = choice.speed,
      .steps = choice.steps,
      .seconds = choice.seconds,
      .usd = choice.usd,
      .start_s = choice.start_s,
      .traffic_usd = choice.traffic_usd,
      .workers = provisioner::WorkersOf(choice.counts),
      .server_hosts = choice.server_hosts};
  return judge.MeetsGoal(verdict);
}

/// "misses the goal: takes up to 52m 10s of 40m 00s"
std::string MissText(const proto::Plan& plan) {
  std::string text = "this fleet misses the goal, at " + FormatPercent(plan.confidence, 0) +
                     " confidence: it takes up to " + FormatDuration(plan.seconds.high) +
                     " and costs up to " + FormatUsd(plan.usd.high) + " USD";
  return text + "; the strategy exact finds one that meets it, or the nearest goals";
}

Status WritePlot(
    const run::PlanCommand& command,
    const run::Planning& planning,
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
  return dropped.empty() ? "" : run::FleetText(dropped);
}

/// "local steps 50", "push int8, pull bf16": beside the plan's own.
std::string OtherText(const proto::ExchangeScheme& other, const proto::ExchangeScheme& own) {
  return other.push == own.push && other.pull == own.pull
             ? fmt::format("local steps {}", other.local_steps)
             : proto::SchemeText(other, own);
}

/// Beside fleets with the plan's exchange, the best with others.
void AddOtherExchanges(
    const run::PlanCommand& command,
    const std::vector<run::ExchangePlan>& plans,
    proto::Plan* plan) {
  for (size_t i = 1; i < std::min(plans.size(), kOthersShown + 1); ++i) {
    if (plans[i].answer.best.empty()) {
      break;
    }
    const run::Planning& other = *plans[i].planning;
    plan->alternatives.push_back(run::AlternativeOf(
        other.problem,
        other.profile,
        plans[i].answer.best.front(),
        OtherText(plans[i].scheme(), plans.front().scheme())));
  }
  if (std::string reason = run::ExchangeReason(command, plans); !reason.empty()) {
    plan->notes.insert(plan->notes.begin(), std::move(reason));
  }
}

/// Too little memory everywhere is no fault of what was asked.
int Refuse(const run::Console& console, const Status& why) {
  return why.code() == StatusCode::kUnsupported ? run::Fail(console, why)
                                                : run::Misuse(console, why);
}

/// Types whose zones are told apart.
std::vector<std::string> ZonedTypes(const run::PlanCommand& command) {
  std::vector<std::string> types;
  for (const run::SpotTrace& trace : command.spot_traces) {
    if (!trace.zone.empty()) {
      types.push_back(trace.type);
    }
  }
  return types;
}

/// Writes the files that were asked for, then the plan as text or JSON.
int Tell(
    const run::PlanCommand& command,
    const run::Planning& planning,
    const provisioner::FleetChoice& choice,
    const proto::Plan& plan,
    const run::Console& console) {
  Status status;
  if (!command.output.empty()) {
    status = WriteFileAtomically(command.output, proto::PrintPlan(plan));
  }
  if (status.ok() && !command.plot_path.empty()) {
    status = WritePlot(command, planning, choice, plan);
  }
  if (!status.ok()) {
    return run::Fail(console, status);
  }
  if (command.common.is_json) {
    console.out(proto::PrintPlan(plan));
    return run::kExitOk;
  }
  console.out(RenderPlan(
      plan,
      {.has_held = !planning.input.setup.held.empty(),
       .dropped = DroppedText(planning.problem, choice),
       .names_minibatches = provisioner::HasSeveralMinibatches(*planning.problem.speed),
       .width_max = console.out_width,
       .zoned = ZonedTypes(command)}));
  if (command.explains) {
    console.out(
        "\n" + RenderExplanation(planning.catalog, planning.problem, choice, console.out_width));
  }
  return run::kExitOk;
}

/// "profile g5.xlarge next: ..."
std::string NextText(const run::NextProfile& next) {
  return fmt::format(
      "profile {} next (psctl profile --type {}): knowing its speed is worth {} USD of this plan, "
      "more than any other type's",
      next.instance_type,
      next.instance_type,
      FormatUsd(next.usd));
}

}  // namespace

int RunPlan(const run::PlanCommand& given, const std::string& today, const run::Console& console) {
  const Result<run::PlanCommand> several = run::WithEncodingsGiven(given);
  if (!several.ok()) {
    return run::Misuse(console, several.status());
  }
  run::PlanCommand command = *several;
  if (command.strategy == run::kDeepVmStrategy) {
    return RunDeepVmPlan(command, console);
  }
  if (command.strategy == run::kParcaeStrategy) {
    return RunParcaePlan(command, console);
  }
  Result<std::vector<run::SpotTrace>> traces = ReadCapacity(command);
  if (!traces.ok()) {
    return run::Misuse(console, traces.status());
  }
  command.spot_traces = *std::move(traces);
  // Traces tell who is revoked.
  command.ignores_revocations = command.ignores_revocations || run::ChoosesByTraces(command);
  auto prepared = std::make_unique<run::Planning>(today);
  Duration effort{};
  if (const Status ready = run::PreparePlan(command, prepared.get(), &effort); !ready.ok()) {
    return Refuse(console, ready);
  }
  PlanWatch watch(effort, SystemTime(), console);
  const Result<std::vector<run::ExchangePlan>> plans =
      run::SolveForExchange(command, std::move(prepared), &watch);
  if (!plans.ok()) {
    watch.Finish();
    return Refuse(console, plans.status());
  }
  const run::Planning& planning = *plans->front().planning;
  provisioner::PlanAnswer answer = plans->front().answer;
  if (answer.best.empty()) {
    watch.Finish();
    console.err("psctl: " + RenderInfeasible(answer.infeasible, planning.problem.goal));
    for (const std::string& note : provisioner::LeftOutNotes(planning.problem)) {
      console.err(note + "\n");
    }
    for (const std::string& note : run::StartNotes(planning)) {
      console.err(note + "\n");
    }
    return run::kExitFailed;
  }
  const Result<TracedPlan> traced = FollowTraces(command, planning, &answer);
  if (!traced.ok()) {
    watch.Finish();
    return run::Misuse(console, traced.status());
  }
  const provisioner::FleetChoice& choice = answer.best.front();
  proto::Plan plan = ComparedPlan(command, planning, answer);
  AddOtherExchanges(command, *plans, &plan);
  const run::NextProfile next = run::ChoosesByTraces(command)
                                    ? run::NextProfile()
                                    : run::NextToProfile(command, planning, choice);
  if (!next.instance_type.empty()) {
    plan.notes.insert(plan.notes.begin(), NextText(next));
  }
  AddCapacity(planning, *traced, choice, &plan);
  watch.Finish();
  if (!watch.reason().empty()) {
    plan.notes.push_back(watch.reason() + ": what it is compared with may be incomplete");
  }
  const bool is_met = traced->chosen ? traced->chosen->is_kept
                                     : planning.objective == proto::Objective::kThroughputPerHour ||
                                           MeetsGoal(planning.problem, choice);
  if (!is_met) {
    plan.notes.insert(
        plan.notes.begin(), traced->chosen ? MissedText(*traced, plan.confidence) : MissText(plan));
    console.err("psctl: " + plan.notes.front() + "\n");
  }
  const int exit_code = Tell(command, planning, choice, plan, console);
  return is_met ? exit_code : run::kExitFailed;
}

}  // namespace ps::psctl
