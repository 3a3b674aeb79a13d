// Compiled with -ffp-contract=off: see ps/base/vector_code.h.

#include "kernels/cpu/depthwise_weights.h"

#include <algorithm>

#include "ps/base/vector_code.h"

namespace ps::kernels {
namespace {

/// Channels whose sums stay in vector registers over a row.
constexpr int64_t kLanes = 32;

/// Pixels of a row of dy, and of the row of x under a place of the kernel.
struct RowPair {
  const float* x;
  const float* dy;
  int64_t count;
  int64_t x_distance;  // from a pixel of x to the next one, in floats
  int64_t channels;
};

/// sums [channels] += the products of the row's pixels.
[[gnu::always_inline]] inline void AddRow(const RowPair& row, float* sums) {
  int64_t first = 0;
  for (; first + kLanes <= row.channels; first += kLanes) {
    float lanes[kLanes] = {};
    const float* x = row.x + first;
    const float* dy = row.dy + first;
    for (int64_t i = 0; i < row.count; ++i) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] += x[lane] * dy[lane];
      }
      x += row.x_distance;
      dy += row.channels;
    }
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      sums[first + lane] += lanes[lane];
    }
  }
  for (int64_t i = 0; i < row.count; ++i) {
    for (int64_t c = first; c < row.channels; ++c) {
      sums[c] += row.x[i * row.x_distance + c] * row.dy[i * row.channels + c];
    }
  }
}

/// sums [kh,kw,c] += the products of row oh of a sample.
[[gnu::always_inline]] inline void AddRows(
    const Conv2dOptions& o, int64_t oh, const float* x, const float* dy, float* sums) {
  const int64_t channels = o.in_channels;
  const int64_t out_width = WindowCount(o.in_width, o.kernel, o.stride, o.padding);
  for (int64_t kh = 0; kh < o.kernel; ++kh) {
    const int64_t ih = oh * o.stride + kh - o.padding;
    if (ih < 0 || ih >= o.in_height) {
      continue;
    }
    for (int64_t kw = 0; kw < o.kernel; ++kw) {
      // Output pixels from `first` to `end` have their place inside of the row.
      const int64_t before = std::max<int64_t>(o.padding - kw, 0);
      const int64_t first = (before + o.stride - 1) / o.stride;
      const int64_t last = o.in_width - 1 + o.padding - kw;
      const int64_t end = last < 0 ? 0 : std::min(out_width, last / o.stride + 1);
      if (first < end) {
        const int64_t iw = first * o.stride + kw - o.padding;
        const RowPair row{
            x + (ih * o.in_width + iw) * channels,
            dy + first * channels,
            end - first,
            o.stride * channels,
            channels};
        AddRow(row, sums + (kh * o.kernel + kw) * channels);
      }
    }
  }
}

PS_VECTOR_CLONES void SumPlaces(
    const Conv2dOptions& o, int64_t n, const float* x, const float* dy, float* sums) {
  const int64_t out_height = WindowCount(o.in_height, o.kernel, o.stride, o.padding);
  const int64_t out_width = WindowCount(o.in_width, o.kernel, o.stride, o.padding);
  for (int64_t sample = 0; sample < n; ++sample) {
    const float* const image = x + sample * o.in_height * o.in_width * o.in_channels;
    for (int64_t oh = 0; oh < out_height; ++oh) {
      AddRows(o, oh, image, dy, sums);
      dy += out_width * o.in_channels;
    }
  }
}

/// Row by row, so that a sum over many pixels keeps its digits.
void SumBias(
    const Conv2dOptions& o, int64_t n, const float* dy, float* scratch, std::span<float> db) {
  const int64_t rows = n * WindowCount(o.in_height, o.kernel, o.stride, o.padding);
  const int64_t width = WindowCount(o.in_width, o.kernel, o.stride, o.padding);
  const std::span<float> sums(scratch, db.size());
  std::fill(db.begin(), db.end(), 0.0F);
  for (int64_t row = 0; row < rows; ++row) {
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (int64_t i = 0; i < width; ++i) {
      for (float& sum : sums) {
        sum += *dy++;
      }
    }
    for (size_t c = 0; c < db.size(); ++c) {
      db[c] += sums[c];
    }
  }
}

}  // namespace

int64_t DepthwiseScratch(const Conv2dOptions& options) {
  return options.kernel * options.kernel * options.in_channels;
}

void SumDepthwiseWeights(
    const Conv2dOptions& options,
    int64_t n,
    const float* x,
    const float* dy,
    float* scratch,
    std::span<float> dw,
    std::span<float> db) {
  const int64_t channels = options.in_channels;
  const int64_t places = options.kernel * options.kernel;
  std::fill_n(scratch, places * channels, 0.0F);
  SumPlaces(options, n, x, dy, scratch);
  for (int64_t place = 0; place < places; ++place) {
    for (int64_t c = 0; c < channels; ++c) {
      dw[static_cast<size_t>(c * places + place)] = scratch[place * channels + c];
    }
  }
  if (!db.empty()) {
    SumBias(options, n, dy, scratch, db);
  }
}

}  // namespace ps::kernels
