#include "psctl/model_command.h"

#include <fmt/core.h>

#include <algorithm>

#include "ps/base/text.h"
#include "psctl/job_parts.h"
#include "psctl/tables.h"
#include "worker/model/model_cost.h"

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

std::string ByteText(int64_t count_of_floats) {
  return FormatBytes(static_cast<uint64_t>(count_of_floats) * sizeof(float));
}

}  // namespace

int RunModel(const ModelCommand& command, const Console& console) {
  const Result<proto::JobConfig> config = proto::LoadJobConfig(command.job_path, command.overrides);
  if (!config.ok()) {
    return Misuse(console, config.status());
  }
  const Result<JobParts> parts = LoadParts(*config, command.job_path, command.overrides);
  if (!parts.ok()) {
    return Misuse(console, parts.status());
  }
  constexpr size_t kNameWidthMax = 60;
  Table table(
      {{"layer", Align::kLeft}, {"output", Align::kLeft}, {"parameters"}, {"MFLOP a sample"}},
      kNameWidthMax);
  int64_t flops = 0;
  int64_t activations = parts->data.shape.element_count();
  for (const worker::LayerCost& cost : worker::CostsOf(parts->model)) {
    table.AddRow(
        {cost.name,
         cost.out.ToString(),
         CountText(cost.parameters),
         FormatFixed(static_cast<double>(cost.flops) / 1e6, 3)});
    flops += cost.flops;
    activations += cost.out.element_count();
  }
  const int64_t parameters = parts->model.parameter_count();
  const int64_t samples = config->train.minibatch;
  const int64_t micro = config->train.micro_batch;
  const int64_t at_once = micro > 0 ? std::min(micro, samples) : samples;
  // Parameters, and gradients: of async with overlap two of them; of a piece of a minibatch.
  const int64_t copies = (config->train.overlap ? 3 : 2) + (at_once < samples ? 1 : 0);
  // Backward computes two products for each of forward.
  constexpr int64_t kPasses = 3;
  console.out(
      table.Render() + "\n" +
      RenderPairs(
          {{"input", parts->data.shape.ToString()},
           {"parameters",
            CountText(parameters) + " in " + Plural(parts->model.tensors.size(), "tensor") + ", " +
                ByteText(parameters)},
           {"a step",
            fmt::format(
                "{} samples: {} forward and backward, {} pulled and as much pushed",
                samples,
                FormatFlops(static_cast<double>(kPasses * flops * samples)),
                ByteText(parameters))},
           {"a worker's memory",
            fmt::format(
                "about {}: {} of parameters and gradients, {} of activations at {} samples",
                ByteText(copies * parameters + activations * at_once),
                ByteText(copies * parameters),
                ByteText(activations * at_once),
                at_once)}}));
  return kExitOk;
}

}  // namespace ps::psctl
