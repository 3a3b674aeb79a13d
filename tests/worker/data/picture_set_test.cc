#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/base/png_bytes.h"
#include "tests/worker/data/data_files.h"
#include "tests/worker/data/jpeg_bytes.h"
#include "worker/data/dataset.h"
#include "worker/data/pictures/picture_folders.h"
#include "worker/data/pictures/picture_reader.h"

namespace ps::worker {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class PictureSetTest : public testing::Test {
 protected:
  PictureSetTest() {
    config_.format = proto::DatasetFormat::kPictures;
    config_.directory = folder_.path();
  }

  void WriteFile(const std::string& name, const std::string& bytes) {
    const fs::path path = fs::path(folder_.path()) / name;
    fs::create_directories(path.parent_path());
    folder_.Write(name, test::Bytes(bytes.begin(), bytes.end()));
  }

  /// A PNG of one grey value, of 2 x 2 pixels if nothing else is said.
  void WritePicture(
      const std::string& name, uint8_t grey, uint32_t width = 2, uint32_t height = 2) {
    WriteFile(
        name, PngOf(width, height, std::string(size_t{width} * height, static_cast<char>(grey))));
  }

  /// Two classes, a and b, with two pictures each for training and one for tests.
  void WriteSmallSet() {
    WritePicture("train/b/0.png", 30);
    WritePicture("train/b/1.png", 40);
    WritePicture("train/a/1.PNG", 20);
    WritePicture("train/a/0.png", 10);
    WritePicture("test/a/0.png", 50);
    WritePicture("test/b/0.png", 60);
  }

  std::string LoadingError() {
    const Status status = Dataset::Load(config_).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
    return std::string(status.message());
  }

  /// The error of both, which says it before a worker has begun.
  std::string ListingError() {
    std::string error = LoadingError();
    EXPECT_EQ(Dataset::Inspect(config_).status().message(), error);
    return error;
  }

  /// The first byte of each training picture, in the order of the set, and its class.
  std::vector<std::pair<int, uint32_t>> TrainPixels() {
    const auto listing = ListPictureFolders(folder_.path(), 0.1);
    EXPECT_TRUE(listing.ok()) << listing.status();
    LoadProgress progress;
    const auto read = ReadPictures(listing->train.paths, 1, {1, 1}, &progress);
    EXPECT_TRUE(read.ok()) << read.status();
    std::vector<std::pair<int, uint32_t>> pixels;
    for (size_t i = 0; i < listing->train.count(); ++i) {
      pixels.emplace_back(read->pixels[i], listing->train.labels[i]);
    }
    return pixels;
  }

