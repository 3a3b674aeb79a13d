#pragma once

#include <cmath>

#include "kernels/portable_activation.h"

namespace ps::kernels {

/// y = 1 / (1 + exp(-x)); dx = dy * y * (1 - y). Runs in place.
struct SigmoidOptions {
  static constexpr bool kIsPortable = true;
  template <typename Device>
  using On = PortableActivation<Device, SigmoidOptions>;

  /// An exp that overflows leaves 0, which is what the quotient tends to.
  PS_ELEMENTWISE static float Value(float x) { return 1 / (1 + std::exp(-x)); }

  PS_ELEMENTWISE static float Slope(float y) { return y * (1 - y); }

  int64_t elements = 1;
};

}  // namespace ps::kernels
