#include "ps/proto/job/tensor_treatment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ps::proto {
namespace {

using ::testing::HasSubstr;

TensorSpec Spec(std::string name, bool decays = false, UpdateRule rule = UpdateRule::kOptimizer) {
  TensorSpec spec;
  spec.name = std::move(name);
  spec.shape = {2};
  spec.has_weight_decay = decays;
  spec.rule = rule;
  return spec;
}

ParameterGroup Group(std::vector<std::string> match) {
  ParameterGroup group;
  group.match = std::move(match);
  return group;
}

bool IsOf(const char* pattern, const char* name) {
  ParameterGroup group = Group({pattern});
  group.frozen = true;
  const std::vector<ParameterGroup> groups = {group};
  return TreatmentOf(groups, Spec(name)).is_frozen;
}

TEST(TensorTreatmentTest, AStarStandsForAnyText) {
  EXPECT_TRUE(IsOf("0.conv2d.weight", "0.conv2d.weight"));
  EXPECT_TRUE(IsOf("0.*", "0.conv2d.weight"));
  EXPECT_TRUE(IsOf("*.bias", "12.linear.bias"));
  EXPECT_TRUE(IsOf("*", "a"));
  EXPECT_TRUE(IsOf("a*b*c", "aXbbXc"));
  EXPECT_TRUE(IsOf("a**", "a"));
  EXPECT_FALSE(IsOf("0.*", "10.linear.bias"));
  EXPECT_FALSE(IsOf("*.bias", "12.linear.bias.more"));
  EXPECT_FALSE(IsOf("a*b*c", "aXbXcX"));
  EXPECT_FALSE(IsOf("", "a"));
}

TEST(TensorTreatmentTest, TheFirstGroupCounts) {
  ParameterGroup slow = Group({"0.*"});
  slow.lr_factor = 0.1F;
  ParameterGroup bare = Group({"*"});
  bare.weight_decay = DecayUse::kOff;
  const std::vector<ParameterGroup> groups = {slow, bare};
  EXPECT_EQ(
      TreatmentOf(groups, Spec("0.w", true)),
      (TensorTreatment{.lr_factor = 0.1F, .has_weight_decay = true}));
  EXPECT_EQ(TreatmentOf(groups, Spec("1.w", true)), TensorTreatment());
  EXPECT_TRUE(TreatmentOf({}, Spec("1.w", true)).has_weight_decay);
}

TEST(TensorTreatmentTest, DecayCanBeForBiasesToo) {
  ParameterGroup group = Group({"*"});
  group.weight_decay = DecayUse::kOn;
  const std::vector<ParameterGroup> groups = {group};
  EXPECT_TRUE(TreatmentOf(groups, Spec("b")).has_weight_decay);
}

TEST(TensorTreatmentTest, APatternOfNothingAndAModelOfNothingAreErrors) {
  const std::vector<TensorSpec> model = {
      Spec("0.linear.weight"), Spec("1.mean", false, UpdateRule::kAverage)};
  EXPECT_THAT(
      std::string(CheckGroups(std::vector{Group({"0.linear.wieght"})}, model).message()),
      HasSubstr("parameters[0].match: the model has no tensor \"0.linear.wieght\"; did you mean "
                "0.linear.weight?"));
  ParameterGroup frozen = Group({"0.*"});
  frozen.frozen = true;
  EXPECT_THAT(
      std::string(CheckGroups(std::vector{frozen}, model).message()),
      HasSubstr("all tensors are frozen"));
  EXPECT_TRUE(CheckGroups(std::vector{Group({"0.*"})}, model).ok());
  EXPECT_TRUE(CheckGroups({}, {}).ok());
}

}  // namespace
}  // namespace ps::proto
