#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>

#include "tests/worker/data/data_files.h"
#include "worker/data/dataset.h"
#include "worker/data/npy/npy_file.h"

namespace ps::worker::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Bytes Npy(const std::string& header, const Bytes& elements) {
  Bytes bytes = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
  bytes.push_back(static_cast<uint8_t>(header.size()));
  bytes.push_back(static_cast<uint8_t>(header.size() >> 8));
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), elements.begin(), elements.end());
  return bytes;
}

std::string HeaderOf(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }   \n";
}

template <typename T>
Bytes ElementsOf(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Bytes Floats(const std::string& shape, const std::vector<float>& values) {
  return Npy(HeaderOf("<f4", shape), ElementsOf(values));
}

Bytes Longs(const std::string& shape, const std::vector<int64_t>& values) {
  return Npy(HeaderOf("<i8", shape), ElementsOf(values));
}

class NpyTest : public testing::Test {
 protected:
  NpyTest() {
    config_.format = proto::DatasetFormat::kNpy;
    config_.directory = folder_.path();
  }

  std::string OpenError(const Bytes& bytes) const {
    const Status status = NpyFile::Open(folder_.Write("a.npy", bytes)).status();
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << status;
    return std::string(status.message());
  }

  /// Three samples of two features to train on, in two parts, and one for tests.
  void WriteFloats() const {
    folder_.Write("train-inputs-0.npy", Floats("2, 2", {0, 1, 2, 3}));
    folder_.Write("train-inputs-1.npy", Floats("1, 2", {4, 5}));
    folder_.Write("train-labels-0.npy", Longs("2,", {0, 2}));
    folder_.Write("train-labels-1.npy", Npy(HeaderOf("|u1", "1, 1"), {1}));
    folder_.Write("test-inputs.npy", Floats("1, 2", {6, 7}));
    folder_.Write("test-labels.npy", Longs("1,", {2}));
  }

  std::string LoadError() const {
    const Status status = Dataset::Load(config_).status();
    EXPECT_FALSE(status.ok());
    return status.ToString();
  }

  DataFolder folder_;
  proto::DataConfig config_;
};

TEST_F(NpyTest, OnlyPicturesAreMovedOrMirrored) {
  WriteFloats();
  config_.augment.flip = true;
  const std::string expected =
      "data.augment changes pictures, and these samples are 2; allowed: leave it out";
  EXPECT_THAT(LoadError(), HasSubstr(expected));
  EXPECT_THAT(Dataset::Inspect(config_).status().ToString(), HasSubstr(expected));
}

TEST_F(NpyTest, NumbersToLearnAreFloatsOneOrSeveralASample) {
  WriteFloats();
  folder_.Write("train-labels-0.npy", Floats("2, 2", {0.5F, 1, -2, 3}));
  folder_.Write("train-labels-1.npy", Floats("1, 2", {4, 5}));
  folder_.Write("test-labels.npy", Floats("1, 2", {6, 7.5F}));
  EXPECT_THAT(LoadError(), HasSubstr("to predict numbers (regression), end model.layers with the"));
  const Result<Dataset> dataset = Dataset::Load(config_, nullptr, proto::Task::kNumbers);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const DatasetInfo expected{
      .shape = {2, 1, 1}, .classes = 2, .labels = 2, .train_count = 3, .test_count = 1};
  EXPECT_EQ(dataset->info(), expected);
  EXPECT_EQ(*Dataset::Inspect(config_, proto::Task::kNumbers), expected);
  EXPECT_NEAR(dataset->target_means()[0], 2.5 / 3, 1e-12);
  EXPECT_NEAR(dataset->target_means()[1], 3, 1e-12);
  std::vector<float> input(2);
  std::vector<uint32_t> labels(2);
  ASSERT_TRUE(dataset->FetchTest({0, 1}, {input, labels}).ok());
  EXPECT_EQ(std::bit_cast<float>(labels[1]), 7.5F);
  EXPECT_THAT(
      Dataset::Load(config_, nullptr, proto::Task::kLabels).status().ToString(),
      HasSubstr("label 0 of sample 0 is 0.5; bce learns labels that are 0 or 1"));
  folder_.Write("train-labels-1.npy", Floats("1, 2", {4, std::numeric_limits<float>::infinity()}));
  EXPECT_THAT(
      Dataset::Load(config_, nullptr, proto::Task::kNumbers).status().ToString(),
      HasSubstr("label 1 of sample 0 is inf; allowed: finite numbers"));
}

TEST_F(NpyTest, PartsAreOneSetInTheOrderOfTheirNames) {
  WriteFloats();
  const Result<Dataset> dataset = Dataset::Load(config_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const DatasetInfo expected{.shape = {2, 1, 1}, .classes = 3, .train_count = 3, .test_count = 1};
  EXPECT_EQ(dataset->info(), expected);
  EXPECT_EQ(*Dataset::Inspect(config_), expected);
  const EpochOrder order(1, 0, 3);
  std::vector<float> inputs(6);
  std::vector<uint32_t> labels(3);
  ASSERT_TRUE(dataset->FetchTrain(order, {0, 3}, {inputs, labels}).ok());
  for (uint64_t i = 0; i < 3; ++i) {
    const uint64_t sample = order.SampleAt(i);
    EXPECT_EQ(inputs[2 * i], static_cast<float>(2 * sample));
    EXPECT_EQ(inputs[2 * i + 1], static_cast<float>(2 * sample + 1));
    EXPECT_EQ(labels[i], (std::vector<uint32_t>{0, 2, 1})[sample]);
  }
  std::vector<float> test(2);
  std::vector<uint32_t> test_label(1);
  ASSERT_TRUE(dataset->FetchTest({0, 1}, {test, test_label}).ok());
  EXPECT_THAT(test, ElementsAre(6, 7));
  EXPECT_THAT(test_label, ElementsAre(2));
}

TEST_F(NpyTest, BytesCanBeHadAsTheyAreStored) {
  const Bytes stored = {0, 1, 2, 3, 250, 251, 252, 253, 254, 255, 9, 8};
  for (const std::string shape : {"2, 3, 1, 2", "2, 6", "2, 2, 3"}) {
    for (const std::string which : {"train", "test"}) {
      folder_.Write(which + "-inputs.npy", Npy(HeaderOf("|u1", shape), stored));
      folder_.Write(which + "-labels.npy", Longs("2,", {0, 1}));
    }
    const Dataset dataset = Dataset::Load(config_).value();
    const PictureFormat* const format = dataset.pictures();
    ASSERT_NE(format, nullptr) << shape;
    std::vector<float> values(stored.size());
    std::vector<uint32_t> labels(2);
    ASSERT_TRUE(dataset.FetchTest({0, 2}, {values, labels}).ok());
    Bytes bytes(stored.size());
    std::vector<PictureMove> moves(2, {1, 1, 1});
    labels = {7, 7};
    ASSERT_TRUE(dataset.FetchTest({0, 2}, {{}, labels, bytes, moves}).ok());
    EXPECT_EQ(bytes, stored) << shape;
    EXPECT_THAT(labels, ElementsAre(0, 1));
    EXPECT_EQ(moves, std::vector<PictureMove>(2)) << "none";
    const auto plane = static_cast<size_t>(format->height * format->width);
    for (size_t i = 0; i < stored.size(); ++i) {
      const size_t channel = i / plane % static_cast<size_t>(format->channels);
      EXPECT_EQ(values[i], format->values[channel][bytes[i]]) << shape << " " << i;
    }
  }
  WriteFloats();
  std::filesystem::remove(folder_.path() + "/train-inputs.npy");
  std::filesystem::remove(folder_.path() + "/train-labels.npy");
  EXPECT_EQ(Dataset::Load(config_).value().pictures(), nullptr);
}

TEST_F(NpyTest, AChangedValueChangesItsPartOfTheFingerprintAlone) {
  WriteFloats();
  const proto::DatasetFingerprint before = Dataset::Load(config_)->fingerprint();
  folder_.Write("train-inputs-1.npy", Floats("1, 2", {4, 5.5F}));
  proto::DatasetFingerprint after = Dataset::Load(config_)->fingerprint();
  EXPECT_NE(after.train_images_crc, before.train_images_crc);
  after.train_images_crc = before.train_images_crc;
  EXPECT_EQ(after, before);
}

TEST_F(NpyTest, DimensionsBecomeShapes) {
  const auto shape_of = [&](const Bytes& inputs) {
    folder_.Write("train-inputs.npy", inputs);
    folder_.Write("test-inputs.npy", inputs);
    folder_.Write("train-labels.npy", Longs("2,", {0, 1}));
    folder_.Write("test-labels.npy", Longs("2,", {0, 1}));
    const Result<DatasetInfo> info = Dataset::Inspect(config_);
    return info.ok() ? info->shape.ToString() : info.status().ToString();
  };
  EXPECT_EQ(shape_of(Npy(HeaderOf("|u1", "2, 3, 2"), Bytes(12))), "1x3x2");
  EXPECT_EQ(shape_of(Npy(HeaderOf("|u1", "2, 2, 3, 1"), Bytes(12))), "2x3x1");
  EXPECT_EQ(shape_of(Floats("2,", {1, 2})), "1");
  EXPECT_THAT(shape_of(Npy(HeaderOf("|u1", "2, 1, 1, 1, 1"), Bytes(2))), HasSubstr("four dim"));
  EXPECT_THAT(
      shape_of(Npy(HeaderOf("|u1", "2, 8, 6, 3"), Bytes(288))),
      AllOf(
          HasSubstr("(2, 8, 6, 3) looks like samples, height, width, channels"),
          HasSubstr("x.transpose(0, 3, 1, 2)")));
  EXPECT_EQ(shape_of(Npy(HeaderOf("|u1", "2, 3, 8, 4"), Bytes(192))), "3x8x4") << "may be both";
  EXPECT_EQ(shape_of(Npy(HeaderOf("|u1", "2, 8, 6, 5"), Bytes(480))), "8x6x5");
  EXPECT_EQ(shape_of(Floats("2, 8, 6, 3", std::vector<float>(288))), "8x6x3");
  EXPECT_THAT(shape_of(Longs("2, 2", {1, 2, 3, 4})), HasSubstr("data.vocabulary is 0"));
  config_.vocabulary = 9;
  EXPECT_EQ(shape_of(Longs("2, 2", {1, 2, 3, 4})), "2 tokens below 9");
}

TEST_F(NpyTest, TokensWithoutLabelsAreLabelledWithTheNextOnes) {
  folder_.Write("train-inputs.npy", Longs("2, 3", {0, 1, 2, 3, 4, 5}));
  folder_.Write("test-inputs.npy", Longs("1, 3", {5, 1, 0}));
  config_.vocabulary = 6;
  const Result<Dataset> dataset = Dataset::Load(config_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->info().labels, 2);
  EXPECT_EQ(dataset->info().classes, 6);
  std::vector<float> inputs(2);
  std::vector<uint32_t> labels(2);
  ASSERT_TRUE(dataset->FetchTest({0, 1}, {inputs, labels}).ok());
  EXPECT_THAT(inputs, ElementsAre(5, 1));
  EXPECT_THAT(labels, ElementsAre(1, 0));
  config_.vocabulary = 5;
  EXPECT_THAT(LoadError(), HasSubstr("train-inputs.npy: byte 113: token 5 is out of range"));
}

TEST_F(NpyTest, TwoTokensWithoutLabelsAreOneToLearn) {
  folder_.Write("train-inputs.npy", Longs("2, 2", {0, 1, 2, 3}));
  folder_.Write("test-inputs.npy", Longs("1, 2", {3, 1}));
  config_.vocabulary = 4;
  const Result<Dataset> dataset = Dataset::Load(config_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ(dataset->info().labels, 1);
  EXPECT_EQ(dataset->info().classes, 4);
  std::vector<float> inputs(1);
  std::vector<uint32_t> labels(1);
  ASSERT_TRUE(dataset->FetchTest({0, 1}, {inputs, labels}).ok());
  EXPECT_THAT(inputs, ElementsAre(3));
  EXPECT_THAT(labels, ElementsAre(1));
}

TEST_F(NpyTest, ATypeThatAnErrorAdvisesIsTaken) {
  WriteFloats();
  for (const std::string descr : {"<f8", "|b1", "<u8", ">i4"}) {
    folder_.Write("test-labels.npy", Npy(HeaderOf(descr, "1,"), Bytes(8)));
    EXPECT_THAT(LoadError(), HasSubstr("save labels.astype(numpy.int64)")) << descr;
  }
  folder_.Write("test-labels.npy", Longs("1,", {2}));
  EXPECT_TRUE(Dataset::Load(config_).ok());
  folder_.Write("test-labels.npy", Npy(HeaderOf("<i2", "1,"), ElementsOf<int16_t>({2})));
  EXPECT_TRUE(Dataset::Load(config_).ok());
  folder_.Write("test-labels.npy", Npy(HeaderOf("<i2", "1,"), ElementsOf<int16_t>({-2})));
  EXPECT_THAT(LoadError(), HasSubstr("label -2 is out of range"));
  folder_.Write("test-labels.npy", Npy(HeaderOf("|i1", "1,"), ElementsOf<int8_t>({-2})));
  EXPECT_THAT(LoadError(), HasSubstr("label -2 is out of range"));
}

TEST_F(NpyTest, LoadingEndsWhenItIsToldTo) {
  WriteFloats();
  LoadProgress progress;
  ASSERT_TRUE(Dataset::Load(config_, &progress).ok());
  EXPECT_EQ(progress.share(), 1);
  progress.Cancel();
  EXPECT_EQ(Dataset::Load(config_, &progress).status().code(), StatusCode::kCancelled);
}

TEST_F(NpyTest, ValuesThatCannotBeTrainedOnAreNamed) {
  WriteFloats();
  folder_.Write("train-inputs-1.npy", Floats("1, 2", {4, std::numeric_limits<float>::quiet_NaN()}));
  EXPECT_THAT(LoadError(), HasSubstr("train-inputs-1.npy: byte 77: value 1 of sample 0 is nan"));
  EXPECT_THAT(
      Dataset::Inspect(config_).status().ToString(), HasSubstr("value 1 of sample 0 is nan"))
      << "so psctl train says it before it starts anything";
  WriteFloats();
  folder_.Write("test-labels.npy", Longs("1,", {3}));
  EXPECT_THAT(LoadError(), HasSubstr("label 3 is out of range; allowed is 0 to 2"));
  folder_.Write("test-labels.npy", Longs("1,", {-1}));
  EXPECT_THAT(LoadError(), HasSubstr("label -1 is out of range"));
  folder_.Write("test-labels.npy", Longs("2,", {0, 1}));
  EXPECT_THAT(LoadError(), HasSubstr("2 x 1 labels for 1 samples"));
  folder_.Write("test-labels.npy", Floats("1,", {0}));
  EXPECT_THAT(LoadError(), HasSubstr("save labels.astype(numpy.int64)"));
  WriteFloats();
  folder_.Write("test-inputs.npy", Floats("1, 3", {6, 7, 8}));
  EXPECT_THAT(LoadError(), HasSubstr("all parts need the same"));
  folder_.Write("train-inputs-2.npy", Floats("1, 2", {6, 7}));
  EXPECT_THAT(LoadError(), HasSubstr("has no train-labels-2.npy beside"));
}

TEST_F(NpyTest, AMissingSetSaysWhatToWrite) {
  EXPECT_THAT(LoadError(), HasSubstr("has no train-inputs*.npy; write it with numpy.save"));
}

TEST_F(NpyTest, APackedArrayIsRefusedAloneAndBesideItself) {
  WriteFloats();
  const std::string packed = folder_.WritePacked("train-inputs-1.npy.gz", {1, 2, 3});
  EXPECT_THAT(LoadError(), HasSubstr("train-inputs-1.npy and the same packed, "));
  std::filesystem::remove(folder_.path() + "/train-inputs-1.npy");
  EXPECT_THAT(LoadError(), HasSubstr("unpack it by: gunzip " + packed));
}

TEST_F(NpyTest, ADamagedHeaderIsRefusedWithPlaceAndRemedy) {
  const std::string f4 = HeaderOf("<f4", "2,");
  EXPECT_THAT(OpenError({'P', 'K', 3, 4}), HasSubstr("byte 0: not an array of numpy"));
  EXPECT_THAT(OpenError({}), HasSubstr("the file is empty"));
  EXPECT_THAT(OpenError(Npy(HeaderOf("<f8", "1,"), Bytes(8))), HasSubstr("numpy.float32"));
  EXPECT_THAT(OpenError(Npy(HeaderOf("<f4", ""), Bytes(4))), HasSubstr("a single number"));
  EXPECT_THAT(OpenError(Npy(HeaderOf("<f4", "0,"), {})), HasSubstr("a dimension of 0"));
  EXPECT_THAT(OpenError(Npy(HeaderOf("<f4", "-1,"), {})), HasSubstr("a whole number"));
  EXPECT_THAT(OpenError(Npy(HeaderOf("<f4", "1099511627777,"), {})), HasSubstr("more than"));
  EXPECT_THAT(
      OpenError(Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}", Bytes(8))),
      HasSubstr("numpy.ascontiguousarray"));
  EXPECT_THAT(OpenError(Npy("{'descr': [('a', '<f4')], }", Bytes(8))), HasSubstr("several fields"));
  EXPECT_THAT(OpenError(Npy("{'descr': '<f4'}", Bytes(8))), HasSubstr("lacks one of"));
  EXPECT_THAT(
      OpenError(Npy(f4, Bytes(7))),
      HasSubstr("7 bytes of elements follow, and its shape asks for 8"));
  EXPECT_THAT(OpenError(Npy(f4, Bytes(9))), HasSubstr("9 bytes of elements follow"));
  const Bytes whole = Npy(f4, Bytes(8));
  for (size_t size = 1; size < whole.size(); ++size) {
    OpenError(Bytes(whole.begin(), whole.begin() + static_cast<int64_t>(size)));
  }
}

}  // namespace
}  // namespace ps::worker::test
