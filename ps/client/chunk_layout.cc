#include "ps/client/chunk_layout.h"

#include <fmt/core.h>

#include <algorithm>

namespace ps::client {

Result<ChunkLayout> ChunkLayout::Make(
    const std::vector<int64_t>& tensor_elements, const proto::Placement& placement) {
  const Status status = proto::CheckPlacement(placement, tensor_elements);
  if (!status.ok()) {
    return Status::InvalidArgument(
        fmt::format("{}; are psctl and ps_worker of the same build?", status.message()));
  }
  ChunkLayout layout;
  layout.tensors_ = proto::TensorLayout(tensor_elements);
  layout.chunks_.reserve(placement.chunks.size());
  for (const proto::ChunkAssignment& chunk : placement.chunks) {
    layout.chunks_.push_back(
        {chunk.key,
         chunk.shard,
         chunk.element_count,
         layout.tensors_.OffsetOf(TensorOf(chunk.key)) + chunk.element_begin});
  }
  return layout;
}

const ChunkLayout::Chunk* ChunkLayout::Find(ChunkKey key) const {
  const auto it = std::ranges::lower_bound(chunks_, key, {}, &Chunk::key);
  return it == chunks_.end() || it->key != key ? nullptr : &*it;
}

void ChunkLayout::Move(ChunkKey key, ShardId shard) {
  std::ranges::lower_bound(chunks_, key, {}, &Chunk::key)->shard = shard;
}

}  // namespace ps::client
