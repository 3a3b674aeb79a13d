#include "worker/data/pictures/picture_resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ps::worker {
namespace {

using testing::ElementsAreArray;

Picture MadePicture(uint32_t width, uint32_t height, uint32_t channels) {
  Picture picture{.channels = channels, .size = {height, width}, .pixels = {}};
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width; ++x) {
      for (uint32_t c = 0; c < channels; ++c) {
        picture.pixels.push_back(static_cast<uint8_t>(37 * y + 91 * x + 53 * c + 13 * x * y));
      }
    }
  }
  return picture;
}

std::vector<uint8_t> Resized(const Picture& picture, const PictureSize& size) {
  std::vector<uint8_t> planes(size_t{picture.channels} * size.height * size.width);
  ResizeAndCrop(picture, size, planes);
  return planes;
}

/// What Pillow 10.4 made of the same pictures: resize(covering size, BILINEAR), then the crop
/// that torchvision's CenterCrop makes.
TEST(PictureResizeTest, TheBytesArePillows) {
  struct Case {
    uint32_t width;
    uint32_t height;
    uint32_t channels;
    PictureSize size;
    std::vector<uint8_t> planes;
  };

  const std::vector<Case> cases = {
      {11,
       7,
       1,
       {4, 4},
       {139, 120, 116, 161, 145, 125, 118, 165, 146, 148, 174, 115, 144, 118, 154, 128}},
      {5,
       9,
       3,
       {3, 2},
       {120, 130, 137, 140, 134, 125, 137, 146, 141, 115, 130, 112, 146, 125, 144, 136, 119, 146}},
      {3, 3, 1, {5, 5}, {0,   36,  91, 146, 182, 15,  53,  111, 169, 207, 37,  79, 141,
                         203, 245, 59, 104, 171, 146, 129, 74,  121, 191, 108, 52}},
      {64, 48, 3, {4, 3}, {120, 124, 129, 124, 126, 127, 123, 128, 129, 128, 124, 125,
                           127, 134, 127, 121, 130, 128, 126, 124, 127, 127, 132, 131,
                           128, 126, 130, 130, 132, 131, 133, 124, 122, 129, 122, 127}},
      {100, 3, 1, {2, 2}, {83, 135, 104, 109}},
      {9,
       16,
       1,
       {3, 6},
       {119, 123, 128, 137, 152, 144, 89, 171, 128, 148, 149, 150, 98, 92, 109, 148, 134, 159}},
      {7,
       5,
       1,
       {4, 4},
       {41, 156, 83, 143, 89, 164, 132, 109, 137, 147, 166, 137, 121, 128, 134, 163}}};
  for (const Case& c : cases) {
    EXPECT_THAT(
        Resized(MadePicture(c.width, c.height, c.channels), c.size), ElementsAreArray(c.planes))
        << c.width << " x " << c.height;
  }
}

/// The mean of all pixels under a triangle, in floating point: no byte may be more than two
/// roundings away.
TEST(PictureResizeTest, EveryByteIsTheWeightedMeanOfThosePixelsThatItCovers) {
  const Picture picture = MadePicture(40, 24, 1);
  const PictureSize size{6, 10};
  const std::vector<uint8_t> planes = Resized(picture, size);
  const double scale = 4;
  for (uint32_t y = 0; y < size.height; ++y) {
    for (uint32_t x = 0; x < size.width; ++x) {
      double sum = 0;
      double weights = 0;
      for (uint32_t v = 0; v < 24; ++v) {
        for (uint32_t u = 0; u < 40; ++u) {
          const double weight = std::max(1 - std::abs(v + 0.5 - (y + 0.5) * scale) / scale, 0.0) *
                                std::max(1 - std::abs(u + 0.5 - (x + 0.5) * scale) / scale, 0.0);
          sum += weight * picture.pixels[v * 40 + u];
          weights += weight;
        }
      }
      EXPECT_NEAR(planes[y * size.width + x], sum / weights, 1.01) << y << ", " << x;
    }
  }
}

TEST(PictureResizeTest, ItCoversTheSizeAndTheMiddleIsCutOut) {
  EXPECT_EQ(CoveringSize({375, 500}, {224, 224}), (PictureSize{224, 298}));
  EXPECT_EQ(CoveringSize({500, 375}, {224, 224}), (PictureSize{298, 224}));
  EXPECT_EQ(CoveringSize({100, 100}, {10, 20}), (PictureSize{20, 20}));
  EXPECT_EQ(CoveringSize({1, 65500}, {4, 4}), (PictureSize{4, 262000}));
  // Seven columns to four: one and a half are cut off each side, rounded to even: two on the left.
  const Picture picture = MadePicture(7, 4, 1);
  std::vector<uint8_t> middle;
  for (uint32_t y = 0; y < 4; ++y) {
    for (uint32_t x = 2; x < 6; ++x) {
      middle.push_back(picture.pixels[y * 7 + x]);
    }
  }
  EXPECT_EQ(Resized(picture, {4, 4}), middle);
}

TEST(PictureResizeTest, OfOneColourItStaysSo) {
  Picture white = MadePicture(33, 17, 3);
  std::ranges::fill(white.pixels, uint8_t{255});
  EXPECT_THAT(Resized(white, {5, 7}), testing::Each(255));
  EXPECT_THAT(Resized(white, {50, 70}), testing::Each(255));
}

}  // namespace
}  // namespace ps::worker
