#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/proto/state/shard_state.h"
#include "ps/proto/values_intake.h"
#include "ps/server/call.h"
#include "ps/server/checkpoints/checkpointer.h"
#include "ps/server/checkpoints/shard_disk.h"
#include "ps/server/chunks/chunk_store.h"
#include "ps/server/coordinator_link.h"
#include "ps/server/life.h"
#include "ps/server/lr_schedule.h"
#include "ps/server/rounds.h"

namespace ps::server {

/// From a set-up to the moment when its chunks have their values: drawn, from the coordinator, or
/// from a checkpoint, of which the life before may have some in memory still.
///
/// Invariants:
/// - A set-up that comes again only asks again for what has not come; a newer life's replaces it.
/// - What can't be restored is said: with RestoreFailed when the checkpoint is damaged, otherwise
///   with a refusal. The shard waits for a set-up of a newer life then, or for the same one again.
class LifeStart {
 public:
  /// A set-up whose chunks have their values.
  struct Ready {
    uint64_t request_id = 0;  // of the newest one
    proto::ShardSetup setup;
    ChunkRefs refs;                           // where the values are on the disk
    std::vector<std::byte> state;             // that came with them
    std::vector<proto::MemberSteps> members;  // of `state`
  };

  /// All outlive it. `disk` null: there is none.
  LifeStart(
      const Life& life,
      ChunkStore& store,
      Rounds& rounds,
      LrSchedule& schedule,
      CoordinatorLink& coordinator,
      ShardDisk* disk,
      const Logger& log);

  /// A set-up of this life has begun.
  bool IsOpen(uint64_t life) const { return open_ && open_->ready.setup.life == life; }

  /// Begins one, whose chunks are in the store. `held`: those whose values are in memory. Ask
  /// follows.
  void Open(HeldPart held);
  /// Asks for the values, or again. Returns true when they all are here: Take follows.
  bool Ask(const Call& call, const proto::ShardSetup& setup);
  /// Values from the coordinator. Returns likewise.
  bool OnValues(const Call& call, const proto::PullReply& reply);
  /// Values from the disk. Returns likewise.
  bool OnRestored(Restored restored, TimePoint now, proto::Outbox* out);
  /// Asks again for values that are late. Requires: the coordinator is connected.
  void OnTick(TimePoint now, proto::Outbox* out);

  Ready Take();

  /// At the end of a life: gives the set-up up.
  void Drop() { open_.reset(); }

 private:
  /// A set-up whose values are still coming.
  struct Opened {
    Ready ready;
    HeldPart held;               // of the life before
    proto::ValuesIntake values;  // from the coordinator
    TimePoint next_ask{};        // likewise
    bool has_begun = false;      // the values were asked for
  };

  /// A checkpoint that could not be restored, since when.
  struct Failing {
    uint64_t life = 0;
    uint64_t checkpoint = 0;
    TimePoint since{};
  };

  void BeginRestore();
  void AskForValues(TimePoint now, proto::Outbox* out);
  Status TakeRestored(RestoredPart restored);
  Status AfterPatience(const Restored& restored, Status why, TimePoint now);

  const Life& life_;
  ChunkStore& store_;
  Rounds& rounds_;
  LrSchedule& schedule_;
  CoordinatorLink& coordinator_;
  ShardDisk* const disk_;
  const Logger& log_;

  std::optional<Opened> open_;
  std::optional<Failing> failing_;  // what failed last for a reason that may pass
};

}  // namespace ps::server
