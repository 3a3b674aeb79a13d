#pragma once

#include <cmath>
#include <memory>
#include <utility>

#include "provisioner/model/exchange.h"
#include "provisioner/model/performance_model.h"
#include "provisioner/model/prediction_interval.h"

namespace ps::provisioner {

/// Steps to a loss with another exchange than that of the curves: so many times those of `curves`.
/// Bounds hold as they hold there, since all fleets have the same factor.
class LocalStepsLossModel final : public LossModel {
 public:
  /// `is_longer`: the curves are of single minibatches whose exchanges may be hidden; these never
  /// are. A push then misses what the other workers have pushed in a round of its own, n - 1
  /// updates. Of the curves, those of hidden exchanges are the least stale, so they are taken.
  LocalStepsLossModel(
      std::unique_ptr<LossModel> curves, const ExchangeChange& change, bool is_longer)
      : curves_(std::move(curves)), change_(change), is_longer_(is_longer) {}

  double StepsTo(double loss, const FleetTraits& fleet) const override {
    return change_.samples * curves_->StepsTo(loss, OfCurves(fleet));
  }

  double StepsAtLeast(double loss, const FleetFamily& fleets) const override {
    FleetFamily of_curves = fleets;
    if (is_longer_) {
      of_curves.late = {0, 0};
    }
    return change_.samples * curves_->StepsAtLeast(loss, of_curves);
  }

  BatchLine BatchLineOf(const Range& batch_mean) const override {
    return curves_->BatchLineOf(batch_mean);
  }

  double floor() const override { return curves_->floor(); }

  double residual() const override {
    return CombinedResidual(curves_->residual(), change_.samples_deviation);
  }

  /// Grows with the distance from the number of workers with which the factor was measured, to
  /// either side.
  double ResidualAt(double loss, const FleetTraits& fleet) const override {
    const double of_exchange =
        change_.samples_workers == 0
            ? change_.samples_deviation
            : CombinedResidual(
                  change_.samples_deviation,
                  kFleetDoubt *
                      std::log2(static_cast<double>(fleet.workers) / change_.samples_workers));
    return CombinedResidual(curves_->ResidualAt(loss, OfCurves(fleet)), of_exchange);
  }

 private:
  /// Deviation of the factor's log for each doubling of the workers, or halving. Assumed.
  static constexpr double kFleetDoubt = 0.05;

  FleetTraits OfCurves(FleetTraits fleet) const {
    fleet.late = is_longer_ ? 0 : fleet.late;
    return fleet;
  }

  const std::unique_ptr<LossModel> curves_;
  const ExchangeChange change_;
  const bool is_longer_;
};

}  // namespace ps::provisioner
