#pragma once

#include <cstdint>

#include "ps/base/status.h"
#include "ps/proto/files/profile.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/messages.h"

namespace ps::provisioner {

// Steps of several minibatches (train.local_steps). What a run counts as a step is one exchange;
// what profiles, models and plans count are minibatches. Pure.

inline constexpr auto kLocalStepsMax = static_cast<int>(proto::kLocalStepsMax);

/// Minibatches that all workers of the run have made together. With local steps the samples tell:
/// a round may be cut short, and with local_steps_by_speed rounds differ.
double MinibatchesCounted(const proto::JobStatus& status, uint32_t local_steps);

/// Minibatches behind the steps of a worker, whose own are of `minibatch` samples.
double MinibatchesOf(const proto::WorkerStats& stats, uint32_t minibatch, uint32_t local_steps);

/// The most local steps that a step of the job has room for, at least 1.
int LocalStepsMost(const proto::JobConfig& config);

/// The job with another number of local steps, all else as it is as far as it can be: `outer` is
/// of local steps alone, `overlap` of single minibatches. Requires: local_steps >= 1. Errors:
/// kInvalidArgument (a step would have too many samples).
Result<proto::JobConfig> WithLocalSteps(proto::JobConfig config, uint32_t local_steps);

/// How a job exchanges; where that is chosen while it trains, how it begins.
proto::ExchangeScheme SchemeOf(const proto::JobConfig& config);
/// How the steps of a run exchange now.
proto::ExchangeScheme SchemeOf(const proto::StepSettings& settings);

/// The job with another exchange. Errors: as WithLocalSteps.
Result<proto::JobConfig> WithScheme(proto::JobConfig config, const proto::ExchangeScheme& scheme);

}  // namespace ps::provisioner
