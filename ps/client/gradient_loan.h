#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ps/client/chunk_layout.h"

namespace ps::client {

/// The gradient of one step, in memory of the host that computes it.
class StepGradient {
 public:
  virtual ~StepGradient() = default;

  /// Elements [begin, begin + count) of a chunk, which are a part of it, in EncodingOf(chunk).
  /// Final once the chunk's tensor is ready: asked again, it gives the same bytes.
  virtual std::span<const std::byte> Piece(
      const ChunkLayout::Chunk& chunk, uint32_t begin, uint32_t count) const = 0;

  /// How a tensor of it travels.
  enum class Form : uint8_t {
    kAsAgreed,  // as the layout says
    kWhole,     // as f32, since nothing of it is held back: of the worker's last step, or of the
                // first without error feedback
    kNothing,   // not at all: an observation of what the worker began the step with
  };

  /// Final as Piece is.
  virtual Form FormOf(uint32_t /*tensor*/) const { return Form::kAsAgreed; }

  bool IsWhole(uint32_t tensor) const { return FormOf(tensor) == Form::kWhole; }

  codec::Encoding EncodingOf(const ChunkLayout::Chunk& chunk) const {
    switch (FormOf(TensorOf(chunk.key))) {
      case Form::kWhole:
        return {};
      case Form::kNothing:
        return {codec::EncodingKind::kNothing};
      case Form::kAsAgreed:
        break;
    }
    return chunk.encoding;
  }
};

/// Whoever holds one may read the gradient. Values that are final are not overwritten until the
/// last holder has let go. The core holds it until every shard has acknowledged the step, and a
/// transport until it has sent its frames.
using GradientLoan = std::shared_ptr<const StepGradient>;

}  // namespace ps::client
