// Per channel j, over the rows i = (sample, row, column) of x [rows, channels]:
//
//   forward   y = gamma * normal + beta, normal = (x - mean) / sqrt(variance + epsilon)
//   backward  dbeta = sum of dy,  dgamma = sum of dy * normal
//             dx = gamma / sqrt(variance + epsilon) * (dy - (dbeta + normal * dgamma) / rows)

#include <cmath>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ps::kernels {
namespace {

struct InputValue {
  __device__ float operator()(int64_t row, int64_t channel) const {
    return x[row * channels + channel];
  }

  const float* x;
  int64_t channels;
};

struct CenteredSquare {
  __device__ float operator()(int64_t row, int64_t channel) const {
    const float centered = x[row * channels + channel] - mean[channel];
    return centered * centered;
  }

  const float* x;
  const float* mean;
  int64_t channels;
};

/// x without its channel's mean and spread.
struct Normal {
  __device__ float operator()(int64_t i) const {
    const int64_t channel = i % shape.channels;
    return (x[i] - mean[channel]) * Factor(channel);
  }

  __device__ float Factor(int64_t channel) const {
    return 1 / sqrtf(variance[channel] + shape.epsilon);
  }

  BatchNormShape shape;
  const float* x;
  const float* mean;
  const float* variance;
};

struct GradientTimesNormal {
  __device__ float operator()(int64_t row, int64_t channel) const {
    const int64_t i = row * normal.shape.channels + channel;
    return dy[i] * normal(i);
  }

  Normal normal;
  const float* dy;
};

struct OutputElement {
  __device__ void operator()(int64_t i) const {
    const int64_t channel = i % normal.shape.channels;
    const float own = gamma[channel] * normal(i) + beta[channel];
    y[i] = Activated(normal.shape.activation, side == nullptr ? own : own + side[i]);
  }

  Normal normal;
  const float* gamma;
  const float* beta;
  const float* side;
  float* y;
};

struct InputGradientElement {
  __device__ void operator()(int64_t i) const {
    const int64_t channel = i % normal.shape.channels;
    const float common = dbeta[channel] + normal(i) * dgamma[channel];
    const float factor = gamma[channel] * normal.Factor(channel);
    dx[i] = factor * (dy[i] - common / static_cast<float>(normal.shape.rows));
  }

  Normal normal;
  const float* gamma;
  const float* dy;
  const float* dgamma;
  const float* dbeta;
  float* dx;
};

}  // namespace

cudaError_t BatchMoments(
    cudaStream_t stream,
    const BatchNormShape& shape,
    const float* x,
    float* scratch,
    float* mean,
    float* variance) {
  const int64_t channels = shape.channels;
  const float share = shape.rows > 0 ? 1.0F / static_cast<float>(shape.rows) : 0.0F;
  const cudaError_t error =
      SumColumns(stream, InputValue{x, channels}, shape.rows, channels, share, scratch, mean);
  return error == cudaSuccess ? SumColumns(
                                    stream,
                                    CenteredSquare{x, mean, channels},
                                    shape.rows,
                                    channels,
                                    share,
                                    scratch,
                                    variance)
                              : error;
}

cudaError_t BatchNormForward(
    cudaStream_t stream,
    const BatchNormShape& shape,
    const float* x,
    const float* gamma,
    const float* beta,
    const float* mean,
    const float* variance,
    const float* side,
    float* y) {
  const Normal normal{shape, x, mean, variance};
  return ForEach(stream, shape.rows * shape.channels, OutputElement{normal, gamma, beta, side, y});
}

cudaError_t BatchNormBackward(
    cudaStream_t stream, const BatchNormShape& shape, const BatchNormGradient& g) {
  const Normal normal{shape, g.x, g.mean, g.variance};
  cudaError_t error = ColumnSum(stream, g.dy, shape.rows, shape.channels, g.scratch, g.dbeta);
  if (error == cudaSuccess) {
    error = SumColumns(
        stream,
        GradientTimesNormal{normal, g.dy},
        shape.rows,
        shape.channels,
        1,
        g.scratch,
        g.dgamma);
  }
  if (error == cudaSuccess && g.dx != nullptr) {
    error = ForEach(
        stream,
        shape.rows * shape.channels,
        InputGradientElement{normal, g.gamma, g.dy, g.dgamma, g.dbeta, g.dx});
  }
  return error;
}

}  // namespace ps::kernels
