#include "run/planning/steps_plans.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/profile/local_steps.h"
#include "ps/base/text.h"

namespace ps::run {
namespace {

constexpr int kTried[] = {1, 2, 4, 8, 16, 32, 50, 64, 100, 128, 200, 256, 500, 512, 1000};
constexpr double kRounding = 1e-9;  // equal scores may differ by it

/// What the fleet gives by the objective, the less the better.
double ScoreOf(
    const PlanCommand& command, const Planning& planning, const provisioner::FleetChoice& choice) {
  const provisioner::PlanProblem& problem = planning.problem;
  proto::PlanRevocations expected;
  if (CountsRevocations(command)) {
    const auto known =
        provisioner::ExpectRevocations(planning.catalog, problem, choice, planning.outlook);
    expected = known.ok() ? *known : proto::PlanRevocations();
  }
  const auto either = [](double with, double without) { return with > 0 ? with : without; };
  switch (planning.objective) {
    case proto::Objective::kCost:
      return either(expected.usd, choice.usd);
    case proto::Objective::kTime: {
      const provisioner::FleetJudge judge(problem);
      return judge.SecondsAtConfidence(
          provisioner::TraitsOf(choice.speed, provisioner::WorkersOf(choice.counts)),
          choice.server_hosts,
          either(expected.seconds, choice.seconds),
          judge.IsHeld(choice.counts));
    }
    case proto::Objective::kThroughputPerHour:
      break;
  }
  return planning.input.models.exchange.samples /
         either(expected.samples_per_s, choice.speed.samples_per_s);
}

Status Solve(const PlanCommand& command, provisioner::SearchWatch* watch, StepsPlan* plan) {
  plan->planning->problem.watch = watch;
  PS_ASSIGN(plan->answer, SolvePlan(command, plan->planning.get()));
  plan->score = plan->answer.best.empty()
                    ? std::numeric_limits<double>::infinity()
                    : ScoreOf(command, *plan->planning, plan->answer.best.front());
  return Status::Ok();
}

void PutBestFirst(std::vector<StepsPlan>* plans) {
  std::ranges::sort(*plans, [](const StepsPlan& a, const StepsPlan& b) {
    if (a.score != b.score) {
      return a.score < b.score;
    }
    // Without any fleet, the nearest goals are those of the rarest exchanges.
    return std::isinf(a.score) ? a.local_steps() > b.local_steps()
                               : a.local_steps() < b.local_steps();
  });
  auto best = plans->begin();
  for (auto it = plans->begin(); it != plans->end(); ++it) {
    const bool is_equal = it->score <= plans->front().score * (1 + kRounding);
    if (is_equal && std::isfinite(it->score) && it->local_steps() < best->local_steps()) {
      best = it;
    }
  }
  std::rotate(plans->begin(), best, best + 1);
}

std::string StepsText(const std::vector<int>& steps) {
  std::string text;
  for (const int some : steps) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", some);
  }
  return text;
}

/// "0.85 USD", "1h 02m", "412 samples/s"
std::string ScoreText(const Planning& planning, double score) {
  switch (planning.objective) {
    case proto::Objective::kCost:
      return FormatUsd(score) + " USD";
    case proto::Objective::kTime:
      return FormatDuration(score);
    case proto::Objective::kThroughputPerHour:
      break;
  }
  return FormatRate(1 / score) + " samples/s";
}

double ComputingOf(const StepsPlan& plan) {
  return ComputingShare(plan.planning->problem, plan.answer.best.front());
}

}  // namespace

