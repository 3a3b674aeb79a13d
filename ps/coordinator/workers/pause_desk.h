#pragma once

#include "ps/coordinator/checkpoints/checkpoint_desk.h"
#include "ps/coordinator/state/job.h"

namespace ps::coordinator {

/// A person pauses the job: no train lease is granted, workers finish those that they have and
/// wait. Then a checkpoint is made of it all. The pause is part of the job's state, so it outlasts
/// a coordinator and a lost server; `psctl resume` ends it.
/// A job without workers is parked: one checkpoint is made of all that was done, and no other
/// before a worker takes part again.
class PauseDesk {
 public:
  PauseDesk(Job* job, CheckpointDesk* checkpoints) : job_(job), checkpoints_(checkpoints) {}

  void On(const Call& call, const proto::PauseRequest& message);
  /// Makes the checkpoint when nobody trains any more.
  void OnTick(const Call& call);

 private:
  bool IsParked(TimePoint now) const;

  Job* const job_;
  CheckpointDesk* const checkpoints_;
};

}  // namespace ps::coordinator
