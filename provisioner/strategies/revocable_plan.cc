#include "provisioner/strategies/revocable_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/numbers.h"
#include "provisioner/planner/problem_check.h"
#include "provisioner/strategies/revocable_fleets.h"
#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

class RevocableSearch {
 public:
  RevocableSearch(const Strategy& exact, const PlanProblem& problem, const FleetLives& lives)
      : exact_(exact),
        problem_(problem),
        lives_(lives),
        judge_(problem),
        families_(problem, lives, &judge_) {}

  Result<PlanAnswer> Solve() {
    PlanProblem all = problem_;
    all.goal.usd_max = kInfinity;  // a fleet may cost less than it would without
    for (int fleets = std::max(kFleetsFirst, problem_.answers_max);; fleets *= kAskedTimesMore) {
      all.answers_max = fleets;
      PS_ASSIGN(PlanAnswer answer, exact_.Solve(all));
      for (; judged_ < answer.best.size(); ++judged_) {
        JudgeFamily(answer.best[judged_]);
      }
      const bool are_all = answer.best.size() < static_cast<size_t>(fleets);
      const bool is_enough = are_all || IsNoneLeft(answer.best.back().usd);
      const bool is_cut_short = is_ended_ || fleets * kAskedTimesMore > kAskedMost ||
                                answer.is_stopped ||
                                answer.certainty == proto::Certainty::kBestFound;
      if (is_enough || is_cut_short) {
        return Take(std::move(answer), is_enough && !is_ended_);
      }
    }
  }

 private:
  /// The fleet, and those with as many of each class from dearer offers, which may live longer.
  void JudgeFamily(const FleetChoice& given) {
    is_ended_ =
        is_ended_ || !families_.ForEach(given, [&](const FleetChoice& choice, bool is_given) {
          if (is_given || choice.usd * share_ <= Limit() * (1 + kSlack)) {
            Judge(choice);
          }
          return !is_ended_;
        });
  }

  void Judge(const FleetChoice& choice) {
    ++expected_;
    is_ended_ = is_ended_ || expected_ > kJudgedMost ||
                (problem_.watch != nullptr && expected_ % kJudgedPerQuestion == 0 &&
                 !problem_.watch->GoesOn({.fleets = expected_, .usd_best = Limit()}));
    std::optional<ExpectedFleet> expected = ExpectFleet(problem_, lives_, judge_, choice);
    if (!expected) {
      return;
    }
    seconds_min_ = std::min(seconds_min_, expected->seconds_sure);
    if (expected->seconds_sure <= problem_.goal.seconds_max &&
        expected->usd_sure <= problem_.goal.usd_max) {
      // Among equals the one that `exact` has first wins.
      const bool is_known = std::ranges::any_of(good_, [&](const ExpectedFleet& other) {
        return other.usd == expected->usd && other.choice.counts == choice.counts &&
               other.choice.server_offer == choice.server_offer &&
               other.choice.server_hosts == choice.server_hosts;
      });
      if (is_known) {
        return;  // of the family of another, where traffic leaves no order of a class's offers
      }
      const auto at = std::ranges::upper_bound(good_, expected->usd, {}, &ExpectedFleet::usd);
      good_.insert(at, *std::move(expected));
      if (share_ == 0 && std::isfinite(Limit())) {
        share_ = LeastCostShare(lives_, SecondsMost(problem_, judge_, Limit()));
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
    share_ = LeastCostShare(lives_, SecondsMost(problem_, judge_, limit));
    return usd_without * share_ > limit * (1 + kSlack);
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
    for (ExpectedFleet& some : good_) {
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

  static constexpr int kFleetsFirst = 16;

  const Strategy& exact_;
  const PlanProblem& problem_;
  const FleetLives& lives_;
  FleetJudge judge_;
  const FleetFamilies families_;
  size_t judged_ = 0;  // answers of `exact`
  uint64_t expected_ = 0;
  bool is_ended_ = false;            // by the watch, or after so many
  std::vector<ExpectedFleet> good_;  // by cost
  double share_ = 0;                 // LeastCostShare, of a limit that was not below this one
  double seconds_min_ = kInfinity;
};

}  // namespace

bool FleetLives::HasLaw() const {
  return std::ranges::any_of(offers, [](const OfferLife& life) { return life.law != nullptr; });
}

std::vector<AgeGroup> AgesOf(const OfferLife& life, int count, double hours) {
  if (life.law == nullptr || life.ages_hours.empty()) {
    return {{count, 0}};
  }

  struct Machine {
    double revoked;
    double age_hours;

    auto operator<=>(const Machine&) const = default;
  };

  std::vector<Machine> running;
  for (const double age : life.ages_hours) {
    running.push_back({life.law->RevokedWithin(age, hours), age});
  }
  std::ranges::sort(running);
  const size_t kept = std::min(running.size(), static_cast<size_t>(count));
  std::vector<AgeGroup> groups;
  for (size_t i = 0; i < kept; ++i) {
    const auto same = std::ranges::find(groups, running[i].age_hours, &AgeGroup::age_hours);
    if (same != groups.end()) {
      ++same->count;
    } else {
      groups.push_back({1, running[i].age_hours});
    }
  }
  if (const int fresh = count - static_cast<int>(kept); fresh > 0) {
    groups.push_back({fresh, 0});
  }
  return groups;
}

Result<RunExpectation> ExpectChoice(
    const PlanProblem& problem,
    const FleetChoice& choice,
    const FleetLives& lives,
    bool is_replaced) {
  const ServerOffer& server = problem.servers[static_cast<size_t>(choice.server_offer)];
  const auto [counts, step_s] = StepsIn(problem, choice);
  double steps_per_s = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    steps_per_s += counts[k] / step_s[k];
  }
  RevocationTimes times = {
      .detect_s = lives.detect_s, .join_s = lives.join_s, .is_replaced = is_replaced};
  std::vector<RevocableWorkers> groups;
  for (size_t i = 0; i < choice.counts.size(); ++i) {
    if (choice.counts[i] == 0) {
      continue;
    }
    const auto k = static_cast<size_t>(problem.offers[i].worker_class);
    const OfferLife& life = lives.offers[i];
    const WorkerTerms terms = TermsOf(problem, choice, i);
    const double lost_s = MinibatchesLost(problem) * step_s[k];
    times.lost_s = life.law == nullptr ? times.lost_s : std::max(times.lost_s, lost_s);
    // Rounding apart, the workers' speeds add up to the fleet's.
    const double share = choice.speed.steps_per_s / steps_per_s;
    const double hours = choice.steps / choice.speed.steps_per_s / kSecondsPerHour;
    for (const AgeGroup& group : AgesOf(life, choice.counts[i], hours)) {
      groups.push_back(
          {.count = group.count,
           .steps_per_s = share / step_s[k],
           .usd_per_hour = terms.usd_per_hour,
           .lifetimes = life.law,
           .age_hours = group.age_hours,
           .start_up_s = life.start_up_s,
           .usd_per_step = terms.usd_per_step});
    }
  }
  return ExpectRun(choice.steps, groups, times, server.usd_per_hour * choice.server_hosts);
}

double LeastCostShare(const FleetLives& lives, double seconds) {
  const std::vector<UpShares> different = DifferentLives(lives);
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
    for (const UpShares& life : different) {
      up.push_back(MeanUpShares(life, seconds / kCellsAlone, kCellsAlone));
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
