#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/strategies.h"

namespace ps::provisioner {
namespace {

class OnDemandStrategy final : public Strategy {
 public:
  std::string_view name() const override { return "on-demand"; }

  Result<PlanAnswer> Solve(const PlanProblem& problem) const override {
    PS_TRY(CheckProblem(problem));
    PlanProblem narrowed = problem;
    narrowed.offers.clear();
    std::vector<size_t> original;
    for (size_t i = 0; i < problem.offers.size(); ++i) {
      if (problem.offers[i].market == proto::Market::kOnDemand) {
        narrowed.offers.push_back(problem.offers[i]);
        original.push_back(i);
      } else if (problem.offers[i].held > 0) {
        return Status::InvalidArgument(
            "spot instances are held, which a plan on demand can't keep: release them first");
      }
    }
    if (narrowed.offers.empty()) {
      return Status::InvalidArgument("nothing is on offer on demand");
    }
    PS_ASSIGN(PlanAnswer answer, MakeExactStrategy()->Solve(narrowed));
    for (FleetChoice& choice : answer.best) {
      std::vector<int> counts(problem.offers.size(), 0);
      for (size_t i = 0; i < original.size(); ++i) {
        counts[original[i]] = choice.counts[i];
      }
      choice.counts = std::move(counts);
    }
    return answer;
  }
};

}  // namespace

std::unique_ptr<Strategy> MakeOnDemandStrategy() {
  return std::make_unique<OnDemandStrategy>();
}

}  // namespace ps::provisioner
