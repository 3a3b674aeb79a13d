#pragma once

#include <cstdint>

#include "provisioner/fleet/job_fleet.h"
#include "provisioner/simulator/fleet_policy.h"
#include "provisioner/simulator/virtual_time.h"
#include "ps/base/logger.h"
#include "ps/coordinator/state/job_state.h"

namespace ps::provisioner {

/// Beside them spares and those who leave have a seat, too.
inline constexpr uint32_t kCoresWorkersMax = 14'000;

/// How a run is simulated with the production cores.
struct CoresOptions {
  /// Most steps that are simulated, about. In a longer run several steps of a worker are taken as
  /// one, and a revocation may cost all of these.
  double steps_max = 1e7;
  uint64_t seed = 1;       // of the coordinator
  LogSink* log = nullptr;  // gets the coordinator's lines and the fleet's; null: nobody does
};

/// Seconds of a worker's step at its slowest, as it is simulated: with several steps taken as one.
double SimulatedStepSeconds(const SimulatedJob& job, double end_s, const CoresOptions& options);

/// The same of any number of workers, up to those with the spares of "standby".
double LongestStepSeconds(const SimulatedJob& job, double end_s, const CoresOptions& options);

/// The groups of a simulated job's workers: types of machine, each in a zone of its own.
inline constexpr char kSpotGroup[] = "spot";
inline constexpr char kOnDemandGroup[] = "on-demand";

/// A worker speaks at least so often in a fleet: this share of fleet.max_detect_s.
inline constexpr double kBeatsPerDetect = 3;

/// The job as its coordinator is given it: two groups without workers, since what a policy wishes
/// for comes as psctl scale's message; a shard that is there; leases of some minutes.
coordinator::CoordinatorOptions SimulatedCoordinator(
    const SimulatedJob& job, double end_s, const CoresOptions& options);

/// Its fleet, which writes and reads no file. `clock` outlives it.
JobFleet::Options SimulatedFleetOptions(const proto::JobConfig& config, const VirtualTime* clock);

}  // namespace ps::provisioner
