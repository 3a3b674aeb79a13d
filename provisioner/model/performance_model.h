#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

namespace ps::provisioner {

// Predicts what a fleet does. Pure: same input, same answer. A fleet is a count per worker class
// and a server side; nothing here knows of prices.
//
// Symbols in brackets are those of "spotDNN: Provisioning Spot Instances for Predictable
// Distributed DNN Training in the Cloud" (IWQoS 2023).

/// One kind of worker, for one job.
struct WorkerClass {
  std::string name;
  double compute_s = 0;  // one step without communication [T_comp]
  double samples = 0;    // of one step [b_i]
  int devices = 1;       // [g_i]
  // Between its devices and its memory [B_pcie]; 0: none is crossed, or compute_s has that.
  double pcie_bytes_per_s = 0;
  double link_bytes_per_s = 0;  // what it takes when alone, each way [B_req]
  // One step alone as it was measured, by which spotDNN's prototype sorts; 0: as predicted.
  double iteration_s = 0;
  // Deviation of the log of its step time, which was reckoned, not measured; 0: it was.
  double deviation = 0;
};

/// What every step moves, and when.
struct JobTraffic {
  double push_bytes = 0;  // of one exchange; S when nothing is compressed
  double pull_bytes = 0;
  // Per device and exchange: 2 S, gradients out and parameters in, as [7] has it. Workers of ours
  // send one sum of gradients out for all their devices, but their compute_s has the copies.
  double pcie_bytes = 0;
  int local_steps = 1;  // steps between two exchanges
  double overlap = 0;   // share of communication that computation can hide, 0 to 1
  // How much longer an exchange is under way than it keeps links busy one after the other: 2 where
  // as many bytes are pulled while others are pushed.
  double round_trip = 1;
};

struct ServerSide {
  int hosts = 1;
  double link_bytes_per_s = 0;  // of one host, each way; B_ps is hosts times this
};

enum class Bottleneck : unsigned char { kCompute, kPcie, kWorkerLink, kServerLink };
/// "compute", "pcie", "worker network", "server network"
std::string_view BottleneckName(Bottleneck bottleneck);

struct SpeedPrediction {
  double steps_per_s = 0;    // of all workers together [1 / T_exp]
  double samples_per_s = 0;  // [v]
  double batch_mean = 0;     // samples_per_s / steps_per_s [b_w]
  double heterogeneity = 0;  // [R]
  double server_busy = 0;    // share of the servers' bandwidth in use, 0 to 1
  // Share of a worker's exchanges, mean over the workers, whose parameters come too late for its
  // next step, since computing did not hide them; see LateShare. 1 without overlap.
  double late = 1;
  Bottleneck bottleneck = Bottleneck::kCompute;
  // Deviation of the log of the speed, by classes whose step times were reckoned: a mean by
  // samples/s, since what is wrong of one such class is likely wrong of the others.
  double deviation = 0;
};

/// From `low` to `high`, both included.
struct Range {
  double low = 0;
  double high = 0;
};

/// Bounds that no fleet of a family exceeds; for planners that prune.
struct SpeedBounds {
  std::vector<double> steps_per_s;  // per class, of one worker
  double fleet_steps_per_s = 0;     // of all together; infinity when only the above binds
  // Per class: the fleet makes no fewer steps than its workers at these rates. Empty: not known.
  std::vector<double> steps_per_s_min;
  // Per class: summed over the workers of a fleet in that range of loads, it is at most 0; above,
  // the fleet is of a higher load. Empty: not known.
  std::vector<double> crowding;
  Range late{0, 1};       // SpeedPrediction::late of every fleet lies in it
  bool is_exact = false;  // the per-class rates are the model's own for every fleet of that size
};

class SpeedModel {
 public:
  virtual ~SpeedModel() = default;

  /// The name it has in plans: "queue", "spotdnn", "spotdnn-prototype", "ideal".
  virtual std::string_view name() const = 0;

  virtual const std::vector<WorkerClass>& classes() const = 0;

  /// counts[k] workers of classes()[k], at least one in all. Allocates nothing.
  virtual SpeedPrediction Predict(std::span<const int> counts, const ServerSide& servers) const = 0;

