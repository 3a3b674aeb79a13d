#include "ps/client/gradient_encoder.h"

#include <algorithm>

#include "ps/codec/encoding.h"
#include "ps/proto/chunks.h"

namespace ps::client {

GradientEncoder::GradientEncoder(const ChunkLayout& layout, size_t frame_bytes, bool has_feedback)
    : tensors_(layout.tensor_count()) {
  const proto::ChunkParts parts(frame_bytes);
  bool is_any_lossy = false;
  for (const ChunkLayout::Chunk& chunk : layout.chunks()) {
    if (!chunk.encoding.is_lossy()) {
      continue;
    }
    is_any_lossy = true;
    for (uint32_t part = 0; part < parts.CountOf(chunk.element_count); ++part) {
      const auto [begin, count] = parts.At(chunk.element_count, part);
      tensors_[TensorOf(chunk.key)].push_back(
          {chunk.encoding,
           static_cast<size_t>(chunk.offset) + begin,
           count,
           chunk.GradientAt(begin)});
    }
  }
  // As bf16 the bytes of a part lie on values of earlier ones, which are to be read before.
  for (std::vector<Part>& of_tensor : tensors_) {
    std::ranges::sort(of_tensor, {}, &Part::offset);
  }
  if (has_feedback && is_any_lossy) {
    residual_ = Buffer(static_cast<size_t>(layout.element_count()) * sizeof(float));
    std::ranges::fill(residual_.floats(), 0.0F);
  }
}

void GradientEncoder::Encode(uint32_t tensor, std::span<float> gradient) {
  const std::span<std::byte> bytes = std::as_writable_bytes(gradient);
  for (const Part& part : tensors_[tensor]) {
    codec::Encode(
        part.encoding,
        gradient.subspan(part.offset, part.count),
        residual_.size() == 0 ? std::span<float>()
                              : residual_.floats().subspan(part.offset, part.count),
        bytes.subspan(part.place, part.encoding.SizeOf(part.count)));
  }
}

}  // namespace ps::client
