#include "psctl/models/evaluate_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/coordinator/meters/evaluation_metrics.h"
#include "ps/json/json_writer.h"
#include "ps/proto/job/task.h"
#include "psctl/models/confusion.h"
#include "psctl/models/rate_line.h"
#include "run/report/metric_text.h"
#include "run/report/tables.h"
#include "worker/use/inputs.h"

namespace ps::psctl {
namespace {

/// Counts what each of some samples is taken for: its largest output, the first of equal ones.
Status CountGuesses(
    const worker::Inputs& inputs,
    uint64_t begin,
    uint64_t end,
    worker::TrainedModel* model,
    ConfusionMatrix* confusion) {
  PS_ASSIGN(const std::span<const float> outputs, model->Apply(inputs, begin, end));
  const std::span<const uint32_t> labels = model->labels();
  const size_t classes = outputs.size() / labels.size();
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto own = outputs.subspan(i * classes, classes);
    confusion->Add(labels[i], static_cast<size_t>(std::ranges::max_element(own) - own.begin()));
  }
  return Status::Ok();
}

/// The sums over all samples, and what they are taken for where `confusion` is there.
Result<coordinator::EvaluationSums> EvaluateAll(
    const worker::Inputs& inputs,
    worker::TrainedModel* model,
    RateLine* line,
    std::optional<ConfusionMatrix>* confusion) {
  coordinator::EvaluationSums sums;
  for (uint64_t begin = 0; begin < inputs.count; begin += model->batch_samples()) {
    const uint64_t end = std::min(begin + model->batch_samples(), inputs.count);
    proto::MetricSums metrics;
    PS_ASSIGN(const worker::BatchLoss batch, model->Evaluate(inputs, begin, end, &metrics));
    sums.Add(batch.loss_sum, static_cast<uint64_t>(batch.correct), metrics);
    if (*confusion) {
      PS_TRY(CountGuesses(inputs, begin, end, model, &**confusion));
    }
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
    uint64_t samples,
    const std::optional<ConfusionMatrix>& confusion) {
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
  if (confusion) {
    confusion->AddTo(&json);
  }
  json.EndObject();
  return std::move(json).Take();
}

std::string Render(
    const coordinator::EvaluationKind& kind,
    const coordinator::EvaluationSums& sums,
    uint64_t samples,
    const std::optional<ConfusionMatrix>& confusion) {
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
  return run::RenderPairs(pairs) + (confusion ? "\n" + confusion->Render() : "");
}

/// An empty one, if it is asked for. Errors: kInvalidArgument, the model has none.
Result<std::optional<ConfusionMatrix>> ConfusionOf(
    const EvaluateCommand& command, const worker::ModelCard& card) {
  if (!command.has_confusion && command.plot_path.empty()) {
    return std::optional<ConfusionMatrix>();
  }
  const auto classes = static_cast<size_t>(card.classes);
  if (card.task() != proto::Task::kClasses || card.labels != 1 ||
      classes > ConfusionMatrix::kClassesMax) {
    return Status::InvalidArgument(fmt::format(
        "what is taken for what is told of models with one class a sample, of up to {}; this one "
        "learns {}",
        ConfusionMatrix::kClassesMax,
        card.task() != proto::Task::kClasses ? std::string("numbers or several labels")
        : card.labels != 1                   ? std::string("a class for each token")
                                             : fmt::format("{} classes", classes)));
  }
  std::vector<std::string> names = card.class_names;
  for (size_t i = names.size(); i < classes; ++i) {
    names.push_back(std::to_string(i));
  }
  return std::optional(ConfusionMatrix(std::move(names)));
}

/// What training did not learn from, and what lies among its samples all the same; empty: nothing.
std::string HeldBackNote(const worker::ModelCard& card, const std::string& path) {
  const Result<bool> has_folder = IsThere(path + "/test");
  const bool has_tests =
      card.data.format == proto::DatasetFormat::kPictures && !(has_folder.ok() && *has_folder);
  const std::string_view held_back = has_tests && card.data.validation_share > 0
                                         ? "data.test_share and data.validation_share"
                                     : has_tests                      ? "data.test_share"
                                     : card.data.validation_share > 0 ? "data.validation_share"
                                                                      : "";
  return held_back.empty()
             ? ""
             : fmt::format(
                   "the part train has the samples, too, that training held back by {}\n",
                   held_back);
}

Result<std::string> Evaluate(const EvaluateCommand& command, const Session& session) {
  PS_ASSIGN(const LoadedModel loaded, LoadModel(command.choice, session));
  const worker::ModelCard& card = loaded.chosen.card;
  PS_ASSIGN(std::optional<ConfusionMatrix> confusion, ConfusionOf(command, card));
  PS_ASSIGN(
      const std::string path, DataOf(command.data, loaded.chosen, session.console, command.part));
  PS_ASSIGN(
      worker::Inputs inputs,
      worker::OpenInputs(card, path, worker::LabelUse::kNeeded, nullptr, command.part));
  if (command.data.empty() && command.part.empty() && card.data.test_samples > 0) {
    inputs.count = std::min(inputs.count, card.data.test_samples);  // as the run has it
  }
  if (command.part == "train") {
    session.console.err(HeldBackNote(card, path));
  }
  RateLine line(session.console, inputs.count);
  PS_ASSIGN(
      const coordinator::EvaluationSums sums,
      EvaluateAll(inputs, loaded.model.get(), &line, &confusion));
  session.console.err(fmt::format("{} on {}\n", line.Summary(), loaded.device.name));
  const auto kind = coordinator::EvaluationKind::Of(
      card.layers, card.task(), card.data.format == proto::DatasetFormat::kText);
  if (!command.plot_path.empty()) {
    PS_TRY(WriteFileAtomically(command.plot_path, confusion->Draw("confusion of " + path)));
    session.console.err("plot: " + Printable(command.plot_path) + "\n");
  }
  if (!command.has_confusion) {
    confusion.reset();
  }
  return command.is_json ? RenderJson(kind, sums, inputs.count, confusion)
                         : Render(kind, sums, inputs.count, confusion);
}

void AddArguments(EvaluateCommand* command, Arguments* arguments) {
  AddModel(&command->choice, arguments);
  arguments->Add(
      "DATA",
      &command->data,
      "Folder or file in the format of the model's job, of which the test samples are taken; where "
      "the job had its data when absent");
  arguments
      ->Add(
          "--part",
          &command->part,
          "Another part of a folder than its test samples, by its name, as data.validation has it: "
          "val/ (pictures, text), val*.csv, val-inputs*.npy, val.txt")
      .Value("NAME");
  AddDevice(&command->choice, arguments);
  AddTokenizer(&command->choice, arguments);
  arguments->Add(
      "--confusion",
      &command->has_confusion,
      "Tell what samples of each class are taken for, and of each class how many are found");
  arguments->Add("--plot", &command->plot_path, "Draw that as an SVG picture, in this file")
      .Value("FILE.svg");
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
          {"psctl evaluate model.safetensors ~/others", "of a file, on other data"},
          {"psctl evaluate mnist --confusion --plot confusion.svg",
           "what is taken for what, as a table and as a picture"}}},
    .declare = Declare<EvaluateCommand, AddArguments, Run>};

}  // namespace ps::psctl
