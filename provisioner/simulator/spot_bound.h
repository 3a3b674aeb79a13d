#pragma once

#include <span>

#include "provisioner/simulator/fleet_policy.h"
#include "provisioner/simulator/simulation_result.h"
#include "ps/base/status.h"

namespace ps::provisioner {

/// Its name among the policies of `psctl simulate`.
inline constexpr char kSpotBound[] = "oracle";

/// A bound: on these spot machines no policy trains more until `end_s`, or reaches the goal sooner.
/// At each moment as many workers take part as there are machines on which one could by then, up to
/// the job's workers. So it knows when each machine comes and goes: each is started in time for the
/// place that it takes, none fails, and no step is lost. `beyond_s`: for so long a worker goes on
/// after its machine was taken back, to finish its step. What it pays is the price of these
/// machines, and bounds nothing: who trains less may pay less. Errors: kInvalidArgument (figures
/// that make no sense).
Result<SimulationResult> SpotBound(
    const SimulatedJob& job,
    std::span<const SpotMachine> machines,
    double end_s,
    double beyond_s = 0);

}  // namespace ps::provisioner
