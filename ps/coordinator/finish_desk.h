#pragma once

#include <optional>
#include <string>

#include "ps/coordinator/checkpoints/best_desk.h"
#include "ps/coordinator/checkpoints/checkpoint_desk.h"
#include "ps/coordinator/state/job.h"
#include "ps/coordinator/workers/lease_desk.h"

namespace ps::coordinator {

/// What is done between the last step of training and the leaving of the workers, in this order:
/// the steps under way end, a model that was stopped is evaluated as it is, a checkpoint of it is
/// made, the shards take the best epoch's model in its place, and that is evaluated. What the job
/// does not ask for, or cannot have, is left out; each wait has an end. Keeps JobState::finish.
///
/// When all was trained, only the last three are left. A job without checkpoint.best and without
/// samples for validation needs none of it then.
class FinishDesk {
 public:
  FinishDesk(Job* job, LeaseDesk* leases, CheckpointDesk* checkpoints, BestDesk* best)
      : job_(job), leases_(leases), checkpoints_(checkpoints), best_(best) {}

  bool is_on() const { return job_->is_finishing(); }

  /// All epochs are trained and evaluated. False: nothing is to be done.
  bool BeginTrained();
  /// A stop was asked for, in the midst of training. False: nothing is to be done, or can be.
  bool BeginStop(const std::string& why, const Call& call);
  /// Ends training if train.stop_early says so.
  void CheckEarly();
  /// Nothing more is done, for this reason.
  void GiveUp(const std::string& why);

  /// Goes on. True: it is done. Requires: is_on().
  bool Advance(const Call& call);

  /// The shards are to begin anew from this checkpoint, the best epoch's.
  std::optional<proto::EpochCheckpoint> WantsBest() const;

 private:
  /// Advances one step, if it can be.
  void AdvanceSteps(const Call& call);
  void AdvanceEvaluation(const Call& call);
  void AdvanceCheckpoint(const Call& call);
  void AdvanceBest();
  bool IsEpochEvaluated() const;
  bool IsEvaluated(SampleSpan samples, const Call& call);
  /// As AdvanceCheckpoint: whether the newest checkpoint has all that was counted, or can't have.
  bool IsSaved(const Call& call);
  /// A better model than the present one is to be had.
  bool IsBestElsewhere() const;
  void Enter(proto::FinishStep step) const;
  void EnterTest() const;
  bool IsShardAway(const Call& call) const;
  /// Whether nobody has been there to evaluate for long.
  bool IsAlone(const Call& call);

  bool is_stop() const { return !job_->state.finish.is_early && !job_->state.finish.why.empty(); }

  Job* const job_;
  LeaseDesk* const leases_;
  CheckpointDesk* const checkpoints_;
  BestDesk* const best_;
  std::optional<TimePoint> deadline_;  // of the present step
  std::optional<TimePoint> alone_since_;
  bool has_tried_checkpoint_ = false;
};

}  // namespace ps::coordinator
