#pragma once

#include <cstdint>
#include <span>

namespace ps::kernels {

/// y[i] = a[i] + b[i]; y may be a or b.
void Add(const float* a, const float* b, float* y, int64_t n);

/// x[i] *= factor.
void Scale(std::span<float> x, float factor);

/// Sum of squares in double, added up in a fixed order: the same x gives the same bits.
double SquaredNorm(std::span<const float> x);

/// y[i] = x[i] as bfloat16, rounded to the nearest, ties to even; a NaN stays one.
void PackBf16(const float* x, uint16_t* y, int64_t n);

/// y[i] = x[i], of bfloat16.
void UnpackBf16(const uint16_t* x, float* y, int64_t n);

/// y[i] = x[i] rounded so, as a float; y may be x.
void RoundToBf16(const float* x, float* y, int64_t n);

}  // namespace ps::kernels
