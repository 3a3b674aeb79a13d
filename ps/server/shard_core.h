#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/proto/timing.h"
#include "ps/server/applied_steps.h"
#include "ps/server/call.h"
#include "ps/server/checkpoints/shard_checkpoints.h"
#include "ps/server/checkpoints/shard_disk.h"
#include "ps/server/chunks/chunk_giver.h"
#include "ps/server/chunks/chunk_store.h"
#include "ps/server/chunks/chunk_taker.h"
#include "ps/server/coordinator_link.h"
#include "ps/server/life.h"
#include "ps/server/life_start.h"
#include "ps/server/lr_schedule.h"
#include "ps/server/pull_queue.h"
#include "ps/server/push_intake.h"
#include "ps/server/roster.h"
#include "ps/server/rounds.h"
#include "ps/server/shard_settings.h"
#include "ps/server/staging.h"

namespace ps::server {

/// One shard of the parameters: applies what workers push, answers what they pull, keeps the modes'
/// promises. Sans-I/O: time and messages come in, messages go to an Outbox; the same inputs give
/// the same outputs and the same bits. Thread: one.
///
/// The work is done by its parts, each of which owns its state and is given the tables that it
/// uses. The core owns those, hands each message to its part, and says to the others what follows.
///
/// The shell does the handshake and calls OnTick every timing().tick. It ends when is_shut_down().
class ShardCore {
 public:
  /// `self` is what it registers with, but for the life. `disk`, `dialer` and `log` outlive the
  /// core; without a disk there are no checkpoints, without a dialer it gives no chunks away.
  ShardCore(
      proto::RegisterShard self,
      ReadSettings read_settings,
      ShardDisk* disk,
      ShardDialer* dialer,
      const Logger* log);
  ShardCore(const ShardCore&) = delete;
  ShardCore& operator=(const ShardCore&) = delete;

  /// A connection to a coordinator stands, the first or another one: registers. One of an earlier
  /// term than that of another coordinator before is closed: it is not the run's any more.
  void OnCoordinatorConnected(
      proto::PeerId peer, proto::Term term, TimePoint now, proto::Outbox* out) {
    coordinator_.OnConnected(peer, term, now, out);
  }

  /// `peer` is the coordinator or else a worker. A payload without owner is copied if it is kept.
  void OnMessage(
      proto::PeerId peer,
      uint64_t request_id,
      proto::Message message,
      TimePoint now,
      proto::Outbox* out);
  void OnPeerClosed(proto::PeerId peer, TimePoint now, proto::Outbox* out);
  /// The peer, which was backlogged, takes more.
  void OnDrained(proto::PeerId peer, proto::Outbox* out);
  void OnTick(TimePoint now, proto::Outbox* out);

  /// The machine is taken back at `due`, as `what` says: the coordinator is told until it says that
  /// it knows. It has a checkpoint made, and tells the shard to leave. An earlier notice stands
  /// when it leaves less time.
  void OnNotice(TimePoint due, const std::string& what, TimePoint now, proto::Outbox* out) {
    coordinator_.OnNotice(due, what, now, out);
  }

  /// The connection to another shard stands that the dialer was asked for.
  void OnDialed(ShardId to, proto::PeerId peer, TimePoint now, proto::Outbox* out);

  // Answers of the disk.
  void OnChunkWritten(ChunkWritten written, proto::Outbox* out) {
    checkpoints_.OnChunkWritten(std::move(written), out);
  }

  void OnPartWritten(PartWritten written, proto::Outbox* out) {
    checkpoints_.OnPartWritten(std::move(written), out);
  }

  void OnRestored(Restored restored, TimePoint now, proto::Outbox* out);

  /// A round is being committed. The shell calls Continue after whatever came meanwhile, until
  /// there is no work any more.
  bool HasWork() const { return rounds_.is_committing() && !is_shut_down_; }

  void Continue(proto::Outbox* out);

