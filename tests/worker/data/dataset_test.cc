#include "worker/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/worker/data/data_files.h"

namespace ps::worker::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

proto::DataConfig ConfigOf(
    const DataFolder& folder, proto::DatasetFormat format = proto::DatasetFormat::kIdx) {
  proto::DataConfig config;
  config.format = format;
  config.directory = folder.path();
  return config;
}

/// One fetched minibatch.
struct Fetched {
  Fetched(const Dataset& dataset, uint64_t n)
      : images(n * static_cast<uint64_t>(dataset.info().shape.element_count())), labels(n) {}

  BatchMemory memory() { return {images, labels}; }

  std::vector<float> images;
  std::vector<uint32_t> labels;
};

std::string LoadError(const proto::DataConfig& config) {
  const Result<Dataset> dataset = Dataset::Load(config);
  EXPECT_FALSE(dataset.ok());
  EXPECT_EQ(Dataset::Inspect(config).status().ToString(), dataset.status().ToString());
  return dataset.status().ToString();
}

TEST(DatasetTest, TellsShapeClassesAndCounts) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  const Result<Dataset> dataset = Dataset::Load(ConfigOf(folder));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const DatasetInfo expected{.shape = {1, 2, 3}, .classes = 3, .train_count = 20, .test_count = 7};
  EXPECT_EQ(dataset->info(), expected);
  const Result<DatasetInfo> inspected = Dataset::Inspect(ConfigOf(folder));
  ASSERT_TRUE(inspected.ok()) << inspected.status();
  EXPECT_EQ(*inspected, expected);
}

TEST(DatasetTest, WhatIsKnownOfTextAndTablesIsToldWithoutReadingThem) {
  const DataFolder folder;
  const auto bytes_of = [](const std::string& text) { return Bytes(text.begin(), text.end()); };
  folder.Write("a.txt", bytes_of("abcdefghijklmnop"));
  folder.Write("train.csv", bytes_of("x,y,class\n1,2,b\n3,4,a\n5,6,b\n"));
  folder.Write("test.csv", bytes_of("x,y,class\n7,8,a\n"));
  folder.Write("train.tsv", bytes_of("x\ty\tclass\n1\t2\t0\n3\t4\t1\n"));
  folder.Write("test.tsv", bytes_of("x\ty\tclass\n7\t8\t1\n"));
  const DataFolder nothing;
  for (const auto format :
       {proto::DatasetFormat::kText, proto::DatasetFormat::kCsv, proto::DatasetFormat::kTsv}) {
    for (const float mask : {0.0F, 0.5F}) {
      proto::DataConfig config = ConfigOf(folder, format);
      config.context = 3;
      config.test_share = 0.25F;
      config.mask = format == proto::DatasetFormat::kText ? mask : 0;
      const Result<Dataset> dataset = Dataset::Load(config);
      ASSERT_TRUE(dataset.ok()) << dataset.status();
      config.directory = nothing.path();
      const Result<DatasetInfo> known = Dataset::InspectKnown(config, dataset->fingerprint());
      ASSERT_TRUE(known.ok()) << known.status();
      DatasetInfo expected = dataset->info();
      expected.class_names.clear();
      EXPECT_EQ(*known, expected);
    }
  }
}

TEST(DatasetTest, TheSameDataHasTheSameFingerprintPackedOrNot) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  const Result<Dataset> one = Dataset::Load(ConfigOf(folder));
  std::filesystem::remove(folder.path() + "/train-labels-idx1-ubyte.gz");
  folder.Write("train-labels-idx1-ubyte", IdxLabels(20, 3));
  const Result<Dataset> two = Dataset::Load(ConfigOf(folder));
  ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
  const proto::DatasetFingerprint& print = one->fingerprint();
  EXPECT_EQ(print, two->fingerprint());
  EXPECT_EQ(print.height, 2U);
  EXPECT_EQ(print.width, 3U);
  EXPECT_EQ(print.classes, 3U);
  EXPECT_EQ(print.train_count, 20U);
  EXPECT_EQ(print.test_count, 7U);
}

