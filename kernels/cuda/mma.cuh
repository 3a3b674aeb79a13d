#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/shared_memory.cuh"

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

/// g and t.
__device__ inline int LaneGroup() {
  return static_cast<int>(threadIdx.x % 32 / 4);
}

__device__ inline int LaneMember() {
  return static_cast<int>(threadIdx.x % 4);
}

/// Four squares of 8 x 8 values of 16 bits from shared memory. Lane l gives `row`, the address of
/// row l % 8 of square l / 8, a multiple of 16. With g and t it gets of each square the values 2t
/// and 2t+1 of row g, or, if it is transposed, of column g. Requires: all lanes call it together.
template <bool is_transposed>
__device__ void LoadMatrices(const void* row, uint32_t (&squares)[4]) {
#ifndef __CUDACC__
  ps::cuda_emulation::LoadMatrices(row, is_transposed, squares);
#else
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (is_transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(squares[0]), "=r"(squares[1]), "=r"(squares[2]), "=r"(squares[3])
                 : "r"(address)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(squares[0]), "=r"(squares[1]), "=r"(squares[2]), "=r"(squares[3])
                 : "r"(address)
                 : "memory");
  }
#endif
}

/// Which row of which square a lane gives LoadMatrices for fragments of 16 lines and 16 depths: for
/// MmaBf16's a, or for its b twice, of eight lines, then of the next.
template <bool is_a>
struct LaneOfSquares {
  __device__ LaneOfSquares()
      : row(static_cast<int>(threadIdx.x % 8)),
        line((is_a ? Square() % 2 : Square() / 2) * 8),
        depth((is_a ? Square() / 2 : Square() % 2) * 8) {}

  int row;
  int line;   // of the square's first
  int depth;  // likewise

 private:
  __device__ static int Square() { return static_cast<int>(threadIdx.x % 32 / 8); }
};

/// Four squares of 8 x 8 values of bf16 as fragments: 16 lines from `line` on, and 16 depths. A
/// line's depths lie side by side in the tile, whose rows are `pitch` words apart, or a depth's
/// lines do, if is_transposed. For MmaBf16's a, or for its b twice: of eight lines, then of the
/// next.
template <bool is_transposed, bool is_a>
__device__ void LoadSquares(const uint32_t* tile, int pitch, int line, uint32_t (&squares)[4]) {
  const LaneOfSquares<is_a> lane;
  LoadMatrices<is_transposed>(
      is_transposed ? tile + (lane.depth + lane.row) * pitch + (line + lane.line) / 2
                    : tile + (line + lane.line + lane.row) * pitch + lane.depth / 2,
      squares);
}

/// The same from a swizzled tile whose rows are lines, or depths if it is transposed.
template <bool is_transposed, bool is_a, int units>
__device__ void LoadSquares(
    const SwizzledTile<uint4, units>& tile, int line, int depth, uint32_t (&squares)[4]) {
  const LaneOfSquares<is_a> lane;
  LoadMatrices<is_transposed>(
      is_transposed ? tile.At(depth + lane.depth + lane.row, (line + lane.line) / 8)
                    : tile.At(line + lane.line + lane.row, (depth + lane.depth) / 8),
      squares);
}

}  // namespace ps::kernels
