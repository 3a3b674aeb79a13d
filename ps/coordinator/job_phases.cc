#include "ps/coordinator/job_phases.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace ps::coordinator {
namespace {

constexpr int kStopGraceFactor = 2;  // of detect: what workers get to hand over on a stop
constexpr int kReturnFactor = 2;     // of detect: what workers get to come back
constexpr size_t kReasonsMax = 3;    // told of those why all workers failed

}  // namespace

void JobPhases::Start(TimePoint now) {
  job_->started_at = now;
  job_->places.SetBegin(now);
  job_->no_worker_since = now;
  job_->cost.Resume(job_->state.usd, now);
  const proto::JobConfig& config = job_->options.config;
  job_->events.Tell(
      proto::EventCode::kJobStarted,
      {{"name", config.name},
       {"shards", job_->shards.size()},
       {"chunks", job_->state.placement.chunks.size()},
       {"workers", job_->seats.size()},
       {"max_detect_s", Seconds(job_->timing.detect)}});
  for (uint32_t server = 0; config.servers.launch && server < config.servers.count; ++server) {
    job_->StartServer(server, "the job begins", now);
  }
  for (uint32_t i = 0; i < job_->seats.initial(); ++i) {
    job_->StartWorker(WorkerId(i), now);
  }
}

void JobPhases::StartMissing(std::span<const proto::LaunchRecord> launches, TimePoint now) {
  if (!job_->is_working()) {
    return;
  }
  // What is not noted was decided, and not done.
  const auto is_started = [&](LaunchId launch) {
    return launch != LaunchId() &&
           std::ranges::find(launches, launch, &proto::LaunchRecord::launch) != launches.end();
  };
  std::map<uint32_t, LaunchId> places;   // of each server's process
  std::map<uint32_t, LaunchId> servers;  // of these, somebody has to register
  std::set<uint32_t> planned;            // of these, the next start is planned
  for (const Shard& shard : job_->shards.all()) {
    places[job_->shards.ServerOf(shard.shard)] = shard.record->launch;
    if (!shard.record->is_registered && !job_->state.park.is_on) {
      servers[job_->shards.ServerOf(shard.shard)] = shard.record->launch;
    }
    if (shard.record->start_due > Duration()) {
      planned.insert(job_->shards.ServerOf(shard.shard));
    }
  }
  for (const auto& [server, launch] : servers) {
    if (planned.contains(server)) {
      job_->fleet->KillServer(server, LaunchId());  // another one is started when its time comes
    } else if (job_->options.config.servers.launch && !is_started(launch)) {
      job_->StartServer(server, "the coordinator was restarted", now);
    }
  }
  job_->shards.RecallStarts(now, job_->started_at, &job_->random);
  for (uint32_t server = 0; server < job_->shards.server_count(); ++server) {
    if (job_->shards.HasSuccessor(server) && !is_started(job_->shards.SuccessorOf(server))) {
      job_->shards.SetSuccessor(server, LaunchId());
    }
    if (is_started(places[server]) && !job_->shards.HasSuccessor(server)) {
      job_->fleet->KillServer(server, places[server]);  // one that was lost may run on
    }
  }
  for (const WorkerId seat : std::set<WorkerId>(job_->seats.expected())) {
    if (!job_->seats.IsReturning(seat) && !is_started(job_->seats.LaunchOf(seat))) {
      job_->StartWorker(seat, now);
    }
  }
}

void JobPhases::Resume(TimePoint now) {
  return_deadline_ = now + job_->timing.detect;
  const bool is_stopping = job_->state.phase == JobPhase::kStopping;
  leave_deadline_ = now + job_->timing.detect * (is_stopping ? kStopGraceFactor + 1 : 1);
  leave_timer_.Start(now, &job_->random);
  job_->events.Tell(
      proto::EventCode::kJobResumed,
      {{"generation", job_->membership.generation().value},
       {"workers", job_->membership.members().size()},
       {"samples_counted", job_->ledger.samples_counted()}});
}

