// Both searches know a time that a fleet takes with revocations, and look for one that takes less.
// Such a fleet takes less without them, too, by how much MostUpShare tells: all of those are
// judged.

#include "provisioner/strategies/revocable_objective.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/infeasible.h"
#include "provisioner/planner/numbers.h"
#include "provisioner/planner/objective.h"
#include "provisioner/planner/problem_check.h"
#include "provisioner/planner/strategies.h"
#include "provisioner/strategies/revocable_fleets.h"

namespace ps::provisioner {
namespace {

constexpr double kSpanMost = 6;  // of MostUpShare's times

/// With revocations.
struct Rating {
  double seconds = 0;
  double usd = 0;

  bool IsBetterThan(const Rating& other) const {
    const bool is_as_soon = seconds <= other.seconds * (1 + kSlack);
    return seconds < other.seconds * (1 - kSlack) || (is_as_soon && usd < other.usd);
  }
};

struct FastestRules {
  // Rates a fleet that may be chosen.
  std::function<std::optional<Rating>(const FleetChoice& choice)> rate;
  // Longest time without revocations of a fleet that takes at most `seconds` with them.
  std::function<double(double seconds)> seconds_without;
};

class FastestWithRevocations {
 public:
  /// The limits of `problem` are those of fleets without revocations; `rules` have the others. All
  /// outlive it.
  FastestWithRevocations(
      const PlanProblem& problem, const FleetLives& lives, const FastestRules& rules)
      : narrowed_(problem), rules_(rules), judge_(problem), families_(problem, lives, &judge_) {}

  /// Fleets to begin with.
  void See(const FleetChoice& choice) { RateFamily(choice); }

  bool has_answer() const { return best_.has_value(); }

  /// Requires: has_answer(). `fastest_s`: no fleet takes less without revocations.
  PlanAnswer Run(double fastest_s) {
    known_s_ = fastest_s * (1 - kSlack);
    PlanAnswer answer;
    answer.certainty = proto::Certainty::kProven;
    for (int fleets = kFleetsFirst; !IsDone() && !is_ended_; fleets *= kAskedTimesMore) {
      if (fleets > kAskedMost) {
        is_ended_ = true;
        break;
      }
      narrowed_.answers_max = fleets;
      Ask(limit_s_, &answer);
      if (!IsDone() && !is_ended_) {
        Ask((known_s_ + limit_s_) / 2, &answer);  // the fastest, not the cheapest of them
      }
    }
    if (is_ended_ && !IsDone()) {
      answer.certainty = proto::Certainty::kBestFound;
    }
    answer.best = {*best_};
    answer.fleets_evaluated += seen_.size();
    return answer;
  }

 private:
  bool IsDone() const { return known_s_ >= limit_s_; }

  /// Rates the fleets that take at most so long without revocations, the cheapest first, as many
  /// as are to be asked for.
  void Ask(double seconds, PlanAnswer* sum) {
    Goal& goal = narrowed_.goal;
    // What an hour may cost at most, until then.
    goal.usd_max =
        std::min(usd_max_, goal.usd_per_hour_max / kSecondsPerHour * seconds * (1 + 2 * kSlack));
    goal.seconds_max = seconds;
    const PlanAnswer found = SolveExactly(narrowed_, {});
    sum->fleets_evaluated += found.fleets_evaluated;
    sum->is_stopped = sum->is_stopped || found.is_stopped;
    const bool are_all = found.best.size() < static_cast<size_t>(narrowed_.answers_max);
    for (const FleetChoice& choice : found.best) {
      if (!is_ended_) {
        RateFamily(choice);
      }
    }
    is_ended_ = is_ended_ || found.is_stopped || found.certainty == proto::Certainty::kBestFound;
    sum->certainty = std::min(sum->certainty, found.certainty);
    if (are_all && !is_ended_) {
      known_s_ = std::max(known_s_, seconds);
    }
  }

