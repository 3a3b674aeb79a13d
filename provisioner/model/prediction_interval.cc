#include "provisioner/model/prediction_interval.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "ps/base/check.h"

namespace ps::provisioner {
namespace {

/// That share of the errors is at most so many residuals, either way.
struct ErrorShare {
  double inside;
  double residuals;
};

// PredictionIntervalTest computes them from tests/data and docs/measurements/provisioner.md, and
// checks what they hold of series that were left out. The last one is the largest error.
constexpr ErrorShare kErrorShares[] = {
    {0, 0},
    {0.1, 0.074},
    {0.2, 0.175},
    {0.3, 0.287},
    {0.4, 0.405},
    {0.5, 0.558},
    {0.6, 0.731},
    {0.7, 0.980},
    {0.8, 1.349},
    {0.85, 1.508},
    {0.9, 2.066},
    {0.95, 2.831},
    {0.98, 4.227},
    {0.99, 4.515},
    {0.998, 7.205}};

/// How far `count` lies beyond what was measured, as a logarithm. 0: within, or not known.
double DistanceBeyond(int count, int measured) {
  return measured <= 0 || count <= measured ? 0 : std::log(static_cast<double>(count) / measured);
}

}  // namespace

double ErrorQuantile(double probability) {
  PS_CHECK(probability > 0 && probability < 1) << probability;
  const double inside = std::min(std::abs(2 * probability - 1), std::rbegin(kErrorShares)->inside);
  const ErrorShare* const above = std::ranges::lower_bound(
      std::begin(kErrorShares) + 1, std::end(kErrorShares), inside, {}, &ErrorShare::inside);
  const ErrorShare& below = *(above - 1);
  const double part = (inside - below.inside) / (above->inside - below.inside);
  const double residuals = std::lerp(below.residuals, above->residuals, part);
  return probability < 0.5 ? -residuals : residuals;
}

double ErrorProbability(double residuals) {
  const double reach = std::min(std::abs(residuals), std::rbegin(kErrorShares)->residuals);
  const ErrorShare* const above = std::ranges::lower_bound(
      std::begin(kErrorShares) + 1, std::end(kErrorShares), reach, {}, &ErrorShare::residuals);
  const ErrorShare& below = *(above - 1);
  const double part = (reach - below.residuals) / (above->residuals - below.residuals);
  const double inside = std::lerp(below.inside, above->inside, part);
  return (residuals < 0 ? 1 - inside : 1 + inside) / 2;
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
  const double factor = std::exp(ErrorQuantile((1 + confidence) / 2) * residual);
  return {.value = value, .low = value / factor, .high = value * factor};
}

double UpperAt(double value, double residual, double confidence) {
  return value * std::exp(ErrorQuantile(confidence) * residual);
}

}  // namespace ps::provisioner