/// The time of what an earlier run has trained counts.
void JobPhases::BeginTraining(const Call& call) {
  job_->edit.phase = JobPhase::kTraining;
  if (job_->state.trained && !job_->training_began) {
    job_->training_began = call.now - *job_->state.trained;
  }
}

void JobPhases::AdvanceStart(const Call& call) {
  if (job_->state.phase != JobPhase::kStarting || !job_->shards.are_all_ready()) {
    return;
  }
  const size_t workers = job_->membership.members().size();
  const bool is_back = job_->training_began.has_value();  // from a state after the beginning
  // Who was asked for since the start, by psctl scale, may come later.
  const bool is_awaited =
      is_back ? !job_->seats.expected().empty() : job_->seats.is_first_expected();
  if (is_back && !job_->state.stop_reason.empty() && !finish_->is_on()) {
    BeginStop(call);
  } else if (!is_awaited && (workers > 0 || is_back)) {
    BeginTraining(call);
    if (!finish_->is_on()) {
      job_->events.Tell(
          proto::EventCode::kTrainingBegins,
          {{"workers", workers}, {"after_s", Seconds(call.now - job_->started_at)}});
    }
  }
}

/// Nobody comes any more: of each seat, or of all workers that are wanted, the last one failed, and
/// none is started again soon.
bool JobPhases::HaveAllFailed(TimePoint now) const {
  const proto::JobConfig& config = job_->options.config;
  uint64_t wanted = 0;
  for (size_t group = 0; group < job_->state.wanted.size(); ++group) {
    wanted += job_->state.wanted[group];
    if (config.fleet.replace && job_->state.wanted[group] > 0 &&
        !job_->places.HaveFailedEverywhere(config.workers[group], now)) {
      return false;
    }
  }
  const size_t failed = job_->seats.failures().size();
  return job_->seats.have_all_failed() ||
         (config.fleet.replace && wanted > 0 && failed >= wanted && job_->seats.expected().empty());
}

/// A worker that was killed or told to go may be replaced, so a job without workers waits, as it
/// does where no machine is to be had. Workers that fail by themselves before they have done
/// anything, again and again and wherever they are started, would fail once more.
Status JobPhases::CheckFailures(TimePoint now) const {
  const bool may_wait = job_->state.phase == JobPhase::kStopping ||
                        !job_->membership.members().empty() ||
                        job_->peers.Has(proto::Role::kWorker) || !HaveAllFailed(now);
  if (may_wait) {
    return Status::Ok();
  }
  std::map<std::string, std::string> workers_by_reason;
  for (const auto& [seat, why] : job_->seats.failures()) {
    std::string& workers = workers_by_reason[why];
    workers += fmt::format("{}worker {}", workers.empty() ? "" : ", ", seat.value);
  }
  std::string text;
  size_t shown = 0;
  for (const auto& [why, workers] : workers_by_reason) {
    if (shown++ == kReasonsMax) {
      text += fmt::format("; and {} other reasons", workers_by_reason.size() - kReasonsMax);
      break;
    }
    text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", why, workers);
  }
  return Status::Unavailable(fmt::format("every worker failed: {}", text));
}

Status JobPhases::CheckData() const {
  const size_t seats = job_->membership.members().size() + job_->seats.failures().size() +
                       job_->seats.expected().size();
  const std::string what = job_->bad_data.FoundByMost(seats);
  if (what.empty() || job_->state.phase == JobPhase::kStopping) {
    return Status::Ok();
  }
  return Status::Corruption(fmt::format(
      "the data can't be trained on: {}; mend it, look at all of it with psctl check, and resume",
      what));
}

