#include "ps/coordinator/workers/departure_desk.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace ps::coordinator {
namespace {

constexpr uint64_t kStepsInHandMax = 2;

proto::EventCode EventOf(LeaveKind kind) {
  switch (kind) {
    case LeaveKind::kLost:
      return proto::EventCode::kWorkerLost;
    case LeaveKind::kFailed:
      return proto::EventCode::kWorkerFailed;
    case LeaveKind::kDrained:
    case LeaveKind::kLeft:
      break;
  }
  return proto::EventCode::kWorkerLeft;
}

}  // namespace

void DepartureDesk::On(const Call& call, const proto::Goodbye& message) {
  if (!job_->HasRole(call, proto::Role::kWorker)) {
    return;
  }
  const Incarnation incarnation = message.incarnation;
  Member* const member = job_->membership.Find(incarnation);
  if (job_->peers.At(call.from).incarnation != incarnation) {
    if (member != nullptr && member->record->is_admitted) {
      job_->RefuseConnection(call, incarnation);
    } else {
      job_->Refuse(call, StatusCode::kStale, "no such incarnation on this connection");
    }
    return;
  }
  if (member != nullptr) {
    if (member->peer != call.from) {
      return;  // on a connection that it has given up
    }
    job_->NoteStats(member, message.stats, call.now);
    const bool is_stopping = job_->state.phase == JobPhase::kStopping;
    job_->edit.counters.steps_lost +=
        std::min<uint64_t>(message.stats.steps_dropped, kStepsInHandMax);
    const bool is_own = !is_stopping && !member->record->is_released;
    Remove(incarnation, is_own ? LeaveKind::kDrained : LeaveKind::kLeft, message.reason, call);
    job_->membership.Edit(*job_->membership.FindDeparture(incarnation)).has_said_goodbye = true;
  }
  Departure* const departure = job_->membership.FindDeparture(incarnation);
  if (departure == nullptr || departure->record->is_resolved) {
    job_->Reply(call, proto::GoodbyeReply{incarnation});
    return;
  }
  departure->goodbye_peer = call.from;
  departure->goodbye_request_id = call.request_id;
}

void DepartureDesk::RemoveLost(
    Incarnation incarnation, const std::string& reason, const Call& call) {
  const MemberRecord& member = *job_->membership.Find(incarnation)->record;
  const bool has_notice = member.is_draining || member.is_notified;
  if (job_->state.phase == JobPhase::kStopping || !member.is_admitted || member.is_released) {
    Remove(incarnation, LeaveKind::kLeft, reason, call);
  } else {
    const WorkerId seat = member.seat;
    const bool is_fruitless =
        !has_notice && member.reported == 0 && !job_->state.kills.contains(seat);
    Remove(incarnation, has_notice ? LeaveKind::kDrained : LeaveKind::kLost, reason, call);
    if (is_fruitless) {
      NoteFruitless(seat, reason, call);
    }
  }
}

/// A lost worker is replaced, since machines come and go. Where each replacement is lost in the
/// same way before it has done a step, that would go on for ever, and nobody would be told why.
void DepartureDesk::NoteFruitless(WorkerId seat, const std::string& reason, const Call& call) {
  const uint32_t times = job_->seats.NoteFruitless(seat, reason);
  if (times < Seats::kFruitlessMax) {
    return;
  }
  const std::string why = fmt::format("lost {} times in a row, each time with: {}", times, reason);
  job_->events.Tell(proto::EventCode::kWorkerLostAgain, {{"worker", seat.value}, {"why", why}});
  job_->seats.NoteFailure(seat, why);
  job_->places.NoteFailure(seat, Places::Cause::kProgram, why, call.now);
}

void DepartureDesk::RemoveFailed(
    Incarnation incarnation, const std::string& reason, const Call& call) {
  if (job_->membership.Find(incarnation)->record->reported == 0) {
    RemoveRefused(incarnation, reason, call);
  } else if (job_->options.config.worker.program.empty() || MayGo(incarnation)) {
    RemoveLost(incarnation, reason, call);
  } else {
    Remove(incarnation, LeaveKind::kFailed, reason, call);
  }
}

/// Whether it was to leave, or everybody is.
bool DepartureDesk::MayGo(Incarnation incarnation) const {
  const MemberRecord& member = *job_->membership.Find(incarnation)->record;
  return member.is_draining || member.is_notified || member.is_released ||
         job_->state.phase == JobPhase::kStopping;
}

void DepartureDesk::RemoveRefused(
    Incarnation incarnation, const std::string& reason, const Call& call) {
  if (MayGo(incarnation)) {
    RemoveLost(incarnation, reason, call);
    return;
  }
  const WorkerId seat = job_->membership.Find(incarnation)->record->seat;
  Remove(incarnation, LeaveKind::kFailed, reason, call);
  job_->seats.NoteFailure(seat, reason);
  job_->places.NoteFailure(seat, Places::Cause::kProgram, reason, call.now);
}

