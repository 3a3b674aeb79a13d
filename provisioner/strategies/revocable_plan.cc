#include "provisioner/strategies/revocable_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/numbers.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

constexpr int kFleetsFirst = 16;
constexpr int kFleetsMost = 4096;
constexpr int kTimesMore = 4;  // fleets, when those were not enough
// LeastCostShare and ExpectRun reckon on grids of other widths.
constexpr double kGridDoubt = 0.1;

/// A choice with what revocations make of it.
struct Expected {
  FleetChoice choice;
  double seconds = 0;
  double usd = 0;
};

bool IsSameLife(const OfferLife& a, const OfferLife& b) {
  return a.law == b.law && (a.law == nullptr || a.start_up_s == b.start_up_s);
}

class RevocableSearch {
 public:
  RevocableSearch(const Strategy& exact, const PlanProblem& problem, const FleetLives& lives)
      : exact_(exact), problem_(problem), lives_(lives), judge_(problem) {
    for (const std::vector<int>& ladder : judge_.ladders()) {
      const bool is_mixed = std::ranges::any_of(
          ladder, [&](int rung) { return !IsSameLife(LifeOf(rung), LifeOf(ladder.front())); });
      if (is_mixed) {
        mixed_.push_back(&ladder);
      }
    }
  }

  Result<PlanAnswer> Solve() {
    PlanProblem all = problem_;
    all.goal.usd_max = kInfinity;  // a fleet may cost less than it would without
    for (int fleets = std::max(kFleetsFirst, problem_.answers_max);; fleets *= kTimesMore) {
      all.answers_max = fleets;
      PS_ASSIGN(PlanAnswer answer, exact_.Solve(all));
      for (; judged_ < answer.best.size(); ++judged_) {
        JudgeFamily(answer.best[judged_]);
      }
      const bool are_all = answer.best.size() < static_cast<size_t>(fleets);
      const bool is_enough = are_all || IsNoneLeft(answer.best.back().usd);
      const bool is_cut_short = is_ended_ || fleets * kTimesMore > kFleetsMost ||
                                answer.is_stopped ||
                                answer.certainty == proto::Certainty::kBestFound;
      if (is_enough || is_cut_short) {
        return Take(std::move(answer), is_enough && !is_ended_);
      }
    }
  }

 private:
  const OfferLife& LifeOf(int offer) const { return lives_.offers[static_cast<size_t>(offer)]; }

  /// The fleet, and those with as many of each class from dearer offers, which may live longer.
  void JudgeFamily(const FleetChoice& choice) {
    Judge(choice);
    // The fleet that runs already is there as it is: its family comes with the one of the ladders.
    if (!mixed_.empty() && judge_.ClimbsLadders(choice.counts)) {
      std::vector<int> counts = choice.counts;
      Spread(0, choice, &counts);
    }
  }

  void Spread(size_t mixed, const FleetChoice& base, std::vector<int>* counts) {
    if (mixed < mixed_.size()) {
      int left = 0;
      for (const int rung : *mixed_[mixed]) {
        left += base.counts[static_cast<size_t>(rung)];
      }
      Fill(mixed, 0, left, base, counts);
    } else if (*counts != base.counts && !judge_.IsHeld(*counts)) {
      const FleetChoice choice = judge_.Choose(*counts, base.server_offer, base.server_hosts);
      if (choice.usd * share_ <= Limit() * (1 + kSlack)) {
        Judge(choice);
      }
    }
  }

  void Fill(
      size_t mixed, size_t rung, int left, const FleetChoice& base, std::vector<int>* counts) {
    const std::vector<int>& ladder = *mixed_[mixed];
    const auto i = static_cast<size_t>(ladder[rung]);
    const Offer& offer = problem_.offers[i];
    const bool is_last = rung + 1 == ladder.size();
    const int low = is_last ? std::max(left, offer.held) : offer.held;
    for (int count = low; count <= std::min(left, offer.quota) && !is_ended_; ++count) {
      (*counts)[i] = count;
      if (is_last) {
        Spread(mixed + 1, base, counts);
      } else {
        Fill(mixed, rung + 1, left - count, base, counts);
      }
    }
  }

