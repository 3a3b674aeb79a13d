#pragma once

#include <span>

#include "provisioner/simulator/fleet_policy.h"
#include "provisioner/simulator/simulated_cluster.h"
#include "provisioner/simulator/simulation_input.h"
#include "provisioner/simulator/simulation_result.h"
#include "ps/base/status.h"

namespace ps::provisioner {

/// Runs the policy over the trace on virtual time with the production coordinator, fleet controller
/// and fleet: what the policy wishes for is asked for as `psctl scale` does. Machines go, start and
/// fail as in Simulate, so that both judge a policy on the same fate. Samples are those that the
/// coordinator has counted. Same input, same result, and the same log.
///
/// With `notice_s` a worker is told when the trace has its machine go, and the machine stays so
/// long for it to finish its step and leave, as in a replay with real processes.
///
/// Errors: kInvalidArgument (figures that make no sense, no `step_samples`), kCorruption (the
/// coordinator has refused something, which it never should).
Result<SimulationResult> SimulateWithCores(
    const SimulatedJob& job,
    std::span<const SpotMachine> machines,
    double end_s,
    FleetPolicy* policy,
    const CoresOptions& options);

}  // namespace ps::provisioner
