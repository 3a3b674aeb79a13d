#pragma once

#include <memory>
#include <utility>

#include "provisioner/model/performance_model.h"

namespace ps::provisioner {

/// Steps to a loss with another number of local steps than that of the curves: so many times those
/// of `curves`. Bounds hold as they hold there, since all fleets have the same factor.
class LocalStepsLossModel final : public LossModel {
 public:
  /// `is_longer`: the curves are of single minibatches whose exchanges may be hidden; these never
  /// are. A push then misses what the other workers have pushed in a round of its own, n - 1
  /// updates. Of the curves, those of hidden exchanges are the least stale, so they are taken.
  LocalStepsLossModel(std::unique_ptr<LossModel> curves, double samples, bool is_longer)
      : curves_(std::move(curves)), samples_(samples), is_longer_(is_longer) {}

  double StepsTo(double loss, const FleetTraits& fleet) const override {
    return samples_ * curves_->StepsTo(loss, OfCurves(fleet));
  }

  double StepsAtLeast(double loss, const FleetFamily& fleets) const override {
    FleetFamily of_curves = fleets;
    if (is_longer_) {
      of_curves.late = {0, 0};
    }
    return samples_ * curves_->StepsAtLeast(loss, of_curves);
  }

  BatchLine BatchLineOf(const Range& batch_mean) const override {
    return curves_->BatchLineOf(batch_mean);
  }

  double floor() const override { return curves_->floor(); }

  double residual() const override { return curves_->residual(); }

  double ResidualAt(double loss, const FleetTraits& fleet) const override {
    return curves_->ResidualAt(loss, OfCurves(fleet));
  }

 private:
  FleetTraits OfCurves(FleetTraits fleet) const {
    fleet.late = is_longer_ ? 0 : fleet.late;
    return fleet;
  }

  const std::unique_ptr<LossModel> curves_;
  const double samples_;
  const bool is_longer_;
};

}  // namespace ps::provisioner
