#pragma once

#include <cstdint>
#include <span>

#include "ps/base/status.h"

namespace ps::kernels {

// What every differentiable op looks like, whatever computes it. All values are f32, dense, in
// memory that its backend reaches (kernels/backend.h).
// Activations are NHWC: sample-major, channel innermost; a flat vector of c features is h = w = 1.
// Parameters keep the canonical layout of their op (conv2d oihw, linear [out,in]) and stay in the
// caller's memory; layouts that an implementation prefers are hidden behind reorders.
//
// NaN and infinity: no op hides them on purpose. A NaN in x or a parameter reaches y through
// conv2d, linear, batch_norm, layer_norm, attention, embedding, avg_pool, gelu, tanh, sigmoid,
// dropout (where kept), flatten and the loss. relu and
// max_pool compare, and a NaN there may come out as 0 or as the window's other values, depending on
// the machine's vector instructions. The server checks what is pushed, so parameters stay finite.

using ConstSpans = std::span<const std::span<const float>>;
using Spans = std::span<const std::span<float>>;

struct ForwardArgs {
  int64_t n = 0;                // samples
  const float* x = nullptr;     // [n, h, w, c] of the op's input shape
  float* y = nullptr;           // [n, h, w, c] of its output shape
  const float* side = nullptr;  // like y: what an op adds that is told to. If OpTraits::sums_input,
                                // like x: the op works on x + side, and
  float* sum = nullptr;         // writes that, which is its x backward
  ConstSpans params = {};
  bool training = false;
  /// Dropout: part of what decides the mask. In the backend's memory, read when the work is done,
  /// and again by Backward.
  const uint64_t* step = nullptr;
};

struct BackwardArgs {
  int64_t n = 0;
  const float* x = nullptr;   // as in the forward call; unless the op ran in place
  const float* y = nullptr;   // what the forward call wrote, if OpTraits::backward_reads_output;
                              // else others may have written there, dy for one
  const float* dy = nullptr;  // gradient of the loss by y
  float* dx = nullptr;        // written (not added to), or nullptr when it is not needed
  const float* dx_side = nullptr;  // is added to dx, by an op with OpTraits::adds_to_dx
  ConstSpans params = {};
  Spans grads = {};  // one per parameter, written (not added to)
};

/// What a caller may and must not do with an op's buffers.
struct OpTraits {
  bool runs_in_place = false;          // y may be x, and dx may be dy
  bool backward_reads_output = false;  // no op may overwrite y before Backward
  bool sums_input = false;             // takes a side and a sum, or neither
  bool adds_to_dx = false;             // takes a dx_side
};

/// One op of fixed geometry.
/// Call order: Prepare(n) for each size of the batches that follow, of which there are one or two;
/// then Forward, and for training Backward, of one batch after the other. State that Backward needs
/// besides the arguments (masks, batch statistics) is kept inside until the next Forward. Thread:
/// one at a time. Forward and Backward allocate no tensor memory.
class Op {
 public:
  virtual ~Op() = default;

  /// Builds what batches of n samples need, unless it is there. An empty batch is fine: Forward
  /// then writes nothing, and Backward zeros as gradients of parameters. Requires: n >= 0.
  /// Errors: kUnsupported, kInvalidArgument (out of memory).
  virtual Status Prepare(int64_t n, bool training) = 0;
  virtual void Forward(const ForwardArgs& args) = 0;
  virtual void Backward(const BackwardArgs& args) = 0;
  virtual OpTraits traits() const = 0;
};

}  // namespace ps::kernels
