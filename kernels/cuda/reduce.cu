#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ps::kernels {
namespace {

struct PartsElement {
  __device__ void operator()(int64_t i) const {
    float sum = 0;
    for (int64_t part = 0; part < count; ++part) {
      sum += parts[part * n + i];
    }
    out[i] = sum;
  }

  const float* parts;
  int64_t count;
  int64_t n;
  float* out;
};

constexpr int kColumns = 32;  // of a block
constexpr int kRows = 8;      // that it adds up at once

/// parts[blockIdx.y, j] = the sum of a part of column j.
__global__ void ColumnPartsKernel(
    const float* __restrict__ x,
    int64_t rows,
    int64_t columns,
    int64_t rows_of_part,
    float* __restrict__ parts) {
  __shared__ float sums[kRows][kColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * rows_of_part;
  const int64_t end = begin + rows_of_part < rows ? begin + rows_of_part : rows;
  float sum = 0;
  for (int64_t row = begin + threadIdx.y; row < end && column < columns; row += kRows) {
    sum += x[row * columns + column];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && column < columns) {
    float total = 0;
    for (int row = 0; row < kRows; ++row) {
      total += sums[row][threadIdx.x];
    }
    parts[static_cast<int64_t>(blockIdx.y) * columns + column] = total;
  }
}

int64_t ColumnParts(int64_t rows) {
  constexpr int64_t kRowsOfPart = 256;
  constexpr int64_t kPartsOfColumn = 128;
  const int64_t parts = DivideUp(rows, kRowsOfPart);
  return parts < 1 ? 1 : parts < kPartsOfColumn ? parts : kPartsOfColumn;
}

__global__ void SquaresKernel(const float* __restrict__ x, int64_t n, double* parts) {
  double sum = 0;
  for (int64_t i = FirstElement(); i < n; i += ElementStride()) {
    const double value = x[i];
    sum += value * value;
  }
  sum = BlockSum<kThreads>(sum);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = sum;
  }
}

__global__ void SumDoublesKernel(const double* parts, int64_t n, double* out) {
  static_assert(kPartialsMax <= kThreads);
  const double sum = BlockSum<kThreads>(threadIdx.x < n ? parts[threadIdx.x] : 0.0);
  if (threadIdx.x == 0) {
    *out = sum;
  }
}

}  // namespace

cudaError_t SumParts(
    cudaStream_t stream, const float* parts, int64_t count, int64_t n, float* out) {
  return ForEach(stream, n, PartsElement{parts, count, n, out});
}

int64_t ColumnSumScratch(int64_t rows, int64_t columns) {
  return ColumnParts(rows) * columns;
}

cudaError_t ColumnSum(
    cudaStream_t stream,
    const float* x,
    int64_t rows,
    int64_t columns,
    float* scratch,
    float* out) {
  const int64_t parts = ColumnParts(rows);
  const dim3 grid(static_cast<unsigned>(DivideUp(columns, kColumns)), static_cast<unsigned>(parts));
  const cudaError_t error = Launch(
      stream,
      grid,
      dim3(kColumns, kRows),
      &ColumnPartsKernel,
      x,
      rows,
      columns,
      DivideUp(rows, parts),
      scratch);
  return error == cudaSuccess ? SumParts(stream, scratch, parts, columns, out) : error;
}

cudaError_t SquaredNormOf(
    cudaStream_t stream, const float* x, int64_t n, double* scratch, double* sum) {
  constexpr int64_t kElementsOfThread = 4;
  const int64_t wanted = DivideUp(n, kThreads * kElementsOfThread);
  const int64_t parts = wanted < 1 ? 1 : wanted < kPartialsMax ? wanted : kPartialsMax;
  const cudaError_t error = Launch(
      stream, dim3(static_cast<unsigned>(parts)), dim3(kThreads), &SquaresKernel, x, n, scratch);
  return error == cudaSuccess
             ? Launch(stream, dim3(1), dim3(kThreads), &SumDoublesKernel, scratch, parts, sum)
             : error;
}

}  // namespace ps::kernels
