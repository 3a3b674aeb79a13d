#pragma once

#include <cstdint>
#include <optional>

#include "ps/coordinator/servers/server_watch.h"
#include "ps/coordinator/state/job.h"

namespace ps::coordinator {

/// The coordinator's dealings with shards: registration and set-up, memberships, commits. What
/// needs an answer is sent again, with growing waits, until it has one.
class ShardDesk {
 public:
  /// Shards that were set up by an earlier process of the coordinator are brought up to date when
  /// they are back.
  ShardDesk(Job* job, const ServerWatch* servers)
      : job_(job), servers_(servers), broadcast_(job->membership.generation()) {}

  void OnClosed(proto::PeerId peer, TimePoint now);
  void On(const Call& call, const proto::RegisterShard& message);
  void On(const Call& call, const proto::ShardReady& message);
  void On(const Call& call, const proto::MembershipAck& message);
  void On(const Call& call, const proto::CommitAck& message);
  void On(const Call& call, proto::ShardHeartbeat&& message);
  /// Errors: a shard that can't do what it was told can't be part of the job, and without it
  /// nothing goes on.
  Status OnRefusal(const Call& call, const proto::Refusal& message);

  /// Sends the membership to all shards when it has changed: several changes of one event leave as
  /// one, and so do those until a shard has acknowledged the one before.
  void Broadcast(const Call& call);
  /// Sends the round's commit, just decided, to all shards.
  void SendCommits(const Call& call);
  /// Sends again what is due.
  void OnTick(const Call& call);
  /// Whether the message is of a life that is to begin: the checkpoint can't be restored.
  bool IsRestoring(const Call& call, const proto::RestoreFailed& message);
  /// The checkpoint that the shard was to begin from was given up: `newer`, unless nobody had known
  /// of it any more. Errors: no other one is left.
  Status RestoreOlder(
      ShardId id, const std::optional<proto::KeptCheckpoint>& newer, const Call& call);

  /// A member is connected again: it may have missed where shards have moved.
  void OnMemberConnected(const Call& call) const;
  /// A member owes work: it is told where shards are until a step says that it has found them.
  void OnMemberHeartbeat(const Member& member, const Call& call) const;

 private:
  Shard* ShardOf(const Call& call, ShardId shard);
  void OnBack(const Shard& shard, const Call& call);
  /// Sends the set-up, and again until there is an answer.
  void BeginSetup(Shard* shard, const Call& call);
  void SendSetup(Shard* shard, const Call& call);
  void SendMembership(Shard* shard, const Call& call);
  proto::Membership WithMode(proto::Membership membership) const;
  void RepeatMembership(const Shard& shard, const Call& call) const;
  void SendCommit(Shard* shard, const Call& call);

  bool LacksMembership(const Shard& shard) const {
    return job_->membership.AcknowledgedBy(shard.shard) < broadcast_;
  }

  bool LacksCommit(const Shard& shard) const {
    return !job_->rounds.is_commit_acknowledged() && !job_->rounds.HasAcknowledged(shard.shard);
  }

  Job* const job_;
  const ServerWatch* const servers_;
  Generation broadcast_;  // newest that was sent to the shards
};

}  // namespace ps::coordinator