TEST(DatasetTest, APictureFileBesideItsPackedFormIsRefused) {
  const DataFolder idx;
  WriteIdxSet(idx, 20, 7);
  idx.Write("train-labels-idx1-ubyte", IdxLabels(20, 3));
  EXPECT_THAT(
      LoadError(ConfigOf(idx)),
      AllOf(
          HasSubstr("invalid argument: data.directory has "),
          HasSubstr("train-labels-idx1-ubyte and the same packed, "),
          HasSubstr("move the other one away")));
  const DataFolder cifar;
  for (int i = 1; i <= 5; ++i) {
    cifar.Write("data_batch_" + std::to_string(i) + ".bin", CifarRecords(2, i));
  }
  cifar.Write("test_batch.bin", CifarRecords(2, 0));
  cifar.WritePacked("test_batch.bin.gz", CifarRecords(2, 1));
  EXPECT_THAT(
      LoadError(ConfigOf(cifar, proto::DatasetFormat::kCifar10)),
      HasSubstr("test_batch.bin and the same packed, "));
}

TEST(DatasetTest, AChangedByteChangesItsPartOfTheFingerprintAlone) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  const Result<Dataset> before = Dataset::Load(ConfigOf(folder));
  ASSERT_TRUE(before.ok()) << before.status();
  Bytes labels = IdxLabels(20, 3);
  std::swap(labels[8], labels[9]);
  folder.WritePacked("train-labels-idx1-ubyte.gz", labels);
  const Result<Dataset> after = Dataset::Load(ConfigOf(folder));
  ASSERT_TRUE(after.ok()) << after.status();
  proto::DatasetFingerprint expected = before->fingerprint();
  EXPECT_NE(after->fingerprint().train_labels_crc, expected.train_labels_crc);
  expected.train_labels_crc = after->fingerprint().train_labels_crc;
  EXPECT_EQ(after->fingerprint(), expected);
}

TEST(DatasetTest, LimitsKeepTheClassesOfTheWholeSet) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  proto::DataConfig config = ConfigOf(folder);
  config.train_samples = 2;
  config.test_samples = 1;
  const Result<Dataset> dataset = Dataset::Load(config);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const DatasetInfo expected{.shape = {1, 2, 3}, .classes = 3, .train_count = 2, .test_count = 1};
  EXPECT_EQ(dataset->info(), expected);
  EXPECT_EQ(*Dataset::Inspect(config), expected);
  config.train_samples = 21;
  EXPECT_THAT(
      LoadError(config),
      HasSubstr("invalid argument: data.train_samples is 21; allowed: up to 20"));
  config.train_samples = 20;
  config.test_samples = 8;
  EXPECT_THAT(LoadError(config), HasSubstr("data.test_samples is 8; allowed: up to 7"));
}

void ExpectMeanZeroAndDeviationOne(const DataFolder& folder, uint64_t count) {
  const Result<Dataset> dataset = Dataset::Load(ConfigOf(folder));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Fetched all(*dataset, count);
  ASSERT_TRUE(dataset->FetchTrain(EpochOrder(1, 0, count), {0, count}, all.memory()).ok());
  double sum = 0;
  double square_sum = 0;
  for (const float value : all.images) {
    sum += value;
    square_sum += static_cast<double>(value) * value;
  }
  const auto values = static_cast<double>(all.images.size());
  EXPECT_NEAR(sum / values, 0, 1e-5);
  EXPECT_NEAR(square_sum / values, 1, 1e-5);
}

TEST(DatasetTest, TrainingImagesHaveMeanZeroAndDeviationOne) {
  const DataFolder folder;
  WriteIdxSet(folder, 50, 7);
  ExpectMeanZeroAndDeviationOne(folder, 50);
}

TEST(DatasetTest, SoHaveLargeBrightOnes) {
  const DataFolder folder;
  WriteIdxSet(folder, 3, 2);
  Bytes images = IdxImages(3, 300, 300);
  std::fill(images.begin() + 16, images.end(), uint8_t{255});
  std::fill(images.begin() + 16, images.begin() + 20'000, uint8_t{0});
  folder.Write("train-images-idx3-ubyte", images);
  folder.WritePacked("t10k-images-idx3-ubyte.gz", IdxImages(2, 300, 300));
  ExpectMeanZeroAndDeviationOne(folder, 3);
}

TEST(DatasetTest, AFetchFollowsTheOrder) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  const Result<Dataset> dataset = Dataset::Load(ConfigOf(folder));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const EpochOrder order(1, 2, 20);
  Fetched batch(*dataset, 4);
  ASSERT_TRUE(dataset->FetchTrain(order, {5, 9}, batch.memory()).ok());
  for (uint64_t i = 0; i < 4; ++i) {
    const uint64_t sample = order.SampleAt(5 + i);
    EXPECT_EQ(batch.labels[i], sample % 3);
    Fetched single(*dataset, 1);
    ASSERT_TRUE(dataset->FetchTrain(order, {5 + i, 6 + i}, single.memory()).ok());
    const auto begin = batch.images.begin() + static_cast<int64_t>(i) * 6;
    EXPECT_EQ(std::vector<float>(begin, begin + 6), single.images);
  }
}

