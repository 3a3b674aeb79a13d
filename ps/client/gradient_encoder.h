#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ps/base/buffer.h"
#include "ps/client/chunk_layout.h"

namespace ps::client {

/// Makes of a worker's f32 gradients what travels, tensor by tensor, where they lie: each part of a
/// chunk by itself, as ChunkLayout says. With error feedback it keeps what was lost of each
/// value and adds it to the next step's. Thread: one at a time.
class GradientEncoder {
 public:
  /// `layout`: its encodings. Parts are of `frame_bytes`, as they travel. With `has_feedback` the
  /// residual takes as much memory as the parameters; it begins at 0.
  GradientEncoder(const ChunkLayout& layout, size_t frame_bytes, bool has_feedback);

  /// The gradient of `tensor` is final in `gradient`, a flat one of all tensors. Once a step.
  void Encode(uint32_t tensor, std::span<float> gradient);

 private:
  struct Part {
    codec::Encoding encoding;
    size_t offset = 0;  // of its values, in elements of a flat gradient
    size_t count = 0;
    size_t place = 0;  // of its bytes, in bytes of a flat gradient
  };

  std::vector<std::vector<Part>> tensors_;  // what is to be encoded of each, in order
  Buffer residual_;                         // flat; empty without feedback
};

}  // namespace ps::client
