#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ps::kernels {

/// Whether this code runs where there are tensor cores for bf16.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr bool kHasMmaBf16 = false;
#else
constexpr bool kHasMmaBf16 = true;
#endif

/// d[16,8] += a[16,16] b[16,8] by a whole warp: bf16 factors, f32 sums. Of a and b a lane has pairs
/// of neighbours along the depth, the first in the lower half. With g = lane / 4 and t = lane % 4:
///
///   a  row g, depth 2t | row g+8, depth 2t | row g, depth 2t+8 | row g+8, depth 2t+8
///   b  depth 2t, column g | depth 2t+8, column g
///   d  row g, columns 2t and 2t+1 | row g+8, columns 2t and 2t+1
///
/// Requires: kHasMmaBf16; all lanes call it together.
__device__ inline void MmaBf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifndef __CUDACC__
  ps::cuda_emulation::MmaBf16(d, a, b);
#elif !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  __trap();
#endif
}

}  // namespace ps::kernels
