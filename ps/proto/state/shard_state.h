#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ps/base/status.h"
#include "ps/proto/messages.h"

namespace ps::proto {

/// What the parameters have of one worker's steps.
struct MemberSteps {
  Incarnation incarnation;
  Step last_step = 0;             // complete here
  std::vector<ChunkKey> applied;  // of the step after it, in part
};

/// What a shard has to remember beside its chunks. shard_state.fbs is the saved form.
struct ShardState {
  uint64_t round = 0;                // bsp: the newest one that is in the parameters
  uint64_t samples_done = 0;         // the schedule's clock
  double lr_factor = 0;              // of train.lr_policy, on its way; 0: no step was made yet
  std::vector<MemberSteps> members;  // async, ssp
};

inline constexpr uint32_t kShardStateVersion = 3;
/// A checkpoint of the program before has to be read: a new version reads the last one, too.
inline constexpr uint32_t kOldestShardStateVersion = 2;  // without lr_factor
static_assert(kOldestShardStateVersion < kShardStateVersion);

std::vector<std::byte> EncodeShardState(const ShardState& state);

/// The opposite, for any bytes. Errors: kCorruption, kUnsupported (of another version).
Result<ShardState> DecodeShardState(std::span<const std::byte> bytes);

}  // namespace ps::proto
