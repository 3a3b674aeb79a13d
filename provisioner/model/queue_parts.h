#pragma once

#include <algorithm>

#include "provisioner/model/closed_queue.h"
#include "provisioner/model/performance_model.h"
#include "provisioner/model/queue_model.h"
#include "provisioner/model/step_time.h"
#include "ps/proto/files/profile.h"

namespace ps::provisioner {

// What the queue's predictions and its bounds share.

inline double TransferSeconds(double bytes, double bytes_per_s) {
  return bytes_per_s > 0 ? bytes / bytes_per_s : 0;
}

/// What the servers' side of a prediction is made of.
struct QueueServers {
  double link_bytes_per_s = 0;  // of all hosts; 0: no limit
  StationPair stations;
};

QueueServers QueueServersOf(
    const JobTraffic& traffic, const proto::QueueFit& fit, const ServerSide& servers);

/// What the queue asks of a fleet: sums over its workers, alone.
struct FleetRates {
  double rate = 0;         // exchanges per second
  double rate_square = 0;  // sum of the workers' squares
  // Means, weighed by the rates' squares.
  double compute_s = 0;
  double communication_s = 0;

  /// The workers of equal rates that these amount to.
  double customers() const { return rate * rate / rate_square; }

  double alone_s() const { return rate / rate_square; }
};

inline FleetRates EqualWorkers(double workers, double cycle_s) {
  return {.rate = workers / cycle_s, .rate_square = workers / (cycle_s * cycle_s)};
}

/// Exchanges per second of the fleet.
double FleetRate(
    const FleetRates& fleet, const StationPair& stations, double overlap, double wait_share);

inline CycleParts AloneParts(const FreeTimes& times, const StationPair& stations) {
  return {
      .compute_s = times.compute_s,
      .pcie_s = times.pcie_s,
      .communication_s =
          std::max(times.push_s, stations.push_s) + std::max(times.pull_s, stations.pull_s)};
}

inline CycleParts Waiting(CycleParts parts, double wait_s) {
  parts.communication_s += wait_s;
  return parts;
}

}  // namespace ps::provisioner
