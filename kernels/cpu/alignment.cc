// Compiled with -ffp-contract=off: see the promise in kernels/optimizer.h.

#include "kernels/cpu/alignment.h"

#include <algorithm>
#include <cmath>

#include "ps/base/check.h"
#include "ps/base/vector_code.h"

namespace ps::kernels {
namespace {

/// From this cosine on a gradient and the momentum agree.
constexpr double kAgreeing = 0.2;
/// Weight of the momentum's size against the gradient's.
constexpr double kMomentumWeight = 3;
/// The largest share of what a gradient has against the momentum that is taken away.
constexpr double kOpposedMax = 0.5;
/// A momentum that is smaller than the gradient by this factor has no direction.
constexpr double kNothing = 1e-12;

double SumOf(std::span<const double> lanes) {
  double sum = 0;
  for (const double lane : lanes) {
    sum += lane;
  }
  return sum;
}

/// Fewer elements than there are lanes.
void AddSome(const float* g, const float* m, size_t first_lane, size_t n, AlignmentSums* sums) {
  for (size_t i = 0; i < n; ++i) {
    const double x = g[i];
    const double y = m[i];
    sums->gradient[first_lane + i] += x * x;
    sums->momentum[first_lane + i] += y * y;
    sums->product[first_lane + i] += x * y;
  }
}

PS_VECTOR_CLONES void AddRows(const float* g, const float* m, size_t rows, AlignmentSums* sums) {
  AlignmentSums local = *sums;  // nothing else points to it, so it stays in registers
  for (size_t row = 0; row < rows; ++row) {
    for (size_t lane = 0; lane < kAlignmentLanes; ++lane) {
      const double x = g[row * kAlignmentLanes + lane];
      const double y = m[row * kAlignmentLanes + lane];
      local.gradient[lane] += x * x;
      local.momentum[lane] += y * y;
      local.product[lane] += x * y;
    }
  }
  *sums = local;
}

}  // namespace

void Alignment::Add(std::span<const float> gradient, std::span<const float> momentum) {
  PS_CHECK(gradient.size() == momentum.size())
      << gradient.size() << " elements beside " << momentum.size();
  const size_t lane = count_ % kAlignmentLanes;
  const size_t head = std::min(gradient.size(), (kAlignmentLanes - lane) % kAlignmentLanes);
  const size_t rows = (gradient.size() - head) / kAlignmentLanes;
  const size_t tail = head + rows * kAlignmentLanes;
  const float* const g = gradient.data();
  const float* const m = momentum.data();
  AddSome(g, m, lane, head, &sums_);
  AddRows(g + head, m + head, rows, &sums_);
  AddSome(g + tail, m + tail, 0, gradient.size() - tail, &sums_);
  count_ += gradient.size();
}

Turn Alignment::HelocoTurn() const {
  const double g = std::sqrt(SumOf(sums_.gradient));
  const double m = std::sqrt(SumOf(sums_.momentum));
  if (g == 0 || m <= kNothing * g) {
    return {};
  }
  const double confidence = g / (g + kMomentumWeight * m);
  const double cosine = std::clamp(SumOf(sums_.product) / (g * m), -1.0, 1.0);
  if (cosine >= kAgreeing) {
    return {};
  }
  if (cosine < 0) {
    const double share = std::min(kOpposedMax, kOpposedMax * -cosine * confidence);
    return {1, static_cast<float>(share * -cosine * confidence * (g / m))};
  }
  const double l = std::min(1.0, (1 - cosine) * confidence);
  const double length = std::sqrt((1 - l) * (1 - l) + l * l + 2 * l * (1 - l) * cosine);
  return {static_cast<float>((1 - l) / length), static_cast<float>(l / length * (g / m))};
}

}  // namespace ps::kernels
