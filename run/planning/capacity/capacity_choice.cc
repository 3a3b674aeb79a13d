#include "run/planning/capacity/capacity_choice.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/numbers.h"
#include "provisioner/planner/objective.h"
#include "provisioner/planner/problem_check.h"

namespace ps::run {
namespace {

using provisioner::FleetChoice;
using provisioner::PlanAnswer;
using provisioner::PlanProblem;

constexpr double kChanceSlack = 1e-9;
// Fleets that searches without the traces answer, and their effort.
constexpr int kAskedFirst = 256;
constexpr int kAskedElse = 24;
constexpr uint64_t kAskedEffort = 10'000'000;
// What they take for granted: as many machines as can be had in such a share of the time, and less
// time than the goal gives, since machines will lack.
constexpr double kShares[] = {0, 0.5};
constexpr double kTighter[] = {1, 0.75};
constexpr int kImprovedMost = 50;  // steps from a fleet to a better one beside it

/// A fleet that comes into question, by bounds.
struct BoundedFleet {
  FleetChoice choice;
  double score_least = 0;
  double in_goal_most = 0;
};

using FleetKey = std::tuple<std::vector<int>, int, int>;

class TraceSearch {
 public:
  explicit TraceSearch(const TraceProblem& traces)
      : traces_(traces),
        problem_(Narrowed(traces)),
        judge_(problem_),
        kept_most_(static_cast<size_t>(problem_.answers_max)) {}

  /// Fleets within the quotas of single offers.
  double Fleets() const {
    double fleets = 0;
    for (const provisioner::ServerOffer& server : problem_.servers) {
      fleets += server.hosts_max - server.hosts_min + 1;
    }
    for (const provisioner::Offer& offer : problem_.offers) {
      fleets *= offer.quota - offer.held + 1;
    }
    return fleets;
  }

  void SeeAll() {
    are_all_ = true;
    for (size_t s = 0; s < problem_.servers.size(); ++s) {
      const provisioner::ServerOffer& server = problem_.servers[s];
      for (int hosts = server.hosts_min; hosts <= server.hosts_max; ++hosts) {
        std::vector<int> counts;
        for (const provisioner::Offer& offer : problem_.offers) {
          counts.push_back(offer.held);
        }
        do {
          See(counts, static_cast<int>(s), hosts);
        } while (Next(&counts));
      }
    }
  }

  /// The fleets that searches without the traces find. Errors: theirs.
  Status SeeSome() {
    if (provisioner::MostWorkers(problem_) == 0) {
      return Status::Ok();  // nothing could ever be had
    }
    PlanProblem asked = problem_;
    asked.goal.usd_max = provisioner::kInfinity;  // a fleet may cost less along the traces
    asked.answers_max = kAskedFirst;
    const std::unique_ptr<provisioner::Strategy> exact = provisioner::MakeStrategy("exact");
    PS_ASSIGN(const PlanAnswer first, exact->Solve(asked));
    SeeAnswer(first);
    are_all_ = first.best.size() < kAskedFirst && !first.is_stopped && HasOneOfferPerClass() &&
               first.certainty != proto::Certainty::kBestFound;
    if (!are_all_ && !first.best.empty()) {
      SeeMore(asked, *exact, first.best.front().seconds);
    }
    if (bounded_.empty() && !is_stopped_) {
      SeeSoonest(asked);
    }
    return Status::Ok();
  }

  /// With other quotas and less time. `seconds`: of the best fleet so far.
  void SeeMore(PlanProblem asked, const provisioner::Strategy& exact, double seconds) {
    const double within_s =
        std::isfinite(asked.goal.seconds_max) ? asked.goal.seconds_max : 2 * seconds;
    asked.answers_max = kAskedElse;
    asked.effort_max = std::min(asked.effort_max, kAskedEffort);
    for (const std::vector<int>& quotas : QuotasToTry()) {
      for (size_t i = 0; i < quotas.size(); ++i) {
        asked.offers[i].quota = quotas[i];
      }
      for (const double tighter : kTighter) {
        asked.goal.seconds_max = within_s * tighter;
        const Result<PlanAnswer> some = exact.Solve(asked);
        if (!some.ok() || some->best.empty()) {
          break;  // nothing is left on offer, or nothing is so fast
        }
        SeeAnswer(*some);
        if (some->is_stopped) {
          return;
        }
      }
      if (traces_.objective == proto::Objective::kTime) {
        const Result<PlanAnswer> soonest = provisioner::SolveForTime(asked);
        if (soonest.ok()) {
          SeeAnswer(*soonest);
        }
      }
    }
  }

