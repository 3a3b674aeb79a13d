#include "provisioner/profile/statistics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ps/base/check.h"

namespace ps::provisioner {

double Median(std::vector<double> values) {
  PS_CHECK(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return values.size() % 2 == 1 ? *middle
                                : (*std::max_element(values.begin(), middle) + *middle) / 2;
}

double RobustDeviation(std::vector<double> values, double center) {
  for (double& value : values) {
    value = std::abs(value - center);
  }
  return 1.4826 * Median(std::move(values));
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

double HeterogeneityOfSums(double sum, double square_sum, double largest) {
  if (sum <= 0) {
    return 0;
  }
  // The distance squared is sum w_i^2 - w_1^2 + (1 - w_1)^2.
  const double square = square_sum / (sum * sum) + 1 - 2 * largest / sum;
  return std::sqrt(std::max(square, 0.0));
}

}  // namespace ps::provisioner
