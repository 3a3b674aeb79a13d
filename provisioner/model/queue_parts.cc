#include "provisioner/model/queue_parts.h"

#include <cmath>

namespace ps::provisioner {

QueueServers QueueServersOf(
    const JobTraffic& traffic, const proto::QueueFit& fit, const ServerSide& servers) {
  QueueServers result;
  result.link_bytes_per_s = servers.hosts * servers.link_bytes_per_s;
  const double overhead_s = fit.overhead_s / servers.hosts / 2;
  result.stations.push_s =
      TransferSeconds(traffic.push_bytes, result.link_bytes_per_s) + overhead_s;
  result.stations.pull_s =
      TransferSeconds(traffic.pull_bytes, result.link_bytes_per_s) + overhead_s;
  return result;
}

namespace {

/// The rate of servers that share, for as many equal workers as the fleet amounts to.
double SharingRate(const FleetRates& fleet, const StationPair& stations, double overlap) {
  const double customers = fleet.customers();
  const double alone_s = fleet.alone_s();
  const double think_s = std::max(alone_s - stations.sum(), 0.0);
  const double hidden_alone_s = std::min(overlap * fleet.communication_s, fleet.compute_s);
  const double shorter_max_s = fleet.compute_s - hidden_alone_s;
  if (overlap <= 0 || shorter_max_s <= 0) {
    return SharedRate(customers, think_s, stations);
  }
  // Waiting that hides behind computation brings the next exchange on sooner, which lengthens the
  // wait, by less than it brings on: one fixed point. What hides is convex in what is brought on,
  // so that Newton's steps come from below.
  constexpr int kRounds = 12;
  // The last step is not followed by a queue but by a parabola through the last two.
  constexpr double kLastStep = 5e-5;
  constexpr double kTinyStep = 1e-8;
  constexpr double kSlopesExactMax = 64;  // customers
  double shorter_s = 0;
  double before_s = 0;
  double slope_before = 0;
  for (int i = 0; i < kRounds; ++i) {
    const double left_s = std::max(think_s - shorter_s, 0.0);
    const SharedCycle cycle = SharedCycleOf(customers, left_s, stations);
    const double wait_s = std::max(cycle.cycle_s - (alone_s - shorter_s), 0.0);
    const double gap_s = overlap * (fleet.communication_s + wait_s) - hidden_alone_s - shorter_s;
    const double slope = left_s > 0 ? cycle.slope : 0;
    const double fall = std::max(1 - overlap + overlap * slope, 1e-12);
    double step_s = gap_s / fall;
    const bool has_parabola = i > 0 && customers <= kSlopesExactMax;
    if (std::abs(step_s) <= (has_parabola ? kLastStep : kTinyStep) * alone_s) {
      const double bend =
          shorter_s > before_s ? (slope_before - slope) / (shorter_s - before_s) / 2 : 0;
      step_s += overlap * bend * step_s * step_s / fall;
      return customers / (cycle.cycle_s - (slope - bend * step_s) * step_s);
    }
    before_s = shorter_s;
    slope_before = slope;
    shorter_s = std::max(shorter_s + step_s, 0.0);
    if (!(shorter_s < shorter_max_s)) {
      break;
    }
  }
  shorter_s = std::min(shorter_s, shorter_max_s);
  return SharedRate(customers, std::max(think_s - shorter_s, 0.0), stations);
}

}  // namespace

double FleetRate(
    const FleetRates& fleet, const StationPair& stations, double overlap, double wait_share) {
  const double slower_s = stations.slower();
  const double turns = slower_s > 0 ? std::min(fleet.rate, 1 / slower_s) : fleet.rate;
  if (wait_share <= 0 || slower_s <= 0) {
    return turns;
  }
  const double shared = std::min(SharingRate(fleet, stations, overlap), turns);
  if (wait_share >= 1) {
    return shared;
  }
  return turns * (1 - std::pow(1 - shared / turns, 1 / wait_share));
}

}  // namespace ps::provisioner
