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

/// In front of a loop whose counter numbers registers.
#ifdef __CUDACC__
#define PS_UNROLL _Pragma("unroll")
#else
#define PS_UNROLL
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

/// g and t.
__device__ inline int LaneGroup() {
  return static_cast<int>(threadIdx.x) % 32 / 4;
}

__device__ inline int LaneMember() {
  return static_cast<int>(threadIdx.x) % 4;
}

/// Of a tile that has the depth in pairs: 16 rows from `row` on, 8 pairs from `pair` on.
template <int rows, int pitch>
__device__ void LoadFragmentA(
    const uint32_t (&tile)[rows][pitch], int row, int pair, uint32_t (&a)[4]) {
  PS_UNROLL
  for (int i = 0; i < 4; ++i) {
    a[i] = tile[row + LaneGroup() + i % 2 * 8][pair + LaneMember() + i / 2 * 4];
  }
}

/// Of a tile that has the depth in pairs: 8 columns from `column` on, 8 pairs from `pair` on.
template <int columns, int pitch>
__device__ void LoadFragmentB(
    const uint32_t (&tile)[columns][pitch], int column, int pair, uint32_t (&b)[2]) {
  b[0] = tile[column + LaneGroup()][pair + LaneMember()];
  b[1] = tile[column + LaneGroup()][pair + LaneMember() + 4];
}

}  // namespace ps::kernels
