// Who is gone: drained, lost, stuck or replaced, and what becomes of their steps.
//
// A worker is gone when every shard has acknowledged a membership that does not list it: only then
// do its leases go back, because only then can no late push of it be applied any more. What it had
// done is counted exactly: a step counts when it is complete on all shards.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ps/coordinator/coordinator_core.h"

namespace ps::coordinator {
namespace {

/// How much slower than the slowest so far a worker may be before it counts as stuck.
constexpr int kPatience = 4;
constexpr uint64_t kStepsInHandMax = 2;

}  // namespace

void CoordinatorCore::On(const Call& call, const proto::Goodbye& message) {
  if (!HasRole(call, proto::Role::kWorker)) {
    return;
  }
  const Incarnation incarnation = message.incarnation;
  Member* const member = membership_.Find(incarnation);
  if (peers_.at(call.from).incarnation != incarnation) {
    if (member != nullptr && member->is_admitted) {
      RefuseConnection(call, incarnation);
    } else {
      Refuse(call, StatusCode::kStale, "no such incarnation on this connection");
    }
    return;
  }
  if (member != nullptr) {
    if (member->peer != call.from) {
      return;  // on a connection that it has given up
    }
    member->stats = message.stats;
    const LeaveKind kind = phase_ == Phase::kStopping ? LeaveKind::kLeft : LeaveKind::kDrained;
    counters_.steps_lost += std::min<uint64_t>(message.stats.steps_dropped, kStepsInHandMax);
    RemoveMember(incarnation, kind, message.reason, call);
    membership_.FindDeparture(incarnation)->has_said_goodbye = true;
  }
  Departure* const departure = membership_.FindDeparture(incarnation);
  if (departure == nullptr || departure->is_resolved) {
    Reply(call, proto::GoodbyeReply{incarnation});
    return;
  }
  departure->goodbye_peer = call.from;
  departure->goodbye_request_id = call.request_id;
}

void CoordinatorCore::RemoveLost(
    Incarnation incarnation, const std::string& reason, const Call& call) {
  const Member& member = *membership_.Find(incarnation);
  const bool has_notice = member.is_draining || member.is_notified;
  if (phase_ == Phase::kStopping || !member.is_admitted) {
    RemoveMember(incarnation, LeaveKind::kLeft, reason, call);
  } else {
    RemoveMember(incarnation, has_notice ? LeaveKind::kDrained : LeaveKind::kLost, reason, call);
  }
}

void CoordinatorCore::RemoveMember(
    Incarnation incarnation, LeaveKind kind, const std::string& reason, const Call& call) {
  Member& member = *membership_.Find(incarnation);
  counters_.revocations_noticed += kind == LeaveKind::kDrained ? 1 : 0;
  counters_.revocations_unnoticed += kind == LeaveKind::kLost ? 1 : 0;
  evaluations_.Return(incarnation);
  seats_.StopExpecting(member.seat);
  if (member.peer != proto::PeerId() && member.peer != call.from) {
    proto::Refusal refusal;
    refusal.code = StatusCode::kStale;
    refusal.message = "fenced: " + reason;
    call.out->Send(member.peer, 0, std::move(refusal));
    ClosePeer(member.peer, call);
  }
  log_->Info(
      kind == LeaveKind::kLost ? "worker_lost" : "worker_left",
      {{"worker", member.seat.value},
       {"incarnation", incarnation.value},
       {"reason", reason},
       {"steps", member.reported}});
  membership_.Remove(incarnation, kind, reason, call.now);
  if (membership_.members().empty()) {
    no_worker_since_ = call.now;
  }
}

void CoordinatorCore::ResolveDepartures(const Call& call) {
  std::vector<Incarnation> forgotten;
  for (auto& [incarnation, departure] : membership_.departures()) {
    if (!departure.is_resolved && membership_.HasAllAnswers(departure)) {
      Resolve(&departure, call.now);
      departure.is_resolved = true;
      if (departure.goodbye_peer != proto::PeerId()) {
        call.out->Send(
            departure.goodbye_peer, departure.goodbye_request_id, proto::GoodbyeReply{incarnation});
      }
    }
    // A shard drops what a forgotten incarnation staged, so it is kept until that is committed.
    const uint64_t round = departure.kept_for_round;
    const bool is_kept =
        round > rounds_.committed() ||
        (round != 0 && round == rounds_.committed() && !rounds_.is_commit_acknowledged());
    if (departure.is_resolved && !is_kept) {
      forgotten.push_back(incarnation);
    }
  }
  for (const Incarnation incarnation : forgotten) {
    membership_.Forget(incarnation);
  }
}

/// Counts the steps that are complete on all shards and were not reported, and returns the rest.
void CoordinatorCore::Resolve(Departure* departure, TimePoint now) {
  Member& member = departure->member;
  Step complete = UINT64_MAX;
  Step newest = 0;
  for (const auto& [shard, answer] : departure->answers) {
    if (shards_.Find(shard)->has_chunks) {
      complete = std::min(complete, answer.last_complete_step);
      newest = std::max(newest, answer.last_complete_step);
    }
  }
  if (complete == UINT64_MAX || complete < member.reported) {
    complete = member.reported;
  }
  bool is_rejected = false;
  for (const auto& [shard, answer] : departure->answers) {
    is_rejected = is_rejected || (answer.last_complete_step == complete &&
                                  answer.outcome == proto::PushOutcome::kRejected);
  }
  while (member.reported < complete) {
    const std::vector<TrainLease> open = ledger_.LeasesOf(member.incarnation);
    if (open.empty()) {
      log_->Warning(
          "steps_without_lease",
          {{"incarnation", member.incarnation.value}, {"step", member.reported + 1}});
      break;
    }
    proto::StepDone done;
    done.step = member.reported + 1;
    done.lease = open.front().lease;
    done.begin = open.front().next;
    done.end = std::min<uint64_t>(done.begin + member.minibatch, open.front().end);
    done.loss_sum = std::nan("");  // not known
    done.is_rejected = is_rejected && done.step == complete;
    const Status counted = CountStep(&member, done, now);
    PS_CHECK(counted.ok()) << counted;
  }
  const uint64_t partial = newest > complete ? newest - complete : 0;
  const std::vector<TrainLease> rest = ledger_.LeasesOf(member.incarnation);
  const uint64_t in_hand = rest.empty() || departure->has_said_goodbye ? 0 : 1;
  counters_.steps_partial += partial;
  counters_.steps_lost += std::max(partial, in_hand);
  for (const TrainLease& lease : rest) {
    ledger_.Return(lease.lease);
  }
  rounds_.Leave(member.incarnation);
  if (rounds_.HasContributed(member.incarnation)) {
    departure->kept_for_round = rounds_.open_round();
  } else if (!rounds_.is_commit_acknowledged()) {
    departure->kept_for_round = rounds_.committed();
  }
  log_->Info(
      "departure_resolved",
      {{"worker", member.seat.value},
       {"incarnation", member.incarnation.value},
       {"steps", member.reported},
       {"partial", partial}});
}

/// It holds work, or others wait for it to take some.
bool CoordinatorCore::IsOwingWork(const Member& member) const {
  return ledger_.HasLease(member.incarnation) || evaluations_.Find(member.last_lease) != nullptr ||
         IsAwaited(member);
}

/// How long a lease may make no progress: long enough for the slowest of those who work, since
/// under ssp and bsp one may wait for another.
Duration CoordinatorCore::ProgressLimit(const Member& member) const {
  double slowest_s = 0;
  bool is_warming_up = false;
  for (const auto& [incarnation, other] : membership_.members()) {
    slowest_s = std::max(slowest_s, other.step_seconds);
    is_warming_up = is_warming_up || (other.step_seconds == 0 && other.last_lease != LeaseId());
  }
  Duration limit = std::max(timing_.lease, FromSeconds(kPatience * slowest_s));
  if (const EvaluationPart* const part = evaluations_.Find(member.last_lease); part != nullptr) {
    const double steps = std::ceil(
        static_cast<double>(part->end - part->begin) / static_cast<double>(member.minibatch));
    limit = std::max(limit, FromSeconds(kPatience * steps * slowest_s));
  }
  if (is_warming_up) {  // the first step includes what is only done once
    limit = std::max(limit, FromSeconds(static_cast<double>(options_.config.fleet.join_timeout_s)));
  }
  return member.state == proto::WorkerState::kWaiting ? limit * 2 : limit;
}

void CoordinatorCore::CheckWorkerSilence(const Call& call) {
  std::vector<std::pair<Incarnation, std::string>> lost;
  for (const auto& [incarnation, member] : membership_.members()) {
    if (!member.is_admitted) {
      continue;  // it waits for us
    }
    Duration silence_max = timing_.detect;
    if (!member.is_heard && member.peer != proto::PeerId()) {
      // It builds its model and loads its data, and can't talk meanwhile.
      silence_max = std::max(
          silence_max, FromSeconds(static_cast<double>(options_.config.fleet.join_timeout_s)));
    }
    if (call.now - member.last_heard > silence_max) {
      lost.emplace_back(
          incarnation, member.peer == proto::PeerId() ? "connection lost" : "no heartbeat");
    } else if (IsOwingWork(member) && call.now - member.last_progress > ProgressLimit(member)) {
      lost.emplace_back(
          incarnation, "no progress on lease " + std::to_string(member.last_lease.value));
    }
  }
  for (const auto& [incarnation, reason] : lost) {
    RemoveLost(incarnation, reason, call);
  }
}

}  // namespace ps::coordinator
