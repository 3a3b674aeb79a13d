#include <algorithm>
#include <cmath>

#include "kernels/cuda/device/activation.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ps::kernels {
namespace {

struct ColumnValues {
  static constexpr int kEach = 1;

  template <int width>
  __device__ const ColumnValues& Of(int64_t) const {
    return *this;
  }

  template <int width>
  __device__ void Add(int64_t row, int64_t column, float (&sums)[1][width]) const {
    float values[width];
    LoadSideBySide(x + row * columns + column, values);
    PS_UNROLL
    for (int i = 0; i < width; ++i) {
      sums[0][i] += values[i];
    }
  }

  const float* x;
  int64_t columns;
};

/// The same of a gradient that is worked out on the way, and written.
template <typename Gradient>
struct GradientColumns {
  static constexpr int kEach = 1;

  template <int width>
  __device__ const GradientColumns& Of(int64_t) const {
    return *this;
  }

  template <int width>
  __device__ void Add(int64_t row, int64_t column, float (&sums)[1][width]) const {
    const int64_t at = row * columns + column;
    float values[width];
    float of_output[width];
    LoadSideBySide(data + at, values);
    LoadSideBySide(dy + at, of_output);
    PS_UNROLL
    for (int i = 0; i < width; ++i) {
      values[i] = gradient(values[i], of_output[i]);
      sums[0][i] += values[i];
    }
    StoreSideBySide(values, d + at);
  }

  Gradient gradient;
  const float* data;
  const float* dy;
  float* d;
  int64_t columns;
};

struct PutSum {
  __device__ void operator()(int64_t column, const float (&sums)[1]) const {
    out[column] = sums[0];
  }

  float* out;
};

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

/// One thread: in the order of a plain loop, and of few values.
__global__ void ClipFactorKernel(
    const double* squares, int64_t count, double norm_max, float* factor) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += squares[i];
  }
  const double norm = sqrt(sum);
  *factor = std::isfinite(norm) && norm > norm_max ? static_cast<float>(norm_max / norm) : 1.0F;
}

}  // namespace

int64_t ColumnSumScratch(int64_t rows, int64_t columns) {
  constexpr int64_t kEachMax = 2;
  return kEachMax * columns *
         std::max(ColumnCut(rows, columns, 1).parts, ColumnCut(rows, columns, 4).parts);
}

cudaError_t ColumnSum(
    cudaStream_t stream,
    const float* x,
    int64_t rows,
    int64_t columns,
    float* scratch,
    float* out) {
  return SumColumns(
      stream, ColumnValues{x, columns}, rows, columns, AreFours(columns, x), scratch, PutSum{out});
}

cudaError_t ActivationGradientSum(
    cudaStream_t stream,
    Activation activation,
    const float* data,
    const float* dy,
    float* d,
    int64_t rows,
    int64_t columns,
    float* scratch,
    float* out) {
  const bool are_fours = AreFours(columns, data, dy, d);
  const auto run = [&]<typename Gradient>(const Gradient& gradient) {
    const GradientColumns<Gradient> values{gradient, data, dy, d, columns};
    return SumColumns(stream, values, rows, columns, are_fours, scratch, PutSum{out});
  };
  return activation == Activation::kRelu ? run(ReluGradient{}) : run(GeluGradient{});
}

cudaError_t ClipFactorOf(
    cudaStream_t stream, const double* squares, int64_t count, float norm_max, float* factor) {
  return Launch(
      stream,
      dim3(1),
      dim3(1),
      &ClipFactorKernel,
      squares,
      count,
      static_cast<double>(norm_max),
      factor);
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
