#include "ps/coordinator/checkpoints/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/model/kept_tensors.h"
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

/// A model with a frozen tensor, a mask and a counter beside what is trained, of which `w` has two
/// names.
class KeptTensorsTest : public ModelFileTest {
 protected:
  using StoredTensor = checkpoint::StoredTensor;
  using ElementType = checkpoint::ElementType;

  void SetUp() override {
    auto writer = checkpoint::SafetensorsWriter::Create(
        kept_path_,
        {StoredTensor{"base", ElementType::kF32, {3}, 3},
         StoredTensor{"mask", ElementType::kBool, {2}, 2},
         StoredTensor{"steps", ElementType::kI64, {}, 1}},
        {checkpoint::PrintKept(
            {.as_is = {"mask", "steps"}, .counters = {"steps"}, .aliases = {{"head", "w"}}})});
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE(writer->Write(0, 0, std::vector<float>{7, 8, 9}).ok());
    ASSERT_TRUE(writer->WriteBytes(1, 0, std::as_bytes(std::span("\1", 2))).ok());
    ASSERT_TRUE(writer->WriteBytes(2, 0, std::as_bytes(std::span("\5\0\0\0\0\0\0", 8))).ok());
    ASSERT_TRUE(writer->Finish().ok());
  }

  /// Writes `path_` with other values than those that a run has left.
  void PutFile(const std::vector<std::pair<std::string, std::vector<float>>>& tensors) {
    std::vector<TensorSpec> specs;
    for (const auto& [name, values] : tensors) {
      const auto size = static_cast<int64_t>(values.size());
      specs.push_back(
          {name,
           name == "b" || name == "base" ? std::vector<int64_t>{size}
                                         : std::vector<int64_t>{2, 2}});
    }
    auto writer =
        checkpoint::SafetensorsWriter::Create(path_, specs, ElementType::kF32, {{"format", "pt"}});
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (size_t i = 0; i < tensors.size(); ++i) {
      ASSERT_TRUE(writer->Write(i, 0, tensors[i].second).ok());
    }
    ASSERT_TRUE(writer->Finish().ok());
  }

  /// The message when `path_` is opened and all of it is read; empty: no error.
  std::string Error() {
    const auto source = ModelFileSource::Open(path_, tensors_, {.kept_path = kept_path_});
    return std::string((source.ok() ? (*source)->CheckValues() : source.status()).message());
  }

  const std::string kept_path_ = root_ / "kept";
};

TEST_F(KeptTensorsTest, TheModelHasThemAndAllNames) {
  ModelFileSink sink(path_, tensors_, kept_path_);
  ASSERT_TRUE(sink.Begin({}).ok());
  ASSERT_TRUE(sink.Write(0, 0, std::vector<float>{1, 2, 3, 4}).ok());
  ASSERT_TRUE(sink.Write(1, 0, std::vector<float>{5}).ok());
  sink.Finish();
  ASSERT_TRUE(OutcomeOf(&sink).ok());
  const auto reader = checkpoint::SafetensorsReader::Open(path_);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->header().tensors.size(), 6U);
  std::vector<float> values(4);
  for (const char* const name : {"w", "head"}) {
    ASSERT_TRUE(reader->Read(*reader->header().Find(name), 0, values).ok());
    EXPECT_THAT(values, ElementsAre(1, 2, 3, 4)) << name;
  }
  const StoredTensor* const mask = reader->header().Find("mask");
  ASSERT_NE(mask, nullptr);
  EXPECT_EQ(mask->type, ElementType::kBool);
  EXPECT_FALSE(ModelFileSource::Open(path_, tensors_).ok()) << "it has more than the model";
  EXPECT_EQ(Error(), "");
  ModelFileSink gone(path_, tensors_, root_ / "nowhere");
  EXPECT_EQ(gone.Begin({}).code(), StatusCode::kNotFound);
  const std::vector<TensorSpec> other = {{"v", {2, 2}}};
  ModelFileSink strange(path_, other, kept_path_);
  EXPECT_THAT(
      strange.Begin({}).ToString(),
      HasSubstr("\"head\" is another name of \"w\", which the model"));
}

