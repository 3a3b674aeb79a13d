#pragma once

#include "checkpoint/manifest.h"
#include "ps/base/status.h"
#include "ps/coordinator/state/job_state.h"

namespace ps::coordinator {

/// Puts into `state` what was trained when `saved` was saved, by workers that are gone: their
/// leases are back in the queue. Numbers that were used stay used.
void TakeTraining(const JobState& saved, JobState* state);

/// The job of `present` goes back to checkpoint `to`, with which `saved` was saved; null: to the
/// beginning. What was trained is as it was then. Nobody takes part, and every shard begins a new
/// life: those of a known process keep it. Chunks on their way stay where they are. All else stays
/// as it is, and so do the numbers that were used, so that nothing of the time in between is taken
/// for new.
JobState GoBack(JobState present, const JobState* saved, const proto::KeptCheckpoint& to);

/// The same by the manifest. Errors: the manifest is not one of this job, or makes no sense.
Result<JobState> StateToGoBackTo(
    const checkpoint::Manifest& manifest, JobState present, const CoordinatorOptions& options);

/// The job of `present`, which trains no more: its shards begin anew from this manifest's
/// checkpoint, and what was trained stays counted. Nobody takes part. Errors: the same.
Result<JobState> StateWithBest(
    const checkpoint::Manifest& manifest, JobState present, const CoordinatorOptions& options);

}  // namespace ps::coordinator
