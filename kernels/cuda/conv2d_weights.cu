// The gradient of a convolution's weights. The sum is long and what comes out is small, so blocks
// share it, and their parts are added up in order.

#include <algorithm>
#include <bit>

#include "kernels/cuda/conv2d.cuh"
#include "kernels/cuda/dense_factors.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/product.cuh"
#include "kernels/cuda/reduce.cuh"

namespace ps::kernels {
namespace {

/// Division by a number that the host knows, of values below 2^31.
struct Divider {
  explicit Divider(int64_t by)
      : divisor(static_cast<uint32_t>(std::max<int64_t>(by, 1))),
        shift(static_cast<uint32_t>(std::bit_width(divisor - 1))),
        factor(static_cast<uint32_t>(
            ((uint64_t{1} << 32) * ((uint64_t{1} << shift) - divisor)) / divisor + 1)) {}

  __device__ uint32_t operator()(uint32_t n) const {
    const auto high = static_cast<uint32_t>(uint64_t{n} * factor >> 32U);
    return (high + n) >> shift;
  }

  uint32_t divisor;
  uint32_t shift;
  uint32_t factor;
};

/// Lines are (kh,kw,i) of a patch of x, the depth is patches.
template <bool is_vector>
struct PatchColumns {
  static constexpr Lies kLies = Lies::kAlongLines;

  struct Line {  // each of four; of a vector all but the channel are the same
    int row[is_vector ? 1 : 4];
    int column[is_vector ? 1 : 4];
    int channel[is_vector ? 1 : 4];
  };

  struct Place {
    const float* image;
    int row;
    int column;
  };

  __device__ Line AtLine(int64_t line) const {
    const int kernel = static_cast<int>(shape.options.kernel);
    const int channels = static_cast<int>(shape.options.in_channels);
    Line at;
    PS_UNROLL
    for (int i = 0; i < (is_vector ? 1 : 4); ++i) {
      const int own = static_cast<int>(line) + i;
      at.row[i] = own < lines ? own / (channels * kernel) : kOutside;
      at.column[i] = own / channels % kernel;
      at.channel[i] = own % channels;
    }
    return at;
  }

  __device__ Place AtPlace(int64_t k) const {
    if (k >= depth) {
      return {x, kOutside, 0};
    }
    const auto patch = static_cast<uint32_t>(k);
    const uint32_t sample = by_map(patch);
    const uint32_t pixel = patch - sample * by_map.divisor;
    const uint32_t row = by_width(pixel);
    const Conv2dOptions& o = shape.options;
    return {
        x + static_cast<int64_t>(sample) * o.in_height * o.in_width * o.in_channels,
        static_cast<int>(row * o.stride - o.padding),
        static_cast<int>((pixel - row * by_width.divisor) * o.stride - o.padding)};
  }

  __device__ float4 Load(const Line& line, const Place& place) const {
    float4 values{};
    if constexpr (is_vector) {
      const float* const at = Find(place, line.row[0], line.column[0], line.channel[0]);
      if (at != nullptr) {
        values = *reinterpret_cast<const float4*>(at);
      }
    } else {
      float* const each[4] = {&values.x, &values.y, &values.z, &values.w};
      PS_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float* const at = Find(place, line.row[i], line.column[i], line.channel[i]);
        *each[i] = at == nullptr ? 0.0F : *at;
      }
    }
    return values;
  }

  __device__ const float* Find(const Place& place, int row, int column, int channel) const {
    return ValueAt(
        place.image,
        static_cast<int>(shape.options.in_height),
        static_cast<int>(shape.options.in_width),
        static_cast<int>(shape.options.in_channels),
        place.row + row,
        place.column + column,
        channel);
  }

