#include "provisioner/planner/infeasible.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <vector>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/numbers.h"

namespace ps::provisioner {
namespace {

// Nearest goals can be met, and are this close to the nearest.
constexpr double kAccuracy = 1e-3;
constexpr int kBisectionsMax = 20;
constexpr double kStartLeast = 1e-9;
constexpr int kStartHalvings = 60;
constexpr double kStepsLeast = 1;  // of a job: with fewer there is nothing to do
// A goal that can be met is enough where the last percent takes long.
constexpr ExactEffort kEffort{
    .gap = kAccuracy, .regions_max = 20'000, .nodes_max_uncut = ExactEffort().nodes_max_uniform};

[[gnu::format(printf, 1, 2)]] std::string Text(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  return text;
}

/// The limits that a fleet meets at the goal's confidence.
struct Limits {
  double seconds = kInfinity;
  double usd = kInfinity;
};

class Explainer {
 public:
  explicit Explainer(const PlanProblem& problem) : problem_(problem), judge_(problem) {
    problem_.answers_max = 1;
  }

  /// What the cheapest fleet keeps under other limits.
  Limits Cheapest(double seconds_max, double usd_max) const {
    PlanProblem changed = problem_;
    changed.goal.seconds_max = seconds_max;
    changed.goal.usd_max = usd_max;
    return LimitsOf(SolveExactly(changed, kEffort));
  }

  /// Seconds of the fastest fleet, whatever it costs.
  double FastestSeconds() const {
    PlanProblem changed = WithEqualPrices(problem_).problem;
    changed.goal.seconds_max = kInfinity;
    return LimitsOf(SolveExactly(changed, kEffort)).seconds;
  }

  double FastestSecondsWithin(double usd_max, double seconds_min) const {
    Limits best = Cheapest(kInfinity, usd_max);
    double low = seconds_min;
    for (int i = 0; i < kBisectionsMax && best.seconds > low * (1 + kAccuracy); ++i) {
      const double middle = (low + best.seconds) / 2;
      const Limits found = Cheapest(middle, usd_max);
      if (found.seconds <= middle) {
        best = found;
      } else {
        low = middle;
      }
    }
    return best.seconds;
  }

 private:
  Limits LimitsOf(const PlanAnswer& answer) const {
    if (answer.best.empty()) {
      return {};
    }
    const FleetChoice& choice = answer.best.front();
    const double seconds = judge_.SecondsAtConfidence(
        TraitsOf(choice.speed, WorkersOf(choice.counts)),
        choice.server_hosts,
        choice.seconds,
        choice.start_s);
    const double scale = choice.seconds > 0 ? seconds / choice.seconds : 1;
    return {seconds, choice.usd * scale};
  }

  PlanProblem problem_;
  FleetJudge judge_;
};

std::string AtConfidence(const Goal& goal) {
  return goal.confidence == 0.5 ? "" : Text(" at %.0f %% confidence", goal.confidence * 100);
}

std::string OutOfReach(const PlanProblem& problem) {
  return Text(
      "loss %g is out of reach: the fitted curve ends at %g, whatever the fleet",
      problem.goal.loss,
      problem.loss->floor());
}

std::string Met(const PlanProblem& problem, double start) {
  if (problem.goal.loss_now > 0) {
    return Text(
        "loss %g is less than a step away from %.10g, where the run is",
        problem.goal.loss,
        problem.goal.loss_now);
  }
  return Text(
      "loss %g is met before the first step: the fitted curve begins at %.4g",
      problem.goal.loss,
      start);
}

/// The highest loss to which such a fleet needs a step.
double StartOf(const PlanProblem& problem, const FleetTraits& fleet) {
  if (problem.loss->StepsTo(problem.goal.loss, fleet) >= kStepsLeast) {
    return problem.goal.loss;
  }
  // Above the floor; by factors, since whoever asks may be many powers of ten above the curve.
  double low = kStartLeast;
  double high = problem.goal.loss - problem.loss->floor();
  for (int i = 0; i < kStartHalvings && low < high; ++i) {
    const double middle = std::sqrt(low) * std::sqrt(high);
    const bool needs_steps =
        problem.loss->StepsTo(problem.loss->floor() + middle, fleet) >= kStepsLeast;
    (needs_steps ? low : high) = middle;
  }
  return problem.loss->floor() + low;
}

}  // namespace

EqualPrices WithEqualPrices(const PlanProblem& problem) {
  EqualPrices equal = {.problem = problem, .hosts_of = {}};
  PlanProblem& changed = equal.problem;
  changed.goal.usd_max = kInfinity;
  changed.goal.usd_per_hour_max = kInfinity;
  for (Offer& offer : changed.offers) {
    offer.usd_per_hour = 0;
    offer.places.clear();
    offer.billed_s_min = 0;
  }
  changed.servers.clear();
  for (size_t i = 0; i < problem.servers.size(); ++i) {
    const ServerOffer& server = problem.servers[i];
    for (int hosts = server.hosts_min; hosts <= server.hosts_max; ++hosts) {
      ServerOffer& one = changed.servers.emplace_back(server);
      one.hosts_min = hosts;
      one.hosts_max = hosts;
      one.usd_per_hour = kSecondsPerHour / hosts;
      one.billed_s_min = 0;
      equal.hosts_of.emplace_back(static_cast<int>(i), hosts);
    }
  }
  return equal;
}

Infeasible StoppedEarly() {
  Infeasible why;
  why.reason = "none was found before the search was stopped; give it more time";
  why.seconds_min = kInfinity;
  why.usd_min_in_time = kInfinity;
  why.seconds_min_in_usd = kInfinity;
  return why;
}

void RefuseMetGoal(const PlanProblem& problem, PlanAnswer* answer) {
  if (answer->best.empty() || answer->best.front().steps >= kStepsLeast) {
    return;
  }
  const FleetChoice& met = answer->best.front();
  double start = StartOf(problem, TraitsOf(met.speed, WorkersOf(met.counts)));
  // Single workers, of which one has the largest batch, begin lowest.
  FleetJudge judge(problem);
  for (size_t i = 0; i < problem.offers.size(); ++i) {
    std::vector<int> alone(problem.offers.size(), 0);
    alone[i] = problem.offers[i].quota > 0 ? 1 : 0;
    if (alone[i] > 0) {
      const FleetChoice choice = judge.Choose(alone, met.server_offer, met.server_hosts);
      start = std::min(start, StartOf(problem, TraitsOf(choice.speed, 1)));
    }
  }
  answer->best.clear();
  answer->infeasible = {};
  answer->infeasible.loss_floor = problem.loss->floor();
  answer->infeasible.loss_start = start;
  answer->infeasible.reason = Met(problem, start);
}

std::string WhyNoTime(const PlanProblem& problem, const FleetChoice& choice) {
  if (problem.goal.loss <= problem.loss->floor()) {
    return OutOfReach(problem);
  }
  if (!std::isfinite(choice.seconds)) {
    return Text(
        "this fleet never reaches loss %g: its mean batch of %.0f samples is beyond what the "
        "fitted curve can speak of",
        problem.goal.loss,
        choice.speed.batch_mean);
  }
  return choice.steps < kStepsLeast
             ? Met(problem, StartOf(problem, TraitsOf(choice.speed, WorkersOf(choice.counts))))
             : "";
}

namespace {

Infeasible Explain(const PlanProblem& problem, std::string_view strategy) {
  const Goal& goal = problem.goal;
  Infeasible why;
  why.loss_floor = problem.loss->floor();
  why.seconds_min = kInfinity;
  why.usd_min_in_time = kInfinity;
  why.seconds_min_in_usd = kInfinity;
  if (goal.loss <= why.loss_floor) {
    why.reason = OutOfReach(problem);
    return why;
  }
  const Explainer explainer(problem);
  why.seconds_min = explainer.FastestSeconds();
  if (why.seconds_min == kInfinity) {
    why.reason = Text("no fleet of this catalog reaches loss %g at any time", goal.loss);
    return why;
  }
  if (goal.usd_max < kInfinity) {
    why.seconds_min_in_usd = explainer.FastestSecondsWithin(goal.usd_max, why.seconds_min);
  }
  if (why.seconds_min > goal.seconds_max) {
    why.reason = Text(
        "time: the fastest fleet needs %.0f s to loss %g%s, %.1f %% more than the %.0f s allowed",
        why.seconds_min,
        goal.loss,
        AtConfidence(goal).c_str(),
        (why.seconds_min / goal.seconds_max - 1) * 100,
        goal.seconds_max);
    return why;
  }
  why.usd_min_in_time = explainer.Cheapest(goal.seconds_max, kInfinity).usd;
  if (why.usd_min_in_time > goal.usd_max) {
    why.reason = Text(
        "budget: the cheapest fleet in time costs %.2f USD%s, %.1f %% more than the %.2f USD "
        "allowed",
        why.usd_min_in_time,
        AtConfidence(goal).c_str(),
        (why.usd_min_in_time / goal.usd_max - 1) * 100,
        goal.usd_max);
    return why;
  }
  why.reason = Text(
      "the strategy '%.*s' finds no fleet, although there is one for %.2f USD: 'exact' finds it",
      static_cast<int>(strategy.size()),
      strategy.data(),
      why.usd_min_in_time);
  return why;
}

}  // namespace

Infeasible ExplainInfeasible(const PlanProblem& problem, std::string_view strategy) {
  const Infeasible why = Explain(problem, strategy);
  // A search that was stopped may have missed a fleet that exists.
  constexpr SearchProgress kNothing{.usd_best = kInfinity};
  const bool is_cut_short = problem.watch != nullptr && problem.goal.loss > why.loss_floor &&
                            !problem.watch->GoesOn(kNothing);
  return is_cut_short ? StoppedEarly() : why;
}

}  // namespace ps::provisioner
