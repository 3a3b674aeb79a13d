#include "ps/coordinator/checkpoints/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "tests/base/temporary_folder.h"

namespace ps::coordinator {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModelFileTest : public ::testing::Test {
 protected:
  ModelFileTest() { path_ = root_ / "model.safetensors"; }

  static Status OutcomeOf(ModelFileSink* sink) {
    std::optional<Status> outcome;
    while (!(outcome = sink->Outcome())) {
      std::this_thread::yield();
    }
    return *outcome;
  }

  const std::vector<TensorSpec> tensors_ = {{"w", {2, 2}}, {"b", {1}}};
  TemporaryFolder root_;
  std::string path_;
};

TEST_F(ModelFileTest, WhatASinkHasTakenASourceGives) {
  ModelFileSink sink(path_, tensors_);
  ASSERT_TRUE(sink.Begin({{"job", "a"}}).ok());
  ASSERT_TRUE(sink.Write(1, 0, std::vector<float>{5}).ok());
  ASSERT_TRUE(sink.Write(0, 0, std::vector<float>{1, 2, 3}).ok());
  ASSERT_TRUE(sink.Write(0, 3, std::vector<float>{4}).ok());
  EXPECT_FALSE(fs::exists(path_));
  sink.Finish();
  EXPECT_TRUE(OutcomeOf(&sink).ok());
  EXPECT_TRUE(OutcomeOf(&sink).ok()) << "asked again";
  const auto source = ModelFileSource::Open(path_, tensors_);
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<float> values(2);
  ASSERT_TRUE((*source)->Read(0, 1, values).ok());
  EXPECT_THAT(values, ElementsAre(2, 3));
}

TEST_F(ModelFileTest, WhatElseTheFileSaysIsAskedWhenItIsBegun) {
  int asked = 0;
  ModelFileSink sink(path_, tensors_, "", [&asked] {
    ++asked;
    return std::map<std::string, std::string>{{"input", "b"}, {"job", "c"}};
  });
  EXPECT_EQ(asked, 0) << "it may not be known yet";
  ASSERT_TRUE(sink.Begin({{"job", "a"}}).ok());
  EXPECT_EQ(asked, 1);
  ASSERT_TRUE(sink.Write(0, 0, std::vector<float>{1, 2, 3, 4}).ok());
  ASSERT_TRUE(sink.Write(1, 0, std::vector<float>{5}).ok());
  sink.Finish();
  ASSERT_TRUE(OutcomeOf(&sink).ok());
  const auto reader = checkpoint::SafetensorsReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->header().metadata.at("input"), "b");
  EXPECT_EQ(reader->header().metadata.at("job"), "a") << "the job's own come first";
}

TEST_F(ModelFileTest, WhatNobodyTrainsIsPutBehindTheModel) {
  const std::vector<TensorSpec> frozen = {{"base", {3}}};
  {
    ModelFileSink base(root_ / "frozen", frozen);
    ASSERT_TRUE(base.Begin({}).ok());
    ASSERT_TRUE(base.Write(0, 0, std::vector<float>{7, 8, 9}).ok());
    base.Finish();
    ASSERT_TRUE(OutcomeOf(&base).ok());
  }
  ModelFileSink sink(path_, tensors_, root_ / "frozen");
  ASSERT_TRUE(sink.Begin({}).ok());
  ASSERT_TRUE(sink.Write(0, 0, std::vector<float>{1, 2, 3, 4}).ok());
  ASSERT_TRUE(sink.Write(1, 0, std::vector<float>{5}).ok());
  sink.Finish();
  ASSERT_TRUE(OutcomeOf(&sink).ok());
  EXPECT_FALSE(ModelFileSource::Open(path_, tensors_).ok()) << "it has more than the model";
  const auto source = ModelFileSource::Open(path_, tensors_, {.frozen = frozen});
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<TensorSpec> all = tensors_;
  all.push_back(frozen[0]);
  const auto whole = ModelFileSource::Open(path_, all);
  ASSERT_TRUE(whole.ok()) << whole.status();
  std::vector<float> values(3);
  ASSERT_TRUE((*whole)->Read(2, 0, values).ok());
  EXPECT_THAT(values, ElementsAre(7, 8, 9));
  ModelFileSink gone(path_, tensors_, root_ / "nowhere");
  EXPECT_EQ(gone.Begin({}).code(), StatusCode::kNotFound);
}

