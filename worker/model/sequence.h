#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/workspace.h"
#include "kernels/op.h"
#include "ps/base/buffer.h"
#include "ps/base/status.h"
#include "worker/model/network.h"

namespace ps::worker {

/// What one pass through the layers carries.
struct Pass {
  int64_t n = 0;
  bool training = false;
  uint64_t step = 0;
  Network::Parameters parameters = {};
  Network::Gradients gradients = {};              // training only
  const Network::GradientReady* ready = nullptr;  // training only
};

struct Stage;

/// Layers in a row with the memory between them.
///
/// Forward: a stage writes its own buffer, or its input's where the op can run in place and the
/// overwritten values are not needed. A sequence never writes to the x it was given.
/// Backward: gradients alternate between two buffers of the sequence; the dy it was given is only
/// read, because the two paths of a residual layer share it.
class Sequence {
 public:
  struct Options {
    kernels::Workspace* workspace = nullptr;  // outlives the sequence
    uint64_t seed = 0;
    bool input_gradient = false;  // Backward is asked for dx
  };

  Sequence(const std::vector<Layer>& layers, const Options& options);
  Sequence(Sequence&&) noexcept;
  ~Sequence();

  /// Puts the change from canonical NCHW images to the ops' NHWC in front.
  void PrependChannelsLast(const Shape& input, kernels::Workspace* workspace);

  /// Plans and memory for batches of n.
  Status Prepare(int64_t n, bool training);
  /// Returns the output, which stays valid until the next Forward.
  const float* Forward(const Pass& pass, const float* x);
  /// `dx` is nullptr if and only if input_gradient was false.
  void Backward(const Pass& pass, const float* x, const float* dy, float* dx);

  bool has_tensors() const;

 private:
  void ForwardStage(const Pass& pass, Stage* stage, const float* x);
  void BackwardStage(const Pass& pass, Stage* stage, const float* x, const float* dy, float* dx);

  const bool input_gradient_;
  std::vector<Stage> stages_;
  size_t first_backward_ = 0;      // stages before it have no gradient to compute
  int64_t gradient_elements_ = 0;  // largest stage input that has a gradient, a sample
  std::array<Buffer, 2> gradients_;
};

}  // namespace ps::worker
