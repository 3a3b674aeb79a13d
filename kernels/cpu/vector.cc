#include "kernels/cpu/vector.h"

#include <array>
#include <bit>
#include <cstddef>

#include "ps/base/vector_code.h"

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
    y[i] = ToBf16(x[i]);
  }
}

void UnpackBf16(const uint16_t* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = FromBf16(x[i]);
  }
}

void RoundToBf16(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = std::bit_cast<float>(ToBf16InUpperHalf(x[i]) & 0xffff0000U);
  }
}

}  // namespace ps::kernels
