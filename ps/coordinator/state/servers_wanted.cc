#include "ps/coordinator/state/servers_wanted.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "ps/base/text.h"
#include "ps/coordinator/state/placement.h"

namespace ps::coordinator {
namespace {

/// Tensors that a refusal names.
constexpr size_t kTensorsNamed = 8;

/// Pins the chunks that `change` names, or lets them go.
Status PinChunks(const Job& job, const proto::ScaleChange& change, ServersWanted* wanted) {
  const std::vector<TensorSpec>& tensors = job.options.tensors;
  const auto tensor = std::ranges::find(tensors, change.tensor, &TensorSpec::name);
  if (tensor == tensors.end()) {
    std::string names;
    for (size_t i = 0; i < std::min(tensors.size(), kTensorsNamed); ++i) {
      names += (i == 0 ? "" : ", ") + tensors[i].name;
    }
    return Status::NotFound(fmt::format(
        "the model has no tensor '{}'; it has {}{}",
        change.tensor,
        names,
        tensors.size() > kTensorsNamed ? ", ..." : ""));
  }
  if (change.count >= wanted->count || change.count < -1) {
    return Status::NotFound(
        fmt::format("there is no server {}; there are 0 to {}", change.count, wanted->count - 1));
  }
  const auto index = static_cast<uint32_t>(tensor - tensors.begin());
  std::vector<ChunkKey> keys;
  for (const proto::ChunkAssignment& chunk : job.state.placement.chunks) {
    if (TensorOf(chunk.key) == index) {
      keys.push_back(chunk.key);
    }
  }
  if (change.chunk >= static_cast<int64_t>(keys.size())) {
    return Status::NotFound(fmt::format(
        "tensor '{}' has the chunks 0 to {}, and no {}",
        change.tensor,
        keys.size() - 1,
        change.chunk));
  }
  if (change.chunk >= 0) {
    keys = {MakeChunkKey(index, static_cast<uint32_t>(change.chunk))};
  }
  std::erase_if(wanted->pins, [&](const proto::PinnedChunk& pin) {
    return std::ranges::find(keys, pin.key) != keys.end();
  });
  for (const ChunkKey key : keys) {
    if (change.count >= 0) {
      wanted->pins.push_back({key, static_cast<uint32_t>(change.count)});
    }
  }
  std::ranges::sort(wanted->pins, {}, &proto::PinnedChunk::key);
  return Status::Ok();
}

/// Where all chunks are when what is wanted is done.
proto::Placement PlacementOf(const Job& job, const ServersWanted& wanted) {
  const uint32_t shards_per_server = job.options.config.servers.shards_per_server;
  proto::ServersState then;
  then.wanted = static_cast<uint32_t>(wanted.count);
  then.shares = wanted.shares;
  then.pins = wanted.pins;
  return PlaceAgain(
      job.state.placement,
      ShardShares(then, shards_per_server),
      PinnedShards(then, shards_per_server));
}

/// bsp: each shard is to have room for a gradient of everybody.
Status CheckRoundRoom(const Job& job, const ServersWanted& wanted) {
  ShardId fullest;
  uint64_t most = 0;
  for (const auto& [shard, bytes] : BytesByShard(PlacementOf(job, wanted))) {
    fullest = bytes > most ? shard : fullest;
    most = std::max(most, bytes);
  }
  const uint64_t workers = job.WorkersToExpect();
  const uint64_t room = job.MembersMax(most);
  return workers <= room
             ? Status::Ok()
             : Status::InvalidArgument(fmt::format(
                   "server {} would have {:.2f} MiB of parameters, and under bsp room for the "
                   "gradients of {} (servers.queue_mib), and {} are wanted or there; put less on "
                   "it, want more servers or fewer workers, or resume with a larger "
                   "servers.queue_mib",
                   fullest.value / job.options.config.servers.shards_per_server,
                   static_cast<double>(most) / (1 << 20U),
                   Plural(room, "worker"),
                   workers));
}

Status CheckServers(const Job& job, bool makes_checkpoints, const ServersWanted& wanted) {
  const int64_t servers = wanted.count;
  const proto::ServerConfig& config = job.options.config.servers;
  const uint32_t most = std::min(
      proto::kShardsMax, config.port == 0 ? proto::kShardsMax : proto::kPortMax + 1 - config.port);
  if (servers < 1 || servers * config.shards_per_server > most) {
    return Status::InvalidArgument(fmt::format(
        "that would be {} servers; allowed: 1 to {}", servers, most / config.shards_per_server));
  }
  uint64_t slots = 0;
  for (const proto::HostConfig& host : config.hosts) {
    slots += host.slots;
  }
  if (config.launcher == proto::LauncherKind::kSsh && static_cast<uint64_t>(servers) > slots) {
    return Status::InvalidArgument(fmt::format(
        "that would be {} servers, and servers.hosts has {}", servers, Plural(slots, "slot")));
  }
  if (!AreShares(wanted.shares, static_cast<uint32_t>(servers))) {
    return Status::InvalidArgument(fmt::format(
        "{} shares for {} servers; allowed: one of 1 to {} for each",
        wanted.shares.size(),
        servers,
        proto::kShareMax));
  }
  if (!makes_checkpoints) {
    return Status::InvalidArgument(
        "the run makes no checkpoints (checkpoint.enabled), and servers take over from one");
  }
  return job.needs_round_room() ? CheckRoundRoom(job, wanted) : Status::Ok();
}

}  // namespace

Result<ServersWanted> ServersWantedAfter(
    const Job& job, bool makes_checkpoints, const std::vector<proto::ScaleChange>& changes) {
  const proto::ServersState& state = job.state.servers;
  ServersWanted wanted{state.wanted, state.shares, state.pins};
  for (const proto::ScaleChange& change : changes) {
    if (!change.tensor.empty()) {
      PS_TRY(PinChunks(job, change, &wanted));
    } else if (change.is_servers) {
      wanted.count = (change.is_relative ? wanted.count : 0) + change.count;
      wanted.shares = change.shares;
      std::erase_if(wanted.pins, [&](const auto& pin) { return pin.server >= wanted.count; });
    }
  }
  if (wanted.count != state.wanted || wanted.shares != state.shares || wanted.pins != state.pins) {
    PS_TRY(CheckServers(job, makes_checkpoints, wanted));
  }
  return wanted;
}

uint64_t LargestBytesToCome(const Job& job) {
  const proto::ServersState& servers = job.state.servers;
  const bool is_changing = servers.is_spreading || servers.wanted != job.shards.server_count();
  const uint64_t largest = job.LargestBytes();
  return is_changing
             ? std::max(
                   largest,
                   LargestBytes(PlacementOf(job, {servers.wanted, servers.shares, servers.pins})))
             : largest;
}

void ResizeShards(uint32_t shards_per_server, JobState* state) {
  const uint32_t shards = state->servers.wanted * shards_per_server;
  if (shards < state->shards.size()) {
    std::erase_if(state->handovers, [&](const auto& handover) {
      return handover.first >= state->servers.wanted;
    });
    std::erase_if(state->membership.acknowledged, [&](const auto& acknowledged) {
      return acknowledged.first.value >= shards;
    });
    state->rounds.acks.clear();  // of the last commit of bsp, which all have acknowledged
    state->servers.is_spreading = false;
    ++state->servers.moves;
  } else {
    state->servers.is_spreading = true;
  }
  uint64_t& life = state->servers.gone_life;  // none of an earlier shard of a number is later
  for (const proto::ShardRecord& shard : state->shards) {
    life = std::max(life, shard.life);
  }
  const size_t before = state->shards.size();
  state->shards.resize(shards);
  for (size_t i = before; i < shards; ++i) {
    state->shards[i].life = life;
  }
}

}  // namespace ps::coordinator
