#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/buffer.h"
#include "ps/base/status.h"
#include "ps/client/worker_core.h"
#include "ps/proto/job_config.h"
#include "worker/data/load_progress.h"
#include "worker/data/prefetcher.h"

namespace ps::worker {

/// Parameters that have new values.
struct ParameterRange {
  int64_t offset = 0;             // in elements from the start of the flat parameters
  std::span<const float> values;  // where they are there; within one tensor
};

/// What a task reads and writes: flat, as client::ChunkLayout lays them out, in memory that
/// Trainer::MakeBuffer has made.
struct TaskTensors {
  std::span<const float> parameters;
  std::span<float> gradient;  // of a train task
};

/// The job's arithmetic on its devices: model, data and network behind flat tensors. Thread: one at
/// a time, unless a function says otherwise.
class Trainer {
 public:
  /// Loads the data and builds the model. `progress`, if any, as of Dataset::Load. Errors: as
  /// Dataset::Load, MakeModel, CheckTrainBatches and Network::Make.
  static Result<std::unique_ptr<Trainer>> Make(
      const proto::JobConfig& config,
      std::vector<std::shared_ptr<kernels::Backend>> backends,
      LoadProgress* progress = nullptr);

  virtual ~Trainer() = default;

  /// Elements of each tensor, in tensor order.
  virtual std::vector<int64_t> TensorElements() const = 0;

  /// Of the gradient of each, which lies in its place as client::ChunkLayout says.
  virtual std::vector<proto::GradientDtype> TensorDtypes() const = 0;

  virtual const proto::DatasetFingerprint& data() const = 0;

  /// Memory for parameters or a gradient. It may outlive the trainer. Thread: any.
  virtual Result<Buffer> MakeBuffer(size_t size_bytes) const = 0;

  /// Whether Upload has to be told which parameters have changed.
  virtual bool has_copies() const = 0;
  /// These parameters have changed since the last call that named them. Returns before the device
  /// has them. Requires: they lie within one tensor.
  virtual void Upload(const ParameterRange& changed) = 0;
  /// Nothing of what was uploaded is read any more.
  virtual void Settle() = 0;

  /// The next Step will probably be of these samples: they are fetched on a thread of their own.
  /// Thread: any.
  virtual void Foresee(const client::SamplesAhead& next) = 0;
  /// How the steps so far have come by their data.
  virtual const Prefetcher::Figures& data_figures() const = 0;

  /// `on_forward` is called in each later Step as its forward passes begin and are done; see
  /// Network::StepOptions.
  virtual void WatchForward(std::function<void(bool is_done)> on_forward) = 0;

  /// Gradient of the mean loss over samples [begin, end) of the epoch's order, into
  /// tensors.gradient. `ready` is called once a tensor as its gradient becomes final. Errors:
  /// kUnavailable when the device is lost, else as Network::TrainStep.
  virtual Result<client::ComputeResult> Step(
      const client::ComputeTask& task,
      const TaskTensors& tensors,
      const std::function<void(uint32_t)>& ready) = 0;

  /// Loss and hits over test samples [begin, end).
  virtual Result<client::ComputeResult> Evaluate(
      std::span<const float> parameters, uint64_t begin, uint64_t end) = 0;
};

}  // namespace ps::worker
