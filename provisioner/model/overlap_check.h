#pragma once

#include <span>
#include <string>
#include <vector>

#include "provisioner/model/overlap_model.h"
#include "provisioner/model/performance_model.h"
#include "ps/base/status.h"
#include "ps/proto/files/profile.h"

namespace ps::provisioner {

// What the overlap model makes of a profile whose steps and link were timed, beside the queue.

/// A worker of a type as the profile tells of it. Errors: kNotFound, its steps were not timed;
/// kInvalidArgument, nor was a link.
Result<OverlapWorker> OverlapWorkerOf(const proto::JobProfile& profile, const std::string& type);

/// Workers' mean time between steps: their number over the steps/s of all.
double MeanStepSeconds(std::span<const double> step_s);

/// A fleet's step as measured and by both models.
struct StepComparison {
  proto::FleetSample fleet;
  double measured_s = 0;  // a worker's mean time between steps
  double queue_s = 0;
  double overlap_s = 0;

  double QueueError() const { return queue_s / measured_s - 1; }

  double OverlapError() const { return overlap_s / measured_s - 1; }
};

/// For each of the profile's fleets whose workers' steps were timed. The queue is fitted as
/// `psctl plan` has it, to these fleets too where there are enough; the overlap model sees no
/// fleet. Errors: as OverlapWorkerOf, when there is no such fleet.
Result<std::vector<StepComparison>> CompareStepModels(
    const proto::JobProfile& profile, ExchangeKind kind);

}  // namespace ps::provisioner
