// Searches for the fastest fleet ask "exact" for the cheapest one within ever tighter times.

#include "provisioner/planner/objective.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/infeasible.h"
#include "provisioner/planner/numbers.h"
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

  PlanAnswer Run() {
    double none_s = 0;  // no fleet keeps it
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
        judge_.IsHeld(choice.counts));
    answer_.best = std::move(found.best);
    return true;
  }

  PlanProblem narrowed_;
  FleetJudge judge_;
  const double usd_max_ = narrowed_.goal.usd_max;
  PlanAnswer answer_;
  double best_s_ = kInfinity;
};

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
  PlanAnswer answer = FastestSearch(problem).Run();
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
  PlanAnswer answer = FastestSearch(changed).Run();
  if (answer.best.empty()) {
    answer.infeasible = answer.is_stopped ? StoppedEarly() : TooDear(changed);
    return answer;
  }
  answer.best.front() = OfProblem(problem, answer.best.front());
  return answer;
}

}  // namespace ps::provisioner