Status JobPhases::CheckDivergence() {
  if (!job_->divergence.has_diverged() || job_->state.phase == JobPhase::kStopping ||
      is_divergence_told_) {
    return Status::Ok();
  }
  const proto::JobConfig& config = job_->options.config;
  if (config.train.on_divergence == proto::Divergence::kContinue) {
    is_divergence_told_ = true;
    job_->events.Tell(proto::EventCode::kTrainingDiverged, {{"why", job_->divergence.why()}});
    return Status::Ok();
  }
  return Status::InvalidArgument(fmt::format(
      "training diverged: {}; try a smaller optimizer.lr (it is {:g}) or optimizer.clip_norm; with "
      "train.on_divergence=continue the run would go on",
      job_->divergence.why(),
      config.optimizer.lr));
}

/// "worker 1, worker 3", and with `has_ends` those who ended before they joined.
std::string JobPhases::MissingWorkers(bool has_ends) const {
  std::string missing;
  for (const WorkerId seat : job_->seats.expected()) {
    missing += fmt::format("{}worker {}", missing.empty() ? "" : ", ", seat.value);
  }
  if (has_ends) {
    for (const auto& [seat, why] : job_->seats.failures()) {
      missing += fmt::format("{}worker {} ({})", missing.empty() ? "" : ", ", seat.value, why);
    }
  }
  return missing;
}

/// The first servers and workers have fleet.join_timeout_s to come. Without servers, or without any
/// worker at all, the job fails; with some of the workers it goes on.
void JobPhases::CheckJoinTimeout(const Call& call) {
  const Duration limit =
      FromSeconds(static_cast<double>(job_->options.config.fleet.join_timeout_s));
  if (job_->state.phase == JobPhase::kStarting && job_->training_began) {
    CheckReturns(call);
    return;
  }
  if (job_->state.phase != JobPhase::kStarting || call.now - job_->started_at < limit) {
    return;
  }
  const std::string within = fmt::format(" within {:g} s (fleet.join_timeout_s)", Seconds(limit));
  if (!job_->shards.are_all_ready()) {
    Fail(
        Status::DeadlineExceeded(
            fmt::format("servers did not come up{}: {}", within, job_->shards.Missing(call.now))),
        call);
    return;
  }
  if (job_->state.counters.joins == 0) {
    const std::string missing = MissingWorkers(true);
    Fail(
        Status::DeadlineExceeded(fmt::format(
            "no worker joined{}{}",
            within,
            !missing.empty()             ? "; missing: " + missing
            : job_->seats.initial() == 0 ? "; the job has none that psctl starts, so start some by "
                                           "hand"
                                         : "; all that were started have ended")),
        call);
    return;
  }
  if (const std::string missing = MissingWorkers(false); !missing.empty()) {
    job_->events.Tell(proto::EventCode::kWorkersMissing, {{"missing", missing}});
  }
  for (const WorkerId seat : std::set<WorkerId>(job_->seats.expected())) {
    job_->seats.StopExpecting(seat);
  }
  BeginTraining(call);
}

/// The job has gone back. Those who took part are waited for, so that the rounds of bsp are again
/// of all of them, but no longer than it takes to lose one. Servers have a limit of their own.
void JobPhases::CheckReturns(const Call& call) {
  if (!job_->shards.are_all_ready()) {
    shards_back_at_.reset();
    return;
  }
  shards_back_at_ = shards_back_at_.value_or(call.now);
  if (call.now - *shards_back_at_ < job_->timing.detect * kReturnFactor) {
    return;
  }
  for (const WorkerId seat : std::set<WorkerId>(job_->seats.expected())) {
    const Member* const member = job_->membership.FindSeat(seat);
    if (member == nullptr) {
      job_->GiveUpReturn(seat, "it did not come back after the job went back");
    } else if (member->record->is_heard && member->state == proto::WorkerState::kJoining) {
      job_->seats.StopExpecting(seat);  // it loads its data: the others begin without it
    }
  }
}

void JobPhases::FireFaults(const Call& call) {
  if (job_->state.phase != JobPhase::kTraining) {
    return;
  }
  for (const uint32_t place :
       job_->faults.TakeDue(job_->ledger.samples_counted(), job_->ledger.samples_total())) {
    FireFault(place, call);
  }
}