  /// Seconds of one step of each class in that fleet [T_i], for reports.
  virtual std::vector<double> StepSeconds(
      std::span<const int> counts, const ServerSide& servers) const = 0;

  /// Holds for every fleet of exactly `workers` workers in all.
  virtual SpeedBounds Bound(int workers, const ServerSide& servers) const = 0;

  /// The loads that fleets of that size can have: a number of the model's own by which fleets
  /// differ that Bound holds alike, such as how long workers wait. A point when nothing differs.
  virtual Range Loads(int /*workers*/, const ServerSide& /*servers*/) const { return {}; }

  /// Bound, for the fleets whose load lies in the range: the narrower, the tighter.
  virtual SpeedBounds BoundWithin(
      int workers, const ServerSide& servers, const Range& /*load*/) const {
    return Bound(workers, servers);
  }

  /// A lower bound of the load of fleets of that size that make at least `steps_per_s`.
  virtual double LoadAtLeast(
      int /*workers*/, const ServerSide& /*servers*/, double /*steps_per_s*/) const {
    return 0;
  }

  /// Whether the bounds above are proved, and not only checked by experiment; see PLANNING.md of
  /// the planner.
  virtual bool has_proven_bounds() const { return false; }

  /// Standard deviation of the relative error of samples_per_s, from the fit.
  virtual double residual() const = 0;
};

/// The traits of a fleet on which its steps depend; see SpeedPrediction.
struct FleetTraits {
  int workers = 1;
  double batch_mean = 0;
  double heterogeneity = 0;
  double late = 1;
  double deviation = 0;  // of its speed, beside the model's residual
};

FleetTraits TraitsOf(const SpeedPrediction& speed, int workers);

/// All fleets of that size whose traits lie in these ranges.
struct FleetFamily {
  int workers = 1;
  Range batch_mean;
  Range heterogeneity;
  Range late{0, 1};
};

/// Where a run is already, for models of what is left of it.
struct RunProgress {
  double loss = std::numeric_limits<double>::infinity();  // it is down to; infinity: it begins
  double pace = 1;  // steps that it takes, of each that the fit says
};

/// A straight line over the mean batch b. It tells what steps with a batch are worth beside the
/// family's best: StepsTo is at least StepsAtLeast / (constant + slope b) for each of its fleets.
struct BatchLine {
  double constant = 1;
  double slope = 0;
  double kink = 0;  // within the range: on either side of it lines are tighter; 0: none

  double At(double batch) const { return constant + slope * batch; }
};

/// How many steps a fleet needs; of a run that is on its way, how many more.
class LossModel {
 public:
  virtual ~LossModel() = default;

  /// Steps of all workers together until `loss` [j]; infinity when it is never reached. Never falls
  /// with `late`.
  virtual double StepsTo(double loss, const FleetTraits& fleet) const = 0;

  /// No fleet of the family needs fewer steps. Tight when the ranges are points. For planners that
  /// prune: StepsTo need not be monotone in what is not said above.
  virtual double StepsAtLeast(double loss, const FleetFamily& fleets) const = 0;

  /// Bounds for families of fleets with these batches; a narrower range gives tighter ones. For
  /// planners that prune: where small batches need more steps, a fleet is as good as a sum over its
  /// workers. Requires: the range is not empty, its ends are above 0.
  virtual BatchLine BatchLineOf(const Range& /*batch_mean*/) const { return {}; }

  /// Lowest loss that any number of steps reaches.
  virtual double floor() const = 0;

  /// Standard deviation of the relative error of the steps, from the fit: of fleets and losses like
  /// those measured.
  virtual double residual() const = 0;

  /// That of this fleet to `loss`; never less.
  virtual double ResidualAt(double /*loss*/, const FleetTraits& /*fleet*/) const {
    return residual();
  }
};

/// How fast a run got where it is.
struct MeasuredPace {
  double ratio = 1;  // steps done, of those that the model says
  double pace = 1;   // RunProgress::pace: the ratio, as far as it is more than doubt
};

/// The pace of a run that is down to `loss` after `steps_done` steps of such a fleet. `model` is
/// that of a whole run. 1 and 1, nothing measured, if the model knows no steps to that loss.
MeasuredPace PaceOf(
    const LossModel& model, const FleetTraits& fleet, double loss, double steps_done);

}  // namespace ps::provisioner
