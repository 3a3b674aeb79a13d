#include "ps/server/shard_core.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace ps::server {
namespace {

/// A heartbeat has to fit into a frame, however many members there are.
constexpr size_t kWorkersMax = 16384;

Status NotTaken(const proto::Message& message, const char* role) {
  return Status::InvalidArgument(fmt::format(
      "a shard takes no {} from a {}",
      proto::MessageTypeName(proto::MessageTypeOf(message)),
      role));
}

}  // namespace

ShardCore::ShardCore(
    proto::RegisterShard self,
    ReadSettings read_settings,
    ShardDisk* disk,
    ShardDialer* dialer,
    const Logger* log)
    : read_settings_(std::move(read_settings)),
      disk_(disk),
      log_(*log),
      life_(self.shard),
      coordinator_(std::move(self), life_, log_),
      rounds_(life_, store_, staging_, schedule_, counters_, log_),
      steps_(store_, roster_, staging_, rounds_),
      pulls_(life_, store_, roster_, rounds_, counters_),
      pushes_(life_, store_, roster_, staging_, rounds_, schedule_, steps_, pulls_, counters_),
      giver_(
          life_,
          store_,
          roster_,
          staging_,
          rounds_,
          schedule_,
          steps_,
          pulls_,
          counters_,
          dialer,
          log_),
      taker_(life_, store_, roster_, staging_, rounds_, schedule_, steps_, counters_, log_),
      checkpoints_(life_, store_, rounds_, schedule_, steps_, coordinator_, disk, log_),
      start_(life_, store_, rounds_, schedule_, coordinator_, disk, log_) {}

void ShardCore::OnMessage(
    proto::PeerId peer,
    uint64_t request_id,
    proto::Message message,
    TimePoint now,
    proto::Outbox* out) {
  if (is_shut_down_) {
    return;
  }
  const Call call{peer, request_id, now, out, timing().retry_first};
  if (peer == coordinator_.peer()) {
    coordinator_.OnHeard(now);
    OnCoordinatorMessage(call, message);
  } else if (giver_.IsReceiver(peer)) {
    giver_.OnReceiver(call, message);
    TakeGivenAway(now, out);
  } else if (auto* push = std::get_if<proto::PushRequest>(&message)) {
    pushes_.OnPush(call, *push);
  } else if (auto* pull = std::get_if<proto::PullRequest>(&message)) {
    pulls_.OnPull(call, *pull);
  } else if (auto* offer = std::get_if<proto::ChunksOffer>(&message)) {
    taker_.OnOffer(call, *offer);
  } else if (auto* part = std::get_if<proto::ChunkPart>(&message)) {
    if (taker_.OnPart(call, *part)) {
      Reindex(taker_.Insert());
      taker_.Finish(out);
    }
  } else if (!std::holds_alternative<proto::Refusal>(message)) {
    call.Refuse(NotTaken(message, "worker"));
  }
}

void ShardCore::OnCoordinatorMessage(const Call& call, proto::Message& message) {
  if (const auto* setup = std::get_if<proto::ShardSetup>(&message)) {
    OnSetup(call, *setup);
  } else if (const auto* membership = std::get_if<proto::Membership>(&message)) {
    OnMembership(call, *membership);
  } else if (const auto* commit = std::get_if<proto::CommitRound>(&message)) {
    OnCommit(call, *commit);
  } else if (auto* const pull = std::get_if<proto::PullRequest>(&message)) {
    pulls_.OnModelPull(call, *pull);
  } else if (const auto* values = std::get_if<proto::PullReply>(&message)) {
    if (start_.OnValues(call, *values)) {
      BeginLife(call.now, call.out);
    }
  } else if (const auto* checkpoint = std::get_if<proto::CheckpointRequest>(&message)) {
    checkpoints_.OnRequest(call, *checkpoint);
  } else if (const auto* give = std::get_if<proto::GiveChunks>(&message)) {
    giver_.OnGiveChunks(call, *give);
  } else if (const auto* refusal = std::get_if<proto::Refusal>(&message)) {
    if (Status status = CoordinatorLink::Weigh(*refusal); !status.ok()) {
      ShutDown(std::move(status));
    }
  } else if (const auto* shutdown = std::get_if<proto::Shutdown>(&message)) {
    log_.Info("shutdown", {{"reason", shutdown->reason}});
    ShutDown(Status::Ok());
  } else if (std::holds_alternative<proto::NoticeReply>(message)) {
    coordinator_.OnNoticeKnown();
  } else if (!std::holds_alternative<proto::HeartbeatReply>(message)) {
    call.Refuse(NotTaken(message, "coordinator"));
  }
}

