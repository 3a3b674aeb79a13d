#include "ps/coordinator/workers/lease_desk.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ps/coordinator/workers/trends.h"

namespace ps::coordinator {
namespace {

constexpr size_t kOpenLeasesMax = 4;  // of one member: with overlap small ones follow each other
constexpr uint64_t kEvaluationPartsMax = 8;
constexpr double kStepSecondsMin = 1e-9;  // 0 means none yet
constexpr uint64_t kEvaluationPartSamplesMin = 250;

}  // namespace

LeaseDesk::LeaseDesk(Job* job)
    : job_(job), looks_at_paces_(proto::LooksAtStragglers(job->options.config.train.mode_policy)) {
  TrackAll();
}

void LeaseDesk::TrackAll() {
  for (const auto& [incarnation, member] : job_->membership.members()) {
    Track(incarnation);
  }
}

void LeaseDesk::Track(Incarnation incarnation) {
  const Member* const member = job_->membership.Find(incarnation);
  const bool is_working = member != nullptr && !member->record->is_draining;
  if (is_working && member->wants_lease) {
    wanting_.insert(incarnation);
    due_.insert(incarnation);
  } else {
    wanting_.erase(incarnation);
    due_.erase(incarnation);
  }
  if (job_->is_bsp() && is_working && member->record->has_asked && !member->wants_lease &&
      !job_->rounds.Contains(incarnation) && !job_->SitsOut(incarnation)) {
    between_.insert(incarnation);
  } else {
    between_.erase(incarnation);
  }
}

void LeaseDesk::On(const Call& call, const proto::LeaseRequest& message) {
  Member* const member = job_->MemberOf(call, message.incarnation);
  if (member == nullptr) {
    return;
  }
  const MemberRecord* const record = member->record;
  if (message.newest > record->last_grant.lease) {
    job_->Refuse(
        call,
        StatusCode::kInvalidArgument,
        fmt::format("lease {} was never granted to you", message.newest.value));
    return;
  }
  member->lease_request_id = call.request_id;
  if (message.newest < record->last_grant.lease) {
    job_->Reply(call, record->last_grant);  // the answer was lost
    return;
  }
  if (!member->wants_lease) {
    member->wants_lease = true;
    member->wants_since = call.now;
    member->wants_generation = job_->membership.generation();
  }
  if (!record->has_asked) {
    job_->membership.Edit(*member).has_asked = true;
  }
  job_->seats.StopExpecting(record->seat);
  Track(message.incarnation);
}

LeaseDesk::Offer LeaseDesk::OfferNow() const {
  return {
      HasTrainingWork(),
      job_->evaluations.HasWork(),
      job_->rounds.open_round(),
      job_->state.phase == JobPhase::kTraining};
}

void LeaseDesk::Serve(const Call& call) {
  while (!activating_.empty() && job_->membership.IsAcknowledged(activating_.begin()->first)) {
    due_.insert(activating_.begin()->second);
    activating_.erase(activating_.begin());
  }
  if (job_->state.phase != JobPhase::kTraining) {
    return;
  }
  // Who was served may have taken the last of the work, which matters to others who wait.
  for (Offer now = OfferNow(); now != offer_ || !due_.empty(); now = OfferNow()) {
    if (now != offer_) {
      due_ = wanting_;
      offer_ = now;
    }
    for (const Incarnation incarnation : std::exchange(due_, {})) {
      Member* const member = job_->membership.Find(incarnation);
      if (member != nullptr && wanting_.contains(incarnation)) {
        ServeOne(member, call);
      }
    }
  }
}

void LeaseDesk::ServeOne(Member* member, const Call& call) {
  if (job_->SitsOut(member->record->incarnation) || ServeEvaluation(member, call) ||
      ServeTraining(member, call)) {
    return;
  }
  if (job_->is_ssp() && member->record->is_active && !HasTrainingWork() &&
      !job_->ledger.HasLease(member->record->incarnation)) {
    job_->membership.SetActive(member, false);  // idle: it must hold nobody
  }
}

bool LeaseDesk::HasTrainingWork() const {
  // Under bsp an epoch ends with its last round's commit and its evaluation.
  const bool is_between_epochs =
      job_->is_bsp() && (job_->evaluations.is_pending() ||
                         job_->ledger.is_epoch_complete(job_->state.epochs_finished));
  return !is_between_epochs && !job_->is_holding() && job_->ledger.HasWork(epochs_ahead());
}

bool LeaseDesk::ServeEvaluation(Member* member, const Call& call) {
  const MemberRecord* const record = member->record;
  if (!job_->evaluations.HasWork() || job_->evaluations.Find(record->last_grant.lease) != nullptr) {
    return false;
  }
  const LeaseId lease = job_->ledger.NewLeaseId();
  const Evaluations::Granted granted = job_->evaluations.Grant(record->incarnation, lease);
  const bool is_training = job_->ledger.HasLease(record->incarnation);
  if (job_->is_ssp() && record->is_active && !is_training) {
    job_->membership.SetActive(member, false);
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
  grant.round = job_->is_bsp() ? job_->rounds.committed() : 0;
  grant.minibatch = record->last_grant.minibatch;  // what its steps have until the next lease
  grant.local_steps = record->last_grant.local_steps;
  grant.settings = record->last_grant.settings;
  SendGrant(member, grant, call);
  return true;
}

bool LeaseDesk::ServeTraining(Member* member, const Call& call) {
  const MemberRecord* const record = member->record;
  const Incarnation incarnation = record->incarnation;
  const size_t open = job_->ledger.CountOf(incarnation);
  if (open >= kOpenLeasesMax || !HasTrainingWork()) {
    return false;
  }
  if (job_->is_bsp() && job_->rounds.Contains(incarnation)) {
    return false;
  }
  if (job_->is_ssp()) {
    if (!record->is_active) {
      job_->membership.SetActive(member, true);
    }
    if (!job_->membership.IsAcknowledged(record->activated)) {
      activating_.insert({record->activated, incarnation});
      return false;
    }
  }
  const uint32_t minibatch = BatchOf(*record);
  const uint32_t local_steps = LocalStepsOf(*record, minibatch);
  const uint32_t step_samples = minibatch * local_steps;
  const std::optional<TrainLease> lease =
      job_->ledger.Grant(incarnation, LeaseSamples(step_samples), epochs_ahead(), step_samples);
  PS_CHECK(lease.has_value()) << "the ledger has work";
  if (open == 0) {
    member->last_progress = call.now;
    member->last_step = call.now;
  }
  if (job_->is_bsp()) {
    if (job_->rounds.is_empty()) {
      job_->round_since = call.now;
    }
    job_->rounds.Enter(record->seat, incarnation);
  }
  if (!job_->training_began) {
    job_->training_began = call.now;
  }
  proto::LeaseGrant grant;
  grant.lease = lease->lease;
  grant.epoch = lease->epoch;
  grant.begin = lease->begin;
  grant.end = lease->end;
  grant.round = job_->is_bsp() ? job_->rounds.open_round() : 0;
  grant.minibatch = minibatch;
  grant.local_steps = local_steps;
  grant.settings = job_->settings();
  grant.samples_done = job_->ledger.samples_counted();
  SendGrant(member, grant, call);
  return true;
}

void LeaseDesk::SendGrant(Member* member, proto::LeaseGrant grant, const Call& call) {
  MemberRecord* const record = &job_->membership.Edit(*member);
  grant.incarnation = record->incarnation;
  grant.mode = job_->state.modes.in_force.mode;
  record->last_grant = grant;
  member->wants_lease = false;
  if (record->step_seconds == 0) {
    job_->speed.NoteWarmingUp(record->incarnation);
  }
  Track(record->incarnation);
  call.out->Send(member->peer, member->lease_request_id, grant);
}

uint32_t LeaseDesk::BatchOf(const MemberRecord& member) const {
  if (job_->options.config.train.batch_policy == proto::BatchPolicy::kFixed) {
    return member.minibatch;
  }
  const uint32_t current = member.last_grant.minibatch;
  return std::min(
      job_->batches.BatchOf(member.incarnation, current > 0 ? current : member.minibatch),
      proto::kStepSamplesMax);
}

/// A worker by hand has a minibatch of its own, and by_speed makes larger ones than the config's: a
/// step has no more samples than it can name.
uint32_t LeaseDesk::LocalStepsOf(const MemberRecord& member, uint32_t minibatch) const {
  const proto::StepSettings& settings = job_->settings();
  const double share = settings.is_by_speed ? job_->batches.SpeedOf(member.incarnation) : 1;
  return std::clamp(
      static_cast<uint32_t>(settings.local_steps * share), 1U, proto::kStepSamplesMax / minibatch);
}

/// Towards the end of an epoch leases get smaller, down to one step, so that nobody is left alone
/// with a long one.
uint64_t LeaseDesk::LeaseSamples(uint32_t step_samples) const {
  if (job_->is_bsp()) {
    return step_samples;
  }
  const SampleLedger& ledger = job_->ledger;
  const uint64_t queued =
      ledger.samples_queued() == 0 ? ledger.samples_per_epoch() : ledger.samples_queued();
  const uint64_t fair = queued / (2 * job_->membership.members().size()) / step_samples;
  const uint32_t lease_steps = job_->options.config.train.lease_steps;
  const uint64_t steps = std::clamp<uint64_t>(
      fair, 1, std::max<uint32_t>(lease_steps / job_->settings().local_steps, 1));
  return steps * step_samples;
}

void LeaseDesk::On(const Call& call, const proto::StepReport& message) {
  Member* const member = job_->MemberOf(call, message.incarnation);
  if (member == nullptr) {
    return;
  }
  MemberRecord* const record = &job_->membership.Edit(*member);
  const uint64_t lives = job_->shards.lives();
  const uint64_t placement = job_->state.placement.version;
  proto::CheckpointsState& checkpoints = job_->edit.checkpoints;
  const uint64_t undone_before = checkpoints.steps_undone;
  const uint64_t samples_before = checkpoints.samples_undone;
  for (const proto::StepDone& done : message.steps) {
    if (done.step <= record->reported) {
      continue;  // counted already
    }
    if (const Status status = CountStep(record, done, true, call.now); !status.ok()) {
      job_->Refuse(call, status.code(), std::string(status.message()), done.step);
      return;
    }
    // Lives of other shards, of an earlier placement, say nothing of those that began meanwhile.
    if (done.placement == placement) {
      record->lives_missed = lives - std::min(lives, done.lives);
      if (record->lives_missed == 0 && !job_->shards.are_all_ready()) {
        job_->shards.MarkServed(call.now);
      }
    }
    if (record->lives_missed > 0) {
      ++checkpoints.steps_undone;
      checkpoints.samples_undone += done.end - done.begin;
    }
    const double before = record->step_seconds;
    const double seconds = Seconds(call.now - member->last_step);
    record->step_seconds =
        std::max(before == 0 ? seconds : 0.8 * before + 0.2 * seconds, kStepSecondsMin);
    job_->speed.NoteStep(record->incarnation, before, record->step_seconds);
    if (looks_at_paces_) {
      job_->stragglers.NoteStep(
          record->incarnation,
          static_cast<uint32_t>(record->last_grant.step_samples()),
          std::max(seconds, kStepSecondsMin),
          job_->is_bsp());
    }
    member->last_step = call.now;
    member->last_progress = call.now;
  }
  if (checkpoints.steps_undone > undone_before) {
    job_->events.Tell(
        proto::EventCode::kStepsUndone,
        {{"worker", record->seat.value},
         {"steps_undone", checkpoints.steps_undone - undone_before},
         {"samples_undone", checkpoints.samples_undone - samples_before}});
  }
  Track(record->incarnation);  // it may have room for another lease
  job_->Reply(call, proto::StepAck{record->incarnation, record->reported});
}

void LeaseDesk::On(const Call& call, const proto::CutLease& message) {
  const Member* const member = job_->MemberOf(call, message.incarnation);
  if (member == nullptr) {
    return;
  }
  const TrainLease* const open = job_->ledger.Find(message.lease);
  const bool is_own = open != nullptr && open->holder == message.incarnation;
  const bool is_over = open == nullptr && message.lease <= member->record->last_grant.lease;
  if (!is_over) {  // else it was cut, and its last step has been counted since
    const Status cut =
        is_own ? job_->ledger.Cut(message.lease, message.end)
               : Status::InvalidArgument(fmt::format("lease {} is not yours", message.lease.value));
    if (!cut.ok()) {
      job_->Refuse(call, cut.code(), std::string(cut.message()));
      return;
    }
    job_->log->Info(
        "lease_cut",
        {{"worker", member->record->seat.value},
         {"lease", message.lease.value},
         {"end", message.end}});
  }
  job_->Reply(call, proto::LeaseCut{message.incarnation, message.lease});
}

Status LeaseDesk::CountStep(
    MemberRecord* member, const proto::StepDone& done, bool has_loss, TimePoint now) {
  if (done.step != member->reported + 1) {
    return Status::InvalidArgument(
        fmt::format("step {} does not follow step {}", done.step, member->reported));
  }
  const TrainLease* const open = job_->ledger.OldestOf(member->incarnation);
  if (open == nullptr || open->lease != done.lease) {
    return Status::InvalidArgument(
        fmt::format("lease {} is not the oldest open one of yours", done.lease.value));
  }
  const uint64_t expected_end = std::min<uint64_t>(open->next + open->minibatch, open->end);
  if (done.begin != open->next || done.end != expected_end) {
    return Status::InvalidArgument(
        fmt::format("step {} must take samples {} to {}", done.step, open->next, expected_end));
  }
  PS_TRY(job_->ledger.Count(done.lease, done.begin, done.end));
  const uint64_t samples = done.end - done.begin;
  if (member->reported == 0) {
    job_->places.NoteStep(member->seat);
    job_->seats.NoteStep(member->seat);
  }
  member->reported = done.step;
  member->samples_counted += samples;
  ++job_->edit.counters.steps_counted;
  if (done.is_rejected) {
    NoteRejection(*member, done.step, samples);
  } else {
    job_->meter.OnStep(samples, done.loss_sum, std::min(done.correct, samples));
  }
  if (job_->is_bsp()) {
    job_->rounds.Contribute(
        member->incarnation, done.step, static_cast<uint32_t>(samples), done.is_rejected);
  }
  const double loss = done.loss_sum / static_cast<double>(samples);
  const std::optional<double> told = has_loss ? std::optional(loss) : std::nullopt;
  job_->divergence.OnStep(done.is_rejected, told, job_->membership.members().size());
  TellOfStep(told, now, job_);
  if (job_->ledger.is_complete()) {
    job_->training_ended = now;
    job_->divergence.OnLastStep(job_->state.counters.steps_counted);
  }
  return Status::Ok();
}

/// Told once, and whenever there are twice as many: a run that diverges has one with every step.
void LeaseDesk::NoteRejection(const MemberRecord& member, Step step, uint64_t samples) {
  uint64_t& rejected = job_->edit.counters.samples_rejected;
  rejected += samples;
  if (rejected >= 2 * rejections_told_) {
    rejections_told_ = rejected;
    job_->log->Warning(
        "step_rejected",
        {{"worker", member.seat.value},
         {"step", step},
         {"why", "not finite"},
         {"samples_rejected", rejected}});
  }
}

void LeaseDesk::On(const Call& call, const proto::EvaluateReport& message) {
  Member* const member = job_->MemberOf(call, message.incarnation);
  if (member == nullptr) {
    return;
  }
  const Incarnation incarnation = message.incarnation;
  const EvaluationPart* const part = job_->evaluations.Find(message.lease);
  const bool is_own = part != nullptr && part->holder == incarnation;
  if (message.lease > member->record->last_grant.lease || (part != nullptr && !is_own)) {
    job_->Refuse(
        call,
        StatusCode::kInvalidArgument,
        fmt::format("lease {} is not yours", message.lease.value));
    return;
  }
  if (is_own) {
    const uint64_t samples = part->end - part->begin;
    if (message.samples != samples || message.correct > samples) {
      job_->Refuse(
          call,
          StatusCode::kInvalidArgument,
          fmt::format("the lease has {} samples, and at most that many correct", samples));
      return;
    }
    if (const Status checked = CheckMetricSums(message.sums, samples); !checked.ok()) {
      job_->Refuse(call, checked.code(), std::string(checked.message()));
      return;
    }
    const size_t results = job_->evaluations.results().size();
    job_->evaluations.Report(message, call.now - job_->training_began.value_or(call.now));
    if (job_->evaluations.results().size() > results) {
      for (const proto::EvaluationRow& row : job_->evaluations.results()) {
        job_->divergence.OnEvaluation(row);
      }
    }
    member->last_progress = call.now;
    Track(incarnation);  // it may take another part
  }
  job_->Reply(call, proto::EvaluateAck{incarnation, message.lease});
}

bool LeaseDesk::IsAwaited(const Member& member) const {
  return job_->state.phase == JobPhase::kTraining &&
         between_.contains(member.record->incarnation) && HasTrainingWork();
}

bool LeaseDesk::IsOwingWork(const Member& member) const {
  return job_->ledger.HasLease(member.record->incarnation) ||
         job_->evaluations.Find(member.record->last_grant.lease) != nullptr || IsAwaited(member);
}

bool LeaseDesk::TryCommit(const Call& call) {
  Rounds& rounds = job_->rounds;
  if (!job_->is_bsp() || !rounds.is_settled() || !rounds.is_commit_acknowledged() ||
      job_->state.servers.chunks) {
    return false;
  }
  if (job_->state.phase == JobPhase::kTraining && !between_.empty() && HasTrainingWork()) {
    return false;  // somebody is awaited
  }
  std::vector<Incarnation> entered;
  entered.reserve(rounds.entries().size());
  for (const auto& [incarnation, entry] : rounds.entries()) {
    entered.push_back(incarnation);
  }
  rounds.Commit(job_->settings().local_steps);
  job_->round_since = call.now;
  for (const Incarnation incarnation : entered) {
    Track(incarnation);
  }
  return true;
}

void LeaseDesk::FinishEpochs() {
  const proto::TrainConfig& train = job_->options.config.train;
  const SampleSpan samples = job_->EpochSamples();
  uint32_t& finished = job_->edit.epochs_finished;
  bool is_due = false;
  while (finished < train.epochs && job_->ledger.is_epoch_complete(finished) &&
         job_->rounds.is_empty()) {
    ++finished;
    job_->events.Tell(proto::EventCode::kEpochComplete, {{"epoch", finished}});
    const bool is_last = finished == train.epochs;
    is_due = is_due || is_last ||
             (train.evaluate_every_epochs != 0 && finished % train.evaluate_every_epochs == 0);
  }
  // Where a straggler's step was the last one of several epochs, they end with one model: it is
  // evaluated once, as that after the newest of them.
  if (is_due && !samples.is_empty()) {
    job_->evaluations.Begin(finished, samples, PartsOf(samples));
  }
}

uint64_t LeaseDesk::PartsOf(SampleSpan samples) const {
  return std::clamp<uint64_t>(
      (samples.end - samples.begin) / kEvaluationPartSamplesMin,
      1,
      std::clamp<uint64_t>(job_->membership.members().size(), 1, kEvaluationPartsMax));
}

}  // namespace ps::coordinator
