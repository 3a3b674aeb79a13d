#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "ps/base/random.h"
#include "tests/kernels/on_device.h"
#include "tests/kernels/op_runner.h"

// Bytes of pictures to activations on the backend under test, bit for bit.

namespace ps::kernels::test {
namespace {

struct PictureCase {
  int64_t n;
  int64_t channels;
  int64_t height;
  int64_t width;
  int64_t pad;
};

/// One channel of one picture, step by step: padded, moved, mirrored.
std::vector<float> PlainPlane(
    const PictureCase& c, const PictureMove& move, const uint8_t* bytes, const float* values) {
  const int64_t height = c.height + 2 * c.pad;
  const int64_t width = c.width + 2 * c.pad;
  const auto at = [&](int64_t y, int64_t x) { return static_cast<size_t>(y * width + x); };
  const auto size = static_cast<size_t>(height * width);
  std::vector<float> padded(size, values[0]);
  for (int64_t y = 0; y < c.height; ++y) {
    for (int64_t x = 0; x < c.width; ++x) {
      padded[at(y + c.pad, x + c.pad)] = values[bytes[y * c.width + x]];
    }
  }
  std::vector<float> moved(size, values[0]);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      if (y + move.down >= 0 && y + move.down < height && x + move.right >= 0 &&
          x + move.right < width) {
        moved[at(y + move.down, x + move.right)] = padded[at(y, x)];
      }
    }
  }
  std::vector<float> mirrored = moved;
  for (int64_t y = 0; y < height && move.is_mirrored != 0; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      mirrored[at(y, x)] = moved[at(y, width - 1 - x)];
    }
  }
  return mirrored;
}

std::vector<float> PlainPictures(
    const PictureCase& c,
    const std::vector<PictureMove>& moves,
    const std::vector<uint8_t>& bytes,
    const std::vector<float>& values) {
  std::vector<float> y;
  for (int64_t i = 0; i < c.n; ++i) {
    std::vector<std::vector<float>> planes;
    for (int64_t channel = 0; channel < c.channels; ++channel) {
      planes.push_back(PlainPlane(
          c,
          moves[static_cast<size_t>(i)],
          bytes.data() + (i * c.channels + channel) * c.height * c.width,
          values.data() + channel * 256));
    }
    for (size_t pixel = 0; pixel < planes[0].size(); ++pixel) {
      for (const std::vector<float>& plane : planes) {
        y.push_back(plane[pixel]);
      }
    }
  }
  return y;
}

TEST(PicturesTest, BytesArePaddedMovedMirroredAndLookedUp) {
  const PictureCase cases[] = {
      {0, 3, 4, 4, 1},
      {1, 1, 1, 1, 0},
      {5, 1, 7, 3, 0},
      {9, 3, 5, 8, 2},
      {3, 2, 31, 33, 0},
      {4, 3, 32, 32, 4}};
  const std::unique_ptr<Stream> stream = BackendUnderTest()->MakeStream().value();
  Random random(5);
  for (const PictureCase& c : cases) {
    const auto size = static_cast<size_t>(c.n * c.channels * c.height * c.width);
    std::vector<uint8_t> bytes(size);
    for (uint8_t& byte : bytes) {
      byte = static_cast<uint8_t>(random.Below(256));
    }
    std::vector<PictureMove> moves(static_cast<size_t>(c.n));
    for (size_t i = 0; i < moves.size(); ++i) {
      // Beyond the picture, too, which leaves nothing of it.
      const auto reach = static_cast<uint64_t>(i % 3 == 2 ? c.height + c.width : 4);
      moves[i].down = static_cast<int32_t>(random.Below(2 * reach + 1) - reach);
      moves[i].right = static_cast<int32_t>(random.Below(2 * reach + 1) - reach);
      moves[i].is_mirrored = static_cast<uint32_t>(i % 2);
    }
    const std::vector<float> values = NormalValues(c.channels * 256, 7);
    const OnDevice<uint8_t> device_bytes(stream.get(), bytes, 1);
    const OnDevice<PictureMove> device_moves(stream.get(), moves);
    const OnDevice<float> device_values(stream.get(), values, 1);
    const std::vector<float> expected = PlainPictures(c, moves, bytes, values);
    std::vector<float> before(expected.size() + 1, 9);  // one more, not to be touched
    const OnDevice<float> y(stream.get(), before, 3);
    stream->MakePictures(
        {.n = c.n,
         .channels = c.channels,
         .height = c.height,
         .width = c.width,
         .pad = c.pad,
         .bytes = device_bytes.data(),
         .moves = device_moves.data(),
         .values = device_values.data(),
         .y = y.data()});
    std::copy(expected.begin(), expected.end(), before.begin());
    EXPECT_EQ(y.Values(), before) << c.n << " of " << c.channels << "x" << c.height;
  }
}

}  // namespace
}  // namespace ps::kernels::test
