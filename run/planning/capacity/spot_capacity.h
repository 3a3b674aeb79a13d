#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "provisioner/planner/planner.h"
#include "provisioner/simulator/simulation_input.h"

namespace ps::run {

// What a fleet of spot machines comes to where they can't always be had, by how many could be in
// the past: the run is begun again and again along the traces, and followed to its loss.

/// Machines of one type, or of one type in one zone, that could be had over time.
struct SpotPool {
  std::vector<size_t> offers;                    // of the problem: its minibatches; the first first
  std::vector<provisioner::CapacityStep> steps;  // from 0 on, ascending
  double end_s = 0;
};

/// What a machine costs beside its hours.
struct PoolTimes {
  // Per offer: from asking for one in the place of another until its worker takes part. Those that
  // a run begins with take part after the fleet's own start.
  std::vector<double> start_s;
  double detect_s = 0;  // from a loss until another one is asked for
};

/// The fleet at one moment of the run, in the mean over all windows that get so far.
struct PoolPoint {
  double at_s = 0;
  std::vector<double> working;  // per pool
};

struct CapacityOutlook {
  double in_goal = 0;      // chance to keep time and budget, where the models are in doubt, too
  double reached = 0;      // share of windows in which the run gets to the loss
  double seconds = 0;      // in the mean of these
  double revocations = 0;  // likewise
  double usd = 0;          // in the mean of all windows: what a run costs until its loss or the end
  std::vector<PoolPoint> points;
  // It is worse than what was asked for, or nobody waits: the figures above are not whole.
  bool is_cut = false;
};

/// Where a fleet is of no interest any more.
struct OutlookLimits {
  double in_goal_least = 0;
  double usd_most = std::numeric_limits<double>::infinity();
  std::function<bool()> goes_on = {};  // asked now and then; false: nobody waits for the outlook
};

/// Follows fleets of a problem along the traces of its pools. For one thread.
class SpotCapacity {
 public:
  static constexpr int kWindowsMost = 100;

  /// Runs begin evenly along the shortest trace, up to `windows_most` times, each in a window of
  /// twice `limit_s`, or less where the trace is short. Offers without a pool are always there. The
  /// problem has to outlive it. Requires: one pool at least, no offer in two; every trace lasts
  /// for `limit_s`.
  SpotCapacity(
      const provisioner::PlanProblem& problem,
      std::vector<SpotPool> pools,
      PoolTimes times,
      double limit_s,
      int windows_most = kWindowsMost);

  /// What the fleet comes to: of each offer as many machines as could be had, and no more than it
  /// wants. Fewer machines are not reckoned faster than all of them. Of the pool `spare`, if any,
  /// machines stand in for those that the others lack; the fleet wants none of it itself.
  CapacityOutlook Expect(
      const provisioner::FleetChoice& choice,
      std::optional<size_t> spare = {},
      const OutlookLimits& limits = {}) const;

  /// Expect().usd is no less, as nobody is there sooner than the whole fleet.
  double UsdAtLeast(const provisioner::FleetChoice& choice) const;

  /// Expect().in_goal is no more.
  double InGoalAtMost(const provisioner::FleetChoice& choice) const;

  const std::vector<SpotPool>& pools() const { return pools_; }

  /// The most machines of a pool that could ever be had.
  int MostOf(size_t pool) const { return most_[pool]; }

  /// The most of a pool that could be had in such a share of the time.
  int CountWithin(size_t pool, double share) const;

  int windows() const { return static_cast<int>(windows_.size()); }

  double window_s() const { return window_s_; }

 private:
  struct Window {
    double begin_s = 0;
    std::vector<std::vector<provisioner::SpotMachine>> machines;  // per pool, by begin
  };

  /// A fleet, as far as it is the same in all windows.
  struct Fleet;
  struct Run;

  Run Follow(const Window& window, Fleet* fleet) const;
  /// From one point of the outlook to the next.
  double PointSeconds(const provisioner::FleetChoice& choice) const;
  double StepsPerSecond(const std::vector<int>& working, Fleet* fleet) const;
  double InGoal(const Run& run, const Fleet& fleet) const;
  Fleet FleetOf(const provisioner::FleetChoice& choice, std::optional<size_t> spare) const;
  /// Machine-seconds of up to `wanted` of a pool until a time of its trace.
  double MachineSeconds(size_t pool, int wanted, double until_s) const;

  const provisioner::PlanProblem& problem_;
  std::vector<SpotPool> pools_;
  PoolTimes times_;
  double limit_s_;
  double window_s_ = 0;
  std::vector<Window> windows_;
  // Per pool: for how long each count could be had, the largest first; and that one.
  std::vector<std::map<uint32_t, double, std::greater<>>> count_s_;
  std::vector<int> most_;
  // By pool and number of machines: machine-seconds from 0 to each of the pool's steps.
  mutable std::map<std::pair<size_t, int>, std::vector<double>> machine_s_;
};

}  // namespace ps::run
