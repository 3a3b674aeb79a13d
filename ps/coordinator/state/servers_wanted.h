#pragma once

#include <cstdint>
#include <vector>

#include "ps/coordinator/state/job.h"

namespace ps::coordinator {

struct ServersWanted {
  int64_t count = 0;
  // As in ServersState.
  std::vector<uint32_t> shares;
  std::vector<proto::PinnedChunk> pins;
};

/// What those of `changes` that are of servers or chunks make of what is wanted. Errors: kNotFound
/// (no such tensor, chunk or server), kInvalidArgument (the job can't have so many, or such).
Result<ServersWanted> ServersWantedAfter(
    const Job& job, bool makes_checkpoints, const std::vector<proto::ScaleChange>& changes);

/// Parameters of the shard that has most of them, now or when all chunks are where they are wanted.
uint64_t LargestBytesToCome(const Job& job);

/// The shards that are wanted, in the state of a job that goes on: new ones, without chunks, that
/// chunks are to be spread over, or fewer, where those that go have none.
void ResizeShards(uint32_t shards_per_server, JobState* state);

}  // namespace ps::coordinator
