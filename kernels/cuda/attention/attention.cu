#include <algorithm>

#include "kernels/cuda/attention/attention.cuh"
#include "kernels/cuda/attention/attention_fma.cuh"
#include "kernels/cuda/attention/attention_mma.cuh"
#include "kernels/cuda/attention/factors.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"

namespace ps::kernels {
namespace {

/// A pass by blocks of some rows, the same and with the same memory whatever device the code is
/// compiled for.
struct Blocks {
  int rows;
  size_t shared_bytes;
  int at_once;  // on a multiprocessor; registers are to suffice for them
};

/// What serves both ways for bf16: the device takes the one or the other.
constexpr Blocks BlocksOfBothWays(int rows, size_t mma_bytes, size_t fma_bytes, int at_once) {
  return {rows, std::max(mma_bytes, fma_bytes), at_once};
}

// At once are as many as nvcc needs no spills for. Where these are two, 8 warps hide what they wait
// for by the many independent products of each, as FlashAttention-2's do. A block for heads of 64
// has 36 to 64 KiB of shared memory, so that an H200's 228 KiB suffice for as many.

template <int width, Precision precision>
constexpr Blocks kForwardBlocks{
    FmaForwardSizes<width, precision>::kTile,
    FmaForwardSizes<width, precision>::kForwardBytes,
    width > 32 ? 2 : 3};
template <int width>
constexpr Blocks kForwardBlocks<width, Precision::kBf16> = BlocksOfBothWays(
    MmaSizes<width>::kForwardRows,
    MmaSizes<width>::kForwardBytes,
    FmaForwardSizes<width, Precision::kBf16>::kForwardBytes,
    2);

template <int width, Precision precision>
constexpr Blocks kQueryBlocks{
    FmaBackwardSizes<width, precision>::kTile,
    FmaBackwardSizes<width, precision>::kBackwardBytes,
    3};
template <int width>
constexpr Blocks kQueryBlocks<width, Precision::kBf16> = BlocksOfBothWays(
    MmaSizes<width>::kBackwardRows,
    MmaSizes<width>::kQueryBytes,
    FmaBackwardSizes<width, Precision::kBf16>::kBackwardBytes,
    width > 64 ? 2 : 3);

template <int width, Precision precision>
constexpr Blocks kKeyBlocks{
    FmaBackwardSizes<width, precision>::kTile,
    FmaBackwardSizes<width, precision>::kBackwardBytes,
    width > 32 ? 2 : 3};
template <int width>
constexpr Blocks kKeyBlocks<width, Precision::kBf16> = BlocksOfBothWays(
    MmaSizes<width>::kBackwardRows,
    MmaSizes<width>::kKeyBytes,
    FmaBackwardSizes<width, Precision::kBf16>::kBackwardBytes,
    width > 64 ? 2 : 3);

/// A block: some queries.
template <int width, Precision precision>
__global__ void __launch_bounds__(kAttentionThreads, kForwardBlocks<width, precision>.at_once)
    AttentionKernel(
        AttentionShape shape,
        int tiles,
        const AttentionFactor<precision>* x,
        float* log_sums,
        float* y) {
  constexpr int kRows = kForwardBlocks<width, precision>.rows;
  const Place place(shape, tiles, kRows, FirstTile::kLast);
  if constexpr (precision == Precision::kBf16 && kHasMmaBf16) {
    MmaForward<width>(shape, place, x, log_sums, y);
  } else {
    ForFmaTiles<FmaForwardSizes<width, precision>, kRows>(place, [&](int first) {
      FmaForward<width, precision>(shape, place, first, x, log_sums, y);
    });
  }
}

/// A block: some queries, whose gradients it writes.
template <int width, Precision precision>
__global__ void __launch_bounds__(kAttentionThreads, kQueryBlocks<width, precision>.at_once)
    QueryGradientKernel(
        AttentionShape shape,
        int tiles,
        const AttentionFactor<precision>* x,
        const float* log_sums,
        const float* deltas,
        const AttentionFactor<precision>* dy,
        float* dx) {
  constexpr int kRows = kQueryBlocks<width, precision>.rows;
  const Place place(shape, tiles, kRows, FirstTile::kLast);
  if constexpr (precision == Precision::kBf16 && kHasMmaBf16) {
    MmaQueryGradient<width>(shape, place, x, log_sums, deltas, dy, dx);
  } else {
    ForFmaTiles<FmaBackwardSizes<width, precision>, kRows>(place, [&](int first) {
      FmaQueryGradient<width, precision>(shape, place, first, x, log_sums, deltas, dy, dx);
    });
  }
}

/// A block: some keys, whose gradients it writes, and those of their values.
template <int width, Precision precision>
__global__ void __launch_bounds__(kAttentionThreads, kKeyBlocks<width, precision>.at_once)
    KeyGradientKernel(
        AttentionShape shape,
        int tiles,
        const AttentionFactor<precision>* x,
        const float* log_sums,
        const float* deltas,
        const AttentionFactor<precision>* dy,
        float* dx) {
  constexpr int kRows = kKeyBlocks<width, precision>.rows;
  const Place place(shape, tiles, kRows, FirstTile::kFirst);
  if constexpr (precision == Precision::kBf16 && kHasMmaBf16) {
    MmaKeyGradient<width>(shape, place, x, log_sums, deltas, dy, dx);
  } else {
    ForFmaTiles<FmaBackwardSizes<width, precision>, kRows>(place, [&](int first) {
      FmaKeyGradient<width, precision>(shape, place, first, x, log_sums, deltas, dy, dx);
    });
  }
}

/// Starts a kernel with a block for each tile of rows of each head.
template <typename... Parameters, typename... Arguments>
cudaError_t LaunchTiles(
    cudaStream_t stream,
    const AttentionShape& shape,
    const Blocks& blocks,
    void (*kernel)(AttentionShape, int, Parameters...),
    Arguments... arguments) {
  const auto tiles = static_cast<int>(DivideUp(shape.options.length, blocks.rows));
  return Launch(
      stream,
      dim3(static_cast<unsigned>(tiles * (shape.n * shape.options.heads))),
      dim3(kAttentionThreads),
      blocks.shared_bytes,
      kernel,
      shape,
      tiles,
      arguments...);
}

/// The passes for heads of up to `width` columns.
template <int width, Precision precision>
struct Passes {
  using Factor = AttentionFactor<precision>;
  static_assert(kForwardBlocks<width, precision>.shared_bytes <= kAttentionSharedMax);
  static_assert(kQueryBlocks<width, precision>.shared_bytes <= kAttentionSharedMax);
  static_assert(kKeyBlocks<width, precision>.shared_bytes <= kAttentionSharedMax);