  /// Where none that was found is in time: the soonest with all machines, of those that share well.
  void SeeSoonest(PlanProblem asked) {
    asked.goal.seconds_max = provisioner::kInfinity;
    asked.answers_max = kAskedElse;
    for (const bool is_one_each : {false, true}) {
      if (is_one_each) {
        LeaveOneEach(&asked);
      }
      const Result<PlanAnswer> soonest = provisioner::SolveForTime(asked);
      if (soonest.ok()) {
        SeeAnswer(*soonest);
      }
      if (!bounded_.empty() || is_stopped_) {
        return;
      }
    }
  }

  /// Takes of offers that share machines or a quota the first alone, beside what runs.
  void LeaveOneEach(PlanProblem* asked) const {
    std::vector<std::vector<size_t>> shared;
    for (const SpotPool& pool : traces_.capacity.pools()) {
      shared.push_back(pool.offers);
    }
    for (const ZonedType& type : traces_.zoned) {
      shared.push_back(type.offers);
    }
    for (const std::vector<size_t>& offers : shared) {
      for (size_t i = 1; i < offers.size(); ++i) {
        asked->offers[offers[i]].quota = provisioner::RunningOf(problem_, offers[i]);
      }
    }
  }

  /// Follows whoever may be among the best.
  void FollowBest() {
    std::ranges::sort(bounded_, [&](const BoundedFleet& a, const BoundedFleet& b) {
      const bool may_keep_a = MayKeep(a);
      const bool may_keep_b = MayKeep(b);
      if (may_keep_a != may_keep_b) {
        return may_keep_a;
      }
      return may_keep_a ? a.score_least < b.score_least : a.in_goal_most > b.in_goal_most;
    });
    for (const BoundedFleet& fleet : bounded_) {
      if (is_ended_) {
        break;
      }
      if (IsOfInterest(fleet)) {
        Follow(fleet.choice);
      }
    }
    bounded_.clear();
  }

  /// From the best fleet to better ones beside it, where not all were seen.
  void Improve() {
    if (are_all_ && !kept_.empty()) {
      return;
    }
    are_all_ = false;
    for (int step = 0; step < kImprovedMost && !is_ended_; ++step) {
      const std::vector<FollowedFleet>& best = kept_.empty() ? others_ : kept_;
      if (best.empty()) {
        return;
      }
      const FleetChoice from = best.front().choice;
      SeeBeside(from);
      FollowBest();
      const FleetChoice& to = (kept_.empty() ? others_ : kept_).front().choice;
      if (IsSame(from, to)) {
        return;
      }
    }
  }

  TraceAnswer Take() && {
    TraceAnswer answer;
    answer.is_kept = !kept_.empty();
    answer.best = std::move(answer.is_kept ? kept_ : others_);
    answer.seen = seen_.size();
    answer.followed = followed_;
    answer.certainty =
        are_all_ && !is_ended_ ? proto::Certainty::kProven : proto::Certainty::kBestFound;
    answer.is_stopped = is_stopped_;
    return answer;
  }

 private:
  static bool IsSame(const FleetChoice& a, const FleetChoice& b) {
    return a.counts == b.counts && a.server_offer == b.server_offer &&
           a.server_hosts == b.server_hosts;
  }

  /// The next counts within the quotas; false after the last.
  bool Next(std::vector<int>* counts) const {
    for (size_t i = 0; i < counts->size(); ++i) {
      if ((*counts)[i] < problem_.offers[i].quota) {
        ++(*counts)[i];
        return true;
      }
      (*counts)[i] = problem_.offers[i].held;
    }
    return false;
  }

