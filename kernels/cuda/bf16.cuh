#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/op_spec.h"

namespace ps::kernels {

// bfloat16 is the upper half of a float, here rounded to the nearest, ties to even; a NaN stays
// one.

__device__ inline uint16_t ToBf16(float x) {
  const uint32_t bits = __float_as_uint(x);
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  const uint32_t rounded = bits + 0x7fffU + ((bits >> 16U) & 1U);
  return static_cast<uint16_t>((is_nan ? bits | 0x400000U : rounded) >> 16U);
}

/// Two of them as tensor cores read them: the first in the lower half.
__device__ inline uint32_t ToBf16Pair(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t pair = 0;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#else
  return ToBf16(first) | static_cast<uint32_t>(ToBf16(second)) << 16U;
#endif
}

/// A factor of a product.
template <Precision precision>
__device__ inline float Rounded(float x) {
  if constexpr (precision == Precision::kBf16) {
    return __uint_as_float(static_cast<uint32_t>(ToBf16(x)) << 16U);
  } else {
    return x;
  }
}

}  // namespace ps::kernels
