#pragma once

#include <string>

#include "ps/base/status.h"
#include "ps/proto/files/plan.h"
#include "ps/proto/files/profile.h"
#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

// A plan run on this machine, and how it came out against what it promised. Pure.

/// As the fields of a job's config say it.
float MbitPerS(double bytes_per_s);

/// The job with the plan's fleet: a worker group for each kind of worker, with its minibatch, the
/// plan's servers and local steps. On machines of the user's own, their times per minibatch and the
/// rates of their links are emulated; a job that rents gets the plan's types and zones, and
/// its prices of traffic where the job has none. The run ends at the plan's loss. Errors:
/// kInvalidArgument for a plan without workers, of another job, of one that trains otherwise, of
/// another model (`model_fingerprint` is the job's), or of a market that the job does not rent
/// from.
Result<proto::JobConfig> ApplyPlan(
    proto::JobConfig config, const proto::Plan& plan, const std::string& model_fingerprint);

/// What a run of the job has otherwise than the plan, for people; empty: nothing that is known.
/// A job that rents has all its servers on one machine: that of psctl, or its head.
std::string PlanNote(const proto::JobConfig& config, const proto::Plan& plan);

/// When a run's smoothed loss was first down to the plan's.
struct LossReached {
  double seconds = 0;  // of training; 0: never
  double steps = 0;
};

/// Predicted against measured, from the first step on: start and take-over, which plans count, are
/// not of training. 0 in `measured`: there is no such value.
struct PlanOutcome {
  proto::Estimate samples_per_s;
  double measured_samples_per_s = 0;
  proto::Estimate seconds;
  double measured_seconds = 0;  // to the loss
  proto::Estimate steps;
  double measured_steps = 0;
  double loss_target = 0;
  double measured_loss = 0;
};

PlanOutcome CompareWithPlan(
    const proto::Plan& plan,
    const proto::JobProfile& measured,
    const LossReached& reached,
    double last_loss);

}  // namespace ps::provisioner
