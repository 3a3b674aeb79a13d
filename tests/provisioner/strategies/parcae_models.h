#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "provisioner/strategies/forecast.h"
#include "provisioner/strategies/parcae.h"
#include "tests/provisioner/model/csv_data.h"

namespace ps::provisioner {

/// The models whose figures Parcae's release has.
inline std::vector<std::string> ParcaeModelNames() {
  return {"gpt-1.5b", "gpt-6.7b", "bert", "resnet152", "vgg19"};
}

inline std::vector<double> ParcaeLayers(double first, double middle, size_t count, double last) {
  std::vector<double> layers(count + 2, middle);
  layers.front() = first;
  layers.back() = last;
  return layers;
}

/// As its cost model has them. Speeds and build times are data of the release.
inline ParcaeModel ParcaeModelOf(const std::string& name) {
  ParcaeModel model;
  if (name == "bert") {
    model.layer_params = ParcaeLayers(31782912, 12596224, 24, 31782912);
    model.stages = {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16};
  } else if (name == "gpt-1.5b") {
    model.layer_params = ParcaeLayers(82124800, 30740800, 48, 82128000);
    for (int stages = 6; stages <= 32; ++stages) {
      model.stages.push_back(stages);
    }
    model.groups = ParcaeGroups::kByCount;
    model.group_add_ms = 500;
    model.group_remove_ms = 39.3;
    model.process_ms = 240;
  } else if (name == "gpt-6.7b") {
    model.layer_params = ParcaeLayers(214433792, 201379840, 36, 214441984);
    model.stages = {12, 13, 14, 15, 16, 18, 20, 22, 24, 26};
    model.groups = ParcaeGroups::kByCount;
    model.group_add_ms = 500;
    model.group_remove_ms = 115.6;
    model.process_ms = 240;
    model.extra_ms = 2000;
  } else if (name == "resnet152") {
    model.layer_params = std::vector<double>(52, 1162876.16);
    model.layer_params.back() = 204900;
    model.stages = {2, 4, 6, 8, 10, 12, 14, 16};
    model.extra_ms = 3360.374;
  } else {
    model.layer_params = std::vector<double>(16, 1251524);
    model.layer_params.insert(model.layer_params.end(), {102764544, 16781312, 409700});
    model.stages = {2, 3, 4, 5, 6, 7, 8, 9};
    model.groups = ParcaeGroups::kByMachine;
    model.group_add_ms = 440;
    model.group_remove_ms = 340;
    model.extra_ms = 2000;
    model.pipelines_min = 2;
  }
  for (const auto& row : LoadCsv("tests/data/parcae/profiles.csv")) {
    if (row.at("model") == name) {
      model.samples_per_s[{std::stoi(row.at("pipelines")), std::stoi(row.at("stages"))}] =
          std::stod(row.at("samples_per_s"));
    }
  }
  for (const auto& row : LoadCsv("tests/data/parcae/build_times.csv")) {
    if (row.at("model") == name) {
      model.build_ms[std::stoi(row.at("stages"))] = std::stod(row.at("ms"));
    }
  }
  return model;
}

/// A minute of the trace, with the plans that were published for it.
struct ParcaeMinute {
  ParcaeEvent event;
  ParcaePlan truth;
  ParcaePlan predicted;
};

inline std::vector<ParcaeMinute> ParcaeMinutesOf(const std::string& name) {
  std::vector<ParcaeMinute> minutes;
  for (const auto& row : LoadCsv("tests/data/parcae/plans_" + name + ".csv")) {
    const auto number = [&](const char* column) { return std::stoi(row.at(column)); };
    minutes.push_back(
        {{number("added"), number("removed")},
         {number("truth_pipelines"), number("truth_stages")},
         {number("predict_pipelines"), number("predict_stages")}});
  }
  return minutes;
}

// Policies of pipelines on the trace, a minute each.

inline constexpr size_t kParcaeMinutesAhead = 12;
inline constexpr double kParcaeMinuteS = 60;

inline int ParcaeAfter(const ParcaeState& state, const ParcaeEvent& event) {
  return state.machines + event.added - event.removed;
}

/// As few pipelines of the same length as fit, else one of all machines, as the program does.
inline ParcaePlan ParcaeClipped(const ParcaePlan& plan, int machines) {
  if (plan.stages > 0 && machines >= plan.stages) {
    return {std::min(plan.pipelines, machines / plan.stages), plan.stages};
  }
  return {1, machines};
}

/// The step to a plan, at its cost.
inline ParcaeStep ParcaeStepTo(
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

inline std::vector<ParcaeEvent> ParcaeEventsOf(int machines, const std::vector<double>& counts) {
  std::vector<ParcaeEvent> events;
  for (const double count : counts) {
    const int next = static_cast<int>(count);
    events.push_back({std::max(next - machines, 0), std::max(machines - next, 0)});
    machines = next;
  }
  return events;
}

inline ParcaePlan ParcaeFastestOf(const ParcaeModel& model, int machines) {
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

/// Counts to come by the forecast; the last count before there is history enough.
inline std::vector<double> ParcaeForecast(
    CountPredictor* predictor, const std::vector<uint32_t>& seen, size_t minutes) {
  if (seen.size() < kParcaeMinutesAhead) {
    return std::vector<double>(minutes, seen.empty() ? 0 : seen.back());
  }
  return predictor->Predict(seen, minutes);
}

/// Planned by counts that do not know the minute's event, which drops pipelines when it comes.
/// Null: as if nothing changed. `seen`: counts of the minutes before.
inline ParcaeStep ParcaePlanAhead(
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
inline ParcaeStep ParcaeCheckpointStep(
    const ParcaeModel& model, const ParcaeEvent& event, const ParcaeState& state) {
  const ParcaePlan plan = ParcaeFastestOf(model, ParcaeAfter(state, event));
  const bool is_event = event.added > 0 || event.removed > 0;
  return {plan, is_event ? ParcaeCheckpointRestartMs(model, plan, event.added > 0) : 0};
}

}  // namespace ps::provisioner
