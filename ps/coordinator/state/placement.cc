#include "ps/coordinator/state/placement.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "ps/proto/chunks.h"
#include "ps/proto/limits.h"

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

uint64_t ElementsOf(const proto::Placement& placement) {
  uint64_t elements = 0;
  for (const proto::ChunkAssignment& chunk : placement.chunks) {
    elements += chunk.element_count;
  }
  return elements;
}

uint64_t SumOfShares(const std::vector<uint32_t>& shares) {
  return std::accumulate(shares.begin(), shares.end(), uint64_t{0});
}

/// Gives each chunk of `homeless`, in this order, to the shard that has the fewest elements then
/// for its share.
void Spread(
    const std::vector<size_t>& homeless,
    const std::vector<uint32_t>& shares,
    std::vector<uint64_t> elements_of,
    std::vector<proto::ChunkAssignment>* chunks) {
  const auto load_of = [&](uint32_t shard) {
    return std::pair(static_cast<double>(elements_of[shard]) / shares[shard], shard);
  };
  std::set<std::pair<double, uint32_t>> loads;
  for (uint32_t shard = 0; shard < shares.size(); ++shard) {
    loads.insert(load_of(shard));
  }
  for (const size_t i : homeless) {
    const uint32_t shard = loads.extract(loads.begin()).value().second;
    (*chunks)[i].shard = ShardId(shard);
    elements_of[shard] += (*chunks)[i].element_count;
    loads.insert(load_of(shard));
  }
}

}  // namespace

proto::Placement PlaceChunks(
    const std::vector<TensorSpec>& tensors, uint64_t chunk_bytes, uint32_t shard_count) {
  PS_CHECK(shard_count > 0);
  proto::Placement placement;
  placement.version = 1;
  placement.chunks = proto::CutIntoChunks(tensors, chunk_bytes);
  Spread(
      BySize(placement.chunks),
      std::vector<uint32_t>(shard_count, 1),
      std::vector<uint64_t>(shard_count),
      &placement.chunks);
  return placement;
}

bool AreShares(const std::vector<uint32_t>& shares, uint32_t servers) {
  return shares.empty() ||
         (shares.size() == servers && std::ranges::all_of(shares, [](uint32_t share) {
            return share >= 1 && share <= proto::kShareMax;
          }));
}

std::vector<uint32_t> ShardShares(const proto::ServersState& servers, uint32_t shards_per_server) {
  std::vector<uint32_t> shares;
  for (uint32_t server = 0; server < servers.wanted; ++server) {
    shares.insert(
        shares.end(), shards_per_server, servers.shares.empty() ? 1 : servers.shares[server]);
  }
  return shares;
}

std::map<ChunkKey, ShardId> PinnedShards(
    const proto::ServersState& servers, uint32_t shards_per_server) {
  std::map<ChunkKey, ShardId> pinned;
  for (const proto::PinnedChunk& pin : servers.pins) {
    const uint32_t place = ChunkOf(pin.key) % shards_per_server;
    pinned[pin.key] = ShardId(pin.server * shards_per_server + place);
  }
  return pinned;
}

std::vector<proto::PinnedPart> PinnedParts(
    const std::vector<proto::PinnedChunk>& pins,
    const proto::Placement& placement,
    const std::vector<TensorSpec>& tensors) {
  std::map<uint32_t, int64_t> chunks;  // of each tensor
  if (!pins.empty()) {
    for (const proto::ChunkAssignment& chunk : placement.chunks) {
      ++chunks[TensorOf(chunk.key)];
    }
  }
  std::vector<proto::PinnedPart> parts;
  for (auto pin = pins.begin(); pin != pins.end() && parts.size() < proto::kStatusPinnedMax;) {
    const uint32_t tensor = TensorOf(pin->key);
    const auto end = std::find_if(pin, pins.end(), [&](const proto::PinnedChunk& other) {
      return TensorOf(other.key) != tensor || other.server != pin->server;
    });
    const bool is_whole = end - pin == chunks[tensor];
    parts.push_back(
        {tensors[tensor].name,
         is_whole ? -1 : static_cast<int32_t>(ChunkOf(pin->key)),
         pin->server});
    pin = is_whole ? end : pin + 1;
  }
  return parts;
}

proto::Placement PlaceAgain(
    const proto::Placement& before,
    const std::vector<uint32_t>& shares,
    const std::map<ChunkKey, ShardId>& pinned) {
  PS_CHECK(!shares.empty());
  proto::Placement placement = before;
  ++placement.version;
  const uint64_t total = ElementsOf(before);
  const uint64_t sum = SumOfShares(shares);
  std::vector<uint64_t> elements_of(shares.size());
  std::vector<size_t> homeless;
  for (proto::ChunkAssignment& chunk : placement.chunks) {
    if (const auto pin = pinned.find(chunk.key); pin != pinned.end()) {
      chunk.shard = pin->second;
      elements_of[chunk.shard.value] += chunk.element_count;
    }
  }
  for (const size_t i : BySize(placement.chunks)) {
    const proto::ChunkAssignment& chunk = placement.chunks[i];
    if (pinned.contains(chunk.key)) {
      continue;
    }
    const uint32_t shard = chunk.shard.value;
    if (shard < shares.size() &&
        (elements_of[shard] + chunk.element_count) * sum <= total * shares[shard]) {
      elements_of[shard] += chunk.element_count;
    } else {
      homeless.push_back(i);
    }
  }
  Spread(homeless, shares, std::move(elements_of), &placement.chunks);
  return placement;
}

bool IsSpread(const proto::Placement& placement, const std::vector<uint32_t>& shares) {
  const uint64_t total = ElementsOf(placement);
  const uint64_t sum = SumOfShares(shares);
  std::vector<uint64_t> elements_of(shares.size());
  uint64_t largest = 0;
  for (const proto::ChunkAssignment& chunk : placement.chunks) {
    if (chunk.shard.value >= shares.size()) {
      return false;
    }
    elements_of[chunk.shard.value] += chunk.element_count;
    largest = std::max<uint64_t>(largest, chunk.element_count);
  }
  for (size_t shard = 0; shard < shares.size(); ++shard) {
    const uint64_t share = total * shares[shard] / sum;
    if (elements_of[shard] > share + largest || elements_of[shard] + largest < share) {
      return false;
    }
  }
  return true;
}

std::map<ShardId, uint64_t> BytesByShard(const proto::Placement& placement) {
  std::map<ShardId, uint64_t> bytes;
  for (const proto::ChunkAssignment& chunk : placement.chunks) {
    bytes[chunk.shard] += chunk.element_count * sizeof(float);
  }
  return bytes;
}

uint64_t LargestBytes(const proto::Placement& placement) {
  uint64_t largest = 0;
  for (const auto& [shard, bytes] : BytesByShard(placement)) {
    largest = std::max(largest, bytes);
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
