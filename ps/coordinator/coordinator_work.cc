// Work: leases out, steps and evaluations in, rounds and epochs closed.
//
// Under ssp a member is active exactly while it holds a train lease (a moment longer after the
// last step), and gets one only when every shard has acknowledged that it is active. Under bsp a
// round is committed when all who entered it have contributed or are gone, and nobody who could
// still enter it is awaited; evaluations happen between the rounds.

#include <algorithm>
#include <string>

#include "ps/coordinator/coordinator_core.h"

namespace ps::coordinator {
namespace {

constexpr size_t kOpenLeasesMax = 4;  // of one member: with overlap small ones follow each other
constexpr size_t kWaitsPerPeerMax = 64;
constexpr uint64_t kEvaluationPartsMax = 8;
constexpr uint64_t kEvaluationPartSamplesMin = 250;

}  // namespace

void CoordinatorCore::On(const Call& call, const proto::LeaseRequest& message) {
  Member* const member = MemberOf(call, message.incarnation);
  if (member == nullptr) {
    return;
  }
  if (message.newest > member->last_lease) {
    Refuse(
        call,
        StatusCode::kInvalidArgument,
        "lease " + std::to_string(message.newest.value) + " was never granted to you");
    return;
  }
  member->lease_request_id = call.request_id;
  if (message.newest < member->last_lease) {
    Reply(call, member->last_grant);  // the answer was lost
    return;
  }
  if (!member->wants_lease) {
    member->wants_lease = true;
    member->wants_since = call.now;
    member->wants_generation = membership_.generation();
  }
  member->has_asked = true;
  seats_.StopExpecting(member->seat);
}

void CoordinatorCore::ServeLeases(const Call& call) {
  if (phase_ != Phase::kTraining) {
    return;
  }
  for (auto& [incarnation, member] : membership_.members()) {
    if (!member.wants_lease || member.is_draining) {
      continue;
    }
    const bool is_served = ServeEvaluation(&member, call) || ServeTraining(&member, call);
    if (!is_served && is_ssp() && member.is_active && !HasTrainingWork() &&
        !ledger_.HasLease(incarnation)) {
      membership_.SetActive(&member, false);  // idle: it must hold nobody
    }
  }
}

bool CoordinatorCore::HasTrainingWork() const {
  // Under bsp an epoch ends with its last round's commit and its evaluation.
  const bool is_between_epochs =
      is_bsp() && (evaluations_.is_pending() || ledger_.is_epoch_complete(epochs_finished_));
  return !is_between_epochs && ledger_.HasWork(epochs_ahead());
}

bool CoordinatorCore::ServeEvaluation(Member* member, const Call& call) {
  if (!evaluations_.HasWork() || evaluations_.Find(member->last_lease) != nullptr) {
    return false;
  }
  const LeaseId lease = ledger_.NewLeaseId();
  const Evaluations::Granted granted = evaluations_.Grant(member->incarnation, lease);
  const bool is_training = ledger_.HasLease(member->incarnation);
  if (is_ssp() && member->is_active && !is_training) {
    membership_.SetActive(member, false);
  }
  if (!is_training) {
    member->last_progress = call.now;
  }
  proto::LeaseGrant grant;
  grant.lease = lease;
  grant.kind = proto::LeaseKind::kEvaluate;
  grant.epoch = granted.epoch - 1;
  grant.begin = granted.begin;
  grant.end = granted.end;
  grant.round = is_bsp() ? rounds_.committed() : 0;
  SendGrant(member, grant, call);
  return true;
}

bool CoordinatorCore::ServeTraining(Member* member, const Call& call) {
  const size_t open = ledger_.LeasesOf(member->incarnation).size();
  if (open >= kOpenLeasesMax || !HasTrainingWork()) {
    return false;
  }
  if (is_bsp() && rounds_.Contains(member->incarnation)) {
    return false;
  }
  if (is_ssp()) {
    if (!member->is_active) {
      membership_.SetActive(member, true);
    }
    if (!membership_.IsAcknowledged(member->activated)) {
      return false;
    }
  }
  const std::optional<TrainLease> lease =
      ledger_.Grant(member->incarnation, LeaseSamples(*member), epochs_ahead());
  PS_CHECK(lease.has_value()) << "the ledger has work";
  if (open == 0) {
    member->last_progress = call.now;
    member->last_step = call.now;
  }
  if (is_bsp()) {
    if (rounds_.is_empty()) {
      round_since_ = call.now;
    }
    rounds_.Enter(member->seat, member->incarnation);
  }
  if (!training_began_) {
    training_began_ = call.now;
  }
  proto::LeaseGrant grant;
  grant.lease = lease->lease;
  grant.epoch = lease->epoch;
  grant.begin = lease->begin;
  grant.end = lease->end;
  grant.round = is_bsp() ? rounds_.open_round() : 0;
  SendGrant(member, grant, call);
  return true;
}

void CoordinatorCore::SendGrant(Member* member, proto::LeaseGrant grant, const Call& call) {
  grant.incarnation = member->incarnation;
  member->last_lease = grant.lease;
  member->last_grant = grant;
  member->wants_lease = false;
  call.out->Send(member->peer, member->lease_request_id, grant);
}

/// Towards the end of an epoch leases get smaller, down to one minibatch, so that nobody is left
/// alone with a long one.
uint64_t CoordinatorCore::LeaseSamples(const Member& member) const {
  if (is_bsp()) {
    return member.minibatch;
  }
  const uint64_t queued =
      ledger_.samples_queued() == 0 ? ledger_.samples_per_epoch() : ledger_.samples_queued();
  const uint64_t fair = queued / (2 * membership_.members().size()) / member.minibatch;
  const uint64_t steps =
      std::clamp<uint64_t>(fair, 1, std::max<uint32_t>(options_.config.train.lease_steps, 1));
  return steps * member.minibatch;
}

void CoordinatorCore::On(const Call& call, const proto::StepReport& message) {
  Member* const member = MemberOf(call, message.incarnation);
  if (member == nullptr) {
    return;
  }
  for (const proto::StepDone& done : message.steps) {
    if (done.step <= member->reported) {
      continue;  // counted already
    }
    if (const Status status = CountStep(member, done, call.now); !status.ok()) {
      Refuse(call, status.code(), std::string(status.message()), done.step);
      return;
    }
    const double seconds = Seconds(call.now - member->last_step);
    member->step_seconds =
        member->step_seconds == 0 ? seconds : 0.8 * member->step_seconds + 0.2 * seconds;
    member->last_step = call.now;
    member->last_progress = call.now;
  }
  Reply(call, proto::StepAck{member->incarnation, member->reported});
}

/// Errors: kInvalidArgument when it is not the step that must come next; nothing has changed then.
Status CoordinatorCore::CountStep(Member* member, const proto::StepDone& done, TimePoint now) {
  if (done.step != member->reported + 1) {
    return Status::InvalidArgument(
        "step " + std::to_string(done.step) + " does not follow step " +
        std::to_string(member->reported));
  }
  const std::vector<TrainLease> open = ledger_.LeasesOf(member->incarnation);
  if (open.empty() || open.front().lease != done.lease) {
    return Status::InvalidArgument(
        "lease " + std::to_string(done.lease.value) + " is not the oldest open one of yours");
  }
  const uint64_t expected_end =
      std::min<uint64_t>(open.front().next + member->minibatch, open.front().end);
  if (done.begin != open.front().next || done.end != expected_end) {
    return Status::InvalidArgument(
        "step " + std::to_string(done.step) + " must take samples " +
        std::to_string(open.front().next) + " to " + std::to_string(expected_end));
  }
  PS_TRY(ledger_.Count(done.lease, done.begin, done.end));
  const uint64_t samples = done.end - done.begin;
  member->reported = done.step;
  member->samples_counted += samples;
  ++counters_.steps_counted;
  if (done.is_rejected) {
    counters_.samples_rejected += samples;
    log_->Warning(
        "step_rejected",
        {{"worker", member->seat.value}, {"step", done.step}, {"why", "not finite"}});
  } else {
    meter_.OnStep(samples, done.loss_sum, std::min(done.correct, samples));
  }
  if (is_bsp()) {
    rounds_.Contribute(
        member->incarnation, done.step, static_cast<uint32_t>(samples), done.is_rejected);
  }
  if (ledger_.is_complete()) {
    training_ended_ = now;
  }
  return Status::Ok();
}

void CoordinatorCore::On(const Call& call, const proto::EvaluateReport& message) {
  Member* const member = MemberOf(call, message.incarnation);
  if (member == nullptr) {
    return;
  }
  const EvaluationPart* const part = evaluations_.Find(message.lease);
  const bool is_own = part != nullptr && part->holder == member->incarnation;
  if (message.lease > member->last_lease || (part != nullptr && !is_own)) {
    Refuse(
        call,
        StatusCode::kInvalidArgument,
        "lease " + std::to_string(message.lease.value) + " is not yours");
    return;
  }
  if (is_own) {
    const uint64_t samples = part->end - part->begin;
    if (message.samples != samples || message.correct > samples) {
      Refuse(
          call,
          StatusCode::kInvalidArgument,
          "the lease has " + std::to_string(samples) + " samples, and at most that many correct");
      return;
    }
    evaluations_.Report(message, call.now - training_began_.value_or(call.now));
    member->last_progress = call.now;
  }
  Reply(call, proto::EvaluateAck{member->incarnation, message.lease});
}

void CoordinatorCore::On(const Call& call, const proto::WorkerHeartbeat& message) {
  const Incarnation incarnation = message.incarnation;
  const Departure* const departure = membership_.FindDeparture(incarnation);
  if (departure != nullptr && departure->has_said_goodbye) {
    Reply(call, proto::HeartbeatReply{membership_.generation()});  // it waits for GoodbyeReply
    return;
  }
  Member* const member = MemberOf(call, incarnation);
  if (member == nullptr) {
    return;
  }
  member->state = message.state;
  member->is_draining = member->is_draining || message.state == proto::WorkerState::kDraining;
  member->stats = message.stats;
  member->waits = message.waits;
  member->waits.resize(std::min(member->waits.size(), kWaitsPerPeerMax));
  member->last_heartbeat = call.now;
  Reply(call, proto::HeartbeatReply{membership_.generation()});
}

bool CoordinatorCore::IsAwaited(const Member& member) const {
  return is_bsp() && phase_ == Phase::kTraining && member.has_asked && !member.is_draining &&
         !member.wants_lease && !rounds_.Contains(member.incarnation) && HasTrainingWork();
}

bool CoordinatorCore::TryCommit(const Call& call) {
  if (!is_bsp() || !rounds_.is_settled() || !rounds_.is_commit_acknowledged()) {
    return false;
  }
  const auto& members = membership_.members();
  if (std::any_of(members.begin(), members.end(), [this](const auto& entry) {
        return IsAwaited(entry.second);
      })) {
    return false;
  }
  rounds_.Commit();
  round_since_ = call.now;
  for (Shard& shard : shards_.all()) {
    SendCommit(&shard, call);
  }
  return true;
}

/// Begins the evaluations of epochs that are counted in full (bsp: and committed).
void CoordinatorCore::FinishEpochs() {
  const proto::TrainConfig& train = options_.config.train;
  while (epochs_finished_ < train.epochs && ledger_.is_epoch_complete(epochs_finished_) &&
         rounds_.is_empty()) {
    ++epochs_finished_;
    log_->Info("epoch_complete", {{"epoch", epochs_finished_}});
    const bool is_last = epochs_finished_ == train.epochs;
    const bool is_due = is_last || (train.evaluate_every_epochs != 0 &&
                                    epochs_finished_ % train.evaluate_every_epochs == 0);
    if (is_due && options_.test_samples > 0) {
      const uint64_t parts = std::clamp<uint64_t>(
          options_.test_samples / kEvaluationPartSamplesMin,
          1,
          std::clamp<uint64_t>(membership_.members().size(), 1, kEvaluationPartsMax));
      evaluations_.Begin(epochs_finished_, options_.test_samples, parts);
    }
  }
}

}  // namespace ps::coordinator
