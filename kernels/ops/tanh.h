#pragma once

#include <cmath>

#include "kernels/portable_activation.h"

namespace ps::kernels {

/// y = tanh(x); dx = dy * (1 - y^2). Runs in place.
struct TanhOptions {
  static constexpr bool kIsPortable = true;
  template <typename Device>
  using On = PortableActivation<Device, TanhOptions>;

  PS_ELEMENTWISE static float Value(float x) { return std::tanh(x); }

  PS_ELEMENTWISE static float Slope(float y) { return 1 - y * y; }

  int64_t elements = 1;
};

}  // namespace ps::kernels
