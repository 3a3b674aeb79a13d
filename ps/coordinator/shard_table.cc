#include "ps/coordinator/shard_table.h"

#include <algorithm>

namespace ps::coordinator {

ShardTable::ShardTable(
    uint32_t shard_count, uint32_t shards_per_server, const proto::Placement& placement)
    : shards_per_server_(shards_per_server), shards_(shard_count) {
  PS_CHECK(shard_count > 0 && shards_per_server > 0);
  for (uint32_t i = 0; i < shard_count; ++i) {
    shards_[i].shard = ShardId(i);
  }
  std::vector<uint64_t> bytes(shard_count);
  for (const proto::ChunkAssignment& chunk : placement.chunks) {
    shards_[chunk.shard.value].has_chunks = true;
    bytes[chunk.shard.value] += chunk.element_count * sizeof(float);
  }
  largest_bytes_ = *std::max_element(bytes.begin(), bytes.end());
}

Shard* ShardTable::Find(ShardId shard) {
  return shard.value < shards_.size() ? &shards_[shard.value] : nullptr;
}

Shard* ShardTable::FindPeer(proto::PeerId peer) {
  const auto it = std::find_if(
      shards_.begin(), shards_.end(), [&](const Shard& shard) { return shard.peer == peer; });
  return it == shards_.end() || peer == proto::PeerId() ? nullptr : &*it;
}

bool ShardTable::are_all_ready() const {
  return std::all_of(shards_.begin(), shards_.end(), [](const auto& s) { return s.is_ready; });
}

std::string ShardTable::Missing() const {
  std::string text;
  for (const Shard& shard : shards_) {
    if (!shard.is_ready) {
      text += (text.empty() ? "" : ", ") + std::string("shard ") +
              std::to_string(shard.shard.value) + " of server " +
              std::to_string(ServerOf(shard.shard)) +
              (shard.is_registered ? " (not set up yet)" : " (not registered)");
    }
  }
  return text;
}

std::vector<proto::ShardAddress> ShardTable::Addresses() const {
  std::vector<proto::ShardAddress> addresses;
  addresses.reserve(shards_.size());
  for (const Shard& shard : shards_) {
    addresses.push_back({shard.shard, shard.host, shard.port});
  }
  return addresses;
}

}  // namespace ps::coordinator
