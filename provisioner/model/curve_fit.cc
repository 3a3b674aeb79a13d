// Steps to a loss from the curves of fleets of several sizes, hidden and late. The fit takes from a
// curve when it is first down to a loss: a goal asks for that, and training that overshoots for a
// while does not blur it.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "provisioner/model/curve_model.h"
#include "provisioner/model/least_squares.h"
#include "provisioner/model/profile_fit.h"
#include "provisioner/profile/profile_merge.h"
#include "provisioner/profile/statistics.h"

namespace ps::provisioner {
namespace {

constexpr size_t kCurvePointsNeeded = 20;  // of a curve
constexpr size_t kCurvePointsUsed = 40;    // of a curve, evenly over its steps
constexpr size_t kCurvesUsed = 64;         // the newest
constexpr int kCurveIterationsMax = 200;
// From this relative error on a number of steps counts as an outlier.
constexpr double kWildError = 0.1;
constexpr double kFall = 0.05;  // of its loss that a curve has to fall by
// Where one equation does not fit all curves, each group gets a correction at kLosses losses. It is
// the mean of the errors of its points within kLossReach of the loss, in logarithms, and of
// kPointsAgreeing points without an error (docs/measurements/provisioner.md).
constexpr size_t kLosses = 12;
constexpr double kLossReach = 0.04;
constexpr double kPointsAgreeing = 0.3;
constexpr double kCorrectionMax = 0.3;
// Lateness is rounded to this; fleets of equal size and lateness are one group.
constexpr double kLateUnit = 0.25;

/// First arrivals of one fleet: losses fall, steps grow.
struct Curve {
  int workers = 1;
  double late = 1;  // rounded
  double batch = 0;
  size_t group = 0;  // of fleets as stale as this one
  std::vector<proto::LossSample> points;
};

/// Fleets whose parameters are equally stale.
struct Group {
  int workers = 1;
  double late = 1;
  double points = 0;
  double log_factor = 0;
};

/// Keeps new lowest losses, evenly thinned out over the steps. The first sample was not measured as
/// an arrival: nothing is known of what came before.
void KeepArrivals(Curve* curve) {
  std::vector<proto::LossSample> arrivals;
  double lowest = curve->points.front().loss;
  const double steps_max = curve->points.back().steps;
  double steps_next = 0;
  for (const proto::LossSample& sample : curve->points) {
    if (sample.loss < lowest) {
      lowest = sample.loss;
      if (sample.steps >= steps_next) {
        arrivals.push_back(sample);
        steps_next = sample.steps + steps_max / static_cast<double>(kCurvePointsUsed);
      }
    }
  }
  curve->points = std::move(arrivals);
}

/// The curves that are long enough and fall.
std::vector<Curve> CurvesOf(std::span<const proto::LossSample> samples) {
  std::vector<Curve> curves;
  for (const std::span<const proto::LossSample> points : SplitCurves(samples)) {
    Curve& curve = curves.emplace_back();
    curve.workers = points.front().workers;
    curve.late = std::round(points.front().late / kLateUnit) * kLateUnit;
    curve.batch = points.front().batch_mean;
    curve.points.assign(points.begin(), points.end());
  }
  std::erase_if(curves, [](Curve& curve) {
    if (curve.points.size() < kCurvePointsNeeded) {
      return true;
    }
    const double first = curve.points.front().loss;
    KeepArrivals(&curve);
    return curve.points.empty() || curve.points.back().loss > first * (1 - kFall);
  });
  if (curves.size() > kCurvesUsed) {
    curves.erase(curves.begin(), curves.end() - static_cast<ptrdiff_t>(kCurvesUsed));
  }
  return curves;
}

/// Gives every curve its group, ascending.
std::vector<Group> GroupsOf(std::vector<Curve>* curves) {
  const auto staleness = [](const auto& of) { return Staleness(of.workers, of.late); };
  std::ranges::sort(*curves, {}, staleness);
  std::vector<Group> groups;
  for (Curve& curve : *curves) {
    if (groups.empty() || staleness(curve) != staleness(groups.back())) {
      groups.push_back({.workers = curve.workers, .late = curve.late});
    }
    curve.group = groups.size() - 1;
    groups.back().points += static_cast<double>(curve.points.size());
  }
  return groups;
}

class CurveFitter {
 public:
  explicit CurveFitter(std::vector<Curve> curves)
      : curves_(std::move(curves)), groups_(GroupsOf(&curves_)) {
    std::vector<double> batches;
    loss_min_ = std::numeric_limits<double>::infinity();
    double loss_max = -loss_min_;
    for (const Curve& curve : curves_) {
      points_ += curve.points.size();
      batches.push_back(curve.batch);
      loss_min_ = std::min(loss_min_, curve.points.back().loss);
      loss_max = std::max(loss_max, curve.points.front().loss);
    }
    range_ = std::max(loss_max - loss_min_, 1e-9 * std::abs(loss_max));
    batch_ = Median(batches);
    const auto [least, most] = std::ranges::minmax(batches);
    has_batches_ = least > 0 && most > 1.1 * least;
  }

