#include "ps/client/parameter_gate.h"

#include <algorithm>
#include <utility>

namespace ps::client {

void ParameterGate::Reset() {
  needs_pull_ = true;
  pull_lease_ = LeaseId();
  stash_.clear();
}

bool ParameterGate::Prepare(const proto::LeaseGrant& grant, TimePoint now, proto::Outbox* out) {
  const bool is_evaluation = grant.kind == proto::LeaseKind::kEvaluate;
  if (!is_evaluation && grant.mode != mode_) {
    mode_ = grant.mode;
    needs_pull_ = true;  // others have made steps that the new mode does not let this one miss
  }
  const bool is_bsp = grant.mode == proto::Mode::kBsp;
  const uint64_t min_round = !is_bsp || is_evaluation ? grant.round : grant.round - 1;
  if (pull_lease_ == grant.lease) {
    if (!links_.are_pulls_done()) {
      return false;
    }
    pull_lease_ = LeaseId();
    needs_pull_ = false;
    return true;
  }
  if (!is_evaluation && !needs_pull_ && !(is_bsp && links_.HasPulledBefore(min_round))) {
    return is_overlapping() || links_.are_pulls_done();
  }
  pull_lease_ = grant.lease;
  links_.BeginPull(min_round, is_evaluation, now, out);
  return false;  // the answers come as messages
}

bool ParameterGate::IsLate(Step step) const {
  return !is_overlapping() || !links_.HavePulledStep(step - std::min<Step>(step, 2));
}

void ParameterGate::OnValues(std::vector<PullIntake::Fresh> values, bool is_host_busy) {
  for (PullIntake::Fresh& fresh : values) {
    if (is_host_busy && !host_.TakesChunksDuringTasks()) {
      stash_.push_back(std::move(fresh));
    } else {
      host_.TakeChunk(fresh);
    }
  }
}

void ParameterGate::HandOverStash() {
  for (const PullIntake::Fresh& fresh : stash_) {
    host_.TakeChunk(fresh);
  }
  stash_.clear();
}

}  // namespace ps::client
