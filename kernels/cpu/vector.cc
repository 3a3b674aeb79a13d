#include "kernels/cpu/vector.h"

#include <array>
#include <bit>
#include <cstddef>

namespace ps::kernels {

void Add(const float* a, const float* b, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = a[i] + b[i];
  }
}

void Scale(std::span<float> x, float factor) {
  for (float& value : x) {
    value *= factor;
  }
}

double SquaredNorm(std::span<const float> x) {
  // Independent sums let the compiler use vector registers without reordering what is written here.
  constexpr size_t kLanes = 16;
  std::array<double, kLanes> sums{};
  size_t i = 0;
  for (; i + kLanes <= x.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double value = x[i + lane];
      sums[lane] += value * value;
    }
  }
  for (; i < x.size(); ++i) {
    const double value = x[i];
    sums[i % kLanes] += value * value;
  }
  double total = 0;
  for (const double sum : sums) {
    total += sum;
  }
  return total;
}

void PackBf16(const float* x, uint16_t* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<uint32_t>(x[i]);
    const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
    const uint32_t rounded = bits + 0x7fffU + ((bits >> 16U) & 1U);
    y[i] = static_cast<uint16_t>((is_nan ? bits | 0x400000U : rounded) >> 16U);
  }
}

}  // namespace ps::kernels
