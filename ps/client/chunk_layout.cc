#include "ps/client/chunk_layout.h"

#include <string>

namespace ps::client {
namespace {

Status Mismatch(uint32_t tensor, const std::string& what) {
  return Status::InvalidArgument(
      "the coordinator's placement does not fit this model: tensor " + std::to_string(tensor) +
      ": " + what + "; are psctl and ps_worker of the same build?");
}

}  // namespace

Result<ChunkLayout> ChunkLayout::Make(
    const std::vector<int64_t>& tensor_elements, const proto::Placement& placement) {
  ChunkLayout layout;
  for (const int64_t n : tensor_elements) {
    layout.tensor_offsets_.push_back(layout.element_count_);
    layout.element_count_ += PaddedElements(n);
  }
  std::vector<int64_t> covered(tensor_elements.size(), 0);
  for (const proto::ChunkAssignment& chunk : placement.chunks) {
    const uint32_t tensor = TensorOf(chunk.key);
    if (tensor >= tensor_elements.size()) {
      return Mismatch(tensor, "there are " + std::to_string(tensor_elements.size()) + " tensors");
    }
    if (!layout.chunks_.empty() && !(layout.chunks_.back().key < chunk.key)) {
      return Mismatch(tensor, "chunks out of order");
    }
    const int64_t end = covered[tensor] + chunk.element_count;
    if (chunk.element_begin != covered[tensor] || end > tensor_elements[tensor]) {
      return Mismatch(
          tensor,
          "chunk " + std::to_string(ChunkOf(chunk.key)) + " covers [" +
              std::to_string(chunk.element_begin) + ", " + std::to_string(end) + ") of " +
              std::to_string(tensor_elements[tensor]) + " elements");
    }
    covered[tensor] = end;
    layout.chunks_.push_back(
        {chunk.key,
         chunk.shard,
         chunk.element_count,
         layout.tensor_offsets_[tensor] + chunk.element_begin});
  }
  for (size_t i = 0; i < covered.size(); ++i) {
    if (covered[i] != tensor_elements[i]) {
      return Mismatch(
          static_cast<uint32_t>(i),
          "only " + std::to_string(covered[i]) + " of " + std::to_string(tensor_elements[i]) +
              " elements are placed");
    }
  }
  return layout;
}

}  // namespace ps::client
