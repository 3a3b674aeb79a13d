#include "worker/script/description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <string_view>
#include <utility>

#include "checkpoint/model/safetensors.h"
#include "ps/base/crc32c.h"
#include "tests/base/temporary_folder.h"

namespace ps::worker {
namespace {

using ::testing::HasSubstr;

TensorSpec Tensor(const std::string& name, std::vector<int64_t> shape) {
  TensorSpec tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  return tensor;
}

Description WithFrozen(std::vector<TensorSpec> tensors) {
  Description description;
  description.frozen = std::move(tensors);
  return description;
}

class DescriptionTest : public testing::Test {
 protected:
  DescriptionTest() {
    description_.tensors = {Tensor("b", {3, 2}), Tensor("a", {2}), Tensor("scale", {})};
    description_.tensors[0].has_weight_decay = true;
    description_.tensors[1].rule = UpdateRule::kAverage;
    description_.tensors[1].average_rate = 0.1F;
    description_.train_samples = 100;
    description_.test_samples = 7;
    description_.local_steps = 5;
    description_.optimizer_json = R"({"kind": "sgd"})";
  }

  Status Write() { return WriteDescription(path_, description_, {.tensors = {b_, a_, scale_}}); }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "described.safetensors";
  Description description_;
  float b_[6] = {1, 2, 3, 4, 5, 6};
  float a_[2] = {7, 8};
  float scale_[1] = {9};
};

TEST_F(DescriptionTest, WhatIsWrittenIsReadInTheSameOrder) {
  ASSERT_TRUE(Write().ok());
  const Result<Description> read = ReadDescription(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->tensors, description_.tensors);
  EXPECT_EQ(read->train_samples, 100U);
  EXPECT_EQ(read->test_samples, 7U);
  EXPECT_EQ(read->local_steps, 5U);
  EXPECT_EQ(read->optimizer_json, description_.optimizer_json);
  const auto file = checkpoint::SafetensorsReader::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  float values[6];
  ASSERT_TRUE(file->Read(*file->header().Find("b"), 0, values).ok());
  EXPECT_THAT(values, testing::ElementsAreArray(b_));
}

TEST_F(DescriptionTest, WhatNobodyTrainsIsInAFileBesideIt) {
  ASSERT_TRUE(Write().ok());
  EXPECT_TRUE(ReadDescription(path_)->frozen.empty());
  description_.frozen = {Tensor("base", {2, 2})};
  const DescribedValues values = {.tensors = {b_, a_, scale_}, .frozen = {b_}};
  ASSERT_TRUE(WriteDescription(path_, description_, values).ok());
  const Result<Description> read = ReadDescription(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->frozen, description_.frozen);
  EXPECT_EQ(read->frozen_crc, FrozenSum(description_, values));
  EXPECT_EQ(read->tensors, description_.tensors);
  const auto file = checkpoint::SafetensorsReader::Open(folder_ / "described.frozen.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  float base[4];
  ASSERT_TRUE(file->Read(*file->header().Find("base"), 0, base).ok());
  EXPECT_THAT(base, testing::ElementsAre(1, 2, 3, 4));
}

TEST_F(DescriptionTest, WhatIsForTheModelFileAloneIsInThatFileAsItIs) {
  using checkpoint::ElementType;
  const float infinite[2] = {0, -std::numeric_limits<float>::infinity()};
  const int64_t count = 7;
  description_.frozen = {Tensor("base", {2, 2})};
  description_.kept = {
      {"mask", ElementType::kF32, {2}},
      {"steps", ElementType::kI64, {}, true},
      {"none", ElementType::kBool, {0, 3}}};
  description_.aliases = {{"head", "b"}};
  const DescribedValues values = {
      .tensors = {b_, a_, scale_}, .frozen = {b_}, .kept = {infinite, &count, infinite}};
  ASSERT_TRUE(WriteDescription(path_, description_, values).ok());
  const Result<Description> read = ReadDescription(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->kept, testing::UnorderedElementsAreArray(description_.kept));
  EXPECT_EQ(read->frozen, description_.frozen);
  EXPECT_EQ(read->aliases, description_.aliases);
  const uint32_t sum = read->frozen_crc;
  EXPECT_EQ(sum, FrozenSum(WithFrozen(description_.frozen), {.frozen = {b_}}))
      << "workers may differ in the rest";
  description_.kept[0].is_compared = true;
  ASSERT_TRUE(WriteDescription(path_, description_, values).ok());
  EXPECT_EQ(ReadDescription(path_)->frozen_crc, FrozenSum(description_, values));
  EXPECT_NE(ReadDescription(path_)->frozen_crc, sum);
  const auto file = checkpoint::SafetensorsReader::Open(folder_ / "described.frozen.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  float mask[2];
  const auto bytes = std::as_writable_bytes(std::span(mask));
  ASSERT_TRUE(file->ReadBytes(*file->header().Find("mask"), 0, bytes).ok());
  EXPECT_EQ(mask[1], infinite[1]);
}

TEST(FrozenSumTest, DiffersWhereNamesShapesOrValuesDoAndNotByTheOrder) {
  const Description description = WithFrozen({Tensor("a", {2}), Tensor("b", {1, 2})});
  const float a[] = {1, 2};
  const float b[] = {3, 4};
  const float c[] = {3, 4.5};
  const uint32_t sum = FrozenSum(description, {.frozen = {a, b}});
  EXPECT_NE(sum, 0U);
  EXPECT_NE(FrozenSum(description, {.frozen = {a, c}}), sum);
  const Description shaped = WithFrozen({Tensor("a", {2}), Tensor("b", {2, 1})});
  EXPECT_NE(FrozenSum(shaped, {.frozen = {a, b}}), sum);
  const Description turned = WithFrozen({description.frozen[1], description.frozen[0]});
  EXPECT_EQ(FrozenSum(turned, {.frozen = {b, a}}), sum);
  EXPECT_EQ(FrozenSum({}, {}), 0U);
}

uint32_t SumOf(std::span<const std::pair<std::string_view, std::span<const std::byte>>> parts) {
  uint32_t crc = 0;
  for (const auto& [text, bytes] : parts) {
    crc = Crc32c(bytes, Crc32c(std::as_bytes(std::span(text)), crc));
  }
  return crc;
}

TEST(FrozenSumTest, HasTheBytesOfKeptTensorsThatAreComparedAndOfNoOthers) {
  using checkpoint::ElementType;
  const float base[] = {1, 2};
  const uint16_t table[] = {0x3fc0, 0xc000};
  Description description = WithFrozen({Tensor("base", {2})});
  description.kept = {{"a", ElementType::kBf16, {2}}, {"count", ElementType::kI64, {}, true}};
  DescribedValues values = {.frozen = {base}, .kept = {table, nullptr}};
  const auto base_bytes = std::as_bytes(std::span(base));
  const auto table_bytes = std::as_bytes(std::span(table));
  const std::pair<std::string_view, std::span<const std::byte>> parts[] = {
      {"a of shape [2] in BF16", table_bytes}, {"base of shape [2]", base_bytes}};
  EXPECT_EQ(FrozenSum(description, values), SumOf(std::span(parts).subspan(1)))
      << "the sum that checkpoints of f32 models have";
  description.kept[0].is_compared = true;
  const uint32_t sum = FrozenSum(description, values);
  EXPECT_EQ(sum, SumOf(parts));
  const uint16_t other[] = {0x3fc0, 0xc001};
  values.kept[0] = other;
  EXPECT_NE(FrozenSum(description, values), sum);
  values.kept[0] = table;
  description.kept[0].type = ElementType::kF16;
  EXPECT_NE(FrozenSum(description, values), sum);
  description.frozen = {};
  EXPECT_NE(FrozenSum(description, {.kept = values.kept}), 0U);
}

TEST_F(DescriptionTest, AFirstValueThatIsNoNumberIsNamed) {
  a_[1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(Write().ToString(), HasSubstr("\"a\""));
}

TEST_F(DescriptionTest, AModelFileOfAnotherOriginIsRefused) {
  const std::vector<TensorSpec> tensors = {Tensor("a", {2})};
  auto writer = checkpoint::SafetensorsWriter::Create(
      path_, tensors, checkpoint::ElementType::kF32, {{"format", "pt"}});
  ASSERT_TRUE(writer.ok() && writer->Write(0, 0, a_).ok() && writer->Finish().ok());
  EXPECT_THAT(
      ReadDescription(path_).status().ToString(),
      HasSubstr("is no description of a worker's program; allowed: a file that"));
}

TEST_F(DescriptionTest, DamagedDescriptionsAreRefused) {
  const struct {
    const char* json;
    const char* why;
  } cases[] = {
      {"[]", "no JSON object"},
      {"{", "no JSON object"},
      {R"({"version": 2})", "another version than 1"},
      {R"({"version": 1, "train_samples": 1, "test_samples": 0})", "lacks a field"},
      {R"({"version": 1, "train_samples": -1, "test_samples": 0, "local_steps": 0,
           "optimizer": "", "tensors": []})",
       "lacks a field"},
      {R"({"version": 1, "train_samples": 1, "test_samples": 0, "local_steps": 0,
           "optimizer": "", "tensors": []})",
       "tensors that it doesn't describe"},
      {R"({"version": 1, "train_samples": 1, "test_samples": 0, "local_steps": 0,
           "optimizer": "", "tensors": [{"name": "x", "rule": "optimizer", "rate": 0,
           "decay": false}]})",
       "describes a tensor that it has not"},
      {R"({"version": 1, "train_samples": 1, "test_samples": 0, "local_steps": 0,
           "optimizer": "", "tensors": [{"name": "a", "rule": "average", "rate": 2,
           "decay": false}]})",
       "describes a tensor that it has not"},
      {R"({"version": 1, "train_samples": 1, "test_samples": 0, "local_steps": 0,
           "optimizer": "", "tensors": ["a"]})",
       "describes a tensor that it has not"},
      {R"({"version": 1, "train_samples": 1, "test_samples": 0, "local_steps": 0,
           "optimizer": "", "tensors": [
           {"name": "a", "rule": "optimizer", "rate": 0, "decay": false},
           {"name": "a", "rule": "optimizer", "rate": 0, "decay": false}]})",
       "describes a tensor twice"},
  };

  const std::vector<TensorSpec> tensors = {Tensor("a", {2})};
  for (const auto& [json, why] : cases) {
    auto writer = checkpoint::SafetensorsWriter::Create(
        path_, tensors, checkpoint::ElementType::kF32, {{"spotps_worker", json}});
    ASSERT_TRUE(writer.ok() && writer->Write(0, 0, a_).ok() && writer->Finish().ok());
    EXPECT_THAT(ReadDescription(path_).status().ToString(), HasSubstr(why)) << json;
  }
}

TEST_F(DescriptionTest, TheFirstTensorThatDiffersIsNamed) {
  const std::vector<TensorSpec>& job = description_.tensors;
  EXPECT_TRUE(CheckSameTensors(job, job).ok());
  std::vector<TensorSpec> own = job;
  own[1].shape = {4};
  EXPECT_THAT(
      CheckSameTensors(own, job).ToString(),
      HasSubstr("tensor 1 is a of shape [4] here and a of shape [2] in the job; all workers have "
                "to run the same script"));
  own.pop_back();
  own[1] = job[1];
  EXPECT_THAT(
      CheckSameTensors(own, job).ToString(), HasSubstr("tensor 2 is missing here and scale"));
  EXPECT_THAT(
      CheckSameTensors(job, own).ToString(), HasSubstr("of shape [] here and missing in the job"));
  own = job;
  own[0].rule = UpdateRule::kAverage;
  EXPECT_THAT(CheckSameTensors(own, job).ToString(), HasSubstr("tensor 0"));
}

}  // namespace
}  // namespace ps::worker
