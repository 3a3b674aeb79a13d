#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "provisioner/performance_model.h"
#include "ps/proto/profile.h"

namespace ps::provisioner {

/// A closed queueing network. Each worker cycles for ever: it computes (and crosses its PCIe bus),
/// then its push and its pull pass the servers' links, where workers wait for each other.
///
/// Assumptions, each a field of the inputs where it can be changed:
///  - links are full duplex: push and pull are separate stations;
///  - a worker's bytes are split evenly over the server hosts and go in parallel, each host's share
///    no faster than the host's link, all together no faster than the worker's link;
///  - an arriving message waits for those before it and for `fit.wait_share` of the one in service:
///    0.5 when all last equally long, 1 when exponential, 0 when workers have fallen into step;
///  - `fit.overhead_s` per exchange is spent at the servers whatever the bytes, by one at a time;
///  - `traffic.overlap` of the communication hides behind computation.
///
/// Bandwidth more, or overhead less, is never slower. No worker added lowers the steps of the
/// fleet. The servers' links are never more than busy.
class QueueSpeedModel final : public SpeedModel {
 public:
  /// Requires: every class has compute_s > 0 or a finite link; at most kClassesMax classes.
  QueueSpeedModel(
      std::vector<WorkerClass> classes, const JobTraffic& traffic, const proto::QueueFit& fit);

  static constexpr int kClassesMax = 64;

  std::string_view name() const override { return "queue"; }

  const std::vector<WorkerClass>& classes() const override { return classes_; }

  SpeedPrediction Predict(std::span<const int> counts, const ServerSide& servers) const override;
  std::vector<double> StepSeconds(
      std::span<const int> counts, const ServerSide& servers) const override;
  SpeedBounds Bound(int workers, const ServerSide& servers) const override;

  double residual() const override { return fit_.residual; }

 private:
  std::vector<WorkerClass> classes_;
  JobTraffic traffic_;
  proto::QueueFit fit_;
};

}  // namespace ps::provisioner
