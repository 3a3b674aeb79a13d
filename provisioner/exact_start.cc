#include "provisioner/exact_start.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace ps::provisioner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kWorkersAddedMax = 150;
constexpr int kExchangesMax = 40;

class FirstFleets {
 public:
  FirstFleets(const ExactBasis& basis, FleetJudge* judge, BestFleets* best)
      : problem_(basis.problem()), judge_(*judge), best_(*best) {}

  void Try(const ServerChoice& server) {
    counts_.clear();
    for (const Offer& offer : problem_.offers) {
      counts_.push_back(offer.held);
    }
    double usd = Keep(server);
    for (int i = 0; i < kWorkersAddedMax && usd == kInfinity; ++i) {
      if (!AddOne(server)) {
        return;
      }
      usd = Keep(server);
    }
    for (int i = 0; i < kExchangesMax && usd < kInfinity && Exchange(server, &usd); ++i) {
    }
  }

 private:
  /// What the fleet costs when it meets the goal, else infinity.
  double Cost(const ServerChoice& server) {
    if (!judge_.IsSizeAllowed(counts_)) {
      return kInfinity;
    }
    const Verdict verdict = judge_.Judge(counts_, server.offer, server.hosts);
    return judge_.MeetsGoal(verdict, judge_.IsHeld(counts_)) ? verdict.usd : kInfinity;
  }

  double Keep(const ServerChoice& server) {
    const double usd = Cost(server);
    if (usd <= best_.usd_limit() && judge_.ClimbsLadders(counts_) && usd < kInfinity) {
      best_.Add(judge_.Choose(counts_, server.offer, server.hosts));
    }
    return usd;
  }

  /// The worker that saves most time for its price. False: none is left.
  bool AddOne(const ServerChoice& server) {
    size_t chosen = counts_.size();
    double most = -kInfinity;
    const bool is_empty = WorkersOf(counts_) == 0;
    const double now = is_empty ? 0 : Speed(server);
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] == problem_.offers[i].quota) {
        continue;
      }
      ++counts_[i];
      const double gain = (Speed(server) - now) / (problem_.offers[i].usd_per_hour + 1e-9);
      --counts_[i];
      if (gain > most) {
        most = gain;
        chosen = i;
      }
    }
    if (chosen == counts_.size()) {
      return false;
    }
    ++counts_[chosen];
    return true;
  }

  /// Runs per second to the loss.
  double Speed(const ServerChoice& server) {
    const Verdict verdict = judge_.Judge(counts_, server.offer, server.hosts);
    return std::isfinite(verdict.seconds) ? 1 / std::max(verdict.seconds, 1e-9) : 0;
  }

  /// The first change of one worker that saves money. False: there is none.
  bool Exchange(const ServerChoice& server, double* usd) {
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] == problem_.offers[i].held) {
        continue;
      }
      --counts_[i];
      for (size_t k = 0; k <= counts_.size(); ++k) {
        const bool is_drop = k == counts_.size();
        if (k == i || (!is_drop && counts_[k] == problem_.offers[k].quota)) {
          continue;
        }
        counts_[is_drop ? i : k] += is_drop ? 0 : 1;
        const double after = Cost(server);
        if (after < *usd * (1 - 1e-9)) {
          *usd = Keep(server);
          return true;
        }
        counts_[is_drop ? i : k] -= is_drop ? 0 : 1;
      }
      ++counts_[i];
    }
    return false;
  }

  const PlanProblem& problem_;
  FleetJudge& judge_;
  BestFleets& best_;
  std::vector<int> counts_;
};

}  // namespace

void FindFirstFleets(const ExactBasis& basis, FleetJudge* judge, BestFleets* best) {
  FirstFleets fleets(basis, judge, best);
  for (const ServerChoice& server : basis.servers()) {
    fleets.Try(server);
  }
}

}  // namespace ps::provisioner
