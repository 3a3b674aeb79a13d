#pragma once

#include <cstdint>
#include <vector>

#include "provisioner/simulator/fleet_policy.h"

namespace ps::provisioner {

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
  double usd = 0;            // machines, servers and egress
  double egress_usd = 0;
  double working_node_s = 0;
  double idle_node_s = 0;    // paid for, and not working: starting, or kept as a spare
  double lost_node_s = 0;    // work of steps that revocations undid
  uint64_t revocations = 0;  // of machines that were held
  uint64_t starts = 0;
  uint64_t failed_starts = 0;  // of these: no worker came of them
  uint64_t plans = 0;          // how often the policy wished for another fleet
  uint64_t events = 0;         // that were simulated
  uint64_t steps = 0;          // that were counted; by rates: 0
  std::vector<SimulationPoint> points;
};

/// The fleet at one moment, in machines.
struct SimulatedFleet {
  uint32_t available = 0;  // spot machines that can be had
  uint32_t spot = 0;       // held
  uint32_t on_demand = 0;  // held
  uint32_t working = 0;
};

/// Adds up what a simulation comes to: the figures that follow from the fleet over time.
class SimulationBook {
 public:
  /// `job` outlives it.
  explicit SimulationBook(const SimulatedJob& job)
      : job_(job), spot_usd_per_hour_(job.spot_usd_per_hour) {}

  void SetSpotPrice(double usd_per_hour) { spot_usd_per_hour_ = usd_per_hour; }

  /// The fleet stays as it is for `seconds`, in which its workers make `samples`.
  void Pass(double seconds, const SimulatedFleet& fleet, double samples);
  /// A point of the result's lines.
  void Note(double at_s, const SimulatedFleet& fleet, double samples);

  SimulationResult result;

 private:
  const SimulatedJob& job_;
  double spot_usd_per_hour_;
};

}  // namespace ps::provisioner