  void RateFamily(const FleetChoice& given) {
    const bool goes_on = families_.ForEach(given, [&](const FleetChoice& choice, bool) {
      if (!seen_.emplace(choice.counts, choice.server_offer, choice.server_hosts).second) {
        return true;
      }
      const bool asks = narrowed_.watch != nullptr && seen_.size() % kJudgedPerQuestion == 0;
      const SearchProgress progress = {.fleets = seen_.size(), .usd_best = kInfinity};
      if (seen_.size() > kJudgedMost || (asks && !narrowed_.watch->GoesOn(progress))) {
        return false;
      }
      const std::optional<Rating> rating = rules_.rate(choice);
      if (rating && (!best_ || rating->IsBetterThan(rating_))) {
        best_ = choice;
        rating_ = *rating;
        limit_s_ = std::min(limit_s_, rules_.seconds_without(rating_.seconds) * (1 + 3 * kSlack));
      }
      return true;
    });
    is_ended_ = is_ended_ || !goes_on;
  }

  static constexpr int kFleetsFirst = 64;

  PlanProblem narrowed_;
  const double usd_max_ = narrowed_.goal.usd_max;
  const FastestRules& rules_;
  FleetJudge judge_;
  const FleetFamilies families_;
  std::set<std::tuple<std::vector<int>, int, int>> seen_;
  std::optional<FleetChoice> best_;
  Rating rating_;
  double known_s_ = 0;          // all that take at most so long without revocations were rated
  double limit_s_ = kInfinity;  // whoever takes longer is slower than the best
  bool is_ended_ = false;       // by the watch, or after so many
};

/// How much longer a fleet takes at the goal's confidence than expected, the take-over left out, at
/// most.
double MostQuantileFactor(const PlanProblem& problem, const FleetJudge& judge) {
  int hosts = 1;
  for (const ServerOffer& server : problem.servers) {
    hosts = std::max(hosts, server.hosts_max);
  }
  const auto workers =
      static_cast<int>(std::min<int64_t>(MostWorkers(problem), problem.workers_max));
  double deviation = 0;
  for (const WorkerClass& worker : problem.speed->classes()) {
    deviation = std::max(deviation, worker.deviation);
  }
  // Doubt grows with the distance from what was measured, to either side.
  return std::max(
      judge.QuantileFactor({.workers = 1, .late = 0, .deviation = deviation}, hosts),
      judge.QuantileFactor({.workers = workers, .late = 1, .deviation = deviation}, hosts));
}

/// What a seat of an offer does over the hours ahead, for each age that its machines have.
SeatExpectation SeatOver(const FleetLives& lives, const OfferLife& life, double age_hours) {
  if (life.law == nullptr) {
    return {.works = 1};
  }
  const RevocableWorkers worker = {
      .count = 1, .lifetimes = life.law, .age_hours = age_hours, .start_up_s = life.start_up_s};
  const RevocationTimes times = {.detect_s = lives.detect_s, .join_s = lives.join_s};
  return ExpectSeat(worker, times, kHoursAhead * kSecondsPerHour);
}

/// The problem with its budget as it is for fleets without revocations.
PlanProblem WithWidenedBudget(
    const PlanProblem& problem, const FleetLives& lives, const FleetJudge& judge) {
  PlanProblem widened = problem;
  widened.answers_max = 1;
  double& usd_max = widened.goal.usd_max;
  if (std::isfinite(usd_max)) {
    const double factor = std::min(judge.quantile_factor(), 1.0);
    const double share =
        LeastCostShare(lives, SecondsMost(problem, judge, usd_max / factor)) * factor;
    usd_max = share > 0 ? usd_max / share : kInfinity;
  }
  return widened;
}

}  // namespace

double MostUpShare(const FleetLives& lives, double from_s, double to_s) {
  if (!(from_s > 0 && to_s <= from_s * kSpanMost)) {
    return 1;
  }
  const double cell_s = from_s / kCellsAlone;
  const int cells = static_cast<int>(std::ceil(std::max(to_s, from_s) / cell_s)) + 1;
  double most = 0;
  for (const UpShares& seat : DifferentLives(lives)) {
    const std::vector<double> shares = MeanUpShares(seat, cell_s, cells);
    most = std::max(most, *std::max_element(shares.begin() + kCellsAlone - 1, shares.end()));
  }
  return std::min(1.0, 1 - (1 - most) * (1 - kGridDoubt));
}

Result<PlanAnswer> SolveForTimeWithRevocations(
    const PlanProblem& problem, const FleetLives& lives) {
  PS_CHECK(lives.offers.size() == problem.offers.size());
  PS_TRY(CheckProblem(problem));
  const FleetJudge judge(problem);
  const PlanProblem widened = WithWidenedBudget(problem, lives, judge);
  PS_ASSIGN(PlanAnswer first, SolveForTime(widened));
  if (first.best.empty() || first.best.front().steps == 0) {
    // Out of reach, or met before it begins, whoever is revoked.
    return widened.goal.usd_max == problem.goal.usd_max ? first : SolveForTime(problem);
  }
  const auto sure_s = [&](const FleetChoice& choice) {
    return judge.SecondsAtConfidence(
        TraitsOf(choice.speed, WorkersOf(choice.counts)),
        choice.server_hosts,
        choice.seconds,
        choice.start_s);
  };
  const Goal& goal = problem.goal;
  const double fastest_s = sure_s(first.best.front());
  const double from_s =
      std::max(fastest_s - judge.start_most_s(), 0.0) / MostQuantileFactor(problem, judge);
  const FastestRules rules = {
      .rate = [&](const FleetChoice& choice) -> std::optional<Rating> {
        const auto fleet = ExpectFleet(problem, lives, judge, choice);
        const bool is_good =
            fleet && fleet->seconds_sure <= goal.seconds_max && fleet->usd_sure <= goal.usd_max;
        return is_good ? std::optional(Rating{fleet->seconds_sure, fleet->usd}) : std::nullopt;
      },
      .seconds_without =
          [&](double seconds) {
            const double up = MostUpShare(lives, from_s, seconds / judge.quantile_factor());
            return seconds * up + judge.start_most_s() * (1 - up);
          }};
  FastestWithRevocations search(widened, lives, rules);
  search.See(first.best.front());
  if (!search.has_answer()) {
    // The cheapest fleet is one if any is.
    PlanProblem one = problem;
    one.answers_max = 1;
    PS_ASSIGN(PlanAnswer cheapest, SolveWithRevocations(*MakeExactStrategy(), one, lives));
    if (cheapest.best.empty()) {
      return cheapest;
    }
    search.See(cheapest.best.front());
    PS_CHECK(search.has_answer());
  }
  PlanAnswer answer = search.Run(fastest_s);
  answer.certainty = std::min(answer.certainty, first.certainty);
  answer.fleets_evaluated += first.fleets_evaluated;
  answer.is_stopped = answer.is_stopped || first.is_stopped;
  return answer;
}

FleetHours::FleetHours(const PlanProblem& problem, const FleetLives& lives)
    : problem_(problem), lives_(lives) {
  for (const OfferLife& life : lives.offers) {
    std::map<double, SeatExpectation>& by_age = seats_.emplace_back();
    by_age[0] = SeatOver(lives, life, 0);
    for (const double age : life.law == nullptr ? std::vector<double>() : life.ages_hours) {
      by_age.try_emplace(age, SeatOver(lives, life, age));
    }
  }
}

HourExpectation FleetHours::Expect(const FleetChoice& choice) const {
  const ServerOffer& server = problem_.servers[static_cast<size_t>(choice.server_offer)];
  const auto [counts, step_s] = StepsIn(problem_, choice);
  double all = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    all += counts[k] * problem_.speed->classes()[k].samples / step_s[k];
  }
  constexpr double kSeconds = kHoursAhead * kSecondsPerHour;
  HourExpectation out = {.usd_per_hour = server.usd_per_hour * choice.server_hosts};
  for (size_t i = 0; i < choice.counts.size(); ++i) {
    if (choice.counts[i] == 0) {
      continue;
    }
    const auto k = static_cast<size_t>(problem_.offers[i].worker_class);
    // Rounding apart, the workers' speeds add up to the fleet's.
    const double rate =
        choice.speed.samples_per_s * problem_.speed->classes()[k].samples / step_s[k] / all;
    for (const AgeGroup& group : AgesOf(lives_.offers[i], choice.counts[i], kHoursAhead)) {
      const SeatExpectation& seat = seats_[i].at(group.age_hours);
      const double paid = PaidSeconds(
                              {.start_up_s = lives_.offers[i].start_up_s},
                              {.detect_s = lives_.detect_s, .join_s = lives_.join_s},
                              seat.works * kSeconds,
                              seat.revoked,
                              kSeconds) /
                          kSeconds;
      const double lost_s = MinibatchesLost(problem_) * step_s[k];
      out.samples_per_s += group.count * rate * (seat.works - seat.revoked * lost_s / kSeconds);
      const WorkerTerms terms = TermsOf(problem_, choice, i);
      out.usd_per_hour +=
          group.count * (terms.usd_per_hour * paid +
                         terms.usd_per_step * seat.works * kSecondsPerHour / step_s[k]);
      out.revoked += group.count * seat.revoked;
    }
  }
  return out;
}