void ShardCore::OnSetup(const Call& call, const proto::ShardSetup& setup) {
  if (setup.life < life_.number) {
    return;  // overtaken
  }
  coordinator_.OnRegistered();
  if (life_.is_set_up && setup.life == life_.number) {
    TakeMembership(setup.membership, call.now, call.out);
    call.Answer(proto::ShardReady{life_.shard, life_.number});
    return;
  }
  if (!start_.IsOpen(setup.life)) {
    giver_.CloseAll(call.out);
    HeldPart held = checkpoints_.TakeHeld(setup.restore.checkpoint);
    EndLife();
    if (const Status status = TakeSetup(setup); !status.ok()) {
      log_.Error("setup_refused", {{"why", status}});
      call.Refuse(status);
      return;
    }
    coordinator_.RestartHeartbeats(call.now);
    start_.Open(std::move(held));
  }
  if (start_.Ask(call, setup)) {
    BeginLife(call.now, call.out);
  }
}

Status ShardCore::TakeSetup(const proto::ShardSetup& setup) {
  PS_ASSIGN(ShardSettings settings, read_settings_(setup.config_json));
  PS_ASSIGN(store_, ChunkStore::Make(life_.shard, settings, setup));
  life_.settings = std::move(settings);
  schedule_.Begin(life_.settings, setup.total_samples);
  if (disk_ != nullptr && !life_.settings.checkpoints.path.empty()) {
    disk_->Use(life_.settings.checkpoints);
  } else if (setup.restore.checkpoint != 0) {
    return Status::InvalidArgument(
        "a checkpoint is to be restored, and the job has no path for them");
  }
  return Status::Ok();
}

/// The chunks have their values.
void ShardCore::BeginLife(TimePoint now, proto::Outbox* out) {
  LifeStart::Ready ready = start_.Take();
  const checkpoint::CheckpointId from = ready.setup.restore.checkpoint;
  life_.is_set_up = true;
  life_.number = ready.setup.life;
  checkpoints_.BeginLife(from, std::move(ready.refs), std::move(ready.state));
  log_.Info(
      "shard_ready",
      {{"chunks", store_.size()},
       {"parameter_bytes", store_.parameter_bytes()},
       {"life", life_.number},
       {"checkpoint", from}});
  TakeMembership(ready.setup.membership, now, out);
  steps_.Restore(ready.setup.counted, ready.members);
  coordinator_.Tell(proto::ShardReady{life_.shard, life_.number}, out, ready.request_id);
}

/// Everything but the settings and the connections is of the life that ends.
void ShardCore::EndLife() {
  life_.is_set_up = false;
  roster_ = Roster();
  staging_ = Staging();
  schedule_.Restore(0, 0);
  rounds_.Reset();
  pulls_.Reset();
  giver_.Reset();
  taker_.Reset();
  checkpoints_.EndLife();
  start_.Drop();
}

void ShardCore::OnRestored(Restored restored, TimePoint now, proto::Outbox* out) {
  if (!is_shut_down_ && start_.OnRestored(std::move(restored), now, out)) {
    BeginLife(now, out);
  }
}

