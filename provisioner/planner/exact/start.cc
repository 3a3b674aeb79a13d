#include "provisioner/planner/exact/start.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "provisioner/planner/numbers.h"

namespace ps::provisioner {
namespace {

constexpr int kExchangesMax = 100;
constexpr int kStepShare = 16;  // fleets grow by one worker, then by that part of them
// Most fleets tried behind each server side; the search does not need a fleet from here.
constexpr uint64_t kFleetsMax = 3000;
// And behind all of them: a catalog has hundreds, and a goal may be out of reach of all.
constexpr uint64_t kFleetsMaxOfAll = 40'000;

class FirstFleets {
 public:
  FirstFleets(const ExactBasis& basis, FleetJudge* judge, BestFleets* best)
      : problem_(basis.problem()), judge_(*judge), best_(*best) {}

  void Try(const ServerChoice& server) {
    counts_.clear();
    for (const Offer& offer : problem_.offers) {
      counts_.push_back(offer.held);
    }
    const uint64_t evaluated_max = judge_.evaluated() + kFleetsMax;
    double usd = Keep(server);
    while (usd == kInfinity) {
      if (judge_.evaluated() > evaluated_max || !AddSome(server)) {
        return;
      }
      usd = Keep(server);
    }
    for (int i = 0; i < kExchangesMax && judge_.evaluated() < evaluated_max; ++i) {
      if (!Exchange(server, &usd)) {
        return;
      }
    }
  }

 private:
  /// What the fleet costs when it meets the goal, else infinity.
  double Cost(const ServerChoice& server) {
    if (!judge_.IsSizeAllowed(counts_) || !judge_.Fits(counts_, server.offer, server.hosts)) {
      return kInfinity;
    }
    const Verdict verdict = judge_.Judge(counts_, server.offer, server.hosts);
    return judge_.MeetsGoal(verdict) ? verdict.usd : kInfinity;
  }

  double Keep(const ServerChoice& server) {
    const double usd = Cost(server);
    if (usd <= best_.usd_limit() && judge_.ClimbsLadders(counts_, server.offer) &&
        usd < kInfinity) {
      best_.Add(judge_.Choose(counts_, server.offer, server.hosts));
    }
    return usd;
  }

  /// More workers of the offer that saves most time for its price. False: none is left.
  bool AddSome(const ServerChoice& server) {
    size_t chosen = counts_.size();
    double most = -kInfinity;
    const bool is_empty = WorkersOf(counts_) == 0;
    const double now = is_empty ? 0 : Speed(server);
    for (size_t i = 0; i < counts_.size(); ++i) {
      if (RoomFor(i, server) == 0) {
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
    const int left = RoomFor(chosen, server);
    counts_[chosen] += std::min(std::max(WorkersOf(counts_) / kStepShare, 1), left);
    return true;
  }

  /// How many more of an offer its quota, its pool and the servers' memory allow.
  int RoomFor(size_t offer, const ServerChoice& server) const {
    const int pool = problem_.offers[offer].pool;
    int room = std::min(
        problem_.offers[offer].quota - counts_[offer],
        std::max(server.workers_max - WorkersOf(counts_), 0));
    if (pool >= 0) {
      int left = server.pools[static_cast<size_t>(pool)];
      for (size_t i = 0; i < counts_.size(); ++i) {
        left -= problem_.offers[i].pool == pool ? counts_[i] : 0;
      }
      room = std::min(room, left);
    }
    const int quota = problem_.offers[offer].vcpu_quota;
    const int vcpus = problem_.offers[offer].vcpus;
    if (quota >= 0 && vcpus > 0) {
      int left = server.vcpus[static_cast<size_t>(quota)];
      for (size_t i = 0; i < counts_.size(); ++i) {
        const Offer& other = problem_.offers[i];
        left -= other.vcpu_quota == quota ? (counts_[i] - other.held) * other.vcpus : 0;
      }
      room = std::min(room, std::max(left, 0) / vcpus);
    }
    return room;
  }

  /// Runs per second to the loss.
  double Speed(const ServerChoice& server) {
    const Verdict verdict = judge_.Judge(counts_, server.offer, server.hosts);
    return std::isfinite(verdict.seconds) ? 1 / std::max(verdict.seconds, 1e-9) : 0;
  }

  /// The first change of one worker that saves money: one more, one less, or another instead.
  /// False: there is none.
  bool Exchange(const ServerChoice& server, double* usd) {
    const size_t none = counts_.size();
    for (size_t out = 0; out <= none; ++out) {
      if (out < none && counts_[out] == problem_.offers[out].held) {
        continue;
      }
      for (size_t in = 0; in <= none; ++in) {
        if (in == out || (in < none && counts_[in] == problem_.offers[in].quota)) {
          continue;
        }
        Change(out, in);
        if (Cost(server) < *usd * (1 - 1e-9)) {
          *usd = Keep(server);
          return true;
        }
        Change(in, out);
      }
    }
    return false;
  }

  /// One worker less of an offer and one more of another; the count of offers stands for none.
  void Change(size_t out, size_t in) {
    if (out < counts_.size()) {
      --counts_[out];
    }
    if (in < counts_.size()) {
      ++counts_[in];
    }
  }

  const PlanProblem& problem_;
  FleetJudge& judge_;
  BestFleets& best_;
  std::vector<int> counts_;
};

}  // namespace

void FindFirstFleets(
    const ExactBasis& basis, std::span<const int> servers, FleetJudge* judge, BestFleets* best) {
  FirstFleets fleets(basis, judge, best);
  const uint64_t evaluated_max = judge->evaluated() + kFleetsMaxOfAll;
  for (const int server : servers) {
    if (judge->evaluated() > evaluated_max) {
      return;
    }
    fleets.Try(basis.servers()[static_cast<size_t>(server)]);
  }
}

}  // namespace ps::provisioner
