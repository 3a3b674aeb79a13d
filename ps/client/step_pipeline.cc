// Leases and steps: from a grant over arithmetic and push to the acknowledged report.
//
// A step is computed (computing_), then travels (travelling_) until every shard has acknowledged
// it. Without overlap the next step waits for both and for the fused pull; with overlap (async) it
// is computed while the last one travels, so at most one step of gradient is out at any time.

#include <algorithm>
#include <utility>

#include "ps/client/worker_core.h"

namespace ps::client {

void WorkerCore::OnLeaseGrant(const proto::LeaseGrant& grant, TimePoint now) {
  if (grant.incarnation != incarnation_ || grant.lease <= newest_lease_ ||
      state_ != State::kRunning) {
    return;  // a repetition, or too late
  }
  newest_lease_ = grant.lease;
  is_lease_asked_ = false;
  lease_retry_.Stop();
  leases_.push_back({grant, grant.begin});
  // The values held may be old by now, and under ssp this worker may have been inactive meanwhile.
  const bool has_waited = !is_host_busy_ && now - lease_asked_at_ > settings_.timing.tick;
  if (grant.mode == proto::Mode::kSsp || (is_overlapping() && has_waited)) {
    needs_pull_ = true;
  }
}

void WorkerCore::OnStepAck(const proto::StepAck& ack) {
  if (ack.incarnation != incarnation_) {
    return;
  }
  while (!unacknowledged_.empty() && unacknowledged_.front().step <= ack.last_step) {
    unacknowledged_.pop_front();
  }
}

void WorkerCore::OnPullReply(
    uint64_t request_id, ShardLink* link, const proto::PullReply& reply, TimePoint now) {
  Result<std::vector<PullIntake::Fresh>> fresh = link->OnPullReply(request_id, reply, now);
  if (!fresh.ok()) {
    Exit(std::move(fresh).status());
    return;
  }
  Arrived arrived{std::move(fresh).value(), reply.payload.owner};
  if (is_host_busy_) {
    stash_.push_back(std::move(arrived));
  } else {
    HandOver(arrived);
  }
}

void WorkerCore::HandOver(const Arrived& arrived) {
  for (const PullIntake::Fresh& fresh : arrived.chunks) {
    host_->TakeChunk(fresh);
  }
}

void WorkerCore::HandOverStash() {
  for (const Arrived& arrived : stash_) {
    HandOver(arrived);
  }
  stash_.clear();
}

void WorkerCore::Advance(TimePoint now, proto::Outbox* out) {
  if (is_rejoining_ || (state_ != State::kRunning && state_ != State::kDraining)) {
    return;
  }
  AdvanceTravelling(now, out);
  AdvanceCompute(now, out);
  AdvanceLease(now, out);
  AdvanceDrain(now, out);
  TellSamplesAhead();
  if (unacknowledged_.empty() && !evaluation_) {
    report_retry_.Stop();
  }
}

void WorkerCore::AdvanceTravelling(TimePoint now, proto::Outbox* out) {
  if (travelling_ && travelling_->is_computed) {
    bool is_rejected = false;
    uint64_t lives = 0;
    for (const auto& [shard, link] : links_) {
      if (!link->is_push_done() || !IsUpToDate(*link)) {
        return;
      }
      is_rejected = is_rejected || link->is_push_rejected();
      lives += link->pushed_life();
    }
    travelling_->done.is_rejected = is_rejected;
    travelling_->done.lives = lives;
    unacknowledged_.push_back(travelling_->done);
    ++stats_.steps;
    stats_.samples += travelling_->done.end - travelling_->done.begin;
    travelling_.reset();
    push_job_ = PushJob();
    for (auto& [shard, link] : links_) {
      link->EndPush();
    }
    report_retry_.Stop();
    SendReports(now, out);
  }
  if (!travelling_ && computing_ && !(is_step_dropped_ && StepInHand() != nullptr)) {
    BeginTravel(now, out);
  }
}

/// Moves the step in hand into the place of the travelling one and pushes what is ready of it.
void WorkerCore::BeginTravel(TimePoint now, proto::Outbox* out) {
  travelling_ = std::move(computing_);
  computing_.reset();
  proto::StepDone& done = travelling_->done;
  done.placement = placement_;
  push_job_ = {
      done.step,
      done.lease,
      travelling_->round,
      static_cast<uint32_t>(done.end - done.begin),
      travelling_->gradient,
      state_ == State::kRunning};
  for (auto& [shard, link] : links_) {
    link->BeginPush(push_job_);
  }
  for (const uint32_t tensor : std::exchange(travelling_->ready_tensors, {})) {
    for (auto& [shard, link] : links_) {
      link->TensorReady(tensor, now, out);
    }
  }
}

WorkerCore::StepWork* WorkerCore::StepInHand() {
  if (travelling_ && !travelling_->is_computed) {
    return &*travelling_;
  }
  return computing_ && !computing_->is_computed ? &*computing_ : nullptr;
}

void WorkerCore::OnTensorReady(
    uint64_t session, uint32_t tensor, TimePoint now, proto::Outbox* out) {
  if (session != session_ || is_rejoining_ || is_step_dropped_) {
    return;
  }
  if (travelling_ && !travelling_->is_computed) {
    for (auto& [shard, link] : links_) {
      link->TensorReady(tensor, now, out);
    }
  } else if (computing_) {
    computing_->ready_tensors.push_back(tensor);
  }
}

/// The time at which the arithmetic in hand would have ended had it begun at once: the way to its
/// thread and back counts as waiting.
TimePoint WorkerCore::ArithmeticEnd(const ComputeResult& result, TimePoint now) const {
  return std::min(now, task_since_ + FromSeconds(result.seconds));
}

void WorkerCore::OnComputed(
    uint64_t session, const ComputeResult& result, TimePoint now, proto::Outbox* out) {
  is_host_busy_ = false;
  if (state_ == State::kExited) {
    return;
  }
  if (is_rejoining_) {
    ResetSession();
    return;
  }
  waiting_since_ = ArithmeticEnd(result, now);
  stats_.compute_s += result.seconds;
  step_seconds_ = step_seconds_ == 0 ? result.seconds : 0.8 * step_seconds_ + 0.2 * result.seconds;
  HandOverStash();
  StepWork* const work = StepInHand();
  if (session == session_ && work != nullptr && !is_step_dropped_) {
    work->done.loss_sum = result.loss_sum;
    work->done.correct = result.correct;
    const bool is_travelling = travelling_ && work == &*travelling_;
    if (is_travelling) {
      // The next step begins before this one's gradients go to the kernel, which takes a while.
      AdvanceCompute(now, out);
    }
    for (uint32_t tensor = 0; tensor < layout_.tensor_count(); ++tensor) {
      OnTensorReady(session, tensor, now, out);
    }
    StepInHand()->is_computed = true;
  }
  Advance(now, out);
}

void WorkerCore::OnEvaluated(
    uint64_t session, const ComputeResult& result, TimePoint now, proto::Outbox* out) {
  is_host_busy_ = false;
  if (state_ == State::kExited) {
    return;
  }
  if (is_rejoining_) {
    ResetSession();
    return;
  }
  waiting_since_ = ArithmeticEnd(result, now);
  HandOverStash();
  if (session == session_ && is_evaluating_) {
    is_evaluating_ = false;
    const proto::LeaseGrant& grant = leases_.front().grant;
    if (state_ == State::kRunning) {
      evaluation_ = proto::EvaluateReport{
          incarnation_, grant.lease, grant.end - grant.begin, result.loss_sum, result.correct};
      report_retry_.Stop();
      SendReports(now, out);
    }
    leases_.pop_front();
  }
  Advance(now, out);
}

bool WorkerCore::are_all_pulls_done() const {
  return std::all_of(links_.begin(), links_.end(), [this](const auto& entry) {
    return entry.second->is_pull_done() && IsUpToDate(*entry.second);
  });
}

/// True when the mode allows this lease to be computed with the parameters held; begins a pull if
/// not.
bool WorkerCore::PrepareParameters(const Lease& lease, TimePoint now, proto::Outbox* out) {
  const proto::LeaseGrant& grant = lease.grant;
  const bool is_evaluation = grant.kind == proto::LeaseKind::kEvaluate;
  if (!is_evaluation && grant.mode != mode_) {
    mode_ = grant.mode;
    needs_pull_ = true;  // others have made steps that the new mode does not let this one miss
  }
  const bool is_bsp = grant.mode == proto::Mode::kBsp;
  const uint64_t min_round = !is_bsp || is_evaluation ? grant.round : grant.round - 1;
  if (pull_lease_ == grant.lease) {
    if (!are_all_pulls_done()) {
      return false;
    }
    pull_lease_ = LeaseId();
    needs_pull_ = false;
    return true;
  }
  bool is_explicit = is_evaluation || needs_pull_;
  for (const auto& [shard, link] : links_) {
    is_explicit =
        is_explicit || (is_bsp && link->is_pull_done() && link->pulled_round() < min_round);
  }
  if (!is_explicit) {
    return is_overlapping() || are_all_pulls_done();
  }
  pull_lease_ = grant.lease;
  for (auto& [shard, link] : links_) {
    link->BeginPull(min_round, is_evaluation, now, out);
  }
  return false;  // the answers come as messages
}

void WorkerCore::AdvanceCompute(TimePoint now, proto::Outbox* out) {
  while (!leases_.empty() && leases_.front().grant.kind == proto::LeaseKind::kTrain &&
         leases_.front().next >= leases_.front().grant.end) {
    leases_.pop_front();
  }
  if (state_ != State::kRunning || is_host_busy_ || computing_ || leases_.empty()) {
    return;
  }
  Lease& lease = leases_.front();
  const bool is_evaluation = lease.grant.kind == proto::LeaseKind::kEvaluate;
  // An evaluation must see this worker's own last step; two unacknowledged steps have no gradient
  // left.
  if (travelling_ && (is_evaluation || !is_overlapping())) {
    return;
  }
  if (evaluation_ && is_evaluation) {
    return;  // one report at a time
  }
  if (!PrepareParameters(lease, now, out)) {
    return;
  }
  if (is_evaluation) {
    StartEvaluation(lease);
  } else {
    StartStep(&lease, now, out);
  }
  is_host_busy_ = true;
  stats_.wait_s += Seconds(now - waiting_since_);
  task_since_ = now;
}

SamplesAhead WorkerCore::NextOf(const Lease& lease) const {
  const uint32_t minibatch = lease.grant.minibatch > 0 ? lease.grant.minibatch : minibatch_;
  return {
      lease.grant.epoch, lease.next, std::min<uint64_t>(lease.next + minibatch, lease.grant.end)};
}

void WorkerCore::TellSamplesAhead() {
  if (state_ != State::kRunning) {
    return;
  }
  const auto lease = std::ranges::find_if(leases_, [](const Lease& held) {
    return held.grant.kind == proto::LeaseKind::kTrain && held.next < held.grant.end;
  });
  if (lease == leases_.end()) {
    return;
  }
  const SamplesAhead next = NextOf(*lease);
  if (told_ahead_ != next) {
    told_ahead_ = next;
    host_->OnSamplesAhead(next);
  }
}

void WorkerCore::StartStep(Lease* lease, TimePoint now, proto::Outbox* out) {
  StepWork work;
  work.done.step = ++last_step_;
  work.done.lease = lease->grant.lease;
  const SamplesAhead samples = NextOf(*lease);
  work.done.begin = samples.begin;
  work.done.end = samples.end;
  work.round = lease->grant.round;
  work.began = now;
  lease->next = work.done.end;
  ComputeTask task;
  task.session = session_;
  task.step = work.done.step;
  task.epoch = lease->grant.epoch;
  task.begin = work.done.begin;
  task.end = work.done.end;
  stats_.steps_late += IsLate(work.done.step) ? 1 : 0;
  work.gradient = GiveTask(task);
  computing_ = std::move(work);
  if (!travelling_) {
    BeginTravel(now, out);  // tensors leave as backward finishes them
  }
}

GradientLoan WorkerCore::GiveTask(const ComputeTask& task) {
  Result<GradientLoan> gradient = host_->StartCompute(task);
  if (!gradient.ok()) {
    Exit(std::move(gradient).status().Annotate("begin a step"));
    return nullptr;
  }
  return std::move(gradient).value();
}

/// A step on time is computed with the parameters after this worker's step before the last.
bool WorkerCore::IsLate(Step step) const {
  return !is_overlapping() || std::ranges::any_of(links_, [step](const auto& entry) {
    return entry.second->pulled_step() + 2 < step;
  });
}

void WorkerCore::StartEvaluation(const Lease& lease) {
  is_evaluating_ = true;
  // A later train step under ssp must pass the staleness bound again.
  needs_pull_ = mode_ == proto::Mode::kSsp;
  ComputeTask task;
  task.session = session_;
  task.kind = proto::LeaseKind::kEvaluate;
  task.epoch = lease.grant.epoch;
  task.begin = lease.grant.begin;
  task.end = lease.grant.end;
  GiveTask(task);
}

void WorkerCore::AdvanceLease(TimePoint now, proto::Outbox* out) {
  if (state_ != State::kRunning || is_lease_asked_ || leases_.size() > 1) {
    return;
  }
  // Without overlap a worker asks right behind its report: a coordinator which finds nothing for it
  // may call it idle, and else answers both in one turn. With overlap it asks while the last
  // minibatch is computed.
  const bool has_work = !leases_.empty() && (leases_.front().next < leases_.front().grant.end);
  const bool is_busy = is_host_busy_ || travelling_ || computing_;
  if (has_work || (is_busy && !is_overlapping())) {
    return;
  }
  is_lease_asked_ = true;
  lease_asked_at_ = now;
  lease_retry_.Start(now, &random_);
  SendLeaseRequest(out);
}

void WorkerCore::AdvanceDrain(TimePoint now, proto::Outbox* out) {
  if (state_ != State::kDraining) {
    return;
  }
  const StepWork* in_hand = is_step_dropped_ ? StepInHand() : nullptr;
  const bool has_computing = computing_ && &*computing_ != in_hand;
  const bool has_travelling = travelling_ && &*travelling_ != in_hand;
  if (has_computing || has_travelling || !unacknowledged_.empty()) {
    return;
  }
  state_ = State::kLeaving;
  lease_retry_.Stop();
  goodbye_retry_.Start(now, &random_);
  SendGoodbye(now, out);
}

}  // namespace ps::client
