#pragma once

#include <span>

#include "provisioner/simulator/fleet_policy.h"
#include "provisioner/simulator/simulation_input.h"
#include "provisioner/simulator/simulation_result.h"
#include "ps/base/status.h"

namespace ps::provisioner {

/// Runs the policy over the trace on virtual time, by rates: events are the changes of the trace,
/// the policy's intervals, prices, and machines that get ready. A start that fails is paid for
/// until then; starts on demand never fail, which the policy "deadline" relies on. Workers make
/// progress at the rate of their number between two events, which is exact for rates that depend on
/// the number alone. Same input, same result. Errors: kInvalidArgument (figures that make no
/// sense).
Result<SimulationResult> Simulate(
    const SimulatedJob& job,
    std::span<const SpotMachine> machines,
    double end_s,
    FleetPolicy* policy);

}  // namespace ps::provisioner
