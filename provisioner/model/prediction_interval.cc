#include "provisioner/model/prediction_interval.h"

#include <cmath>

#include "ps/base/check.h"

namespace ps::provisioner {
namespace {

double NormalProbability(double z) {
  return std::erfc(-z / std::sqrt(2.0)) / 2;
}

/// How far `count` lies beyond what was measured, as a logarithm. 0: within, or not known.
double DistanceBeyond(int count, int measured) {
  return measured <= 0 || count <= measured ? 0 : std::log(static_cast<double>(count) / measured);
}

}  // namespace

double NormalQuantile(double probability) {
  PS_CHECK(probability > 0 && probability < 1) << probability;
  // Bisection: the function is smooth and this is called a few times per plan. Beyond 40 standard
  // deviations the probability is below any double.
  double low = -40;
  double high = 40;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (NormalProbability(middle) < probability ? low : high) = middle;
  }
  return (low + high) / 2;
}

double SpeedResidualAt(double residual, const FleetSize& size, const FleetSize& measured) {
  constexpr double kWorkersGrowth = 1.5;
  constexpr double kHostsGrowth = 4.5;
  return residual * (1 + kWorkersGrowth * DistanceBeyond(size.workers, measured.workers) +
                     kHostsGrowth * DistanceBeyond(size.server_hosts, measured.server_hosts));
}

double CombinedResidual(double first, double second) {
  return std::hypot(first, second);
}

proto::Estimate Interval(double value, double residual, double confidence) {
  PS_CHECK(value >= 0 && residual >= 0 && confidence >= 0 && confidence < 1);
  const double factor = std::exp(NormalQuantile((1 + confidence) / 2) * residual);
  return {.value = value, .low = value / factor, .high = value * factor};
}

double UpperAt(double value, double residual, double confidence) {
  return value * std::exp(NormalQuantile(confidence) * residual);
}

}  // namespace ps::provisioner
