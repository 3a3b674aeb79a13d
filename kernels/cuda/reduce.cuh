#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/device/vectors.cuh"
#include "kernels/cuda/launch.cuh"

namespace ps::kernels {

// Sums in a fixed order: the same values give the same bits.

constexpr unsigned kAllLanes = 0xffffffffU;
/// Threads of a block that adds up parts.
constexpr unsigned kSumThreadsMax = 1024;

/// The sum over the warp, in every lane. All lanes call it.
template <typename T>
__device__ T WarpSum(T value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

/// The sum over a one-dimensional block of `threads`, a multiple of 32, in thread 0. All threads
/// call it; what they write to shared memory before it is visible behind it.
template <unsigned threads, typename T>
__device__ T BlockSum(T value) {
  __shared__ T of_warp[threads / 32];
  value = WarpSum(value);
  __syncthreads();  // an earlier call has been read
  if (threadIdx.x % 32 == 0) {
    of_warp[threadIdx.x / 32] = value;
  }
  __syncthreads();
  T sum = 0;
  if (threadIdx.x == 0) {
    for (const T part : of_warp) {
      sum += part;
    }
  }
  return sum;
}

/// Calls put(i, sums) for i in [0, n): the sums over `count` parts, each of which has first sums of
/// n values, then the second ones and so on. Blocks of some values by a power of two of parts.
template <int each, typename Put>
__global__ void __launch_bounds__(kSumThreadsMax)
    SumPartsKernel(const float* __restrict__ parts, int64_t count, int64_t n, Put put) {
  __shared__ float shared[each][kSumThreadsMax];
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  float sums[each] = {};
  if (i < n) {
    PS_UNROLL_BY(4)
    for (int64_t part = threadIdx.y; part < count; part += blockDim.y) {
      PS_UNROLL
      for (int k = 0; k < each; ++k) {
        sums[k] += parts[(part * each + k) * n + i];
      }
    }
  }
  const unsigned own = threadIdx.y * blockDim.x + threadIdx.x;
  PS_UNROLL
  for (int k = 0; k < each; ++k) {
    shared[k][own] = sums[k];
  }
  for (unsigned down = blockDim.y / 2; down > 0; down /= 2) {
    __syncthreads();
    if (threadIdx.y < down) {
      PS_UNROLL
      for (int k = 0; k < each; ++k) {
        shared[k][own] = sums[k] += shared[k][own + down * blockDim.x];
      }
    }
  }
  if (threadIdx.y == 0 && i < n) {
    put(i, sums);
  }
}

/// Many parts of few values, as few channels have, are spread over more blocks: 32 bytes a row are
/// what memory hands out anyway.
template <int each, typename Put>
cudaError_t SumParts(
    cudaStream_t stream, const float* parts, int64_t count, int64_t n, const Put& put) {
  constexpr int64_t kFew = 4096;
  const unsigned across = count > 32 && n <= kFew ? 8 : 32;
  unsigned down = 1;
  while (down < kSumThreadsMax / across && down < count) {
    down *= 2;
  }
  return Launch(
      stream,
      dim3(static_cast<unsigned>(DivideUp(n, across))),
      dim3(across, down),
      &SumPartsKernel<each, Put>,
      parts,
      count,
      n,
      put);
}

/// `width` values that lie side by side, which are aligned if there are four.
template <int width>
__device__ void LoadSideBySide(const float* from, float (&values)[width]) {
  if constexpr (width == 4) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    values[0] = four.x;
    values[1] = four.y;
    values[2] = four.z;
    values[3] = four.w;
  } else {
    for (int i = 0; i < width; ++i) {
      values[i] = from[i];
    }
  }
}

template <int width>
__device__ void StoreSideBySide(const float (&values)[width], float* to) {
  if constexpr (width == 4) {
    StoreFour(values, to);
  } else {
    for (int i = 0; i < width; ++i) {
      to[i] = values[i];
    }
  }
}

/// How a matrix is cut for kernels that do something per column: blocks of kThreads, whose threads
/// have `width` columns each and go down the rows of a part.
struct ColumnCut {
  ColumnCut(int64_t rows, int64_t columns, int width) {
    constexpr int64_t kBlocksWanted = 512;
    constexpr int64_t kRowsMin = 128;  // of a part
    unsigned across = 1;
    while (across < 32 && int64_t{across} * width < columns) {
      across *= 2;
    }
    block = dim3(across, kThreads / across);
    grid.x = static_cast<unsigned>(DivideUp(columns, int64_t{across} * width));
    const int64_t wanted = DivideUp(kBlocksWanted, grid.x);
    const int64_t possible = DivideUp(rows, kRowsMin);
    parts = possible < 1 ? 1 : possible < wanted ? possible : wanted;
    grid.y = static_cast<unsigned>(parts);
    rows_of_part = DivideUp(rows, parts);
  }

