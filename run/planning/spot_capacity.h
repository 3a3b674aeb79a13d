#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "provisioner/planner/planner.h"
#include "provisioner/simulator/simulation_input.h"

namespace ps::run {

// What a fleet of spot machines comes to where they can't always be had, by how many could be in
// the past: the run is begun again and again along the trace.

/// Machines of one offer that could be had over time.
struct SpotPool {
  size_t offer = 0;                              // of the problem
  std::vector<provisioner::CapacityStep> steps;  // from 0 on, ascending
  double end_s = 0;
};

/// What a machine costs beside its hours.
struct PoolTimes {
  double start_s = 0;   // from asking for one until its worker takes part
  double detect_s = 0;  // from a loss until another one is asked for
};

/// The fleet at one moment of the run, in the mean over all beginnings.
struct PoolPoint {
  double at_s = 0;
  std::vector<double> working;  // per offer
};

struct CapacityOutlook {
  int beginnings = 0;      // of the run along the traces
  double in_time = 0;      // share of them that reach the goal in time
  double seconds = 0;      // in the mean, of those that reach it within the traces
  double usd = 0;          // likewise
  double revocations = 0;  // likewise
  double reached = 0;      // share that does
  std::vector<PoolPoint> points;
};

/// Runs a fleet over the traces of its pools. The problem has to outlive it.
class SpotCapacity {
 public:
  /// Offers without a pool are always there.
  SpotCapacity(
      const provisioner::PlanProblem& problem, std::vector<SpotPool> pools, PoolTimes times);

  /// Wanted: counts per offer. Of the pool `spare`, if any, machines stand in for those that the
  /// others lack. `seconds_max`: the goal's; infinity for none.
  CapacityOutlook Expect(
      const provisioner::FleetChoice& choice, double seconds_max, const SpotPool* spare = nullptr);

  /// Most beginnings that are tried, evenly along the shortest trace.
  static constexpr int kBeginningsMax = 100;

 private:
  struct Run {
    double seconds = 0;
    double usd = 0;
    double revocations = 0;
    bool is_reached = false;
    std::vector<PoolPoint> points;
  };

  /// From `begin_s` of the traces on, until the goal or the end of the shortest.
  Run RunFrom(
      const provisioner::FleetChoice& choice,
      std::span<const SpotPool> pools,
      double begin_s,
      double grid_s) const;

  double StepsPerSecond(
      const provisioner::FleetChoice& choice, const std::vector<int>& working) const;

  const provisioner::PlanProblem& problem_;
  std::vector<SpotPool> pools_;
  PoolTimes times_;
};

}  // namespace ps::run
