#pragma once

#include <cstdint>
#include <string>

#include "ps/coordinator/job.h"

namespace ps::coordinator {

/// The coordinator's dealings with shards: registration and set-up, memberships, commits, silence.
/// What needs an answer is sent again, with growing waits, until it has one.
class ShardDesk {
 public:
  /// Shards that were set up by an earlier process of the coordinator are brought up to date when
  /// they are back.
  explicit ShardDesk(Job* job) : job_(job), broadcast_(job->membership.generation()) {}

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
  /// one.
  void Broadcast(const Call& call);
  /// Sends the round's commit, just decided, to all shards.
  void SendCommits(const Call& call);
  /// Sends again what is due.
  void OnTick(const Call& call);
  /// Takes note of silent shards. Errors: one is silent for longer than servers are waited for.
  Status CheckSilence(TimePoint now);
  /// Why the job can't go on without the server, whose process has ended. `pid` 0: not known.
  Status LostServer(uint32_t server, int64_t pid, const std::string& why) const;

 private:
  Shard* ShardOf(const Call& call, ShardId shard);
  void SendSetup(Shard* shard, const Call& call);
  void SendMembership(Shard* shard, const Call& call);
  void RepeatMembership(const Shard& shard, const Call& call) const;
  void SendCommit(Shard* shard, const Call& call);

  bool LacksMembership(const Shard& shard) const {
    return job_->membership.AcknowledgedBy(shard.shard) < broadcast_;
  }

  bool LacksCommit(const Shard& shard) const {
    return !job_->rounds.is_commit_acknowledged() && !job_->rounds.HasAcknowledged(shard.shard);
  }

  Job* const job_;
  Generation broadcast_;  // newest that was sent to the shards
};

}  // namespace ps::coordinator
