#include "psctl/plan/compared_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/objective.h"
#include "provisioner/report/plan_report.h"
#include "provisioner/strategies/revocable_objective.h"
#include "provisioner/strategies/revocable_plan.h"
#include "ps/base/text.h"

namespace ps::psctl {
namespace {

constexpr uint64_t kEffortBeside = 30'000'000;  // of a plan to compare with

/// The cost of the same goal without spot instances, within the budget or beyond it.
std::optional<proto::PlanAlternative> OnDemandOf(const run::Planning& planning) {
  provisioner::PlanSetup setup = planning.input.setup;
  setup.market = provisioner::MarketChoice::kOnDemand;
  setup.goal.usd_max = std::numeric_limits<double>::infinity();
  setup.held.clear();  // they are rented as spot
  Result<provisioner::PlanProblem> problem =
      provisioner::MakePlanProblem(planning.catalog, planning.models, setup);
  if (!problem.ok()) {
    return std::nullopt;
  }
  problem->watch = planning.problem.watch;
  const Result<provisioner::PlanAnswer> answer =
      provisioner::MakeStrategy("on-demand")->Solve(*problem);
  if (!answer.ok() || answer->best.empty() || answer->is_stopped) {
    return std::nullopt;
  }
  return run::AlternativeOf(*problem, planning.profile, answer->best.front(), "on demand");
}

/// The problem at twice the spot prices; null where its held instances are of another market then.
std::optional<provisioner::PlanProblem> AtDoublePrices(const run::Planning& planning) {
  proto::Catalog catalog = planning.catalog;
  for (proto::InstanceType& type : catalog.types) {
    for (proto::SpotPrice& price : type.spot) {
      price.usd_per_hour *= 2;
    }
  }
  Result<provisioner::PlanProblem> problem =
      provisioner::MakePlanProblem(catalog, planning.models, planning.input.setup);
  if (!problem.ok()) {
    return std::nullopt;
  }
  problem->watch = planning.problem.watch;
  problem->workers_min = planning.problem.workers_min;
  problem->workers_max = planning.problem.workers_max;
  problem->effort_max = std::min(planning.problem.effort_max, kEffortBeside);
  return *std::move(problem);
}

/// The same fleet at twice the spot prices, and the one that would be chosen then.
std::vector<proto::PlanAlternative> IfPricesDouble(
    const run::PlanCommand& command,
    const run::Planning& planning,
    const provisioner::FleetChoice& choice) {
  bool has_spot = false;
  for (size_t i = 0; i < choice.counts.size(); ++i) {
    const proto::Market market = planning.problem.offers[i].market;
    has_spot = has_spot || (choice.counts[i] > 0 && market == proto::Market::kSpot);
  }
  const std::optional<provisioner::PlanProblem> problem =
      has_spot ? AtDoublePrices(planning) : std::nullopt;
  // Where spot is the dearer market then, its machines are no offer of their own.
  if (!problem || problem->offers.size() != planning.problem.offers.size()) {
    return {};
  }
  provisioner::FleetChoice same = choice;
  if (choice.seconds > 0) {
    same = provisioner::FleetJudge(*problem).Choose(
        choice.counts, choice.server_offer, choice.server_hosts);
  }
  std::vector<proto::PlanAlternative> plans = {
      run::AlternativeOf(*problem, planning.profile, same, "the same fleet")};
  if (run::ChoosesByTraces(command)) {
    return plans;  // what would be chosen without the traces is another question
  }
  const Result<provisioner::PlanAnswer> answer = run::SolveProblem(command, planning, *problem);
  if (answer.ok() && !answer->best.empty() && !answer->is_stopped) {
    const provisioner::FleetChoice& best = answer->best.front();
    const bool is_same = best.counts == choice.counts && best.server_offer == choice.server_offer &&
                         best.server_hosts == choice.server_hosts;
    if (!is_same) {
      plans.push_back(run::AlternativeOf(*problem, planning.profile, best, "planned anew"));
    }
  }
  return plans;
}

/// Fleets that do less for less: slower ones beside the fastest, ones for a lower price of an hour.
void AddCheaper(const run::PlanCommand& command, const run::Planning& planning, proto::Plan* plan) {
  const auto add = [&](const provisioner::PlanProblem& problem, const std::string& kind) {
    const bool is_slower = planning.objective == proto::Objective::kTime;
    const Result<provisioner::PlanAnswer> answer = run::SolveFor(
        command, planning, problem, is_slower ? proto::Objective::kCost : planning.objective);
    if (!answer.ok() || answer->best.empty() || answer->is_stopped) {
      return;
    }
    proto::PlanAlternative other =
        run::AlternativeOf(problem, planning.profile, answer->best.front(), kind);
    const bool is_first = plan->alternatives.empty();
    const bool is_same =
        other.workers == (is_first ? plan->workers : plan->alternatives.back().workers) &&
        other.servers == (is_first ? plan->servers : plan->alternatives.back().servers);
    if (!is_same) {
      plan->alternatives.push_back(std::move(other));
    }
  };
  provisioner::PlanProblem problem = planning.problem;
  const provisioner::Goal goal = problem.goal;
  problem.answers_max = 1;
  problem.effort_max = std::min(problem.effort_max, kEffortBeside);
  if (planning.objective == proto::Objective::kTime) {
    const double with = plan->revocations.seconds / plan->seconds.value;
    const double slower = run::CountsRevocations(command) ? std::max(with, 1.0) : 1;
    for (const int percent : {10, 25, 50, 100}) {
      const double seconds = plan->seconds.high * slower * (1 + percent / 100.0);
      problem.goal.seconds_max = std::min(goal.seconds_max, seconds);
      add(problem, fmt::format("{} % slower", percent));
    }
    return;
  }
  for (const double share : {0.75, 0.5, 0.25}) {
    problem.goal.usd_per_hour_max = goal.usd_per_hour_max * share;
    add(problem, fmt::format("for {} USD/h", FormatUsd(problem.goal.usd_per_hour_max)));
  }
}

/// The next best fleets, the one on demand, and what quotas cost.
void AddDearer(
    const run::PlanCommand& command,
    const run::Planning& planning,
    const provisioner::PlanAnswer& answer,
    proto::Plan* plan) {
  const provisioner::FleetChoice& choice = answer.best.front();
  if (!run::ChoosesByTraces(command)) {
    plan->quotas = provisioner::WhatQuotaBuys(planning.problem, choice);
  }
  plan->bottleneck = provisioner::BindingBottleneck(choice, plan->quotas);
  for (size_t i = 1; i < answer.best.size(); ++i) {
    plan->alternatives.push_back(
        run::AlternativeOf(planning.problem, planning.profile, answer.best[i], "next best"));
  }
  if (planning.input.setup.market != provisioner::MarketChoice::kOnDemand) {
    if (std::optional<proto::PlanAlternative> on_demand = OnDemandOf(planning)) {
      plan->alternatives.push_back(*std::move(on_demand));
    }
  }
}

}  // namespace

proto::Plan ComparedPlan(
    const run::PlanCommand& command,
    const run::Planning& planning,
    const provisioner::PlanAnswer& answer) {
  const provisioner::FleetChoice& choice = answer.best.front();
  proto::Plan plan = run::PlanOf(planning, choice, command.strategy);
  if (planning.objective == proto::Objective::kCost) {
    AddDearer(command, planning, answer, &plan);
  } else if (!run::ChoosesByTraces(command)) {
    AddCheaper(command, planning, &plan);
  }
  plan.if_prices_double = IfPricesDouble(command, planning, choice);
  if (!planning.models.not_profiled.empty()) {
    plan.notes.push_back(
        "left out, since the profile has no figures for them: " +
        Plural(planning.models.not_profiled.size(), "type") + " of the catalog");
  }
  const auto known = provisioner::LivesOf(planning.catalog, planning.problem, planning.outlook);
  if (run::CountsRevocations(command) && known.ok() && known->lives.HasLaw()) {
    const bool is_by_speed = planning.objective == proto::Objective::kThroughputPerHour;
    plan.notes.push_back(
        std::string(
            is_by_speed ? "chosen by samples/s with revocations"
                        : "chosen by time and cost with revocations") +
        "; --ignore-revocations chooses without");
  }
  plan.certainty = answer.certainty;
  const bool is_cut_short = answer.is_stopped || answer.usd_bound > 0;
  if (answer.certainty == proto::Certainty::kBestFound && is_cut_short) {
    const std::string bound =
        answer.usd_bound > 0 ? ", at no less than " + FormatUsd(answer.usd_bound) + " USD" : "";
    plan.notes.push_back(
        "not all fleets were looked at: a cheaper one may exist" + bound +
        "; offer fewer types, or give --effort, for a proof");
  }
  return plan;
}

}  // namespace ps::psctl
