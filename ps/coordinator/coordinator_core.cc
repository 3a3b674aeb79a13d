// The frame of the core: events come in, are handed to the part they concern, and Settle then does
// all that follows from them.
//
// Invariants:
// - Whatever is sent and needs an answer is kept as state and sent again until it is answered;
//   whatever is received may come again, late, or on a connection that was given up.
// - A sample range is leased again only when every shard has fenced its former holder.
// - A connection is granted at most one incarnation.
// - Input is never trusted: what does not fit is refused, and nothing has changed then.
// - A claim counts from the role that it is about, which the shell has checked: terms from servers,
//   incarnations and seats from workers, requests about the job from control.

#include "ps/coordinator/coordinator_core.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "ps/base/overloaded.h"
#include "ps/coordinator/workers/trends.h"
#include "ps/crypto/worker_token.h"

namespace ps::coordinator {
CoordinatorCore::CoordinatorCore(
    CoordinatorOptions options, proto::FleetActions* fleet, const Logger* log)
    : CoordinatorCore(options, MakeJobState(options), fleet, log) {}

CoordinatorCore::CoordinatorCore(
    CoordinatorOptions options,
    proto::JobState state,
    proto::FleetActions* fleet,
    const Logger* log)
    : parts_(std::make_unique<Parts>(std::move(options), std::move(state), fleet, log)) {}

CoordinatorCore::Parts::Parts(
    CoordinatorOptions options, JobState state, proto::FleetActions* fleet, const Logger* log)
    : job(std::move(options), std::move(state), fleet, log),
      leases(&job),
      departures(&job, &leases),
      joins(&job, &departures),
      watch(
          {job.timing,
           FromSeconds(double{job.options.config.fleet.join_timeout_s}),
           job.settings(),
           job.evaluations,
           job.speed,
           job.shards_silent_at,
           &job.membership,
           &leases,
           &departures}),
      servers(&job),
      shards(&job, &servers),
      initial_values(job.options, job.state.placement, &job.peers, &job.shards),
      checkpoints(&job),
      best(&job, &checkpoints),
      handovers(&job, &servers, &checkpoints),
      moves(&job, &checkpoints),
      servers_desk(&job, &checkpoints, &moves),
      pauses(&job, &checkpoints),
      park(&job, &checkpoints, &joins, &servers_desk),
      modes(&job, &checkpoints, &leases),
      settings(&job),
      notices(&job, &handovers),
      prewarm(&job, &checkpoints),
      fleet_desk(&job, &notices, &servers_desk, &prewarm, &park),
      model(&job, &best),
      finish(&job, &leases, &checkpoints, &best),
      phases(&job, {&leases, &joins, &notices, &model, &checkpoints, &finish}),
      report(&job, &leases, &checkpoints, &best) {}

Result<std::unique_ptr<CoordinatorCore>> CoordinatorCore::Load(
    proto::JobState state,
    CoordinatorOptions options,
    proto::FleetActions* fleet,
    const Logger* log,
    TimePoint now) {
  PS_TRY(CheckJobState(state, options));
  ++state.restarts;
  std::unique_ptr<CoordinatorCore> core(
      new CoordinatorCore(std::move(options), std::move(state), fleet, log));
  PS_TRY(core->Check());
  core->parts_->job.Resume(now);
  core->parts_->notices.Resume(now);
  core->parts_->fleet_desk.Resume();
  core->parts_->phases.Resume(now);
  core->last_event_ = now;
  return core;
}

void CoordinatorCore::Start(TimePoint now) {
  last_event_ = now;
  parts_->phases.Start(now);
}

void CoordinatorCore::StartMissing(std::span<const proto::LaunchRecord> launches, TimePoint now) {
  parts_->phases.StartMissing(launches, now);
  parts_->servers_desk.NoteLaunches(launches, now);
}

void CoordinatorCore::OnPeerConnected(
    proto::PeerId peer, const proto::Hello& hello, TimePoint now, proto::Outbox* out) {
  if (hello.term > term() && hello.role == proto::Role::kShard) {
    is_outranked_ = true;
    parts_->job.log->Error(
        "outranked", {{"node", hello.node}, {"term", term()}, {"known", hello.term}});
    return;
  }
  ForgiveOwnSilence(now);
  const bool is_worker = hello.role == proto::Role::kWorker;
  const Incarnation incarnation = is_worker ? hello.incarnation : Incarnation();
  const Call call{peer, 0, now, out};
  const std::optional<WorkerId> own_seat = crypto::SeatOfToken(hello.token);
  if (const Member* const member = parts_->job.membership.Find(incarnation);
      own_seat && member != nullptr && member->record->seat != *own_seat) {
    parts_->job.peers.Add(peer, {hello.role, hello.node, Incarnation(), own_seat});
    parts_->job.Refuse(call, StatusCode::kInvalidArgument, OtherSeatText(*own_seat));
    out->Close(peer);
    return;
  }
  parts_->job.peers.Add(peer, {hello.role, hello.node, incarnation, own_seat});
  if (!parts_->job.is_working()) {
    parts_->phases.TellToLeave(call, hello.role);
  } else if (incarnation != Incarnation()) {
    parts_->joins.OnReconnected(call, incarnation);
    parts_->shards.OnMemberConnected(call);
    Settle(call);
  }
}

void CoordinatorCore::OnMessage(
    proto::PeerId from,
    uint64_t request_id,
    proto::Message message,
    TimePoint now,
    proto::Outbox* out) {
  ForgiveOwnSilence(now);
  const Peer* const peer = parts_->job.peers.Find(from);
  if (peer == nullptr) {
    return;  // on its way when the connection was given up
  }
  const Call call{from, request_id, now, out};
  if (!parts_->job.is_working() && peer->role == proto::Role::kWorker) {
    parts_->phases.OnLateMessage(call, message);
    return;
  }
  if (IsGoingBack() && peer->role != proto::Role::kControl) {
    return;  // of what is undone
  }
  Dispatch(call, std::move(message));
  Settle(call);
}

/// Any message that is not named is refused.
void CoordinatorCore::Dispatch(const Call& call, proto::Message&& message) {
  std::visit(
      Overloaded{
          [&](const proto::RegisterShard& m) {
            if (!parts_->park.TakesServer(call, m) &&
                !parts_->servers_desk.TakesStranger(call, m)) {
              parts_->shards.On(call, m);
            }
          },
          [&](const proto::ShardReady& m) { parts_->shards.On(call, m); },
          [&](const proto::MembershipAck& m) { parts_->shards.On(call, m); },
          [&](const proto::CommitAck& m) { parts_->shards.On(call, m); },
          [&](proto::ShardHeartbeat& m) { parts_->shards.On(call, std::move(m)); },
          [&](const proto::CheckpointReport& m) { parts_->checkpoints.On(call, m); },
          [&](const proto::RestoreFailed& m) { OnRestoreFailed(call, m); },
          [&](const proto::ServerNotice& m) { parts_->handovers.On(call, m); },
          [&](const proto::PullRequest& m) {
            parts_->phases.Fail(parts_->initial_values.On(call, m), call);
          },
          [&](const proto::PullReply& m) { parts_->model.On(call, m); },
          [&](const proto::ChunksGiven& m) { parts_->moves.On(call, m); },
          [&](const proto::Refusal& m) { OnRefusal(call, m); },
          [&](const proto::JoinRequest& m) { parts_->joins.On(call, m); },
          [&](const proto::LeaseRequest& m) { OnLeaseRequest(call, m); },
          [&](const proto::StepReport& m) { parts_->leases.On(call, m); },
          [&](const proto::CutLease& m) { parts_->leases.On(call, m); },
          [&](const proto::EvaluateReport& m) { parts_->leases.On(call, m); },
          [&](const proto::WorkerHeartbeat& m) { OnHeartbeat(call, m); },
          [&](const proto::Goodbye& m) { parts_->departures.On(call, m); },
          [&](const proto::StatusRequest& /*m*/) { OnStatusRequest(call); },
          [&](const proto::StopRequest& m) { OnStopRequest(call, m); },
          [&](const proto::NoticeRequest& m) { parts_->notices.On(call, m); },
          [&](const proto::ScaleRequest& m) { parts_->fleet_desk.On(call, m); },
          [&](const proto::PauseRequest& m) { parts_->pauses.On(call, m); },
          [&](const proto::ModeRequest& m) { parts_->modes.On(call, m); },
          [&](const proto::SetRequest& m) { parts_->settings.On(call, m); },
          [&](const auto& /*other*/) {
            parts_->job.Refuse(
                call, StatusCode::kInvalidArgument, "the coordinator does not take this message");
          }},
      message);
}

void CoordinatorCore::OnRefusal(const Call& call, const proto::Refusal& message) {
  const Peer& peer = parts_->job.peers.At(call.from);
  parts_->job.log->Warning(
      "refused",
      {{"by", peer.node}, {"code", StatusCodeName(message.code)}, {"message", message.message}});
  if (peer.role == proto::Role::kShard) {
    parts_->model.OnRefusal(call, message);
    parts_->phases.Fail(parts_->shards.OnRefusal(call, message), call);
  } else if (peer.role == proto::Role::kWorker) {
    parts_->joins.OnRefusal(call, message);
  }
}

void CoordinatorCore::OnRestoreFailed(const Call& call, const proto::RestoreFailed& message) {
  if (!parts_->shards.IsRestoring(call, message)) {
    return;
  }
  if (!parts_->job.is_working()) {
    // It would be asked to restore the same for ever, and the run waits for its values.
    parts_->model.GiveUp(
        fmt::format("shard {} can't be restored: {}", message.shard.value, message.message));
    return;
  }
  const std::optional<proto::KeptCheckpoint> given_up = parts_->checkpoints.GiveUpKept(
      message.checkpoint,
      Status(message.code, fmt::format("shard {}: {}", message.shard.value, message.message)));
  parts_->phases.Fail(parts_->shards.RestoreOlder(message.shard, given_up, call), call);
}

void CoordinatorCore::OnLeaseRequest(const Call& call, const proto::LeaseRequest& message) {
  if (parts_->joins.TakesData(call, message)) {
    parts_->leases.On(call, message);
  }
}

void CoordinatorCore::OnHeartbeat(const Call& call, const proto::WorkerHeartbeat& message) {
  const Incarnation incarnation = message.incarnation;
  const proto::HeartbeatReply reply{parts_->job.membership.generation()};
  const Departure* const departure = parts_->job.membership.FindDeparture(incarnation);
  if (departure != nullptr && departure->record->has_said_goodbye) {
    parts_->job.Reply(call, reply);  // it waits for GoodbyeReply
    return;
  }
  Member* const member = parts_->job.MemberOf(call, incarnation);
  if (member == nullptr) {
    return;
  }
  member->state = message.state;
  member->waits = message.waits;
  member->waits.resize(std::min(member->waits.size(), kWaitsPerPeerMax));
  member->figures = message.figures;
  member->last_heartbeat = call.now;
  if (message.is_at_risk != member->record->is_at_risk) {
    parts_->job.membership.Edit(*member).is_at_risk = message.is_at_risk;
  }
  NoteIgnoredNotice(member, message.ignored);
  parts_->job.batches.Note(
      incarnation, member->record->minibatch, member->record->stats, message.stats);
  parts_->job.NoteStats(member, message.stats, call.now);
  if (message.minibatches > member->minibatches) {
    member->last_progress = call.now;  // within a step
  }
  member->minibatches = message.minibatches;
  if (message.state == proto::WorkerState::kDraining && !member->record->is_draining) {
    parts_->job.membership.Edit(*member).is_draining = true;
    parts_->leases.Track(incarnation);
  }
  if (parts_->leases.IsOwingWork(*member)) {
    parts_->shards.OnMemberHeartbeat(*member, call);
  }
  parts_->moves.OnMemberHeartbeat(call, message.placement);
  parts_->job.Reply(call, reply);
}

/// Machines of one set hear of each other's ends: the first of them tells of it for all.
void CoordinatorCore::NoteIgnoredNotice(Member* member, const std::string& what) {
  if (what == member->ignored_notice) {
    return;
  }
  const bool is_known = std::ranges::any_of(
      parts_->job.membership.members(),
      [&](const auto& entry) { return entry.second.ignored_notice == what; });
  member->ignored_notice = what;
  if (!what.empty() && !is_known) {
    parts_->job.events.Tell(
        proto::EventCode::kNoticeIgnored,
        {{"worker", member->record->seat.value}, {"host", member->record->host}, {"what", what}});
  }
}

void CoordinatorCore::OnStatusRequest(const Call& call) {
  if (parts_->job.HasRole(call, proto::Role::kControl)) {
    parts_->job.Reply(call, proto::StatusReply{StatusAt(call.now)});
  }
}

void CoordinatorCore::OnStopRequest(const Call& call, const proto::StopRequest& message) {
  if (parts_->job.HasRole(call, proto::Role::kControl)) {
    parts_->job.Reply(call, proto::StopReply{});
    RequestStop(message.is_immediate, "stopped by request", call.now, call.out);
  }
}

void CoordinatorCore::OnPeerClosed(proto::PeerId peer, TimePoint now, proto::Outbox* out) {
  ForgiveOwnSilence(now);
  const Peer* const known = parts_->job.peers.Find(peer);
  if (known == nullptr) {
    return;
  }
  const Call call{proto::PeerId(), 0, now, out};
  const Incarnation incarnation = known->incarnation;
  parts_->job.peers.Remove(peer);
  parts_->shards.OnClosed(peer, now);
  parts_->servers_desk.OnClosed(peer);
  parts_->initial_values.OnClosed(peer);
  parts_->joins.OnClosed(peer, incarnation, call);
  Settle(call);
}

void CoordinatorCore::OnDrained(proto::PeerId peer, TimePoint now, proto::Outbox* out) {
  ForgiveOwnSilence(now);
  if (parts_->job.is_working()) {
    const Call call{peer, 0, now, out};
    parts_->phases.Fail(parts_->initial_values.OnDrained(call), call);
  }
}

void CoordinatorCore::OnProcessExited(
    const proto::ProcessEnd& end, TimePoint now, proto::Outbox* out) {
  ForgiveOwnSilence(now);
  const Call call{proto::PeerId(), 0, now, out};
  if (!parts_->job.is_working()) {
    // Only the process that has the place has something of the model.
    if (end.kind == proto::ProcessKind::kServer &&
        parts_->job.shards.HasPlace(end.index, end.launch)) {
      parts_->model.OnServerLost(end.index, end.description);
      Settle(call);
    }
    return;
  }
  if (end.kind == proto::ProcessKind::kServer) {
    OnServerExited(end, call);
  } else {
    OnWorkerExited(end, call);
  }
  Settle(call);
}

void CoordinatorCore::OnServerExited(const proto::ProcessEnd& end, const Call& call) {
  if (parts_->servers_desk.TakesEnd(end, call)) {
    return;
  }
  const ShardTable& shards = parts_->job.shards;
  if (end.launch != LaunchId() && shards.SuccessorOf(end.index) == end.launch) {
    parts_->handovers.OnSuccessorEnded(end);
  } else if (shards.HasPlace(end.index, end.launch)) {
    parts_->phases.Fail(parts_->servers.OnServerLost(end.index, end.description, call), call);
    parts_->model.OnServerLost(end.index, end.description);
  }  // else an end that has been dealt with, or of a process that has no place
}

void CoordinatorCore::OnWorkerExited(const proto::ProcessEnd& end, const Call& call) {
  const WorkerId seat(end.index);
  const bool is_newest = end.launch == parts_->job.seats.LaunchOf(seat);
  if (is_newest) {
    parts_->job.seats.NoteEnd(seat);
    parts_->joins.NoteEnd(seat, end.launch);
  }
  const std::string why =
      end.last_words.empty() ? end.description : end.description + ": " + end.last_words;
  // A program that ends by itself has not done its part, whatever it says.
  const bool is_script = !parts_->job.options.config.worker.program.empty();
  const bool has_failed = end.is_failure || (end.is_clean && is_script);
  const Member* const member = parts_->job.membership.FindLaunch(end.launch);
  if (member != nullptr) {
    const Incarnation incarnation = member->record->incarnation;
    if (has_failed) {
      parts_->departures.RemoveFailed(incarnation, why, call);
    } else {
      parts_->departures.RemoveLost(incarnation, why, call);
    }
  } else if (!is_newest) {
    return;  // an earlier process of the seat: another one has it, or is to come
  } else if (parts_->job.seats.IsExpected(seat)) {
    if (!parts_->job.GiveUpReturn(seat, why)) {
      parts_->job.events.Tell(
          proto::EventCode::kWorkerNeverJoined, {{"worker", seat.value}, {"reason", why}});
    }
    if (has_failed) {
      parts_->job.seats.NoteFailure(seat, why);
      parts_->job.places.NoteFailure(seat, Places::Cause::kProgram, why, call.now);
    } else if (end.is_place) {
      parts_->job.places.NoteFailure(seat, Places::Cause::kPlace, why, call.now);
    }
    return;
  }
  if (!has_failed && !end.is_place) {
    parts_->job.places.NoteFree(seat, call.now);
  }
}

void CoordinatorCore::OnManifestWritten(
    uint64_t checkpoint, const Status& status, TimePoint now, proto::Outbox* out) {
  ForgiveOwnSilence(now);
  const Call call{proto::PeerId(), 0, now, out};
  parts_->checkpoints.OnManifestWritten(checkpoint, status, call);
  Settle(call);
}

/// When this process itself did not run for a while, nobody could be heard: that is nobody's fault.
/// Called before whatever wakes it is dealt with.
void CoordinatorCore::ForgiveOwnSilence(TimePoint now) {
  const Duration gap = now - std::exchange(last_event_, now);
  if (gap <= parts_->job.timing.heartbeat * 2) {
    return;
  }
  parts_->job.events.Tell(proto::EventCode::kCoordinatorStalled, {{"seconds", Seconds(gap)}});
  for (auto& [incarnation, member] : parts_->job.membership.members()) {
    member.last_heard += gap;
    member.last_progress += gap;
  }
  for (Shard& shard : parts_->job.shards.all()) {
    shard.last_heard += gap;
  }
}

void CoordinatorCore::NoteCrowd(TimePoint now) {
  const proto::Timing& timing = parts_->job.timing;
  if (now - std::exchange(crowd_at_, now) > timing.detect) {
    crowd_forgiven_ = Duration::zero();
  }
  if (crowd_forgiven_ >= timing.orphan) {
    return;
  }
  crowd_forgiven_ += timing.tick;
  for (auto& [incarnation, member] : parts_->job.membership.members()) {
    member.last_heard += member.peer == proto::PeerId() ? timing.tick : Duration::zero();
  }
  for (Shard& shard : parts_->job.shards.all()) {
    shard.last_heard += shard.peer == proto::PeerId() ? timing.tick : Duration::zero();
  }
}

void CoordinatorCore::OnTick(TimePoint now, proto::Outbox* out) {
  const Call call{proto::PeerId(), 0, now, out};
  ForgiveOwnSilence(now);
  parts_->job.cost.Add(parts_->job.UsdPerHour(), now);
  parts_->job.traffic.Note(parts_->job.state.traffic.usd, now);
  if (IsGoingBack()) {
    LimitGoingBack(call);
    Settle(call);
    return;
  }
  if (parts_->job.is_working()) {
    parts_->job.meter.OnTick(now, parts_->job.ledger.samples_counted());
    TellOfTrends(now, &parts_->job);
    parts_->phases.Fail(parts_->servers.OnTick(call), call);
  }
  if (parts_->job.is_working()) {
    parts_->phases.OnTick(call);
  }
  if (parts_->job.is_working()) {
    parts_->notices.OnTick(call);
    parts_->fleet_desk.OnTick(call);
    parts_->pauses.OnTick(call);
    parts_->park.OnTick(call);
    parts_->phases.Fail(parts_->handovers.OnTick(call), call);
  }
  if (parts_->job.is_working() && !IsGoingBack()) {
    parts_->servers_desk.OnTick(call);
    ChangeShardsIfWanted(call);
  }
  if (IsGoingBack()) {
    Settle(call);
    return;
  }
  if (parts_->job.is_working()) {
    parts_->watch.OnTick(call);
  }
  if (parts_->job.needs_shards()) {
    parts_->shards.OnTick(call);
    parts_->moves.OnTick(call);
  }
  parts_->checkpoints.OnTick(call);
  Settle(call);
}

void CoordinatorCore::RequestStop(
    bool is_immediate, const std::string& why, TimePoint now, proto::Outbox* out) {
  ForgiveOwnSilence(now);
  const Call call{proto::PeerId(), 0, now, out};
  if (!is_immediate && parts_->job.options.model_sink != nullptr) {
    parts_->park.Wake("the run stops, and its model is to be left", call);
  }
  parts_->phases.RequestStop(is_immediate, why, call);
  Settle(call);
}

Result<uint64_t> CoordinatorCore::CheckpointNow(TimePoint now, proto::Outbox* out) {
  ForgiveOwnSilence(now);
  const Call call{proto::PeerId(), 0, now, out};
  const Job& job = parts_->job;
  if (!parts_->checkpoints.is_on()) {
    return Status::InvalidArgument("the job has no checkpoints; set checkpoint.enabled");
  }
  if (!job.is_working()) {
    return Status::InvalidArgument("the run is ending");
  }
  const bool was_open = parts_->checkpoints.is_open();
  parts_->checkpoints.OpenSoon(call);
  const bool has_begun = !was_open && parts_->checkpoints.is_open();
  const uint64_t begun = has_begun ? job.state.checkpoints.next - 1 : 0;
  const bool comes_soon = !was_open && parts_->checkpoints.IsDue(now);
  Settle(call);
  if (begun == 0 && !comes_soon) {
    return Status::Unavailable(
        was_open ? "a checkpoint is under way"
                 : "no checkpoint can begin now: training has not begun, the job waits for a "
                   "server, or chunks move");
  }
  return begun;
}

Status CoordinatorCore::OnDecision(
    proto::Asker by, const proto::FleetDecision& decision, TimePoint now, proto::Outbox* out) {
  ForgiveOwnSilence(now);
  const Call call{proto::PeerId(), 0, now, out};
  Job& job = parts_->job;
  const bool is_plan = by == proto::Asker::kPlan;
  if (decision.memory) {
    job.RememberPolicy(*decision.memory);
  }
  if (!decision.why.empty()) {
    job.events.Tell(
        is_plan ? proto::EventCode::kReplan : proto::EventCode::kPolicy,
        {{"changes", !decision.changes.empty()}, {"why", decision.why}, {"by", AskerName(by)}},
        decision.others);
  }
  Status taken;
  if (!decision.changes.empty()) {
    taken = parts_->fleet_desk.Scale(decision.changes, std::string(AskerName(by)), call).status();
  }
  if (!taken.ok()) {
    job.events.Tell(
        is_plan ? proto::EventCode::kReplanRefused : proto::EventCode::kPolicyRefused,
        {{"why", taken}});
  }
  Settle(call);
  return taken;
}

void CoordinatorCore::Settle(const Call& call) {
  if (IsGoingBack()) {
    AdvanceGoingBack(call);
    return;
  }
  if (parts_->job.is_working()) {
    parts_->departures.Settle(call);  // may make room for those who ask
    parts_->phases.Fail(parts_->joins.AdmitPending(call), call);
  }
  if (parts_->job.is_working()) {
    parts_->phases.Fail(parts_->phases.CheckFailures(call.now), call);
    parts_->phases.Fail(parts_->phases.CheckData(), call);
    parts_->phases.Fail(parts_->phases.CheckDivergence(), call);
  }
  if (parts_->job.is_working()) {
    parts_->phases.AdvanceStart(call);
    parts_->joins.Answer(call);
    parts_->leases.FinishEpochs();
    parts_->finish.CheckEarly();
    parts_->servers_desk.GoOn(call);
    ChangeShardsIfWanted(call);
    parts_->modes.Advance(call);
    parts_->settings.Advance(call);
    parts_->leases.Serve(call);
    if (parts_->leases.TryCommit(call)) {
      parts_->settings.Advance(call);  // no round is open now
      parts_->shards.SendCommits(call);
      parts_->checkpoints.OpenIfDue(call);
      parts_->leases.FinishEpochs();
      parts_->leases.Serve(call);
    }
    parts_->best.Follow(call);
    parts_->phases.FireFaults(call);
    parts_->shards.Broadcast(call);
    parts_->phases.AdvanceEnd(call);
    TakeBestIfWanted();
  }
  if (parts_->job.state.phase == JobPhase::kLeaving) {
    if (parts_->job.needs_shards()) {
      // Chunks on their way to another shard need both shards to know the same members.
      parts_->shards.Broadcast(call);
    }
    parts_->phases.AdvanceLeaving(call);
  }
}

int CoordinatorCore::exit_code() const {
  return outcome().ok() || outcome().code() == StatusCode::kCancelled ? 0 : 1;
}

Status CoordinatorCore::Check() const {
  PS_TRY(CheckParts(parts_->job.state, parts_->job.options));
  PS_TRY(parts_->job.ledger.Check());
  return parts_->job.membership.Check();
}

}  // namespace ps::coordinator
