#include <algorithm>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/strategies.h"

namespace ps::provisioner {
namespace {

class ExhaustiveStrategy final : public Strategy {
 public:
  std::string_view name() const override { return "exhaustive"; }

  Result<PlanAnswer> Solve(const PlanProblem& problem) const override {
    return SolveByTrial(
        problem, name(), [&](int server, int hosts, FleetJudge* judge, BestFleets* best) {
          TryAll(problem, server, hosts, judge, best);
        });
  }

 private:
  /// Counts up through every combination, as an odometer does.
  static void TryAll(
      const PlanProblem& problem, int server, int hosts, FleetJudge* judge, BestFleets* best) {
    std::vector<int> counts;
    for (const Offer& offer : problem.offers) {
      counts.push_back(offer.held);
    }
    while (true) {
      if (judge->IsSizeAllowed(counts) && judge->ClimbsLadders(counts)) {
        const Verdict verdict = judge->Judge(counts, server, hosts);
        if (verdict.usd <= best->usd_limit() * (1 + 1e-9) &&
            judge->MeetsGoal(verdict, judge->IsHeld(counts))) {
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

}  // namespace

std::unique_ptr<Strategy> MakeExhaustiveStrategy() {
  return std::make_unique<ExhaustiveStrategy>();
}

}  // namespace ps::provisioner
