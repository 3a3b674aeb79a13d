#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/logger.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/messages.h"
#include "ps/proto/outbox.h"
#include "ps/proto/shard_state.h"
#include "ps/proto/silence.h"
#include "ps/proto/timing.h"
#include "ps/proto/values_intake.h"
#include "ps/server/checkpointer.h"
#include "ps/server/chunk_move.h"
#include "ps/server/chunk_store.h"
#include "ps/server/lr_policy.h"
#include "ps/server/roster.h"
#include "ps/server/round_commit.h"
#include "ps/server/shard_disk.h"
#include "ps/server/shard_settings.h"
#include "ps/server/staging.h"

namespace ps::server {

/// A set-up whose values are still coming, from the coordinator or from the disk.
struct OpenSetup {
  uint64_t request_id = 0;  // of the newest one
  proto::ShardSetup setup;
  proto::ValuesIntake values;               // from the coordinator
  TimePoint next_ask{};                     // likewise
  HeldPart held;                            // of the life before
  std::vector<std::byte> state;             // of `held`, or else from the disk
  std::vector<proto::MemberSteps> members;  // of `state`
};

/// A checkpoint that could not be restored, since when.
struct Restoring {
  uint64_t life = 0;
  uint64_t checkpoint = 0;
  TimePoint since{};
};

/// One shard of the parameters: applies what workers push, answers what they pull, keeps the modes'
/// promises. Sans-I/O: time and messages come in, messages go to an Outbox; the same inputs give
/// the same outputs and the same bits. Thread: one.
///
/// The shell does the handshake and calls OnTick every timing().tick. It ends when is_shut_down().
class ShardCore {
 public:
  /// Buckets of ShardStats::staleness_histogram; the last one counts that lead and longer ones.
  static constexpr size_t kStalenessBuckets = 17;

  /// `self` is what it registers with, but for the life. `disk`, `dialer` and `log` outlive the
  /// core; without a disk there are no checkpoints, without a dialer it gives no chunks away.
  ShardCore(
      proto::RegisterShard self,
      ReadSettings read_settings,
      ShardDisk* disk,
      ShardDialer* dialer,
      const Logger* log);

  /// A connection to a coordinator stands, the first or another one: registers. One of an earlier
  /// term than that of another coordinator before is closed: it is not the run's any more.
  void OnCoordinatorConnected(
      proto::PeerId peer, proto::Term term, TimePoint now, proto::Outbox* out);
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
  void OnNotice(TimePoint due, const std::string& what, TimePoint now, proto::Outbox* out);
  /// The connection to another shard stands that the dialer was asked for.
  void OnDialed(ShardId to, proto::PeerId peer, TimePoint now, proto::Outbox* out);

  // Answers of the disk.
  void OnChunkWritten(ChunkWritten written, proto::Outbox* out);
  void OnPartWritten(PartWritten written, proto::Outbox* out);
  void OnRestored(Restored restored, TimePoint now, proto::Outbox* out);

  /// A round is being committed. The shell calls Continue after whatever came meanwhile, until
  /// there is no work any more.
  bool HasWork() const { return commit_.has_value() && !is_shut_down_; }

  void Continue(proto::Outbox* out);

  bool is_shut_down() const { return is_shut_down_; }

  /// The latest of all coordinators, for Hello.
  proto::Term term() const { return term_; }

  /// Why it is shut down: OK when the coordinator said so, else what keeps it from going on.
  const Status& outcome() const { return outcome_; }

  /// The job's times once the shard is set up, before that the default ones.
  const proto::Timing& timing() const { return settings_.timing; }

  // For the shell, tests and the simulation's checkers.
  bool is_set_up() const { return is_set_up_; }

  /// What an outgoing connection must be able to hold: the config's queue, and two whole answers to
  /// pulls, since a commit of bsp does not wait until one has left.
  uint64_t outgoing_bytes_max() const;