  static cudaError_t Forward(
      cudaStream_t stream,
      const AttentionShape& shape,
      const float* x,
      float* scratch,
      float* log_sums,
      float* y) {
    const Scratch<precision> in(shape, scratch);
    if (const cudaError_t error = in.RoundX(stream, shape, x); error != cudaSuccess) {
      return error;
    }
    return LaunchTiles(
        stream,
        shape,
        kForwardBlocks<width, precision>,
        &AttentionKernel<width, precision>,
        in.X(x),
        log_sums,
        y);
  }

  static cudaError_t Backward(
      cudaStream_t stream, const AttentionShape& shape, const AttentionGradient& g) {
    const Scratch<precision> in(shape, g.scratch);
    if (const cudaError_t error = in.RoundX(stream, shape, g.x); error != cudaSuccess) {
      return error;
    }
    const Factor* const x = in.X(g.x);
    const Factor* const dy = in.Dy(g.dy);
    if (const cudaError_t error = MakeDeltas<width>(stream, shape, g.y, g.dy, in);
        error != cudaSuccess) {
      return error;
    }
    const cudaError_t error = LaunchTiles(
        stream,
        shape,
        kQueryBlocks<width, precision>,
        &QueryGradientKernel<width, precision>,
        x,
        g.log_sums,
        in.Deltas(),
        dy,
        g.dx);
    return error != cudaSuccess ? error
                                : LaunchTiles(
                                      stream,
                                      shape,
                                      kKeyBlocks<width, precision>,
                                      &KeyGradientKernel<width, precision>,
                                      x,
                                      g.log_sums,
                                      in.Deltas(),
                                      dy,
                                      g.dx);
  }
};

/// Calls use() with the passes for a shape.
template <typename Use>
cudaError_t WithPasses(const AttentionShape& shape, const Use& use) {
  const auto of_precision = [&]<Precision precision>() {
    return shape.head_width <= 32   ? use(Passes<32, precision>{})
           : shape.head_width <= 64 ? use(Passes<64, precision>{})
                                    : use(Passes<kHeadWidthMax, precision>{});
  };
  return shape.options.precision == Precision::kBf16
             ? of_precision.template operator()<Precision::kBf16>()
             : of_precision.template operator()<Precision::kF32>();
}

}  // namespace

int64_t AttentionRowValues(const AttentionShape& shape) {
  return shape.n * shape.options.heads * RowPitch(shape.options.length);
}

int64_t AttentionScratch(const AttentionShape& shape, bool is_backward) {
  const int64_t rounded =
      shape.options.precision == Precision::kBf16 ? FactorCount(shape, is_backward) / 2 : 0;
  return rounded + (is_backward ? AttentionRowValues(shape) : 0);
}

cudaError_t AttentionForward(
    cudaStream_t stream,
    const AttentionShape& shape,
    const float* x,
    float* scratch,
    float* log_sums,
    float* y) {
  return WithPasses(
      shape, [&](auto passes) { return passes.Forward(stream, shape, x, scratch, log_sums, y); });
}

cudaError_t AttentionBackward(
    cudaStream_t stream, const AttentionShape& shape, const AttentionGradient& g) {
  return WithPasses(shape, [&](auto passes) { return passes.Backward(stream, shape, g); });
}

}  // namespace ps::kernels
