#include "provisioner/claims/parcae_policies.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace ps::provisioner {

namespace {

int ParcaeAfter(const ParcaeState& state, const ParcaeEvent& event) {
  return state.machines + event.added - event.removed;
}

/// As few pipelines of the same length as fit, else one of all machines, as the program does.
ParcaePlan ParcaeClipped(const ParcaePlan& plan, int machines) {
  if (plan.stages > 0 && machines >= plan.stages) {
    return {std::min(plan.pipelines, machines / plan.stages), plan.stages};
  }
  return {1, machines};
}

/// The step to a plan, at its cost.
ParcaeStep ParcaeStepTo(
    ParcaeCosts* costs,
    const ParcaeState& state,
    const ParcaePlan& plan,
    const ParcaeEvent& event) {
  ParcaeStep step = {.plan = plan};
  for (const ParcaeCosts::Target& target : costs->From(state.machines, state.plan, event)) {
    step.cost_ms = target.plan == plan ? target.cost_ms : step.cost_ms;
  }
  return step;
}

std::vector<ParcaeEvent> ParcaeEventsOf(int machines, const std::vector<double>& counts) {
  std::vector<ParcaeEvent> events;
  for (const double count : counts) {
    const int next = static_cast<int>(count);
    events.push_back({std::max(next - machines, 0), std::max(machines - next, 0)});
    machines = next;
  }
  return events;
}

}  // namespace

ParcaePlan ParcaeFastestOf(const ParcaeModel& model, int machines) {
  ParcaePlan best;
  double most = 0;
  for (const auto& [plan, samples_per_s] : model.samples_per_s) {
    const bool is_allowed =
        std::ranges::count(model.stages, plan.stages) > 0 && plan.pipelines >= model.pipelines_min;
    if (is_allowed && plan.machines() <= machines && samples_per_s > most) {
      best = plan;
      most = samples_per_s;
    }
  }
  return best;
}

namespace {

/// Counts to come by the forecast; the last count before there is history enough.
std::vector<double> ParcaeForecast(
    CountPredictor* predictor, const std::vector<uint32_t>& seen, size_t minutes) {
  if (seen.size() < kParcaeMinutesAhead) {
    return std::vector<double>(minutes, seen.empty() ? 0 : seen.back());
  }
  return predictor->Predict(seen, minutes);
}

/// Planned by counts that do not know the minute's event, which drops pipelines when it comes.
/// Null: as if nothing changed. `seen`: counts of the minutes before.
ParcaeStep ParcaePlanAhead(
    CountPredictor* predictor,
    const ParcaeEvent& event,
    const std::vector<uint32_t>& seen,
    ParcaeCosts* costs,
    const ParcaeState& state) {
  const int after = ParcaeAfter(state, event);
  if (seen.empty()) {
    return ParcaeStepTo(costs, state, ParcaeFastestOf(costs->model(), after), event);
  }
  std::vector<double> counts(kParcaeMinutesAhead, state.machines);
  if (predictor != nullptr) {
    counts = ParcaeForecast(predictor, seen, kParcaeMinutesAhead);
  }
  const ParcaeStep planned =
      LookAhead(costs, state, ParcaeEventsOf(state.machines, counts), kParcaeMinuteS);
  return ParcaeStepTo(costs, state, ParcaeClipped(planned.plan, after), event);
}

/// Parcae's baseline: the fastest plan of each minute; whatever happens, all start anew.
ParcaeStep ParcaeCheckpointStep(
    const ParcaeModel& model, const ParcaeEvent& event, const ParcaeState& state) {
  const ParcaePlan plan = ParcaeFastestOf(model, ParcaeAfter(state, event));
  const bool is_adding = event.added > 0;
  if (!is_adding && event.removed == 0) {
    return {plan};
  }
  const bool is_first = state.machines == 0;
  return {plan, ParcaeCheckpointRestartMs(model, plan, is_adding, is_first), is_adding};
}

}  // namespace

ParcaeOutcome RunParcaePolicy(
    const ParcaeCase& some, ParcaeCosts* costs, const ParcaePolicy& policy, size_t minutes) {
  ParcaeState state;
  std::vector<uint32_t> seen;
  ParcaeOutcome outcome;
  for (size_t minute = 0; minute < std::min(minutes, some.minutes.size()); ++minute) {
    const ParcaeEvent& event = some.minutes[minute].event;
    const ParcaeStep step = policy(some, minute, costs, state, seen);
    outcome.samples.push_back(TakeStep(some.model, step, event, kParcaeMinuteS, &state));
    outcome.as_predicted += step.plan == some.minutes[minute].predicted ? 1 : 0;
    outcome.as_truth += step.plan == some.minutes[minute].truth ? 1 : 0;
    seen.push_back(static_cast<uint32_t>(state.machines));
  }
  return outcome;
}

