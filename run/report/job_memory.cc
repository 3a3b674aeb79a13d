#include "run/report/job_memory.h"

#include <algorithm>
#include <optional>

#include "kernels/optimizer_slots.h"
#include "ps/proto/exchange.h"
#include "ps/proto/job/optimizer_rules.h"

namespace ps::run {
namespace {

std::optional<int> LocalSlotsOf(const proto::JobConfig& config) {
  if (config.train.local_steps <= 1 && !config.train.adapts_local_steps) {
    return std::nullopt;
  }
  return kernels::OptimizerSlotCount(proto::LocalOptimizer(config));
}

/// What one of `devices` in a row takes, from 0 on, or the host where it is the device.
WorkerMemory::Part PartOf(
    const proto::JobConfig& config,
    const worker::Model& model,
    int64_t samples,
    int64_t device,
    int64_t devices,
    bool has_own_memory) {
  const proto::TrainConfig& train = config.train;
  const int64_t share = (samples + devices - 1) / devices;
  const auto micro = int64_t{train.micro_batch};
  WorkerMemory::Part part;
  part.samples = micro > 0 ? std::min(micro, share) : share;
  part.memory = worker::MemoryOf(
      model,
      {.samples = part.samples,
       .has_own_memory = has_own_memory,
       .has_second_copy = has_own_memory && worker::OverlapsSteps(config),
       .is_first = device == 0,
       .is_last = device + 1 == devices,
       .adds_pieces = part.samples < share,
       .bf16_gradients = train.gradient_dtype == proto::GradientDtype::kBf16,
       .bf16_products = train.precision == proto::Precision::kBf16,
       .push = proto::IsEncodedByDevice(config) ? codec::Encoding() : proto::PushEncodingOf(config),
       .has_feedback = proto::HasErrorFeedback(config),
       .local_slots = LocalSlotsOf(config)});
  return part;
}

}  // namespace

WorkerMemory MemoryOfWorker(
    const proto::JobConfig& config,
    const worker::Model& model,
    int64_t samples,
    const ComputedOn& on) {
  // With overlap one gradient is computed while another travels, and values come meanwhile.
  const bool has_two = worker::OverlapsSteps(config);
  WorkerMemory memory;
  if (on.is_host) {
    memory.host = PartOf(config, model, samples, 0, 1, /*has_own_memory=*/false);
  }
  memory.host.memory.tensors += worker::HostTensorBytes(model, has_two ? 2 : 1);
  for (int64_t i = 0; i < on.devices; ++i) {
    memory.devices.push_back(
        PartOf(config, model, samples, i, on.devices, /*has_own_memory=*/true));
  }
  return memory;
}

void AddServerMemory(
    const proto::JobConfig& config, const worker::Model& model, proto::JobProfile* profile) {
  const double parameters =
      static_cast<double>(std::max<int64_t>(model.parameter_count(), 0)) * sizeof(float);
  const int slots = kernels::OptimizerSlotCount(proto::ServerOptimizer(config));
  // A chunk is copied before it changes while a checkpoint is written, and a slow disk leaves time
  // for all of them to change.
  const int copies = config.checkpoint.enabled ? 2 : 1;
  profile->server_bytes = copies * (1 + slots) * parameters;
  profile->server_bytes_per_worker = config.train.mode == proto::Mode::kBsp ? parameters : 0;
}

void AddWorkerMemory(
    const proto::JobConfig& config,
    const worker::Model& model,
    const ComputedOn& on,
    proto::WorkerProfile* worker) {
  if (model.layers.empty()) {
    return;
  }
  const WorkerMemory memory = MemoryOfWorker(config, model, worker->minibatch, on);
  worker->host_bytes = static_cast<double>(memory.host.memory.total());
  worker->device_bytes = 0;
  for (const WorkerMemory::Part& part : memory.devices) {
    worker->device_bytes = std::max(worker->device_bytes, static_cast<double>(part.memory.least()));
  }
}

}  // namespace ps::run