  /// Empty when the chunk is not this shard's.
  std::span<const float> ValuesOf(ChunkKey key) const;
  /// 0 when the chunk is not this shard's.
  Version VersionOf(ChunkKey key) const;

  bool HasChunk(ChunkKey key) const { return store_.IndexOf(key).has_value(); }

  /// Values of an optimizer slot of the chunk, likewise; empty where there is no such slot.
  std::span<const float> SlotOf(ChunkKey key, size_t slot) const;

  /// The schedule's clock.
  uint64_t samples_done() const { return samples_done_; }

  /// All of the member's step has come for this chunk, be it applied, staged or left out.
  bool HasStep(Incarnation incarnation, Step step, ChunkKey key) const;

  proto::ShardStats Stats() const;
  std::vector<proto::Wait> Waits(TimePoint now) const;

  /// Incarnations of which anything is remembered for telling a repeated push; fenced ones that
  /// still have to be resolved not counted.
  size_t remembered_incarnations() const { return roster_.members().size(); }

 private:
  /// Who sent the message in hand, and how to answer.
  struct Call {
    proto::PeerId peer;
    uint64_t request_id = 0;
    TimePoint now{};
    proto::Outbox* out = nullptr;
  };

  /// A chunk, or a part of one, of the frame in hand.
  struct FramePart {
    size_t chunk = 0;  // its index
    uint32_t part = 0;
    std::span<const float> values;
  };

  /// That the machine is taken back.
  struct Notice {
    TimePoint due{};
    std::string what;
    bool is_known = false;  // to the coordinator
    TimePoint next_try{};
  };

  /// What will be here of a step with the frame in hand.
  struct FrameOutlook {
    uint32_t begun = 0;       // chunks of which something is here
    uint32_t unfinished = 0;  // of those, not all is
  };

  /// A chunk of which everything is here.
  struct ReadyChunk {
    size_t index = 0;
    std::span<const float> values;  // empty: in the intake's unfinished
  };

  // shard_core.cc: the coordinator's connection, set-up, timers.
  void OnCoordinatorMessage(const Call& call, proto::Message& message);
  void OnSetup(const Call& call, const proto::ShardSetup& setup);
  void OnCoordinatorRefusal(const proto::Refusal& refusal);
  void Register(TimePoint now, proto::Outbox* out);
  void SendNotice(TimePoint now, proto::Outbox* out);
  void ShutDown(Status outcome);
  void Refuse(const Call& call, const Status& status, Step step);
  Status TakeSetup(const proto::ShardSetup& setup);
  void FinishSetup(const Call& call, ChunkRefs refs);

  // shard_check.cc
  const float* UnpackFrame(const proto::PushRequest& push);
  Status ReadFrame(const proto::PushRequest& push);
  void LookAhead(const proto::PushRequest& push, const Intake& intake);
  Status CheckOrder(const proto::PushRequest& push, const Member& member) const;
  Status CheckRoom(const proto::PushRequest& push, const Member& member) const;

  // shard_push.cc
  void OnPush(const Call& call, proto::PushRequest& push);
  Status TakePush(const Call& call, proto::PushRequest& push);
  void BeginIntake(const proto::PushRequest& push, Member* member);
  void TakeFrame(const proto::PushRequest& push, Member* member);
  void Stage(
      const proto::PushRequest& push,
      Intake* intake,
      const FramePart& part,
      const std::shared_ptr<const void>& owner);
  void Assemble(
      Intake* intake,
      const FramePart& part,
      bool is_whole,
      const std::shared_ptr<const void>& owner);
  void ApplyReady(Member* member);
  void Acknowledge(const Call& call, Member* member);
  void RepeatPushReply(const Call& call, proto::PushRequest& push, Member* member);
  void CompleteStep(const Call& call, Member* member);

