#include "ps/coordinator/placement.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "ps/proto/chunks.h"

namespace ps::coordinator {

namespace {

/// Indices of chunks, the largest first.
std::vector<size_t> BySize(const std::vector<proto::ChunkAssignment>& chunks) {
  std::vector<size_t> order(chunks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const uint32_t count_a = chunks[a].element_count;
    const uint32_t count_b = chunks[b].element_count;
    return count_a != count_b ? count_a > count_b : a < b;
  });
  return order;
}

/// Gives each chunk of `homeless`, in this order, to the shard that has the fewest elements then.
void Spread(
    const std::vector<size_t>& homeless,
    const std::vector<uint64_t>& elements_of,
    std::vector<proto::ChunkAssignment>* chunks) {
  std::set<std::pair<uint64_t, uint32_t>> load;  // elements, shard
  for (uint32_t shard = 0; shard < elements_of.size(); ++shard) {
    load.emplace(elements_of[shard], shard);
  }
  for (const size_t i : homeless) {
    const auto [elements, shard] = *load.begin();
    load.erase(load.begin());
    (*chunks)[i].shard = ShardId(shard);
    load.emplace(elements + (*chunks)[i].element_count, shard);
  }
}

}  // namespace

proto::Placement PlaceChunks(
    const std::vector<TensorSpec>& tensors, uint64_t chunk_bytes, uint32_t shard_count) {
  PS_CHECK(shard_count > 0);
  proto::Placement placement;
  placement.version = 1;
  placement.chunks = proto::CutIntoChunks(tensors, chunk_bytes);
  Spread(BySize(placement.chunks), std::vector<uint64_t>(shard_count), &placement.chunks);
  return placement;
}

proto::Placement PlaceAgain(const proto::Placement& before, uint32_t shard_count) {
  PS_CHECK(shard_count > 0);
  proto::Placement placement = before;
  ++placement.version;
  uint64_t total = 0;
  for (const proto::ChunkAssignment& chunk : placement.chunks) {
    total += chunk.element_count;
  }
  std::vector<uint64_t> elements_of(shard_count);
  std::vector<size_t> homeless;
  for (const size_t i : BySize(placement.chunks)) {
    const proto::ChunkAssignment& chunk = placement.chunks[i];
    const uint32_t shard = chunk.shard.value;
    if (shard < shard_count && (elements_of[shard] + chunk.element_count) * shard_count <= total) {
      elements_of[shard] += chunk.element_count;
    } else {
      homeless.push_back(i);
    }
  }
  Spread(homeless, elements_of, &placement.chunks);
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
