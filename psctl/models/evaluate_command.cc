#include "psctl/models/evaluate_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "psctl/models/rate_line.h"
#include "run/report/tables.h"
#include "worker/use/inputs.h"

namespace ps::psctl {
namespace {

/// The sums over all samples.
Result<worker::BatchLoss> EvaluateAll(
    const worker::Inputs& inputs, worker::TrainedModel* model, RateLine* line) {
  worker::BatchLoss sum;
  for (uint64_t begin = 0; begin < inputs.count; begin += model->batch_samples()) {
    const uint64_t end = std::min(begin + model->batch_samples(), inputs.count);
    PS_ASSIGN(const worker::BatchLoss batch, model->Evaluate(inputs, begin, end));
    sum.loss_sum += batch.loss_sum;
    sum.correct += batch.correct;
    sum.samples += batch.samples;
    line->Show(end);
  }
  return sum;
}

std::string Render(const EvaluateCommand& command, const worker::BatchLoss& sum) {
  const auto samples = static_cast<double>(sum.samples);
  const double loss = sum.loss_sum / samples;
  const double accuracy = static_cast<double>(sum.correct) / samples;
  if (command.is_json) {
    JsonWriter json;
    json.BeginObject();
    json.Field("samples", sum.samples);
    json.Field("loss", loss);
    json.Field("correct", sum.correct);
    json.Field("accuracy", accuracy);
    json.EndObject();
    return std::move(json).Take();
  }
  return run::RenderPairs(
      {{"loss", FormatFixed(loss, 4)},
       {"accuracy",
        fmt::format(
            "{}, {} of {}",
            FormatPercent(accuracy, 2),
            FormatCount(static_cast<uint64_t>(sum.correct)),
            Plural(static_cast<uint64_t>(sum.samples), "sample"))}});
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
  PS_ASSIGN(const worker::BatchLoss sum, EvaluateAll(inputs, loaded.model.get(), &line));
  session.console.err(fmt::format("{} on {}\n", line.Summary(), loaded.device.name));
  return Render(command, sum);
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
    .help = "Loss and accuracy of a trained model on test samples",
    .examples =
        {{{"psctl evaluate mnist", "of the job's newest run, on its test samples"},
          {"psctl evaluate model.safetensors ~/others", "of a file, on other data"}}},
    .declare = Declare<EvaluateCommand, AddArguments, Run>};

}  // namespace ps::psctl
