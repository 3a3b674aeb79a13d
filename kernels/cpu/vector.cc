#include "kernels/cpu/vector.h"

#include <array>
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

}  // namespace ps::kernels