std::vector<double> ParcaeIdealMinutes(const ParcaeCase& some) {
  ParcaeState state;
  std::vector<double> samples;
  for (const ParcaeMinute& minute : some.minutes) {
    state.machines = ParcaeAfter(state, minute.event);
    const auto found = some.model.samples_per_s.find(ParcaeFastestOf(some.model, state.machines));
    const bool is_known = found != some.model.samples_per_s.end();
    samples.push_back(is_known ? found->second * kParcaeMinuteS : 0);
  }
  return samples;
}

double ParcaeIdealSamples(const ParcaeCase& some) {
  const std::vector<double> samples = ParcaeIdealMinutes(some);
  return std::accumulate(samples.begin(), samples.end(), 0.0);
}

ParcaePolicy ParcaeAhead(std::shared_ptr<CountPredictor> predictor) {
  return [predictor = std::move(predictor)](
             const ParcaeCase& some,
             size_t minute,
             ParcaeCosts* costs,
             const ParcaeState& state,
             const std::vector<uint32_t>& seen) {
    return ParcaePlanAhead(predictor.get(), some.minutes[minute].event, seen, costs, state);
  };
}

ParcaePolicy ParcaeSeeThenPlan(std::shared_ptr<CountPredictor> predictor) {
  return [predictor = std::move(predictor)](
             const ParcaeCase& some,
             size_t minute,
             ParcaeCosts* costs,
             const ParcaeState& state,
             const std::vector<uint32_t>& seen) {
    const int now = ParcaeAfter(state, some.minutes[minute].event);
    std::vector<double> counts(kParcaeMinutesAhead, now);
    if (predictor != nullptr) {
      std::vector<uint32_t> known = seen;
      known.push_back(static_cast<uint32_t>(now));
      const std::vector<double> forecast =
          ParcaeForecast(predictor.get(), known, kParcaeMinutesAhead - 1);
      std::copy(forecast.begin(), forecast.end(), counts.begin() + 1);
    }
    return LookAhead(costs, state, ParcaeEventsOf(state.machines, counts), kParcaeMinuteS);
  };
}

ParcaePolicy ParcaePublished(bool is_truth) {
  return [is_truth](
             const ParcaeCase& some,
             size_t minute,
             ParcaeCosts* costs,
             const ParcaeState& state,
             const std::vector<uint32_t>& /*seen*/) {
    const ParcaeMinute& now = some.minutes[minute];
    return ParcaeStepTo(costs, state, is_truth ? now.truth : now.predicted, now.event);
  };
}

namespace {

ParcaeStep ParcaeFastestStep(
    const ParcaeCase& some,
    size_t minute,
    ParcaeCosts* costs,
    const ParcaeState& state,
    const std::vector<uint32_t>& /*seen*/) {
  const ParcaeEvent& event = some.minutes[minute].event;
  return ParcaeStepTo(costs, state, ParcaeFastestOf(some.model, ParcaeAfter(state, event)), event);
}

ParcaeStep ParcaeFastestWithCheckpoints(
    const ParcaeCase& some,
    size_t minute,
    ParcaeCosts* /*costs*/,
    const ParcaeState& state,
    const std::vector<uint32_t>& /*seen*/) {
  return ParcaeCheckpointStep(some.model, some.minutes[minute].event, state);
}

}  // namespace

ParcaePolicy ParcaeOracle(size_t minutes_ahead) {
  return [minutes_ahead](
             const ParcaeCase& some,
             size_t minute,
             ParcaeCosts* costs,
             const ParcaeState& state,
             const std::vector<uint32_t>& /*seen*/) {
    std::vector<ParcaeEvent> events;
    const size_t end = std::min(minute + minutes_ahead, some.minutes.size());
    for (size_t i = minute; i < end; ++i) {
      events.push_back(some.minutes[i].event);
    }
    return LookAhead(costs, state, events, kParcaeMinuteS);
  };
}

std::vector<std::pair<std::string, ParcaePolicy>> ParcaePolicies() {
  const auto arima = [] { return MakePredictor("parcae-arima", kParcaeMinutesAhead, {}); };
  return {
      {kParcaeRestarts, ParcaeFastestWithCheckpoints},
      {kParcaePublishedPlans, ParcaePublished(false)},
      {kParcaeForecasts, ParcaeAhead(arima())},
      {"ours, no change", ParcaeAhead(nullptr)},
      {kParcaeFastest, ParcaeFastestStep},
      {"ours, see the minute, ARIMA", ParcaeSeeThenPlan(arima())},
      {kParcaeHold, ParcaeSeeThenPlan(nullptr)},
      {"published plans, true futures", ParcaePublished(true)},
      {kParcaeTrueFutures, ParcaeOracle()}};
}

}  // namespace ps::provisioner
