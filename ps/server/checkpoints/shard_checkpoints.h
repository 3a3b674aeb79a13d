#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/server/applied_steps.h"
#include "ps/server/call.h"
#include "ps/server/checkpoints/checkpointer.h"
#include "ps/server/checkpoints/shard_disk.h"
#include "ps/server/chunks/chunk_store.h"
#include "ps/server/chunks/reindexing.h"
#include "ps/server/coordinator_link.h"
#include "ps/server/life.h"
#include "ps/server/lr_schedule.h"
#include "ps/server/rounds.h"

namespace ps::server {

/// When checkpoints are written, with what state, and what the coordinator is told of them. How
/// they are written is Checkpointer's; how a life begins from one is LifeStart's.
///
/// Invariant: a checkpoint has the parameters of one moment, in bsp between two rounds.
class ShardCheckpoints {
 public:
  /// All outlive it. `disk` null: there is none, and every checkpoint fails.
  ShardCheckpoints(
      const Life& life,
      ChunkStore& store,
      const Rounds& rounds,
      const LrSchedule& schedule,
      const AppliedSteps& steps,
      const CoordinatorLink& coordinator,
      ShardDisk* disk,
      const Logger& log);

  void OnRequest(const Call& call, const proto::CheckpointRequest& request);
  /// bsp: a round is over that a checkpoint may have waited for.
  void OnRound(proto::Outbox* out);

  /// bsp is not the mode any more: what waited for a round is not made.
  void DropDue() { due_.reset(); }

  /// `pause`: the process did not run for so long just now.
  void OnTick(TimePoint now, Duration pause, proto::Outbox* out);

  // Answers of the disk.
  void OnChunkWritten(ChunkWritten written, proto::Outbox* out);
  void OnPartWritten(PartWritten written, proto::Outbox* out);

  /// The life begins with these chunks, as checkpoint `from` has them and `state`; 0: none has.
  void BeginLife(checkpoint::CheckpointId from, ChunkRefs refs, std::vector<std::byte> state);

  /// Before EndLife: what a life that begins from the checkpoint need not read.
  HeldPart TakeHeld(checkpoint::CheckpointId checkpoint) {
    return writer_.TakeHeld(checkpoint, &store_);
  }

  void EndLife();

  /// Chunks have come or gone.
  void Reindex(const Reindexing& chunks) { writer_.Reindex(chunks); }

 private:
  void Begin(const proto::CheckpointRequest& request, proto::Outbox* out);

  void SendReport(proto::Outbox* out) const { coordinator_.Tell(writer_.report(), out); }

  Duration Patience() const;

  const Life& life_;
  ChunkStore& store_;
  const Rounds& rounds_;
  const LrSchedule& schedule_;
  const AppliedSteps& steps_;
  const CoordinatorLink& coordinator_;
  const Logger& log_;

  Checkpointer writer_;
  std::optional<proto::CheckpointRequest> due_;  // bsp: when its round is committed
};

}  // namespace ps::server
