#include "ps/coordinator/finish_desk.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "ps/coordinator/meters/epoch_score.h"

namespace ps::coordinator {
namespace {

using proto::FinishStep;

/// Who stops a run has waited for so long for the steps under way. Then workers hand over what they
/// have, and the model is left as it is.
constexpr Duration kStepsMax = std::chrono::minutes(1);

/// As long as the last checkpoint of a run may take.
constexpr Duration kEvaluationMax = std::chrono::minutes(10);
constexpr Duration kCheckpointMax = std::chrono::minutes(10);

}  // namespace

bool FinishDesk::BeginTrained() {
  const bool has_tests = job_->options.validation_samples > 0 && job_->options.test_samples > 0;
  if (!has_tests && !best_->is_on()) {
    return false;
  }
  job_->edit.finish = {FinishStep::kCheckpoint, false, ""};
  return true;
}

bool FinishDesk::BeginStop(const std::string& why, const Call& call) {
  if (is_on()) {
    if (is_stop()) {
      GiveUp("a stop was asked for once more");
    }
    return !is_stop();  // what is being done ends soon, and the run with it
  }
  if (job_->EpochSamples().is_empty() || job_->membership.members().empty() ||
      job_->state.counters.steps_counted == 0) {
    return false;
  }
  job_->edit.finish = {FinishStep::kSteps, false, why};
  deadline_ = call.now + kStepsMax;
  return true;
}

void FinishDesk::CheckEarly() {
  if (is_on() || job_->state.phase != JobPhase::kTraining || job_->ledger.is_complete()) {
    return;
  }
  const std::optional<std::string> why = WhyStopEarly(
      job_->evaluations.results(),
      job_->options.config.train.stop_early,
      proto::NameOf(job_->options.config.train.stop_early.metric, job_->options.config.model));
  if (why) {
    job_->edit.finish = {FinishStep::kSteps, true, *why};
    job_->events.Tell(proto::EventCode::kStoppedEarly, {{"why", *why}});
  }
}

void FinishDesk::GiveUp(const std::string& why) {
  const FinishStep step = job_->state.finish.step;
  if (step == FinishStep::kNone || step == FinishStep::kDone) {
    return;
  }
  job_->events.Tell(proto::EventCode::kNotEvaluated, {{"why", why}});
  job_->evaluations.GiveUp();
  Enter(FinishStep::kDone);
}

void FinishDesk::Enter(FinishStep step) const {
  job_->edit.finish.step = step;
}

bool FinishDesk::Advance(const Call& call) {
  while (true) {
    const FinishStep before = job_->state.finish.step;
    switch (before) {
      case FinishStep::kSteps:
        AdvanceSteps(call);
        break;
      case FinishStep::kEvaluation:
        AdvanceEvaluation(call);
        break;
      case FinishStep::kCheckpoint:
        AdvanceCheckpoint(call);
        break;
      case FinishStep::kBest:
        AdvanceBest();
        break;
      case FinishStep::kTest:
        if (IsEvaluated(job_->TestSamples(), call)) {
          Enter(FinishStep::kDone);
        }
        break;
      case FinishStep::kNone:
      case FinishStep::kDone:
        return true;
    }
    if (job_->state.finish.step == before) {
      return false;
    }
    deadline_.reset();
    alone_since_.reset();
  }
}

void FinishDesk::AdvanceSteps(const Call& call) {
  const bool is_judged = is_stop() || !job_->evaluations.is_pending() || IsAlone(call);
  if (job_->is_idle() && is_judged) {
    job_->training_ended = job_->training_ended.value_or(call.now);
    Enter(is_stop() ? FinishStep::kEvaluation : FinishStep::kCheckpoint);
    return;
  }
  deadline_ = deadline_.value_or(call.now + kStepsMax);
  if (is_stop() && IsShardAway(call)) {
    GiveUp("a server does not answer");
  } else if (is_stop() && call.now >= *deadline_) {
    GiveUp(fmt::format("the steps under way took longer than {:.0f} s", Seconds(kStepsMax)));
  }
}

/// Who stops a run does not want to wait until it is known to be lost, and what comes of that.
bool FinishDesk::IsShardAway(const Call& call) const {
  return std::ranges::any_of(job_->shards.all(), [&](const Shard& shard) {
    return shard.SilenceAt(call.now) > job_->timing.detect;
  });
}

void FinishDesk::AdvanceEvaluation(const Call& call) {
  const bool is_by_tests =
      !best_->is_on() && job_->options.validation_samples > 0 && !job_->TestSamples().is_empty();
  const SampleSpan samples = is_by_tests ? job_->TestSamples() : job_->EpochSamples();
  if ((!is_by_tests && IsEpochEvaluated()) || IsEvaluated(samples, call)) {
    Enter(FinishStep::kCheckpoint);
  }
}

/// An epoch's end is all that was trained, and its result is there.
bool FinishDesk::IsEpochEvaluated() const {
  const uint32_t epochs = job_->state.epochs_finished;
  const auto& results = job_->evaluations.results();
  return job_->ledger.samples_counted() == epochs * job_->ledger.samples_per_epoch() &&
         !results.empty() && results.back().epoch == epochs;
}

bool FinishDesk::IsAlone(const Call& call) {
  const bool is_anybody_there =
      std::ranges::any_of(job_->membership.members(), [this](const auto& entry) {
        return !entry.second.record->is_draining && !job_->SitsOut(entry.first);
      });
  if (is_anybody_there) {
    alone_since_.reset();
    return false;
  }
  alone_since_ = alone_since_.value_or(call.now);
  return call.now - *alone_since_ >= job_->timing.detect;
}

bool FinishDesk::IsEvaluated(SampleSpan samples, const Call& call) {
  Evaluations& evaluations = job_->evaluations;
  if (evaluations.last() || samples.is_empty()) {
    return true;
  }
  deadline_ = deadline_.value_or(call.now + kEvaluationMax);
  std::string why;
  if (call.now >= *deadline_) {
    why = fmt::format("it took longer than {:.0f} s", Seconds(kEvaluationMax));
  } else if (IsAlone(call)) {
    why = "no worker is left";
  } else if (is_stop() && IsShardAway(call)) {
    why = "a server does not answer";
  }
  if (!why.empty()) {
    job_->events.Tell(proto::EventCode::kNotEvaluated, {{"why", why}});
    evaluations.GiveUp();
    return true;
  }
  if (!evaluations.is_pending()) {
    const proto::CheckpointsState& checkpoints = job_->state.checkpoints;
    const bool is_best = checkpoints.is_best_taken && !checkpoints.best.empty();
    evaluations.BeginLast(
        is_best ? checkpoints.best.front().epoch : job_->state.epochs_finished,
        samples,
        leases_->PartsOf(samples));
  }
  return false;
}

bool FinishDesk::IsBestElsewhere() const {
  const proto::CheckpointsState& checkpoints = job_->state.checkpoints;
  if (!best_->is_on() || checkpoints.best.empty() || best_->IsPresent()) {
    return false;
  }
  const proto::EpochMetric metric = job_->options.config.checkpoint.best.metric;
  const std::optional<proto::EvaluationRow>& last = job_->evaluations.last();
  return !last || !IsBetter(ScoreOf(*last, metric), checkpoints.best.front().score, metric);
}

bool FinishDesk::IsSaved(const Call& call) {
  const proto::CheckpointsState& checkpoints = job_->state.checkpoints;
  if (checkpoints.newest().steps == job_->state.counters.steps_counted) {
    return true;
  }
  deadline_ = deadline_.value_or(call.now + kCheckpointMax);
  if (has_tried_checkpoint_ || call.now >= *deadline_) {
    return true;  // the desk has told why
  }
  has_tried_checkpoint_ = checkpoints_->OpenNow(call) != 0;
  return false;
}

void FinishDesk::AdvanceCheckpoint(const Call& call) {
  if (checkpoints_->is_open() || job_->HoldsForEpoch() || job_->state.servers.chunks ||
      !job_->is_idle()) {
    return;  // each of them ends
  }
  if (!IsBestElsewhere()) {
    EnterTest();
  } else if (IsSaved(call)) {
    Enter(FinishStep::kBest);
  }
}

std::optional<proto::EpochCheckpoint> FinishDesk::WantsBest() const {
  const proto::CheckpointsState& checkpoints = job_->state.checkpoints;
  if (job_->state.phase != JobPhase::kTraining || checkpoints.is_best_taken ||
      job_->state.finish.step != FinishStep::kBest || checkpoints.best.empty()) {
    return std::nullopt;
  }
  return checkpoints.best.front();
}

void FinishDesk::AdvanceBest() {
  if (job_->state.checkpoints.is_best_taken || job_->state.checkpoints.best.empty()) {
    EnterTest();
  }
}

/// The result that there is, if any, is of the model that was stopped.
void FinishDesk::EnterTest() const {
  const proto::CheckpointsState& checkpoints = job_->state.checkpoints;
  const bool is_tested = is_stop() && !best_->is_on();
  if (job_->options.validation_samples > 0 && !is_tested) {
    job_->evaluations.SetLast(std::nullopt);
    Enter(FinishStep::kTest);
    return;
  }
  if (checkpoints.is_best_taken && !checkpoints.best.empty()) {
    const auto& results = job_->evaluations.results();
    const auto row =
        std::ranges::find(results, checkpoints.best.front().epoch, &proto::EvaluationRow::epoch);
    if (row == results.end()) {
      job_->evaluations.SetLast(std::nullopt);
    } else {
      job_->evaluations.SetLast(*row, job_->evaluations.FiguresOf(row->epoch));
    }
  }
  Enter(FinishStep::kDone);
}

}  // namespace ps::coordinator
