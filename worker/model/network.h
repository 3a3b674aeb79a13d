#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "ps/base/status.h"
#include "worker/model/model.h"

namespace ps::worker {

/// One minibatch.
struct Batch {
  std::span<const float> images;     // [n, c, h, w], of the model's input shape
  std::span<const uint32_t> labels;  // [n], each below the model's class count
};

struct BatchLoss {
  double loss_sum = 0;  // over the batch's samples
  int64_t correct = 0;
  int64_t samples = 0;
};

/// The arithmetic of a model on this machine's CPU. Parameters and gradients live with the caller,
/// one flat span a tensor in the order of Model::tensors, in canonical layout.
/// Thread: one at a time; the caller sets the number of threads (kernels/cpu/threads.h).
/// After the first step of a batch size, no step allocates tensor memory.
class Network {
 public:
  using Parameters = std::span<const std::span<const float>>;
  using Gradients = std::span<const std::span<float>>;
  /// Called once a tensor, when its gradient is final, from the last layer to the first.
  using GradientReady = std::function<void(uint32_t tensor)>;

  /// `seed` decides the dropout masks, with the step's number.
  static std::unique_ptr<Network> Make(const Model& model, uint64_t seed);

  virtual ~Network() = default;

  /// Forward and backward. Writes the gradient of the batch's mean loss; for tensors of rule
  /// kAverage, the observation to be averaged. Same arguments and thread count, same bits.
  /// Errors: kInvalidArgument when a span has the wrong size, a label is out of range, or memory is
  /// short; kUnsupported when the machine cannot run an op. NaN and infinity are no errors here:
  /// they show in the loss and the gradients (see kernels/op.h for what may hide one).
  virtual Result<BatchLoss> TrainStep(
      Parameters parameters,
      const Batch& batch,
      uint64_t step,
      Gradients gradients,
      const GradientReady& ready) = 0;

  /// Loss and hits with the running statistics and without dropout. Same errors.
  virtual Result<BatchLoss> Evaluate(Parameters parameters, const Batch& batch) = 0;
};

/// Scales the gradients of the kOptimizer tensors so that their common Euclidean norm is at most
/// `norm_max` > 0, and returns the norm before. A norm that is not finite is left as it is: the
/// server rejects such a push by itself.
double ClipGradientNorm(const Model& model, Network::Gradients gradients, float norm_max);

}  // namespace ps::worker
