#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>
#include <utility>

#include "tests/worker/data/data_files.h"
#include "worker/data/image_files.h"

namespace ps::worker::test {
namespace {

using testing::HasSubstr;

class IdxTest : public testing::Test {
 protected:
  Result<LabeledImages> Read(const Bytes& images, const Bytes& labels, uint64_t limit = 0) const {
    return ReadIdx(folder_.Write("images", images), folder_.Write("labels", labels), limit);
  }

  /// Reading must fail with kCorruption and this in the message, behind the file's name.
  void ExpectBad(const Bytes& images, const Bytes& labels, const std::string& part) const {
    const Result<LabeledImages> result = Read(images, labels);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), StatusCode::kCorruption);
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(folder_.path()));
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(part));
  }

  DataFolder folder_;
};

TEST_F(IdxTest, ReadsWhatWasWritten) {
  const Result<LabeledImages> result = Read(IdxImages(5, 2, 3), IdxLabels(5, 3));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->shape, (Shape{1, 2, 3}));
  EXPECT_EQ(result->count(), 5U);
  ASSERT_EQ(result->pixels.size(), 30U);
  EXPECT_EQ(result->pixels[29], 29);
  EXPECT_EQ(result->labels, (Bytes{0, 1, 2, 0, 1}));
}

TEST_F(IdxTest, ReadsGzipAndPlainAlike) {
  const Bytes images = IdxImages(700, 28, 28);
  const Result<LabeledImages> plain = Read(images, IdxLabels(700, 10));
  const Result<LabeledImages> packed = ReadIdx(
      folder_.WritePacked("images.gz", images),
      folder_.WritePacked("labels.gz", IdxLabels(700, 10)),
      0);
  ASSERT_TRUE(plain.ok() && packed.ok());
  EXPECT_EQ(plain->pixels, packed->pixels);
  EXPECT_EQ(plain->labels, packed->labels);
}

TEST_F(IdxTest, ALimitKeepsTheFirstSamples) {
  const Result<LabeledImages> result = Read(IdxImages(5, 2, 3), IdxLabels(5, 3), 2);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->pixels.size(), 12U);
  EXPECT_EQ(result->labels, (Bytes{0, 1}));
  const Result<LabeledImages> beyond = Read(IdxImages(5, 2, 3), IdxLabels(5, 3), 6);
  ASSERT_TRUE(beyond.ok()) << beyond.status();
  EXPECT_EQ(beyond->count(), 5U);
}

TEST_F(IdxTest, AFileCutAnywhereIsRefused) {
  const Bytes images = IdxImages(2, 2, 3);
  const Bytes labels = IdxLabels(2, 2);
  for (size_t size = 0; size < images.size(); ++size) {
    ExpectBad(
        {images.begin(), images.begin() + static_cast<int64_t>(size)},
        labels,
        "images: byte " + std::to_string(size) + ": the file ends here");
  }
  for (size_t size = 0; size < labels.size(); ++size) {
    ExpectBad(
        images,
        {labels.begin(), labels.begin() + static_cast<int64_t>(size)},
        "labels: byte " + std::to_string(size) + ": the file ends here");
  }
}

TEST_F(IdxTest, AnotherMagicIsRefused) {
  Bytes images = IdxImages(2, 2, 3);
  images[3] = 0x01;
  ExpectBad(images, IdxLabels(2, 2), "images: byte 0: magic 0x00000801 instead of 0x00000803");
  ExpectBad(
      IdxImages(2, 2, 3),
      IdxImages(2, 2, 3),
      "labels: byte 0: magic 0x00000803 instead of 0x00000801");
}

TEST_F(IdxTest, SizesAreCheckedBeforeMemoryIsTaken) {
  Bytes images = IdxImages(2, 2, 3);
  for (size_t i = 4; i < 8; ++i) {
    images[i] = 0xff;
  }
  ExpectBad(images, IdxLabels(2, 2), "byte 4: 4294967295 images; allowed is 1 to");
  images = IdxImages(2, 2, 3);
  images[8] = 0x10;
  ExpectBad(images, IdxLabels(2, 2), "byte 8: 268435458 rows");
  images = IdxImages(2, 2, 3);
  images[4] = 0x0f;
  images[10] = images[14] = 0x0f;
  ExpectBad(images, IdxLabels(2, 2), "images of 1x3842x3843 are more than");
}

