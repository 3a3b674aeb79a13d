#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "tests/worker/data/data_files.h"
#include "worker/data/dataset.h"

namespace ps::worker::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class TextTest : public testing::Test {
 protected:
  TextTest() {
    config_.format = proto::DatasetFormat::kText;
    config_.directory = folder_.path();
    config_.context = 4;
    config_.test_share = 0.25F;
  }

  Dataset Load() const {
    Result<Dataset> dataset = Dataset::Load(config_);
    PS_CHECK(dataset.ok()) << dataset.status();
    return std::move(dataset).value();
  }

  std::string LoadError() const {
    const Status status = Dataset::Load(config_).status();
    EXPECT_EQ(Dataset::Inspect(config_).status().ToString(), status.ToString());
    return status.ToString();
  }

  DataFolder folder_;
  proto::DataConfig config_;
};

/// Inputs and labels of some samples.
struct Windows {
  Windows(const Dataset& dataset, uint64_t n)
      : inputs(n * static_cast<uint64_t>(dataset.info().shape.height)), labels(inputs.size()) {}

  BatchMemory memory() { return {inputs, labels}; }

  std::vector<float> inputs;
  std::vector<uint32_t> labels;
};

TEST_F(TextTest, AWindowIsLabelledWithTheTokensBehindEach) {
  folder_.Write("a.txt", BytesOf("abcdefghijklmnop"));  // 12 bytes to train on, 4 for tests
  folder_.WritePacked("b.txt.gz", BytesOf("qrst"));
  folder_.Write("c.text", BytesOf("not read"));
  const Dataset dataset = Load();  // 15 and 5
  const DatasetInfo expected{
      .shape = {1, 4, 1, ShapeKind::kTokens, 256},
      .classes = 256,
      .labels = 4,
      .train_count = 3,
      .test_count = 1};
  EXPECT_EQ(dataset.info(), expected);
  EXPECT_EQ(*Dataset::Inspect(config_), expected);
  Windows test(dataset, 1);
  ASSERT_TRUE(dataset.FetchTest({0, 1}, test.memory()).ok());
  EXPECT_THAT(test.inputs, ElementsAre('p', 'q', 'r', 's'));
  EXPECT_THAT(test.labels, ElementsAre('q', 'r', 's', 't'));
  const EpochOrder order(1, 0, 3);
  Windows train(dataset, 3);
  ASSERT_TRUE(dataset.FetchTrain(order, {0, 3}, train.memory()).ok());
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(train.inputs[4 * i], static_cast<float>('a' + 4 * order.SampleAt(i)));
    EXPECT_EQ(train.labels[4 * i + 3], 'a' + 4 * order.SampleAt(i) + 4);
  }
}

TEST_F(TextTest, WhatTellsPeopleOfTheDataIsNoData) {
  folder_.Write("a.txt", Bytes(40, 'x'));
  const DatasetInfo alone = Load().info();
  folder_.Write("README.txt", BytesOf("where the texts are from"));
  folder_.Write("sha256sums.txt", BytesOf("0123  a.txt"));
  folder_.Write("._a.txt", BytesOf("of another system"));
  folder_.Write(".draft.txt", BytesOf("hidden"));
  folder_.Write("a.txt~", BytesOf("of an editor"));
  DatasetInfo info = Load().info();
  EXPECT_THAT(info.left_out, ElementsAre("README.txt", "sha256sums.txt"));
  info.left_out.clear();
  EXPECT_EQ(info, alone);
  folder_.WritePacked("a.txt.gz", Bytes(40, 'x'));
  EXPECT_THAT(LoadError(), HasSubstr("a.txt and the same packed, "));
}

TEST_F(TextTest, HiddenTokensAreLearntAndNoOthers) {
  folder_.Write("a.txt", Bytes(4000, 'x'));
  config_.context = 100;
  config_.mask = 0.15F;
  const Dataset dataset = Load();
  EXPECT_EQ(dataset.info().classes, 257);
  EXPECT_EQ(dataset.info().shape.vocabulary, 257);
  Windows windows(dataset, 30);
  ASSERT_TRUE(dataset.FetchTrain(EpochOrder(1, 0, 30), {0, 30}, windows.memory()).ok());
  int hidden = 0;
  for (size_t i = 0; i < windows.inputs.size(); ++i) {
    hidden += windows.inputs[i] == 256 ? 1 : 0;
    EXPECT_TRUE(
        windows.labels[i] == 'x' || (windows.labels[i] == kNoLabel && windows.inputs[i] == 'x'));
  }
  EXPECT_EQ(std::count(windows.labels.begin(), windows.labels.end(), 'x'), 30 * 15);
  EXPECT_NEAR(hidden, 0.8 * 30 * 15, 40);
  Windows again(dataset, 30);
  ASSERT_TRUE(dataset.FetchTrain(EpochOrder(1, 0, 30), {0, 30}, again.memory()).ok());
  EXPECT_EQ(again.labels, windows.labels);
  ASSERT_TRUE(dataset.FetchTrain(EpochOrder(1, 1, 30), {0, 30}, again.memory()).ok());
  EXPECT_NE(again.labels, windows.labels);
}

TEST_F(TextTest, AChangedByteChangesTheFingerprint) {
  Bytes text = BytesOf("abcdefghijklmnopqrst");
  folder_.Write("a.txt", text);
  const proto::DatasetFingerprint before = Load().fingerprint();
  std::swap(text[2], text[3]);
  folder_.Write("a.txt", text);
  proto::DatasetFingerprint after = Load().fingerprint();
  EXPECT_NE(after, before);
  after.train_images_crc = before.train_images_crc;
  EXPECT_EQ(after, before);
  config_.context = 3;
  EXPECT_NE(Load().fingerprint(), before);
}

TEST_F(TextTest, WhatIsNoTextForTheJobIsRefusedWithPlaceAndRemedy) {
  EXPECT_THAT(LoadError(), HasSubstr("not found: data.directory \"" + folder_.path()));
  EXPECT_THAT(LoadError(), HasSubstr("apt-get install bible-kjv"));
  folder_.Write("a.txt", {});
  EXPECT_THAT(LoadError(), HasSubstr("data.context is 4; allowed: less than the 0 tokens"));
  folder_.Write("a.txt", BytesOf("0123456789012345678"));
  EXPECT_THAT(LoadError(), HasSubstr("less than the 15 tokens of text for training and the 4"));
  folder_.Write("b.txt", BytesOf("01234567\xe9"));
  config_.vocabulary = 128;
  EXPECT_THAT(LoadError(), HasSubstr("b.txt: byte 8: token 233 is beyond data.vocabulary 128"));
  folder_.Write("c.txt.gz", {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xff, 0xff});
  config_.vocabulary = 0;
  EXPECT_THAT(LoadError(), HasSubstr("c.txt.gz: byte 0: "));
  Bytes text;
  for (uint32_t i = 0; i < 5000; ++i) {
    text.push_back(static_cast<uint8_t>('a' + i * i % 7919 % 26));
  }
  const std::string path = folder_.WritePacked("c.txt.gz", text);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_THAT(LoadError(), HasSubstr("unexpected end of file"));
  config_.directory = folder_.path() + "/none";
  EXPECT_THAT(LoadError(), HasSubstr("cannot be listed"));
}

}  // namespace
}  // namespace ps::worker::test