  void Judge(const FleetChoice& choice) {
    ++expected_;
    is_ended_ = is_ended_ || expected_ > kExpectedMost ||
                (problem_.watch != nullptr && expected_ % kFleetsPerQuestion == 0 &&
                 !problem_.watch->GoesOn({.fleets = expected_, .usd_best = Limit()}));
    const Result<RunExpectation> run = ExpectChoice(problem_, choice, lives_, true);
    if (!run.ok()) {
      return;  // it hardly gets on at all
    }
    Expected expected = {
        choice,
        run->seconds + choice.seconds - run->seconds_without,
        run->usd + choice.usd - run->usd_without};
    const FleetTraits traits = TraitsOf(choice.speed, WorkersOf(choice.counts));
    const double seconds = judge_.SecondsAtConfidence(
        traits, choice.server_hosts, expected.seconds, judge_.IsHeld(choice.counts));
    const double usd = expected.usd * seconds / expected.seconds;
    seconds_min_ = std::min(seconds_min_, seconds);
    if (seconds <= problem_.goal.seconds_max && usd <= problem_.goal.usd_max) {
      // Of equals the one that `exact` has first.
      const auto at = std::ranges::upper_bound(good_, expected.usd, {}, &Expected::usd);
      good_.insert(at, std::move(expected));
      if (share_ == 0 && std::isfinite(Limit())) {
        share_ = LeastCostShare(lives_, SecondsMost(Limit()));
      }
    }
  }

  /// Dearer fleets are of no interest.
  double Limit() const {
    const auto wanted = static_cast<size_t>(problem_.answers_max);
    const double budget =
        std::max(problem_.goal.usd_max, problem_.goal.usd_max / judge_.quantile_factor());
    return good_.size() < wanted ? budget : std::min(budget, good_[wanted - 1].usd);
  }

  /// No fleet that costs this much without revocations, or more, is of interest.
  bool IsNoneLeft(double usd_without) {
    const double limit = Limit();
    if (!std::isfinite(limit)) {
      return false;
    }
    share_ = LeastCostShare(lives_, SecondsMost(limit));
    return usd_without * share_ > limit * (1 + kSlack);
  }

  /// A fleet in time and for no more than this takes at most so long.
  double SecondsMost(double usd) const {
    double server = kInfinity;
    for (const ServerOffer& some : problem_.servers) {
      server = std::min(server, some.usd_per_hour * some.hosts_min);
    }
    // Workers may all be gone for a while, servers are paid for all the time.
    const double by_usd = server > 0 ? usd / server * kSecondsPerHour : kInfinity;
    return std::min(by_usd, problem_.goal.seconds_max / std::min(judge_.quantile_factor(), 1.0));
  }

  Result<PlanAnswer> Take(PlanAnswer answer, bool is_certain) {
    if (good_.empty() && !answer.best.empty()) {
      PS_ASSIGN(PlanAnswer without, exact_.Solve(problem_));
      if (without.best.empty()) {
        return without;  // the goal is out of reach by itself
      }
      answer.infeasible.reason = WhyNot(is_certain);
    }
    answer.best.clear();
    for (Expected& some : good_) {
      if (answer.best.size() < static_cast<size_t>(problem_.answers_max)) {
        answer.best.push_back(std::move(some.choice));
      }
    }
    answer.fleets_evaluated += expected_;
    answer.certainty = is_certain ? answer.certainty : proto::Certainty::kBestFound;
    answer.usd_bound = 0;  // that of `exact` is of costs without revocations
    return answer;
  }

  std::string WhyNot(bool is_certain) const {
    return fmt::format(
        "machines are revoked: {}{} with that; plan with more time or money, with --market "
        "on-demand, or with --ignore-revocations",
        is_certain ? "" : "of the cheapest fleets ",
        std::isfinite(seconds_min_) ? "the fastest takes " + FormatDuration(seconds_min_)
                                    : std::string("none gets there"));
  }

  static constexpr uint64_t kExpectedMost = 20'000;
  static constexpr uint64_t kFleetsPerQuestion = 64;