  /// Calls visit(row) for what the thread has.
  template <typename Visit>
  __device__ static void ForRows(int64_t rows, int64_t rows_of_part, const Visit& visit) {
    const int64_t begin = static_cast<int64_t>(blockIdx.y) * rows_of_part;
    const int64_t end = begin + rows_of_part < rows ? begin + rows_of_part : rows;
    PS_UNROLL_BY(4)
    for (int64_t row = begin + threadIdx.y; row < end; row += blockDim.y) {
      visit(row);
    }
  }

  /// Calls load(row, i) for up to `at_once` rows of the thread, i counting them, then store(row, i)
  /// for these, and so on: loads do not wait for the stores of the row before.
  template <int at_once, typename Load, typename Store>
  __device__ static void ForRowsAtOnce(
      int64_t rows, int64_t rows_of_part, const Load& load, const Store& store) {
    const int64_t begin = static_cast<int64_t>(blockIdx.y) * rows_of_part;
    const int64_t end = begin + rows_of_part < rows ? begin + rows_of_part : rows;
    const int64_t step = blockDim.y;
    for (int64_t row = begin + threadIdx.y; row < end; row += at_once * step) {
      PS_UNROLL
      for (int i = 0; i < at_once; ++i) {
        if (row + i * step < end) {
          load(row + i * step, i);
        }
      }
      PS_UNROLL
      for (int i = 0; i < at_once; ++i) {
        if (row + i * step < end) {
          store(row + i * step, i);
        }
      }
    }
  }

  template <int width>
  __device__ static int64_t Column() {
    return (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * width;
  }

  dim3 grid;
  dim3 block;
  int64_t parts = 1;
  int64_t rows_of_part = 0;
};

/// parts[part, k, j] = the k-th sum over the part's rows of column j. What is summed up is made for
/// a thread's columns by values.Of<width>(column), and adds a row's by Add(row, sums).
template <int width, typename Values>
__global__ void __launch_bounds__(kThreads) ColumnPartsKernel(
    Values values, int64_t rows, int64_t columns, int64_t rows_of_part, float* parts) {
  constexpr int kEach = Values::kEach;
  __shared__ float shared[kEach * width][kThreads];
  const int64_t column = ColumnCut::Column<width>();
  float sums[kEach][width] = {};
  if (column < columns) {
    const auto of_columns = values.template Of<width>(column);
    ColumnCut::ForRows(rows, rows_of_part, [&](int64_t row) { of_columns.Add(row, column, sums); });
  }
  const unsigned own = threadIdx.y * blockDim.x + threadIdx.x;
  PS_UNROLL
  for (int i = 0; i < kEach * width; ++i) {
    shared[i][own] = sums[i / width][i % width];
  }
  for (unsigned down = blockDim.y / 2; down > 0; down /= 2) {
    __syncthreads();
    if (threadIdx.y < down) {
      PS_UNROLL
      for (int i = 0; i < kEach * width; ++i) {
        shared[i][own] += shared[i][own + down * blockDim.x];
      }
    }
  }
  if (threadIdx.y == 0 && column < columns) {
    float* const part = parts + static_cast<int64_t>(blockIdx.y) * kEach * columns;
    PS_UNROLL
    for (int i = 0; i < kEach * width; ++i) {
      part[i / width * columns + column + i % width] = shared[i][own];
    }
  }
}

/// Calls put(j, sums) for every column j with its sums, added up in a fixed order. The scratch
/// holds ColumnSumScratch(rows, columns) floats. are_fours: columns can be taken four at a time.
template <typename Values, typename Put>
cudaError_t SumColumns(
    cudaStream_t stream,
    const Values& values,
    int64_t rows,
    int64_t columns,
    bool are_fours,
    float* scratch,
    const Put& put) {
  const ColumnCut cut(rows, columns, are_fours ? 4 : 1);
  const cudaError_t error = Launch(
      stream,
      cut.grid,
      cut.block,
      are_fours ? &ColumnPartsKernel<4, Values> : &ColumnPartsKernel<1, Values>,
      values,
      rows,
      columns,
      cut.rows_of_part,
      scratch);
  return error == cudaSuccess ? SumParts<Values::kEach>(stream, scratch, cut.parts, columns, put)
                              : error;
}

}  // namespace ps::kernels
