// Strategies that judge one fleet after the other.

#include <cmath>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/infeasible.h"
#include "provisioner/planner/problem_check.h"
#include "provisioner/planner/strategies.h"

namespace ps::provisioner {

Result<PlanAnswer> SolveByTrial(
    const PlanProblem& problem, std::string_view strategy, const TryFleets& try_fleets) {
  PS_TRY(CheckProblem(problem));
  FleetJudge judge(problem);
  BestFleets best(problem.answers_max);
  for (size_t server = 0; server < problem.servers.size(); ++server) {
    const ServerOffer& offer = problem.servers[server];
    for (int hosts = offer.hosts_min; hosts <= offer.hosts_max; ++hosts) {
      try_fleets(static_cast<int>(server), hosts, &judge, &best);
    }
  }
  PlanAnswer answer;
  answer.fleets_evaluated = judge.evaluated();
  answer.best = std::move(best).Take();
  answer.is_stopped =
      problem.watch != nullptr && !problem.watch->GoesOn({.fleets = judge.evaluated()});
  if (answer.best.empty() && answer.is_stopped) {
    answer.infeasible = StoppedEarly();
  } else if (answer.best.empty()) {
    answer.infeasible = ExplainInfeasible(problem, strategy);
  }
  return answer;
}

namespace {

class ExhaustiveStrategy final : public Strategy {
 public:
  std::string_view name() const override { return "exhaustive"; }

  Result<PlanAnswer> Solve(const PlanProblem& problem) const override {
    PS_ASSIGN(
        PlanAnswer answer,
        SolveByTrial(
            problem, name(), [&](int server, int hosts, FleetJudge* judge, BestFleets* best) {
              TryAll(problem, server, hosts, judge, best);
            }));
    if (!answer.is_stopped) {
      answer.certainty = proto::Certainty::kProven;
    }
    return answer;
  }

 private:
  /// Asks the watch now and then.
  static bool GoesOn(const PlanProblem& problem, const FleetJudge& judge, const BestFleets& best) {
    constexpr uint64_t kFleetsPerQuestion = 4096;
    if (problem.watch == nullptr || judge.evaluated() % kFleetsPerQuestion != 0) {
      return true;
    }
    const double usd = best.fleets().empty() ? INFINITY : best.fleets().front().usd;
    return problem.watch->GoesOn({.fleets = judge.evaluated(), .usd_best = usd});
  }

  /// Counts up through every combination, as an odometer does.
  static void TryAll(
      const PlanProblem& problem, int server, int hosts, FleetJudge* judge, BestFleets* best) {
    std::vector<int> counts;
    for (const Offer& offer : problem.offers) {
      counts.push_back(offer.held);
    }
    while (GoesOn(problem, *judge, *best)) {
      if (judge->IsSizeAllowed(counts) &&
          (judge->ClimbsLadders(counts, server) || judge->IsHeld(counts)) &&
          judge->Fits(counts, server, hosts)) {
        const Verdict verdict = judge->Judge(counts, server, hosts);
        if (verdict.usd <= best->usd_limit() * (1 + 1e-9) && judge->MeetsGoal(verdict)) {
          best->Add(judge->Choose(counts, server, hosts));
        }
      }
      size_t digit = 0;
      while (digit < counts.size() && counts[digit] == problem.offers[digit].quota) {
        counts[digit] = problem.offers[digit].held;
        ++digit;
      }
      if (digit == counts.size()) {
        return;
      }
      ++counts[digit];
    }
  }
};

class HomogeneousStrategy final : public Strategy {
 public:
  std::string_view name() const override { return "homogeneous"; }

  Result<PlanAnswer> Solve(const PlanProblem& problem) const override {
    return SolveByTrial(
        problem, name(), [&](int server, int hosts, FleetJudge* judge, BestFleets* best) {
          for (const std::vector<int>& ladder : judge->ladders()) {
            TryClass(problem, ladder, server, hosts, judge, best);
          }
        });
  }

 private:
  /// Adds workers of one class one by one, cheapest offer first.
  static void TryClass(
      const PlanProblem& problem,
      const std::vector<int>& ladder,
      int server,
      int hosts,
      FleetJudge* judge,
      BestFleets* best) {
    std::vector<int> counts;
    int held_in_class = 0;
    for (const Offer& offer : problem.offers) {
      counts.push_back(offer.held);
    }
    for (const int i : ladder) {
      held_in_class += counts[static_cast<size_t>(i)];
    }
    if (held_in_class != WorkersOf(counts)) {
      return;  // another class is held, which a plan has to keep
    }
    if (held_in_class > 0) {
      Consider(counts, server, hosts, judge, best);
    }
    for (const int index : ladder) {
      const auto i = static_cast<size_t>(index);
      while (counts[i] < problem.offers[i].quota) {
        ++counts[i];
        Consider(counts, server, hosts, judge, best);
      }
    }
  }

  static void Consider(
      const std::vector<int>& counts, int server, int hosts, FleetJudge* judge, BestFleets* best) {
    if (judge->IsSizeAllowed(counts) && judge->Fits(counts, server, hosts) &&
        judge->MeetsGoal(judge->Judge(counts, server, hosts))) {
      best->Add(judge->Choose(counts, server, hosts));
    }
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeExhaustiveStrategy() {
  return std::make_unique<ExhaustiveStrategy>();
}

std::unique_ptr<Strategy> MakeHomogeneousStrategy() {
  return std::make_unique<HomogeneousStrategy>();
}

}  // namespace ps::provisioner
