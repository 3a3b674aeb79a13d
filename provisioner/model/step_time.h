#pragma once

#include <algorithm>
#include <array>

#include "provisioner/model/performance_model.h"

namespace ps::provisioner {

// What the speed models share: the parts of a step, how they add up, and how workers add up to a
// fleet.

/// The parts of one exchange of one worker and the `local_steps` steps before it.
struct CycleParts {
  double compute_s = 0;        // of all its local steps
  double pcie_s = 0;           // of its devices, one after another
  double communication_s = 0;  // on the network
};

/// Seconds that one worker of the class takes over PCIe per exchange besides compute_s, by spotDNN
/// (7); 0 without a bus, or where compute_s has them.
double PcieSeconds(const WorkerClass& worker, const JobTraffic& traffic);

/// Seconds of a cycle of which `overlap` of the communication can hide behind computation:
/// compute + pcie + communication - min(overlap * communication, compute).
inline double CycleSeconds(const CycleParts& parts, double overlap) {
  const double hidden_s = std::min(overlap * parts.communication_s, parts.compute_s);
  return parts.compute_s + parts.pcie_s + parts.communication_s - hidden_s;
}

/// Share of a worker's exchanges that come too late for its next step: 1 / (1 + x^-6), where x is
/// how many times longer an exchange is under way than the computation that hides it. So half of
/// them where both are equal, and 10 to 90 % from 0.7 to 1.44 times: times vary by a third or so.
inline double LateShare(const CycleParts& parts, const JobTraffic& traffic) {
  const double hiding_s = traffic.overlap * parts.compute_s;
  if (hiding_s <= 0) {
    return 1;
  }
  const double rest = hiding_s / (traffic.round_trip * parts.communication_s);
  const double square = rest * rest;
  return 1 / (1 + square * square * square);
}

/// Adds up workers, class by class. Inline: predictions of many classes spend their time here.
class FleetSum {
 public:
  /// Adds `count` workers that make `steps_per_s` each, with `samples` in a step.
  void Add(int count, double steps_per_s, double samples, double deviation) {
    if (count <= 0) {
      return;
    }
    const double samples_per_s = samples * steps_per_s;
    steps_per_s_ += count * steps_per_s;
    samples_per_s_ += count * samples_per_s;
    deviation_ += count * samples_per_s * deviation;
    square_sum_ += count * samples_per_s * samples_per_s;
    fastest_ = std::max(fastest_, samples_per_s);
  }

  /// What each of `count` workers spends its time on. `is_server_bound`: the network's share is due
  /// to the servers' links, not to the worker's.
  void AddShares(int count, const CycleParts& parts, bool is_server_bound) {
    const double sum_s = parts.compute_s + parts.pcie_s + parts.communication_s;
    if (count <= 0 || sum_s <= 0) {
      return;
    }
    const double weight = count / sum_s;
    const Bottleneck network = is_server_bound ? Bottleneck::kServerLink : Bottleneck::kWorkerLink;
    shares_[static_cast<size_t>(Bottleneck::kCompute)] += weight * parts.compute_s;
    shares_[static_cast<size_t>(Bottleneck::kPcie)] += weight * parts.pcie_s;
    shares_[static_cast<size_t>(network)] += weight * parts.communication_s;
  }

  void AddLate(int count, double late) {
    workers_ += count;
    late_ += count * late;
  }

  /// Everything but server_busy. The bottleneck is what most of the workers' time goes to.
  SpeedPrediction Take() const;

 private:
  double steps_per_s_ = 0;
  double samples_per_s_ = 0;
  double deviation_ = 0;   // sum over samples/s
  double square_sum_ = 0;  // of each worker's samples/s
  double fastest_ = 0;
  double workers_ = 0;
  double late_ = 0;                 // sum over them
  std::array<double, 4> shares_{};  // by Bottleneck
};

}  // namespace ps::provisioner
