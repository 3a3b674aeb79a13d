#include "checkpoint/model/tensor_match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ps::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TensorSpec Spec(std::string name, std::vector<int64_t> shape) {
  TensorSpec spec;
  spec.name = std::move(name);
  spec.shape = std::move(shape);
  return spec;
}

SafetensorsHeader File(const std::vector<TensorSpec>& tensors) {
  return HeaderOf(tensors, ElementType::kF32, {});
}

std::string ErrorOf(
    const std::vector<TensorSpec>& file,
    const std::vector<TensorSpec>& model,
    TakeRule rule = TakeRule::kAll) {
  return std::string(MatchTensors(File(file), model, rule).status().message());
}

/// The names in the file, by tensor of the model; "-" for none.
std::vector<std::string> NamesOf(const TensorMatch& match) {
  std::vector<std::string> names;
  for (const StoredTensor* tensor : match.stored) {
    names.push_back(tensor == nullptr ? "-" : tensor->name);
  }
  return names;
}

const std::vector<TensorSpec>& Norms() {
  static const std::vector<TensorSpec> model = {
      Spec("0.conv2d.weight", {8, 1, 3, 3}),
      Spec("0.conv2d.bias", {8}),
      Spec("1.batch_norm.gamma", {8}),
      Spec("1.batch_norm.beta", {8}),
      Spec("1.batch_norm.running_mean", {8}),
      Spec("1.batch_norm.running_variance", {8}),
      Spec("4.linear.weight", {10, 8}),
      Spec("4.linear.bias", {10})};
  return model;
}

/// As torch.nn.Sequential has them, its layers at these numbers; in the order of their names.
std::vector<TensorSpec> Torch(int conv, int norm, int linear, int64_t classes) {
  const auto name = [](int layer, const char* what) { return std::to_string(layer) + "." + what; };
  return {
      Spec(name(conv, "bias"), {8}),
      Spec(name(conv, "weight"), {8, 1, 3, 3}),
      Spec(name(linear, "bias"), {classes}),
      Spec(name(linear, "weight"), {classes, 8}),
      Spec(name(norm, "bias"), {8}),
      Spec(name(norm, "running_mean"), {8}),
      Spec(name(norm, "running_var"), {8}),
      Spec(name(norm, "weight"), {8})};
}

TEST(TensorMatchTest, WhatTheModelLacksOrHasOtherwiseIsNamed) {
  const std::vector<TensorSpec> file = {Spec("a", {2, 3}), Spec("b", {4})};
  EXPECT_EQ(ErrorOf(file, {Spec("b", {4}), Spec("a", {2, 3})}), "") << "in any order";
  EXPECT_EQ(
      ErrorOf(file, {Spec("a", {2, 3}), Spec("b", {4}), Spec("c", {5})}),
      "it has no tensor \"c\", which the model has with shape [5]");
  EXPECT_EQ(
      ErrorOf(file, {Spec("a", {3, 2}), Spec("b", {4})}),
      "its tensor \"a\" has shape [2,3], the model's has [3,2]");
  EXPECT_EQ(
      ErrorOf(file, {Spec("a", {2, 3})}), "it has a tensor \"b\" that the model does not have");
  EXPECT_EQ(
      ErrorOf(file, {}), "it has a tensor \"a\" that the model does not have, and 1 more such");
}

TEST(TensorMatchTest, NamesInPyTorchAreThoseWithoutTheKindsOfLayers) {
  EXPECT_EQ(TorchName("0.conv2d.weight"), "0.weight");
  EXPECT_EQ(TorchName("12.batch_norm.running_variance"), "12.running_var");
  EXPECT_EQ(TorchName("4.residual.body.1.layer_norm.gamma"), "4.body.1.weight");
  EXPECT_EQ(TorchName("2.residual.body.1.attention.qkv.bias"), "2.body.1.qkv.bias");
  EXPECT_EQ(TorchName("0.weight"), "0.weight");
  EXPECT_EQ(TorchName("beta"), "bias");
}

TEST(TensorMatchTest, AStateDictOfTheSameLayersIsTaken) {
  const SafetensorsHeader file = File(Torch(0, 1, 4, 10));
  const auto match = MatchTensors(file, Norms(), TakeRule::kAll);
  ASSERT_TRUE(match.ok()) << match.status();
  EXPECT_EQ(match->kind, MatchKind::kTorchName);
  EXPECT_THAT(
      NamesOf(*match),
      ElementsAre(
          "0.weight",
          "0.bias",
          "1.weight",
          "1.bias",
          "1.running_mean",
          "1.running_var",
          "4.weight",
          "4.bias"));
}

TEST(TensorMatchTest, CountersOfAStateDictAreLeftAlone) {
  SafetensorsHeader file = File(Torch(0, 1, 4, 10));
  file.tensors.push_back({"1.num_batches_tracked", ElementType::kI64, {}, 1, file.data_bytes()});
  const auto match = MatchTensors(file, Norms(), TakeRule::kAll);
  ASSERT_TRUE(match.ok()) << match.status();
  EXPECT_THAT(match->unused, IsEmpty());
}