TEST_F(IdxTest, AnEmptySetIsRefused) {
  ExpectBad(IdxImages(0, 2, 3), IdxLabels(2, 2), "byte 4: 0 images");
  ExpectBad(IdxImages(2, 2, 3), IdxLabels(0, 2), "byte 4: 0 labels");
  ExpectBad(IdxImages(2, 0, 3), IdxLabels(2, 2), "byte 8: 0 rows");
}

TEST_F(IdxTest, BytesLeftOverAreRefused) {
  Bytes images = IdxImages(2, 2, 3);
  images.push_back(0);
  ExpectBad(images, IdxLabels(2, 2), "images: byte 28: the data should end here");
}

TEST_F(IdxTest, CountsMustAgree) {
  ExpectBad(IdxImages(2, 2, 3), IdxLabels(3, 2), "byte 4: 2 images, but ");
}

/// Packed by gzip in one go.
Bytes Packed(const DataFolder& folder, const Bytes& bytes) {
  std::ifstream file(folder.WritePacked("packed", bytes), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(IdxTest, ReadsFilesThatWerePackedInPiecesAndPutTogether) {
  const Bytes images = IdxImages(700, 28, 28);
  Bytes packed;
  for (const auto& [begin, end] : {std::pair{0, 9}, {9, 9}, {9, 300'000}, {300'000, 548'816}}) {
    const Bytes piece = Packed(folder_, {images.begin() + begin, images.begin() + end});
    packed.insert(packed.end(), piece.begin(), piece.end());
  }
  packed.insert(packed.end(), 5, 0);  // as of a tape's last block
  const std::string labels = folder_.Write("labels", IdxLabels(700, 10));
  const Result<LabeledImages> result = ReadIdx(folder_.Write("images.gz", packed), labels, 0);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(std::equal(result->pixels.begin(), result->pixels.end(), images.begin() + 16));
}

TEST_F(IdxTest, APieceMayBeginWithTheLastByteOfABuffer) {
  constexpr size_t kBufferBytes = size_t{1} << 17;
  Bytes images = IdxImages(250, 28, 28);
  std::mt19937 random(1);
  std::generate(images.begin() + 16, images.end(), [&] { return static_cast<uint8_t>(random()); });
  Bytes packed;
  int64_t begin = 0;  // what chance made does not shrink, so each try comes nearer
  for (int tries = 0; packed.size() != kBufferBytes - 1; ++tries) {
    ASSERT_LT(tries, 10);
    begin += static_cast<int64_t>(kBufferBytes - 1) - static_cast<int64_t>(packed.size());
    packed = Packed(folder_, {images.begin(), images.begin() + begin});
  }
  const Bytes rest = Packed(folder_, {images.begin() + begin, images.end()});
  packed.insert(packed.end(), rest.begin(), rest.end());
  const std::string labels = folder_.Write("labels", IdxLabels(250, 10));
  const Result<LabeledImages> result = ReadIdx(folder_.Write("images.gz", packed), labels, 0);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(std::equal(result->pixels.begin(), result->pixels.end(), images.begin() + 16));
}

TEST_F(IdxTest, DamagedGzipIsNamedWhereverItIs) {
  const Bytes whole = Packed(folder_, IdxImages(700, 28, 28));
  const std::string labels = folder_.Write("labels", IdxLabels(700, 10));
  const auto expect_damage = [&](const Bytes& packed, const std::string& what) {
    const Result<LabeledImages> result = ReadIdx(folder_.Write("bad.gz", packed), labels, 0);
    ASSERT_FALSE(result.ok()) << what;
    EXPECT_EQ(result.status().code(), StatusCode::kCorruption) << what;
    EXPECT_THAT(result.status().message(), HasSubstr(what)) << what;
  };
  for (const size_t size : {size_t{3}, size_t{11}, whole.size() / 2, whole.size() - 20}) {
    expect_damage({whole.begin(), whole.begin() + static_cast<int64_t>(size)}, "bad.gz: byte ");
  }
  Bytes changed = whole;
  changed[whole.size() - 6] ^= 1;
  expect_damage(changed, "incorrect checksum");
  for (size_t at = whole.size() - 60; at < whole.size() - 8; ++at) {
    changed = whole;
    changed[at] ^= 0x10;
    expect_damage(changed, "bad.gz: byte ");
  }
}

TEST_F(IdxTest, AMissingFileAndAFolderAreErrors) {
  const std::string labels = folder_.Write("labels", IdxLabels(2, 2));
  EXPECT_EQ(ReadIdx(folder_.path() + "/none", labels, 0).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(ReadIdx(folder_.path(), labels, 0).ok());
}

}  // namespace
}  // namespace ps::worker::test
