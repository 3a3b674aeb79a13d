#pragma once

#include <span>

namespace ps::kernels {

/// True when no element is NaN or infinite. Exact, and independent of the floating-point mode.
/// Cost: 4 bytes of memory traffic per element; memory bound.
bool AllFinite(std::span<const float> x);

}  // namespace ps::kernels
