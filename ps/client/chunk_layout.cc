#include "ps/client/chunk_layout.h"

#include <fmt/core.h>

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

}  // namespace ps::client