  proto::CurveFit Fit() {
    LeastSquares best;
    best.cost = std::numeric_limits<double>::infinity();
    for (const double depth : {0.1, 0.5, 2.0}) {
      std::vector<double> start(kShape + groups_.size(), 0);
      const proto::LossSample& last = curves_.front().points.back();
      start[0] = std::log(last.steps) + std::log(last.loss - loss_min_ + depth * range_);
      start[2] = std::log(depth);
      LeastSquares found = MinimiseSquares(
          [this](std::span<const double> p, std::span<double> out) { Residuals(p, out); },
          points_ + kShape - 1 + groups_.size(),
          std::move(start),
          kCurveIterationsMax);
      if (found.cost < best.cost) {
        best = std::move(found);
      }
    }
    return FitOf(best.parameters);
  }

 private:
  // ln steps, ln power, ln of how far the floor is below the lowest loss, batch_power; then ln of
  // each group's factor, of which the first is 0.
  static constexpr size_t kShape = 4;

  double BatchPower(std::span<const double> p) const {
    return has_batches_ ? std::clamp(p[3], 0.0, 1.0) : 0;
  }

  double Floor(std::span<const double> p) const { return loss_min_ - range_ * std::exp(p[2]); }

  static double LogFactorOf(std::span<const double> p, size_t group) {
    return group == 0 ? 0 : p[kShape + group];
  }

  double LogError(std::span<const double> p, const Curve& curve, double loss, double steps) const {
    double predicted =
        LogFactorOf(p, curve.group) + p[0] - std::exp(p[1]) * std::log(loss - Floor(p));
    if (has_batches_) {
      predicted += BatchPower(p) * std::log(batch_ / curve.batch);
    }
    return predicted - std::log(steps);
  }

  void Residuals(std::span<const double> p, std::span<double> out) const {
    size_t i = 0;
    for (const Curve& curve : curves_) {
      for (const proto::LossSample& point : curve.points) {
        out[i++] = SoftResidual(LogError(p, curve, point.loss, point.steps), kWildError);
      }
    }
    // Weak pulls to the values that coefficients keep when the curves do not determine them.
    const double pull = 1e-3 * std::sqrt(static_cast<double>(points_));
    out[i++] = pull * p[1];
    out[i++] = pull * (p[2] - std::log(0.5));
    out[i++] = pull * p[3];
    for (size_t k = 0; k < groups_.size(); ++k) {
      out[i++] = pull * p[kShape + k];
    }
  }

  proto::CurveFit FitOf(const std::vector<double>& p) {
    proto::CurveFit fit;
    fit.steps = std::exp(p[0]);
    fit.power = std::exp(p[1]);
    fit.floor = Floor(p);
    fit.minibatch = batch_;
    fit.batch_power = BatchPower(p);
    fit.loss_min = loss_min_;
    fit.samples = static_cast<int>(points_);
    fit.residual = StepsResidual(p);
    for (size_t k = 0; k < groups_.size(); ++k) {
      groups_[k].log_factor = LogFactorOf(p, k);
    }
    PoolFalls();
    fit.losses = LossesOf();
    for (size_t k = 0; k < groups_.size(); ++k) {
      proto::FleetFactor& fleet = fit.fleets.emplace_back();
      fleet.workers = groups_[k].workers;
      fleet.factor = std::exp(groups_[k].log_factor);
      fleet.late = groups_[k].late;
      for (const double loss : fit.losses) {
        fleet.by_loss.push_back(std::exp(CorrectionAt(p, k, loss)));
      }
    }
    return fit;
  }

