#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/launch.cuh"

namespace ps::kernels {

// Sums in a fixed order: the same values give the same bits.

constexpr unsigned kAllLanes = 0xffffffffU;

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

struct PartsElement {
  __device__ void operator()(int64_t i) const {
    float sum = 0;
    for (int64_t part = 0; part < count; ++part) {
      sum += parts[part * n + i];
    }
    out[i] = scale * sum;
  }

  const float* parts;
  int64_t count;
  int64_t n;
  float scale;
  float* out;
};

constexpr int kSumColumns = 32;  // of a block
constexpr int kSumRows = 8;      // that it adds up at once

/// parts[blockIdx.y, j] = the sum of a part of column j.
template <typename Value>
__global__ void ColumnPartsKernel(
    Value value, int64_t rows, int64_t columns, int64_t rows_of_part, float* parts) {
  __shared__ float sums[kSumRows][kSumColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kSumColumns + threadIdx.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * rows_of_part;
  const int64_t end = begin + rows_of_part < rows ? begin + rows_of_part : rows;
  float sum = 0;
  for (int64_t row = begin + threadIdx.y; row < end && column < columns; row += kSumRows) {
    sum += value(row, column);
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && column < columns) {
    float total = 0;
    for (int row = 0; row < kSumRows; ++row) {
      total += sums[row][threadIdx.x];
    }
    parts[static_cast<int64_t>(blockIdx.y) * columns + column] = total;
  }
}

inline int64_t ColumnParts(int64_t rows) {
  constexpr int64_t kRowsOfPart = 256;
  constexpr int64_t kPartsMax = 128;
  const int64_t parts = DivideUp(rows, kRowsOfPart);
  return parts < 1 ? 1 : parts < kPartsMax ? parts : kPartsMax;
}

/// out[j] = scale * sum over i of value(i, j), in a fixed order. The scratch holds
/// ColumnSumScratch(rows, columns) floats.
template <typename Value>
cudaError_t SumColumns(
    cudaStream_t stream,
    Value value,
    int64_t rows,
    int64_t columns,
    float scale,
    float* scratch,
    float* out) {
  const int64_t parts = ColumnParts(rows);
  const dim3 grid(
      static_cast<unsigned>(DivideUp(columns, kSumColumns)), static_cast<unsigned>(parts));
  const cudaError_t error = Launch(
      stream,
      grid,
      dim3(kSumColumns, kSumRows),
      &ColumnPartsKernel<Value>,
      value,
      rows,
      columns,
      DivideUp(rows, parts),
      scratch);
  return error == cudaSuccess
             ? ForEach(stream, columns, PartsElement{scratch, parts, columns, scale, out})
             : error;
}

}  // namespace ps::kernels
