#pragma once

#include <limits>

namespace ps::provisioner {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kSecondsPerHour = 3600;
/// Relative: what sums in another order can differ by, and more.
inline constexpr double kSlack = 1e-9;

}  // namespace ps::provisioner
