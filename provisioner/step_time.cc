#include "provisioner/step_time.h"

#include <algorithm>
#include <cmath>

namespace ps::provisioner {

double PcieSeconds(const WorkerClass& worker, const JobTraffic& traffic) {
  if (worker.pcie_bytes_per_s <= 0) {
    return 0;
  }
  return worker.devices * traffic.pcie_bytes / worker.pcie_bytes_per_s;
}

double CycleSeconds(const CycleParts& parts, double overlap) {
  const double hidden_s = std::min(overlap * parts.communication_s, parts.compute_s);
  return parts.compute_s + parts.pcie_s + parts.communication_s - hidden_s;
}

double HeterogeneityOfSums(double sum, double square_sum, double largest) {
  if (sum <= 0) {
    return 0;
  }
  // The distance squared is sum w_i^2 - w_1^2 + (1 - w_1)^2.
  const double square = square_sum / (sum * sum) + 1 - 2 * largest / sum;
  return std::sqrt(std::max(square, 0.0));
}

void FleetSum::Add(int count, double step_s, const WorkerClass& worker) {
  if (count <= 0) {
    return;
  }
  const double steps_per_s = 1 / step_s;
  const double samples_per_s = worker.samples * steps_per_s;
  steps_per_s_ += count * steps_per_s;
  samples_per_s_ += count * samples_per_s;
  square_sum_ += count * samples_per_s * samples_per_s;
  fastest_ = std::max(fastest_, samples_per_s);
}

void FleetSum::AddShares(int count, const CycleParts& parts, bool is_server_bound) {
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

SpeedPrediction FleetSum::Take() const {
  SpeedPrediction prediction;
  prediction.bottleneck =
      static_cast<Bottleneck>(std::ranges::max_element(shares_) - shares_.begin());
  prediction.steps_per_s = steps_per_s_;
  prediction.samples_per_s = samples_per_s_;
  if (samples_per_s_ > 0) {
    prediction.batch_mean = samples_per_s_ / steps_per_s_;
    prediction.heterogeneity = HeterogeneityOfSums(samples_per_s_, square_sum_, fastest_);
  }
  return prediction;
}

}  // namespace ps::provisioner
