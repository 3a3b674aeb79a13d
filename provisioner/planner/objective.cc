// Without limits of cost the fastest fleet is the cheapest one when a second of every fleet costs
// the same. With them "exact" is asked for the cheapest fleet within ever tighter times.

#include "provisioner/planner/objective.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/infeasible.h"
#include "provisioner/planner/numbers.h"
#include "provisioner/planner/problem_check.h"
#include "provisioner/planner/strategies.h"

namespace ps::provisioner {
namespace {

/// So many samples are to be made, in whatever steps: the sooner, the more in a second.
class SamplesLoss final : public LossModel {
 public:
  double StepsTo(double /*loss*/, const FleetTraits& fleet) const override {
    return kSamples / fleet.batch_mean;
  }

  double StepsAtLeast(double /*loss*/, const FleetFamily& fleets) const override {
    return kSamples / fleets.batch_mean.high;
  }

  BatchLine BatchLineOf(const Range& batch_mean) const override {
    return {.constant = 0, .slope = 1 / batch_mean.high};
  }

  double floor() const override { return 0; }

  double residual() const override { return 0; }

 private:
  static constexpr double kSamples = 1e9;
};

// Times of which the one is less than this of the other.
constexpr double kClose = 1.02;
// By how much less the next search tries, once one has ended without an answer.
constexpr uint64_t kLessEffort = 4;

/// Halves the times between one that some fleet keeps and one that none does.
class FastestSearch {
 public:
  explicit FastestSearch(const PlanProblem& problem) : narrowed_(problem), judge_(problem) {
    narrowed_.answers_max = 1;
    answer_.certainty = proto::Certainty::kProven;
  }

  /// `none_s`: no fleet keeps it.
  PlanAnswer Run(double none_s) {
    bool has_asked_for_proof = false;
    Ask(narrowed_.goal.seconds_max);
    while (!answer_.best.empty() && !answer_.is_stopped && best_s_ > none_s * (1 + kSlack)) {
      // Whether nothing is faster is asked early: fleets are few, and the best may be found.
      const bool is_proof = best_s_ < none_s * kClose && !has_asked_for_proof;
      const double wanted_s = is_proof ? best_s_ * (1 - kSlack) : (none_s + best_s_) / 2;
      has_asked_for_proof = is_proof;
      if (!Ask(wanted_s)) {
        none_s = is_proof ? best_s_ : wanted_s;
      }
    }
    return std::move(answer_);
  }

 private:
  /// Whether there is a fleet that keeps the time; then it is the answer.
  bool Ask(double seconds_max) {
    Goal& goal = narrowed_.goal;
    // What an hour may cost at most, until then.
    goal.usd_max = std::min(
        usd_max_, goal.usd_per_hour_max / kSecondsPerHour * seconds_max * (1 + 2 * kSlack));
    goal.seconds_max = seconds_max;
    PlanAnswer found = SolveExactly(narrowed_, {});
    answer_.fleets_evaluated += found.fleets_evaluated;
    answer_.is_stopped = answer_.is_stopped || found.is_stopped;
    if (found.best.empty()) {
      answer_.certainty = std::min(answer_.certainty, found.certainty);
      if (found.certainty == proto::Certainty::kBestFound) {
        narrowed_.effort_max /= kLessEffort;  // as much for all that follow as for this one
      }
      return false;
    }
    const FleetChoice& choice = found.best.front();
    best_s_ = judge_.SecondsAtConfidence(
        TraitsOf(choice.speed, WorkersOf(choice.counts)),
        choice.server_hosts,
        choice.seconds,
        choice.start_s);
    answer_.best = std::move(found.best);
    return true;
  }

  PlanProblem narrowed_;
  FleetJudge judge_;
  const double usd_max_ = narrowed_.goal.usd_max;
  PlanAnswer answer_;
  double best_s_ = kInfinity;
};

/// Tells its own watch nothing of costs that nobody pays.
class WatchWithoutCosts final : public SearchWatch {
 public:
  explicit WatchWithoutCosts(SearchWatch* watch) : watch_(watch) {}

  bool GoesOn(const SearchProgress& progress) override {
    return watch_ == nullptr || watch_->GoesOn({.fleets = progress.fleets, .usd_best = kInfinity});
  }

