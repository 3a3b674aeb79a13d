// Per channel j, over the rows i = (sample, row, column) of x [rows, channels]:
//
//   forward   y = gamma * normal + beta, normal = (x - mean) / sqrt(variance + epsilon)
//   backward  dbeta = sum of dy,  dgamma = sum of dy * normal
//             dx = gamma / sqrt(variance + epsilon) * (dy - (dbeta + normal * dgamma) / rows)
//
// Mean and variance come of one pass: of sums of x - pivot and of its square, the pivot being a
// mean of some rows, so that little is lost to the difference of the two. Whether an activation let
// a value through is worked out again from x, which the backward pass reads anyway.

#include <cmath>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ps::kernels {
namespace {

struct Pivot {
  __device__ float operator()(int64_t channel) const {
    constexpr int64_t kRows = 4;
    float sum = 0;
    for (int64_t i = 0; i < kRows; ++i) {
      sum += x[i * rows / kRows * channels + channel];
    }
    return sum / kRows;
  }

  const float* x;
  int64_t rows;
  int64_t channels;
};

/// x - pivot, and its square.
template <int width>
struct MomentsOfColumns {
  __device__ void Add(int64_t row, int64_t column, float (&sums)[2][width]) const {
    float values[width];
    LoadSideBySide(x + row * channels + column, values);
    PS_UNROLL
    for (int i = 0; i < width; ++i) {
      const float centered = values[i] - pivots[i];
      sums[0][i] += centered;
      sums[1][i] += centered * centered;
    }
  }

  const float* x;
  int64_t channels;
  float pivots[width];
};

struct MomentValues {
  static constexpr int kEach = 2;

  template <int width>
  __device__ MomentsOfColumns<width> Of(int64_t column) const {
    MomentsOfColumns<width> of{pivot.x, pivot.channels, {}};
    PS_UNROLL
    for (int i = 0; i < width; ++i) {
      of.pivots[i] = pivot(column + i);
    }
    return of;
  }

  Pivot pivot;
};

struct PutMoments {
  __device__ void operator()(int64_t channel, const float (&sums)[2]) const {
    const float distance = share * sums[0];
    mean[channel] = pivot(channel) + distance;
    // Not below 0 by rounding; a NaN stays one.
    const float found = share * sums[1] - distance * distance;
    variance[channel] = found < 0 ? 0.0F : found;
  }

  Pivot pivot;
  float share;
  float* mean;
  float* variance;
};

/// What a thread keeps of its channels.
template <int width>
struct Channels {
  __device__ Channels(
      float epsilon,
      int64_t channel,
      const float* gamma,
      const float* beta,
      const float* means,
      const float* variances) {
    PS_UNROLL
    for (int i = 0; i < width; ++i) {
      mean[i] = means[channel + i];
      factor[i] = 1 / sqrtf(variances[channel + i] + epsilon);
      scale[i] = gamma[channel + i] * factor[i];
      shift[i] = beta[channel + i];
    }
  }

  /// The same bits forward and backward.
  __device__ float Output(int i, float x) const {
    return __fmaf_rn(x - mean[i], scale[i], shift[i]);
  }

  float mean[width];
  float factor[width];
  float scale[width];  // gamma * factor
  float shift[width];
};

/// Rows of a thread that are under way together: where channels are few, all that it has.
constexpr int kRowsAtOnce = 4;

template <int width>
__global__ void __launch_bounds__(kThreads) ForwardKernel(
    BatchNormShape shape,
    int64_t rows_of_part,
    const float* __restrict__ x,
    const float* __restrict__ gamma,
    const float* __restrict__ beta,
    const float* __restrict__ mean,
    const float* __restrict__ variance,
    const float* __restrict__ side,
    float* __restrict__ y) {
  const int64_t channel = ColumnCut::Column<width>();
  if (channel >= shape.channels) {
    return;
  }
  const Channels<width> own(shape.epsilon, channel, gamma, beta, mean, variance);
  float values[kRowsAtOnce][width];
  float others[kRowsAtOnce][width] = {};
  const auto load = [&](int64_t row, int i) {
    LoadSideBySide(x + row * shape.channels + channel, values[i]);
    if (side != nullptr) {
      LoadSideBySide(side + row * shape.channels + channel, others[i]);
    }
  };
  const auto store = [&](int64_t row, int i) {
    PS_UNROLL
    for (int k = 0; k < width; ++k) {
      values[i][k] = Activated(shape.activation, own.Output(k, values[i][k]) + others[i][k]);
    }
    StoreSideBySide(values[i], y + row * shape.channels + channel);
  };
  ColumnCut::ForRowsAtOnce<kRowsAtOnce>(shape.rows, rows_of_part, load, store);
}

/// dy in front of the activation, and normals.
template <int width>
struct GradientOfColumns {
  __device__ void Load(
      int64_t row, int64_t channel, float (&dy)[width], float (&normal)[width]) const {
    float x[width];
    LoadSideBySide(gradient.x + row * shape.channels + channel, x);
    LoadSideBySide(gradient.dy + row * shape.channels + channel, dy);
    PS_UNROLL
    for (int i = 0; i < width; ++i) {
      if (shape.activation != Activation::kNone && !(own.Output(i, x[i]) > 0)) {
        dy[i] = 0;
      }
      normal[i] = (x[i] - own.mean[i]) * own.factor[i];
    }
  }

