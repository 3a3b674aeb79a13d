#pragma once

#include <array>

#include "provisioner/performance_model.h"

namespace ps::provisioner {

// What the speed models share: the parts of a step, how they add up, and how workers add up to a
// fleet.

/// The parts of one exchange of one worker and the `local_steps` steps before it.
struct CycleParts {
  double compute_s = 0;        // of all its local steps
  double pcie_s = 0;           // of its devices, one after another
  double communication_s = 0;  // on the network
};

/// Seconds that one worker of the class takes over PCIe per exchange; 0 without a bus.
double PcieSeconds(const WorkerClass& worker, const JobTraffic& traffic);

/// Seconds of a cycle of which `overlap` of the communication can hide behind computation:
/// compute + pcie + communication - min(overlap * communication, compute).
double CycleSeconds(const CycleParts& parts, double overlap);

/// || w - (1, 0, ..., 0) || from the sum, the sum of squares and the largest of the workers'
/// speeds: no sorting needed.
double HeterogeneityOfSums(double sum, double square_sum, double largest);

/// Adds up workers, class by class.
class FleetSum {
 public:
  /// `count` workers that take `step_s` a step.
  void Add(int count, double step_s, const WorkerClass& worker);

  /// What each of `count` workers spends its time on. `is_server_bound`: the network's share is due
  /// to the servers' links, not to the worker's.
  void AddShares(int count, const CycleParts& parts, bool is_server_bound);

  /// Everything but server_busy. The bottleneck is what most of the workers' time goes to.
  SpeedPrediction Take() const;

 private:
  double steps_per_s_ = 0;
  double samples_per_s_ = 0;
  double square_sum_ = 0;  // of each worker's samples/s
  double fastest_ = 0;
  std::array<double, 4> shares_{};  // by Bottleneck
};

}  // namespace ps::provisioner
