#include "worker/data/pictures/picture_resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace ps::worker {
namespace {

constexpr int kWeightBits = 22;  // with 8 of a byte and a sign they fit into 32

/// The inputs of each output in one direction: `weights[i]` of those from `first[i]` on.
struct Taps {
  std::vector<int64_t> first;
  std::vector<std::vector<int32_t>> weights;

  size_t count() const { return first.size(); }
};

double Triangle(double x) {
  return std::max(1 - std::abs(x), 0.0);
}

/// The taps of outputs [begin, begin + count), where `in` pixels become `out`.
Taps TapsOf(int64_t in, int64_t out, int64_t begin, int64_t count) {
  const double scale = static_cast<double>(in) / static_cast<double>(out);
  const double support = std::max(scale, 1.0);
  Taps taps;
  for (int64_t i = begin; i < begin + count; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
    const auto end = std::min(static_cast<int64_t>(centre + support + 0.5), in);
    std::vector<double> shares;
    double sum = 0;
    for (int64_t x = first; x < end; ++x) {
      shares.push_back(Triangle((static_cast<double>(x) - centre + 0.5) * (1 / support)));
      sum += shares.back();
    }
    std::vector<int32_t> weights;
    for (const double share : shares) {
      weights.push_back(static_cast<int32_t>(share / sum * (1 << kWeightBits) + 0.5));
    }
    taps.first.push_back(first);
    taps.weights.push_back(std::move(weights));
  }
  return taps;
}

/// The sum of `weights` with bytes `step` apart.
uint8_t Blend(const std::vector<int32_t>& weights, const uint8_t* from, size_t step) {
  int32_t sum = 1 << (kWeightBits - 1);
  for (const int32_t weight : weights) {
    sum += weight * *from;
    from += step;
  }
  return static_cast<uint8_t>(std::min(sum >> kWeightBits, 255));
}

/// Where the middle `part` of `whole` begins; halves are rounded to even.
int64_t MiddleOf(int64_t whole, int64_t part) {
  const int64_t rest = whole - part;
  return rest / 2 + (rest % 2) * (rest / 2 % 2);
}

}  // namespace

PictureSize CoveringSize(const PictureSize& picture, const PictureSize& size) {
  const uint64_t height = picture.height;
  const uint64_t width = picture.width;
  if (width * size.height >= height * size.width) {
    return {size.height, static_cast<uint32_t>(size.height * width / height)};
  }
  return {static_cast<uint32_t>(size.width * height / width), size.width};
}

void ResizeAndCrop(const Picture& picture, const PictureSize& size, std::span<uint8_t> planes) {
  const PictureSize whole = CoveringSize(picture.size, size);
  const auto taps_of = [](uint32_t in, uint32_t out, uint32_t part) {
    return TapsOf(in, out, MiddleOf(out, part), part);
  };
  const Taps across = taps_of(picture.size.width, whole.width, size.width);
  const Taps down = taps_of(picture.size.height, whole.height, size.height);
  const size_t channels = picture.channels;
  // The rows that the columns take, resized across: [rows, size.width, channels].
  const int64_t first_row = down.first.front();
  const int64_t rows =
      down.first.back() + static_cast<int64_t>(down.weights.back().size()) - first_row;
  const size_t row_bytes = size.width * channels;
  std::vector<uint8_t> band(static_cast<size_t>(rows) * row_bytes);
  uint8_t* out = band.data();
  for (int64_t y = first_row; y < first_row + rows; ++y) {
    const uint8_t* const row =
        picture.pixels.data() + static_cast<size_t>(y) * picture.size.width * channels;
    for (size_t x = 0; x < across.count(); ++x) {
      const uint8_t* const from = row + static_cast<size_t>(across.first[x]) * channels;
      for (size_t c = 0; c < channels; ++c) {
        *out++ = Blend(across.weights[x], from + c, channels);
      }
    }
  }
  for (size_t y = 0; y < down.count(); ++y) {
    const uint8_t* const from =
        band.data() + static_cast<size_t>(down.first[y] - first_row) * row_bytes;
    for (size_t x = 0; x < size.width; ++x) {
      for (size_t c = 0; c < channels; ++c) {
        planes[(c * size.height + y) * size.width + x] =
            Blend(down.weights[y], from + x * channels + c, row_bytes);
      }
    }
  }
}

}  // namespace ps::worker
