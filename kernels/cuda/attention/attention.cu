#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/attention_fma.cuh"
#include "kernels/cuda/attention/attention_mma.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ps::kernels {
namespace {

/// Rows of a block, the same whatever device it is compiled for.
template <int width, Precision precision>
constexpr int kBlockRows = precision == Precision::kBf16 ? kMmaTile : FmaSizes<width>::kTile;

/// A block: some queries.
template <int width, Precision precision>
__global__ void __launch_bounds__(kAttentionThreads) AttentionKernel(
    AttentionShape shape, int64_t tiles, const float* x, float* log_sums, float* y) {
  const Place place(shape, tiles, kBlockRows<width, precision>);
  if constexpr (precision == Precision::kBf16 && kHasMmaBf16) {
    MmaForward<width>(shape, place, x, log_sums, y);
  } else {
    ForFmaTiles<width, kBlockRows<width, precision>>(place, [&](int64_t first) {
      FmaForward<width, precision>(shape, place, first, x, log_sums, y);
    });
  }
}

/// deltas [n, heads, length] = sum of y * dy over a head's columns. A warp a row.
template <Precision precision>
__global__ void AttentionDeltaKernel(
    AttentionShape shape, const float* y, const float* dy, float* deltas) {
  const AttentionOptions& o = shape.options;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t first = FirstElement() / 32;
  const int64_t count = shape.n * o.heads * o.length;
  for (int64_t i = first; i < count; i += ElementStride() / 32) {
    const int64_t head = i / o.length;
    const int64_t token = head / o.heads * o.length + i % o.length;
    const int64_t begin = token * o.width + head % o.heads * shape.head_width;
    float sum = 0;
    for (int64_t j = lane; j < shape.head_width; j += 32) {
      sum += y[begin + j] * Rounded<precision>(dy[begin + j]);
    }
    sum = WarpSum(sum);
    if (lane == 0) {
      deltas[i] = sum;
    }
  }
}

/// A block: some queries, whose gradients it writes.
template <int width, Precision precision>
__global__ void __launch_bounds__(kAttentionThreads) QueryGradientKernel(
    AttentionShape shape,
    int64_t tiles,
    const float* x,
    const float* log_sums,
    const float* deltas,
    const float* dy,
    float* dx) {
  const Place place(shape, tiles, kBlockRows<width, precision>);
  if constexpr (precision == Precision::kBf16 && kHasMmaBf16) {
    MmaQueryGradient<width>(shape, place, x, log_sums, deltas, dy, dx);
  } else {
    ForFmaTiles<width, kBlockRows<width, precision>>(place, [&](int64_t first) {
      FmaQueryGradient<width, precision>(shape, place, first, x, log_sums, deltas, dy, dx);
    });
  }
}

/// A block: some keys, whose gradients it writes, and those of their values.
template <int width, Precision precision>
__global__ void __launch_bounds__(kAttentionThreads) KeyGradientKernel(
    AttentionShape shape,
    int64_t tiles,
    const float* x,
    const float* log_sums,
    const float* deltas,
    const float* dy,
    float* dx) {
  const Place place(shape, tiles, kBlockRows<width, precision>);
  if constexpr (precision == Precision::kBf16 && kHasMmaBf16) {
    MmaKeyGradient<width>(shape, place, x, log_sums, deltas, dy, dx);
  } else {
    ForFmaTiles<width, kBlockRows<width, precision>>(place, [&](int64_t first) {
      FmaKeyGradient<width, precision>(shape, place, first, x, log_sums, deltas, dy, dx);
    });
  }
}

/// Starts a kernel with a block for each tile of rows of each head.
template <int width, Precision precision, typename... Parameters, typename... Arguments>
cudaError_t LaunchTiles(
    cudaStream_t stream,
    const AttentionShape& shape,
    void (*kernel)(AttentionShape, int64_t, Parameters...),
    Arguments... arguments) {
  const int64_t tiles = DivideUp(shape.options.length, kBlockRows<width, precision>);
  return Launch(
      stream,
      dim3(static_cast<unsigned>(tiles * shape.n * shape.options.heads)),
      dim3(kAttentionThreads),
      kernel,
      shape,
      tiles,
      arguments...);
}

template <int width, Precision precision>
cudaError_t ForwardOf(
    cudaStream_t stream, const AttentionShape& shape, const float* x, float* log_sums, float* y) {
  return LaunchTiles<width, precision>(
      stream, shape, &AttentionKernel<width, precision>, x, log_sums, y);
}

template <int width, Precision precision>
cudaError_t BackwardOf(
    cudaStream_t stream, const AttentionShape& shape, const AttentionGradient& g) {
  const cudaError_t error = LaunchTiles<width, precision>(
      stream, shape, &QueryGradientKernel<width, precision>, g.x, g.log_sums, g.deltas, g.dy, g.dx);
  return error == cudaSuccess ? LaunchTiles<width, precision>(
                                    stream,
                                    shape,
                                    &KeyGradientKernel<width, precision>,
                                    g.x,
                                    g.log_sums,
                                    g.deltas,
                                    g.dy,
                                    g.dx)
                              : error;
}

template <Precision precision>
cudaError_t DeltasOf(cudaStream_t stream, const AttentionShape& shape, const AttentionGradient& g) {
  const int64_t rows = shape.n * shape.options.heads * shape.options.length;
  const int64_t blocks = DivideUp(32 * rows, kThreads);
  return Launch(
      stream,
      dim3(static_cast<unsigned>(blocks < kBlocksMax ? blocks : kBlocksMax)),
      dim3(kThreads),
      &AttentionDeltaKernel<precision>,
      shape,
      g.y,
      g.dy,
      g.deltas);
}

/// What to start for heads of some width.
template <Precision precision>
struct Passes {
  static auto Forward(int64_t head_width) {
    return head_width <= 32   ? &ForwardOf<32, precision>
           : head_width <= 64 ? &ForwardOf<64, precision>
                              : &ForwardOf<kHeadWidthMax, precision>;
  }

  static auto Backward(int64_t head_width) {
    return head_width <= 32   ? &BackwardOf<32, precision>
           : head_width <= 64 ? &BackwardOf<64, precision>
                              : &BackwardOf<kHeadWidthMax, precision>;
  }
};

using InF32 = Passes<Precision::kF32>;
using InBf16 = Passes<Precision::kBf16>;

bool IsBf16(const AttentionShape& shape) {
  return shape.options.precision == Precision::kBf16;
}

}  // namespace

cudaError_t AttentionForward(
    cudaStream_t stream, const AttentionShape& shape, const float* x, float* log_sums, float* y) {
  const auto run =
      IsBf16(shape) ? InBf16::Forward(shape.head_width) : InF32::Forward(shape.head_width);
  return run(stream, shape, x, log_sums, y);
}

cudaError_t AttentionBackward(
    cudaStream_t stream, const AttentionShape& shape, const AttentionGradient& g) {
  const auto deltas = IsBf16(shape) ? &DeltasOf<Precision::kBf16> : &DeltasOf<Precision::kF32>;
  const auto run =
      IsBf16(shape) ? InBf16::Backward(shape.head_width) : InF32::Backward(shape.head_width);
  const cudaError_t error = deltas(stream, shape, g);
  return error == cudaSuccess ? run(stream, shape, g) : error;
}

}  // namespace ps::kernels