TEST_F(ModelFileTest, ASinkThatBeginsAgainForgetsWhatItHad) {
  ModelFileSink sink(path_, tensors_);
  ASSERT_TRUE(sink.Begin({}).ok());
  ASSERT_TRUE(sink.Write(1, 0, std::vector<float>{5}).ok());
  ASSERT_TRUE(sink.Begin({}).ok());
  ASSERT_TRUE(sink.Write(0, 0, std::vector<float>(4)).ok());
  sink.Finish();
  EXPECT_THAT(
      std::string(OutcomeOf(&sink).message()), HasSubstr("0 of 1 elements of tensor \"b\""));
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(ModelFileTest, WhatIsAbandonedLeavesNothing) {
  ModelFileSink sink(path_, tensors_);
  ASSERT_TRUE(sink.Begin({}).ok());
  ASSERT_TRUE(sink.Write(1, 0, std::vector<float>{5}).ok());
  sink.Abandon();
  EXPECT_TRUE(fs::is_empty(root_.path()));
}

TEST_F(ModelFileTest, AFolderThatIsGoneIsAnError) {
  ModelFileSink sink(root_ / "no/model", tensors_);
  EXPECT_EQ(sink.Begin({}).code(), StatusCode::kIo);
}

TEST_F(ModelFileTest, WhatAFileLacksIsDrawnAsWithoutOne) {
  ModelFileSink sink(path_, tensors_);
  ASSERT_TRUE(sink.Begin({}).ok());
  ASSERT_TRUE(sink.Write(0, 0, std::vector<float>{1, 2, 3, 4}).ok());
  ASSERT_TRUE(sink.Write(1, 0, std::vector<float>{5}).ok());
  sink.Finish();
  ASSERT_TRUE(OutcomeOf(&sink).ok());
  std::vector<TensorSpec> other = {{"w", {2, 2}}, {"b", {3}}};
  other[1].init = InitKind::kNormal;
  other[1].init_scale = 1;
  const auto source =
      ModelFileSource::Open(path_, other, {.take = checkpoint::TakeRule::kFitting, .seed = 7});
  ASSERT_TRUE(source.ok()) << source.status();
  std::vector<float> values(2);
  ASSERT_TRUE((*source)->Read(0, 2, values).ok());
  EXPECT_THAT(values, ElementsAre(3, 4));
  ASSERT_TRUE((*source)->Read(1, 1, values).ok());
  std::vector<float> drawn(3);
  InitializeTensor(other[1], 1, 7, 0, drawn.data(), 3);
  EXPECT_EQ(values, std::vector<float>(drawn.begin() + 1, drawn.end()));
  EXPECT_TRUE((*source)->CheckValues().ok());
}

TEST_F(ModelFileTest, AFileOfAnotherModelIsNamedWithItsTensor) {
  ModelFileSink sink(path_, tensors_);
  ASSERT_TRUE(sink.Begin({}).ok());
  ASSERT_TRUE(sink.Write(0, 0, std::vector<float>(4)).ok());
  ASSERT_TRUE(sink.Write(1, 0, std::vector<float>(1)).ok());
  sink.Finish();
  ASSERT_TRUE(OutcomeOf(&sink).ok());
  const std::vector<TensorSpec> other = {{"w", {4}}, {"b", {1}}};
  const auto source = ModelFileSource::Open(path_, other);
  EXPECT_EQ(source.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(
      source.status().message(), path_ + ": its tensor \"w\" has shape [2,2], the model's has [4]");
}

}  // namespace
}  // namespace ps::coordinator
