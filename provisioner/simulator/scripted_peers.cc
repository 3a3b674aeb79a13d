#include "provisioner/simulator/scripted_peers.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace ps::provisioner {

std::optional<proto::Message> AnswerOfShard(
    ShardId shard, const proto::Message& message, const LastStepOf& last_step_of) {
  if (const auto* setup = std::get_if<proto::ShardSetup>(&message)) {
    return proto::ShardReady{shard, setup->life};
  }
  if (const auto* membership = std::get_if<proto::Membership>(&message)) {
    proto::MembershipAck ack{shard, membership->generation, {}};
    for (const Incarnation incarnation : membership->resolve) {
      ack.resolved.push_back(
          {incarnation, last_step_of(incarnation), proto::PushOutcome::kApplied});
    }
    return ack;
  }
  if (const auto* commit = std::get_if<proto::CommitRound>(&message)) {
    return proto::CommitAck{shard, commit->round};
  }
  return std::nullopt;
}

bool ScriptedWorker::Take(const proto::Message& message) {
  if (const auto* join = std::get_if<proto::JoinReply>(&message)) {
    const bool is_new = join->incarnation != incarnation_;
    incarnation_ = join->incarnation;
    lives_ = join->shards.size();  // each has its first one
    placement_ = join->placement.version;
    return is_new;
  }
  const auto* grant = std::get_if<proto::LeaseGrant>(&message);
  if (grant == nullptr || grant->lease <= lease_.lease) {
    return false;
  }
  lease_ = *grant;
  next_ = grant->begin;
  return true;
}

proto::StepReport ScriptedWorker::Report(uint64_t count) {
  proto::StepReport report{incarnation_, {}};
  for (uint64_t i = 0; i < count && next_ < lease_.end; ++i) {
    proto::StepDone done;
    done.step = ++step_;
    done.lease = lease_.lease;
    done.begin = next_;
    done.end = std::min<uint64_t>(next_ + lease_.minibatch, lease_.end);
    done.loss_sum = static_cast<double>(done.end - done.begin);
    done.lives = lives_;
    done.placement = placement_;
    next_ = done.end;
    report.steps.push_back(done);
  }
  return report;
}

proto::WorkerHeartbeat ScriptedWorker::Beat(proto::WorkerState state) const {
  proto::WorkerHeartbeat beat;
  beat.incarnation = incarnation_;
  beat.state = state;
  return beat;
}

}  // namespace ps::provisioner
