#pragma once

#include <string>

#include "ps/coordinator/checkpoints/checkpoint_desk.h"
#include "ps/coordinator/state/job.h"
#include "ps/coordinator/state/mode_state.h"
#include "ps/coordinator/workers/lease_desk.h"
#include "ps/coordinator/workers/sit_outs.h"

namespace ps::coordinator {

/// Changes the mode while the job trains: a person asks for it, or train.mode_policy does. No train
/// lease is granted any more. When the last one is done and no round is open, nothing of the old
/// mode is under way anywhere, since a step counts when every shard has it. Then the mode changes,
/// with a membership that tells the shards, and leases are granted again when every shard has
/// acknowledged it. All of it is part of the job's state, so it outlasts a coordinator, and a job
/// that goes back to a checkpoint stays in the mode in force.
class ModeDesk {
 public:
  ModeDesk(Job* job, CheckpointDesk* checkpoints, LeaseDesk* leases)
      : job_(job), checkpoints_(checkpoints), leases_(leases), sit_outs_(job, leases) {}

  void On(const Call& call, const proto::ModeRequest& message);
  /// Does the next thing, before leases are granted.
  void Advance(const Call& call);

 private:
  Status CheckWanted(const proto::ModeChoice& wanted) const;
  void Want(const proto::ModeChoice& wanted, const std::string& policy_why = "");
  void FollowPolicy(TimePoint now);
  void FollowStragglers(TimePoint now);
  bool MayBegin() const;
  void Switch(const Call& call);

  Job* const job_;
  CheckpointDesk* const checkpoints_;
  LeaseDesk* const leases_;
  SitOuts sit_outs_;
};

}  // namespace ps::coordinator
