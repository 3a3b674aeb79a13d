// How far below the ideal each policy of pipelines ends on Parcae's trace, by
// model: the published plans, and ours by what they know of the minutes to
// come. Needs no quiet machine: it measures no time. Run it in the root of the
// source tree.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/strategies/forecast.h"
#include "provisioner/strategies/parcae.h"
#include "tests/bench/harness.h"
#include "tests/provisioner/strategies/parcae_models.h"

namespace ps::bench {
namespace {

using provisioner::ParcaeCosts;
using provisioner::ParcaeEvent;
using provisioner::ParcaeModel;
using provisioner::ParcaePlan;
using provisioner::ParcaeState;
using provisioner::ParcaeStep;

constexpr size_t kMinutesAhead = provisioner::kParcaeMinutesAhead;
constexpr double kMinuteS = provisioner::kParcaeMinuteS;

/// A model on the trace.
struct Case {
  std::string name;
  ParcaeModel model;
  std::vector<provisioner::ParcaeMinute> minutes;
};

/// Chooses the step of a minute. `seen`: counts of the minutes before.
using Policy = std::function<ParcaeStep(
    const Case& some,
    size_t minute,
    ParcaeCosts* costs,
    const ParcaeState& state,
    const std::vector<uint32_t>& seen)>;

struct Outcome {
  double samples = 0;
  size_t as_predicted = 0;  // minutes with the plan that was published of forecasts
  size_t as_truth = 0;      // and of true futures
};

Outcome OutcomeOf(const Case& some, int draws, const Policy& policy) {
  ParcaeCosts costs(some.model, draws, 1);
  ParcaeState state;
  std::vector<uint32_t> seen;
  Outcome outcome;
  for (size_t minute = 0; minute < some.minutes.size(); ++minute) {
    const ParcaeEvent& event = some.minutes[minute].event;
    const ParcaeStep step = policy(some, minute, &costs, state, seen);
    outcome.samples += TakeStep(some.model, step, event, kMinuteS, &state);
    outcome.as_predicted += step.plan == some.minutes[minute].predicted ? 1 : 0;
    outcome.as_truth += step.plan == some.minutes[minute].truth ? 1 : 0;
    seen.push_back(static_cast<uint32_t>(state.machines));
  }
  return outcome;
}

std::unique_ptr<provisioner::CountPredictor> Arima() {
  return provisioner::MakePredictor("parcae-arima", kMinutesAhead, {});
}

/// Plans a minute ahead, by counts that do not know its event, and drops
/// pipelines when it comes.
Policy PlanAhead(std::shared_ptr<provisioner::CountPredictor> predictor) {
  return [predictor = std::move(predictor)](
             const Case& some,
             size_t minute,
             ParcaeCosts* costs,
             const ParcaeState& state,
             const std::vector<uint32_t>& seen) {
    return provisioner::ParcaePlanAhead(
        predictor.get(), some.minutes[minute].event, seen, costs, state);
  };
}

/// Sees the minute's event, then counts on a forecast, or on no change without
/// one.
Policy SeeThenPlan(std::shared_ptr<provisioner::CountPredictor> predictor) {
  return [predictor = std::move(predictor)](
             const Case& some,
             size_t minute,
             ParcaeCosts* costs,
             const ParcaeState& state,
             const std::vector<uint32_t>& seen) {
    const int now = provisioner::ParcaeAfter(state, some.minutes[minute].event);
    std::vector<double> counts(kMinutesAhead, now);
    if (predictor != nullptr) {
      std::vector<uint32_t> known = seen;
      known.push_back(static_cast<uint32_t>(now));
      const std::vector<double> forecast =
          provisioner::ParcaeForecast(predictor.get(), known, kMinutesAhead - 1);
      std::copy(forecast.begin(), forecast.end(), counts.begin() + 1);
    }
    return LookAhead(costs, state, provisioner::ParcaeEventsOf(state.machines, counts), kMinuteS);
  };
}

Policy Published(bool is_truth) {
  return [is_truth](
             const Case& some,
             size_t minute,
             ParcaeCosts* costs,
             const ParcaeState& state,
             const std::vector<uint32_t>& /*seen*/) {
    const provisioner::ParcaeMinute& now = some.minutes[minute];
    return provisioner::ParcaeStepTo(costs, state, is_truth ? now.truth : now.predicted, now.event);
  };
}

ParcaeStep Fastest(
    const Case& some,
    size_t minute,
    ParcaeCosts* costs,
    const ParcaeState& state,
    const std::vector<uint32_t>& /*seen*/) {
  const ParcaeEvent& event = some.minutes[minute].event;
  const int machines = provisioner::ParcaeAfter(state, event);
  return provisioner::ParcaeStepTo(
      costs, state, provisioner::ParcaeFastestOf(some.model, machines), event);
}

ParcaeStep FastestWithCheckpoints(
    const Case& some,
    size_t minute,
    ParcaeCosts* /*costs*/,
    const ParcaeState& state,
    const std::vector<uint32_t>& /*seen*/) {
  return provisioner::ParcaeCheckpointStep(some.model, some.minutes[minute].event, state);
}

ParcaeStep Oracle(
    const Case& some,
    size_t minute,
    ParcaeCosts* costs,
    const ParcaeState& state,
    const std::vector<uint32_t>& /*seen*/) {
  std::vector<ParcaeEvent> events;
  for (size_t i = minute; i < std::min(minute + kMinutesAhead, some.minutes.size()); ++i) {
    events.push_back(some.minutes[i].event);
  }
  return LookAhead(costs, state, events, kMinuteS);
}

int Run(int argc, char** argv) {
  const BenchArguments arguments = ReadBenchArguments(argc, argv, {.has_rows = true});
  const int draws = arguments.is_tiny ? 2 : 200;
  const std::pair<std::string, std::function<Policy()>> policies[] = {
      {"published plans, forecasts", [] { return Published(false); }},
      {"ours, ARIMA", [] { return PlanAhead(Arima()); }},
      {"ours, no change", [] { return PlanAhead(nullptr); }},
      {"fastest plan, checkpoints", [] { return Policy(FastestWithCheckpoints); }},
      {"fastest plan of each minute", [] { return Policy(Fastest); }},
      {"ours, see the minute, hold 12", [] { return SeeThenPlan(nullptr); }},
      {"ours, see the minute, ARIMA", [] { return SeeThenPlan(Arima()); }},
      {"published plans, true futures", [] { return Published(true); }},
      {"ours, true futures", [] { return Policy(Oracle); }}};
  Table table(
      {"model",
       "policy",
       "samples",
       "below the ideal, %",
       "plans as of forecasts, %",
       "of true futures, %"});
  for (const std::string& name : provisioner::ParcaeModelNames()) {
    Case some = {name, provisioner::ParcaeModelOf(name), provisioner::ParcaeMinutesOf(name)};
    if (arguments.is_tiny) {
      some.minutes.resize(20);
    }
    ParcaeState state;
    double ideal = 0;
    for (const provisioner::ParcaeMinute& minute : some.minutes) {
      state.machines = provisioner::ParcaeAfter(state, minute.event);
      const auto found =
          some.model.samples_per_s.find(provisioner::ParcaeFastestOf(some.model, state.machines));
      ideal += found == some.model.samples_per_s.end() ? 0 : found->second * kMinuteS;
    }
    for (const auto& [title, make] : policies) {
      if (!arguments.Wants(name + " " + title)) {
        continue;
      }
      const Outcome outcome = OutcomeOf(some, draws, make());
      const double percent = 100.0 / static_cast<double>(some.minutes.size());
      table.Add(
          {name,
           title,
           Fixed(outcome.samples, 0),
           Fixed(100 * (1 - outcome.samples / ideal), 1),
           Fixed(percent * static_cast<double>(outcome.as_predicted), 1),
           Fixed(percent * static_cast<double>(outcome.as_truth), 1)});
    }
  }
  table.Print();
  return 0;
}

}  // namespace
}  // namespace ps::bench

int main(int argc, char** argv) {
  return ps::bench::Run(argc, argv);
}
