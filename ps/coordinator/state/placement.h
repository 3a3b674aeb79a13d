#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ps/base/status.h"
#include "ps/base/tensor_spec.h"
#include "ps/proto/messages.h"
#include "ps/proto/state/job_state.h"

namespace ps::coordinator {

/// Cuts tensors into chunks of at most `chunk_bytes` and spreads them over shards so that their
/// bytes differ little: largest first, each to the shard with the fewest bytes so far (at most 4/3
/// of the best possible maximum). Same input, same placement. Requires: shard_count > 0,
/// chunk_bytes >= 4.
proto::Placement PlaceChunks(
    const std::vector<TensorSpec>& tensors, uint64_t chunk_bytes, uint32_t shard_count);

/// Whether they may be shares of so many servers: one of 1 to kShareMax for each, or none.
bool AreShares(const std::vector<uint32_t>& shares, uint32_t servers);

/// What share of the parameters, in proportion, each shard is to have of the servers that are
/// wanted.
std::vector<uint32_t> ShardShares(const proto::ServersState& servers, uint32_t shards_per_server);

/// The shard that each pinned chunk is to be on: of its server's, one after the other.
std::map<ChunkKey, ShardId> PinnedShards(
    const proto::ServersState& servers, uint32_t shards_per_server);

/// What is pinned, for people, in the order of the model: a tensor whose chunks are all on one
/// server, else each chunk; kStatusPinnedMax of them. Requires: pins are sorted, of chunks that
/// there are.
std::vector<proto::PinnedPart> PinnedParts(
    const std::vector<proto::PinnedChunk>& pins,
    const proto::Placement& placement,
    const std::vector<TensorSpec>& tensors);

/// The same chunks on as many shards as there are shares (> 0), in these proportions, under the
/// next version. A shard that stays keeps its chunks, the largest first, up to its share. So it
/// gives away what it has beyond that and less than a chunk more; one that has no more keeps
/// everything. Pinned chunks are where they are to be, and count first. Requires: a share.
proto::Placement PlaceAgain(
    const proto::Placement& before,
    const std::vector<uint32_t>& shares,
    const std::map<ChunkKey, ShardId>& pinned = {});

/// Whether each shard has its share, and the largest chunk more or less.
bool IsSpread(const proto::Placement& placement, const std::vector<uint32_t>& shares);

/// Bytes of parameters; only shards that have some.
std::map<ShardId, uint64_t> BytesByShard(const proto::Placement& placement);

/// Parameters of the shard that has most of them.
uint64_t LargestBytes(const proto::Placement& placement);

/// Whether the chunks cover the tensors, each element once, on shards that there are. Errors:
/// kCorruption naming the first chunk that does not fit.
Status CheckPlacement(
    const proto::Placement& placement,
    const std::vector<TensorSpec>& tensors,
    uint32_t shard_count);

}  // namespace ps::coordinator