  /// From where half of the curves have begun to the lowest loss, in equal steps of the logarithm.
  std::vector<double> LossesOf() const {
    std::vector<double> first;
    for (const Curve& curve : curves_) {
      first.push_back(curve.points.front().loss);
    }
    const double high = Median(std::move(first));
    std::vector<double> losses;
    if (loss_min_ > 0 && high > loss_min_ * (1 + kFall)) {
      for (size_t k = 0; k < kLosses; ++k) {
        const double share = static_cast<double>(k) / (kLosses - 1);
        losses.push_back(high * std::pow(loss_min_ / high, share));
      }
    }
    return losses;
  }

  /// ln of the ratio of the steps that the group's fleets took to the loss to those of the
  /// equation.
  double CorrectionAt(std::span<const double> p, size_t group, double loss) const {
    const double shared = groups_[group].log_factor - LogFactorOf(p, group);
    double sum = 0;
    double weight = kPointsAgreeing;
    for (const Curve& curve : curves_) {
      if (curve.group != group) {
        continue;
      }
      for (const proto::LossSample& point : curve.points) {
        const double distance = std::log(point.loss / loss) / kLossReach;
        const double nearness = std::exp(-distance * distance / 2);
        const double error = LogError(p, curve, point.loss, point.steps) + shared;
        sum -= nearness * std::clamp(error, -kCorrectionMax, kCorrectionMax);
        weight += nearness;
      }
    }
    return sum / weight;
  }

  /// Staler fleets never need fewer steps: adjacent fleets whose fits contradict this get their
  /// mean.
  void PoolFalls() {
    std::vector<std::pair<size_t, size_t>> pools;  // begin, end
    std::vector<double> means;
    for (size_t k = 0; k < groups_.size(); ++k) {
      pools.emplace_back(k, k + 1);
      means.push_back(groups_[k].log_factor);
      while (means.size() > 1 && means.back() < means[means.size() - 2]) {
        pools[pools.size() - 2].second = pools.back().second;
        pools.pop_back();
        means.pop_back();
        double sum = 0;
        double weight = 0;
        for (size_t i = pools.back().first; i < pools.back().second; ++i) {
          sum += groups_[i].points * groups_[i].log_factor;
          weight += groups_[i].points;
        }
        means.back() = sum / weight;
      }
    }
    for (size_t i = 0; i < pools.size(); ++i) {
      for (size_t k = pools[i].first; k < pools[i].second; ++k) {
        groups_[k].log_factor = means[i];
      }
    }
  }

  /// Root mean square, over stretches of the curves, of the median error of the steps. Each group
  /// counts two stretches with the expected error more, in place of those that its factor fits.
  double StepsResidual(const std::vector<double>& p) const {
    constexpr double kExpected = 0.05;
    double squares = 2 * static_cast<double>(groups_.size()) * kExpected * kExpected;
    double stretches = 0;
    for (const Curve& curve : curves_) {
      const size_t count = std::clamp<size_t>(curve.points.size() / 5, 1, 6);
      for (size_t s = 0; s < count; ++s) {
        std::vector<double> errors;
        const size_t end = (s + 1) * curve.points.size() / count;
        for (size_t i = s * curve.points.size() / count; i < end; ++i) {
          errors.push_back(LogError(p, curve, curve.points[i].loss, curve.points[i].steps));
        }
        const double error = Median(std::move(errors));
        squares += error * error;
        ++stretches;
      }
    }
    return std::sqrt(squares / stretches);
  }

  std::vector<Curve> curves_;
  std::vector<Group> groups_;
  size_t points_ = 0;
  double loss_min_ = 0;
  double range_ = 1;  // of the losses
  double batch_ = 0;
  bool has_batches_ = false;  // different enough to tell batch_power
};

}  // namespace

Result<proto::CurveFit> FitCurves(std::span<const proto::LossSample> samples) {
  std::vector<Curve> curves = CurvesOf(samples);
  if (curves.empty()) {
    return Status::InvalidArgument(fmt::format(
        "the loss needs {} points of a curve that falls; there are {}{}",
        kCurvePointsNeeded,
        samples.size(),
        samples.empty() ? "" : " of curves that are too short or do not fall: train for longer"));
  }
  return CurveFitter(std::move(curves)).Fit();
}

}  // namespace ps::provisioner
