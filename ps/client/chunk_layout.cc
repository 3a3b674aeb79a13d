#include "ps/client/chunk_layout.h"

#include <fmt/core.h>

#include <algorithm>

namespace ps::client {

Result<ChunkLayout> ChunkLayout::Make(
    const std::vector<int64_t>& tensor_elements,
    const proto::Placement& placement,
    std::span<const codec::Encoding> encodings) {
  const Status status = proto::CheckPlacement(placement, tensor_elements);
  if (!status.ok()) {
    return Status::InvalidArgument(
        fmt::format("{}; are psctl and ps_worker of the same build?", status.message()));
  }
  ChunkLayout layout;
  layout.tensors_ = proto::TensorLayout(tensor_elements);
  layout.chunks_.reserve(placement.chunks.size());
  for (const proto::ChunkAssignment& chunk : placement.chunks) {
    const uint32_t tensor = TensorOf(chunk.key);
    const int64_t tensor_offset = layout.tensors_.OffsetOf(tensor);
    layout.chunks_.push_back(
        {chunk.key, chunk.shard, chunk.element_count, tensor_offset + chunk.element_begin});
  }
  layout.SetEncodings(encodings);
  return layout;
}

void ChunkLayout::SetEncodings(std::span<const codec::Encoding> encodings) {
  for (Chunk& chunk : chunks_) {
    const uint32_t tensor = TensorOf(chunk.key);
    const int64_t tensor_offset = tensors_.OffsetOf(tensor);
    chunk.encoding = encodings.empty() ? codec::Encoding() : encodings[tensor];
    chunk.gradient_stride = chunk.encoding.kind == codec::EncodingKind::kBf16 ? 2 : sizeof(float);
    chunk.gradient_begin =
        static_cast<size_t>(tensor_offset) * sizeof(float) +
        static_cast<size_t>(chunk.offset - tensor_offset) * chunk.gradient_stride;
  }
}

const ChunkLayout::Chunk* ChunkLayout::Find(ChunkKey key) const {
  const auto it = std::ranges::lower_bound(chunks_, key, {}, &Chunk::key);
  return it == chunks_.end() || it->key != key ? nullptr : &*it;
}

void ChunkLayout::Move(ChunkKey key, ShardId shard) {
  std::ranges::lower_bound(chunks_, key, {}, &Chunk::key)->shard = shard;
}

}  // namespace ps::client
