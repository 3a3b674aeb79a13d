#include <algorithm>
#include <type_traits>

#include "kernels/cuda/device/divide.cuh"
#include "kernels/cuda/device/vectors.cuh"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.cuh"

namespace ps::kernels {
namespace {

/// Numbers of channels that a thread has, one behind the other.
template <int width>
using OfChannels = SideBySide<float, width>;

/// What a thread works on: some channels of a pixel of an NHWC tensor.
template <int width, typename Divisor>
struct Pixels {
  using Index = typename Divisor::Index;

  Pixels(int64_t height, int64_t row_width, int64_t channels)
      : groups(channels / width), columns(row_width), rows(height) {}

  __device__ void Place(Index i) {
    const auto [pixel, of_pixel] = groups.Divide(i);
    const auto [line, of_line] = columns.Divide(pixel);
    const auto [picture, of_picture] = rows.Divide(line);
    channel = of_pixel * width;
    column = of_line;
    row = of_picture;
    sample = picture;
  }

  Divisor groups;
  Divisor columns;
  Divisor rows;
  Index channel = 0;
  Index column = 0;
  Index row = 0;
  Index sample = 0;
};

/// The output of one window. The first of equal values wins, and a NaN only where it comes first.
template <PoolKind kind, typename Winner, int width, typename Divisor>
struct PoolWindow {
  using Index = typename Divisor::Index;

  __device__ void operator()(int64_t i) const {
    const PoolOptions& o = shape.options;
    Pixels<width, Divisor> out = pixels;
    out.Place(static_cast<Index>(i));
    const int64_t row0 = static_cast<int64_t>(out.row) * o.stride - o.padding;
    const int64_t column0 = static_cast<int64_t>(out.column) * o.stride - o.padding;
    const int64_t kh_begin = row0 < 0 ? -row0 : 0;
    const int64_t kw_begin = column0 < 0 ? -column0 : 0;
    const int64_t below = o.in_height - row0;
    const int64_t beside = o.in_width - column0;
    const int64_t kh_end = o.kernel_height < below ? o.kernel_height : below;
    const int64_t kw_end = o.kernel_width < beside ? o.kernel_width : beside;
    const float* const picture =
        x + static_cast<int64_t>(out.sample) * o.in_height * o.in_width * o.channels + out.channel;
    OfChannels<width> values{};
    SideBySide<Winner, width> winner{};
    bool is_first = true;
    for (int64_t kh = kh_begin; kh < kh_end; ++kh) {
      for (int64_t kw = kw_begin; kw < kw_end; ++kw) {
        const OfChannels<width> v =
            LoadVector<width>(picture + ((row0 + kh) * o.in_width + column0 + kw) * o.channels);
        PS_UNROLL
        for (int k = 0; k < width; ++k) {
          if constexpr (kind == PoolKind::kAverage) {
            values.of[k] += v.of[k];
          } else if (is_first || v.of[k] > values.of[k]) {
            values.of[k] = v.of[k];
            winner.of[k] = static_cast<Winner>(kh * o.kernel_width + kw);
          }
        }
        is_first = false;
      }
    }
    if constexpr (kind == PoolKind::kAverage) {
      PS_UNROLL
      for (int k = 0; k < width; ++k) {
        values.of[k] = values.of[k] / static_cast<float>(o.kernel_height * o.kernel_width);
      }
    } else if (winners != nullptr) {
      StoreVector(winner, winners + i * width);
    }
    StoreVector(values, y + i * width);
  }

  PoolShape shape;
  Pixels<width, Divisor> pixels;
  const float* x;
  float* y;
  Winner* winners;
};

/// dx: what the windows that hold an element pass on to it, the last window first.
template <PoolKind kind, typename Winner, int width, typename Divisor>
struct PoolGradient {
  using Index = typename Divisor::Index;

  /// The windows along one axis that hold a place: [begin, last].
  struct Windows {
    __device__ Windows(
        const Divisor& stride, Index place, int64_t padding, int64_t kernel, int64_t count) {
      const Index padded = place + static_cast<Index>(padding);
      const auto reach = static_cast<Index>(kernel);
      last = static_cast<int64_t>(stride.Divide(padded).quotient);
      begin = padded < reach ? 0 : static_cast<int64_t>(stride.Divide(padded - reach).quotient) + 1;
      last = last < count ? last : count - 1;
    }

    int64_t begin;
    int64_t last;
  };

