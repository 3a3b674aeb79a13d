#include "psctl/models/model_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "ps/base/text.h"
#include "ps/proto/exchange.h"
#include "ps/proto/job/device_choice.h"
#include "psctl/cli/arguments.h"
#include "run/report/job_memory.h"
#include "run/report/job_parts.h"
#include "run/report/tables.h"
#include "worker/model/model_cost.h"
#include "worker/model/model_memory.h"

namespace ps::psctl {
namespace {

/// "1.23 GFLOP".
std::string FormatFlops(double flops) {
  const char* prefixes[] = {"", "k", "M", "G", "T", "P"};
  size_t i = 0;
  for (; flops >= 1000 && i + 1 < std::size(prefixes); ++i) {
    flops /= 1000;
  }
  return FormatRate(flops) + " " + prefixes[i] + "FLOP";
}

std::string CountText(int64_t count) {
  return FormatCount(static_cast<uint64_t>(count));
}

std::string ByteText(const worker::Model& model) {
  return FormatBytes(static_cast<uint64_t>(model.parameter_count()) * sizeof(float));
}

/// The bytes of a step's gradients as they travel.
uint64_t PushedBytes(const worker::Model& model, const proto::JobConfig& config) {
  const proto::Encoding push = proto::PushEncodingOf(config);
  uint64_t bytes = 0;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const TensorSpec& tensor = model.tensors[i];
    const proto::PushKind kind = proto::PushKindOf(tensor.rule, model.TreatmentOf(i).is_frozen);
    const auto elements = static_cast<uint64_t>(tensor.element_count());
    bytes += proto::PushEncodingOf(push, kind).SizeOf(elements);
  }
  return bytes;
}

/// The bytes of all parameters as they travel to a worker that trains.
uint64_t PulledBytes(const worker::Model& model, const proto::JobConfig& config) {
  return static_cast<uint64_t>(proto::PulledBytesOf(
      proto::PullEncodingOf(config), static_cast<uint64_t>(model.trained_count())));
}

std::string PartsText(const worker::DeviceMemory& memory, int64_t samples) {
  std::string text;
  const auto add = [&](uint64_t bytes, const std::string& what) {
    if (bytes > 0) {
      text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", FormatBytes(bytes), what);
    }
  };
  add(memory.tensors, "parameters and gradients");
  add(memory.second_copy, "a second copy of parameters if there is room");
  add(memory.rounded, "gradients in fewer bits");
  add(memory.activations, fmt::format("activations at {} samples", samples));
  add(memory.scratch, "scratch");
  add(memory.local, "local steps");
  return text;
}

/// What workers of one minibatch and device take, a line for the host and for each device.
void AppendMemory(
    const proto::JobConfig& config,
    const worker::Model& model,
    int64_t samples,
    const std::string& device,
    std::vector<std::string>* texts) {
  const Result<proto::DeviceChoice> choice = proto::ParseDevice(device);
  if (!choice.ok()) {
    return;  // the job was checked
  }
  const bool is_cpu = choice->kind == proto::DeviceKind::kCpu;
  const bool is_auto = choice->kind == proto::DeviceKind::kAuto;
  const auto devices = static_cast<int64_t>(std::max<size_t>(choice->numbers.size(), 1));
  const run::WorkerMemory memory = run::MemoryOfWorker(
      config, model, samples, {.is_host = is_cpu || is_auto, .devices = is_cpu ? 0 : devices});
  const auto about = [](const run::WorkerMemory::Part& part) {
    return fmt::format(
        "about {}: {}", FormatBytes(part.memory.total()), PartsText(part.memory, part.samples));
  };
  texts->push_back("host, " + about(memory.host));
  for (size_t i = 0; i < memory.devices.size(); ++i) {
    const std::string name =
        choice->numbers.empty() ? "cuda" : fmt::format("cuda:{}", choice->numbers[i]);
    texts->push_back(name + (is_auto ? ", if there is one, " : ", ") + about(memory.devices[i]));
  }
}

/// A text for each kind of worker that the job has.
std::vector<std::string> MemoryTexts(const proto::JobConfig& config, const worker::Model& model) {
  std::vector<std::string> texts;
  std::set<std::pair<int64_t, std::string>> kinds;
  for (const proto::WorkerGroup& group : config.workers) {
    const uint32_t samples = group.minibatch > 0 ? group.minibatch : config.train.minibatch;
    if (kinds.emplace(samples, group.device).second) {
      AppendMemory(config, model, samples, group.device, &texts);
    }
  }
  return texts;
}

/// Prints the layers of a job's model with shapes, parameters and operations, and what a step costs
/// a worker. Reads of the dataset what it takes to know its shape. Returns the exit code.
int RunModel(const ModelCommand& command, const run::Console& console) {
  const Result<proto::JobConfig> config = proto::LoadJobConfig(command.job_path, command.overrides);
  if (!config.ok()) {
    return run::Misuse(console, config.status());
  }
  if (!config->worker.program.empty()) {
    return run::Misuse(
        console,
        Status::InvalidArgument(
            command.job_path +
            ": worker.program makes its model itself, and psctl model knows layers of our own; "
            "psctl check says how many parameters it has"));
  }
  const Result<run::JobParts> parts = run::LoadParts(*config, command.job_path, command.overrides);
  if (!parts.ok()) {
    return run::Misuse(console, parts.status());
  }
  constexpr size_t kNameWidthMax = 60;
  run::Table table(
      {{"layer", run::Align::kLeft},
       {"output", run::Align::kLeft},
       {"parameters"},
       {"MFLOP a sample"}},
      kNameWidthMax);
  // Backward computes two products for each of forward.
  constexpr int64_t kPasses = 3;
  int64_t flops = 0;
  for (const worker::LayerCost& cost : worker::CostsOf(parts->model)) {
    table.AddRow(
        {cost.name,
         cost.out.ToString(),
         CountText(cost.parameters),
         FormatFixed(static_cast<double>(cost.flops) / 1e6, 3)});
    flops += cost.flops;
  }
  const auto samples = int64_t{config->train.minibatch};
  std::vector<std::pair<std::string, std::string>> facts = {
      {"input", parts->data.shape.ToString()},
      {"parameters",
       CountText(parts->model.parameter_count()) + " in " +
           Plural(parts->model.tensors.size(), "tensor") + ", " + ByteText(parts->model)},
      {"a step",
       fmt::format(
           "{} samples: {} forward and backward, {} pulled and {} pushed",
           samples,
           FormatFlops(static_cast<double>(kPasses * flops * samples)),
           FormatBytes(PulledBytes(parts->model, *config)),
           FormatBytes(PushedBytes(parts->model, *config)))}};
  for (std::string& text : MemoryTexts(*config, parts->model)) {
    facts.emplace_back(facts.size() == 3 ? "a worker's memory" : "", std::move(text));
  }
  console.out(table.Render() + "\n" + run::RenderPairs(facts));
  return run::kExitOk;
}

void AddArguments(ModelCommand* command, Arguments* arguments) {
  // Not required by itself: psctl model export has other arguments.
  arguments->Add("JOB.json", &command->job_path, "Job file");
  arguments->AddSettings(&command->overrides, "Change a field of the job");
  arguments->Check([command] {
    return command->job_path.empty()
               ? Status::InvalidArgument("model wants JOB.json, as in: psctl model job.json")
               : Status::Ok();
  });
}

int Run(const ModelCommand& command, const Session& session) {
  return RunModel(command, session.console);
}

}  // namespace

constinit const Command kModel = {
    .path = "model",
    .group = Group::kRun,
    .help = "Show a job's layers, and what a step of a worker costs",
    .examples = {{{"psctl model job.json", "shapes, parameters, memory of a worker"}}},
    .declare = Declare<ModelCommand, AddArguments, Run>};

}  // namespace ps::psctl
