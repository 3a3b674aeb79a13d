#pragma once

#include <optional>

#include "ps/coordinator/checkpoints/checkpoint_desk.h"
#include "ps/coordinator/state/job.h"

namespace ps::coordinator {

/// checkpoint.best: the epochs that are worth most, and their checkpoints, which stay beside the
/// newest ones (CheckpointDesk). A checkpoint is opened when an epoch's evaluation begins, or is
/// one that has the same steps, and gets that evaluation's result. While it can't be opened yet,
/// since another one is being written for example, its number is 0 and no train lease is granted,
/// but not for long: an epoch that gets none is not among the best. Keeps candidates and best of
/// JobState::checkpoints.
class BestDesk {
 public:
  BestDesk(Job* job, CheckpointDesk* checkpoints) : job_(job), checkpoints_(checkpoints) {}

  bool is_on() const {
    return checkpoints_->is_on() && job_->options.config.checkpoint.best.is_on();
  }

  /// Opens the checkpoint of the epoch that is being evaluated, and notes what those of evaluated
  /// epochs are worth.
  void Follow(const Call& call);

  /// The shards have the best epoch's model.
  bool IsPresent() const;

  /// Adds what is known of the best one.
  void AddTo(proto::CheckpointStatus* status) const;

 private:
  void NoteEpoch();
  void OpenAwaited(const Call& call);
  void Score(const proto::EpochCheckpoint& candidate, const proto::EvaluationRow& row);
  void DropLost();
  const proto::KeptCheckpoint* FindKept(uint64_t checkpoint) const;

  Job* const job_;
  CheckpointDesk* const checkpoints_;
  uint32_t given_up_ = 0;                   // the newest epoch whose checkpoint could not be opened
  std::optional<TimePoint> holding_since_;  // Job::HoldsForEpoch
};

}  // namespace ps::coordinator
