#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/backend.h"
#include "kernels/op.h"
#include "ps/base/status.h"
#include "worker/model/batch.h"
#include "worker/model/layer_rule.h"

namespace ps::worker {

/// What one pass through the layers carries. Spans are of device memory, one a tensor.
struct Pass {
  int64_t n = 0;
  bool training = false;
  const uint64_t* step = nullptr;  // of the device, as kernels::ForwardArgs
  kernels::ConstSpans parameters = {};
  kernels::Spans gradients = {};  // training only
  /// Training only: the work that makes these tensors' gradients final is in the stream.
  std::function<void(uint32_t first_tensor, uint32_t count)> on_gradients = {};
};

struct Stage;

/// Layers in a row with the memory between them, all of it the backend's. Forward and Backward put
/// work into the stream and return.
///
/// Forward: a stage writes its own buffer, or its input's where the op can run in place and the
/// overwritten values are not needed. A sequence never writes to the x it was given.
/// The end of a residual layer may be one pass: the body's last op adds the other path, and does
/// the relu behind the layer. Backward, that relu's gradient is what both paths begin with. Else
/// the op that comes next may add the paths as it reads them, as layer norm does on some devices;
/// and backward the first op of the body may add the shortcut's part of the gradient. Backward:
/// gradients alternate between two buffers of the sequence; the dy it was given is only read,
/// because the two paths of a residual layer share it.
class Sequence {
 public:
  struct Options {
    kernels::Backend* backend = nullptr;  // outlives the sequence, as does the stream
    kernels::Stream* stream = nullptr;
    LayerOpOptions ops;
    /// Forward is given a side, which the last op adds, and then this. Backward begins behind the
    /// addition. Requires: CanAddSide.
    std::optional<kernels::Activation> side_activation = {};
  };

  /// Whether the last of these layers can add a side at its end.
  static bool CanAddSide(const std::vector<Layer>& layers, kernels::Stream* stream);

  /// Errors: kUnsupported when the backend lacks an op; kInvalidArgument when memory is short.
  static Result<Sequence> Make(const std::vector<Layer>& layers, const Options& options);
  Sequence(Sequence&&) noexcept;
  ~Sequence();

  /// Puts the change from canonical NCHW images to the ops' NHWC in front.
  Status PrependChannelsLast(const Shape& input);

  /// Plans and memory for batches of n. Requires: no work is left in the stream.
  Status Prepare(int64_t n, bool training);
  /// Returns the output, which stays valid until the next Forward.
  const float* Forward(const Pass& pass, const float* x, const float* side = nullptr);
  /// `dx` is nullptr if and only if input_gradient was false. `dx_side`, if any, is added to it.
  void Backward(
      const Pass& pass, const float* x, const float* dy, float* dx, const float* dx_side = nullptr);

  /// Whether Backward's dy may be written over what Forward returned: nobody reads that again.
  bool gives_output_away() const;

  /// Whether it has a tensor that is not frozen.
  bool learns() const;

 private:
  /// What a stage is given: x; or two parts whose sum is the input, which the stage's first op
  /// works out and writes there.
  struct Incoming {
    const float* input() const { return sum == nullptr ? x : sum; }

    const float* x = nullptr;
    const float* added = nullptr;
    float* sum = nullptr;
  };

  explicit Sequence(const Options& options);

  static bool SumsInput(const Stage& stage);
  /// The index-th layer, and the next one with it where a single op does both; returns whether.
  Result<bool> Append(const Layer& layer, const Layer* next, uint64_t index);
  Incoming ForwardStages(const Pass& pass, Incoming in, const float* side);
  Incoming ForwardStage(const Pass& pass, Stage* stage, const Incoming& in, const float* side);
  Incoming ForwardResidual(const Pass& pass, Stage* stage, const Incoming& in);
  void BackwardStages(
      const Pass& pass, const float* x, const float* dy, float* dx, const float* dx_side);
  void SkipStages(const Pass& pass, size_t count);
  void BackwardStage(
      const Pass& pass,
      Stage* stage,
      const float* x,
      const float* dy,
      float* dx,
      const float* dx_side = nullptr);

  const Options options_;
  std::vector<Stage> stages_;
  bool is_gradient_needed_;        // of the input of a further stage
  size_t first_backward_ = 0;      // stages before it have no gradient to compute
  int64_t gradient_elements_ = 0;  // largest stage input that has a gradient, a sample
  std::array<std::unique_ptr<kernels::Memory>, 2> gradients_;
};

}  // namespace ps::worker
