// Per row of x [rows, features]:
//
//   forward   y = gamma * normal + beta, normal = (x - mean) * factor,
//             factor = 1 / sqrt(variance + epsilon)
//   backward  dbeta = sum of dy,  dgamma = sum of dy * normal, over the rows
//             dx = factor * (g - mean of g - normal * mean of g * normal), g = dy * gamma

#include <cmath>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ps::kernels {
namespace {

constexpr int kWarps = kThreads / 32;

/// A warp a row.
__global__ void LayerNormKernel(
    LayerNormShape shape,
    const float* __restrict__ x,
    const float* __restrict__ gamma,
    const float* __restrict__ beta,
    float* means,
    float* factors,
    float* __restrict__ y) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const float share = 1.0F / static_cast<float>(shape.features);
  for (int64_t row = first; row < shape.rows; row += static_cast<int64_t>(gridDim.x) * kWarps) {
    const float* from = x + row * shape.features;
    float* to = y + row * shape.features;
    float sum = 0;
    for (int64_t j = lane; j < shape.features; j += 32) {
      sum += from[j];
    }
    const float mean = share * WarpSum(sum);
    float squares = 0;
    for (int64_t j = lane; j < shape.features; j += 32) {
      squares += (from[j] - mean) * (from[j] - mean);
    }
    const float factor = 1 / sqrtf(share * WarpSum(squares) + shape.epsilon);
    for (int64_t j = lane; j < shape.features; j += 32) {
      to[j] = gamma[j] * ((from[j] - mean) * factor) + beta[j];
    }
    if (lane == 0) {
      means[row] = mean;
      factors[row] = factor;
    }
  }
}

/// x without its row's mean and spread.
struct RowNormal {
  __device__ float operator()(int64_t row, int64_t j) const {
    return (x[row * features + j] - means[row]) * factors[row];
  }

  const float* x;
  const float* means;
  const float* factors;
  int64_t features;
};

/// dy, and dy * normal.
struct GradientSums {
  static constexpr int kEach = 2;

  template <int width>
  __device__ const GradientSums& Of(int64_t) const {
    return *this;
  }

  template <int width>
  __device__ void Add(int64_t row, int64_t column, float (&sums)[2][width]) const {
    const int64_t at = row * normal.features + column;
    float values[width];
    float from[width];
    LoadSideBySide(dy + at, values);
    LoadSideBySide(normal.x + at, from);
    PS_UNROLL
    for (int i = 0; i < width; ++i) {
      sums[0][i] += values[i];
      sums[1][i] += values[i] * ((from[i] - normal.means[row]) * normal.factors[row]);
    }
  }

  RowNormal normal;
  const float* dy;
};

struct PutGradients {
  __device__ void operator()(int64_t column, const float (&sums)[2]) const {
    dbeta[column] = sums[0];
    dgamma[column] = sums[1];
  }

  float* dbeta;
  float* dgamma;
};

/// A warp a row.
__global__ void LayerNormInputGradientKernel(
    int64_t rows,
    RowNormal normal,
    const float* __restrict__ gamma,
    const float* __restrict__ dy,
    float* __restrict__ dx) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const float share = 1.0F / static_cast<float>(normal.features);
  for (int64_t row = first; row < rows; row += static_cast<int64_t>(gridDim.x) * kWarps) {
    const int64_t begin = row * normal.features;
    float sum = 0;
    float projection = 0;
    for (int64_t j = lane; j < normal.features; j += 32) {
      const float g = dy[begin + j] * gamma[j];
      sum += g;
      projection += g * normal(row, j);
    }
    sum = share * WarpSum(sum);
    projection = share * WarpSum(projection);
    for (int64_t j = lane; j < normal.features; j += 32) {
      const float g = dy[begin + j] * gamma[j];
      dx[begin + j] = normal.factors[row] * (g - sum - normal(row, j) * projection);
    }
  }
}

dim3 GridOf(int64_t rows) {
  const int64_t blocks = DivideUp(rows, kWarps);
  return dim3(static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax));
}

}  // namespace

cudaError_t LayerNormForward(
    cudaStream_t stream,
    const LayerNormShape& shape,
    const float* x,
    const float* gamma,
    const float* beta,
    float* means,
    float* factors,
    float* y) {
  return Launch(
      stream,
      GridOf(shape.rows),
      dim3(kThreads),
      &LayerNormKernel,
      shape,
      x,
      gamma,
      beta,
      means,
      factors,
      y);
}

cudaError_t LayerNormBackward(
    cudaStream_t stream, const LayerNormShape& shape, const LayerNormGradient& g) {
  const RowNormal normal{g.x, g.means, g.factors, shape.features};
  cudaError_t error = SumColumns(
      stream,
      GradientSums{normal, g.dy},
      shape.rows,
      shape.features,
      AreColumnsFours(shape.features, g.x, g.dy),
      g.scratch,
      PutGradients{g.dbeta, g.dgamma});
  if (error == cudaSuccess && g.dx != nullptr) {
    error = Launch(
        stream,
        GridOf(shape.rows),
        dim3(kThreads),
        &LayerNormInputGradientKernel,
        shape.rows,
        normal,
        g.gamma,
        g.dy,
        g.dx);
  }
  return error;
}

}  // namespace ps::kernels