  test::DataFolder folder_;
  proto::DataConfig config_;
};

TEST_F(PictureSetTest, ClassesAreFoldersByNameAndTakeTurns) {
  WriteSmallSet();
  WritePicture("train/a/2.jpeg.png", 25);
  const DatasetInfo expected{
      .shape = {3, 2, 2},
      .classes = 2,
      .train_count = 5,
      .test_count = 2,
      .class_names = {"a", "b"}};
  const Result<Dataset> dataset = Dataset::Load(config_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->info(), expected);
  EXPECT_EQ(*Dataset::Inspect(config_), expected);
  using Pixel = std::pair<int, uint32_t>;
  EXPECT_THAT(
      TrainPixels(),
      ElementsAre(Pixel(10, 0), Pixel(30, 1), Pixel(20, 0), Pixel(40, 1), Pixel(25, 0)));
  config_.train_samples = 2;
  EXPECT_EQ(Dataset::Load(config_)->info().train_count, 2U);
}

TEST_F(PictureSetTest, BytesAreNormalisedByTheMeanOfTraining) {
  WriteSmallSet();
  config_.picture.channels = 1;
  const Result<Dataset> dataset = Dataset::Load(config_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ(dataset->normals().size(), 1U);
  EXPECT_EQ(dataset->normals()[0].mean, 25);
  EXPECT_NEAR(dataset->normals()[0].deviation, 11.18, 0.01);
  std::vector<float> images(8);
  std::vector<uint32_t> labels(2);
  ASSERT_TRUE(dataset->FetchTest({0, 2}, {images, labels}).ok());
  EXPECT_THAT(labels, ElementsAre(0, 1));
  EXPECT_FLOAT_EQ(images[0], static_cast<float>((50 - 25) / dataset->normals()[0].deviation));
  ASSERT_NE(dataset->pictures(), nullptr) << "devices are given bytes";
  config_.augment = {.crop = 1, .flip = true};
  EXPECT_TRUE(Dataset::Load(config_).ok());
}

TEST_F(PictureSetTest, WithoutTestsTheLastOfEachClassAreForThem) {
  for (int i = 0; i < 10; ++i) {
    WritePicture("train/a/" + std::to_string(i) + ".png", 1);
    WritePicture("train/b/" + std::to_string(i) + ".png", 2);
  }
  WritePicture("train/c/0.png", 3);
  WritePicture("train/c/1.png", 3);
  const auto listing = ListPictureFolders(folder_.path(), 0.25);
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_THAT(listing->test.labels, ElementsAre(0, 1, 2, 0, 1, 0, 1)) << "2.5 of 10 are 3";
  EXPECT_THAT(listing->test.paths[0], HasSubstr("train/a/7.png"));
  EXPECT_THAT(listing->test.paths[2], HasSubstr("train/c/1.png"));
  EXPECT_EQ(listing->train.count(), 15U);
  config_.test_share = 0.25F;
  EXPECT_EQ(Dataset::Load(config_)->info().test_count, 7U);
  for (const char* const name : {"validation", "val", "test"}) {
    WritePicture(std::string(name) + "/a/0.png", 9);
    EXPECT_EQ(Dataset::Load(config_)->info().test_count, 1U) << name;
    EXPECT_EQ(TestFolderOf(folder_.path()), name);
  }
  EXPECT_THAT(Dataset::Inspect(config_)->left_out, ElementsAre("validation/"));
  EXPECT_EQ(Dataset::Inspect(config_)->unused_validation, (UnusedValidation{"val", "val/"}));
}

TEST_F(PictureSetTest, TestsThatNobodyHasLabelledGiveWayToValidation) {
  WritePicture("train/a/0.png", 1);
  WritePicture("train/b/0.png", 2);
  WritePicture("test/0.png", 3);
  EXPECT_THAT(ListingError(), HasSubstr("has no pictures for tests; allowed: some in test/CLASS/"));
  WritePicture("val/b/0.png", 4);
  const Result<Dataset> dataset = Dataset::Load(config_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->info().test_count, 1U);
  EXPECT_THAT(dataset->info().left_out, ElementsAre("test/"));
}

TEST_F(PictureSetTest, WhatIsNoPictureIsLeftOutAndNamed) {
  WriteSmallSet();
  WriteFile("train/a/Thumbs.db", "x");
  WriteFile("train/notes.txt", "x");
  WriteFile("README.md", "x");
  WriteFile("train/a/.hidden.png", "x");
  WriteFile("train/.ipynb_checkpoints/c.png", "x");
  ASSERT_EQ(::mkfifo((folder_ / "test/a/pipe.png").c_str(), 0600), 0);
  const std::vector<std::string> left_out = {
      "README.md", "test/a/pipe.png", "train/a/Thumbs.db", "train/notes.txt"};
  EXPECT_EQ(Dataset::Load(config_)->info().left_out, left_out);
  for (int i = 100; i < 130; ++i) {
    WriteFile("train/b/" + std::to_string(i) + ".xml", "x");
  }
  const std::vector<std::string> shortened = Dataset::Inspect(config_)->left_out;
  ASSERT_EQ(shortened.size(), kLeftOutMax + 1);
  EXPECT_EQ(shortened.back(), "14 more");
}

TEST_F(PictureSetTest, FoldersWithinAClassAndLinksBelongToIt) {
  WriteSmallSet();
  WritePicture("train/a/more/x/2.png", 70);
  fs::create_directory_symlink(folder_ / "train/b", folder_ / "train/c");
  fs::create_symlink(folder_ / "train/b/1.png", folder_ / "train/a/3.png");
  const Result<Dataset> dataset = Dataset::Load(config_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->info().train_count, 8U);
  EXPECT_EQ(dataset->info().classes, 3);
  fs::create_directory_symlink(folder_ / "train", folder_ / "train/a/back");
  EXPECT_THAT(ListingError(), HasSubstr("a link that leads back"));
  fs::remove(folder_ / "train/a/back");
  fs::create_symlink(folder_ / "nowhere.png", folder_ / "train/a/4.png");
  EXPECT_THAT(LoadingError(), HasSubstr("train/a/4.png"));
}

TEST_F(PictureSetTest, ALayoutThatIsNoneIsRefusedByName) {
  EXPECT_THAT(
      ListingError(), AllOf(HasSubstr("data.directory \""), HasSubstr("has no folder train")));
  WritePicture("train/a/0.png", 1);
  EXPECT_THAT(ListingError(), HasSubstr("train has 1 folder; allowed: 2 to 65,536"));
  fs::create_directories(folder_ / "train/b");
  EXPECT_THAT(ListingError(), HasSubstr("train/b has no pictures (*.png, *.jpg, *.jpeg)"));
  WritePicture("train/b/0.png", 1);
  EXPECT_THAT(ListingError(), HasSubstr("has no pictures for tests")) << "there is one of each";
  WritePicture("test/wolf/0.png", 1);
  EXPECT_THAT(ListingError(), HasSubstr("test/wolf is a class that training lacks; it has a, b"));
  fs::remove_all(folder_ / "test/wolf");
  EXPECT_THAT(ListingError(), HasSubstr("has no pictures for tests; allowed: some in test/CLASS/"));
  WritePicture("test/b/0.png", 1);
  EXPECT_TRUE(Dataset::Load(config_).ok()) << "of a there need be none";
  WritePicture("train/two\nlines/0.png", 1);
  EXPECT_THAT(ListingError(), HasSubstr("rename it"));
}

TEST_F(PictureSetTest, ABadFileIsNamedTheFirstOneOfSeveral) {
  WriteSmallSet();
  WriteFile("train/b/1.png", "GIF89a");
  EXPECT_THAT(ListingError(), HasSubstr("train/b/1.png: neither a PNG"));
  config_.picture = {.height = 2, .width = 2};
  EXPECT_THAT(LoadingError(), HasSubstr("train/b/1.png: neither a PNG"));
  EXPECT_TRUE(Dataset::Inspect(config_).ok()) << "the size is said, so no file is opened";
  WriteFile("train/a/0.png", "");
  WriteFile("train/b/0.png", PngOf(2, 2, "abcd").substr(0, 60));
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(LoadingError(), HasSubstr("train/a/0.png: neither a PNG"));
  }
}

TEST_F(PictureSetTest, SizesThatDifferNeedOneThatIsSaid) {
  WriteSmallSet();
  WritePicture("train/a/2.png", 1, 100, 80);
  WritePicture("train/a/3.png", 1, 120, 90);
  WritePicture("train/a/4.png", 1, 120, 90);
  WritePicture("train/b/2.png", 1, 120, 90);
  WritePicture("train/b/3.png", 1, 120, 90);
  WritePicture("train/b/4.png", 1, 120, 90);
  EXPECT_THAT(
      ListingError(),
      AllOf(
          HasSubstr("data.picture is missing"),
          HasSubstr("12 pictures have 3 sizes: 6 of 2 x 2, the smallest 2 x 2 ("),
          HasSubstr("train/a/0.png), the largest 120 x 90 ("),
          HasSubstr(R"("picture": {"height": 64, "width": 64})")))
      << "half of them have at least 80";
  config_.picture = {.height = 64, .width = 64};
  EXPECT_EQ(Dataset::Load(config_)->info().shape, (Shape{3, 64, 64})) << "the advice is taken";
  config_.picture = {.height = 0, .width = 5, .channels = 1};
  EXPECT_EQ(Dataset::Load(config_)->info().shape, (Shape{1, 5, 5}));
}

TEST_F(PictureSetTest, MoreThanMemoryIsRefusedWithWhatIsAllowed) {
  for (int i = 0; i < 100; ++i) {
    WriteFile("train/a/" + std::to_string(i) + ".png", "never read");
    WriteFile("train/b/" + std::to_string(i) + ".png", "never read");
  }
  config_.picture = {.height = 4096, .width = 4096};
  EXPECT_THAT(
      ListingError(),
      AllOf(
          HasSubstr("data.picture makes 200 pictures of 3x4096x4096 9.4 GiB in memory"),
          HasSubstr("allowed: 8.0 GiB, which is a height and width of up to 3783"),
          HasSubstr("or 170 of this size (data.train_samples)")));
  config_.picture = {.height = 3783, .width = 3783};
  EXPECT_TRUE(Dataset::Inspect(config_).ok()) << "the advice is taken";
}

TEST_F(PictureSetTest, TheFingerprintIsOfFilesClassesAndSize) {
  WriteSmallSet();
  const auto print = [&] {
    const Result<Dataset> dataset = Dataset::Load(config_);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return dataset->fingerprint();
  };
  const proto::DatasetFingerprint before = print();
  EXPECT_EQ(before, print());
  config_.picture.height = 1;
  EXPECT_NE(before, print());
  config_.picture.height = 0;
  WritePicture("train/a/0.png", 11);
  const proto::DatasetFingerprint other_pixels = print();
  EXPECT_NE(before.train_images_crc, other_pixels.train_images_crc);
  EXPECT_EQ(before.test_images_crc, other_pixels.test_images_crc);
  fs::rename(folder_ / "train/b", folder_ / "train/c");
  fs::rename(folder_ / "test/b", folder_ / "test/c");
  const proto::DatasetFingerprint other_names = print();
  EXPECT_EQ(other_names.train_images_crc, other_pixels.train_images_crc);
  EXPECT_NE(other_names.train_labels_crc, other_pixels.train_labels_crc);
}

TEST_F(PictureSetTest, LoadingTellsHowFarItIsAndEndsWhenItIsAsked) {
  WriteSmallSet();
  LoadProgress progress;
  ASSERT_TRUE(Dataset::Load(config_, &progress).ok());
  EXPECT_EQ(progress.share(), 1);
  progress.Cancel();
  EXPECT_EQ(Dataset::Load(config_, &progress).status().code(), StatusCode::kCancelled);
  config_.picture.height = 2;
  EXPECT_EQ(Dataset::Load(config_, &progress).status().code(), StatusCode::kCancelled);
}

TEST_F(PictureSetTest, ManyPicturesOfBothKindsAreEachInTheirPlace) {
  for (int i = 0; i < 120; ++i) {
    const std::string name =
        "train/" + std::string(i % 2 == 0 ? "a/" : "b/") + std::to_string(1000 + i);
    if (i % 3 == 0) {
      const std::string pixels(64, static_cast<char>(i));
      WriteFile(name + ".jpg", JpegBytes({.width = 8, .height = 8, .channels = 1}, pixels));
    } else {
      WritePicture(name + ".png", static_cast<uint8_t>(i), 8, 8);
    }
  }
  const auto pixels = TrainPixels();
  ASSERT_EQ(pixels.size(), 108U);
  for (size_t i = 0; i < pixels.size(); ++i) {
    EXPECT_NEAR(pixels[i].first, static_cast<int>(i), 1);
    EXPECT_EQ(pixels[i].second, i % 2);
  }
}

TEST(ForEachOnAllCoresTest, EachIsDoneOnceAndTheFirstFailureIsTold) {
  std::vector<std::atomic<int>> done(1000);
  ASSERT_TRUE(ForEachOnAllCores(done.size(), [&](size_t i) {
                ++done[i];
                return Status::Ok();
              }).ok());
  for (const std::atomic<int>& times : done) {
    ASSERT_EQ(times, 1);
  }
  const Status failed = ForEachOnAllCores(
      1000, [](size_t i) { return i % 7 == 6 ? Status::Io(std::to_string(i)) : Status::Ok(); });
  EXPECT_EQ(failed.message(), "6");
  EXPECT_TRUE(ForEachOnAllCores(0, [](size_t) { return Status::Io(""); }).ok());
}

}  // namespace
}  // namespace ps::worker
