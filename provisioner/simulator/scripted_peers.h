#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "ps/base/ids.h"
#include "ps/proto/messages.h"

namespace ps::provisioner {

// Workers and shards as their coordinator sees them: the messages of the production programs, with
// no values behind them. For simulations and benchmarks of the coordinator.

/// The last step of an incarnation that is gone that is complete on the shard.
using LastStepOf = std::function<Step(Incarnation)>;

/// What a shard answers to a set-up, a membership or a commit; nothing to anything else.
std::optional<proto::Message> AnswerOfShard(
    ShardId shard, const proto::Message& message, const LastStepOf& last_step_of);

/// What a worker knows: its incarnation, its lease, and how far it is with it.
class ScriptedWorker {
 public:
  /// Takes note of a JoinReply or of a LeaseGrant. False: it is neither, or known already.
  bool Take(const proto::Message& message);

  /// Asks for work beyond the lease that it has.
  proto::LeaseRequest AskForWork() const { return {incarnation_, lease_.lease}; }

  /// Makes the next `count` steps of its lease, or as many as are left.
  proto::StepReport Report(uint64_t count);

  proto::WorkerHeartbeat Beat(proto::WorkerState state) const;

  /// 0: it has not joined.
  Incarnation incarnation() const { return incarnation_; }

  /// The last one that it made.
  Step step() const { return step_; }

  uint64_t samples_left() const { return lease_.end - next_; }

  /// Samples of a step of the lease.
  uint32_t minibatch() const { return lease_.minibatch; }

 private:
  Incarnation incarnation_;
  uint64_t lives_ = 0;  // of the shards, together
  uint64_t placement_ = 0;
  proto::LeaseGrant lease_;
  uint64_t next_ = 0;  // first sample of the next step
  Step step_ = 0;
};

}  // namespace ps::provisioner