void JobPhases::FireFault(uint32_t place, const Call& call) {
  const proto::FaultConfig& fault = job_->faults.faults()[place];
  const WorkerId seat(fault.worker);
  switch (fault.kind) {
    case proto::FaultKind::kNotice:
      job_->events.Tell(
          proto::EventCode::kFaultNotice, {{"worker", fault.worker}, {"grace_s", fault.grace_s}});
      notices_->Give(seat, FromSeconds(static_cast<double>(fault.grace_s)), call);
      break;
    case proto::FaultKind::kKill:
      job_->events.Tell(proto::EventCode::kFaultKill, {{"worker", fault.worker}});
      notices_->Kill(seat, call);
      break;
    case proto::FaultKind::kAdd:
      for (uint32_t i = 0; i < fault.add.count && job_->seats.size() < job_->options.seats_max;
           ++i) {
        const WorkerId added = job_->seats.AddFresh(place);
        job_->events.Tell(proto::EventCode::kFaultAdd, {{"worker", added.value}});
        job_->StartWorker(added, call.now);
      }
      break;
  }
}

void JobPhases::OnTick(const Call& call) {
  CheckJoinTimeout(call);
}

void JobPhases::AdvanceEnd(const Call& call) {
  const Rounds& rounds = job_->rounds;
  const bool is_committed = rounds.is_empty() && rounds.is_commit_acknowledged();
  if (job_->state.phase == JobPhase::kTraining) {
    const bool is_trained = job_->state.epochs_finished == job_->ledger.epochs() &&
                            !job_->evaluations.is_pending() && is_committed;
    const bool is_finishing = finish_->is_on() || (is_trained && finish_->BeginTrained());
    if (!is_finishing && !is_trained) {
      return;
    }
    if (is_finishing && !finish_->Advance(call)) {
      return;
    }
    if (job_->state.stop_reason.empty()) {
      BeginLeaving(Status::Ok(), "the job is done", Haste::kNone, call);
    } else {
      BeginStop(call);
    }
    return;
  }
  if (job_->state.phase != JobPhase::kStopping) {
    return;
  }
  const bool are_all_gone =
      job_->membership.members().empty() && !job_->membership.has_unresolved();
  if ((are_all_gone && is_committed) || call.now >= leave_deadline_) {
    BeginLeaving(
        Status::Cancelled(job_->state.stop_reason), "the run was stopped", Haste::kNone, call);
  } else if (leave_timer_.IsDue(call.now)) {
    SendDrains(call);
    leave_timer_.Again(call.now, &job_->random);
  }
}

void JobPhases::Fail(Status why, const Call& call) {
  if (why.ok() || !job_->is_working()) {
    return;
  }
  job_->events.Tell(proto::EventCode::kJobFailed, {{"reason", why}});
  const std::string reason = "the job failed: " + std::string(why.message());
  BeginLeaving(std::move(why), reason, Haste::kFailed, call);
}

void JobPhases::RequestStop(bool is_immediate, const std::string& why, const Call& call) {
  if (!job_->is_working()) {
    if (is_immediate) {
      model_->GiveUp("the run was ended at once");
      job_->edit.phase = JobPhase::kFinished;
    }
    return;
  }
  if (is_immediate || job_->state.stop_reason != why) {
    job_->events.Tell(
        proto::EventCode::kStopRequested, {{"immediate", is_immediate}, {"reason", why}});
  }
  job_->edit.stop_reason = why;
  const bool has_begun = job_->state.phase != JobPhase::kStarting || job_->training_began;
  if (is_immediate || !has_begun) {
    BeginLeaving(Status::Cancelled(why), "the run was stopped", Haste::kImmediate, call);
  } else if (job_->state.phase == JobPhase::kTraining && !finish_->BeginStop(why, call)) {
    BeginStop(call);
  }
}