TEST_F(KeptTensorsTest, ATensorIsTakenByWhicheverNameIsThere) {
  for (const char* const name : {"w", "head"}) {
    PutFile({{name, {4, 3, 2, 1}}, {"b", {5}}});
    const auto source = ModelFileSource::Open(path_, tensors_, {.kept_path = kept_path_});
    ASSERT_TRUE(source.ok()) << name << source.status();
    EXPECT_TRUE((*source)->CheckValues().ok());
    std::vector<float> values(2);
    ASSERT_TRUE((*source)->Read(0, 1, values).ok());
    EXPECT_THAT(values, ElementsAre(3, 2)) << name;
  }
  PutFile({{"w", {4, 3, 2, 1}}, {"head", {4, 3, 2, 1}}, {"b", {5}}});
  EXPECT_EQ(Error(), "");
  PutFile({{"w", {4, 3, 2, 1}}, {"head", {4, 3, 2, 9}}, {"b", {5}}});
  EXPECT_THAT(
      Error(), HasSubstr("\"head\" and \"w\" are one tensor of the model and have different"));
}

TEST_F(KeptTensorsTest, OtherValuesOfWhatNobodyTrainsAreRefused) {
  PutFile({{"w", {4, 3, 2, 1}}, {"b", {5}}, {"base", {7, 8, 9}}});
  EXPECT_EQ(Error(), "");
  PutFile({{"w", {4, 3, 2, 1}}, {"b", {5}}, {"base", {7, 8, 8}}});
  EXPECT_THAT(
      Error(),
      testing::AllOf(
          HasSubstr(path_ + ": its tensor \"base\" has other values than worker.program has"),
          HasSubstr("let the program load the file")));
  PutFile({{"w", {4, 3, 2, 1}}, {"b", {5}}, {"base", {7, 8}}});
  EXPECT_THAT(Error(), HasSubstr("\"base\" has shape [2], the model's has [3]"));
  PutFile({{"w", {4, 3, 2, 1}}, {"b", {5}}, {"steps", {1, 2, 3, 4}}});
  EXPECT_EQ(Error(), "") << "a counter says nothing of the model";
}

TEST_F(KeptTensorsTest, WhatIsNoSuchTextIsRefused) {
  const struct {
    const char* json;
    const char* why;
  } cases[] = {
      {"[]", "is no JSON object"},
      {"{", "is no JSON object"},
      {"{}", "has no list as_is"},
      {R"({"as_is": [1], "counters": [], "aliases": []})", "what is no name"},
      {R"({"as_is": ["w", "w"], "counters": [], "aliases": []})", "twice the same"},
      {R"({"as_is": ["x"], "counters": [], "aliases": []})",
       "names a tensor that the file doesn't"},
      {R"({"as_is": [], "counters": ["w"], "aliases": []})",
       "names a tensor that the file doesn't"},
      {R"({"as_is": [], "counters": []})", "has no list aliases"},
      {R"({"as_is": [], "counters": [], "aliases": [["x"]]})", "no pair of names"},
      {R"({"as_is": [], "counters": [], "aliases": [["w", "b"]]})", "no pair of names"},
      {R"({"as_is": [], "counters": [], "aliases": [["x", "w"], ["x", "b"]]})", "or twice"}};

  for (const auto& [json, why] : cases) {
    const auto header = checkpoint::HeaderOf(tensors_, ElementType::kF32, {{"spotps_kept", json}});
    const auto kept = checkpoint::ParseKept(header);
    EXPECT_EQ(kept.status().code(), StatusCode::kCorruption) << json;
    EXPECT_THAT(std::string(kept.status().message()), HasSubstr(why)) << json;
  }
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
