#include "ps/client/step_pipeline.h"

#include <utility>

#include "ps/proto/exchange.h"

namespace ps::client {
namespace {

/// A step may take so many times as long as those before.
constexpr double kStepMargin = 1.5;
/// A push may take so many times as long as the rate of those before says.
constexpr double kPushMargin = 1.5;

}  // namespace

StepPipeline::StepPipeline(
    const Session& session,
    WorkerHost& host,
    ShardLinks& links,
    LeaseQueue& leases,
    ParameterGate& parameters,
    StepReports& reports,
    WorkTimes& times,
    const Logger& log)
    : session_(session),
      host_(host),
      links_(links),
      leases_(leases),
      parameters_(parameters),
      reports_(reports),
      times_(times),
      log_(log) {}

void StepPipeline::Begin(const proto::StepSettings& settings) {
  settings_ = settings;
  links_.SetPullEncoding(settings.pull);
}

void StepPipeline::Reset() {
  last_step_ = 0;
  computing_.reset();
  travelling_.reset();
  is_evaluating_ = false;
  last_begins_by_.reset();
  has_told_last_ = false;
}

Status StepPipeline::Advance(bool may_begin, TimePoint now, proto::Outbox* out) {
  GiveUpOneMore(now);
  AdvanceTravelling(may_begin, now, out);
  return AdvanceCompute(may_begin, now, out);
}

void StepPipeline::AdvanceTravelling(bool may_begin, TimePoint now, proto::Outbox* out) {
  if (travelling_ && travelling_->is_computed) {
    const std::optional<ShardLinks::Pushed> pushed = links_.AnswerToPush();
    if (!pushed) {
      return;
    }
    proto::StepDone done = travelling_->done;
    done.is_rejected = pushed->is_rejected;
    done.lives = pushed->lives;
    ++times_.counters().steps;
    times_.counters().samples += done.end - done.begin;
    NotePushed(*travelling_, now);
    travelling_.reset();
    links_.EndPush();
    reports_.Add(done, now, out);
  }
  if (!travelling_ && computing_ && MayTravel(*computing_) &&
      !(is_step_dropped_ && InHand() != nullptr)) {
    BeginTravel(may_begin, now, out);
  }
}

/// The gradient of one minibatch leaves as it becomes final. What local steps come to is there at
/// the end; of a step that has ended early the coordinator knows first what it stands for.
bool StepPipeline::MayTravel(const StepWork& work) const {
  return !work.is_local || (work.is_computed && !leases_.is_cutting());
}

/// Moves the step in hand into the place of the travelling one and pushes what is ready of it.
void StepPipeline::BeginTravel(bool wants_pull, TimePoint now, proto::Outbox* out) {
  travelling_ = std::move(computing_);
  computing_.reset();
  proto::StepDone& done = travelling_->done;
  done.placement = links_.placement();
  links_.BeginPush(
      {done.step,
       done.lease,
       travelling_->round,
       static_cast<uint32_t>(done.end - done.begin),
       travelling_->reference_steps,
       travelling_->gradient,
       wants_pull});
  for (const uint32_t tensor : std::exchange(travelling_->ready_tensors, {})) {
    SendTensor(tensor, now, out);
  }
}

void StepPipeline::SendTensor(uint32_t tensor, TimePoint now, proto::Outbox* out) {
  if (!travelling_->sent_since) {
    travelling_->sent_since = now;
    travelling_->pushed_before = links_.bytes_pushed();
  }
  links_.TensorReady(tensor, now, out);
}

/// How fast the links are, for the worker's last push.
void StepPipeline::NotePushed(const StepWork& work, TimePoint now) {
  const uint64_t bytes = links_.bytes_pushed();
  if (work.sent_since && bytes > work.pushed_before) {  // else a shard has gone, with its counter
    times_.OnPushed(bytes - work.pushed_before, now - *work.sent_since);
  }
}

StepPipeline::StepWork* StepPipeline::InHand() {
  if (travelling_ && !travelling_->is_computed) {
    return &*travelling_;
  }
  return computing_ && !computing_->is_computed ? &*computing_ : nullptr;
}

void StepPipeline::OnTensorReady(uint32_t tensor, TimePoint now, proto::Outbox* out) {
  if (is_step_dropped_) {
    return;
  }
  if (travelling_ && !travelling_->is_computed) {
    SendTensor(tensor, now, out);
  } else if (computing_) {
    computing_->ready_tensors.push_back(tensor);
  }
}

Status StepPipeline::OnComputed(
    const ComputeResult& result, bool is_void, bool may_begin, TimePoint now, proto::Outbox* out) {
  times_.OnTaskDone(result, now);
  times_.OnStepDone(result);
  parameters_.HandOverStash();
  StepWork* const work = InHand();
  if (is_void || work == nullptr || is_step_dropped_) {
    return Status::Ok();
  }
  if (result.samples > 0 && result.samples < work->done.end - work->done.begin) {
    work->done.end = work->done.begin + result.samples;
    leases_.Cut(work->done.lease, work->done.end, now, out);
  }
  work->done.loss_sum = result.loss_sum;
  work->done.correct = result.correct;
  if (travelling_ && work == &*travelling_) {
    // The next step begins before this one's gradients go to the kernel, which takes a while.
    PS_TRY(AdvanceCompute(may_begin, now, out));
  }
  for (uint32_t tensor = 0; tensor < links_.layout().tensor_count(); ++tensor) {
    OnTensorReady(tensor, now, out);
  }
  InHand()->is_computed = true;
  return Status::Ok();
}

void StepPipeline::OnEvaluated(
    const ComputeResult& result, bool is_void, bool may_report, TimePoint now, proto::Outbox* out) {
  times_.OnTaskDone(result, now);
  times_.OnEvaluated(result);
  parameters_.HandOverStash();
  if (is_void || !std::exchange(is_evaluating_, false)) {
    return;
  }
  const proto::LeaseGrant& grant = leases_.Front()->grant;
  if (may_report) {
    reports_.Add(
        proto::EvaluateReport{
            session_.incarnation,
            grant.lease,
            grant.end - grant.begin,
            result.loss_sum,
            result.correct,
            result.sums},
        now,
        out);
  }
  leases_.Pop();
}

Status StepPipeline::AdvanceCompute(bool may_begin, TimePoint now, proto::Outbox* out) {
  LeaseQueue::Lease* const lease = leases_.Front();
  if ((!may_begin && !last_begins_by_) || is_host_busy_ || computing_ || lease == nullptr) {
    return Status::Ok();
  }
  const bool is_evaluation = !lease->is_train();
  // An evaluation must see this worker's own last step; two unacknowledged steps have no gradient
  // left.
  if (travelling_ && (is_evaluation || !parameters_.is_overlapping())) {
    return Status::Ok();
  }
  if (is_evaluation && reports_.has_evaluation()) {
    return Status::Ok();  // one report at a time
  }
  if (!is_evaluation) {
    PS_ASSIGN(const bool has_settings, TakeSettings(lease->grant.settings));
    if (!has_settings) {
      return Status::Ok();
    }
  }
  if (!parameters_.Prepare(lease->grant, now, out)) {
    return Status::Ok();
  }
  const Status status = is_evaluation ? StartEvaluation(lease->grant) : StartStep(lease, now, out);
  if (!status.ok()) {
    return Status(status).Annotate("begin a step");
  }
  is_host_busy_ = true;
  times_.OnTask(now);
  return Status::Ok();
}

/// Gradients in their memory are of one layout: none is lent when it changes.
Result<bool> StepPipeline::TakeSettings(const proto::StepSettings& settings) {
  const bool is_push_same =
      settings.push == settings_.push && settings.has_feedback == settings_.has_feedback;
  if (!is_push_same && is_busy()) {
    return false;
  }
  if (settings.pull != settings_.pull) {
    links_.SetPullEncoding(settings.pull);
  }
  if (!is_push_same) {
    std::vector<codec::Encoding> encodings;
    for (size_t tensor = 0; tensor < links_.layout().tensor_count(); ++tensor) {
      const std::vector<proto::PushKind>& pushes = session_.settings.tensor_pushes;
      encodings.push_back(proto::PushEncodingOf(
          settings.push, pushes.empty() ? proto::PushKind::kGradient : pushes[tensor]));
    }
    links_.SetPushEncodings(encodings);
    PS_TRY(host_.ChangeEncodings(links_.layout(), settings.has_feedback));
    log_.Info(
        "encodings", {{"push", settings.push.ToText()}, {"error_feedback", settings.has_feedback}});
  }
  settings_ = settings;
  return true;
}

Status StepPipeline::StartStep(LeaseQueue::Lease* lease, TimePoint now, proto::Outbox* out) {
  const SamplesAhead samples = leases_.NextOf(*lease);
  StepWork work;
  work.done.step = ++last_step_;
  work.done.lease = lease->grant.lease;
  work.done.begin = samples.begin;
  work.done.end = samples.end;
  work.round = lease->grant.round;
  work.local_steps = lease->grant.local_steps;
  work.reference_steps = lease->grant.settings.local_steps;
  work.is_local = lease->grant.is_local();
  work.began = now;
  lease->next = samples.end;
  ComputeTask task;
  task.session = session_.number;
  task.step = work.done.step;
  task.epoch = samples.epoch;
  task.begin = samples.begin;
  task.end = samples.end;
  task.minibatch = leases_.MinibatchOf(*lease);
  task.local_steps = lease->grant.local_steps;
  task.is_local = lease->grant.is_local();
  task.samples_done = lease->grant.samples_done + (samples.begin - lease->grant.begin);
  times_.counters().steps_late += parameters_.IsLate(work.done.step) ? 1 : 0;
  const bool is_last = last_begins_by_.has_value();
  if (is_last) {
    last_begins_by_.reset();
    TellLast(work.done.step);
  }
  PS_ASSIGN(work.gradient, host_.StartCompute(task));
  computing_ = std::move(work);
  if (!travelling_ && MayTravel(*computing_)) {
    BeginTravel(!is_last, now, out);  // tensors leave as backward finishes them
  }
  return Status::Ok();
}

Status StepPipeline::StartEvaluation(const proto::LeaseGrant& grant) {
  is_evaluating_ = true;
  parameters_.OnEvaluation();
  ComputeTask task;
  task.session = session_.number;
  task.kind = proto::LeaseKind::kEvaluate;
  task.epoch = grant.epoch;
  task.begin = grant.begin;
  task.end = grant.end;
  return host_.StartCompute(task).status();
}

bool StepPipeline::HasStepToFinish() {
  const StepWork* const dropped = is_step_dropped_ ? InHand() : nullptr;
  return (computing_ && &*computing_ != dropped) || (travelling_ && &*travelling_ != dropped) ||
         last_begins_by_.has_value();
}

void StepPipeline::ShortenStepThatIsLate(TimePoint deadline, TimePoint now) {
  const StepWork* const work = InHand();
  if (work == nullptr || is_step_dropped_) {
    return;
  }
  const Duration step = FromSeconds(kStepMargin * times_.step_seconds());
  const TimePoint latest = now + (deadline - now) / 2;
  const bool is_first = times_.step_seconds() == 0;  // nobody knows how long it takes
  if (work->began + step <= latest && (!work->is_local || !is_first)) {
    return;
  }
  if (work->local_steps > 1 && now + step / work->local_steps <= latest) {
    log_.Info("step_ends_early", {{"step", work->done.step}});
    host_.EndStepEarly(work->done.step);
    return;
  }
  log_.Info("step_dropped", {{"step", work->done.step}});
  DropStep();
}

void StepPipeline::HandOverWithLast(TimePoint deadline, TimePoint now) {
  const double rate = times_.push_bytes_per_s();
  if (is_step_dropped_ || is_device_lost_ || !settings_.push.is_lossy() ||
      !settings_.has_feedback || rate == 0 || !host_.CanHandOver()) {
    return;  // nothing is held back, or nobody knows how long it would take
  }
  const double bytes = static_cast<double>(links_.layout().element_count()) * sizeof(float);
  const double seconds = kPushMargin * bytes / rate;
  const bool has_time = seconds <= Seconds(deadline - now) / 2;
  const StepWork* const work = InHand();
  last_begins_by_.reset();
  if (has_time && !has_told_last_ && (work == nullptr || !work->is_local)) {
    last_begins_by_ = LatestOfOneMore(deadline, now);
  }
  if (last_begins_by_ || (has_time && has_told_last_)) {
    return;
  }
  if (work == nullptr || !has_time) {
    log_.Info("held_back_is_lost", {{"push_s", seconds}});
    TellLast(0);
  } else {
    TellLast(work->done.step);
  }
}

void StepPipeline::TellLast(Step step) {
  if (step == 0 && !has_told_last_) {
    return;
  }
  if (step != 0) {
    log_.Info("held_back_goes_along", {{"step", step}});
  }
  has_told_last_ = true;
  host_.HandOver(step);
}

/// Some tensors of the step in hand are encoded already, or it travels. In bsp others wait for
/// those who compute for the round, and a lease is one step.
std::optional<TimePoint> StepPipeline::LatestOfOneMore(TimePoint deadline, TimePoint now) {
  const LeaseQueue::Lease* const lease = leases_.Front();
  if (lease == nullptr || !lease->is_train() || !lease->has_work() ||
      lease->grant.mode == proto::Mode::kBsp) {
    return std::nullopt;
  }
  const TimePoint latest =
      now + (deadline - now) / 2 - FromSeconds(kStepMargin * times_.step_seconds());
  // The step in hand ends before.
  const Duration rest = InHand() == nullptr ? Duration() : FromSeconds(times_.step_seconds());
  return now + rest < latest ? std::optional(latest) : std::nullopt;
}

void StepPipeline::GiveUpOneMore(TimePoint now) {
  if (last_begins_by_ && now > *last_begins_by_) {
    last_begins_by_.reset();
    log_.Info("held_back_is_lost", {{"why", "no step began in time"}});
  }
}

void StepPipeline::DropTask() {
  is_device_lost_ = true;
  if (InHand() != nullptr && !is_step_dropped_) {
    DropStep();
  }
  is_evaluating_ = false;
}

void StepPipeline::DropStep() {
  is_step_dropped_ = true;
  ++times_.counters().steps_dropped;
}

}  // namespace ps::client