  const Strategy& exact_;
  const PlanProblem& problem_;
  const FleetLives& lives_;
  FleetJudge judge_;
  std::vector<const std::vector<int>*> mixed_;  // ladders whose offers live differently
  size_t judged_ = 0;                           // answers of `exact`
  uint64_t expected_ = 0;
  bool is_ended_ = false;       // by the watch, or after so many
  std::vector<Expected> good_;  // by cost
  double share_ = 0;            // LeastCostShare, of a limit that was not below this one
  double seconds_min_ = kInfinity;
};

}  // namespace

bool FleetLives::HasLaw() const {
  return std::ranges::any_of(offers, [](const OfferLife& life) { return life.law != nullptr; });
}

Result<RunExpectation> ExpectChoice(
    const PlanProblem& problem,
    const FleetChoice& choice,
    const FleetLives& lives,
    bool is_replaced) {
  const ServerOffer& server = problem.servers[static_cast<size_t>(choice.server_offer)];
  std::vector<int> counts(problem.speed->classes().size(), 0);
  for (size_t i = 0; i < choice.counts.size(); ++i) {
    counts[static_cast<size_t>(problem.offers[i].worker_class)] += choice.counts[i];
  }
  const std::vector<double> step_s =
      problem.speed->StepSeconds(counts, {choice.server_hosts, server.link_bytes_per_s});
  double steps_per_s = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    steps_per_s += counts[k] / step_s[k];
  }
  RevocationTimes times = {.join_s = lives.join_s, .is_replaced = is_replaced};
  std::vector<RevocableWorkers> groups;
  for (size_t i = 0; i < choice.counts.size(); ++i) {
    if (choice.counts[i] == 0) {
      continue;
    }
    const auto k = static_cast<size_t>(problem.offers[i].worker_class);
    const OfferLife& life = lives.offers[i];
    times.lost_s = life.law == nullptr ? times.lost_s : std::max(times.lost_s, step_s[k]);
    // Rounding apart, the workers' speeds add up to the fleet's.
    const double share = choice.speed.steps_per_s / steps_per_s;
    groups.push_back(
        {.count = choice.counts[i],
         .steps_per_s = share / step_s[k],
         .usd_per_hour = problem.offers[i].usd_per_hour,
         .lifetimes = life.law,
         .start_up_s = life.start_up_s});
  }
  return ExpectRun(choice.steps, groups, times, server.usd_per_hour * choice.server_hosts);
}

double LeastCostShare(const FleetLives& lives, double seconds) {
  std::vector<OfferLife> different;
  for (const OfferLife& life : lives.offers) {
    const auto is_same = [&](const OfferLife& other) { return IsSameLife(life, other); };
    if (std::ranges::none_of(different, is_same)) {
      different.push_back(life);
    }
  }
  if (different.size() < 2) {
    return 1;
  }
  if (!std::isfinite(seconds)) {
    return 0;
  }
  double least = 1;
  // Grids that end earlier are finer: early revocations are seen on those.
  constexpr int kGrids = 6;
  constexpr double kFiner = 4;
  for (int grid = 0; grid < kGrids; ++grid, seconds /= kFiner) {
    std::vector<std::vector<double>> up;
    for (const OfferLife& life : different) {
      up.push_back(MeanUpShares(life.law, life.start_up_s + lives.join_s, seconds));
    }
    for (size_t cell = 0; cell < up.front().size(); ++cell) {
      double low = 1;
      double high = 0;
      for (const std::vector<double>& share : up) {
        low = std::min(low, share[cell]);
        high = std::max(high, share[cell]);
      }
      least = std::min(least, low / high);
    }
  }
  return std::max(0.0, 1 - (1 - least) * (1 + kGridDoubt));
}

Result<PlanAnswer> SolveWithRevocations(
    const Strategy& exact, const PlanProblem& problem, const FleetLives& lives) {
  PS_CHECK(lives.offers.size() == problem.offers.size());
  PS_TRY(CheckProblem(problem));
  return RevocableSearch(exact, problem, lives).Solve();
}

}  // namespace ps::provisioner
