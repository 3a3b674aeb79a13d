#include "ps/coordinator/servers/shard_desk.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ps/base/text.h"
#include "ps/proto/limits.h"

namespace ps::coordinator {
namespace {

constexpr size_t kTroubleMax = 300;  // characters of what a shard says

}  // namespace

/// The shard that `call` comes from, or null. What comes before its registration is dropped: it
/// will be sent again.
Shard* ShardDesk::ShardOf(const Call& call, ShardId shard) {
  if (!job_->HasRole(call, proto::Role::kShard)) {
    return nullptr;
  }
  Shard* const known = job_->shards.FindPeer(call.from);
  if (known == nullptr) {
    return nullptr;
  }
  if (known->shard != shard) {
    job_->Refuse(
        call,
        StatusCode::kInvalidArgument,
        fmt::format(
            "this connection is shard {}'s, not shard {}'s", known->shard.value, shard.value));
    return nullptr;
  }
  known->last_heard = call.now;
  return known;
}

void ShardDesk::OnClosed(proto::PeerId peer, TimePoint now) {
  Shard* const shard = job_->shards.FindPeer(peer);
  if (shard == nullptr) {
    return;
  }
  job_->shards.Connect(shard, proto::PeerId());
  shard->last_heard = now;
  if (job_->is_working()) {
    job_->log->Warning("shard_disconnected", {{"shard", shard->shard.value}});
  }
}

void ShardDesk::On(const Call& call, const proto::RegisterShard& message) {
  if (!job_->HasRole(call, proto::Role::kShard)) {
    return;
  }
  Shard* const shard = job_->shards.Find(message.shard);
  const Shard* const bound = job_->shards.FindPeer(call.from);
  if (shard == nullptr || message.port > proto::kPortMax || (bound != nullptr && bound != shard)) {
    job_->Refuse(
        call,
        StatusCode::kInvalidArgument,
        fmt::format(
            "shard {} at port {} can't be registered; shards are 0 to {}, one for each connection",
            message.shard.value,
            message.port,
            job_->shards.size() - 1));
    return;
  }
  const ShardRecord* const record = shard->record;
  // Processes that were started by hand on two machines may have one name and one pid. Only the one
  // that was set up has the life, or sends on its connection, where an earlier registration may
  // come late.
  const bool has_life = message.life == record->life || shard->peer == call.from;
  const bool has_name = record->process() == message.process();
  const bool is_successor = record->successor != LaunchId() && record->successor == message.launch;
  // Until it is known to be lost, the first that has come for a place has it.
  const bool is_taken = record->is_registered || message.life != 0;
  const bool is_another =
      is_successor || (record->is_ready ? !(has_name && has_life) : is_taken && !has_name);
  if (is_another) {
    // A fresh process may come when the loss of the one before is known: it asks again and again.
    job_->Refuse(
        call,
        is_successor ||
                (message.life == 0 && servers_->CanComeBack(job_->shards.ServerOf(shard->shard)))
            ? StatusCode::kUnavailable
            : StatusCode::kInvalidArgument,
        fmt::format("shard {} is process {} already", message.shard.value, record->pid));
    return;
  }
  if (shard->peer != proto::PeerId() && shard->peer != call.from) {
    job_->ClosePeer(shard->peer, call);
  }
  job_->shards.Connect(shard, call.from);
  ShardRecord& edit = job_->shards.Edit(*shard);
  if (!edit.is_registered) {
    shard->registered_at = call.now;
    shard->trouble.clear();
  }
  edit.is_registered = true;
  job_->shards.CancelStart(job_->shards.ServerOf(shard->shard));
  edit.host = message.host;
  edit.port = message.port;
  edit.pid = message.pid;
  edit.launch = message.launch;
  shard->register_request_id = call.request_id;
  shard->last_heard = call.now;
  job_->log->Info(
      "shard_registered",
      {{"shard", message.shard.value},
       {"host", message.host},
       {"port", message.port},
       {"pid", message.pid},
       {"launch", message.launch.value}});
  if (job_->needs_shards()) {
    BeginSetup(shard, call);
  }
}

void ShardDesk::BeginSetup(Shard* shard, const Call& call) {
  SendSetup(shard, call);
  shard->setup_timer = RetryTimer(job_->timing.retry_limit, job_->timing.lease);
  shard->setup_timer.Start(call.now, &job_->random);
}

void ShardDesk::SendSetup(Shard* shard, const Call& call) {
  proto::ShardSetup setup;
  setup.config_json = job_->state.config_json;
  setup.tensors = job_->options.tensors;
  setup.placement = job_->state.placement;
  setup.total_samples = job_->ledger.samples_total();
  setup.membership = WithMode(job_->membership.Message());
  setup.life = shard->record->life;
  setup.restore = shard->record->restore;
  setup.has_values = job_->options.model_source != nullptr && setup.restore.checkpoint == 0;
  if (shard->record->life > 1) {
    for (const auto& [incarnation, member] : job_->membership.members()) {
      setup.counted.push_back({incarnation, member.record->reported});
    }
  }
  call.out->Send(shard->peer, shard->register_request_id, std::move(setup));
}

void ShardDesk::On(const Call& call, const proto::ShardReady& message) {
  Shard* const shard = ShardOf(call, message.shard);
  if (shard == nullptr) {
    return;
  }
  if (message.life != shard->record->life) {
    return;  // of a life that is over
  }
  shard->setup_timer.Stop();
  if (!shard->record->is_ready) {
    job_->shards.MarkReady(shard);
    shard->ready_at = call.now;
    job_->log->Info("shard_ready", {{"shard", message.shard.value}});
    if (shard->record->life > 1) {
      OnBack(*shard, call);
    }
  }
  if (!job_->needs_shards()) {
    return;
  }
  // A shard that was away may have missed both.
  if (LacksMembership(*shard)) {
    SendMembership(shard, call);
  }
  if (LacksCommit(*shard)) {
    SendCommit(shard, call);
  }
}

void ShardDesk::On(const Call& call, const proto::MembershipAck& message) {
  Shard* const shard = ShardOf(call, message.shard);
  if (shard == nullptr) {
    return;
  }
  const Generation before = job_->membership.AcknowledgedBy(shard->shard);
  const Status status = job_->membership.OnAck(message);
  if (!status.ok()) {
    job_->Refuse(call, status.code(), std::string(status.message()));
  }
  // What has changed meanwhile. An answer that is none is asked for again by the timer.
  if (job_->needs_shards() && shard->record->is_ready && LacksMembership(*shard) &&
      job_->membership.AcknowledgedBy(shard->shard) > before) {
    SendMembership(shard, call);
  }
}

void ShardDesk::On(const Call& call, const proto::CommitAck& message) {
  if (ShardOf(call, message.shard) == nullptr) {
    return;
  }
  const Result<bool> is_last = job_->rounds.OnAck(message, job_->shards.size());
  if (!is_last.ok()) {
    job_->Refuse(call, is_last.status().code(), std::string(is_last.status().message()));
  }
}

namespace {

/// Bytes a second since the heartbeat before. A process that came back counts from 0.
void NoteRates(const proto::ShardStats& stats, TimePoint now, Shard* shard) {
  const double seconds = Seconds(now - shard->stats_at);
  const proto::ShardStats& before = shard->stats;
  const auto rate = [&](uint64_t bytes, uint64_t bytes_before) {
    return bytes < bytes_before ? 0 : static_cast<double>(bytes - bytes_before) / seconds;
  };
  if (shard->stats_at != TimePoint() && seconds > 0) {
    shard->received_bytes_per_s = rate(stats.bytes_received, before.bytes_received);
    shard->sent_bytes_per_s = rate(stats.bytes_sent, before.bytes_sent);
  }
  shard->stats_at = now;
}

}  // namespace

void ShardDesk::On(const Call& call, proto::ShardHeartbeat&& message) {
  Shard* const shard = ShardOf(call, message.shard);
  if (shard == nullptr) {
    return;
  }
  NoteRates(message.stats, call.now, shard);
  shard->stats = std::move(message.stats);
  job_->divergence.OnShard(shard->shard, shard->stats);
  shard->waits = std::move(message.waits);
  shard->waits.resize(std::min(shard->waits.size(), kWaitsPerPeerMax));
  shard->waits_at = call.now;
  job_->Reply(call, proto::HeartbeatReply{job_->membership.generation()});
}

Status ShardDesk::OnRefusal(const Call& call, const proto::Refusal& message) {
  Shard* const shard = job_->shards.FindPeer(call.from);
  const bool is_retried = message.code == StatusCode::kUnavailable ||
                          message.code == StatusCode::kOverloaded ||
                          message.code == StatusCode::kDeadlineExceeded;
  if (shard != nullptr && is_retried && !shard->record->is_ready) {
    shard->trouble = Printable(Clip(message.message, kTroubleMax));
  }
  if (shard == nullptr || is_retried || message.code == StatusCode::kOk) {
    return Status::Ok();
  }
  return {message.code, fmt::format("shard {}: {}", shard->shard.value, message.message)};
}

/// What has changed since the membership that the shard has acknowledged.
void ShardDesk::RepeatMembership(const Shard& shard, const Call& call) const {
  const Generation base = job_->membership.AcknowledgedBy(shard.shard);
  call.out->Send(shard.peer, 0, WithMode(job_->membership.MessageSince(base)));
}

proto::Membership ShardDesk::WithMode(proto::Membership membership) const {
  membership.mode = job_->state.modes.in_force;
  membership.round = job_->rounds.committed();
  return membership;
}

void ShardDesk::SendMembership(Shard* shard, const Call& call) {
  RepeatMembership(*shard, call);
  shard->membership_timer = RetryTimer(job_->timing.retry_first, job_->timing.retry_limit);
  shard->membership_timer.Start(call.now, &job_->random);
}

void ShardDesk::SendCommit(Shard* shard, const Call& call) {
  call.out->Send(shard->peer, 0, *job_->rounds.commit());
  shard->commit_timer = RetryTimer(job_->timing.retry_first, job_->timing.retry_limit);
  shard->commit_timer.Start(call.now, &job_->random);
}

void ShardDesk::Broadcast(const Call& call) {
  if (broadcast_ == job_->membership.generation()) {
    return;
  }
  const Generation before = std::exchange(broadcast_, job_->membership.generation());
  for (Shard& shard : job_->shards.all()) {
    // One is under way at a time. Else each join of a crowd would tell of all those before it.
    const bool is_under_way =
        shard.membership_timer.is_armed() && job_->membership.AcknowledgedBy(shard.shard) < before;
    if (shard.record->is_ready && shard.peer != proto::PeerId() && !is_under_way) {
      SendMembership(&shard, call);
    }
  }
}

void ShardDesk::SendCommits(const Call& call) {
  for (Shard& shard : job_->shards.all()) {
    if (shard.peer != proto::PeerId()) {
      SendCommit(&shard, call);
    }
  }
}

void ShardDesk::OnTick(const Call& call) {
  for (Shard& shard : job_->shards.all()) {
    if (shard.peer == proto::PeerId()) {
      continue;
    }
    if (shard.setup_timer.IsDue(call.now)) {
      SendSetup(&shard, call);
      shard.setup_timer.Again(call.now, &job_->random);
    }
    if (!shard.record->is_ready) {
      continue;
    }
    if (LacksMembership(shard) && shard.membership_timer.IsDue(call.now)) {
      RepeatMembership(shard, call);
      shard.membership_timer.Again(call.now, &job_->random);
    }
    if (LacksCommit(shard) && shard.commit_timer.IsDue(call.now)) {
      call.out->Send(shard.peer, 0, *job_->rounds.commit());
      shard.commit_timer.Again(call.now, &job_->random);
    }
  }
}

/// Workers go on where they were, and learn where the shard is now.
void ShardDesk::OnBack(const Shard& shard, const Call& call) {
  if (shard.lost_at != TimePoint()) {
    job_->events.Tell(
        proto::EventCode::kShardIsBack,
        {{"shard", shard.shard.value},
         {"life", shard.record->life},
         {"checkpoint", shard.record->restore.checkpoint},
         {"after_s", Seconds(call.now - shard.lost_at)}});
  }
  // Neither where all shards nor where all chunks are: so much for every member in one event would
  // fill the memory. Who lacks more is told at his next heartbeat (OnMemberHeartbeat, and that of
  // MoveDesk).
  proto::ShardAddresses addresses;
  addresses.shards.push_back(job_->shards.AddressOf(shard));
  for (auto& [incarnation, member] : job_->membership.members()) {
    member.last_progress = call.now;
    if (member.peer != proto::PeerId()) {
      call.out->Send(member.peer, 0, addresses);
    }
  }
}

void ShardDesk::OnMemberConnected(const Call& call) const {
  const auto& all = job_->shards.all();
  if (std::any_of(
          all.begin(), all.end(), [](const Shard& shard) { return shard.record->life > 1; }) ||
      job_->state.placement.version > 1) {
    call.out->Send(call.from, 0, job_->WhereAllIs());
  }
}

void ShardDesk::OnMemberHeartbeat(const Member& member, const Call& call) const {
  if (member.record->lives_missed > 0 && job_->shards.are_all_ready()) {
    proto::ShardAddresses addresses;
    for (const Shard& shard : job_->shards.all()) {
      if (shard.record->life > 1) {
        addresses.shards.push_back(job_->shards.AddressOf(shard));
      }
    }
    call.out->Send(call.from, 0, std::move(addresses));
  }
}

bool ShardDesk::IsRestoring(const Call& call, const proto::RestoreFailed& message) {
  const Shard* const shard = ShardOf(call, message.shard);
  return shard != nullptr && !shard->record->is_ready && message.life == shard->record->life &&
         message.checkpoint == shard->record->restore.checkpoint;
}

Status ShardDesk::RestoreOlder(
    ShardId id, const std::optional<proto::KeptCheckpoint>& newer, const Call& call) {
  proto::CheckpointsState& checkpoints = job_->edit.checkpoints;
  if (!job_->training_began) {
    return Status::Corruption(fmt::format(
        "the run was to go on from a checkpoint that can't be restored: {}; psctl resume takes the "
        "one before",
        checkpoints.damage));
  }
  if (job_->goes_back_together()) {
    checkpoints.is_going_back = true;
    return Status::Ok();
  }
  if (checkpoints.kept.empty()) {
    return Status::Corruption(fmt::format(
        "server {} was lost, and no checkpoint can be restored; the newest of them: {}",
        job_->shards.ServerOf(id),
        checkpoints.damage));
  }
  const proto::KeptCheckpoint older = checkpoints.newest();
  if (newer) {
    checkpoints.steps_undone += newer->steps - std::min(newer->steps, older.steps);
    checkpoints.samples_undone += newer->samples - std::min(newer->samples, older.samples);
  }
  Shard* const shard = job_->shards.Find(id);
  job_->BeginLife(shard, {older.checkpoint, older.shards});
  BeginSetup(shard, call);
  return Status::Ok();
}

}  // namespace ps::coordinator