  __device__ void Add(int64_t row, int64_t channel, float (&sums)[2][width]) const {
    float dy[width];
    float normal[width];
    Load(row, channel, dy, normal);
    PS_UNROLL
    for (int i = 0; i < width; ++i) {
      sums[0][i] += dy[i];
      sums[1][i] += dy[i] * normal[i];
    }
  }

  BatchNormShape shape;
  BatchNormGradient gradient;
  Channels<width> own;
};

struct GradientValues {
  static constexpr int kEach = 2;

  template <int width>
  __device__ GradientOfColumns<width> Of(int64_t channel) const {
    const BatchNormGradient& g = gradient;
    return {shape, g, {shape.epsilon, channel, g.gamma, g.beta, g.mean, g.variance}};
  }

  BatchNormShape shape;
  BatchNormGradient gradient;
};

struct PutGradient {
  __device__ void operator()(int64_t channel, const float (&sums)[2]) const {
    gradient.dbeta[channel] = sums[0];
    gradient.dgamma[channel] = sums[1];
    gradient.means[channel] = gradient.mean[channel];
    gradient.variances[channel] = correction * gradient.variance[channel];
  }

  BatchNormGradient gradient;
  float correction;  // of a biased variance
};

template <int width>
__global__ void __launch_bounds__(kThreads)
    InputGradientKernel(GradientValues values, int64_t rows_of_part) {
  const BatchNormShape& shape = values.shape;
  const BatchNormGradient& g = values.gradient;
  const int64_t channel = ColumnCut::Column<width>();
  if (channel >= shape.channels) {
    return;
  }
  const GradientOfColumns<width> of = values.Of<width>(channel);
  const float share = 1.0F / static_cast<float>(shape.rows);
  float constant[width];
  float slope[width];
  PS_UNROLL
  for (int i = 0; i < width; ++i) {
    constant[i] = share * g.dbeta[channel + i];
    slope[i] = share * g.dgamma[channel + i];
  }
  float dy[kRowsAtOnce][width];
  float normal[kRowsAtOnce][width];
  const auto load = [&](int64_t row, int i) { of.Load(row, channel, dy[i], normal[i]); };
  const auto store = [&](int64_t row, int i) {
    PS_UNROLL
    for (int k = 0; k < width; ++k) {
      dy[i][k] = of.own.scale[k] * (dy[i][k] - constant[k] - slope[k] * normal[i][k]);
    }
    StoreSideBySide(dy[i], g.dx + row * shape.channels + channel);
  };
  ColumnCut::ForRowsAtOnce<kRowsAtOnce>(shape.rows, rows_of_part, load, store);
}

}  // namespace

cudaError_t BatchMoments(
    cudaStream_t stream,
    const BatchNormShape& shape,
    const float* x,
    float* scratch,
    float* mean,
    float* variance) {
  if (shape.rows == 0) {
    const cudaError_t error = FillValues(stream, 0, mean, shape.channels);
    return error == cudaSuccess ? FillValues(stream, 0, variance, shape.channels) : error;
  }
  const Pivot pivot{x, shape.rows, shape.channels};
  return SumColumns(
      stream,
      MomentValues{pivot},
      shape.rows,
      shape.channels,
      AreFours(shape.channels, x),
      scratch,
      PutMoments{pivot, 1.0F / static_cast<float>(shape.rows), mean, variance});
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
  const bool are_fours = AreFours(shape.channels, x, side, y);
  const ColumnCut cut(shape.rows, shape.channels, are_fours ? 4 : 1);
  return Launch(
      stream,
      cut.grid,
      cut.block,
      are_fours ? &ForwardKernel<4> : &ForwardKernel<1>,
      shape,
      cut.rows_of_part,
      x,
      gamma,
      beta,
      mean,
      variance,
      side,
      y);
}

cudaError_t BatchNormBackward(
    cudaStream_t stream, const BatchNormShape& shape, const BatchNormGradient& g) {
  const bool are_fours = AreFours(shape.channels, g.x, g.dy, g.dx);
  const float rows = static_cast<float>(shape.rows);
  const GradientValues values{shape, g};
  const cudaError_t error = SumColumns(
      stream,
      values,
      shape.rows,
      shape.channels,
      are_fours,
      g.scratch,
      PutGradient{g, shape.rows > 1 ? rows / (rows - 1) : 0});
  if (error != cudaSuccess || g.dx == nullptr) {
    return error;
  }
  const ColumnCut cut(shape.rows, shape.channels, are_fours ? 4 : 1);
  return Launch(
      stream,
      cut.grid,
      cut.block,
      are_fours ? &InputGradientKernel<4> : &InputGradientKernel<1>,
      values,
      cut.rows_of_part);
}

}  // namespace ps::kernels
