#pragma once

#include <string>
#include <vector>

#include "tests/provisioner/model/csv_data.h"
#include "tests/provisioner/strategies/parcae.h"

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

}  // namespace ps::provisioner
