#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "ps/base/picture_move.h"
#include "ps/base/status.h"
#include "worker/model/model.h"
#include "worker/model/picture_format.h"

namespace ps::worker {

/// One minibatch.
struct Batch {
  std::span<const float> images;     // [n, c, h, w], of the model's input shape; or [n, tokens]
  std::span<const uint32_t> labels;  // [n, labels of a sample], each below the model's class count,
                                     // or kNoLabel where a sample has several
  // Instead of images, for a network that takes pictures:
  std::span<const uint8_t> bytes = {};      // [n, c, h, w] of the PictureFormat
  std::span<const PictureMove> moves = {};  // [n]
};

/// Of a sample with several labels, the loss is their mean, and it is correct as far as they are:
/// the sum of these parts is rounded to whole samples.
struct BatchLoss {
  double loss_sum = 0;  // over the batch's samples
  int64_t correct = 0;
  int64_t samples = 0;
};

/// The arithmetic of a model on one device, or on several that share each minibatch. Parameters,
/// gradients and batches live with the caller in pinned memory (Backend::AllocatePinned),
/// parameters and gradients one flat span a tensor in the order of Model::tensors, in canonical
/// layout. Where the device has a memory of its own, the network keeps copies there: parameters go
/// there by Upload, gradients come back from it. Thread: one at a time. After the first step of a
/// batch size, no step allocates tensor memory.
class Network {
 public:
  using Parameters = kernels::ConstSpans;
  using Gradients = kernels::Spans;
  /// Called once a tensor, when its gradient is final and here, from the last layer to the first.
  using GradientReady = std::function<void(uint32_t tensor)>;

  struct StepOptions {
    uint64_t step = 0;  // with the seed it decides the dropout masks
    /// Above 0: gradients of the kOptimizer tensors are scaled so that their common Euclidean norm
    /// is at most this; then none is ready before all are. A norm that is not finite is left as it
    /// is: the server rejects such a push by itself.
    float clip_norm = 0;
    /// Above 0: each device computes at most so many samples at a time, and the gradients of such
    /// pieces are added up. Batch norm sees a piece at a time, and what it observes is their mean.
    int64_t micro_batch = 0;
    /// Gradients of the kOptimizer tensors are rounded to bfloat16 when they are final; the caller
    /// gets them so, back to back in the first half of the tensor's span.
    bool bf16_gradients = false;
    /// Called as each forward pass of the first device begins (false) and is done (true): then the
    /// step waits for the device there, and is not repeated from a recording. May be empty.
    std::function<void(bool is_done)> on_forward = {};
  };

  /// The backends, at least one and all of one kind, outlive the network. Of n samples each of d
  /// devices takes n / d in a row, rounded up, and computes them as a piece of a minibatch.
  /// `precision` is that of linear, conv2d and attention; parameters, gradients and all that layers
  /// pass on are f32. Errors: as of the backends; kUnsupported when they lack an op.
  static Result<std::unique_ptr<Network>> Make(
      const Model& model,
      const std::vector<kernels::Backend*>& backends,
      uint64_t seed,
      kernels::Precision precision = kernels::Precision::kF32);

  virtual ~Network() = default;

  /// From now on batches have bytes and moves instead of images, and the device makes these of
  /// them. Once, before the first batch. Errors: kInvalidArgument when such pictures are not the
  /// model's input; the backend's.
  virtual Status TakePictures(const PictureFormat& format) = 0;

  /// Whether a change of parameters has to be told by Upload; else the arithmetic reads them where
  /// they are.
  virtual bool has_copies() const = 0;
  /// Puts values of `tensor` from element `begin` on the way to the device, where the next step
  /// finds them. They stay as they are until it has returned, or until they are put there again.
  virtual void Upload(uint32_t tensor, int64_t begin, std::span<const float> values) = 0;
  void UploadAll(Parameters parameters);
  /// Waits until all that was put on the way is there. Errors: kUnavailable, the device is lost.
  virtual Status Settle() = 0;

  /// Forward and backward. Writes the gradient of the batch's mean loss; for tensors of rule
  /// kAverage, the observation to be averaged. Same arguments, device and thread count, same bits.
  /// Errors: kInvalidArgument when a span has the wrong size, a label or token is out of range, or
  /// memory is short, with the largest batch for which there is enough; kUnsupported when the
  /// machine cannot run an op; kUnavailable when the device is lost. NaN and infinity are no errors
  /// here: they show in the loss and the gradients (see kernels/op.h for what may hide one).
  virtual Result<BatchLoss> TrainStep(
      Parameters parameters,
      const Batch& batch,
      const StepOptions& options,
      Gradients gradients,
      const GradientReady& ready) = 0;

  /// Loss and hits with the running statistics and without dropout. Same errors.
  virtual Result<BatchLoss> Evaluate(Parameters parameters, const Batch& batch) = 0;
};

}  // namespace ps::worker
