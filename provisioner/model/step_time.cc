#include "provisioner/model/step_time.h"

#include <algorithm>
#include <cmath>

#include "provisioner/profile/statistics.h"

namespace ps::provisioner {

double PcieSeconds(const WorkerClass& worker, const JobTraffic& traffic) {
  if (worker.pcie_bytes_per_s <= 0) {
    return 0;
  }
  return worker.devices * traffic.pcie_bytes / worker.pcie_bytes_per_s;
}

SpeedPrediction FleetSum::Take() const {
  SpeedPrediction prediction;
  prediction.bottleneck =
      static_cast<Bottleneck>(std::ranges::max_element(shares_) - shares_.begin());
  prediction.steps_per_s = steps_per_s_;
  prediction.samples_per_s = samples_per_s_;
  if (workers_ > 0) {
    prediction.late = late_ / workers_;
  }
  if (samples_per_s_ > 0) {
    prediction.deviation = deviation_ / samples_per_s_;
    prediction.batch_mean = samples_per_s_ / steps_per_s_;
    prediction.heterogeneity = HeterogeneityOfSums(samples_per_s_, square_sum_, fastest_);
  }
  return prediction;
}

}  // namespace ps::provisioner
