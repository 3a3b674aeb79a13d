#pragma once

#include <cstdint>

namespace ps::kernels {

/// x[i] = exp(x[i] - log(sum over j of exp(x[j]))) for n > 0 numbers, and returns that logarithm.
/// A NaN, or an infinity that is largest, makes all of them NaN.
float SoftmaxRow(float* x, int64_t n);

/// x[i] = exp(x[i] - shift). Requires: shift is about as large as the largest, or larger.
void ExpRow(float shift, float* x, int64_t n);

}  // namespace ps::kernels
