#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "provisioner/simulator/fleet_policy.h"
#include "ps/base/status.h"

namespace ps::provisioner {

/// From `at_s` on, so many spot machines can be had.
struct CapacityStep {
  double at_s = 0;
  uint32_t nodes = 0;
};

/// The machines behind the counts: whenever a count falls, the seed draws who goes, before any
/// policy has chosen. Requires: times ascend from 0 on and end before `end_s`.
std::vector<SpotMachine> MachinesOf(
    std::span<const CapacityStep> steps, double end_s, uint64_t seed);

/// The fleet's counts from one moment on.
struct SimulationPoint {
  double at_s = 0;
  uint32_t available = 0;    // spot machines that can be had
  uint32_t working = 0;      // workers that take part
  double samples = 0;        // so far
  double samples_ideal = 0;  // as SimulationResult has it
};

/// What a policy came to. Node-seconds: machines times seconds.
struct SimulationResult {
  double seconds = 0;       // until the goal, or to the end of the trace
  bool is_reached = false;  // the goal; false without one
  double samples = 0;
  double samples_ideal = 0;  // of all machines that could be had, without start or loss
  double usd = 0;            // machines and egress
  double egress_usd = 0;
  double working_node_s = 0;
  double idle_node_s = 0;    // paid for, and not working: starting, or kept as a spare
  double lost_node_s = 0;    // work of steps that revocations undid
  uint64_t revocations = 0;  // of machines that were held
  uint64_t starts = 0;
  uint64_t failed_starts = 0;  // of these: no worker came of them
  uint64_t plans = 0;          // how often the policy wished for another fleet
  uint64_t events = 0;         // that were simulated
  std::vector<SimulationPoint> points;
};

/// Runs the policy over the trace on virtual time: events are the changes of the trace, the
/// policy's intervals, prices, and machines that get ready. A start that fails is paid for until
/// then; starts on demand never fail, which the policy "deadline" relies on. Workers make progress
/// at the rate of their number between two events, which is exact for rates that depend on the
/// number alone. Same input, same result. Errors: kInvalidArgument (figures that make no sense).
Result<SimulationResult> Simulate(
    const SimulatedJob& job,
    std::span<const SpotMachine> machines,
    double end_s,
    FleetPolicy* policy);

}  // namespace ps::provisioner
