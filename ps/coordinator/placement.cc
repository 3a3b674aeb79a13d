#include "ps/coordinator/placement.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace ps::coordinator {

proto::Placement PlaceChunks(
    const std::vector<TensorSpec>& tensors, uint64_t chunk_bytes, uint32_t shard_count) {
  PS_CHECK(shard_count > 0 && chunk_bytes >= sizeof(float));
  const auto elements_max = static_cast<int64_t>(chunk_bytes / sizeof(float));
  proto::Placement placement;
  placement.version = 1;
  for (uint32_t tensor = 0; tensor < tensors.size(); ++tensor) {
    const int64_t elements = tensors[tensor].element_count();
    uint32_t chunk = 0;
    for (int64_t begin = 0; begin < elements; begin += elements_max) {
      proto::ChunkAssignment assignment;
      assignment.key = MakeChunkKey(tensor, chunk++);
      assignment.element_begin = begin;
      assignment.element_count = static_cast<uint32_t>(std::min(elements_max, elements - begin));
      placement.chunks.push_back(assignment);
    }
  }
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

Status CheckRoundFits(const proto::JobConfig& config, const std::vector<TensorSpec>& tensors) {
  if (config.train.mode != proto::Mode::kBsp) {
    return Status::Ok();
  }
  uint64_t workers = 0;
  for (const proto::WorkerGroup& group : config.workers) {
    workers += group.count;
  }
  for (const proto::FaultConfig& fault : config.faults) {
    workers += fault.kind == proto::FaultKind::kAdd ? fault.add.count : 0;
  }
  std::map<ShardId, uint64_t> shard_bytes;
  uint64_t largest_bytes = 0;
  const proto::Placement placement = PlaceChunks(
      tensors,
      uint64_t{config.servers.chunk_kib} << 10,
      config.servers.count * config.servers.shards_per_server);
  for (const proto::ChunkAssignment& chunk : placement.chunks) {
    uint64_t& bytes = shard_bytes[chunk.shard];
    bytes += uint64_t{chunk.element_count} * sizeof(float);
    largest_bytes = std::max(largest_bytes, bytes);
  }
  const uint64_t needed_mib = (workers * largest_bytes + (1U << 20) - 1) >> 20;
  if (needed_mib <= config.servers.queue_mib) {
    return Status::Ok();
  }
  return Status::InvalidArgument(
      "servers.queue_mib is " + std::to_string(config.servers.queue_mib) +
      ", but in mode bsp a shard keeps one gradient of each of " + std::to_string(workers) +
      " workers until the round ends, " + std::to_string(needed_mib) +
      " MiB; raise servers.queue_mib to that, or use more servers or shards");
}

}  // namespace ps::coordinator
