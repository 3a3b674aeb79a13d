#include "provisioner/model/performance_model.h"

#include <algorithm>
#include <cstddef>

#include "provisioner/model/step_time.h"
#include "ps/base/check.h"

namespace ps::provisioner {

std::string_view BottleneckName(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::kCompute:
      return "compute";
    case Bottleneck::kPcie:
      return "pcie";
    case Bottleneck::kWorkerLink:
      return "worker network";
    case Bottleneck::kServerLink:
      return "server network";
  }
  return "";
}

double Heterogeneity(std::span<const int> counts, std::span<const double> samples_per_s) {
  PS_CHECK(counts.size() == samples_per_s.size());
  double sum = 0;
  double square_sum = 0;
  double largest = 0;
  for (size_t k = 0; k < counts.size(); ++k) {
    if (counts[k] > 0) {
      sum += counts[k] * samples_per_s[k];
      square_sum += counts[k] * samples_per_s[k] * samples_per_s[k];
      largest = std::max(largest, samples_per_s[k]);
    }
  }
  return HeterogeneityOfSums(sum, square_sum, largest);
}

FleetTraits TraitsOf(const SpeedPrediction& speed, int workers) {
  return {workers, speed.batch_mean, speed.heterogeneity, speed.late};
}

}  // namespace ps::provisioner
