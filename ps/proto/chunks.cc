#include "ps/proto/chunks.h"

#include <fmt/core.h>

namespace ps::proto {
namespace {

Status Mismatch(uint32_t tensor, const std::string& what) {
  return Status::InvalidArgument(
      fmt::format("the placement does not fit the model: tensor {}: {}", tensor, what));
}

}  // namespace

uint64_t ChunkCountOf(int64_t elements, uint64_t chunk_bytes) {
  const uint64_t elements_max = chunk_bytes / sizeof(float);
  return (static_cast<uint64_t>(elements) + elements_max - 1) / elements_max;
}

std::vector<ChunkAssignment> CutIntoChunks(
    const std::vector<TensorSpec>& tensors, uint64_t chunk_bytes) {
  PS_CHECK(chunk_bytes >= sizeof(float)) << chunk_bytes << " bytes for a chunk";
  const auto elements_max = static_cast<int64_t>(chunk_bytes / sizeof(float));
  std::vector<ChunkAssignment> chunks;
  for (uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
    const int64_t elements = tensors[tensor].element_count();
    uint32_t number = 0;
    for (int64_t begin = 0; begin < elements; begin += elements_max) {
      ChunkAssignment& chunk = chunks.emplace_back();
      chunk.key = MakeChunkKey(tensor, number++);
      chunk.element_begin = begin;
      chunk.element_count = static_cast<uint32_t>(std::min(elements_max, elements - begin));
    }
  }
  return chunks;
}

Status CheckChunks(const Placement& placement, std::span<const int64_t> tensor_elements) {
  const ChunkAssignment* previous = nullptr;
  for (const ChunkAssignment& chunk : placement.chunks) {
    const uint32_t tensor = TensorOf(chunk.key);
    if (tensor >= tensor_elements.size()) {
      return Mismatch(tensor, fmt::format("there are {} tensors", tensor_elements.size()));
    }
    if (previous != nullptr && chunk.key <= previous->key) {
      return Mismatch(tensor, "chunks out of order");
    }
    const bool is_first = previous == nullptr || TensorOf(previous->key) != tensor;
    const int64_t end = is_first ? 0 : previous->element_begin + previous->element_count;
    const int64_t elements = tensor_elements[tensor];
    if (chunk.element_begin < end || chunk.element_begin > elements || chunk.element_count == 0 ||
        chunk.element_count > elements - chunk.element_begin) {
      return Mismatch(
          tensor,
          fmt::format(
              "chunk {} is {} elements from {} on, behind {} of {}",
              ChunkOf(chunk.key),
              chunk.element_count,
              chunk.element_begin,
              end,
              elements));
    }
    previous = &chunk;
  }
  return Status::Ok();
}

Status CheckPlacement(const Placement& placement, std::span<const int64_t> tensor_elements) {
  PS_TRY(CheckChunks(placement, tensor_elements));
  std::vector<int64_t> placed(tensor_elements.size(), 0);
  for (const ChunkAssignment& chunk : placement.chunks) {
    placed[TensorOf(chunk.key)] += chunk.element_count;
  }
  for (uint32_t tensor = 0; tensor < placed.size(); ++tensor) {
    if (placed[tensor] != tensor_elements[tensor]) {
      return Mismatch(
          tensor,
          fmt::format(
              "only {} of {} elements are placed", placed[tensor], tensor_elements[tensor]));
    }
  }
  return Status::Ok();
}

TensorLayout::TensorLayout(std::span<const int64_t> tensor_elements) {
  constexpr int64_t kAlign = kBufferAlignment / sizeof(float);
  for (const int64_t elements : tensor_elements) {
    offsets_.push_back(element_count_);
    element_count_ += (elements + kAlign - 1) / kAlign * kAlign;
  }
}

}  // namespace ps::proto