 private:
  SearchWatch* const watch_;
};

/// The soonest fleet where money does not matter: of fleets that are equally soon, any. What is
/// expected to be soonest need not be so at the goal's confidence, as there is more doubt of fleets
/// far from what was measured.
class SoonestSearch {
 public:
  explicit SoonestSearch(const PlanProblem& problem)
      : problem_(problem),
        equal_(WithEqualPrices(problem)),
        judge_(problem_),
        watch_(problem.watch) {
    equal_.problem.answers_max = 1;
    equal_.problem.watch = &watch_;
    answer_.certainty = proto::Certainty::kProven;
  }

  PlanAnswer Run() {
    Ask(problem_.goal.seconds_max);
    // No fleet is sooner at the confidence than the first answer would be with the least doubt.
    const double factor = judge_.quantile_factor();
    const double apart_s = factor < 1 ? 0 : judge_.start_most_s();
    double none_s = (expected_s_ - apart_s) * factor + apart_s;
    bool is_proof = true;
    while (!answer_.best.empty() && !answer_.is_stopped && best_s_ > none_s * (1 + kSlack)) {
      const double wanted_s = is_proof ? best_s_ * (1 - kSlack) : (none_s + best_s_) / 2;
      if (!Ask(wanted_s)) {
        none_s = is_proof ? best_s_ : wanted_s;
      }
      is_proof = !is_proof;
    }
    return std::move(answer_);
  }

  /// The answer's time at the goal's confidence.
  double seconds() const { return best_s_; }

 private:
  bool Ask(double seconds_max) {
    equal_.problem.goal.seconds_max = seconds_max;
    const PlanAnswer found = SolveExactly(equal_.problem, {});
    answer_.fleets_evaluated += found.fleets_evaluated;
    answer_.is_stopped = answer_.is_stopped || found.is_stopped;
    // Each answer stands for all fleets beyond it, so doubt of any is doubt of the last.
    answer_.certainty = std::min(answer_.certainty, found.certainty);
    if (found.best.empty()) {
      return false;
    }
    const FleetChoice& fastest = found.best.front();
    const auto [offer, hosts] = equal_.hosts_of[static_cast<size_t>(fastest.server_offer)];
    FleetChoice choice = judge_.Choose(fastest.counts, offer, hosts);
    best_s_ = judge_.SecondsAtConfidence(
        TraitsOf(choice.speed, WorkersOf(choice.counts)), hosts, choice.seconds, choice.start_s);
    expected_s_ = choice.seconds;
    answer_.best = {std::move(choice)};
    return true;
  }

