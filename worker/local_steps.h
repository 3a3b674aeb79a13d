#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "worker/model/model.h"

namespace ps::worker {

/// What a worker does by itself between two pushes (train.local_steps): it trains parameters of its
/// own on some minibatches, then says how far they have moved. The moments of the optimizer stay
/// from one push to the next; a worker that begins has none. All of it is in the device's memory;
/// the host learns which tensors were not finite. Thread: one at a time.
class LocalSteps {
 public:
  /// Where a device with memory of its own trains.
  struct Place {
    kernels::Stream* stream = nullptr;  // in which passes read the parameters
    kernels::Spans parameters;          // that these passes read, one span a tensor
    std::span<float> all;               // the memory that has these spans
  };

  /// `model` outlives it, and so does what `place` names. `backend` is that device. Without a place
  /// the memory is the host's, and the parameters are in memory of its own.
  LocalSteps(
      const proto::JobConfig& config,
      const Model& model,
      std::shared_ptr<kernels::Backend> backend,
      const std::optional<Place>& place = std::nullopt);

  /// The parameters are these now, one span a tensor, which stay until Finish; those of a place are
  /// what they are, and `start` is not read. Errors: kInvalidArgument, memory is short.
  Status Begin(kernels::ConstSpans start);

  /// The parameters, one span a tensor. Requires: Begin has returned OK once.
  kernels::ConstSpans parameters() const { return views_; }

  /// A minibatch of `samples`, after `fraction` of the job's samples, gave these gradients, and of
  /// kAverage tensors these observations, in the device's memory. A tensor with NaN or infinity in
  /// it stays as it is. Errors: kUnavailable, the device is lost.
  Status Take(kernels::Spans gradients, uint64_t samples, double fraction);

  /// Writes what is to be pushed into the device's memory: what Begin began from less the
  /// parameters; of kAverage tensors the observation that has the effect of all those taken, what
  /// they began from when there were none. The parameters of a place are then again what they were
  /// at Begin. Errors: kUnavailable, the device is lost.
  Status Finish(kernels::Spans gradients);

  /// Whether half of the minibatches or more between Begin and Finish had something that was not
  /// finite.
  bool is_diverging() const { return bad_minibatches_ * 2 >= minibatches_ && bad_minibatches_ > 0; }

 private:
  struct Tensor {
    std::span<float> value;
    std::span<float> slots[kernels::kOptimizerSlotsMax];  // empty where the rule has none
    std::span<float> observed;                            // kAverage: weighted sum
    double observed_weight = 0;
    uint64_t updates = 0;
  };

  Status Allocate();
  /// Has `flags_` say of each tensor, and behind them of the updates before, what was not finite.
  Status LookAt(kernels::Spans gradients);

  uint32_t* DeviceFlags() const { return reinterpret_cast<uint32_t*>(device_flags_->data()); }

  std::span<const uint32_t> Flags() const;

  const kernels::OptimizerRule rule_;
  const double reference_minibatch_;
  const Model& model_;
  const std::shared_ptr<kernels::Backend> backend_;
  const std::optional<Place> place_;
  std::unique_ptr<kernels::Stream> own_stream_;  // without a place
  kernels::Stream* stream_ = nullptr;
  std::unique_ptr<kernels::Memory> memory_;        // of all tensors
  std::unique_ptr<kernels::Memory> device_flags_;  // one a tensor, and one for left-out elements
  std::unique_ptr<kernels::Memory> flags_;         // the same for the host
  std::vector<Tensor> tensors_;
  std::span<float> observed_;   // the sums of all tensors
  std::span<float> own_start_;  // of a place: what `all` was at Begin
  std::vector<std::span<const float>> start_;
  std::vector<std::span<const float>> views_;
  std::vector<std::span<const float>> looked_at_;  // scratch of Take, like the next two
  std::vector<kernels::TensorUpdate> updates_;
  std::vector<kernels::AverageMove> moves_;
  uint64_t minibatches_ = 0;
  uint64_t bad_minibatches_ = 0;
  bool is_last_bad_ = false;  // the last minibatch, before what its updates have left out is known
};

}  // namespace ps::worker
