#pragma once

#include <vector>

#include "provisioner/performance_model.h"
#include "ps/proto/profile.h"

namespace ps::provisioner {

// Steps to a loss as measured curves of fleets of several sizes tell them.

/// steps(loss) = f(n) steps (loss - floor)^-power (minibatch / b_w)^batch_power,
/// with f a power law between the sizes of fleets in the fit, and on from the last of them. f never
/// falls. How unequal workers are does not matter here.
class CurveLossModel final : public LossModel {
 public:
  explicit CurveLossModel(const proto::CurveFit& fit);

  double StepsTo(double loss, const FleetTraits& fleet) const override;
  double StepsAtLeast(double loss, const FleetFamily& fleets) const override;

  double floor() const override { return fit_.floor; }

  double residual() const override { return fit_.residual; }

  /// Grows with the distance from the fleets and the losses that were measured.
  double ResidualAt(double loss, const FleetTraits& fleet) const override;

  /// f
  double Factor(int workers) const;

 private:
  double StepsOfOne(double loss) const;

  proto::CurveFit fit_;  // fleets ascending in both
  double slope_ = 0;     // d ln f / d ln n beyond the last
};

}  // namespace ps::provisioner