  __device__ void operator()(int64_t i) const {
    const PoolOptions& o = shape.options;
    Pixels<width, Divisor> in = pixels;
    in.Place(static_cast<Index>(i));
    const Windows down(stride, in.row, o.padding, o.kernel_height, shape.out_height);
    const Windows across(stride, in.column, o.padding, o.kernel_width, shape.out_width);
    const int64_t picture =
        static_cast<int64_t>(in.sample) * shape.out_height * shape.out_width * o.channels +
        in.channel;
    OfChannels<width> sums{};
    for (int64_t row = down.last; row >= down.begin; --row) {
      for (int64_t column = across.last; column >= across.begin; --column) {
        const int64_t out = picture + (row * shape.out_width + column) * o.channels;
        const OfChannels<width> of_window = LoadVector<width>(dy + out);
        if constexpr (kind == PoolKind::kAverage) {
          PS_UNROLL
          for (int k = 0; k < width; ++k) {
            sums.of[k] += of_window.of[k];
          }
        } else {
          const SideBySide<Winner, width> winner = LoadVector<width>(winners + out);
          const int64_t kh = static_cast<int64_t>(in.row) + o.padding - row * o.stride;
          const int64_t kw = static_cast<int64_t>(in.column) + o.padding - column * o.stride;
          const auto own = static_cast<Winner>(kh * o.kernel_width + kw);
          PS_UNROLL
          for (int k = 0; k < width; ++k) {
            sums.of[k] += winner.of[k] == own ? of_window.of[k] : 0.0F;
          }
        }
      }
    }
    if constexpr (kind == PoolKind::kAverage) {
      PS_UNROLL
      for (int k = 0; k < width; ++k) {
        sums.of[k] = sums.of[k] / static_cast<float>(o.kernel_height * o.kernel_width);
      }
    }
    StoreVector(sums, dx + i * width);
  }

  PoolShape shape;
  Pixels<width, Divisor> pixels;
  Divisor stride;
  const float* dy;
  const Winner* winners;
  float* dx;
};

/// Calls use.operator()<kind, Winner, width, Divisor>(): by fours what models spend time in.
template <typename Use>
cudaError_t WithVariant(
    const PoolOptions& options, int64_t numbers_max, bool are_fours, const Use& use) {
  return WithDivisor(numbers_max, [&]<typename Divisor>() {
    constexpr int kMost = std::is_same_v<Divisor, Divisor32> ? 4 : 1;
    if (options.kind == PoolKind::kAverage) {
      return are_fours ? use.template operator()<PoolKind::kAverage, uint8_t, kMost, Divisor>()
                       : use.template operator()<PoolKind::kAverage, uint8_t, 1, Divisor>();
    }
    if (PoolWinnerBytes(options) > 1) {
      return use.template operator()<PoolKind::kMax, int32_t, 1, Divisor>();
    }
    return are_fours ? use.template operator()<PoolKind::kMax, uint8_t, kMost, Divisor>()
                     : use.template operator()<PoolKind::kMax, uint8_t, 1, Divisor>();
  });
}

/// The largest number that either pass divides, which is none of an element but of a place, too.
int64_t NumbersMax(const PoolShape& shape) {
  const PoolOptions& o = shape.options;
  const int64_t in = shape.n * o.in_height * o.in_width * o.channels;
  const int64_t out = shape.n * shape.out_height * shape.out_width * o.channels;
  return std::max({in, out, o.in_height + o.padding, o.in_width + o.padding, o.stride});
}

}  // namespace

int64_t PoolWinnerBytes(const PoolOptions& options) {
  constexpr int64_t kPlacesOfByte = 256;
  return options.kernel_height * options.kernel_width <= kPlacesOfByte ? 1 : sizeof(int32_t);
}

cudaError_t PoolForward(
    cudaStream_t stream, const PoolShape& shape, const float* x, float* y, void* winners) {
  const PoolOptions& o = shape.options;
  const int64_t n = shape.n * shape.out_height * shape.out_width * o.channels;
  const auto run = [&]<PoolKind kind, typename Winner, int width, typename Divisor>() {
    return ForEach(
        stream,
        n / width,
        PoolWindow<kind, Winner, width, Divisor>{
            shape,
            {shape.out_height, shape.out_width, o.channels},
            x,
            y,
            static_cast<Winner*>(winners)});
  };
  return WithVariant(o, NumbersMax(shape), AreFours(o.channels, x, y), run);
}

cudaError_t PoolBackward(
    cudaStream_t stream, const PoolShape& shape, const float* dy, const void* winners, float* dx) {
  const PoolOptions& o = shape.options;
  const int64_t n = shape.n * o.in_height * o.in_width * o.channels;
  const auto run = [&]<PoolKind kind, typename Winner, int width, typename Divisor>() {
    return ForEach(
        stream,
        n / width,
        PoolGradient<kind, Winner, width, Divisor>{
            shape,
            {o.in_height, o.in_width, o.channels},
            Divisor(o.stride),
            dy,
            static_cast<const Winner*>(winners),
            dx});
  };
  return WithVariant(o, NumbersMax(shape), AreFours(o.channels, dy, dx), run);
}

}  // namespace ps::kernels