void DepartureDesk::Remove(
    Incarnation incarnation, LeaveKind kind, const std::string& reason, const Call& call) {
  const Member& member = *job_->membership.Find(incarnation);
  const MemberRecord& record = *member.record;
  job_->edit.counters.revocations_noticed += kind == LeaveKind::kDrained ? 1 : 0;
  job_->edit.counters.revocations_unnoticed += kind == LeaveKind::kLost ? 1 : 0;
  job_->evaluations.Return(incarnation);
  job_->seats.StopExpecting(record.seat);
  job_->seats.Leave(record.seat);
  job_->speed.Remove(incarnation, record.step_seconds);
  job_->batches.Remove(incarnation);
  job_->stragglers.Remove(incarnation);
  std::erase_if(job_->edit.modes.sit_outs, [incarnation](const proto::SitOutRecord& record) {
    return record.incarnation == incarnation;
  });
  if (member.peer != proto::PeerId() && member.peer != call.from) {
    proto::Refusal refusal;
    refusal.code = StatusCode::kStale;
    refusal.message = "fenced: " + reason;
    call.out->Send(member.peer, 0, std::move(refusal));
    job_->ClosePeer(member.peer, call);
  }
  job_->events.Tell(
      EventOf(kind),
      {{"worker", record.seat.value},
       {"incarnation", incarnation.value},
       {"reason", reason},
       {"steps", record.reported}});
  job_->membership.Remove(incarnation, kind, reason, call.now);
  leases_->Track(incarnation);
  if (job_->membership.members().empty()) {
    job_->no_worker_since = call.now;
  }
}

void DepartureDesk::Settle(const Call& call) {
  for (const Incarnation incarnation : job_->membership.TakeAnswered()) {
    Departure* const departure = job_->membership.FindDeparture(incarnation);
    Resolve(departure, call.now);
    job_->membership.Resolve(departure, RoundToKeepFor(incarnation));
    if (departure->goodbye_peer != proto::PeerId()) {
      call.out->Send(
          departure->goodbye_peer, departure->goodbye_request_id, proto::GoodbyeReply{incarnation});
    }
  }
  job_->membership.ForgetKept(job_->rounds.applied());
}

/// bsp: the round for which shards keep what it staged; 0: none.
uint64_t DepartureDesk::RoundToKeepFor(Incarnation incarnation) const {
  if (job_->rounds.HasContributed(incarnation)) {
    return job_->rounds.open_round();
  }
  return job_->rounds.is_commit_acknowledged() ? 0 : job_->rounds.committed();
}

/// Counts the steps that are complete on all shards and were not reported, and returns the rest.
void DepartureDesk::Resolve(Departure* departure, TimePoint now) {
  DepartureRecord& record = job_->membership.Edit(*departure);
  MemberRecord& member = record.member;
  Step complete = proto::kEveryStep;
  Step newest = 0;
  for (const auto& [shard, answer] : record.answers) {
    complete = std::min(complete, answer.last_complete_step);
    if (answer.last_complete_step != proto::kEveryStep) {
      newest = std::max(newest, answer.last_complete_step);
    }
  }
  if (complete == proto::kEveryStep || complete < member.reported) {
    complete = member.reported;
  }
  const Step reported = member.reported;
  const uint64_t samples = member.samples_counted;
  bool is_rejected = false;
  for (const auto& [shard, answer] : record.answers) {
    is_rejected = is_rejected || (answer.last_complete_step == complete &&
                                  answer.outcome == proto::PushOutcome::kRejected);
  }
  while (member.reported < complete) {
    const std::vector<TrainLease> open = job_->ledger.LeasesOf(member.incarnation);
    if (open.empty()) {
      job_->log->Warning(
          "steps_without_lease",
          {{"incarnation", member.incarnation.value}, {"step", member.reported + 1}});
      break;
    }
    proto::StepDone done;
    done.step = member.reported + 1;
    done.lease = open.front().lease;
    done.begin = open.front().next;
    done.end = std::min<uint64_t>(done.begin + open.front().minibatch, open.front().end);
    done.loss_sum = std::nan("");  // not known, which says nothing about it
    done.is_rejected = is_rejected && done.step == complete;
    const Status counted = leases_->CountStep(&member, done, false, now);
    PS_CHECK(counted.ok()) << counted;
  }
  // A shard that has begun a new life since may lack what it had acknowledged of these before.
  if (member.lives_missed > 0) {
    job_->edit.checkpoints.steps_undone += member.reported - reported;
    job_->edit.checkpoints.samples_undone += member.samples_counted - samples;
  }
  const uint64_t partial = newest > complete ? newest - complete : 0;
  const std::vector<TrainLease> rest = job_->ledger.LeasesOf(member.incarnation);
  const uint64_t in_hand = rest.empty() || record.has_said_goodbye ? 0 : 1;
  job_->edit.counters.steps_partial += partial;
  job_->edit.counters.steps_lost += std::max(partial, in_hand);
  for (const TrainLease& lease : rest) {
    job_->ledger.Return(lease.lease);
  }
  job_->rounds.Leave(member.incarnation);
  job_->log->Info(
      "departure_resolved",
      {{"worker", member.seat.value},
       {"incarnation", member.incarnation.value},
       {"steps", member.reported},
       {"partial", partial}});
}

}  // namespace ps::coordinator
