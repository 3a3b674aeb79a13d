#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ps/base/status.h"
#include "ps/proto/files/profile.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/messages.h"

namespace ps::provisioner {

// Steps of several minibatches (train.local_steps). What a run counts as a step is one exchange;
// what profiles, models and plans count are minibatches. Pure.

inline constexpr int kLocalStepsMax = 10000;  // of train.local_steps

/// Minibatches that all workers of the run have made together. With local steps the samples tell:
/// a round may be cut short, and with local_steps_by_speed rounds differ.
double MinibatchesCounted(const proto::JobStatus& status, uint32_t local_steps);

/// Minibatches behind the steps of a worker, whose own are of `minibatch` samples.
double MinibatchesOf(const proto::WorkerStats& stats, uint32_t minibatch, uint32_t local_steps);

/// The job with another number of local steps, all else as it is as far as it can be: `outer` is
/// of local steps alone, `overlap` of single minibatches. Requires: local_steps >= 1. Errors:
/// kInvalidArgument (a step would have too many samples).
Result<proto::JobConfig> WithLocalSteps(proto::JobConfig config, uint32_t local_steps);

/// The training loss after so many samples.
struct LossAt {
  double samples = 0;
  double loss = 0;
};

/// Samples that `curve` takes to a loss, as a multiple of those of `reference`: the geometric mean
/// over losses that both come down to, the lower half of them. A curve is at a loss when it is
/// first down to it. Errors: kInvalidArgument (a curve has too few points, or they have no loss in
/// common on their way down).
Result<double> SamplesRatio(std::span<const LossAt> reference, std::span<const LossAt> curve);

/// Samples to a loss with `local_steps`, as a multiple of those of the profile's own number, by
/// what was measured of this mode. Between two numbers it is a power law of them. Nothing where
/// none was measured on either side.
std::optional<double> PenaltyOf(
    const proto::JobProfile& profile, int local_steps, std::string_view mode);

}  // namespace ps::provisioner