double FleetHours::MostUp() const {
  double most = 0;
  for (const auto& by_age : seats_) {
    for (const auto& [age, seat] : by_age) {
      most = std::max(most, seat.works);
    }
  }
  return most;
}

Result<PlanAnswer> SolveForThroughputWithRevocations(
    const PlanProblem& problem, const FleetLives& lives) {
  PS_CHECK(lives.offers.size() == problem.offers.size());
  PS_ASSIGN(PlanAnswer first, SolveForThroughput(problem));
  if (first.best.empty()) {
    return first;  // no fleet is within the price of an hour
  }
  PS_ASSIGN(const PlanProblem samples, SamplesProblem(problem));
  FleetJudge judge(samples);
  const FleetHours seats(samples, lives);
  const FastestRules rules = {
      .rate = [&](const FleetChoice& choice) -> std::optional<Rating> {
        const double usd_per_hour =
            (judge.UsdPerSecond(choice.counts, choice.server_offer, choice.server_hosts) +
             (choice.traffic_usd > 0 ? choice.traffic_usd / choice.seconds : 0)) *
            kSecondsPerHour;
        const HourExpectation hours = seats.Expect(choice);
        if (usd_per_hour > samples.goal.usd_per_hour_max * (1 + kSlack) ||
            !(hours.samples_per_s > 0)) {
          return std::nullopt;
        }
        // The time to the number of samples that the problem asks for.
        const double slower = choice.speed.samples_per_s / hours.samples_per_s;
        return Rating{choice.seconds * slower, hours.usd_per_hour};
      },
      .seconds_without = [&](double seconds) { return seconds * seats.MostUp(); }};
  FastestWithRevocations search(samples, lives, rules);
  const FleetChoice& fastest = first.best.front();
  const FleetChoice given =
      judge.Choose(fastest.counts, fastest.server_offer, fastest.server_hosts);
  search.See(given);
  if (!search.has_answer()) {
    return first;  // revocations leave it nothing
  }
  PlanAnswer answer = search.Run(given.seconds);
  answer.certainty = std::min(answer.certainty, first.certainty);
  answer.fleets_evaluated += first.fleets_evaluated;
  answer.is_stopped = answer.is_stopped || first.is_stopped;
  answer.best.front() = OfProblem(problem, answer.best.front());
  return answer;
}

}  // namespace ps::provisioner