  // shard_give.cc: chunks to other shards.
  void OnGiveChunks(const Call& call, const proto::GiveChunks& order);
  void Freeze();
  void Offer(TimePoint now, proto::Outbox* out);
  void ContinueGiving(proto::Outbox* out);
  bool IsReceiver(proto::PeerId peer) const;
  void OnReceiver(const Call& call, const proto::Message& message);
  void CloseReceivers(proto::Outbox* out);
  void TickGiving(TimePoint now, proto::Outbox* out);
  void EndPrecedence(TimePoint now);
  void FinishGiving(TimePoint now, proto::Outbox* out);
  void FinishWithout(Member* member, TimePoint now, proto::Outbox* out);
  bool IsStaged(const Member& member, Step step, const Chunk& chunk) const;
  void SettleStaged(Member* member);
  void ReindexAll(const Reindexing& chunks);

  // shard_take.cc: chunks from other shards.
  Status CheckOffer(const proto::ChunksOffer& offer) const;
  void OnOffer(const Call& call, proto::ChunksOffer& offer);
  void OnChunkPart(const Call& call, proto::ChunkPart& part);
  void FinishTaking(proto::Outbox* out);
  void TakeStaged(const Taking& taking, bool was_empty);
  void TakeSteps(const OfferedSteps& offer, bool was_empty, Member* member);

  /// The chunk is on its way to another shard.
  bool IsFrozen(size_t chunk) const { return !is_frozen_.empty() && is_frozen_[chunk]; }

  /// Whether a chunk that is not here may have been here in the placement that the sender knows.
  bool MayHaveMoved(uint64_t placement) const { return placement < placement_version_; }

  // shard_pull.cc
  void OnPull(const Call& call, proto::PullRequest& pull);
  Status TakePull(const Call& call, proto::PullRequest& pull);
  Status CheckHeld(const std::vector<proto::ChunkVersion>& held, uint64_t placement) const;
  void StartPull(Member* member, Pull pull, TimePoint now, proto::Outbox* out);
  bool MayAnswer(const Member& member, const Pull& pull) const;
  /// Of the chunks that are newer than those held.
  PullAnswer MakeAnswer(const Pull& pull);
  void BeginAnswer(Member* member, const Pull& pull, proto::Outbox* out);
  void ContinueAnswer(Member* member, bool is_urgent, proto::Outbox* out);
  /// Sends frames until the peer is backlogged or, with `is_urgent`, until all have been sent.
  /// Returns whether they have.
  bool SendAnswer(PullAnswer* answer, bool is_urgent, proto::Outbox* out);
  void SendAnswerFrame(PullAnswer* answer, proto::Outbox* out);
  void EndAnswer(Member* member);
  bool DoAnswersWait() const;
  void ContinueAnswers(proto::Outbox* out);
  /// Answers those that waited for what has just happened.
  void ReleasePulls(proto::Outbox* out);

  // shard_model.cc: the model from and to the coordinator.
  void BeginValues(const proto::ShardSetup& setup);
  void AskForValues(TimePoint now, proto::Outbox* out);
  void OnValues(const Call& call, const proto::PullReply& reply);
  void OnModelPull(const Call& call, proto::PullRequest& pull);
  void ContinueModel(bool is_urgent, proto::Outbox* out);

  // shard_round.cc: memberships and commits.
  void OnMembership(const Call& call, const proto::Membership& membership);
  void TakeMembership(const proto::Membership& membership, TimePoint now, proto::Outbox* out);
  void OnCommit(const Call& call, const proto::CommitRound& commit);
  Status CheckCommit(const proto::CommitRound& commit) const;
  void NoteRound(TimePoint now);
  void BeginCommit(const proto::CommitRound& commit, proto::Outbox* out);
  void FinishCommit(proto::Outbox* out);

  // shard_checkpoint.cc
  void OnCheckpoint(const Call& call, const proto::CheckpointRequest& request);
  void BeginCheckpoint(const proto::CheckpointRequest& request, proto::Outbox* out);
  void SendCheckpointReport(proto::Outbox* out);
  Duration DiskPatience() const;
  void EndLife();
  void BeginRestore(const proto::ShardSetup& setup);
  Status TakeRestored(RestoredPart restored, ChunkRefs* refs);
  Status AfterPatience(const Restored& restored, Status why, TimePoint now);
  std::vector<ChunkKey> AppliedOf(const Member& member) const;
  void TakeRestoredSteps(const std::vector<proto::MemberSteps>& restored);

