// Training pictures that are moved and mirrored by chance.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/worker/data/data_files.h"
#include "worker/data/dataset.h"

namespace ps::worker::test {
namespace {

using testing::HasSubstr;

using Pixels = std::vector<float>;

proto::DataConfig WithAugment(const DataFolder& folder, uint32_t crop, bool flip) {
  proto::DataConfig config;
  config.directory = folder.path();
  config.augment = {crop, flip};
  return config;
}

/// One training sample, by its number, in an epoch.
Pixels TrainPicture(const Dataset& dataset, uint64_t epoch, uint64_t sample) {
  const EpochOrder order(9, epoch, dataset.info().train_count);
  uint64_t at = 0;
  while (order.SampleAt(at) != sample) {
    ++at;
  }
  Pixels pixels(static_cast<size_t>(dataset.info().shape.element_count()));
  std::vector<uint32_t> labels(1);
  PS_CHECK(dataset.FetchTrain(order, {at, at + 1}, {pixels, labels}).ok()) << "fetch";
  return pixels;
}

/// The picture seen through a window that is moved, with black around it.
Pixels Changed(const Pixels& picture, int down, int right, bool is_mirrored, float black) {
  Pixels changed;
  for (int y = 0; y < 2; ++y) {
    for (int x = 0; x < 3; ++x) {
      const int from_y = y - down;
      const int from_x = (is_mirrored ? 2 - x : x) - right;
      const bool is_inside = from_y >= 0 && from_y < 2 && from_x >= 0 && from_x < 3;
      changed.push_back(is_inside ? picture[static_cast<size_t>(3 * from_y + from_x)] : black);
    }
  }
  return changed;
}

TEST(AugmentTest, PicturesComeAtEveryPlaceAndMirroredAndNoOtherWay) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  const Dataset plain = Dataset::Load(WithAugment(folder, 0, false)).value();
  const Dataset augmented = Dataset::Load(WithAugment(folder, 1, true)).value();
  const float black = TrainPicture(plain, 0, 0)[0];  // pixel i is i
  const Pixels picture = TrainPicture(plain, 0, 4);
  std::set<Pixels> allowed;
  for (int place = 0; place < 18; ++place) {
    allowed.insert(Changed(picture, place % 3 - 1, place / 3 % 3 - 1, place >= 9, black));
  }
  ASSERT_EQ(allowed.size(), 18U);
  std::set<Pixels> seen;
  for (uint64_t epoch = 0; epoch < 300; ++epoch) {
    seen.insert(TrainPicture(augmented, epoch, 4));
  }
  EXPECT_EQ(seen, allowed);
}

TEST(AugmentTest, AnotherWorkerThatRepeatsALeaseHasTheSamePixels) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  const Dataset one = Dataset::Load(WithAugment(folder, 1, true)).value();
  const Dataset two = Dataset::Load(WithAugment(folder, 1, true)).value();
  const EpochOrder order(3, 1, 20);
  Pixels first(20 * 6);
  Pixels again(7 * 6);
  std::vector<uint32_t> labels(20);
  ASSERT_TRUE(one.FetchTrain(order, {0, 20}, {first, labels}).ok());
  ASSERT_TRUE(two.FetchTrain(order, {5, 12}, {again, std::span(labels).first(7)}).ok());
  EXPECT_EQ(Pixels(first.begin() + 30, first.begin() + 72), again);
}

TEST(AugmentTest, TestPicturesAndTheFingerprintStayAsTheyAre) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  const Dataset plain = Dataset::Load(WithAugment(folder, 0, false)).value();
  const Dataset augmented = Dataset::Load(WithAugment(folder, 1, true)).value();
  EXPECT_EQ(plain.fingerprint(), augmented.fingerprint());
  Pixels expected(7 * 6);
  Pixels pixels(7 * 6);
  std::vector<uint32_t> labels(7);
  ASSERT_TRUE(plain.FetchTest({0, 7}, {expected, labels}).ok());
  ASSERT_TRUE(augmented.FetchTest({0, 7}, {pixels, labels}).ok());
  EXPECT_EQ(pixels, expected);
}

TEST(AugmentTest, AMoveBeyondThePictureIsAnError) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  const proto::DataConfig config = WithAugment(folder, 2, false);
  const std::string expected = "data.augment.crop is 2, and a picture is 1x2x3; allowed: up to 1";
  EXPECT_THAT(Dataset::Load(config).status().ToString(), HasSubstr(expected));
  EXPECT_THAT(Dataset::Inspect(config).status().ToString(), HasSubstr(expected));
}

}  // namespace
}  // namespace ps::worker::test
