#include "psctl/models/evaluate_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "ps/base/text.h"
#include "ps/coordinator/meters/evaluation_metrics.h"
#include "ps/json/json_writer.h"
#include "ps/proto/job/task.h"
#include "psctl/models/rate_line.h"
#include "run/report/metric_text.h"
#include "run/report/tables.h"
#include "worker/use/inputs.h"

namespace ps::psctl {
namespace {

/// The sums over all samples.
Result<coordinator::EvaluationSums> EvaluateAll(
    const worker::Inputs& inputs, worker::TrainedModel* model, RateLine* line) {
  coordinator::EvaluationSums sums;
  for (uint64_t begin = 0; begin < inputs.count; begin += model->batch_samples()) {
    const uint64_t end = std::min(begin + model->batch_samples(), inputs.count);
    proto::MetricSums metrics;
    PS_ASSIGN(const worker::BatchLoss batch, model->Evaluate(inputs, begin, end, &metrics));
    sums.Add(batch.loss_sum, static_cast<uint64_t>(batch.correct), metrics);
    line->Show(end);
  }
  return sums;
}

/// As a run tells them, whose names say that they are of its tests.
std::vector<proto::Figure> FiguresOf(
    const coordinator::EvaluationKind& kind,
    const coordinator::EvaluationSums& sums,
    uint64_t samples) {
  constexpr std::string_view kOfTests = "test_";
  std::vector<proto::Figure> figures = kind.Figures(sums, samples);
  for (proto::Figure& figure : figures) {
    if (figure.name.starts_with(kOfTests)) {
      figure.name.erase(0, kOfTests.size());
    }
  }
  return figures;
}

std::string RenderJson(
    const coordinator::EvaluationKind& kind,
    const coordinator::EvaluationSums& sums,
    uint64_t samples) {
  JsonWriter json;
  json.BeginObject();
  json.Field("samples", samples);
  json.Field("loss", sums.loss_sum / static_cast<double>(samples));
  if (kind.task == proto::Task::kClasses) {
    json.Field("correct", sums.correct);
  }
  json.Field(proto::MetricName(proto::MetricOf(kind.task)), kind.MetricValue(sums, samples));
  for (const proto::Figure& figure : FiguresOf(kind, sums, samples)) {
    json.Field(figure.name, figure.value);
  }
  json.EndObject();
  return std::move(json).Take();
}

std::string Render(
    const coordinator::EvaluationKind& kind,
    const coordinator::EvaluationSums& sums,
    uint64_t samples) {
  const proto::Metric metric = proto::MetricOf(kind.task);
  const std::string value = run::FormatMetric(metric, kind.MetricValue(sums, samples), 2);
  const std::string hits =
      kind.task == proto::Task::kClasses ? FormatCount(sums.correct) + " of " : "";
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"loss", run::FormatLoss(sums.loss_sum / static_cast<double>(samples))},
      {std::string(run::MetricTitle(metric)),
       fmt::format("{}, {}{}", value, hits, Plural(samples, "sample"))}};
  if (const auto figures = FiguresOf(kind, sums, samples); !figures.empty()) {
    pairs.emplace_back("figures", run::FormatFigures(figures));
  }
  return run::RenderPairs(pairs);
}

Result<std::string> Evaluate(const EvaluateCommand& command, const Session& session) {
  PS_ASSIGN(const LoadedModel loaded, LoadModel(command.choice, session));
  const worker::ModelCard& card = loaded.chosen.card;
  PS_ASSIGN(const std::string path, DataOf(command.data, card));
  PS_ASSIGN(worker::Inputs inputs, worker::OpenInputs(card, path, worker::LabelUse::kNeeded));
  if (command.data.empty() && card.data.test_samples > 0) {
    inputs.count = std::min(inputs.count, card.data.test_samples);  // as the run has it
  }
  RateLine line(session.console, inputs.count);
  PS_ASSIGN(const coordinator::EvaluationSums sums, EvaluateAll(inputs, loaded.model.get(), &line));
  session.console.err(fmt::format("{} on {}\n", line.Summary(), loaded.device.name));
  const coordinator::EvaluationKind kind{
      card.task(), card.data.format == proto::DatasetFormat::kText};
  return command.is_json ? RenderJson(kind, sums, inputs.count) : Render(kind, sums, inputs.count);
}

void AddArguments(EvaluateCommand* command, Arguments* arguments) {
  AddModel(&command->choice, arguments);
  arguments->Add(
      "DATA",
      &command->data,
      "Folder or file in the format of the model's job, of which the test samples are taken; where "
      "the job had its data when absent");
  AddDevice(&command->choice, arguments);
  AddTokenizer(&command->choice, arguments);
  arguments->Add("--json", &command->is_json, "As JSON");
}

int Run(const EvaluateCommand& command, const Session& session) {
  const Result<std::string> text = Evaluate(command, session);
  if (!text.ok()) {
    return run::Fail(session.console, text.status());
  }
  session.console.out(*text);
  return run::kExitOk;
}

}  // namespace

constinit const Command kEvaluate = {
    .path = "evaluate",
    .group = Group::kKeep,
    .help = "Loss and accuracy, or r2, of a trained model on test samples",
    .examples =
        {{{"psctl evaluate mnist", "of the job's newest run, on its test samples"},
          {"psctl evaluate model.safetensors ~/others", "of a file, on other data"}}},
    .declare = Declare<EvaluateCommand, AddArguments, Run>};

}  // namespace ps::psctl