  bool is_shut_down() const { return is_shut_down_; }

  /// The latest of all coordinators, for Hello.
  proto::Term term() const { return coordinator_.term(); }

  /// Why it is shut down: OK when the coordinator said so, else what keeps it from going on.
  const Status& outcome() const { return outcome_; }

  /// The job's times once the shard is set up, before that the default ones.
  const proto::Timing& timing() const { return life_.settings.timing; }

  // For the shell, tests and the simulation's checkers.
  bool is_set_up() const { return life_.is_set_up; }

  /// What an outgoing connection must be able to hold: the config's queue, and two whole answers to
  /// pulls, since a commit of bsp does not wait until one has left.
  uint64_t outgoing_bytes_max() const;

  // For a chunk that is not this shard's: empty, and 0.
  std::span<const float> ValuesOf(ChunkKey key) const {
    const Chunk* const chunk = store_.Find(key);
    return chunk != nullptr ? chunk->value.floats() : std::span<const float>();
  }

  /// Also empty where there is no such slot.
  std::span<const float> SlotOf(ChunkKey key, size_t slot) const {
    const Chunk* const chunk = store_.Find(key);
    return chunk != nullptr ? chunk->slots[slot].floats() : std::span<const float>();
  }

  Version VersionOf(ChunkKey key) const {
    const Chunk* const chunk = store_.Find(key);
    return chunk != nullptr ? chunk->version : 0;
  }

  bool HasChunk(ChunkKey key) const { return store_.Find(key) != nullptr; }

  /// The schedule's clock.
  uint64_t samples_done() const { return schedule_.samples_done(); }

  /// All of the member's step has come for this chunk, be it applied, staged or left out.
  bool HasStep(Incarnation incarnation, Step step, ChunkKey key) const {
    return steps_.HasStep(incarnation, step, key);
  }

  proto::ShardStats Stats() const;

  std::vector<proto::Wait> Waits(TimePoint now) const { return pulls_.Waits(now); }

  /// Incarnations of which anything is remembered for telling a repeated push; fenced ones that
  /// still have to be resolved not counted.
  size_t remembered_incarnations() const { return roster_.members().size(); }

 private:
  // From the coordinator.
  void OnCoordinatorMessage(const Call& call, proto::Message& message);
  void OnSetup(const Call& call, const proto::ShardSetup& setup);
  void OnMembership(const Call& call, const proto::Membership& membership);
  void OnCommit(const Call& call, const proto::CommitRound& commit);

  // Lives.
  Status TakeSetup(const proto::ShardSetup& setup);
  void BeginLife(TimePoint now, proto::Outbox* out);
  void EndLife();

  // What one part's news are to the others.
  void TakeMembership(const proto::Membership& membership, TimePoint now, proto::Outbox* out);
  void Fence(const Member& member, proto::Outbox* out);
  void TakeGivenAway(TimePoint now, proto::Outbox* out);
  void Reindex(const Reindexing& chunks);

  void SendHeartbeat(TimePoint now, proto::Outbox* out);
  void ShutDown(Status outcome);

  const ReadSettings read_settings_;
  ShardDisk* const disk_;
  const Logger& log_;

  bool is_shut_down_ = false;
  Status outcome_;
  uint64_t overflows_warned_ = 0;
  bool has_warned_of_room_ = false;

  // The tables.
  Life life_;
  ChunkStore store_;
  Roster roster_;
  Staging staging_;
  LrSchedule schedule_;
  proto::ShardStats counters_;

  // The parts, each with the tables and the parts before it that it uses.
  CoordinatorLink coordinator_;
  Rounds rounds_;
  AppliedSteps steps_;
  PullQueue pulls_;
  PushIntake pushes_;
  ChunkGiver giver_;
  ChunkTaker taker_;
  ShardCheckpoints checkpoints_;
  LifeStart start_;
};

}  // namespace ps::server
