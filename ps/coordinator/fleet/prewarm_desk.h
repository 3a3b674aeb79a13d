#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ps/coordinator/checkpoints/checkpoint_desk.h"
#include "ps/coordinator/state/job.h"

namespace ps::coordinator {

/// Workers whose provider advises to move, without a date: their machines are likelier to go than
/// others, and most stay. A group with one or more of them gets one worker more for a while, so
/// that a replacement is there when the notice comes, and a checkpoint is made.
class PrewarmDesk {
 public:
  PrewarmDesk(Job* job, CheckpointDesk* checkpoints)
      : job_(job), checkpoints_(checkpoints), extra_(job->state.wanted.size()) {}

  /// How many of the group are to be there.
  uint32_t WantedOf(uint32_t group) const { return job_->state.wanted[group] + extra_[group]; }

  /// Returns whether a group is to have fewer than before: nothing has followed the advice, or the
  /// worker is gone and has been replaced. Cost: members.
  bool OnTick(const Call& call);

 private:
  std::vector<uint32_t> ExtraNow(TimePoint now);

  Job* const job_;
  CheckpointDesk* const checkpoints_;
  std::map<Incarnation, TimePoint> since_;  // who is at risk, and since when
  std::vector<uint32_t> extra_;             // by group: 0 or 1
  bool is_checkpoint_due_ = false;
};

}  // namespace ps::coordinator