void ShardCore::OnMembership(const Call& call, const proto::Membership& membership) {
  Status status = life_.CheckSetUp();
  if (status.ok() && membership.base > roster_.generation()) {
    status = Status::InvalidArgument(fmt::format(
        "membership {} builds on {}, and this shard has {}",
        membership.generation.value,
        membership.base.value,
        roster_.generation().value));
  }
  if (!status.ok()) {
    call.Refuse(status);
    return;
  }
  TakeMembership(membership, call.now, call.out);
  call.Answer(proto::MembershipAck{life_.shard, roster_.generation(), roster_.Resolved()});
}

void ShardCore::TakeMembership(
    const proto::Membership& membership, TimePoint now, proto::Outbox* out) {
  const std::optional<Roster::Change> change = roster_.Update(membership, store_.size() > 0);
  if (!change) {
    return;
  }
  if (rounds_.TakeMode(membership, roster_.members().size())) {
    if (rounds_.is_ssp()) {
      roster_.Level();
    }
    if (!rounds_.is_bsp()) {
      checkpoints_.DropDue();
    }
  }
  // A contribution that may still be committed is asked for until it is.
  for (const Incarnation incarnation : change->forgotten) {
    staging_.DropAll(incarnation);
  }
  for (const Member& member : change->fenced) {
    Fence(member, out);
  }
  rounds_.WarnIfTooSmall(roster_.members().size());
  TakeGivenAway(now, out);
  pulls_.Release(out);
}

void ShardCore::Fence(const Member& member, proto::Outbox* out) {
  staging_.DropIncomplete(member.incarnation);
  log_.Info(
      "fenced",
      {{"worker", member.worker.value},
       {"incarnation", member.incarnation.value},
       {"last_step", member.last_step},
       {"generation", roster_.generation().value}});
  if (const std::optional<Pull> waiting = pulls_.Forget(member.incarnation); waiting) {
    const Call call{waiting->peer, waiting->request_id, {}, out};
    call.Refuse(Status::Stale(fmt::format(
        "incarnation {} is fenced since membership {}",
        member.incarnation.value,
        roster_.generation().value)));
  }
}

void ShardCore::OnCommit(const Call& call, const proto::CommitRound& commit) {
  if (const Status status = life_.CheckSetUp(); !status.ok()) {
    call.Refuse(status);
    return;
  }
  const Rounds::Admission admission = rounds_.Admit(call, commit, giver_.is_giving());
  if (admission == Rounds::Admission::kAnswered) {
    return;
  }
  if (admission == Rounds::Admission::kBegins) {
    giver_.OnRound(call.now);
    pulls_.FinishAnswers(call.out);  // which must not have chunks of two rounds
    rounds_.Begin(commit);
    steps_.DropOpenSteps();
  }
  Continue(call.out);
}

void ShardCore::Continue(proto::Outbox* out) {
  if (HasWork() && rounds_.Continue()) {
    checkpoints_.OnRound(out);
    pulls_.Release(out);
    rounds_.Acknowledge(out);
  }
}

/// Chunks have left, perhaps: with what stays, steps may be complete.
void ShardCore::TakeGivenAway(TimePoint now, proto::Outbox* out) {
  const std::optional<Reindexing> chunks = giver_.TakeAway(now);
  if (!chunks) {
    return;
  }
  Reindex(*chunks);
  const uint64_t version = giver_.given_version();
  log_.Info("chunks_left", {{"placement", version}, {"chunks", store_.size()}});
  coordinator_.Tell(proto::ChunksGiven{life_.shard, version}, out);
  pushes_.CompleteSteps(now, out);
  pulls_.Continue(out);
}

/// All that goes by the index of a chunk.
void ShardCore::Reindex(const Reindexing& chunks) {
  checkpoints_.Reindex(chunks);
  if (store_.size() == 0) {
    staging_ = Staging();  // it went with the chunks
  }
  staging_.Rearrange(chunks.EarlierParts(store_));
  steps_.Reindex(chunks);
  pulls_.Reindex(chunks);
}

