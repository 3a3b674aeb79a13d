// The phases of a job: how it starts, what is planned to disturb it, how it ends.
//
// starting -> training -> leaving -> finished; a stop goes through stopping, where workers hand
// over; a failure leaves at once. When it leaves, workers are told first and shards when the
// workers are gone, so that nobody sees a peer vanish that it still needs.

#include <algorithm>
#include <string>
#include <utility>

#include "ps/coordinator/coordinator_core.h"

namespace ps::coordinator {
namespace {

constexpr int kStopGraceFactor = 2;  // of detect: what workers get to hand over on a stop

std::string Who(WorkerId seat) {
  return "worker " + std::to_string(seat.value);
}

}  // namespace

void CoordinatorCore::AdvanceStart(const Call& call) {
  if (phase_ == Phase::kStarting && shards_.are_all_ready() && seats_.expected().empty() &&
      !membership_.members().empty()) {
    phase_ = Phase::kTraining;
    log_->Info(
        "training_begins",
        {{"workers", membership_.members().size()}, {"after_s", Seconds(call.now - started_at_)}});
  }
}

/// The first servers and workers have fleet.join_timeout_s to come. Without servers, or without any
/// worker at all, the job fails; with some of the workers it goes on.
void CoordinatorCore::CheckJoinTimeout(const Call& call) {
  const Duration limit = FromSeconds(static_cast<double>(options_.config.fleet.join_timeout_s));
  if (phase_ != Phase::kStarting || call.now - started_at_ < limit) {
    return;
  }
  const std::string within =
      " within " + std::to_string(Seconds(limit)).substr(0, 5) + " s (fleet.join_timeout_s)";
  if (!shards_.are_all_ready()) {
    Fail(
        Status::DeadlineExceeded("servers did not come up" + within + ": " + shards_.Missing()),
        call);
    return;
  }
  std::string missing;
  for (const WorkerId seat : seats_.expected()) {
    missing += (missing.empty() ? "" : ", ") + Who(seat);
  }
  if (counters_.joins == 0) {
    for (const auto& [seat, end] : seats_.ends()) {
      missing += (missing.empty() ? "" : ", ") + Who(seat) + " (" + end + ")";
    }
    Fail(Status::DeadlineExceeded("no worker joined" + within + "; missing: " + missing), call);
    return;
  }
  if (!missing.empty()) {
    log_->Warning("workers_missing", {{"missing", missing}});
  }
  for (const WorkerId seat : std::set<WorkerId>(seats_.expected())) {
    seats_.StopExpecting(seat);
  }
  phase_ = Phase::kTraining;
}

void CoordinatorCore::FireFaults(const Call& call) {
  if (phase_ != Phase::kTraining) {
    return;
  }
  for (const proto::FaultConfig& fault :
       faults_.TakeDue(ledger_.samples_counted(), ledger_.samples_total())) {
    const WorkerId seat(fault.worker);
    Member* const member = membership_.FindSeat(seat);
    switch (fault.kind) {
      case proto::FaultKind::kNotice:
        log_->Info("fault_notice", {{"worker", fault.worker}, {"grace_s", fault.grace_s}});
        if (member != nullptr) {
          member->is_notified = true;
        }
        kills_.push_back(
            {seat,
             member == nullptr ? Incarnation() : member->incarnation,
             call.now + FromSeconds(static_cast<double>(fault.grace_s))});
        fleet_->NotifyWorker(seat, FromSeconds(static_cast<double>(fault.grace_s)));
        break;
      case proto::FaultKind::kKill:
        log_->Info("fault_kill", {{"worker", fault.worker}});
        fleet_->KillWorker(seat);
        break;
      case proto::FaultKind::kAdd:
        for (uint32_t i = 0; i < fault.add.count && seats_.size() < kSeatsMax; ++i) {
          const WorkerId added = seats_.AddFresh(fault.add);
          log_->Info("fault_add", {{"worker", added.value}});
          seats_.Expect(added);
          fleet_->StartWorker(added, seats_.GroupOf(added));
        }
        break;
    }
  }
}

/// The grace of a notice is over: the instance is gone, whether its worker has left or not.
void CoordinatorCore::FireKills(const Call& call) {
  std::vector<PendingKill> later;
  for (const PendingKill& kill : std::exchange(kills_, {})) {
    if (call.now < kill.due) {
      later.push_back(kill);
      continue;
    }
    const Member* const member = membership_.FindSeat(kill.seat);
    const bool is_same = member != nullptr && member->incarnation == kill.incarnation;
    const bool is_unborn = kill.incarnation == Incarnation() && seats_.IsExpected(kill.seat);
    if (is_same || is_unborn) {
      fleet_->KillWorker(kill.seat);
    }
  }
  kills_ = std::move(later);
}

void CoordinatorCore::AdvanceEnd(const Call& call) {
  const bool is_committed = rounds_.is_empty() && rounds_.is_commit_acknowledged();
  if (phase_ == Phase::kTraining && epochs_finished_ == ledger_.epochs() &&
      !evaluations_.is_pending() && is_committed) {
    BeginLeaving(Status::Ok(), "the job is done", false, call);
    return;
  }
  if (phase_ != Phase::kStopping) {
    return;
  }
  const auto& departures = membership_.departures();
  const bool are_all_gone =
      membership_.members().empty() &&
      std::all_of(departures.begin(), departures.end(), [](const auto& entry) {
        return entry.second.is_resolved;
      });
  if ((are_all_gone && is_committed) || call.now >= leave_deadline_) {
    BeginLeaving(Status::Cancelled(stop_reason_), "the run was stopped", false, call);
  } else if (leave_timer_.IsDue(call.now)) {
    SendDrains(call);
    leave_timer_.Again(call.now, &random_);
  }
}

void CoordinatorCore::Fail(Status why, const Call& call) {
  if (!IsWorking()) {
    return;
  }
  log_->Error("job_failed", {{"reason", why}});
  const std::string reason = "the job failed: " + std::string(why.message());
  BeginLeaving(std::move(why), reason, true, call);
}

void CoordinatorCore::RequestStop(
    bool is_immediate, const std::string& why, TimePoint now, proto::Outbox* out) {
  const Call call{proto::PeerId(), 0, now, out};
  if (!IsWorking()) {
    if (is_immediate) {
      phase_ = Phase::kFinished;
    }
    return;
  }
  log_->Info("stop_requested", {{"immediate", is_immediate}, {"reason", why}});
  stop_reason_ = why;
  if (is_immediate || phase_ == Phase::kStarting) {
    BeginLeaving(Status::Cancelled(stop_reason_), "the run was stopped", true, call);
  } else if (phase_ == Phase::kTraining) {
    BeginStop(call);
  }
  Settle(call);
}

void CoordinatorCore::BeginStop(const Call& call) {
  phase_ = Phase::kStopping;
  leave_deadline_ = call.now + timing_.detect * (kStopGraceFactor + 1);
  std::vector<Incarnation> joining;
  for (auto& [incarnation, member] : membership_.members()) {
    member.is_draining = true;
    if (!member.is_admitted) {
      joining.push_back(incarnation);
    }
  }
  for (const Incarnation incarnation : joining) {
    RemoveMember(incarnation, LeaveKind::kLeft, "the run is stopping", call);
  }
  for (const auto& [peer, join] : std::exchange(pending_joins_, {})) {
    call.out->Send(peer, join.request_id, proto::Shutdown{"the run is stopping"});
  }
  SendDrains(call);
  leave_timer_ = RetryTimer(timing_.retry_first, timing_.retry_limit);
  leave_timer_.Start(call.now, &random_);
}

void CoordinatorCore::SendDrains(const Call& call) {
  const Duration grace = std::max(Duration::zero(), leave_deadline_ - timing_.detect - call.now);
  proto::Drain drain;
  drain.reason = "the run is stopping";
  drain.grace_ms =
      static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(grace).count());
  for (const auto& [incarnation, member] : membership_.members()) {
    if (member.peer != proto::PeerId()) {
      call.out->Send(member.peer, 0, drain);
    }
  }
}

