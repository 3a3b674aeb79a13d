#include "provisioner/curve_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "provisioner/prediction_interval.h"

namespace ps::provisioner {
namespace {

// How f grows where one size alone was measured: with the root, between what few and many workers
// showed (docs/measurements/2026-11-21-provisioner.md).
constexpr double kSlopeGuess = 0.5;
constexpr double kSlopeMax = 1.5;
// Standard deviation of that slope, and of the curve's below the losses that were seen.
constexpr double kSlopeDeviation = 0.3;
constexpr double kDepthDeviation = 0.2;

/// ln(a / b)
double Log(int a, int b) {
  return std::log(static_cast<double>(a) / b);
}

bool IsSmaller(const proto::FleetFactor& a, const proto::FleetFactor& b) {
  return a.workers < b.workers;
}

/// The slope over the last doubling of the fleet, or over all that there is.
double SlopeBeyond(const std::vector<proto::FleetFactor>& fleets) {
  const proto::FleetFactor& last = fleets.back();
  for (size_t i = fleets.size() - 1; i > 0; --i) {
    const proto::FleetFactor& before = fleets[i - 1];
    if (2 * before.workers <= last.workers || i == 1) {
      const double slope =
          std::log(last.factor / before.factor) / Log(last.workers, before.workers);
      return std::clamp(slope, 0.0, kSlopeMax);
    }
  }
  return kSlopeGuess;
}

}  // namespace

CurveLossModel::CurveLossModel(const proto::CurveFit& fit) : fit_(fit) {
  std::vector<proto::FleetFactor>& fleets = fit_.fleets;
  std::ranges::sort(fleets, IsSmaller);
  const auto same = [](const auto& a, const auto& b) { return a.workers == b.workers; };
  fleets.erase(std::unique(fleets.begin(), fleets.end(), same), fleets.end());
  if (fleets.empty()) {
    fleets.emplace_back();
  }
  for (size_t i = 1; i < fleets.size(); ++i) {
    fleets[i].factor = std::max(fleets[i].factor, fleets[i - 1].factor);
  }
  slope_ = SlopeBeyond(fleets);
}

double CurveLossModel::Factor(int workers) const {
  const std::vector<proto::FleetFactor>& fleets = fit_.fleets;
  const auto at = std::ranges::upper_bound(fleets, workers, {}, &proto::FleetFactor::workers);
  if (at == fleets.end()) {
    return fleets.back().factor * std::exp(slope_ * Log(workers, fleets.back().workers));
  }
  if (at == fleets.begin()) {
    return at->factor * std::exp(slope_ * Log(workers, at->workers));
  }
  const proto::FleetFactor& low = *(at - 1);
  const double share = Log(workers, low.workers) / Log(at->workers, low.workers);
  return low.factor * std::pow(at->factor / low.factor, share);
}

double CurveLossModel::StepsOfOne(double loss) const {
  return fit_.steps * std::pow(loss - fit_.floor, -fit_.power);
}

double CurveLossModel::StepsTo(double loss, const FleetTraits& fleet) const {
  if (loss <= fit_.floor) {
    return std::numeric_limits<double>::infinity();
  }
  const double batches =
      fit_.batch_power > 0 ? std::pow(fit_.minibatch / fleet.batch_mean, fit_.batch_power) : 1;
  return Factor(fleet.workers) * StepsOfOne(loss) * batches;
}

double CurveLossModel::StepsAtLeast(double loss, const FleetFamily& fleets) const {
  // Never more steps with a larger batch.
  return StepsTo(loss, {.workers = fleets.workers, .batch_mean = fleets.batch_mean.high});
}

double CurveLossModel::ResidualAt(double loss, const FleetTraits& fleet) const {
  const int workers = fleet.workers;
  const double beyond = std::max(
      {Log(workers, fit_.fleets.back().workers), Log(fit_.fleets.front().workers, workers), 0.0});
  double deviation = CombinedResidual(fit_.residual, kSlopeDeviation * beyond);
  if (loss > fit_.floor && loss < fit_.loss_min) {
    const double deeper = std::log(StepsOfOne(loss) / StepsOfOne(fit_.loss_min));
    deviation = CombinedResidual(deviation, kDepthDeviation * deeper);
  }
  return deviation;
}

}  // namespace ps::provisioner
