#include "provisioner/profile/exchange_penalty.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

/// Falls as 1 / samples from 1 on, a point each `step`; `slower` times as many samples to a loss.
std::vector<LossAt> CurveOf(double slower, double step, double end) {
  std::vector<LossAt> curve;
  for (double at = step; at <= end; at += step) {
    curve.push_back({at, 100 * slower / at});
  }
  return curve;
}

TEST(ExchangePenaltyTest, SamplesToALossAreComparedWhereBothCurvesAre) {
  const std::vector<LossAt> reference = CurveOf(1, 10, 2000);
  const Result<double> slower = SamplesRatio(reference, CurveOf(1.2, 50, 1900));
  ASSERT_TRUE(slower.ok()) << slower.status();
  EXPECT_NEAR(*slower, 1.2, 0.02);
  const Result<double> faster = SamplesRatio(reference, CurveOf(0.9, 100, 3000));
  ASSERT_TRUE(faster.ok()) << faster.status();
  EXPECT_NEAR(*faster, 0.9, 0.02);
  EXPECT_NEAR(SamplesRatio(reference, CurveOf(5, 10, 2000)).value(), 5, 0.05) << "however far";
  EXPECT_NEAR(SamplesRatio(reference, reference).value(), 1, 1e-9);
}

TEST(ExchangePenaltyTest, CurvesThatTellNothingAreRefused) {
  const std::vector<LossAt> reference = CurveOf(1, 10, 2000);
  EXPECT_THAT(SamplesRatio(reference, {}).status().message(), HasSubstr("fewer than 5 points"));
  std::vector<LossAt> flat = reference;
  for (LossAt& point : flat) {
    point.loss = 2.3;
  }
  EXPECT_THAT(SamplesRatio(reference, flat).status().message(), HasSubstr("no loss is on the way"));
  for (LossAt& point : flat) {
    point.loss = 0.01;
  }
  EXPECT_FALSE(SamplesRatio(reference, flat).ok()) << "it begins below";
}

TEST(ExchangePenaltyTest, PenaltiesBetweenMeasuredOnesArePowersAndOthersAreNotKnown) {
  proto::JobProfile profile;
  EXPECT_THAT(PenaltyOf(profile, {1, "f32", "f32"}, "async"), Optional(1.0)) << "its own";
  EXPECT_FALSE(PenaltyOf(profile, {2, "f32", "f32"}, "async").has_value());
  profile.penalties = {
      {.local_steps = 8, .mode = "async", .samples = 1.1},
      {.local_steps = 50, .mode = "bsp", .samples = 2}};
  EXPECT_THAT(PenaltyOf(profile, {8, "f32", "f32"}, "async"), Optional(1.1));
  EXPECT_NEAR(
      PenaltyOf(profile, {4, "f32", "f32"}, "async").value(), std::pow(1.1, 2.0 / 3), 1e-12);
  EXPECT_FALSE(PenaltyOf(profile, {50, "f32", "f32"}, "async").has_value()) << "of another mode";
  EXPECT_FALSE(PenaltyOf(profile, {16, "f32", "f32"}, "async").has_value())
      << "beyond all that was measured";
  profile.local_steps = 8;
  profile.penalties = {{.local_steps = 50, .mode = "async", .samples = 1.2}};
  EXPECT_FALSE(PenaltyOf(profile, {1, "f32", "f32"}, "async").has_value());
  EXPECT_GT(PenaltyOf(profile, {16, "f32", "f32"}, "async").value(), 1);
}

TEST(ExchangePenaltyTest, EncodingsCostAFactorBesideLocalSteps) {
  proto::JobProfile profile;
  profile.penalties = {
      {.local_steps = 8, .mode = "async", .samples = 1.1},
      {.local_steps = 50, .mode = "async", .samples = 1.3},
      {.local_steps = 8, .push = "int8", .mode = "async", .samples = 1.1 * 1.05},
      {.local_steps = 50, .push = "int8", .mode = "async", .samples = 1.3 * 1.2},
      {.local_steps = 8, .push = "int4", .mode = "bsp", .samples = 3}};
  EXPECT_THAT(PenaltyOf(profile, {8, "int8", "f32"}, "async"), Optional(1.1 * 1.05)) << "measured";
  EXPECT_NEAR(PenaltyOf(profile, {1, "int8", "f32"}, "async").value(), 1.05, 1e-12)
      << "the factor of the nearest";
  const double share = std::log(20.0 / 8) / std::log(50.0 / 8);
  EXPECT_NEAR(
      PenaltyOf(profile, {20, "int8", "f32"}, "async").value(),
      PenaltyOf(profile, {20, "f32", "f32"}, "async").value() * 1.05 * std::pow(1.2 / 1.05, share),
      1e-12);
  EXPECT_FALSE(PenaltyOf(profile, {100, "int8", "f32"}, "async").has_value()) << "nobody knows H";
  EXPECT_FALSE(PenaltyOf(profile, {8, "int8", "bf16"}, "async").has_value()) << "another pull";
  EXPECT_FALSE(PenaltyOf(profile, {8, "int4", "f32"}, "async").has_value()) << "another mode";
  EXPECT_THAT(PenaltyOf(profile, {8, "int4", "f32"}, "bsp"), Optional(3.0))
      << "measured, although of 8 local steps alone nothing is known";
  EXPECT_FALSE(PenaltyOf(profile, {1, "int4", "f32"}, "bsp").has_value());
}

TEST(ExchangePenaltyTest, AProfileOfEncodingsKnowsItsOwn) {
  proto::JobProfile profile;
  profile.push = "int8";
  profile.penalties = {
      {.local_steps = 8, .mode = "async", .samples = 1.2},
      {.local_steps = 1, .push = "f32", .mode = "async", .samples = 0.9}};
  EXPECT_THAT(PenaltyOf(profile, {1, "int8", "f32"}, "async"), Optional(1.0));
  EXPECT_THAT(PenaltyOf(profile, {8, "int8", "f32"}, "async"), Optional(1.2));
  EXPECT_NEAR(PenaltyOf(profile, {8, "f32", "f32"}, "async").value(), 1.2 * 0.9, 1e-12);
}

TEST(ExchangePenaltyTest, ATextNamesWhatDiffers) {
  const proto::ExchangeScheme usual;
  EXPECT_EQ(proto::SchemeText(usual, usual), "1 local step");
  EXPECT_EQ(proto::SchemeText({8, "f32", "f32"}, usual), "8 local steps");
  EXPECT_EQ(proto::SchemeText({1, "int8", "f32"}, usual), "push int8");
  EXPECT_EQ(proto::SchemeText({8, "int8", "bf16"}, usual), "8 local steps, push int8, pull bf16");
}

}  // namespace
}  // namespace ps::provisioner