  /// A search without the traces takes the cheaper of two offers of a class first.
  bool HasOneOfferPerClass() const {
    std::set<int> classes;
    return std::ranges::all_of(problem_.offers, [&](const provisioner::Offer& offer) {
      return offer.quota == 0 || classes.insert(offer.worker_class).second;
    });
  }

  void SeeAnswer(const PlanAnswer& answer) {
    is_stopped_ = is_stopped_ || answer.is_stopped;
    for (const FleetChoice& choice : answer.best) {
      See(choice.counts, choice.server_offer, choice.server_hosts);
    }
  }

  void See(const std::vector<int>& counts, int server, int hosts) {
    if (!judge_.IsSizeAllowed(counts) || !judge_.Fits(counts, server, hosts) ||
        !SharesWell(traces_, counts) || !seen_.emplace(counts, server, hosts).second) {
      return;
    }
    BoundedFleet fleet = {judge_.Choose(counts, server, hosts)};
    if (!std::isfinite(fleet.choice.seconds) || !(fleet.choice.steps > 0)) {
      return;
    }
    fleet.score_least = traces_.objective == proto::Objective::kTime
                            ? fleet.choice.seconds * (1 - kChanceSlack)
                            : traces_.capacity.UsdAtLeast(fleet.choice);
    fleet.in_goal_most = traces_.capacity.InGoalAtMost(fleet.choice);
    bounded_.push_back(std::move(fleet));
  }

  /// By offer, for searches without the traces: all pools at some share of the time, none, and all
  /// but one.
  std::set<std::vector<int>> QuotasToTry() const {
    std::vector<int> quotas;
    for (const provisioner::Offer& offer : problem_.offers) {
      quotas.push_back(offer.quota);
    }
    const std::vector<SpotPool>& pools = traces_.capacity.pools();
    std::set<std::vector<int>> all;
    const auto add = [&](const auto& quota_of) {
      std::vector<int> some = quotas;
      for (size_t p = 0; p < pools.size(); ++p) {
        for (const size_t i : pools[p].offers) {
          some[i] = std::clamp(quota_of(p), provisioner::RunningOf(problem_, i), quotas[i]);
        }
      }
      all.insert(std::move(some));
    };
    for (const double share : kShares) {
      add([&](size_t p) { return traces_.capacity.CountWithin(p, share); });
    }
    add([](size_t) { return 0; });
    for (size_t some = 0; some < pools.size(); ++some) {
      add([&](size_t p) { return p == some ? 0 : traces_.capacity.CountWithin(p, 0.5); });
    }
    return all;
  }

  /// One machine more, less, or of another offer, or another number of servers.
  void SeeBeside(const FleetChoice& from) {
    std::vector<int> counts = from.counts;
    const auto see = [&] { See(counts, from.server_offer, from.server_hosts); };
    for (size_t i = 0; i < counts.size(); ++i) {
      const provisioner::Offer& more = problem_.offers[i];
      if (counts[i] > more.held) {
        --counts[i];
        see();
        ++counts[i];
      }
      if (counts[i] == more.quota) {
        continue;
      }
      ++counts[i];
      see();
      for (size_t j = 0; j < counts.size(); ++j) {
        if (j != i && counts[j] > problem_.offers[j].held) {
          --counts[j];
          see();
          ++counts[j];
        }
      }
      --counts[i];
    }
    const provisioner::ServerOffer& server =
        problem_.servers[static_cast<size_t>(from.server_offer)];
    for (const int hosts : {from.server_hosts - 1, from.server_hosts + 1}) {
      if (hosts >= server.hosts_min && hosts <= server.hosts_max) {
        See(counts, from.server_offer, hosts);
      }
    }
  }

  double Confidence() const { return problem_.goal.confidence - kChanceSlack; }

  bool MayKeep(const BoundedFleet& fleet) const { return fleet.in_goal_most >= Confidence(); }

