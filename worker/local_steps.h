#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/status.h"
#include "ps/proto/job/job_config.h"
#include "worker/model/model.h"

namespace ps::worker {

/// What a worker does by itself between two pushes (train.local_steps): it trains parameters of its
/// own on some minibatches, then says how far they have moved. The moments of the optimizer stay
/// from one push to the next; a worker that begins has none. Thread: one at a time.
class LocalSteps {
 public:
  /// `model` outlives it. `backend` gives memory that a device copies from.
  LocalSteps(
      const proto::JobConfig& config,
      const Model& model,
      std::shared_ptr<kernels::Backend> backend);

  /// The parameters are these now, one span a tensor. Errors: the backend's, when memory is short.
  Status Begin(std::span<const std::span<const float>> parameters);

  /// The parameters, as Begin takes them. Requires: Begin has returned OK once.
  std::span<const std::span<const float>> parameters() const { return views_; }

  /// A minibatch of `samples`, after `fraction` of the job's samples, gave these gradients, and of
  /// kAverage tensors these observations. A tensor with NaN or infinity in it stays as it is.
  void Take(std::span<const std::span<float>> gradients, uint64_t samples, double fraction);

  /// Writes what is to be pushed: `start`, from which Begin began, less the parameters; of kAverage
  /// tensors the observation that has the effect of all those taken, `start` when there were none.
  void Finish(
      std::span<const std::span<const float>> start, std::span<const std::span<float>> gradients);

  /// Whether half of the minibatches or more since Begin had something that was not finite.
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

  const kernels::OptimizerRule rule_;
  const double reference_minibatch_;
  const Model& model_;
  const std::shared_ptr<kernels::Backend> backend_;
  std::unique_ptr<kernels::Memory> memory_;  // of all tensors
  std::vector<Tensor> tensors_;
  std::vector<std::span<const float>> views_;
  uint64_t minibatches_ = 0;
  uint64_t bad_minibatches_ = 0;
};

}  // namespace ps::worker
