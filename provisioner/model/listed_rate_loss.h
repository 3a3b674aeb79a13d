#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "provisioner/model/performance_model.h"

namespace ps::provisioner {

/// Steps to a loss where servers take listed/n of the learning rate when n workers take part, more
/// than the job lists. Gradients are n/listed times as old then, so the run is that of the listed
/// workers in slow motion: n/listed times the steps. Where noise of gradients limits the loss, a
/// smaller rate helps, and this is too pessimistic. Bounds hold as they hold for `whole_rate`: a
/// family's fleets have one number of workers.
class ListedRateLossModel final : public LossModel {
 public:
  /// `whole_rate`: of fleets with the job's rate. Requires: listed >= 1.
  ListedRateLossModel(std::unique_ptr<LossModel> whole_rate, int listed)
      : whole_rate_(std::move(whole_rate)), listed_(listed) {}

  double StepsTo(double loss, const FleetTraits& fleet) const override {
    return SlowerBy(fleet.workers) * whole_rate_->StepsTo(loss, AtWholeRate(fleet));
  }

  double StepsAtLeast(double loss, const FleetFamily& fleets) const override {
    return SlowerBy(fleets.workers) * whole_rate_->StepsAtLeast(loss, AtWholeRate(fleets));
  }

  BatchLine BatchLineOf(const Range& batch_mean) const override {
    return whole_rate_->BatchLineOf(batch_mean);
  }

  double floor() const override { return whole_rate_->floor(); }

  double residual() const override { return whole_rate_->residual(); }

  double ResidualAt(double loss, const FleetTraits& fleet) const override {
    return whole_rate_->ResidualAt(loss, AtWholeRate(fleet));
  }

 private:
  double SlowerBy(int workers) const {
    return std::max(1.0, static_cast<double>(workers) / listed_);
  }

  template <typename Fleet>
  Fleet AtWholeRate(Fleet fleet) const {
    fleet.workers = std::min(fleet.workers, listed_);
    return fleet;
  }

  const std::unique_ptr<LossModel> whole_rate_;
  const int listed_;
};

}  // namespace ps::provisioner
