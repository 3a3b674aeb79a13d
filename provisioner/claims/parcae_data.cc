#include "provisioner/claims/parcae_data.h"

#include <cstddef>

namespace ps::provisioner {
namespace {

std::vector<double> Layers(double first, double middle, size_t count, double last) {
  std::vector<double> layers(count + 2, middle);
  layers.front() = first;
  layers.back() = last;
  return layers;
}

ParcaeModel ModelWithoutData(const std::string& name) {
  ParcaeModel model;
  if (name == "bert") {
    model.layer_params = Layers(31782912, 12596224, 24, 31782912);
    model.stages = {2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16};
  } else if (name == "gpt-1.5b") {
    model.layer_params = Layers(82124800, 30740800, 48, 82128000);
    for (int stages = 6; stages <= 32; ++stages) {
      model.stages.push_back(stages);
    }
    model.groups = ParcaeGroups::kByCount;
    model.group_add_ms = 500;
    model.group_remove_ms = 39.3;
    model.process_ms = 240;
  } else if (name == "gpt-6.7b") {
    model.layer_params = Layers(214433792, 201379840, 36, 214441984);
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
  return model;
}

}  // namespace

std::vector<std::string> ParcaeModelNames() {
  return {"gpt-1.5b", "gpt-6.7b", "bert", "resnet152", "vgg19"};
}

Result<ParcaeCase> LoadParcaeCase(const PublishedFigures& figures, const std::string& name) {
  ParcaeCase some = {.model = ModelWithoutData(name), .minutes = {}};
  PS_ASSIGN(
      const std::vector<FigureRow> speeds,
      figures.Read(
          "parcae/profiles.csv",
          {.texts = {"model"}, .numbers = {"samples_per_s"}, .counts = {"pipelines", "stages"}}));
  for (const FigureRow& row : speeds) {
    if (row.texts[0] == name) {
      some.model.samples_per_s[{row.counts[0], row.counts[1]}] = row.numbers[0];
    }
  }
  PS_ASSIGN(
      const std::vector<FigureRow> builds,
      figures.Read(
          "parcae/build_times.csv", {.texts = {"model"}, .numbers = {"ms"}, .counts = {"stages"}}));
  for (const FigureRow& row : builds) {
    if (row.texts[0] == name) {
      some.model.build_ms[row.counts[0]] = row.numbers[0];
    }
  }
  PS_ASSIGN(
      const std::vector<FigureRow> minutes,
      figures.Read(
          "parcae/plans_" + name + ".csv",
          {.counts = {
               "added",
               "removed",
               "truth_pipelines",
               "truth_stages",
               "predict_pipelines",
               "predict_stages"}}));
  for (const FigureRow& row : minutes) {
    const std::vector<int>& counts = row.counts;
    some.minutes.push_back(
        {{counts[0], counts[1]}, {counts[2], counts[3]}, {counts[4], counts[5]}});
  }
  return some;
}

Result<std::vector<ParcaeHour>> LoadParcaeHours(const PublishedFigures& figures) {
  PS_ASSIGN(
      const std::vector<FigureRow> rows,
      figures.Read(
          "parcae/costs.csv",
          {.texts = {"model", "hour"},
           .numbers = {"on_demand", "varuna", "bamboo", "parcae"},
           .counts = {"units", "begin_minute"}}));
  std::vector<ParcaeHour> hours;
  for (const FigureRow& row : rows) {
    hours.push_back(
        {.model = row.texts[0],
         .hour = row.texts[1],
         .units = row.counts[0],
         .begin_minute = row.counts[1],
         .on_demand_usd = row.numbers[0],
         .varuna_usd = row.numbers[1],
         .bamboo_usd = row.numbers[2],
         .parcae_usd = row.numbers[3]});
  }
  return hours;
}

}  // namespace ps::provisioner