void JobPhases::BeginStop(const Call& call) {
  job_->edit.phase = JobPhase::kStopping;
  leave_deadline_ = call.now + job_->timing.detect * (kStopGraceFactor + 1);
  joins_->SendAway(call);
  for (auto& [incarnation, member] : job_->membership.members()) {
    job_->membership.Edit(member).is_draining = true;
    leases_->Track(incarnation);
  }
  SendDrains(call);
  leave_timer_.Start(call.now, &job_->random);
}

void JobPhases::SendDrains(const Call& call) {
  const Duration grace =
      std::max(Duration::zero(), leave_deadline_ - job_->timing.detect - call.now);
  proto::Drain drain;
  drain.reason = "the run is stopping";
  drain.grace_ms =
      static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(grace).count());
  for (const auto& [incarnation, member] : job_->membership.members()) {
    if (member.peer != proto::PeerId()) {
      call.out->Send(member.peer, 0, drain);
    }
  }
}

void JobPhases::BeginLeaving(
    Status outcome, const std::string& reason, Haste haste, const Call& call) {
  job_->edit.phase = JobPhase::kLeaving;
  job_->edit.outcome = std::move(outcome);
  job_->edit.leave_reason = reason;
  model_->Plan(haste == Haste::kFailed, call.now);
  if (haste == Haste::kImmediate) {
    model_->GiveUp("the run was ended at once");
  }
  job_->edit.is_told_shards = haste != Haste::kNone && !job_->state.model.is_due;
  job_->training_ended = job_->training_ended.value_or(call.now);
  leave_deadline_ = call.now + job_->timing.detect;
  leave_timer_.Start(call.now, &job_->random);
  job_->log->Info("leaving", {{"outcome", job_->state.outcome}});
  TellAllToLeave(call);
}

void JobPhases::TellToLeave(const Call& call, proto::Role role) {
  if (role == proto::Role::kWorker || (role == proto::Role::kShard && job_->state.is_told_shards)) {
    job_->Reply(call, proto::Shutdown{job_->state.leave_reason});
  }
}

void JobPhases::TellAllToLeave(const Call& call) {
  for (const auto& [id, peer] : job_->peers.all()) {
    TellToLeave({id, 0, call.now, call.out}, peer.role);
  }
}

/// The heartbeat with which a worker leaves: the summary tells what it had done to its last step.
void JobPhases::OnLateMessage(const Call& call, const proto::Message& message) {
  if (const auto* const beat = std::get_if<proto::WorkerHeartbeat>(&message)) {
    Member* const member = job_->membership.Find(beat->incarnation);
    if (member != nullptr && member->peer == call.from) {
      job_->NoteStats(member, beat->stats, call.now);
    }
  }
  job_->Reply(call, proto::Shutdown{job_->state.leave_reason});
}

void JobPhases::AdvanceLeaving(const Call& call) {
  const bool is_late = call.now >= leave_deadline_;
  const bool may_return = call.now < return_deadline_;
  const bool has_workers = job_->peers.Has(proto::Role::kWorker) || may_return;
  const bool has_shards = job_->peers.Has(proto::Role::kShard) || may_return;
  if (!job_->state.is_told_shards && (!has_workers || is_late)) {
    if (!checkpoints_->FinishLast(call)) {
      return;
    }
    model_->Advance(call);
    if (job_->state.model.is_due) {
      return;
    }
    job_->edit.is_told_shards = true;
    leave_deadline_ = call.now + job_->timing.detect;
    leave_timer_.Start(call.now, &job_->random);
    TellAllToLeave(call);
  } else if (job_->state.is_told_shards && ((!has_workers && !has_shards) || is_late)) {
    job_->edit.phase = JobPhase::kFinished;
    job_->events.Tell(proto::EventCode::kFinished, {{"outcome", job_->state.outcome}});
  } else if (leave_timer_.IsDue(call.now)) {
    TellAllToLeave(call);
    leave_timer_.Again(call.now, &job_->random);
  }
}

}  // namespace ps::coordinator
