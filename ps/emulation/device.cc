#include "ps/emulation/device.h"

#include <algorithm>

namespace ps::emulation {
namespace {

/// Factor by which a step is begun earlier than its usual duration asks for, because some steps are
/// slower.
constexpr double kStepMargin = 1.2;

}  // namespace

Duration Device::WaitBefore(bool is_step) const {
  const Duration slower = FromSeconds(step_seconds_ * (slowdown_ - 1));
  if (!is_step || step_seconds_ == 0) {
    return slower;
  }
  const Duration usual = FromSeconds(step_seconds_ * slowdown_ * kStepMargin);
  return std::max(slower, step_least_ - usual);
}

void Device::OnStep(Duration arithmetic) {
  const double seconds = Seconds(arithmetic);
  step_seconds_ = step_seconds_ == 0 ? seconds : 0.8 * step_seconds_ + 0.2 * seconds;
}

}  // namespace ps::emulation
