// The frame of the core: events come in, are handed to the part they concern, and Settle then does
// all that follows from them.
//
// Invariants:
// - Whatever is sent and needs an answer is kept as state and sent again until it is answered;
//   whatever is received may come again, late, or on a connection that was given up.
// - A sample range is leased again only when every shard has fenced its former holder.
// - A connection is granted at most one incarnation.
// - Input is never trusted: what does not fit is refused, and nothing has changed then.

#include "ps/coordinator/coordinator_core.h"

#include <utility>
#include <variant>

#include "ps/coordinator/placement.h"

namespace ps::coordinator {

CoordinatorCore::CoordinatorCore(CoordinatorOptions options, FleetActions* fleet, const Logger* log)
    : options_(std::move(options)),
      timing_(proto::Timing::FromMaxDetect(
          FromSeconds(static_cast<double>(options_.config.fleet.max_detect_s)))),
      placement_(PlaceChunks(
          options_.tensors,
          uint64_t{options_.config.servers.chunk_kib} << 10U,
          options_.config.servers.count * options_.config.servers.shards_per_server)),
      config_json_(proto::PrintJobConfig(options_.config)),
      fleet_(fleet),
      log_(log),
      random_(options_.config.train.seed),
      shards_(
          options_.config.servers.count * options_.config.servers.shards_per_server,
          options_.config.servers.shards_per_server,
          placement_),
      membership_(shards_.size()),
      seats_(options_.config),
      ledger_(options_.train_samples, options_.config.train.epochs),
      faults_(options_.config.faults),
      meter_(options_.config.train.minibatch) {}

void CoordinatorCore::Start(TimePoint now) {
  started_at_ = now;
  last_tick_ = now;
  no_worker_since_ = now;
  log_->Info(
      "job_started",
      {{"name", options_.config.name},
       {"shards", shards_.size()},
       {"chunks", placement_.chunks.size()},
       {"workers", seats_.size()},
       {"max_detect_s", Seconds(timing_.detect)}});
  for (uint32_t server = 0; server < options_.config.servers.count; ++server) {
    fleet_->StartServer(server);
  }
  for (uint32_t i = 0; i < seats_.initial(); ++i) {
    seats_.Expect(WorkerId(i));
    fleet_->StartWorker(WorkerId(i), seats_.GroupOf(WorkerId(i)));
  }
}

void CoordinatorCore::Reply(const Call& call, proto::Message message) {
  call.out->Send(call.from, call.request_id, std::move(message));
}

void CoordinatorCore::Refuse(
    const Call& call, StatusCode code, const std::string& text, Step step) {
  proto::Refusal refusal;
  refusal.code = code;
  refusal.message = text;
  refusal.step = step;
  Reply(call, std::move(refusal));
}

bool CoordinatorCore::HasRole(const Call& call, proto::Role role) {
  if (peers_.at(call.from).role == role) {
    return true;
  }
  Refuse(call, StatusCode::kInvalidArgument, "this message is not for your role to send");
  return false;
}

void CoordinatorCore::ClosePeer(proto::PeerId peer, const Call& call) {
  if (peers_.erase(peer) != 0) {
    pending_joins_.erase(peer);
    call.out->Close(peer);
  }
}

void CoordinatorCore::OnPeerConnected(
    proto::PeerId peer, const proto::Hello& hello, TimePoint now, proto::Outbox* out) {
  const Call call{peer, 0, now, out};
  peers_[peer] = {hello.role, hello.node, hello.incarnation};
  if (!IsWorking()) {
    if (hello.role == proto::Role::kWorker ||
        (hello.role == proto::Role::kShard && is_told_shards_)) {
      Reply(call, proto::Shutdown{leave_reason_});
    }
    return;
  }
  if (hello.role != proto::Role::kWorker || hello.incarnation == Incarnation()) {
    return;
  }
  Member* const member = membership_.Find(hello.incarnation);
  if (member == nullptr || !member->is_admitted) {
    return;  // fenced meanwhile; what it sends is refused
  }
  if (member->peer != proto::PeerId()) {
    ClosePeer(member->peer, call);
  }
  member->peer = peer;
  member->last_heard = now;
  log_->Info("worker_reconnected", {{"worker", member->seat.value}});
  Settle(call);
}

void CoordinatorCore::OnMessage(
    proto::PeerId from,
    uint64_t request_id,
    proto::Message message,
    TimePoint now,
    proto::Outbox* out) {
  const auto peer = peers_.find(from);
  if (peer == peers_.end()) {
    return;  // on its way when the connection was given up
  }
  const Call call{from, request_id, now, out};
  if (!IsWorking() && peer->second.role == proto::Role::kWorker) {
    if (const auto* beat = std::get_if<proto::WorkerHeartbeat>(&message)) {
      TakeLastStats(call, *beat);
    }
    Reply(call, proto::Shutdown{leave_reason_});
    return;
  }
  std::visit([&](const auto& m) { On(call, m); }, message);
  Settle(call);
}

template <typename T>
void CoordinatorCore::On(const Call& call, const T& /*message*/) {
  Refuse(call, StatusCode::kInvalidArgument, "the coordinator does not take this message");
}

void CoordinatorCore::On(const Call& call, const proto::StatusRequest& /*message*/) {
  if (HasRole(call, proto::Role::kControl)) {
    Reply(call, proto::StatusReply{StatusAt(call.now)});
  }
}

void CoordinatorCore::On(const Call& call, const proto::StopRequest& message) {
  if (HasRole(call, proto::Role::kControl)) {
    Reply(call, proto::StopReply{});
    RequestStop(message.is_immediate, "stopped by request", call.now, call.out);
  }
}

void CoordinatorCore::OnPeerClosed(proto::PeerId peer, TimePoint now, proto::Outbox* out) {
  const auto it = peers_.find(peer);
  if (it == peers_.end()) {
    return;
  }
  const Call call{proto::PeerId(), 0, now, out};
  const Incarnation incarnation = it->second.incarnation;
  peers_.erase(it);
  pending_joins_.erase(peer);
  if (Shard* const shard = shards_.FindPeer(peer); shard != nullptr) {
    shard->peer = proto::PeerId();
    shard->last_heard = now;
    if (IsWorking()) {
      log_->Warning("shard_disconnected", {{"shard", shard->shard.value}});
    }
  }
  Member* const member = membership_.Find(incarnation);
  if (member != nullptr && member->peer == peer) {
    member->peer = proto::PeerId();
    member->last_heard = now;
    if (!member->is_admitted) {
      // It does not know this incarnation and comes back without one.
      RemoveMember(incarnation, LeaveKind::kLeft, "disconnected while joining", call);
    }
  }
  Settle(call);
}

void CoordinatorCore::OnProcessExited(const ProcessEnd& end, TimePoint now, proto::Outbox* out) {
  const Call call{proto::PeerId(), 0, now, out};
  if (!IsWorking()) {
    return;
  }
  if (end.kind == ProcessKind::kServer) {
    FailLostServer(end.index, end.pid, end.description, call);
    Settle(call);
    return;
  }
  const WorkerId seat(end.index);
  const Member* const member = membership_.FindSeat(seat);
  if (member != nullptr) {
    if (end.pid == 0 || member->pid == 0 || end.pid == member->pid) {
      RemoveLost(member->incarnation, end.description, call);
    }
  } else if (seats_.IsExpected(seat)) {
    log_->Warning("worker_never_joined", {{"worker", seat.value}, {"reason", end.description}});
    seats_.StopExpecting(seat);
    seats_.NoteEnd(seat, end.description);
  }
  Settle(call);
}

/// When this process itself did not run for a while, nobody could be heard: that is nobody's fault.
void CoordinatorCore::ForgiveOwnSilence(TimePoint now) {
  const Duration gap = now - last_tick_;
  last_tick_ = now;
  if (gap <= timing_.heartbeat * 2) {
    return;
  }
  log_->Warning("coordinator_stalled", {{"seconds", Seconds(gap)}});
  for (auto& [incarnation, member] : membership_.members()) {
    member.last_heard += gap;
    member.last_progress += gap;
  }
  for (Shard& shard : shards_.all()) {
    shard.last_heard += gap;
  }
}

void CoordinatorCore::OnTick(TimePoint now, proto::Outbox* out) {
  const Call call{proto::PeerId(), 0, now, out};
  ForgiveOwnSilence(now);
  if (IsWorking()) {
    meter_.OnTick(now, ledger_.samples_counted());
    CheckShardSilence(call);
    CheckJoinTimeout(call);
  }
  if (IsWorking()) {
    CheckWorkerSilence(call);
    FireKills(call);
    ResendToShards(call);
  }
  Settle(call);
}

void CoordinatorCore::Settle(const Call& call) {
  if (IsWorking()) {
    AdmitPending(call);
  }
  if (IsWorking()) {
    ResolveDepartures(call);
    AdvanceStart(call);
    AnswerJoins(call);
    FinishEpochs();
    ServeLeases(call);
    if (TryCommit(call)) {
      FinishEpochs();
      ServeLeases(call);
    }
    FireFaults(call);
    Broadcast(call);
    AdvanceEnd(call);
  }
  if (phase_ == Phase::kLeaving) {
    AdvanceLeaving(call);
  }
}

bool CoordinatorCore::is_finished() const {
  return phase_ == Phase::kFinished;
}

const Status& CoordinatorCore::outcome() const {
  return outcome_;
}

int CoordinatorCore::exit_code() const {
  return outcome_.ok() || outcome_.code() == StatusCode::kCancelled ? 0 : 1;
}

Status CoordinatorCore::Check() const {
  PS_TRY(ledger_.Check());
  PS_TRY(membership_.Check());
  for (const auto& [id, lease] : ledger_.state().leases) {
    const auto departure = membership_.departures().find(lease.holder);
    const bool is_departing =
        departure != membership_.departures().end() && !departure->second.is_resolved;
    if (membership_.Find(lease.holder) == nullptr && !is_departing) {
      return Status::Corruption("lease " + std::to_string(id.value) + " has no holder");
    }
  }
  for (const Evaluation& evaluation : evaluations_.pending()) {
    for (const EvaluationPart& part : evaluation.parts) {
      if (!part.is_done && part.lease != LeaseId() && membership_.Find(part.holder) == nullptr) {
        return Status::Corruption(
            "evaluation lease " + std::to_string(part.lease.value) + " has no holder");
      }
    }
  }
  return Status::Ok();
}

}  // namespace ps::coordinator
