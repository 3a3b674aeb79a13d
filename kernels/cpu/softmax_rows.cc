#include "kernels/cpu/softmax_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "ps/base/vector_code.h"

namespace ps::kernels {
namespace {

constexpr int64_t kLanes = 16;

/// exp(x) for x up to some tens, to 2e-7 of its value; below -87 it is that of -87. The library's
/// is one call a number. Cody and Waite's reduction, then the series, as in Cephes' expf.
inline float Exp(float x) {
  constexpr float kLowest = -87.0F;
  constexpr float kPerLn2 = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the whole part
  const float clamped = x < kLowest ? kLowest : x;
  const float rounded = clamped * kPerLn2 + kRound;
  const float k = rounded - kRound;
  const float r = (clamped - k * kLn2High) - k * kLn2Low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const uint32_t exponent = std::bit_cast<uint32_t>(rounded) << 23U;
  const auto value = std::bit_cast<float>(std::bit_cast<uint32_t>(p) + exponent);
  return std::isnan(x) ? x : value;
}

PS_VECTOR_CLONES float LargestOf(const float* x, int64_t n) {
  float largest = x[0];
  for (int64_t i = 1; i < n; ++i) {
    largest = x[i] > largest ? x[i] : largest;
  }
  return largest;
}

PS_VECTOR_CLONES void ExpInto(float shift, float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    x[i] = Exp(x[i] - shift);
  }
}

PS_VECTOR_CLONES float SumOf(const float* x, int64_t n) {
  // Independent sums let the compiler use vector registers without reordering what is written here.
  std::array<float, kLanes> sums{};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      sums[static_cast<size_t>(lane)] += x[i + lane];
    }
  }
  float sum = 0;
  for (; i < n; ++i) {
    sum += x[i];
  }
  for (const float part : sums) {
    sum += part;
  }
  return sum;
}

PS_VECTOR_CLONES void ScaleInto(float factor, float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    x[i] *= factor;
  }
}

}  // namespace

float SoftmaxRow(float* x, int64_t n) {
  const float largest = LargestOf(x, n);
  ExpInto(largest, x, n);
  const float sum = SumOf(x, n);
  ScaleInto(1.0F / sum, x, n);
  return largest + std::log(sum);
}

void ExpRow(float shift, float* x, int64_t n) {
  ExpInto(shift, x, n);
}

}  // namespace ps::kernels
