#include "ps/server/schedule.h"

#include <gtest/gtest.h>

namespace ps::server {
namespace {

proto::OptimizerConfig Config(proto::ScheduleKind kind) {
  proto::OptimizerConfig config;
  config.lr = 0.5F;
  config.schedule.kind = kind;
  return config;
}

TEST(ScheduleTest, ConstantStays) {
  const auto config = Config(proto::ScheduleKind::kConstant);
  for (const double fraction : {-1.0, 0.0, 0.3, 1.0, 2.0}) {
    EXPECT_EQ(ScheduledLr(config, fraction), 0.5F);
  }
}

TEST(ScheduleTest, StepMultipliesAtEveryMilestone) {
  auto config = Config(proto::ScheduleKind::kStep);
  config.schedule.step_factor = 0.5F;
  config.schedule.milestones = {0.25F, 0.75F};
  EXPECT_EQ(ScheduledLr(config, 0.249), 0.5F);
  EXPECT_EQ(ScheduledLr(config, 0.25), 0.25F);
  EXPECT_EQ(ScheduledLr(config, 0.7), 0.25F);
  EXPECT_EQ(ScheduledLr(config, 1), 0.125F);
}

TEST(ScheduleTest, CosineFallsToTheFinalFactor) {
  auto config = Config(proto::ScheduleKind::kCosine);
  config.schedule.final_factor = 0.2F;
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0), 0.5F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0.5), 0.5F * 0.6F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 1), 0.1F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 1.5), 0.1F);
}

TEST(ScheduleTest, LinearFallsToTheFinalFactor) {
  auto config = Config(proto::ScheduleKind::kLinear);
  config.schedule.final_factor = 0.5F;
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0), 0.5F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0.5), 0.375F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 1), 0.25F);
}

TEST(ScheduleTest, WarmUpRisesFromZeroAndTheCurveFillsTheRest) {
  auto config = Config(proto::ScheduleKind::kLinear);
  config.schedule.warmup = 0.5F;
  EXPECT_EQ(ScheduledLr(config, 0), 0);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0.25), 0.25F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0.5), 0.5F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0.75), 0.25F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 1), 0);
  config.schedule.kind = proto::ScheduleKind::kConstant;
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0.1), 0.1F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0.9), 0.5F);
}

}  // namespace
}  // namespace ps::server