Result<std::vector<int>> LocalStepsToTry(
    const PlanCommand& command, const Planning& planning, std::string* note) {
  const int given = command.local_steps_max;
  const bool is_fixed = command.common.local_steps > 0;
  if (given < 0 || given > provisioner::kLocalStepsMax) {
    return Status::InvalidArgument(fmt::format(
        "--local-steps-max wants a number from 1 to {}, as in --local-steps-max 50",
        provisioner::kLocalStepsMax));
  }
  if (given > 0 && is_fixed) {
    return Status::InvalidArgument(
        "--local-steps-max lets a plan choose, and --local-steps says which: leave out one; a run "
        "keeps those that it has");
  }
  if (given > 0 && command.strategy != "exact") {
    return Status::InvalidArgument(fmt::format(
        "--local-steps-max is of the strategy exact; {} plans with those of the job",
        command.strategy));
  }
  const bool is_spotdnn = command.common.speed_model.starts_with("spotdnn");
  if (given > 0 && is_spotdnn) {
    return Status::InvalidArgument(fmt::format(
        "--local-steps-max needs the speed model queue: {} can't tell the speed of others than the "
        "profile's",
        command.common.speed_model));
  }
  const int own = planning.own_steps;
  if (is_fixed || command.strategy != "exact" || is_spotdnn) {
    return std::vector<int>{planning.problem.local_steps};
  }
  const int most = given > 0 ? given : own;
  std::set<int> wanted(std::begin(kTried), std::end(kTried));
  wanted.insert({own, most});
  for (const proto::LocalStepsPenalty& penalty : planning.profile.penalties) {
    wanted.insert(penalty.local_steps);
  }
  std::vector<int> steps;
  std::vector<int> not_measured;
  for (const int some : wanted) {
    if (some > most) {
      continue;
    }
    const bool is_known =
        some <= own || provisioner::PenaltyOf(planning.profile, some, planning.mode).has_value();
    (is_known ? steps : not_measured).push_back(some);
  }
  if (!not_measured.empty()) {
    *note = fmt::format(
        "local steps {} were not looked at: what they cost in samples to a loss was not measured; "
        "psctl profile --local-steps {},{} measures it",
        StepsText(not_measured),
        planning.profile.local_steps,
        not_measured.back());
  }
  return steps;
}

Result<std::vector<StepsPlan>> SolveForSteps(
    const PlanCommand& command,
    std::unique_ptr<Planning> prepared,
    provisioner::SearchWatch* watch) {
  std::string note;
  PS_ASSIGN(const std::vector<int> steps, LocalStepsToTry(command, *prepared, &note));
  const std::string today = prepared->today;
  std::vector<StepsPlan> plans;
  for (const int some : steps) {
    StepsPlan plan;
    if (prepared != nullptr && prepared->problem.local_steps == some) {
      plan.planning = std::move(prepared);
    } else {
      PlanCommand changed = command;
      changed.common.local_steps = some;
      Duration effort{};
      plan.planning = std::make_unique<Planning>(today);
      PS_TRY(PreparePlan(changed, plan.planning.get(), &effort));
    }
    PS_TRY(Solve(command, watch, &plan));
    plans.push_back(std::move(plan));
  }
  auto certainty = proto::Certainty::kProven;
  bool is_stopped = false;
  for (const StepsPlan& plan : plans) {
    // A search that was ended before it found a fleet says nothing.
    const bool is_open = plan.answer.best.empty() && plan.answer.is_stopped;
    certainty = std::min(certainty, is_open ? proto::Certainty::kBestFound : plan.answer.certainty);
    is_stopped = is_stopped || plan.answer.is_stopped;
  }
  PutBestFirst(&plans);
  StepsPlan& best = plans.front();
  if (!best.answer.best.empty() && plans.size() > 1) {
    best.answer.certainty = std::min(best.answer.certainty, certainty);
    best.answer.is_stopped = is_stopped;
  }
  if (!note.empty()) {
    best.planning->notes.push_back(std::move(note));
  }
  return plans;
}

std::string StepsReason(const PlanCommand& command, const std::vector<StepsPlan>& plans) {
  if (plans.size() < 2) {
    return "";
  }
  const StepsPlan& best = plans.front();
  std::vector<int> tried;
  for (const StepsPlan& plan : plans) {
    tried.push_back(plan.local_steps());
  }
  std::ranges::sort(tried);
  std::string text = fmt::format(
      "local steps {} of {}: {}, workers compute {:.0f} % of the time",
      best.local_steps(),
      StepsText(tried),
      ScoreText(*best.planning, best.score),
      100 * ComputingOf(best));
  const StepsPlan& next = plans[1];
  if (next.answer.best.empty()) {
    return text + "; no others meet the goal";
  }
  text += fmt::format(
      "; next best {}: {}, {:.0f} %",
      next.local_steps(),
      ScoreText(*next.planning, next.score),
      100 * ComputingOf(next));
  return text + (CountsRevocations(command) && best.planning->problem.local_steps > 1
                     ? "; a kill loses half a round"
                     : "");
}

}  // namespace ps::run
