#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "provisioner/simulator/fleet_policy.h"
#include "ps/base/status.h"

namespace ps::provisioner {

/// From `at_s` on, `nodes` spot machines can be had.
struct CapacityStep {
  double at_s = 0;
  uint32_t nodes = 0;
};

/// The machines behind the counts: whenever a count falls, the seed draws who goes, before any
/// policy has chosen. Requires: times ascend from 0 on and end before `end_s`.
std::vector<SpotMachine> MachinesOf(
    std::span<const CapacityStep> steps, double end_s, uint64_t seed);

/// Whether the job can be simulated until `end_s`. Errors: kInvalidArgument (figures that make no
/// sense).
Status CheckSimulation(const SimulatedJob& job, double end_s);

}  // namespace ps::provisioner