  uint64_t StagedBytes() const { return staging_.bytes() + (commit_ ? commit_->bytes() : 0); }

  // shard_report.cc
  std::string WaitsFor(const Member& member, const Pull& pull) const;
  void SendHeartbeat(TimePoint now, proto::Outbox* out);
  double JobFraction() const;
  uint64_t MissedSteps(const Member& member) const;

  void TakeMode(const proto::Membership& membership);

  bool is_bsp() const { return mode_.mode == proto::Mode::kBsp; }

  bool is_ssp() const { return mode_.mode == proto::Mode::kSsp; }

  // Constant after construction.
  const ShardId shard_;
  const proto::RegisterShard self_;
  const ReadSettings read_settings_;
  ShardDisk* const disk_;
  ShardDialer* const dialer_;
  const Logger* const log_;

  // Constant within a life of the parameters.
  bool is_set_up_ = false;
  uint64_t life_ = 0;  // 0: none has begun
  ShardSettings settings_;
  uint64_t total_samples_ = 0;

  // Chunks that move.
  uint64_t placement_version_ = 0;  // in which chunks came or left last
  uint64_t given_version_ = 0;      // of the newest that left
  uint64_t taken_version_ = 0;      // and came
  std::optional<Giving> giving_;
  std::vector<Receiver> receivers_;  // not of giving_
  std::optional<Taking> taking_;
  std::vector<bool> is_frozen_;  // by chunk, while some are given

  proto::ModeChoice mode_;  // in force; changes between two steps of anybody

  // The coordinator's connection.
  proto::PeerId coordinator_;
  proto::Term term_ = 0;  // the latest of all coordinators
  proto::CoordinatorSilence silence_;
  TimePoint next_register_{};
  TimePoint next_heartbeat_{};
  uint64_t last_request_id_ = 0;
  std::optional<OpenSetup> open_setup_;
  std::optional<Restoring> restoring_;      // what failed last for a reason that may pass
  std::optional<Pull> model_pull_;          // of the coordinator; waits for the commit under way
  std::optional<PullAnswer> model_answer_;  // to the coordinator, under way
  bool is_registered_ = false;              // on this connection
  std::optional<Notice> notice_;
  bool is_shut_down_ = false;
  Status outcome_;

  // Parameters, members, and what is under way.
  ChunkStore store_;
  Roster roster_;
  Staging staging_;
  std::set<std::pair<proto::PeerId, Incarnation>> answering_;  // members with an answer under way
  uint64_t round_ = 0;                 // bsp: the last one whose commit has begun
  std::optional<RoundCommit> commit_;  // of round_, while it is under way
  proto::PeerId commit_peer_;          // who is told of its end; nobody: its connection is gone
  uint64_t commit_request_id_ = 0;
  TimePoint round_since_{};      // when that commit began; none: not in this life
  Duration answers_may_wait_{};  // in the open round, for chunks that leave
  uint64_t samples_done_ = 0;    // the schedule's clock
  LrPolicy lr_policy_;
  Checkpointer checkpointer_;
  std::optional<proto::CheckpointRequest> due_checkpoint_;  // bsp: when its round is committed
  proto::ShardStats stats_;                                 // counters only
  uint64_t overflows_warned_ = 0;

  // Scratch of one call, kept for its memory.
  std::vector<FramePart> frame_;
  std::shared_ptr<const void> frame_owner_;  // of its values; null: nobody keeps them
  std::shared_ptr<Buffer> unpacked_;         // the values of a frame that came as bf16
  std::vector<ReadyChunk> ready_;
  std::vector<size_t> sorted_;
  FrameOutlook outlook_;
  std::vector<std::optional<Version>> held_;
};

}  // namespace ps::server
