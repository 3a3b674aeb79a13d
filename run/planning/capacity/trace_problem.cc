#include "run/planning/capacity/trace_problem.h"

#include <algorithm>

#include "provisioner/planner/fleet_judge.h"

namespace ps::run {

provisioner::PlanProblem Narrowed(const TraceProblem& traces) {
  provisioner::PlanProblem problem = traces.problem;
  for (size_t p = 0; p < traces.capacity.pools().size(); ++p) {
    for (const size_t i : traces.capacity.pools()[p].offers) {
      provisioner::Offer& offer = problem.offers[i];
      const int quota = std::min(offer.quota, traces.capacity.MostOf(p));
      offer.quota = std::max(provisioner::RunningOf(traces.problem, i), quota);
    }
  }
  return problem;
}

int SumOf(const std::vector<size_t>& offers, const std::vector<int>& counts) {
  int sum = 0;
  for (const size_t offer : offers) {
    sum += counts[offer];
  }
  return sum;
}

bool KeepsQuotas(const std::vector<ZonedType>& zoned, const std::vector<int>& counts) {
  return std::ranges::all_of(
      zoned, [&](const ZonedType& type) { return SumOf(type.offers, counts) <= type.quota; });
}

bool SharesWell(const TraceProblem& traces, const std::vector<int>& counts) {
  const std::vector<SpotPool>& pools = traces.capacity.pools();
  for (size_t p = 0; p < pools.size(); ++p) {
    int running = 0;
    for (const size_t offer : pools[p].offers) {
      running += provisioner::RunningOf(traces.problem, offer);
    }
    if (SumOf(pools[p].offers, counts) > std::max(traces.capacity.MostOf(p), running)) {
      return false;
    }
  }
  return KeepsQuotas(traces.zoned, counts);
}

}  // namespace ps::run