/// A Dropout between two layers has no tensors, and moves the numbers of those behind it.
TEST(TensorMatchTest, LayersOfWhichSomeHaveTheSameNumbersAreTakenInTheirOrder) {
  const SafetensorsHeader file = File(Torch(0, 2, 5, 10));
  const auto match = MatchTensors(file, Norms(), TakeRule::kAll);
  ASSERT_TRUE(match.ok()) << match.status();
  EXPECT_EQ(match->kind, MatchKind::kOrder);
  EXPECT_THAT(NamesOf(*match), ::testing::Contains("5.weight"));
  // One layer that is another's has no order that tells the others.
  EXPECT_THAT(ErrorOf(Torch(0, 2, 5, 11), Norms()), HasSubstr("it has no tensor \"1.weight\""));
}

TEST(TensorMatchTest, LayersWithOtherNumbersAreTakenInTheirOrder) {
  const SafetensorsHeader file = File(Torch(2, 3, 11, 10));  // 11 comes before 2 as text
  const auto match = MatchTensors(file, Norms(), TakeRule::kAll);
  ASSERT_TRUE(match.ok()) << match.status();
  EXPECT_EQ(match->kind, MatchKind::kOrder);
  EXPECT_THAT(
      NamesOf(*match),
      ElementsAre(
          "2.weight",
          "2.bias",
          "3.weight",
          "3.bias",
          "3.running_mean",
          "3.running_var",
          "11.weight",
          "11.bias"));
}

TEST(TensorMatchTest, NamesThatTellNoOrderAreNotGuessed) {
  // Both would fit either way round, and the order of the names need not be that of the layers.
  const std::string error = ErrorOf(
      {Spec("last.weight", {4, 4}), Spec("first.weight", {4, 4})},
      {Spec("0.linear.weight", {4, 4}), Spec("1.linear.weight", {4, 4})});
  EXPECT_THAT(error, HasSubstr("their names tell no order by which they are:\n  the model  "));
  EXPECT_THAT(
      error, HasSubstr("\n  0.linear.weight [4,4]                       first.weight [4,4]"));
}

TEST(TensorMatchTest, AnotherNumberOfLayersIsNoMatch) {
  EXPECT_THAT(
      ErrorOf({Spec("5.weight", {4, 4})}, Norms(), TakeRule::kFitting), HasSubstr("tell no order"));
}

TEST(TensorMatchTest, ABodyIsTakenWithoutItsHead) {
  const SafetensorsHeader file = File(Torch(0, 1, 4, 100));
  EXPECT_EQ(
      MatchTensors(file, Norms(), TakeRule::kAll).status().message(),
      "its tensor \"4.weight\" has shape [100,8], the model's has [10,8]");
  const auto match = MatchTensors(file, Norms(), TakeRule::kFitting);
  ASSERT_TRUE(match.ok()) << match.status();
  EXPECT_THAT(
      NamesOf(*match),
      ElementsAre(
          "0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "-", "-"));
  EXPECT_THAT(
      match->misfits,
      ElementsAre(
          "its tensor \"4.weight\" has shape [100,8], the model's has [10,8]",
          "its tensor \"4.bias\" has shape [100], the model's has [10]"));
}

TEST(TensorMatchTest, WhatFitsMayBeAPartOfBoth) {
  std::vector<TensorSpec> theirs = Norms();
  theirs.resize(2);
  theirs.push_back(Spec("9.linear.weight", {3, 3}));
  const SafetensorsHeader file = File(theirs);
  const auto match = MatchTensors(file, Norms(), TakeRule::kFitting);
  ASSERT_TRUE(match.ok()) << match.status();
  EXPECT_EQ(match->kind, MatchKind::kName);
  EXPECT_THAT(
      NamesOf(*match),
      ElementsAre("0.conv2d.weight", "0.conv2d.bias", "-", "-", "-", "-", "-", "-"));
  ASSERT_EQ(match->unused.size(), 1);
  EXPECT_EQ(match->unused[0]->name, "9.linear.weight");
}

TEST(TensorMatchTest, AFileOfWhichNothingFitsIsNoBeginning) {
  const std::string error =
      ErrorOf({Spec("0.conv2d.bias", {9})}, {Spec("0.conv2d.bias", {8})}, TakeRule::kFitting);
  EXPECT_THAT(error, HasSubstr("no tensor of it fits:"));
  EXPECT_THAT(error, HasSubstr("0.conv2d.bias [9]"));
}

TEST(TensorMatchTest, AnErrorListsTheFirstOfMany) {
  std::vector<TensorSpec> file;
  for (int i = 0; i < 40; ++i) {
    file.push_back(Spec("layer" + std::to_string(i) + "\x1b.weight", {1}));
  }
  const std::string error = ErrorOf(file, Norms());
  EXPECT_THAT(error, HasSubstr("and 28 more lines"));
  EXPECT_THAT(error, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace ps::checkpoint
