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

#include <algorithm>
#include <utility>
#include <variant>

#include "ps/base/overloaded.h"

namespace ps::coordinator {
CoordinatorCore::CoordinatorCore(
    CoordinatorOptions options, proto::FleetActions* fleet, const Logger* log)
    : CoordinatorCore(options, MakeJobState(options), fleet, log) {}

CoordinatorCore::CoordinatorCore(
    CoordinatorOptions options,
    proto::JobState state,
    proto::FleetActions* fleet,
    const Logger* log)
    : job_(std::move(options), std::move(state), fleet, log),
      leases_(&job_),
      departures_(&job_, &leases_),
      joins_(&job_, &departures_),
      watch_(&job_, &leases_, &departures_),
      shards_(&job_),
      initial_values_(&job_),
      notices_(&job_),
      model_(&job_),
      checkpoints_(&job_),
      phases_(&job_, {&leases_, &joins_, &notices_, &model_, &checkpoints_}),
      report_(&job_, &leases_, &checkpoints_) {}

Result<std::unique_ptr<CoordinatorCore>> CoordinatorCore::Load(
    std::span<const std::byte> saved,
    CoordinatorOptions options,
    proto::FleetActions* fleet,
    const Logger* log,
    TimePoint now) {
  PS_ASSIGN(proto::JobState state, proto::DecodeJobState(saved));
  PS_TRY(CheckJobState(state, options));
  std::unique_ptr<CoordinatorCore> core(
      new CoordinatorCore(std::move(options), std::move(state), fleet, log));
  PS_TRY(core->Check());
  core->job_.Resume(now);
  core->notices_.Resume(now);
  core->phases_.Resume(now);
  core->last_tick_ = now;
  return core;
}

std::vector<std::byte> CoordinatorCore::Save(TimePoint now) const {
  proto::JobState state = job_.StateAt(now);
  notices_.SaveAt(now, &state);
  return proto::EncodeJobState(state);
}

void CoordinatorCore::Start(TimePoint now) {
  last_tick_ = now;
  phases_.Start(now);
}

void CoordinatorCore::OnPeerConnected(
    proto::PeerId peer, const proto::Hello& hello, TimePoint now, proto::Outbox* out) {
  const Call call{peer, 0, now, out};
  job_.peers.Add(peer, {hello.role, hello.node, hello.incarnation});
  if (!job_.is_working()) {
    phases_.TellToLeave(call, hello.role);
  } else if (hello.role == proto::Role::kWorker && hello.incarnation != Incarnation()) {
    joins_.OnReconnected(call, hello.incarnation);
    shards_.OnMemberConnected(call);
    Settle(call);
  }
}

void CoordinatorCore::OnMessage(
    proto::PeerId from,
    uint64_t request_id,
    proto::Message message,
    TimePoint now,
    proto::Outbox* out) {
  const Peer* const peer = job_.peers.Find(from);
  if (peer == nullptr) {
    return;  // on its way when the connection was given up
  }
  const Call call{from, request_id, now, out};
  if (!job_.is_working() && peer->role == proto::Role::kWorker) {
    phases_.OnLateMessage(call, message);
    return;
  }
  Dispatch(call, std::move(message));
  Settle(call);
}

/// Any message that is not named is refused.
void CoordinatorCore::Dispatch(const Call& call, proto::Message&& message) {
  std::visit(
      Overloaded{
          [&](const proto::RegisterShard& m) { shards_.On(call, m); },
          [&](const proto::ShardReady& m) { shards_.On(call, m); },
          [&](const proto::MembershipAck& m) { shards_.On(call, m); },
          [&](const proto::CommitAck& m) { shards_.On(call, m); },
          [&](proto::ShardHeartbeat& m) { shards_.On(call, std::move(m)); },
          [&](const proto::CheckpointReport& m) { checkpoints_.On(call, m); },
          [&](const proto::PullRequest& m) { phases_.Fail(initial_values_.On(call, m), call); },
          [&](const proto::PullReply& m) { model_.On(call, m); },
          [&](const proto::Refusal& m) { OnRefusal(call, m); },
          [&](const proto::JoinRequest& m) { joins_.On(call, m); },
          [&](const proto::LeaseRequest& m) { OnLeaseRequest(call, m); },
          [&](const proto::StepReport& m) { leases_.On(call, m); },
          [&](const proto::EvaluateReport& m) { leases_.On(call, m); },
          [&](const proto::WorkerHeartbeat& m) { OnHeartbeat(call, m); },
          [&](const proto::Goodbye& m) { departures_.On(call, m); },
          [&](const proto::StatusRequest& /*m*/) { OnStatusRequest(call); },
          [&](const proto::StopRequest& m) { OnStopRequest(call, m); },
          [&](const proto::NoticeRequest& m) { notices_.On(call, m); },
          [&](const auto& /*other*/) {
            job_.Refuse(
                call, StatusCode::kInvalidArgument, "the coordinator does not take this message");
          }},
      message);
}

void CoordinatorCore::OnRefusal(const Call& call, const proto::Refusal& message) {
  const Peer& peer = job_.peers.At(call.from);
  job_.log->Warning(
      "refused",
      {{"by", peer.node}, {"code", StatusCodeName(message.code)}, {"message", message.message}});
  if (peer.role == proto::Role::kShard) {
    model_.OnRefusal(call, message);
    phases_.Fail(shards_.OnRefusal(call, message), call);
  } else if (peer.role == proto::Role::kWorker) {
    joins_.OnRefusal(call, message);
  }
}

void CoordinatorCore::OnLeaseRequest(const Call& call, const proto::LeaseRequest& message) {
  if (joins_.TakesData(call, message)) {
    leases_.On(call, message);
  }
}

void CoordinatorCore::OnHeartbeat(const Call& call, const proto::WorkerHeartbeat& message) {
  const Incarnation incarnation = message.incarnation;
  const proto::HeartbeatReply reply{job_.membership.generation()};
  const Departure* const departure = job_.membership.FindDeparture(incarnation);
  if (departure != nullptr && departure->record->has_said_goodbye) {
    job_.Reply(call, reply);  // it waits for GoodbyeReply
    return;
  }
  Member* const member = job_.MemberOf(call, incarnation);
  if (member == nullptr) {
    return;
  }
  member->state = message.state;
  member->waits = message.waits;
  member->waits.resize(std::min(member->waits.size(), kWaitsPerPeerMax));
  member->last_heartbeat = call.now;
  member->record->stats = message.stats;
  if (message.state == proto::WorkerState::kDraining && !member->record->is_draining) {
    member->record->is_draining = true;
    leases_.Track(incarnation);
  }
  job_.Reply(call, reply);
}

void CoordinatorCore::OnStatusRequest(const Call& call) {
  if (job_.HasRole(call, proto::Role::kControl)) {
    job_.Reply(call, proto::StatusReply{StatusAt(call.now)});
  }
}

void CoordinatorCore::OnStopRequest(const Call& call, const proto::StopRequest& message) {
  if (job_.HasRole(call, proto::Role::kControl)) {
    job_.Reply(call, proto::StopReply{});
    RequestStop(message.is_immediate, "stopped by request", call.now, call.out);
  }
}

void CoordinatorCore::OnPeerClosed(proto::PeerId peer, TimePoint now, proto::Outbox* out) {
  const Peer* const known = job_.peers.Find(peer);
  if (known == nullptr) {
    return;
  }
  const Call call{proto::PeerId(), 0, now, out};
  const Incarnation incarnation = known->incarnation;
  job_.peers.Remove(peer);
  shards_.OnClosed(peer, now);
  initial_values_.OnClosed(peer);
  joins_.OnClosed(peer, incarnation, call);
  Settle(call);
}

void CoordinatorCore::OnDrained(proto::PeerId peer, TimePoint now, proto::Outbox* out) {
  if (job_.is_working()) {
    const Call call{peer, 0, now, out};
    phases_.Fail(initial_values_.OnDrained(call), call);
  }
}

void CoordinatorCore::OnProcessExited(
    const proto::ProcessEnd& end, TimePoint now, proto::Outbox* out) {
  const Call call{proto::PeerId(), 0, now, out};
  if (!job_.is_working()) {
    if (end.kind == proto::ProcessKind::kServer) {
      model_.OnServerLost(end.index, end.description);
      Settle(call);
    }
    return;
  }
  if (end.kind == proto::ProcessKind::kServer) {
    phases_.Fail(shards_.OnServerLost(end.index, end.pid, end.description, call), call);
    model_.OnServerLost(end.index, end.description);
  } else {
    OnWorkerExited(end, call);
  }
  Settle(call);
}

void CoordinatorCore::OnWorkerExited(const proto::ProcessEnd& end, const Call& call) {
  const WorkerId seat(end.index);
  const std::string why =
      end.last_words.empty() ? end.description : end.description + ": " + end.last_words;
  const Member* const member = job_.membership.FindSeat(seat);
  if (member != nullptr) {
    const MemberRecord& record = *member->record;
    if (end.pid != 0 && record.pid != 0 && end.pid != record.pid) {
      return;  // an earlier process of the seat
    }
    if (end.is_failure) {
      departures_.RemoveFailed(record.incarnation, why, call);
    } else {
      departures_.RemoveLost(record.incarnation, why, call);
    }
  } else if (job_.seats.IsExpected(seat)) {
    job_.log->Warning("worker_never_joined", {{"worker", seat.value}, {"reason", why}});
    job_.seats.StopExpecting(seat);
    if (end.is_failure) {
      job_.seats.NoteFailure(seat, why);
    }
  }
}

void CoordinatorCore::OnManifestWritten(
    uint64_t checkpoint, const Status& status, TimePoint now, proto::Outbox* out) {
  const Call call{proto::PeerId(), 0, now, out};
  checkpoints_.OnManifestWritten(checkpoint, status, call);
  Settle(call);
}

/// When this process itself did not run for a while, nobody could be heard: that is nobody's fault.
void CoordinatorCore::ForgiveOwnSilence(TimePoint now) {
  const Duration gap = now - last_tick_;
  last_tick_ = now;
  if (gap <= job_.timing.heartbeat * 2) {
    return;
  }
  job_.log->Warning("coordinator_stalled", {{"seconds", Seconds(gap)}});
  for (auto& [incarnation, member] : job_.membership.members()) {
    member.last_heard += gap;
    member.last_progress += gap;
  }
  for (Shard& shard : job_.shards.all()) {
    shard.last_heard += gap;
  }
}

void CoordinatorCore::OnTick(TimePoint now, proto::Outbox* out) {
  const Call call{proto::PeerId(), 0, now, out};
  ForgiveOwnSilence(now);
  if (job_.is_working()) {
    job_.meter.OnTick(now, job_.ledger.samples_counted());
    phases_.Fail(shards_.CheckSilence(call), call);
  }
  if (job_.is_working()) {
    phases_.OnTick(call);
  }
  if (job_.is_working()) {
    notices_.OnTick(call);
    watch_.OnTick(call);
    shards_.OnTick(call);
  }
  checkpoints_.OnTick(call);
  Settle(call);
}

void CoordinatorCore::RequestStop(
    bool is_immediate, const std::string& why, TimePoint now, proto::Outbox* out) {
  const Call call{proto::PeerId(), 0, now, out};
  phases_.RequestStop(is_immediate, why, call);
  Settle(call);
}

void CoordinatorCore::Settle(const Call& call) {
  if (job_.is_working()) {
    departures_.Settle(call);  // may make room for those who ask
    phases_.Fail(joins_.AdmitPending(call), call);
  }
  if (job_.is_working()) {
    phases_.Fail(phases_.CheckFailures(), call);
    phases_.Fail(phases_.CheckDivergence(), call);
  }
  if (job_.is_working()) {
    phases_.AdvanceStart(call);
    joins_.Answer(call);
    leases_.FinishEpochs();
    leases_.Serve(call);
    if (leases_.TryCommit(call)) {
      shards_.SendCommits(call);
      checkpoints_.OpenIfDue(call);
      leases_.FinishEpochs();
      leases_.Serve(call);
    }
    phases_.FireFaults(call);
    shards_.Broadcast(call);
    phases_.AdvanceEnd(call);
  }
  if (job_.state.phase == JobPhase::kLeaving) {
    phases_.AdvanceLeaving(call);
  }
}

int CoordinatorCore::exit_code() const {
  return outcome().ok() || outcome().code() == StatusCode::kCancelled ? 0 : 1;
}

Status CoordinatorCore::Check() const {
  PS_TRY(CheckJobState(job_.state, job_.options));
  PS_TRY(job_.ledger.Check());
  return job_.membership.Check();
}

}  // namespace ps::coordinator