TEST(DatasetTest, TestSamplesComeInFileOrderWithTheTrainingNormalisation) {
  const DataFolder folder;
  WriteIdxSet(folder, 7, 7);  // same pixels in both
  const Result<Dataset> dataset = Dataset::Load(ConfigOf(folder));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Fetched test(*dataset, 7);
  ASSERT_TRUE(dataset->FetchTest({0, 7}, test.memory()).ok());
  EXPECT_EQ(test.labels, (std::vector<uint32_t>{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_LT(test.images.front(), 0);
  EXPECT_FLOAT_EQ(test.images.front(), -test.images.back());  // bytes 0 to 41
}

TEST(DatasetTest, AFetchThatDoesNotFitIsRefused) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  const Result<Dataset> dataset = Dataset::Load(ConfigOf(folder));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  Fetched batch(*dataset, 4);
  const EpochOrder order(1, 2, 20);
  for (const Status& status :
       {dataset->FetchTrain(order, {17, 21}, batch.memory()),
        dataset->FetchTrain(order, {9, 5}, batch.memory()),
        dataset->FetchTrain(order, {5, 8}, batch.memory()),
        dataset->FetchTrain(EpochOrder(1, 2, 19), {0, 4}, batch.memory()),
        dataset->FetchTest({4, 8}, batch.memory())}) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  }
}

TEST(DatasetTest, AMissingSetSaysHowToGetIt) {
  const DataFolder folder;
  const std::string idx = LoadError(ConfigOf(folder));
  EXPECT_THAT(
      idx,
      HasSubstr(
          "not found: data.directory \"" + folder.path() + "\" has no train-images-idx3-ubyte"));
  EXPECT_THAT(idx, HasSubstr("apt-get install dataset-fashion-mnist"));
  const std::string cifar = LoadError(ConfigOf(folder, proto::DatasetFormat::kCifar10));
  EXPECT_THAT(cifar, HasSubstr("no data_batch_1.bin"));
  EXPECT_THAT(cifar, HasSubstr("https://www.cs.toronto.edu/~kriz/cifar.html"));
}

TEST(DatasetTest, ALabelOutOfRangeIsNamedWithItsByte) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  Bytes labels = IdxLabels(20, 3);
  labels[8 + 4] = 77;
  folder.WritePacked("train-labels-idx1-ubyte.gz", labels);
  EXPECT_THAT(
      LoadError(ConfigOf(folder)),
      HasSubstr("train-labels-idx1-ubyte.gz: byte 12: label 77 is out of range; the training "
                "labels are 0 to 2"));
  WriteIdxSet(folder, 20, 7);
  folder.Write("t10k-labels-idx1-ubyte", IdxLabels(7, 4));
  EXPECT_THAT(
      LoadError(ConfigOf(folder)),
      HasSubstr("t10k-labels-idx1-ubyte: byte 11: label 3 is out of range"));
}

TEST(DatasetTest, OneClassIsNotEnough) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  folder.WritePacked("train-labels-idx1-ubyte.gz", IdxLabels(20, 1));
  EXPECT_THAT(LoadError(ConfigOf(folder)), HasSubstr("no sample has label 1"));
}

TEST(DatasetTest, TrainingAndTestImagesMustHaveOneShape) {
  const DataFolder folder;
  WriteIdxSet(folder, 20, 7);
  folder.WritePacked("t10k-images-idx3-ubyte.gz", IdxImages(7, 3, 3));
  EXPECT_THAT(
      LoadError(ConfigOf(folder)), HasSubstr("training images are 1x2x3, test images 1x3x3"));
}

