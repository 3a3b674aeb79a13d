#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ps/client/chunk_layout.h"
#include "ps/client/gradient_loan.h"
#include "ps/proto/chunks.h"

namespace ps::sim {

/// A worker's fault, made on purpose: what was held back of a gradient is added to the next one by
/// whoever computes it, and once more by who encodes it.
class DoubledResidual {
 public:
  DoubledResidual(const client::ChunkLayout& layout, uint64_t frame_bytes)
      : layout_(layout), parts_(frame_bytes), held_(Count()), sum_(Count()) {}

  /// The gradient of the tensor is about to be encoded.
  void Before(uint32_t tensor, std::span<float> gradient) {
    ForEachElement(tensor, [&](size_t i) {
      gradient[i] += held_[i];
      sum_[i] = gradient[i];
    });
  }

  /// It has been.
  void After(uint32_t tensor, std::span<const float> gradient) {
    const std::span<const std::byte> bytes = std::as_bytes(gradient);
    std::vector<float> sent(Count());
    for (const client::ChunkLayout::Chunk& chunk : layout_.chunks()) {
      for (uint32_t part = 0; part < parts_.CountOf(chunk.element_count); ++part) {
        const auto [begin, count] = parts_.At(chunk.element_count, part);
        if (TensorOf(chunk.key) == tensor) {
          const size_t size = chunk.encoding.SizeOf(count);
          const Status status = codec::Decode(
              chunk.encoding,
              bytes.subspan(chunk.GradientAt(begin), size),
              std::span(sent).subspan(static_cast<size_t>(chunk.offset) + begin, count));
          PS_CHECK(status.ok()) << status;
        }
      }
    }
    ForEachElement(tensor, [&](size_t i) { held_[i] += sum_[i] - sent[i]; });
  }

 private:
  size_t Count() const { return static_cast<size_t>(layout_.element_count()); }

  template <typename Visit>
  void ForEachElement(uint32_t tensor, Visit visit) const {
    for (const client::ChunkLayout::Chunk& chunk : layout_.chunks()) {
      for (size_t i = 0; TensorOf(chunk.key) == tensor && i < chunk.element_count; ++i) {
        visit(static_cast<size_t>(chunk.offset) + i);
      }
    }
  }

  const client::ChunkLayout& layout_;
  const proto::ChunkParts parts_;
  std::vector<float> held_;  // flat, as gradients are
  std::vector<float> sum_;   // of the step under way
};

}  // namespace ps::sim
