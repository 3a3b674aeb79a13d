#include "provisioner/model/performance_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "provisioner/model/step_time.h"
#include "ps/base/check.h"

namespace ps::provisioner {

std::string_view BottleneckName(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::kCompute:
      return "compute";
    case Bottleneck::kPcie:
      return "pcie";
    case Bottleneck::kWorkerLink:
      return "worker network";
    case Bottleneck::kServerLink:
      return "server network";
  }
  return "";
}

FleetTraits TraitsOf(const SpeedPrediction& speed, int workers) {
  return {workers, speed.batch_mean, speed.heterogeneity, speed.late, speed.deviation};
}

MeasuredPace PaceOf(
    const LossModel& model, const FleetTraits& fleet, double loss, double steps_done) {
  // Standard deviation of the steps that a loss stands for, as it is read from a run.
  constexpr double kReadingDeviation = 0.1;
  constexpr double kPaceMax = 2;
  const double steps = model.StepsTo(loss, fleet);
  if (!(steps >= 1 && std::isfinite(steps) && steps_done >= 1)) {
    return {};
  }
  const double doubt = model.ResidualAt(loss, fleet);
  const double share = doubt * doubt / (doubt * doubt + kReadingDeviation * kReadingDeviation);
  const double ratio = steps_done / steps;
  return {ratio, std::clamp(std::pow(ratio, share), 1 / kPaceMax, kPaceMax)};
}

}  // namespace ps::provisioner