  const PlanProblem& problem_;
  EqualPrices equal_;
  FleetJudge judge_;
  WatchWithoutCosts watch_;
  PlanAnswer answer_;
  double best_s_ = kInfinity;
  double expected_s_ = kInfinity;  // of the latest answer
};

/// The cheapest of the fleets that are as soon as the soonest one.
PlanAnswer CheapestOfSoonest(const PlanProblem& problem) {
  SoonestSearch search(problem);
  PlanAnswer soonest = search.Run();
  if (soonest.best.empty() || soonest.is_stopped) {
    return soonest;
  }
  PlanProblem narrowed = problem;
  narrowed.answers_max = 1;
  narrowed.goal.seconds_max = std::min(problem.goal.seconds_max, search.seconds() * (1 + kSlack));
  PlanAnswer answer = SolveExactly(narrowed, {});
  answer.fleets_evaluated += soonest.fleets_evaluated;
  answer.certainty = std::min(answer.certainty, soonest.certainty);
  if (answer.best.empty()) {
    answer.best = std::move(soonest.best);  // it is there, whatever the limit's rounding says
  }
  return answer;
}

/// Whatever limits the problem has: those of cost are tried last, as most of the time they do not
/// matter.
PlanAnswer Soonest(const PlanProblem& problem) {
  PlanProblem unlimited = problem;
  unlimited.goal.usd_max = kInfinity;
  unlimited.goal.usd_per_hour_max = kInfinity;
  PlanAnswer answer = CheapestOfSoonest(unlimited);
  if (answer.best.empty() || answer.is_stopped) {
    return answer;
  }
  FleetJudge judge(problem);
  const FleetChoice& best = answer.best.front();
  const Verdict verdict = judge.Judge(best.counts, best.server_offer, best.server_hosts);
  if (judge.MeetsGoal(verdict)) {
    return answer;
  }
  const double soonest_s = judge.SecondsAtConfidence(
      TraitsOf(best.speed, WorkersOf(best.counts)), best.server_hosts, best.seconds, best.start_s);
  const bool is_known = answer.certainty != proto::Certainty::kBestFound;
  PlanAnswer limited = FastestSearch(problem).Run(is_known ? soonest_s * (1 - 2 * kSlack) : 0);
  limited.fleets_evaluated += answer.fleets_evaluated;
  return limited;
}

/// Why no fleet is within the price of an hour.
Infeasible TooDear(const PlanProblem& problem) {
  double usd = kInfinity;
  std::string fleet;
  const FleetJudge judge(problem);
  for (size_t i = 0; i < problem.offers.size(); ++i) {
    std::vector<int> counts;
    for (const Offer& offer : problem.offers) {
      counts.push_back(offer.held);
    }
    if (WorkersOf(counts) == 0) {
      counts[i] = std::min(problem.offers[i].quota, 1);
    }
    for (size_t server = 0; server < problem.servers.size() && WorkersOf(counts) > 0; ++server) {
      const ServerOffer& offer = problem.servers[server];
      const int index = static_cast<int>(server);
      const double usd_per_hour =
          judge.UsdPerSecond(counts, index, offer.hosts_min) * kSecondsPerHour;
      if (usd_per_hour < usd && judge.Fits(counts, index, offer.hosts_min)) {
        usd = usd_per_hour;
        const auto k = static_cast<size_t>(problem.offers[i].worker_class);
        fleet = fmt::format(
            "{} {}, {} {}",
            WorkersOf(counts),
            problem.speed->classes()[k].name,
            offer.hosts_min,
            offer.instance_type);
      }
    }
  }
  Infeasible why;
  why.usd_per_hour_min = usd;
  why.reason =
      fleet.empty()
          ? "the quotas have no room for one worker and its servers"
          : fmt::format(
                "an hour may cost {:.4g} USD, and that of the cheapest fleet ({}) costs {:.4g}",
                problem.goal.usd_per_hour_max,
                fleet,
                usd);
  return why;
}

}  // namespace

Result<PlanAnswer> SolveForTime(const PlanProblem& problem) {
  PS_TRY(CheckProblem(problem));
  PlanAnswer answer = Soonest(problem);
  return answer.best.empty() ? MakeExactStrategy()->Solve(problem) : std::move(answer);
}

Result<PlanProblem> SamplesProblem(const PlanProblem& problem) {
  if (!std::isfinite(problem.goal.usd_per_hour_max)) {
    return Status::InvalidArgument(
        "the objective throughput-per-hour needs --price-per-hour: without a limit more workers "
        "are always faster");
  }
  static const SamplesLoss samples;
  PlanProblem changed = problem;
  changed.loss = &samples;
  changed.goal = {
      .loss = 1,
      .seconds_max = kInfinity,
      .usd_max = kInfinity,
      .usd_per_hour_max = problem.goal.usd_per_hour_max};
  PS_TRY(CheckProblem(changed));
  return changed;
}

FleetChoice OfProblem(const PlanProblem& problem, const FleetChoice& of_samples) {
  if (problem.loss != nullptr && problem.goal.loss > 0) {
    return FleetJudge(problem).Choose(
        of_samples.counts, of_samples.server_offer, of_samples.server_hosts);
  }
  FleetChoice choice = of_samples;
  choice.steps = choice.seconds = choice.usd = 0;
  return choice;
}

Result<PlanAnswer> SolveForThroughput(const PlanProblem& problem) {
  PS_ASSIGN(const PlanProblem changed, SamplesProblem(problem));
  PlanAnswer answer = FastestSearch(changed).Run(0);
  if (answer.best.empty()) {
    answer.infeasible = answer.is_stopped ? StoppedEarly() : TooDear(changed);
    return answer;
  }
  answer.best.front() = OfProblem(problem, answer.best.front());
  return answer;
}

}  // namespace ps::provisioner
