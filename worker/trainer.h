#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ps/base/status.h"
#include "ps/client/worker_core.h"
#include "ps/proto/job_config.h"

namespace ps::worker {

/// The job's arithmetic on this machine: model, data and network behind flat buffers whose layout
/// is client::ChunkLayout's. Thread: one at a time.
class Trainer {
 public:
  /// Loads the data and builds the model. Errors: as Dataset::Load and MakeModel.
  static Result<std::unique_ptr<Trainer>> Make(const proto::JobConfig& config);

  virtual ~Trainer() = default;

  /// Elements of each tensor, in tensor order.
  virtual std::vector<int64_t> TensorElements() const = 0;

  virtual const proto::DatasetFingerprint& data() const = 0;

  /// Gradient of the mean loss over samples [begin, end) of the epoch's order, into task.gradient.
  /// `ready` is called once a tensor as its gradient becomes final.
  virtual Result<client::ComputeResult> Step(
      const client::ComputeTask& task, const std::function<void(uint32_t)>& ready) = 0;

  /// Loss and hits over test samples [begin, end).
  virtual Result<client::ComputeResult> Evaluate(
      std::span<const float> parameters, uint64_t begin, uint64_t end) = 0;
};

}  // namespace ps::worker
