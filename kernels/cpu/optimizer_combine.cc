// Compiled with -ffp-contract=off, as optimizer.cc is.

#include "kernels/cpu/optimizer_combine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ps/base/check.h"
#include "ps/base/vector_code.h"

namespace ps::kernels {
namespace {

/// Elements of y that stay in the first-level cache while all parts are added to them.
constexpr int64_t kBlockElements = 2048;

PS_VECTOR_CLONES bool MoveTowardsLoop(
    const float* __restrict__ x, float rate, float* __restrict__ w, int64_t n) {
  uint32_t any_bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float next = w[i] + rate * (x[i] - w[i]);
    const uint32_t is_bad = std::fabs(next) <= std::numeric_limits<float>::max() ? 0U : 1U;
    w[i] = is_bad == 0 ? next : w[i];
    any_bad |= is_bad;
  }
  return any_bad == 0;
}

PS_VECTOR_CLONES void ScaleInto(
    const float* __restrict__ x, float weight, float* __restrict__ y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = weight * x[i];
  }
}

PS_VECTOR_CLONES void AddScaled(
    const float* __restrict__ x, float weight, float* __restrict__ y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] += weight * x[i];
  }
}

PS_VECTOR_CLONES void Divide(float* __restrict__ y, float divisor, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] /= divisor;
  }
}

}  // namespace

bool MoveTowards(const float* x, float rate, float* w, int64_t n) {
  return MoveTowardsLoop(x, rate, w, n);
}

void WeightedMean(std::span<const WeightedPart> parts, float* y, int64_t n) {
  PS_CHECK(!parts.empty()) << "a mean of nothing";
  if (parts.size() == 1) {
    if (n > 0) {
      std::memcpy(y, parts[0].x, static_cast<size_t>(n) * sizeof(float));
    }
    return;
  }
  float total = 0;
  for (const WeightedPart& part : parts) {
    total += part.weight;
  }
  for (int64_t begin = 0; begin < n; begin += kBlockElements) {
    const int64_t size = std::min(kBlockElements, n - begin);
    ScaleInto(parts[0].x + begin, parts[0].weight, y + begin, size);
    for (const WeightedPart& part : parts.subspan(1)) {
      AddScaled(part.x + begin, part.weight, y + begin, size);
    }
    Divide(y + begin, total, size);
  }
}

}  // namespace ps::kernels
