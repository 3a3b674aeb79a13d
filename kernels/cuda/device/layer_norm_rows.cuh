#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device/vectors.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ps::kernels {

// Rows that lie in the registers of some threads.

constexpr int kWarps = kThreads / 32;
/// Groups of `width` columns that a thread has at most.
constexpr int kChunksMax = 4;

/// Threads for rows that fit into registers: block.x share a row, block.y rows are done at a time,
/// and `turns` times so many at least.
struct RowBlock {
  RowBlock(int64_t rows, int64_t features, int64_t width, int64_t turns) {
    const int64_t groups = DivideUp(features, width);
    while (chunks < kChunksMax && groups > chunks * kThreads) {
      chunks *= 2;
    }
    fits = groups <= chunks * kThreads;
    const int64_t across = std::max<int64_t>(32 * DivideUp(groups, 32 * chunks), 32);
    const int64_t down = std::max<int64_t>(kThreads / across, 1);
    block = dim3(static_cast<unsigned>(across), static_cast<unsigned>(down));
    const int64_t wanted = DivideUp(rows, down * turns);
    blocks = std::clamp<int64_t>(wanted, 1, kBlocksMax);
    grid = dim3(static_cast<unsigned>(blocks));
  }

  int64_t chunks = 1;
  bool fits = false;
  dim3 block;
  dim3 grid;
  int64_t blocks = 1;
};

/// For the backward pass, of whose blocks each leaves sums to be added up.
inline RowBlock BackwardBlock(int64_t rows, int64_t features, int64_t width) {
  constexpr int64_t kBlocksWanted = 512;
  constexpr int64_t kTurnsMin = 8;
  const RowBlock one(rows, features, width, kTurnsMin);
  const int64_t wanted = DivideUp(rows, one.block.y * kBlocksWanted);
  return RowBlock(rows, features, width, std::max(kTurnsMin, wanted));
}

/// What a thread has of a row.
template <int width, int chunks>
struct RowPart {
  /// Zeros behind the row's end.
  __device__ void Load(const float* row, int64_t features) {
    PS_UNROLL
    for (int c = 0; c < chunks; ++c) {
      of[c] =
          Column(c) < features ? LoadVector<width>(row + Column(c)) : SideBySide<float, width>{};
    }
  }

  __device__ void Store(float* row, int64_t features) const {
    PS_UNROLL
    for (int c = 0; c < chunks; ++c) {
      if (Column(c) < features) {
        StoreVector(of[c], row + Column(c));
      }
    }
  }

  /// Calls visit(i, column) for the thread's columns, i counting them.
  template <typename Visit>
  __device__ static void ForColumns(int64_t features, const Visit& visit) {
    PS_UNROLL
    for (int c = 0; c < chunks; ++c) {
      PS_UNROLL
      for (int k = 0; k < width && Column(c) < features; ++k) {
        visit(c, k, Column(c) + k);
      }
    }
  }

  __device__ static int64_t Column(int c) {
    return (static_cast<int64_t>(c) * blockDim.x + threadIdx.x) * width;
  }

  SideBySide<float, width> of[chunks];
};

/// The sums over a row's threads, in all of them. All threads of the block call it, in turns with
/// one `turn` and the other: a barrier between two calls is enough then.
template <int count>
__device__ void SumOverRow(float (&values)[count], int turn) {
  __shared__ float of_warp[2][kWarps][count];
  PS_UNROLL
  for (int k = 0; k < count; ++k) {
    values[k] = WarpSum(values[k]);
  }
  if (blockDim.x == 32) {
    return;
  }
  const unsigned warps = blockDim.x / 32;
  const unsigned first = threadIdx.y * warps;
  if (threadIdx.x % 32 == 0) {
    PS_UNROLL
    for (int k = 0; k < count; ++k) {
      of_warp[turn][first + threadIdx.x / 32][k] = values[k];
    }
  }
  __syncthreads();
  PS_UNROLL
  for (int k = 0; k < count; ++k) {
    values[k] = 0;
    for (unsigned warp = 0; warp < warps; ++warp) {
      values[k] += of_warp[turn][first + warp][k];
    }
  }
}

}  // namespace ps::kernels