  ConvShape shape;
  const float* x;
  int64_t lines;
  int64_t depth;
  Divider by_map;
  Divider by_width;
};

/// parts [part, (kh,kw,i), o].
template <Precision precision, typename Size, bool is_vector>
__global__ void __launch_bounds__(Size::kThreads, kBlocksAtOnce<precision, Size>)
    WeightGradientKernel(
        int64_t depth_of_part, PatchColumns<is_vector> a, AlongLines b, float* parts) {
  const int64_t begin = static_cast<int64_t>(blockIdx.z) * depth_of_part;
  const int64_t end = begin + depth_of_part < a.depth ? begin + depth_of_part : a.depth;
  a.depth = end;
  b.depth = end;
  float* const part = parts + static_cast<int64_t>(blockIdx.z) * a.lines * b.lines;
  Product<precision, Size>(
      static_cast<int64_t>(blockIdx.x) * Size::kRows,
      static_cast<int64_t>(blockIdx.y) * Size::kColumns,
      begin,
      end,
      a,
      b,
      [&](int64_t row) {
        const int64_t columns = b.lines;
        float* const to = row < a.lines ? part + row * columns : nullptr;
        return [to, columns](int64_t column, float sum) {
          if (to != nullptr && column < columns) {
            to[column] = sum;
          }
        };
      });
}

/// Puts (kh,kw,i), o of the sum of all parts where dw [o,i,kh,kw] has it.
struct PutWeightGradient {
  __device__ void operator()(int64_t i, const float (&sums)[1]) const {
    const int64_t out_channel = i % o.out_channels;
    const int64_t tap = i / o.out_channels / o.in_channels;
    const int64_t in_channel = i / o.out_channels % o.in_channels;
    dw[(out_channel * o.in_channels + in_channel) * o.kernel * o.kernel + tap] = sums[0];
  }

  Conv2dOptions o;
  float* dw;
};

/// How the sum over output pixels is cut: enough blocks, none with little to do.
int64_t PartCount(const ConvShape& shape) {
  constexpr int64_t kDepthMin = 256;
  const int64_t columns = shape.options.out_channels;
  const int64_t tiles =
      DivideUp(columns, columns > 64 ? 128 : 64) * DivideUp(Taps(shape.options), 128);
  const int64_t wanted = DivideUp(2 * kConvBlocks, tiles);
  const int64_t possible = DivideUp(OutputPixels(shape), kDepthMin);
  return possible < 1 ? 1 : std::min(wanted, possible);
}

template <typename Size, bool is_vector>
cudaError_t RunWeightGradient(
    cudaStream_t stream,
    const ConvShape& shape,
    const PatchColumns<is_vector>& a,
    const AlongLines& b,
    float* parts) {
  const int64_t count = PartCount(shape);
  const dim3 grid(
      static_cast<unsigned>(DivideUp(a.lines, Size::kRows)),
      static_cast<unsigned>(DivideUp(b.lines, Size::kColumns)),
      static_cast<unsigned>(count));
  return Launch(
      stream,
      grid,
      dim3(Size::kThreads),
      shape.options.precision == Precision::kBf16
          ? &WeightGradientKernel<Precision::kBf16, Size, is_vector>
          : &WeightGradientKernel<Precision::kF32, Size, is_vector>,
      DivideUp(DivideUp(a.depth, count), kProductDepth) * kProductDepth,
      a,
      b,
      parts);
}

template <bool is_vector>
PatchColumns<is_vector> ColumnsOf(const ConvShape& shape, const float* x) {
  return {
      shape,
      x,
      Taps(shape.options),
      OutputPixels(shape),
      Divider(shape.out_height * shape.out_width),
      Divider(shape.out_width)};
}

cudaError_t WeightGradientParts(
    cudaStream_t stream, const ConvShape& shape, const float* x, const float* dy, float* parts) {
  const int64_t columns = shape.options.out_channels;
  const bool are_fours = columns % 4 == 0 && AreFoursAligned(dy);
  const AlongLines b{dy, columns, OutputPixels(shape), columns, are_fours};
  if (shape.options.in_channels % 4 != 0 || !AreFoursAligned(x)) {
    return RunWeightGradient<Tile64x64>(stream, shape, ColumnsOf<false>(shape, x), b, parts);
  }
  const PatchColumns<true> a = ColumnsOf<true>(shape, x);
  if (columns <= 16) {
    return RunWeightGradient<Tile128x16>(stream, shape, a, b, parts);
  }
  if (columns <= 32) {
    return RunWeightGradient<Tile128x32>(stream, shape, a, b, parts);
  }
  return columns <= 64 ? RunWeightGradient<Tile128x64>(stream, shape, a, b, parts)
                       : RunWeightGradient<Tile128x128>(stream, shape, a, b, parts);
}

}  // namespace

int64_t ConvGradientScratch(const ConvShape& shape) {
  return PartCount(shape) * ConvWeightCount(shape);
}

cudaError_t ConvWeightGradient(
    cudaStream_t stream,
    const ConvShape& shape,
    const float* x,
    const float* dy,
    float* scratch,
    float* dw) {
  const cudaError_t error = WeightGradientParts(stream, shape, x, dy, scratch);
  return error == cudaSuccess ? SumParts<1>(
                                    stream,
                                    scratch,
                                    PartCount(shape),
                                    ConvWeightCount(shape),
                                    PutWeightGradient{shape.options, dw})
                              : error;
}

}  // namespace ps::kernels
