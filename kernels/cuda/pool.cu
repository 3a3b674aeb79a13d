#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"

namespace ps::kernels {
namespace {

/// Element (sample, row, column, channel) of an NHWC tensor.
struct Place {
  __device__ Place(int64_t i, int64_t height, int64_t width, int64_t channels)
      : channel(i % channels),
        column(i / channels % width),
        row(i / (channels * width) % height),
        sample(i / (channels * width * height)) {}

  int64_t channel;
  int64_t column;
  int64_t row;
  int64_t sample;
};

/// y[i] of one window. The first of equal values wins, and a NaN only where it comes first.
template <PoolKind kind>
struct PoolWindow {
  __device__ void operator()(int64_t i) const {
    const PoolOptions& o = shape.options;
    const Place out(i, shape.out_height, shape.out_width, o.channels);
    const int64_t row0 = out.row * o.stride - o.padding;
    const int64_t column0 = out.column * o.stride - o.padding;
    float value = 0;
    int32_t winner = -1;
    for (int64_t kh = 0; kh < o.kernel_height; ++kh) {
      for (int64_t kw = 0; kw < o.kernel_width; ++kw) {
        const int64_t row = row0 + kh;
        const int64_t column = column0 + kw;
        if (row < 0 || row >= o.in_height || column < 0 || column >= o.in_width) {
          continue;
        }
        const float v =
            x[((out.sample * o.in_height + row) * o.in_width + column) * o.channels + out.channel];
        if (kind == PoolKind::kAverage) {
          value += v;
        } else if (winner < 0 || v > value) {
          value = v;
          winner = static_cast<int32_t>(kh * o.kernel_width + kw);
        }
      }
    }
    if (kind == PoolKind::kAverage) {
      y[i] = value / static_cast<float>(o.kernel_height * o.kernel_width);
      return;
    }
    y[i] = value;
    if (winners != nullptr) {
      winners[i] = winner;
    }
  }

  PoolShape shape;
  const float* x;
  float* y;
  int32_t* winners;
};

/// dx[i]: what the windows that hold element i pass on to it, in the order of the windows.
template <PoolKind kind>
struct PoolGradient {
  __device__ void operator()(int64_t i) const {
    const PoolOptions& o = shape.options;
    const Place in(i, o.in_height, o.in_width, o.channels);
    float sum = 0;
    for (int64_t kh = 0; kh < o.kernel_height; ++kh) {
      const int64_t row = in.row + o.padding - kh;
      if (row < 0 || row % o.stride != 0 || row / o.stride >= shape.out_height) {
        continue;
      }
      for (int64_t kw = 0; kw < o.kernel_width; ++kw) {
        const int64_t column = in.column + o.padding - kw;
        if (column < 0 || column % o.stride != 0 || column / o.stride >= shape.out_width) {
          continue;
        }
        const int64_t out = ((in.sample * shape.out_height + row / o.stride) * shape.out_width +
                             column / o.stride) *
                                o.channels +
                            in.channel;
        if (kind == PoolKind::kAverage || winners[out] == kh * o.kernel_width + kw) {
          sum += dy[out];
        }
      }
    }
    const auto area = static_cast<float>(o.kernel_height * o.kernel_width);
    dx[i] = kind == PoolKind::kAverage ? sum / area : sum;
  }

  PoolShape shape;
  const float* dy;
  const int32_t* winners;
  float* dx;
};

}  // namespace

cudaError_t PoolForward(
    cudaStream_t stream, const PoolShape& shape, const float* x, float* y, int32_t* winners) {
  const int64_t n = shape.n * shape.out_height * shape.out_width * shape.options.channels;
  if (shape.options.kind == PoolKind::kMax) {
    return ForEach(stream, n, PoolWindow<PoolKind::kMax>{shape, x, y, winners});
  }
  return ForEach(stream, n, PoolWindow<PoolKind::kAverage>{shape, x, y, nullptr});
}

cudaError_t PoolBackward(
    cudaStream_t stream,
    const PoolShape& shape,
    const float* dy,
    const int32_t* winners,
    float* dx) {
  const PoolOptions& o = shape.options;
  const int64_t n = shape.n * o.in_height * o.in_width * o.channels;
  if (o.kind == PoolKind::kMax) {
    return ForEach(stream, n, PoolGradient<PoolKind::kMax>{shape, dy, winners, dx});
  }
  return ForEach(stream, n, PoolGradient<PoolKind::kAverage>{shape, dy, nullptr, dx});
}

}  // namespace ps::kernels
