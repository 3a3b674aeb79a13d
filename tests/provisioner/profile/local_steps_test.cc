#include "provisioner/profile/local_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ps/proto/limits.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

proto::WorkerRow RowOf(uint32_t minibatch, uint64_t samples) {
  proto::WorkerRow row;
  row.minibatch = minibatch;
  row.samples_counted = samples;
  return row;
}

TEST(LocalStepsTest, MinibatchesAreCountedBySamplesWhereStepsHaveSeveral) {
  proto::JobStatus status;
  status.steps_counted = 100;
  status.samples_counted = 32'000;
  EXPECT_EQ(MinibatchesCounted(status, 1), 100) << "a short last one is one, too";
  EXPECT_EQ(MinibatchesCounted(status, 8), 800) << "no worker says of how many samples";
  status.workers = {RowOf(32, 16'000), RowOf(64, 6400)};
  // Of rows that left, the mean of those that are known.
  EXPECT_NEAR(MinibatchesCounted(status, 8), (500 + 100) * 32'000.0 / 22'400, 1e-6);
}

TEST(LocalStepsTest, AWorkersMinibatchesAreThoseBehindItsSteps) {
  proto::WorkerStats stats;
  stats.steps = 7;
  stats.samples = 7 * 8 * 32 - 96;  // one round was cut short
  EXPECT_EQ(MinibatchesOf(stats, 32, 8), 53);
  EXPECT_EQ(MinibatchesOf(stats, 32, 1), 7);
}

TEST(LocalStepsTest, AJobWithoutThemHasNoOuterOptimizer) {
  proto::JobConfig job;
  job.train.local_steps = 8;
  job.train.local_steps_by_speed = true;
  job.train.overlap = false;
  job.outer.momentum = 0.5F;
  const auto single = WithLocalSteps(job, 1);
  ASSERT_TRUE(single.ok());
  EXPECT_EQ(single->train.local_steps, 1U);
  EXPECT_FALSE(single->train.local_steps_by_speed);
  EXPECT_EQ(single->outer, proto::OuterConfig{});
  job = {};
  job.train.overlap = true;
  const auto several = WithLocalSteps(job, 50);
  ASSERT_TRUE(several.ok());
  EXPECT_EQ(several->train.local_steps, 50U);
  EXPECT_FALSE(several->train.overlap);
  job.train.minibatch = proto::kStepSamplesMax / 10;
  EXPECT_THAT(WithLocalSteps(job, 50).status().message(), HasSubstr("allowed: up to 10"));
}

/// Falls as 1 / samples from 1 on, a point each `step`; `slower` times as many samples to a loss.
std::vector<LossAt> CurveOf(double slower, double step, double end) {
  std::vector<LossAt> curve;
  for (double at = step; at <= end; at += step) {
    curve.push_back({at, 100 * slower / at});
  }
  return curve;
}

TEST(LocalStepsTest, SamplesToALossAreComparedWhereBothCurvesAre) {
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

TEST(LocalStepsTest, CurvesThatTellNothingAreRefused) {
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

TEST(LocalStepsTest, PenaltiesBetweenMeasuredOnesArePowersAndOthersAreNotKnown) {
  proto::JobProfile profile;
  EXPECT_THAT(PenaltyOf(profile, 1, "async"), Optional(1.0)) << "its own";
  EXPECT_FALSE(PenaltyOf(profile, 2, "async").has_value());
  profile.penalties = {
      {.local_steps = 8, .mode = "async", .samples = 1.1},
      {.local_steps = 50, .mode = "bsp", .samples = 2}};
  EXPECT_THAT(PenaltyOf(profile, 8, "async"), Optional(1.1));
  EXPECT_NEAR(PenaltyOf(profile, 4, "async").value(), std::pow(1.1, 2.0 / 3), 1e-12);
  EXPECT_FALSE(PenaltyOf(profile, 50, "async").has_value()) << "of another mode";
  EXPECT_FALSE(PenaltyOf(profile, 16, "async").has_value()) << "beyond all that was measured";
  profile.local_steps = 8;
  profile.penalties = {{.local_steps = 50, .mode = "async", .samples = 1.2}};
  EXPECT_FALSE(PenaltyOf(profile, 1, "async").has_value());
  EXPECT_GT(PenaltyOf(profile, 16, "async").value(), 1);
}

}  // namespace
}  // namespace ps::provisioner
