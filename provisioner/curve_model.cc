#include "provisioner/curve_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "provisioner/prediction_interval.h"

namespace ps::provisioner {
namespace {

// How f grows where one size alone was measured: with the root, between what few and many workers
// showed (docs/measurements/2026-11-21-provisioner.md).
constexpr double kSlopeGuess = 0.5;
constexpr double kSlopeMax = 1.5;
constexpr double kDoubled = std::numbers::ln2 * (1 - 1e-9);
// Standard deviation of that slope, and of the curve's below the losses that were seen.
constexpr double kSlopeDeviation = 0.3;
constexpr double kDepthDeviation = 0.2;

}  // namespace

double Staleness(int workers, double late) {
  return (2 + late) * workers - 1;
}

CurveLossModel::CurveLossModel(const proto::CurveFit& fit) : fit_(fit) {
  for (const proto::FleetFactor& fleet : fit.fleets) {
    points_.push_back({std::log(Staleness(fleet.workers, fleet.late)), std::log(fleet.factor)});
  }
  if (points_.empty()) {
    points_.push_back({std::log(Staleness(1, 1)), 0});
  }
  std::ranges::sort(points_, {}, &Point::log_staleness);
  const auto same = std::ranges::unique(points_, {}, &Point::log_staleness);
  points_.erase(same.begin(), same.end());
  for (size_t i = 1; i < points_.size(); ++i) {
    points_[i].log_factor = std::max(points_[i].log_factor, points_[i - 1].log_factor);
  }
  // Over the first and the last doubling, or over all that there is.
  const auto slope = [](const Point& low, const Point& high) {
    const double rise = high.log_factor - low.log_factor;
    return std::min(rise / (high.log_staleness - low.log_staleness), kSlopeMax);
  };
  const Point first = points_.front();
  const Point last = points_.back();
  slope_before_ = slope_after_ = kSlopeGuess;
  if (points_.size() > 1) {
    const auto doubled = std::ranges::find_if(points_, [&](const Point& point) {
      return point.log_staleness >= first.log_staleness + kDoubled;
    });
    slope_before_ = slope(first, doubled == points_.end() ? last : *doubled);
    const auto halved = std::find_if(points_.rbegin(), points_.rend(), [&](const Point& point) {
      return point.log_staleness <= last.log_staleness - kDoubled;
    });
    slope_after_ = slope(halved == points_.rend() ? first : *halved, last);
  }
}

double CurveLossModel::Factor(int workers, double late) const {
  const double at = std::log(Staleness(workers, late));
  const auto next = std::ranges::upper_bound(points_, at, {}, &Point::log_staleness);
  if (next == points_.begin()) {
    return std::exp(next->log_factor + slope_before_ * (at - next->log_staleness));
  }
  const Point& low = *(next - 1);
  if (next == points_.end()) {
    return std::exp(low.log_factor + slope_after_ * (at - low.log_staleness));
  }
  const double share = (at - low.log_staleness) / (next->log_staleness - low.log_staleness);
  return std::exp(low.log_factor + share * (next->log_factor - low.log_factor));
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
  return Factor(fleet.workers, fleet.late) * StepsOfOne(loss) * batches;
}

double CurveLossModel::StepsAtLeast(double loss, const FleetFamily& fleets) const {
  // Never more steps with a larger batch, never fewer with later parameters.
  return StepsTo(
      loss,
      {.workers = fleets.workers, .batch_mean = fleets.batch_mean.high, .late = fleets.late.low});
}

double CurveLossModel::ResidualAt(double loss, const FleetTraits& fleet) const {
  const double at = std::log(Staleness(fleet.workers, fleet.late));
  const double beyond =
      std::max({at - points_.back().log_staleness, points_.front().log_staleness - at, 0.0});
  double deviation = CombinedResidual(fit_.residual, kSlopeDeviation * beyond);
  if (loss > fit_.floor && loss < fit_.loss_min) {
    const double deeper = std::log(StepsOfOne(loss) / StepsOfOne(fit_.loss_min));
    deviation = CombinedResidual(deviation, kDepthDeviation * deeper);
  }
  return deviation;
}

}  // namespace ps::provisioner
