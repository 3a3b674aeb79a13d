#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ps/base/retry.h"
#include "ps/coordinator/checkpoints/checkpoint_desk.h"
#include "ps/coordinator/state/job.h"

namespace ps::coordinator {

/// Chunks that move from shard to shard while training goes on: some at a time, from one shard to
/// another. What is on its way is part of the job's state, so a coordinator that comes back goes on
/// with it. No checkpoint is open meanwhile, so each has every chunk in one place; nor is a round
/// of bsp committed, so each is applied to every chunk once.
class MoveDesk {
 public:
  MoveDesk(Job* job, CheckpointDesk* checkpoints)
      : job_(job),
        checkpoints_(checkpoints),
        timer_(job->timing.retry_first, job->timing.retry_limit) {}

  /// Where chunks are to be: on the first shards, by the share of each, but for those that are
  /// pinned.
  struct Wish {
    std::vector<uint32_t> shares;
    std::map<ChunkKey, ShardId> pinned;

    friend bool operator==(const Wish&, const Wish&) = default;
  };

  /// Goes on spreading the chunks. Returns whether they are where they are to be.
  bool Spread(const Wish& wish, const Call& call);
  /// Whether the next can set off now.
  bool MayBegin(const Call& call) const;

  /// All that are not where they are to be wait for room on their servers.
  bool is_stuck() const { return is_stuck_; }

  void On(const Call& call, const proto::ChunksGiven& message);
  /// Asks again.
  void OnTick(const Call& call);

  /// A member is told where all chunks are, if it does not know.
  void OnMemberHeartbeat(const Call& call, uint64_t known) const;

 private:
  std::optional<proto::ChunkMove> NextMove() const;
  uint64_t RoomOfShard() const;
  void SayStuck(const std::optional<ShardId>& full);
  bool CanAsk(const proto::ChunkMove& move) const;
  void Ask(const Call& call) const;

  Job* const job_;
  CheckpointDesk* const checkpoints_;
  Wish wish_;  // that the target is for
  proto::Placement target_;
  RetryTimer timer_;
  bool is_stuck_ = false;
};

}  // namespace ps::coordinator
