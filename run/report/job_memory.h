#pragma once

#include <cstdint>
#include <vector>

#include "ps/proto/files/profile.h"
#include "ps/proto/job/job_config.h"
#include "worker/model/model.h"
#include "worker/model/model_memory.h"

namespace ps::run {

/// What computes for a worker.
struct ComputedOn {
  bool is_host = true;  // the CPU, or what `auto` finds where there is no device
  int64_t devices = 0;  // in a row, that share a minibatch
};

/// The memory of one worker.
struct WorkerMemory {
  struct Part {
    worker::DeviceMemory memory;
    int64_t samples = 0;  // that are computed at a time; 0: none
  };

  Part host;
  std::vector<Part> devices;
};

/// What a worker of the job with minibatches of `samples` takes.
WorkerMemory MemoryOfWorker(
    const proto::JobConfig& config,
    const worker::Model& model,
    int64_t samples,
    const ComputedOn& on);

/// Says in the profile what the job's servers take. Where workers of the job are programs of
/// others, only they know what a worker takes.
void AddServerMemory(
    const proto::JobConfig& config, const worker::Model& model, proto::JobProfile* profile);

/// The same of a worker. Nothing where the model has no layers of ours.
void AddWorkerMemory(
    const proto::JobConfig& config,
    const worker::Model& model,
    const ComputedOn& on,
    proto::WorkerProfile* worker);

}  // namespace ps::run
