#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/bf16.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"

namespace ps::kernels {

// A tile of a product of two matrices that need not exist as such: A and B say what is at a place,
// so that one loop serves matrices, convolutions and their gradients.
//
//   A  Row AtRow(row), Depth AtDepth(k), float Load(Row, Depth)
//   B  Column AtColumn(column), Depth AtDepth(k), float Load(Depth, Column)
//
// AtRow and AtColumn are worked out once a thread, AtDepth once a step of kProductDepth.

constexpr int kProductTile = 64;   // rows, and columns
constexpr int kProductDepth = 16;  // of a step
constexpr int kProductThreads = 256;
constexpr int kProductSide = 16;  // threads along each side of the tile; each computes 4 x 4 values

/// Calls store(row, column, sum over k in [depth_begin, depth_end) of A(row,k) * B(k,column)) for
/// the rows below `rows` and columns below `columns` of this block's tile: blockIdx.x counts tiles
/// of rows, blockIdx.y those of columns. Blocks of kProductThreads; all threads call it once.
template <Precision precision, typename A, typename B, typename Store>
__device__ void ProductTile(
    int64_t rows,
    int64_t columns,
    int64_t depth_begin,
    int64_t depth_end,
    const A& a,
    const B& b,
    const Store& store) {
  constexpr int kEach = kProductTile / kProductSide;  // values of a thread along a side
  // A value more a row, so that threads that write one below the other meet different banks.
  __shared__ float tile_a[kProductDepth][kProductTile + 1];
  __shared__ float tile_b[kProductDepth][kProductTile];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t row0 = static_cast<int64_t>(blockIdx.x) * kProductTile;
  const int64_t column0 = static_cast<int64_t>(blockIdx.y) * kProductTile;

  // A thread loads 4 rows of A at one depth, and one column of B at 4 depths.
  const int a_depth = thread % kProductDepth;
  const int a_row = thread / kProductDepth;
  const int b_column = thread % kProductTile;
  const int b_depth = thread / kProductTile;
  typename A::Row a_rows[kEach];
  for (int i = 0; i < kEach; ++i) {
    a_rows[i] = a.AtRow(row0 + a_row + i * kProductSide);
  }
  const typename B::Column b_at = b.AtColumn(column0 + b_column);

  float sums[kEach][kEach] = {};
  for (int64_t k0 = depth_begin; k0 < depth_end; k0 += kProductDepth) {
    const typename A::Depth depth = a.AtDepth(k0 + a_depth);
    for (int i = 0; i < kEach; ++i) {
      const int row = a_row + i * kProductSide;
      const bool is_inside = row0 + row < rows && k0 + a_depth < depth_end;
      tile_a[a_depth][row] = is_inside ? Rounded<precision>(a.Load(a_rows[i], depth)) : 0.0F;
    }
    for (int i = 0; i < kProductDepth * kProductTile / kProductThreads; ++i) {
      const int at = b_depth + i * (kProductThreads / kProductTile);
      const bool is_inside = column0 + b_column < columns && k0 + at < depth_end;
      tile_b[at][b_column] =
          is_inside ? Rounded<precision>(b.Load(b.AtDepth(k0 + at), b_at)) : 0.0F;
    }
    __syncthreads();
    for (int k = 0; k < kProductDepth; ++k) {
      float from_a[kEach];
      float from_b[kEach];
      for (int i = 0; i < kEach; ++i) {
        from_a[i] = tile_a[k][thread / kProductSide + i * kProductSide];
        from_b[i] = tile_b[k][thread % kProductSide + i * kProductSide];
      }
      for (int i = 0; i < kEach; ++i) {
        for (int j = 0; j < kEach; ++j) {
          sums[i][j] += from_a[i] * from_b[j];
        }
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < kEach; ++i) {
    for (int j = 0; j < kEach; ++j) {
      const int64_t row = row0 + thread / kProductSide + i * kProductSide;
      const int64_t column = column0 + thread % kProductSide + j * kProductSide;
      if (row < rows && column < columns) {
        store(row, column, sums[i][j]);
      }
    }
  }
}

constexpr int kTensorDepth = 32;  // of a step: two of the instruction's
constexpr int kTensorPairs = kTensorDepth / 2;
/// Words of a row. With four more than it needs, the lanes of a fragment meet different banks.
constexpr int kTensorPitch = kTensorPairs + 4;

/// A value at a depth and at the next one, rounded, 0 from `end` on. `load` gives the value at a
/// depth.
template <typename Load>
__device__ uint32_t DepthPair(int64_t k, int64_t end, const Load& load) {
  const float first = k < end ? load(k) : 0.0F;
  const float second = k + 1 < end ? load(k + 1) : 0.0F;
  return ToBf16Pair(first, second);
}

/// The same on tensor cores, of factors that are rounded to bf16. Each of the 8 warps has 16 rows
/// and 32 columns of the tile. Requires: kHasMmaBf16.
template <typename A, typename B, typename Store>
__device__ void TensorTile(
    int64_t rows,
    int64_t columns,
    int64_t depth_begin,
    int64_t depth_end,
    const A& a,
    const B& b,
    const Store& store) {
  constexpr int kEach = 4;  // rows and columns that a thread loads; columns of a warp, by eights
  __shared__ uint32_t tile_a[kProductTile][kTensorPitch];  // by rows, pairs along the depth
  __shared__ uint32_t tile_b[kProductTile][kTensorPitch];  // by columns
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t row0 = static_cast<int64_t>(blockIdx.x) * kProductTile;
  const int64_t column0 = static_cast<int64_t>(blockIdx.y) * kProductTile;

  // A thread loads 4 rows of A at one pair, and one column of B at 4 pairs.
  const int a_pair = thread % kTensorPairs;
  const int a_row = thread / kTensorPairs;
  const int b_column = thread % kProductTile;
  const int b_pair = thread / kProductTile;
  typename A::Row a_rows[kEach];
  for (int i = 0; i < kEach; ++i) {
    a_rows[i] = a.AtRow(row0 + a_row + i * (kProductThreads / kTensorPairs));
  }
  const typename B::Column b_at = b.AtColumn(column0 + b_column);

  const int own_row = thread / 64 * 16;         // the warp's first
  const int own_column = thread / 32 % 2 * 32;  // likewise
  float sums[kEach][4] = {};
  for (int64_t k0 = depth_begin; k0 < depth_end; k0 += kTensorDepth) {
    for (int i = 0; i < kEach; ++i) {
      const int row = a_row + i * (kProductThreads / kTensorPairs);
      const int64_t end = row0 + row < rows ? depth_end : k0;
      tile_a[row][a_pair] = DepthPair(
          k0 + 2 * a_pair, end, [&](int64_t k) { return a.Load(a_rows[i], a.AtDepth(k)); });
    }
    for (int i = 0; i < kEach; ++i) {
      const int pair = b_pair + i * (kProductThreads / kProductTile);
      const int64_t end = column0 + b_column < columns ? depth_end : k0;
      tile_b[b_column][pair] =
          DepthPair(k0 + 2 * pair, end, [&](int64_t k) { return b.Load(b.AtDepth(k), b_at); });
    }
    __syncthreads();
    for (int pair = 0; pair < kTensorPairs; pair += 8) {
      uint32_t from_a[4];
      LoadFragmentA(tile_a, own_row, pair, from_a);
      for (int j = 0; j < kEach; ++j) {
        // The warp decides as one: its columns are there, or none of these eight.
        if (column0 + own_column + 8 * j < columns) {
          uint32_t from_b[2];
          LoadFragmentB(tile_b, own_column + 8 * j, pair, from_b);
          MmaBf16(sums[j], from_a, from_b);
        }
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < kEach; ++j) {
    for (int i = 0; i < 4; ++i) {
      const int64_t row = row0 + own_row + LaneGroup() + i / 2 * 8;
      const int64_t column = column0 + own_column + 8 * j + 2 * LaneMember() + i % 2;
      if (row < rows && column < columns) {
        store(row, column, sums[j][i]);
      }
    }
  }
}

/// Either of them: tensor cores for bf16, where the device has them.
template <Precision precision, typename A, typename B, typename Store>
__device__ void Product(
    int64_t rows,
    int64_t columns,
    int64_t depth_begin,
    int64_t depth_end,
    const A& a,
    const B& b,
    const Store& store) {
  if constexpr (precision == Precision::kBf16 && kHasMmaBf16) {
    TensorTile(rows, columns, depth_begin, depth_end, a, b, store);
  } else {
    ProductTile<precision>(rows, columns, depth_begin, depth_end, a, b, store);
  }
}

/// The blocks for a product of that size, `splits` of them along the depth.
inline dim3 ProductGrid(int64_t rows, int64_t columns, int64_t splits) {
  return {
      static_cast<unsigned>(DivideUp(rows, kProductTile)),
      static_cast<unsigned>(DivideUp(columns, kProductTile)),
      static_cast<unsigned>(splits)};
}

}  // namespace ps::kernels
