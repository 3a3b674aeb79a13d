#include "provisioner/strategies/deadline.h"

namespace ps::provisioner {

double LatestOnDemandStart(const DeadlineJob& job, double work_left_s) {
  return job.deadline_s - work_left_s - 2 * job.changeover_s - job.interval_s;
}

bool IsDeadlineReachable(const DeadlineJob& job) {
  return LatestOnDemandStart(job, job.work_s) >= 0;
}

DeadlineChoice DecideByDeadline(const DeadlineJob& job, const DeadlineState& state) {
  if (state.work_left_s <= 0) {
    return DeadlineChoice::kNothing;
  }
  if (state.now_s >= LatestOnDemandStart(job, state.work_left_s)) {
    return DeadlineChoice::kOnDemand;
  }
  const double progress_s = job.work_s - state.work_left_s;
  const double even_s = job.work_s * state.now_s / job.deadline_s;
  if (state.has_spot) {
    // A change from machines that work costs one changeover: only with that much in hand.
    const bool stays =
        state.running == DeadlineChoice::kOnDemand && progress_s < even_s + job.changeover_s;
    return stays ? DeadlineChoice::kOnDemand : DeadlineChoice::kSpot;
  }
  // Machines that work are kept: to stop them whenever progress is even costs a changeover each
  // time.
  const bool stays = state.running == DeadlineChoice::kOnDemand;
  return stays || progress_s < even_s ? DeadlineChoice::kOnDemand : DeadlineChoice::kNothing;
}

}  // namespace ps::provisioner