void CoordinatorCore::BeginLeaving(
    Status outcome, const std::string& reason, bool is_hurried, const Call& call) {
  phase_ = Phase::kLeaving;
  outcome_ = std::move(outcome);
  leave_reason_ = reason;
  training_ended_ = training_ended_.value_or(call.now);
  is_told_shards_ = is_hurried;
  leave_deadline_ = call.now + timing_.detect;
  leave_timer_ = RetryTimer(timing_.retry_first, timing_.retry_limit);
  leave_timer_.Start(call.now, &random_);
  log_->Info("leaving", {{"outcome", outcome_}});
  TellToLeave(call);
}

void CoordinatorCore::TellToLeave(const Call& call) {
  for (const auto& [peer, who] : peers_) {
    if (who.role == proto::Role::kWorker || (who.role == proto::Role::kShard && is_told_shards_)) {
      call.out->Send(peer, 0, proto::Shutdown{leave_reason_});
    }
  }
}

/// The heartbeat with which a worker leaves: the summary tells what it had done to its last step.
void CoordinatorCore::TakeLastStats(const Call& call, const proto::WorkerHeartbeat& message) {
  Member* const member = membership_.Find(message.incarnation);
  if (member != nullptr && member->peer == call.from) {
    member->stats = message.stats;
  }
}

void CoordinatorCore::AdvanceLeaving(const Call& call) {
  const bool is_late = call.now >= leave_deadline_;
  const bool has_workers = std::any_of(peers_.begin(), peers_.end(), [](const auto& entry) {
    return entry.second.role == proto::Role::kWorker;
  });
  const bool has_shards = std::any_of(peers_.begin(), peers_.end(), [](const auto& entry) {
    return entry.second.role == proto::Role::kShard;
  });
  if (!is_told_shards_ && (!has_workers || is_late)) {
    is_told_shards_ = true;
    leave_deadline_ = call.now + timing_.detect;
    leave_timer_ = RetryTimer(timing_.retry_first, timing_.retry_limit);
    leave_timer_.Start(call.now, &random_);
    TellToLeave(call);
  } else if (is_told_shards_ && ((!has_workers && !has_shards) || is_late)) {
    phase_ = Phase::kFinished;
    log_->Info("finished", {{"outcome", outcome_}});
  } else if (leave_timer_.IsDue(call.now)) {
    TellToLeave(call);
    leave_timer_.Again(call.now, &random_);
  }
}

}  // namespace ps::coordinator
