#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ps/base/buffer.h"
#include "ps/client/chunk_layout.h"
#include "ps/client/host_tensors.h"

namespace ps::client {

/// Makes of a worker's f32 gradients what travels, tensor by tensor, where they lie: each part of a
/// chunk by itself, as ChunkLayout says. With error feedback it keeps what was lost of each
/// value and adds it to the next step's. Thread: one at a time.
class GradientEncoder {
 public:
  /// `layout`: its encodings. Parts are of `frame_bytes`, as they travel. With `has_feedback` the
  /// residual takes as much memory as the parameters, once something is encoded; it begins at 0.
  GradientEncoder(const ChunkLayout& layout, size_t frame_bytes, bool has_feedback);

  /// Gradients travel so from now on. What is kept goes with the next gradient of each tensor,
  /// whatever that travels as; so nothing is lost by a change, nor by the end of feedback.
  void Change(const ChunkLayout& layout, bool has_feedback);

  /// The gradient of `tensor` is final in `gradient`, a flat one of all tensors. Once a step.
  void Encode(uint32_t tensor, std::span<float> gradient);

  /// The same of a tensor of the worker's last step, as far as anybody knows: it stays f32, with
  /// all that was kept of it, and nothing of it is kept any more.
  void HandOver(uint32_t tensor, FlatGradient* gradient);

  /// Whether something is kept of the tensor, and error feedback is off by now: what an encoding
  /// would lose of it goes with no gradient any more, so HandOver is to have it.
  bool EndsFeedback(uint32_t tensor) const {
    return !has_feedback_ && tensors_[tensor].is_kept && tensors_[tensor].is_lossy;
  }

  /// Norm of what is kept of the tensors encoded since the last call, as a share of the norm of
  /// their gradients; 0: nothing is kept, or something was not finite.
  double TakeHeldBack();

 private:
  struct Part {
    codec::Encoding encoding;
    size_t offset = 0;  // of its values, in elements of a flat gradient
    size_t count = 0;
    size_t place = 0;  // of its bytes, in bytes of a flat gradient
  };

  struct Tensor {
    std::vector<Part> parts;  // what is to be encoded of it, in order
    bool is_kept = false;     // there is something of it in the residual
    bool is_lossy = false;
  };

  std::span<float> KeptOf(const Part& part) {
    return residual_.floats().subspan(part.offset, part.count);
  }

  /// What is kept has gone with a gradient.
  void Forget(Tensor* tensor);

  size_t frame_bytes_ = 0;
  bool has_feedback_ = false;
  std::vector<Tensor> tensors_;
  Buffer residual_;  // flat; empty while nothing is kept
  double gradient_squares_ = 0;
  double kept_squares_ = 0;
};

}  // namespace ps::client
