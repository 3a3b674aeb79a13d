#include "ps/server/lr_schedule.h"

#include <gtest/gtest.h>

namespace ps::server {
namespace {

ShardSettings Settings() {
  proto::JobConfig config;
  config.train.lr_policy = proto::LrPolicy::kLinear;
  config.train.minibatch = 4;
  config.optimizer.lr = 0.5F;
  config.optimizer.schedule.kind = proto::ScheduleKind::kLinear;
  config.train.lr_ramp_steps = 16;
  config.workers.resize(2);
  return ShardSettings::Of(config);
}

TEST(LrScheduleTest, APushCountsItsSamplesByTheReferenceMinibatch) {
  LrSchedule schedule;
  ShardSettings settings = Settings();
  settings.lr_policy = LrPolicy();
  schedule.Begin(settings, 1000);
  EXPECT_FLOAT_EQ(schedule.PushRate(proto::Mode::kAsync, 1, {4, 1}, 0), 0.5F);
  EXPECT_FLOAT_EQ(schedule.PushRate(proto::Mode::kAsync, 1, {2, 1}, 0), 0.25F);
  schedule.Count(500, 1);
  const float final_factor = settings.optimizer.schedule.final_factor;
  EXPECT_FLOAT_EQ(
      schedule.PushRate(proto::Mode::kAsync, 1, {4, 1}, 0), 0.5F * (1 + final_factor) / 2);
}

TEST(LrScheduleTest, APushCountsByTheLocalStepsOfItsOwnLease) {
  LrSchedule schedule;
  ShardSettings settings = Settings();
  settings.lr_policy = LrPolicy();
  schedule.Begin(settings, 1000);
  EXPECT_FLOAT_EQ(schedule.PushRate(proto::Mode::kAsync, 1, {40, 10}, 0), 0.5F);
  EXPECT_FLOAT_EQ(schedule.PushRate(proto::Mode::kAsync, 1, {40, 20}, 0), 0.25F) << "half of it";
  EXPECT_FLOAT_EQ(schedule.PushRate(proto::Mode::kAsync, 1, {80, 20}, 0), 0.5F);
}

TEST(LrScheduleTest, WhoHasWhatAnotherOneRemembersGoesOnWithTheSameRates) {
  LrSchedule schedule;
  schedule.Begin(Settings(), 1000);
  for (uint32_t workers : {1U, 2U, 4U, 4U}) {
    schedule.Count(50, workers);
  }
  LrSchedule other;
  other.Begin(Settings(), 1000);
  EXPECT_NE(other.Rate(proto::Mode::kBsp, 3), schedule.Rate(proto::Mode::kBsp, 3));
  other.Restore(schedule.samples_done(), schedule.policy().state());
  EXPECT_EQ(other.Rate(proto::Mode::kBsp, 3), schedule.Rate(proto::Mode::kBsp, 3));
  schedule.Count(10, 0);
  EXPECT_EQ(schedule.policy().state(), other.policy().state()) << "nobody made that step";
}

TEST(LrScheduleTest, AnObservationHasTheMinibatchesOfItsSamples) {
  ShardSettings settings;
  settings.reference_samples = 16;
  LrSchedule schedule;
  schedule.Begin(settings, 1000);
  EXPECT_EQ(schedule.ObservedSteps({2, 50}), 1U);
  EXPECT_EQ(schedule.ObservedSteps({40, 50}), 3U);
  EXPECT_EQ(schedule.ObservedSteps({800, 50}), 50U);
  EXPECT_EQ(schedule.ObservedSteps({1600, 50}), 50U) << "a worker with larger minibatches";
  EXPECT_EQ(schedule.ObservedSteps({32, 1}), 1U);
}

}  // namespace
}  // namespace ps::server
