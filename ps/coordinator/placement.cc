#include "ps/coordinator/placement.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "ps/proto/chunks.h"

namespace ps::coordinator {

proto::Placement PlaceChunks(
    const std::vector<TensorSpec>& tensors, uint64_t chunk_bytes, uint32_t shard_count) {
  PS_CHECK(shard_count > 0);
  proto::Placement placement;
  placement.version = 1;
  placement.chunks = proto::CutIntoChunks(tensors, chunk_bytes);
  std::vector<size_t> order(placement.chunks.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const uint32_t count_a = placement.chunks[a].element_count;
    const uint32_t count_b = placement.chunks[b].element_count;
    return count_a != count_b ? count_a > count_b : a < b;
  });
  std::set<std::pair<uint64_t, uint32_t>> load;  // elements, shard
  for (uint32_t shard = 0; shard < shard_count; ++shard) {
    load.emplace(0, shard);
  }
  for (const size_t i : order) {
    const auto [elements, shard] = *load.begin();
    load.erase(load.begin());
    placement.chunks[i].shard = ShardId(shard);
    load.emplace(elements + placement.chunks[i].element_count, shard);
  }
  return placement;
}

uint64_t LargestBytes(const proto::Placement& placement) {
  std::map<ShardId, uint64_t> bytes;
  uint64_t largest = 0;
  for (const proto::ChunkAssignment& chunk : placement.chunks) {
    largest = std::max(largest, bytes[chunk.shard] += chunk.element_count * sizeof(float));
  }
  return largest;
}

Status CheckPlacement(
    const proto::Placement& placement,
    const std::vector<TensorSpec>& tensors,
    uint32_t shard_count) {
  size_t i = 0;
  for (uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
    const int64_t elements = tensors[tensor].element_count();
    int64_t covered = 0;
    for (uint32_t chunk = 0; covered < elements; ++chunk, ++i) {
      const ChunkKey key = MakeChunkKey(tensor, chunk);
      if (i == placement.chunks.size() || placement.chunks[i].key != key ||
          placement.chunks[i].element_begin != covered || placement.chunks[i].element_count == 0 ||
          placement.chunks[i].element_count > elements - covered ||
          placement.chunks[i].shard.value >= shard_count) {
        return Status::Corruption(fmt::format(
            "chunk {} of tensor {} is not placed, or not where it belongs", chunk, tensor));
      }
      covered += placement.chunks[i].element_count;
    }
  }
  return i == placement.chunks.size() ? Status::Ok()
                                      : Status::Corruption("chunks of no tensor are placed");
}

}  // namespace ps::coordinator
