#pragma once

#include <cstdint>
#include <span>

namespace ps::kernels {

/// w += rate * (x - w): an exponential running average of observations.
///   x  [n] f32  observation, read
///   w  [n] f32  average, read and written; does not overlap x
/// An element that would become NaN or infinite stays as it was; then it returns false.
bool MoveTowards(const float* x, float rate, float* w, int64_t n);

/// One of the parts of a mean.
struct WeightedPart {
  const float* x = nullptr;  // [n] f32
  float weight = 0;
};

/// y = (weight_0 * x_0 + weight_1 * x_1 + ...) / (weight_0 + weight_1 + ...), summed in the order
/// of `parts`, every operation one f32 operation: the same parts give the same bits. A mean of one
/// part is that part as it is.
///   y  [n] f32  written; overlaps no part
/// Requires: parts is not empty, the weights' sum is not 0.
void WeightedMean(std::span<const WeightedPart> parts, float* y, int64_t n);

}  // namespace ps::kernels
