#include "run/model_describer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>

#include "ps/base/file.h"
#include "ps/base/logger.h"
#include "ps/base/time.h"
#include "run/directory/model_card.h"
#include "tests/base/temporary_folder.h"
#include "worker/use/model_card.h"

namespace ps::run {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class DescriberLog final : public LogSink {
 public:
  bool Takes(LogLevel /*level*/) const override { return true; }

  void Write(LogLevel /*level*/, std::string_view line) override { text += line; }

  std::string text;
};

class ModelDescriberTest : public testing::Test {
 protected:
  void SetUp() override {
    config_.name = "a";
    config_.model.name = "mlp";
    config_.data.format = proto::DatasetFormat::kCsv;
    config_.data.directory = root_.path();
    for (const char* name : {"train.csv", "test.csv"}) {
      ASSERT_TRUE(WriteFileAtomically(root_ / name, "x,y\n1,no\n2,yes\n").ok());
    }
  }

  std::map<std::string, std::string> Describe() {
    ModelDescriber describer(&config_, &data_, root_ / "model_card.json", &log_);
    describer.Start();
    return describer.Take();
  }

  TemporaryFolder root_;
  proto::JobConfig config_;
  worker::DatasetInfo data_;
  DescriberLog lines_;
  Logger log_{"coordinator", &SystemTime(), &lines_};
};

TEST_F(ModelDescriberTest, WhatIsFoundGoesIntoTheRunsDirectoryAndStays) {
  const auto found = Describe();
  const auto card = worker::CardIn(found);
  ASSERT_TRUE(card.ok()) << card.status();
  ASSERT_TRUE(card->has_value());
  EXPECT_THAT((*card)->class_names, testing::ElementsAre("no", "yes"));
  EXPECT_EQ(ReadModelCard(root_ / "model_card.json").value(), found);

  // The run goes on where the data are others by now.
  ASSERT_TRUE(WriteFileAtomically(root_ / "train.csv", "x,y\n1,a\n2,b\n3,c\n").ok());
  EXPECT_EQ(Describe(), found);
}

TEST_F(ModelDescriberTest, WithoutADescriptionTheReasonIsInTheLog) {
  config_.data.directory = root_ / "nowhere";
  EXPECT_THAT(Describe(), IsEmpty());
  EXPECT_THAT(lines_.text, HasSubstr("model_not_described"));
  ASSERT_TRUE(WriteFileAtomically(root_ / "model_card.json", "{\"input\": 3}").ok());
  EXPECT_THAT(Describe(), IsEmpty());
  EXPECT_THAT(lines_.text, HasSubstr("model_card.json:1:"));
}

TEST_F(ModelDescriberTest, ATextIsNotReadOnceMore) {
  config_.model.name = "gpt";
  config_.data.format = proto::DatasetFormat::kText;  // of which there is none in the folder
  data_.shape = {1, 8, 1, worker::ShapeKind::kTokens, 256};
  data_.classes = 256;
  data_.labels = 8;
  const auto card = worker::CardIn(Describe());
  ASSERT_TRUE(card.ok() && card->has_value()) << lines_.text;
  EXPECT_EQ((*card)->input, data_.shape);
  EXPECT_EQ((*card)->labels, 8);
}

TEST_F(ModelDescriberTest, PicturesThatAreTooManyForASmallHostAreNotRead) {
  config_.data.format = proto::DatasetFormat::kIdx;
  data_.shape = {3, 224, 224};
  data_.train_count = 10'000;
  EXPECT_THAT(Describe(), IsEmpty());
  EXPECT_THAT(lines_.text, HasSubstr("its pictures are 1.4 GiB, more than the 1.0 GiB"));
}

TEST_F(ModelDescriberTest, AProgramsModelIsNotAskedFor) {
  config_.worker.program = {"python3"};
  EXPECT_THAT(Describe(), IsEmpty());
  EXPECT_EQ(lines_.text, "");
}

}  // namespace
}  // namespace ps::run
