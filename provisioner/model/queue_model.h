#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "provisioner/model/closed_queue.h"
#include "provisioner/model/performance_model.h"
#include "ps/proto/files/profile.h"

namespace ps::provisioner {

/// Seconds of one exchange of a worker behind servers without limit.
struct FreeTimes {
  double compute_s = 0;  // of all its local steps
  double pcie_s = 0;
  double push_s = 0;
  double pull_s = 0;
};

/// A closed queueing network. Each worker cycles for ever: it computes and crosses its PCIe bus,
/// then its push and its pull pass the servers' links, where workers meet.
///
/// Two idealised servers bracket what links do:
///  - sharing: every exchange under way gets an equal part, as TCP connections do. Then the fleet's
///    rate is that of exact mean value analysis, whatever the distribution of the times;
///  - taking turns: one exchange after the other and workers that fall into step, so that nobody
///    waits before the link is full: min(sum of the workers' rates alone, the link's rate).
/// With s and t these two rates, the model's is t (1 - (1 - s / t)^(1 / wait_share)):
/// fit.wait_share 1 is sharing, towards 0 is taking turns. TensorFlow's servers are near 0.6, our
/// own near 1.
///
/// Assumptions, each of which an input can change:
///  - links are full duplex: push and pull are stations of their own;
///  - a worker's bytes are split evenly over the server hosts and go in parallel: `hosts` links are
///    one link of their sum. A host that holds a share f of the bytes, more than the others: give
///    1 host with link_bytes_per_s / f;
///  - alone, an exchange takes as long as the slower of the worker's link and the servers' lets it;
///  - fit.overhead_s of each exchange is the servers' own time, spread over hosts, half of it at
///    each station;
///  - traffic.overlap of the communication, waiting included, hides behind computation.
///
/// Workers of different classes wait equally long. Their queue is that of n equal workers, with
/// n = (sum r)^2 / (sum r^2) for the workers' rates r alone: against exact analysis of up to 3
/// classes whose times differ by up to 70, the error is below 4 %, 0.4 % in the mean.
///
/// More bandwidth is never slower. Without overlap, one more worker is not slower either, but for
/// 0.1 % that equal workers in place of unequal ones may cost, as long as no worker spends more
/// than 0.6 of its cycle at one server link; past that it is up to 1 %, and with overlap up to 3 %.
/// The servers' links are never more than busy. Cost: below 1 us up to 64 workers; overlap takes
/// twice that.
class QueueSpeedModel final : public SpeedModel {
 public:
  /// Requires: at most kClassesMax classes, traffic.local_steps >= 1, and in each class some time:
  /// compute_s > 0, or bytes and a link. A link of 0 bytes/s is one without limit.
  QueueSpeedModel(
      std::vector<WorkerClass> classes, const JobTraffic& traffic, const proto::QueueFit& fit);

  static constexpr int kClassesMax = 256;

  std::string_view name() const override { return "queue"; }

  const std::vector<WorkerClass>& classes() const override { return classes_; }

  SpeedPrediction Predict(std::span<const int> counts, const ServerSide& servers) const override;
  std::vector<double> StepSeconds(
      std::span<const int> counts, const ServerSide& servers) const override;
  SpeedBounds Bound(int workers, const ServerSide& servers) const override;

  /// Seconds that an exchange waits.
  Range Loads(int workers, const ServerSide& servers) const override;
  SpeedBounds BoundWithin(int workers, const ServerSide& servers, const Range& load) const override;

  double LoadAtLeast(int workers, const ServerSide& servers, double steps_per_s) const override;

  double residual() const override { return fit_.residual; }

  /// Seconds that each exchange of this fleet waits for others.
  double WaitSeconds(std::span<const int> counts, const ServerSide& servers) const;

 private:
  /// Seconds of a cycle of a lone worker of the fastest class.
  double ShortestCycle(const StationPair& stations) const;
  /// Exchanges per second that no fleet of that size exceeds whose workers wait no longer.
  double RateMost(int workers, const StationPair& stations, double wait_most_s) const;
  /// See SpeedBounds::crowding, for fleets whose workers wait no longer. Empty: none is known.
  std::vector<double> CrowdingWithin(
      int workers, const StationPair& stations, double wait_most_s) const;
  /// Waits are known no better than to this.
  double WaitSlack(const StationPair& stations) const;
  /// Servers that share in equal parts, and nothing hides.
  bool IsPlainSharing(const StationPair& stations) const;

  std::vector<WorkerClass> classes_;
  std::vector<FreeTimes> times_;  // per class
  JobTraffic traffic_;
  proto::QueueFit fit_;
};

}  // namespace ps::provisioner