void ShardCore::ShutDown(Status outcome) {
  if (!is_shut_down_) {
    is_shut_down_ = true;
    outcome_ = std::move(outcome);
  }
}

void ShardCore::OnPeerClosed(proto::PeerId peer, TimePoint now, proto::Outbox* /*out*/) {
  if (peer == coordinator_.peer()) {
    coordinator_.OnClosed(now);
    rounds_.OnCoordinatorClosed();
    pulls_.DropModelPull();
    return;
  }
  giver_.OnPeerClosed(peer, now);
  taker_.OnPeerClosed(peer);
  pushes_.OnPeerClosed(peer);
  pulls_.OnPeerClosed(peer);
}

void ShardCore::OnDrained(proto::PeerId peer, proto::Outbox* out) {
  giver_.OnDrained(peer, out);
  pulls_.OnDrained(peer, out);
}

void ShardCore::OnDialed(ShardId to, proto::PeerId peer, TimePoint now, proto::Outbox* out) {
  if (is_shut_down_) {
    out->Close(peer);
  } else {
    giver_.OnDialed(to, peer, now, out);
  }
}

void ShardCore::OnTick(TimePoint now, proto::Outbox* out) {
  if (is_shut_down_) {
    return;
  }
  const Duration pause = coordinator_.NoteTick(now);
  giver_.OnTick(now, out);
  checkpoints_.OnTick(now, pause, out);
  if (Status status = coordinator_.CheckSilence(now); !status.ok()) {
    ShutDown(std::move(status));
    return;
  }
  if (!coordinator_.is_connected()) {
    return;
  }
  coordinator_.Repeat(now, out);
  start_.OnTick(now, out);
  if (coordinator_.IsHeartbeatDue(now)) {
    SendHeartbeat(now, out);
  }
}

void ShardCore::SendHeartbeat(TimePoint now, proto::Outbox* out) {
  const uint64_t overflowed = counters_.chunks_overflowed;
  if (overflowed > 2 * overflows_warned_) {  // once, and whenever they have doubled
    overflows_warned_ = overflowed;
    log_.Warning(
        "updates_overflow",
        {{"chunks", overflowed},
         {"what", "parameters that would have become infinite stay as they were"},
         {"remedy", "lower optimizer.lr, or set optimizer.clip_norm or clip_value"}});
  }
  if (pulls_.held_values().parts_without_room() > 0 && !has_warned_of_room_) {
    has_warned_of_room_ = true;
    log_.Warning(
        "held_values_full",
        {{"held_bytes", pulls_.held_values().bytes()},
         {"members", roster_.members().size()},
         {"parameter_bytes", store_.parameter_bytes()},
         {"what", "there is no room for what all workers hold, so some pull bf16"},
         {"remedy", "raise servers.held_mib, or use more shards"}});
  }
  coordinator_.Ask(proto::ShardHeartbeat{life_.shard, Stats(), Waits(now)}, out);
}

proto::ShardStats ShardCore::Stats() const {
  proto::ShardStats stats = counters_;
  stats.chunk_count = store_.size();
  stats.parameter_bytes = store_.parameter_bytes();
  stats.staged_bytes = rounds_.staged_bytes() + pushes_.unfinished_bytes();
  stats.held_bytes = pulls_.held_values().bytes();
  stats.round = rounds_.committed();
  stats.lr = schedule_.Rate(rounds_.mode().mode, std::max<size_t>(roster_.members().size(), 1));
  for (const auto& [incarnation, member] : roster_.members()) {
    if (stats.workers.size() < kWorkersMax) {
      stats.workers.push_back(
          {member.worker, incarnation, member.clock, member.last_step, member.staleness});
    }
  }
  return stats;
}

uint64_t ShardCore::outgoing_bytes_max() const {
  const ShardSettings& settings = life_.settings;
  return std::max({settings.queue_bytes, 2 * store_.parameter_bytes(), 2 * settings.frame_bytes});
}

}  // namespace ps::server