  double ScoreOf(const FollowedFleet& fleet) const {
    if (traces_.objective != proto::Objective::kTime) {
      return fleet.outlook.usd;
    }
    return fleet.outlook.reached > 0 ? fleet.outlook.seconds : provisioner::kInfinity;
  }

  bool IsOfInterest(const BoundedFleet& fleet) const {
    if (kept_.empty()) {
      return others_.size() < kept_most_ ||
             fleet.in_goal_most >= others_.back().outlook.in_goal - kChanceSlack;
    }
    return MayKeep(fleet) && (kept_.size() < kept_most_ ||
                              fleet.score_least <= ScoreOf(kept_.back()) * (1 + kChanceSlack));
  }

  bool GoesOn() {
    const provisioner::SearchProgress progress = {
        .fleets = followed_,
        .usd_best = kept_.empty() ? provisioner::kInfinity : kept_.front().outlook.usd};
    is_stopped_ = is_stopped_ || (problem_.watch != nullptr && !problem_.watch->GoesOn(progress));
    return !is_stopped_;
  }

  void Follow(const FleetChoice& choice) {
    if (!GoesOn() || followed_ >= traces_.followed_most) {
      is_ended_ = true;
      return;
    }
    ++followed_;
    OutlookLimits limits;
    limits.goes_on = [this] { return GoesOn(); };
    if (!kept_.empty()) {
      limits.in_goal_least = Confidence();
    } else if (others_.size() == kept_most_) {
      limits.in_goal_least = std::min(Confidence(), others_.back().outlook.in_goal - kChanceSlack);
    }
    if (kept_.size() == kept_most_ && traces_.objective != proto::Objective::kTime) {
      limits.usd_most = kept_.back().outlook.usd;
    }
    FollowedFleet fleet = {choice, traces_.capacity.Expect(choice, {}, limits)};
    if (fleet.outlook.is_cut) {
      is_ended_ = is_stopped_;
      return;
    }
    const bool keeps = fleet.outlook.in_goal >= Confidence();
    std::vector<FollowedFleet>& list = keeps ? kept_ : others_;
    const auto at = std::ranges::find_if(
        list, [&](const FollowedFleet& other) { return IsAhead(fleet, other, keeps); });
    list.insert(at, std::move(fleet));
    if (list.size() > kept_most_) {
      list.pop_back();
    }
  }

  bool IsAhead(const FollowedFleet& a, const FollowedFleet& b, bool keeps) const {
    const auto differ = [](double x, double y) {
      return std::abs(x - y) > kChanceSlack * std::max(std::abs(x), std::abs(y));
    };
    if (!keeps && differ(a.outlook.in_goal, b.outlook.in_goal)) {
      return a.outlook.in_goal > b.outlook.in_goal;
    }
    if (!keeps && differ(a.outlook.reached, b.outlook.reached)) {
      return a.outlook.reached > b.outlook.reached;
    }
    const double score_a = ScoreOf(a);
    const double score_b = ScoreOf(b);
    return differ(score_a, score_b) ? score_a < score_b : provisioner::IsBetter(a.choice, b.choice);
  }

  const TraceProblem& traces_;
  const PlanProblem problem_;
  provisioner::FleetJudge judge_;
  const size_t kept_most_;
  std::set<FleetKey> seen_;
  std::vector<BoundedFleet> bounded_;
  std::vector<FollowedFleet> kept_;    // that keep the goal, the best first
  std::vector<FollowedFleet> others_;  // the most likely first
  uint64_t followed_ = 0;
  bool are_all_ = false;     // who may keep the goal was seen
  bool is_ended_ = false;    // by the watch, or after so many
  bool is_stopped_ = false;  // by the watch
};

}  // namespace

Result<TraceAnswer> SolveAlongTraces(const TraceProblem& traces) {
  PS_TRY(provisioner::CheckProblem(traces.problem));
  TraceSearch search(traces);
  if (search.Fleets() <= traces.all_most) {
    search.SeeAll();
  } else {
    PS_TRY(search.SeeSome());
  }
  search.FollowBest();
  if (search.Fleets() > traces.all_most) {
    search.Improve();
  }
  return std::move(search).Take();
}

}  // namespace ps::run