class Cifar10Test : public testing::Test {
 protected:
  Cifar10Test() {
    for (int i = 1; i <= 5; ++i) {
      folder_.Write("data_batch_" + std::to_string(i) + ".bin", CifarRecords(3, i));
    }
    folder_.Write("test_batch.bin", CifarRecords(2, 8));
  }

  proto::DataConfig Config() const { return ConfigOf(folder_, proto::DatasetFormat::kCifar10); }

  DataFolder folder_;
};

TEST_F(Cifar10Test, ReadsAllBatches) {
  const Result<Dataset> dataset = Dataset::Load(Config());
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const DatasetInfo expected{
      .shape = {3, 32, 32}, .classes = 10, .train_count = 15, .test_count = 2};
  EXPECT_EQ(dataset->info(), expected);
  EXPECT_EQ(*Dataset::Inspect(Config()), expected);
  Fetched test(*dataset, 2);
  ASSERT_TRUE(dataset->FetchTest({0, 2}, test.memory()).ok());
  EXPECT_EQ(test.labels, (std::vector<uint32_t>{8, 9}));
  EXPECT_LT(test.images[0], test.images[3072]);
}

TEST_F(Cifar10Test, ALimitMayEndWithinAFile) {
  proto::DataConfig config = Config();
  config.train_samples = 7;
  const Result<Dataset> dataset = Dataset::Load(config);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->info().train_count, 7U);
  config.train_samples = 16;
  EXPECT_THAT(LoadError(config), HasSubstr("data.train_samples is 16; allowed: up to 15"));
}

TEST_F(Cifar10Test, ATruncatedRecordIsNamed) {
  Bytes bytes = CifarRecords(2, 0);
  bytes.pop_back();
  folder_.Write("data_batch_3.bin", bytes);
  EXPECT_THAT(LoadError(Config()), HasSubstr("data_batch_3.bin: byte 6145: the file ends here"));
}

TEST_F(Cifar10Test, ALabelOutOfRangeIsNamed) {
  Bytes bytes = CifarRecords(2, 0);
  bytes[3073] = 10;
  folder_.Write("test_batch.bin", bytes);
  EXPECT_THAT(
      LoadError(Config()), HasSubstr("test_batch.bin: byte 3073: label 10 is out of range"));
}

TEST_F(Cifar10Test, AnEmptyFileIsRefused) {
  folder_.Write("data_batch_2.bin", {});
  EXPECT_THAT(LoadError(Config()), HasSubstr("data_batch_2.bin: byte 0: the file is empty"));
}

TEST_F(Cifar10Test, AllFiveBatchesMustBeThere) {
  std::filesystem::remove(folder_.path() + "/data_batch_4.bin");
  EXPECT_THAT(LoadError(Config()), HasSubstr("no data_batch_4.bin"));
}

/// Records of CIFAR-100: a coarse label, the fine one, and a picture of one value.
Bytes FineRecords(int count, uint8_t first) {
  Bytes bytes;
  for (int i = 0; i < count; ++i) {
    bytes.push_back(static_cast<uint8_t>(19 - i));
    bytes.push_back(static_cast<uint8_t>(first - 7 * i));
    bytes.insert(bytes.end(), 3072, static_cast<uint8_t>(10 * i));
  }
  return bytes;
}

TEST(Cifar100Test, TheLabelIsTheFineOneThatComesSecond) {
  DataFolder folder;
  folder.Write("train.bin", FineRecords(3, 99));
  folder.Write("test.bin", FineRecords(2, 42));
  const proto::DataConfig config = ConfigOf(folder, proto::DatasetFormat::kCifar100);
  const Result<Dataset> dataset = Dataset::Load(config);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const DatasetInfo expected{
      .shape = {3, 32, 32}, .classes = 100, .train_count = 3, .test_count = 2};
  EXPECT_EQ(dataset->info(), expected);
  Fetched test(*dataset, 2);
  ASSERT_TRUE(dataset->FetchTest({0, 2}, test.memory()).ok());
  EXPECT_EQ(test.labels, (std::vector<uint32_t>{42, 35}));
  EXPECT_LT(test.images[0], test.images[3072]) << "the picture begins behind both labels";
  EXPECT_EQ(test.images[0], test.images[1023]);

  folder.Write("test.bin", FineRecords(2, 107));
  EXPECT_THAT(LoadError(config), HasSubstr("test.bin: byte 1: label 107 is out of range"));
}

}  // namespace
}  // namespace ps::worker::test
