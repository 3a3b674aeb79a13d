// The coordinator's dealings with shards: registration and set-up, memberships, commits, silence.

#include <algorithm>
#include <string>

#include "ps/coordinator/coordinator_core.h"

namespace ps::coordinator {
namespace {

constexpr size_t kWaitsPerPeerMax = 64;
constexpr uint32_t kPortMax = 65535;

}  // namespace

/// The shard that `call` comes from, or null. What comes before its registration is dropped: it
/// will be sent again.
Shard* CoordinatorCore::ShardOf(const Call& call, ShardId shard) {
  if (!HasRole(call, proto::Role::kShard)) {
    return nullptr;
  }
  Shard* const known = shards_.FindPeer(call.from);
  if (known == nullptr) {
    return nullptr;
  }
  if (known->shard != shard) {
    Refuse(
        call,
        StatusCode::kInvalidArgument,
        "this connection is shard " + std::to_string(known->shard.value) + "'s, not shard " +
            std::to_string(shard.value) + "'s");
    return nullptr;
  }
  known->last_heard = call.now;
  return known;
}

void CoordinatorCore::On(const Call& call, const proto::RegisterShard& message) {
  if (!HasRole(call, proto::Role::kShard)) {
    return;
  }
  Shard* const shard = shards_.Find(message.shard);
  const Shard* const bound = shards_.FindPeer(call.from);
  if (shard == nullptr || message.port > kPortMax || (bound != nullptr && bound != shard)) {
    Refuse(
        call,
        StatusCode::kInvalidArgument,
        "shard " + std::to_string(message.shard.value) + " at port " +
            std::to_string(message.port) + " can't be registered; shards are 0 to " +
            std::to_string(shards_.size() - 1) + ", one for each connection");
    return;
  }
  if (shard->is_ready && shard->pid != message.pid) {
    // Its parameters are in the first process alone.
    Refuse(
        call,
        StatusCode::kInvalidArgument,
        "shard " + std::to_string(message.shard.value) + " is process " +
            std::to_string(shard->pid) + " already");
    return;
  }
  if (shard->peer != proto::PeerId() && shard->peer != call.from) {
    ClosePeer(shard->peer, call);
  }
  shard->is_registered = true;
  shard->host = message.host;
  shard->port = message.port;
  shard->pid = message.pid;
  shard->peer = call.from;
  shard->register_request_id = call.request_id;
  shard->last_heard = call.now;
  log_->Info(
      "shard_registered",
      {{"shard", message.shard.value}, {"host", message.host}, {"port", message.port}});
  if (IsWorking()) {
    SendSetup(shard, call);
    shard->setup_timer = RetryTimer(timing_.retry_limit, timing_.lease);
    shard->setup_timer.Start(call.now, &random_);
  }
}

void CoordinatorCore::SendSetup(Shard* shard, const Call& call) {
  const proto::JobConfig& config = options_.config;
  proto::ShardSetup setup;
  setup.tensors = options_.tensors;
  setup.placement = placement_;
  setup.seed = config.train.seed;
  setup.optimizer = config.optimizer;
  setup.mode = config.train.mode;
  setup.staleness_max = config.train.staleness_max;
  setup.reference_minibatch = config.train.minibatch;
  setup.total_samples = ledger_.samples_total();
  setup.frame_bytes = uint64_t{config.servers.frame_kib} << 10U;
  setup.queue_bytes = uint64_t{config.servers.queue_mib} << 20U;
  setup.max_detect_s = Seconds(timing_.detect);
  setup.membership = membership_.Message();
  call.out->Send(shard->peer, shard->register_request_id, std::move(setup));
}

void CoordinatorCore::On(const Call& call, const proto::ShardReady& message) {
  Shard* const shard = ShardOf(call, message.shard);
  if (shard == nullptr) {
    return;
  }
  shard->setup_timer.Stop();
  if (!shard->is_ready) {
    shard->is_ready = true;
    log_->Info("shard_ready", {{"shard", message.shard.value}});
  }
  if (!IsWorking()) {
    return;
  }
  // A shard that was away may have missed both.
  if (membership_.AcknowledgedBy(shard->shard) < broadcast_) {
    SendMembership(shard, call);
  }
  if (!rounds_.is_commit_acknowledged() && !rounds_.HasAcknowledged(shard->shard)) {
    SendCommit(shard, call);
  }
}

void CoordinatorCore::On(const Call& call, const proto::MembershipAck& message) {
  if (ShardOf(call, message.shard) == nullptr) {
    return;
  }
  const Status status = membership_.OnAck(message);
  if (!status.ok()) {
    Refuse(call, status.code(), std::string(status.message()));
  }
}

void CoordinatorCore::On(const Call& call, const proto::CommitAck& message) {
  if (ShardOf(call, message.shard) == nullptr) {
    return;
  }
  const Result<bool> is_last = rounds_.OnAck(message, shards_.size());
  if (!is_last.ok()) {
    Refuse(call, is_last.status().code(), std::string(is_last.status().message()));
  }
}

void CoordinatorCore::On(const Call& call, const proto::ShardHeartbeat& message) {
  Shard* const shard = ShardOf(call, message.shard);
  if (shard == nullptr) {
    return;
  }
  shard->stats = message.stats;
  shard->waits = message.waits;
  shard->waits.resize(std::min(shard->waits.size(), kWaitsPerPeerMax));
  shard->waits_at = call.now;
  Reply(call, proto::HeartbeatReply{membership_.generation()});
}

/// A shard that can't do what it was told can't be part of the job: without it nothing goes on.
void CoordinatorCore::On(const Call& call, const proto::Refusal& message) {
  log_->Warning(
      "refused",
      {{"by", peers_.at(call.from).node},
       {"code", StatusCodeName(message.code)},
       {"message", message.message}});
  const Shard* const shard = shards_.FindPeer(call.from);
  const bool is_retried = message.code == StatusCode::kUnavailable ||
                          message.code == StatusCode::kOverloaded ||
                          message.code == StatusCode::kDeadlineExceeded;
  if (shard == nullptr || is_retried || message.code == StatusCode::kOk) {
    return;
  }
  Fail(
      Status(message.code, "shard " + std::to_string(shard->shard.value) + ": " + message.message),
      call);
}

void CoordinatorCore::SendMembership(Shard* shard, const Call& call) {
  call.out->Send(shard->peer, 0, membership_.Message());
  shard->membership_timer = RetryTimer(timing_.retry_first, timing_.retry_limit);
  shard->membership_timer.Start(call.now, &random_);
}

void CoordinatorCore::SendCommit(Shard* shard, const Call& call) {
  call.out->Send(shard->peer, 0, *rounds_.commit());
  shard->commit_timer = RetryTimer(timing_.retry_first, timing_.retry_limit);
  shard->commit_timer.Start(call.now, &random_);
}

/// Several changes of one event leave as one membership.
void CoordinatorCore::Broadcast(const Call& call) {
  if (broadcast_ == membership_.generation()) {
    return;
  }
  broadcast_ = membership_.generation();
  for (Shard& shard : shards_.all()) {
    if (shard.is_ready) {
      shard.membership_since = call.now;
      SendMembership(&shard, call);
    }
  }
}

void CoordinatorCore::ResendToShards(const Call& call) {
  for (Shard& shard : shards_.all()) {
    if (shard.peer == proto::PeerId()) {
      continue;
    }
    if (shard.setup_timer.IsDue(call.now)) {
      SendSetup(&shard, call);
      shard.setup_timer.Again(call.now, &random_);
    }
    if (!shard.is_ready) {
      continue;
    }
    if (membership_.AcknowledgedBy(shard.shard) < broadcast_ &&
        shard.membership_timer.IsDue(call.now)) {
      call.out->Send(shard.peer, 0, membership_.Message());
      shard.membership_timer.Again(call.now, &random_);
    }
    if (!rounds_.is_commit_acknowledged() && !rounds_.HasAcknowledged(shard.shard) &&
        shard.commit_timer.IsDue(call.now)) {
      call.out->Send(shard.peer, 0, *rounds_.commit());
      shard.commit_timer.Again(call.now, &random_);
    }
  }
}

void CoordinatorCore::CheckShardSilence(const Call& call) {
  for (const Shard& shard : shards_.all()) {
    // A shard that is being set up may be busy with it; the time to join limits that.
    const bool is_watched =
        shard.is_ready || (shard.is_registered && shard.peer == proto::PeerId());
    if (is_watched && call.now - shard.last_heard > timing_.detect) {
      const std::string what = shard.peer == proto::PeerId() ? "no connection" : "no heartbeat";
      FailLostServer(
          shards_.ServerOf(shard.shard),
          shard.pid,
          what + " for " + std::to_string(Seconds(call.now - shard.last_heard)).substr(0, 4) +
              " s (shard " + std::to_string(shard.shard.value) + ")",
          call);
      return;
    }
  }
}

void CoordinatorCore::FailLostServer(
    uint32_t server, int64_t pid, const std::string& why, const Call& call) {
  for (const Shard& shard : shards_.all()) {
    if (pid == 0 && shards_.ServerOf(shard.shard) == server) {
      pid = shard.pid;
    }
  }
  const std::string process = pid == 0 ? "" : " (pid " + std::to_string(pid) + ")";
  const bool is_set_up = shards_.are_all_ready();
  Fail(
      Status::Unavailable(
          "server " + std::to_string(server) + process + " was lost: " + why +
          (is_set_up ? "; its parameters are gone, and recovery from a checkpoint is not available "
                       "in this version: start the job again"
                     : "; its log in the run's directory may say why")),
      call);
}

}  // namespace ps::coordinator
