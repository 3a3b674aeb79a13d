// The shard's life: registration, set-up, timers, end. Pushes, pulls, rounds, reports and the model
// from and to the coordinator have their own files.
//
// Invariants:
// - Nothing of a frame is applied unless all of it is valid.
// - A chunk of a step is applied (staged) at most once, whatever is repeated, lost or reordered.
// - An incarnation that a membership does not list never changes anything again.
// - Every request gets an answer or a refusal, apart from those that a later one has overtaken.

#include "ps/server/shard_core.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace ps::server {
namespace {

std::string SilenceText(const char* state, Duration silence) {
  return fmt::format("the coordinator is {} for {:.1f} s", state, Seconds(silence));
}

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
    : shard_(self.shard),
      self_(std::move(self)),
      read_settings_(std::move(read_settings)),
      disk_(disk),
      dialer_(dialer),
      log_(log),
      checkpointer_(shard_, disk) {
  stats_.staleness_histogram.assign(kStalenessBuckets, 0);
}

void ShardCore::OnCoordinatorConnected(
    proto::PeerId peer, proto::Term term, TimePoint now, proto::Outbox* out) {
  if (term < term_) {
    log_->Error("coordinator_of_earlier_term", {{"term", term}, {"known", term_}});
    out->Close(peer);
    return;
  }
  term_ = term;
  coordinator_ = peer;
  silence_.Heard(now);
  is_registered_ = false;
  next_heartbeat_ = now + settings_.timing.heartbeat;
  Register(now, out);
}

void ShardCore::Register(TimePoint now, proto::Outbox* out) {
  // Small and idempotent, and until it is through the coordinator counts this shard as silent.
  next_register_ = now + settings_.timing.retry_first;
  proto::RegisterShard registration = self_;
  registration.life = life_;
  out->Send(coordinator_, ++last_request_id_, std::move(registration));
}

void ShardCore::OnNotice(
    TimePoint due, const std::string& what, TimePoint now, proto::Outbox* out) {
  if (!notice_ || due < notice_->due) {
    log_->Info("notice", {{"reason", what}, {"grace_s", Seconds(due - now)}});
    notice_ = Notice{due, what, false, now};
    SendNotice(now, out);
  }
}

void ShardCore::SendNotice(TimePoint now, proto::Outbox* out) {
  if (!notice_ || notice_->is_known || !is_registered_ || coordinator_ == proto::PeerId() ||
      now < notice_->next_try) {
    return;
  }
  notice_->next_try = now + settings_.timing.retry_first;
  const auto left_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(notice_->due - now).count();
  out->Send(
      coordinator_,
      ++last_request_id_,
      proto::ServerNotice{
          shard_,
          static_cast<uint32_t>(std::clamp<int64_t>(left_ms, 0, UINT32_MAX)),
          notice_->what});
}

void ShardCore::OnMessage(
    proto::PeerId peer,
    uint64_t request_id,
    proto::Message message,
    TimePoint now,
    proto::Outbox* out) {
  if (is_shut_down_) {
    return;
  }
  const Call call{peer, request_id, now, out};
  if (peer == coordinator_) {
    silence_.Heard(now);
    OnCoordinatorMessage(call, message);
  } else if (IsReceiver(peer)) {
    OnReceiver(call, message);
  } else if (auto* push = std::get_if<proto::PushRequest>(&message)) {
    OnPush(call, *push);
  } else if (auto* pull = std::get_if<proto::PullRequest>(&message)) {
    OnPull(call, *pull);
  } else if (auto* offer = std::get_if<proto::ChunksOffer>(&message)) {
    OnOffer(call, *offer);
  } else if (auto* part = std::get_if<proto::ChunkPart>(&message)) {
    OnChunkPart(call, *part);
  } else if (!std::holds_alternative<proto::Refusal>(message)) {
    Refuse(call, NotTaken(message, "worker"), 0);
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
    OnModelPull(call, *pull);
  } else if (const auto* values = std::get_if<proto::PullReply>(&message)) {
    OnValues(call, *values);
  } else if (const auto* checkpoint = std::get_if<proto::CheckpointRequest>(&message)) {
    OnCheckpoint(call, *checkpoint);
  } else if (const auto* give = std::get_if<proto::GiveChunks>(&message)) {
    OnGiveChunks(call, *give);
  } else if (const auto* refusal = std::get_if<proto::Refusal>(&message)) {
    OnCoordinatorRefusal(*refusal);
  } else if (const auto* shutdown = std::get_if<proto::Shutdown>(&message)) {
    log_->Info("shutdown", {{"reason", shutdown->reason}});
    ShutDown(Status::Ok());
  } else if (std::holds_alternative<proto::NoticeReply>(message)) {
    if (notice_) {
      notice_->is_known = true;
    }
  } else if (!std::holds_alternative<proto::HeartbeatReply>(message)) {
    Refuse(call, NotTaken(message, "coordinator"), 0);
  }
}

Status ShardCore::TakeSetup(const proto::ShardSetup& setup) {
  PS_ASSIGN(ShardSettings settings, read_settings_(setup.config_json));
  PS_ASSIGN(store_, ChunkStore::Make(shard_, settings, setup));
  settings_ = std::move(settings);
  lr_policy_ = settings_.lr_policy;
  total_samples_ = setup.total_samples;
  if (disk_ != nullptr && !settings_.checkpoints.path.empty()) {
    disk_->Use(settings_.checkpoints);
  } else if (setup.restore.checkpoint != 0) {
    return Status::InvalidArgument(
        "a checkpoint is to be restored, and the job has no path for them");
  }
  return Status::Ok();
}

void ShardCore::OnSetup(const Call& call, const proto::ShardSetup& setup) {
  if (setup.life < life_) {
    return;  // overtaken
  }
  is_registered_ = true;
  if (is_set_up_ && setup.life == life_) {
    TakeMembership(setup.membership, call.now, call.out);
    call.out->Send(call.peer, call.request_id, proto::ShardReady{shard_, life_});
    return;
  }
  const bool is_repeated = open_setup_ && open_setup_->setup.life == setup.life;
  if (!is_repeated) {
    CloseReceivers(call.out);
    HeldPart held = checkpointer_.TakeHeld(setup.restore.checkpoint, &store_);
    EndLife();
    if (const Status status = TakeSetup(setup); !status.ok()) {
      log_->Error("setup_refused", {{"why", status}});
      Refuse(call, status, 0);
      return;
    }
    next_heartbeat_ = call.now + settings_.timing.heartbeat;
    open_setup_.emplace();
    open_setup_->held = std::move(held);
  }
  open_setup_->request_id = call.request_id;
  open_setup_->setup = setup;
  if (store_.size() == 0) {
    FinishSetup(call, ChunkRefs());
  } else if (setup.restore.checkpoint != 0) {
    if (!is_repeated) {
      BeginRestore(setup);
    }
  } else if (setup.has_values) {
    if (!is_repeated) {
      BeginValues(setup);
    }
    AskForValues(call.now, call.out);
  } else {
    FinishSetup(call, ChunkRefs(store_.size()));
  }
}

/// The chunks have their values: a life begins.
void ShardCore::FinishSetup(const Call& call, ChunkRefs refs) {
  OpenSetup open = std::move(*open_setup_);
  open_setup_.reset();
  is_set_up_ = true;
  life_ = open.setup.life;
  placement_version_ = open.setup.placement.version;
  checkpointer_.BeginLife(
      life_, open.setup.restore.checkpoint, std::move(refs), std::move(open.state));
  store_.SetBeforeUpdate([this](size_t chunk) { checkpointer_.BeforeUpdate(store_, chunk); });
  log_->Info(
      "shard_ready",
      {{"chunks", store_.size()},
       {"parameter_bytes", store_.parameter_bytes()},
       {"life", life_},
       {"checkpoint", open.setup.restore.checkpoint}});
  TakeMembership(open.setup.membership, call.now, call.out);
  for (const proto::CountedStep& counted : open.setup.counted) {
    if (Member* const member = roster_.Find(counted.incarnation); member != nullptr) {
      member->last_step = counted.step;
      member->counted_step = counted.step;
      member->may_skip = true;
    }
  }
  TakeRestoredSteps(open.members);
  if (coordinator_ != proto::PeerId()) {
    call.out->Send(coordinator_, open.request_id, proto::ShardReady{shard_, life_});
  }
}

void ShardCore::OnCoordinatorRefusal(const proto::Refusal& refusal) {
  switch (refusal.code) {
    case StatusCode::kUnavailable:
    case StatusCode::kOverloaded:
    case StatusCode::kDeadlineExceeded:
      return;  // what it was about is sent again by its timer
    default:
      ShutDown(Status(refusal.code, refusal.message).Annotate("refused by the coordinator"));
  }
}

void ShardCore::ShutDown(Status outcome) {
  if (!is_shut_down_) {
    is_shut_down_ = true;
    outcome_ = std::move(outcome);
  }
}

void ShardCore::Refuse(const Call& call, const Status& status, Step step) {
  proto::Refusal refusal;
  refusal.code = status.code();
  refusal.message = std::string(status.message());
  refusal.step = step;
  if (status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kOverloaded) {
    const auto delay =
        std::chrono::duration_cast<std::chrono::milliseconds>(settings_.timing.retry_first);
    refusal.retry_after_ms = static_cast<uint32_t>(std::max<int64_t>(delay.count(), 1));
  }
  call.out->Send(call.peer, call.request_id, std::move(refusal));
}

void ShardCore::OnPeerClosed(proto::PeerId peer, TimePoint now, proto::Outbox* /*out*/) {
  if (peer == coordinator_) {
    coordinator_ = proto::PeerId();
    silence_.Heard(now);
    commit_peer_ = proto::PeerId();
    model_pull_.reset();
    model_answer_.reset();
    return;
  }
  if (giving_ && giving_->peer == peer) {
    EndPrecedence(now);
    giving_->peer = proto::PeerId();
    giving_->next_chunk.reset();
    giving_->next_try = now + settings_.timing.retry_first;
  }
  std::erase_if(receivers_, [&](const Receiver& receiver) { return receiver.peer == peer; });
  if (taking_ && taking_->peer == peer) {
    taking_.reset();
  }
  for (auto& [incarnation, member] : roster_.members()) {
    if (member.intake.peer == peer) {
      member.intake.peer = proto::PeerId();
    }
    if (member.waiting && member.waiting->peer == peer) {
      member.waiting.reset();  // asked for anew on the next connection
    }
    if (member.answer && member.answer->peer == peer) {
      EndAnswer(&member);
    }
    if (member.fused && member.fused->peer == peer) {
      member.fused.reset();
    }
  }
}

void ShardCore::OnTick(TimePoint now, proto::Outbox* out) {
  if (is_shut_down_) {
    return;
  }
  // When this process itself did not run for a while, nobody could be heard.
  const Duration pause = silence_.Tick(now, timing().heartbeat * 2);
  if (pause > Duration()) {
    log_->Warning("shard_stalled", {{"seconds", Seconds(pause)}});
  }
  TickGiving(now, out);
  if (checkpointer_.GiveUpIfStalled(now, pause, DiskPatience())) {
    log_->Warning("checkpoint_stalled", {{"why", checkpointer_.report().message}});
    SendCheckpointReport(out);
  }
  const bool is_gone = coordinator_ == proto::PeerId();
  if (silence_.IsTooLong(now, !is_gone, timing())) {
    ShutDown(Status::Unavailable(SilenceText(is_gone ? "gone" : "silent", silence_.Of(now))));
    return;
  }
  if (is_gone) {
    return;
  }
  if (!is_registered_ && now >= next_register_) {
    Register(now, out);
  }
  SendNotice(now, out);
  if (open_setup_ && open_setup_->setup.has_values && is_registered_ &&
      now >= open_setup_->next_ask) {
    AskForValues(now, out);
  }
  if (now >= next_heartbeat_) {
    next_heartbeat_ = now + settings_.timing.heartbeat;
    SendHeartbeat(now, out);
  }
}

std::span<const float> ShardCore::ValuesOf(ChunkKey key) const {
  const std::optional<size_t> index = store_.IndexOf(key);
  return index ? store_.ValuesOf(*index) : std::span<const float>();
}

std::span<const float> ShardCore::SlotOf(ChunkKey key, size_t slot) const {
  const std::optional<size_t> index = store_.IndexOf(key);
  return index ? store_.chunks()[*index].slots[slot].floats() : std::span<const float>();
}

Version ShardCore::VersionOf(ChunkKey key) const {
  const std::optional<size_t> index = store_.IndexOf(key);
  return index ? store_.chunks()[*index].version : 0;
}

}  // namespace ps::server
