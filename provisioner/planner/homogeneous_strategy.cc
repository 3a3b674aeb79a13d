#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/strategies.h"

namespace ps::provisioner {
namespace {

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
    if (judge->IsSizeAllowed(counts) &&
        judge->MeetsGoal(judge->Judge(counts, server, hosts), judge->IsHeld(counts))) {
      best->Add(judge->Choose(counts, server, hosts));
    }
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeHomogeneousStrategy() {
  return std::make_unique<HomogeneousStrategy>();
}

}  // namespace ps::provisioner
