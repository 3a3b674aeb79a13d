#include "run/planning/capacity/capacity_addition.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "provisioner/planner/fleet_judge.h"

namespace ps::run {
namespace {

constexpr int kAddedMost = 16;  // machines of a further pool

/// Fleets with one pool more than another.
class AdditionSearch {
 public:
  AdditionSearch(const TraceProblem& traces, const FollowedFleet& fleet)
      : traces_(traces),
        from_(fleet.choice),
        problem_(Narrowed(traces)),
        judge_(problem_),
        wanted_(
            std::max(traces.problem.goal.confidence - 1e-9, fleet.outlook.in_goal + kThousandth)) {}

  std::optional<Addition> Run() {
    const std::vector<SpotPool>& pools = traces_.capacity.pools();
    for (size_t pool = 0; pool < pools.size(); ++pool) {
      const size_t offer = pools[pool].offers.front();
      const bool is_used = SumOf(pools[pool].offers, from_.counts) > 0;
      const int most = is_used ? 0 : std::min(problem_.offers[offer].quota, kAddedMost);
      for (int added = 1; added <= most && GoesOn(); ++added) {
        std::vector<int> counts = from_.counts;
        counts[offer] = added;
        Consider({.pool = pool, .added = added, .fleet = {}}, counts);
        Swap({.pool = pool, .added = added, .fleet = {}}, counts);
      }
    }
    return std::move(best_);
  }

 private:
  static constexpr double kThousandth = 1e-3;

  /// One, half or all of an offer's machines less.
  void Swap(const Addition& added, std::vector<int> counts) {
    for (size_t from = 0; from < counts.size(); ++from) {
      const int all = from_.counts[from];
      for (const int taken : std::set<int>{1, (all + 1) / 2, all}) {
        if (taken > 0 && all - taken >= problem_.offers[from].held) {
          counts[from] = all - taken;
          Addition swapped = added;
          swapped.taken = taken;
          swapped.from = from;
          Consider(std::move(swapped), counts);
        }
      }
      counts[from] = all == 0 ? counts[from] : all;
    }
  }

  /// Whether the problem's watch still waits.
  bool GoesOn() {
    is_ended_ = is_ended_ || (problem_.watch != nullptr && !problem_.watch->GoesOn({}));
    return !is_ended_;
  }

  void Consider(Addition some, const std::vector<int>& counts) {
    if (!GoesOn() || !judge_.IsSizeAllowed(counts) || !SharesWell(traces_, counts) ||
        !judge_.Fits(counts, from_.server_offer, from_.server_hosts)) {
      return;
    }
    some.fleet.choice = judge_.Choose(counts, from_.server_offer, from_.server_hosts);
    if (!std::isfinite(some.fleet.choice.seconds)) {
      return;
    }
    OutlookLimits limits;
    limits.goes_on = [this] { return GoesOn(); };
    if (best_) {
      const double in_goal = best_->fleet.outlook.in_goal;
      limits.in_goal_least = std::min(in_goal - kThousandth, wanted_);
      limits.usd_most = in_goal >= wanted_ ? best_->fleet.outlook.usd : limits.usd_most;
    }
    some.fleet.outlook = traces_.capacity.Expect(some.fleet.choice, {}, limits);
    if (!some.fleet.outlook.is_cut && (!best_ || IsAhead(some, *best_))) {
      best_ = std::move(some);
    }
  }

  bool IsAhead(const Addition& a, const Addition& b) const {
    const auto thousandths = [&](const Addition& some) {
      return std::round(std::min(some.fleet.outlook.in_goal, wanted_) / kThousandth);
    };
    return thousandths(a) != thousandths(b) ? thousandths(a) > thousandths(b)
                                            : a.fleet.outlook.usd < b.fleet.outlook.usd;
  }

  const TraceProblem& traces_;
  const provisioner::FleetChoice& from_;
  const provisioner::PlanProblem problem_;
  provisioner::FleetJudge judge_;
  const double wanted_;  // chance
  std::optional<Addition> best_;
  bool is_ended_ = false;  // by the watch
};

}  // namespace

std::optional<Addition> BestAddition(const TraceProblem& traces, const FollowedFleet& fleet) {
  return AdditionSearch(traces, fleet).Run();
}

}  // namespace ps::run
