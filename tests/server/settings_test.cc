#include <gtest/gtest.h>

#include "ps/server/shard_settings.h"

namespace ps::server {
namespace {

proto::OptimizerConfig Config(proto::ScheduleKind kind) {
  proto::OptimizerConfig config;
  config.lr = 0.5F;
  config.schedule.kind = kind;
  return config;
}

TEST(ShardSettingsTest, AreReadFromTheConfigThatWorkersGet) {
  proto::JobConfig config;
  config.name = "job";
  config.model.name = "mlp";
  config.data.directory = "/not/on/this/machine";
  config.train.seed = 7;
  config.train.mode = proto::Mode::kSsp;
  config.train.staleness_max = 5;
  config.train.minibatch = 32;
  config.servers.frame_kib = 64;
  config.servers.queue_mib = 3;
  config.fleet.max_detect_s = 1.5F;
  config.workers.resize(1);
  config.checkpoint.codec = proto::CheckpointCodec::kNone;
  config.checkpoint.slots = proto::CheckpointSlots::kBf16;
  config.checkpoint.write_mib_per_s = 1.5F;
  config.optimizer.kind = proto::OptimizerKind::kAdamw;
  config.optimizer.lr = 0.025F;
  config.optimizer.schedule.kind = proto::ScheduleKind::kStep;
  config.optimizer.schedule.milestones = {0.25F, 0.5F};
  const Result<ShardSettings> settings = ShardSettings::Read(proto::PrintJobConfig(config));
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->seed, 7U);
  EXPECT_EQ(settings->optimizer, config.optimizer);
  EXPECT_EQ(settings->reference_minibatch, 32U);
  EXPECT_EQ(settings->frame_bytes, uint64_t{64} << 10);
  EXPECT_EQ(settings->queue_bytes, uint64_t{3} << 20);
  EXPECT_EQ(settings->checkpoints.format.codec, checkpoint::Codec::kNone);
  EXPECT_EQ(settings->checkpoints.format.slots, checkpoint::SlotType::kBf16);
  EXPECT_EQ(settings->checkpoints.bytes_per_s, uint64_t{3} << 19);
  EXPECT_EQ(settings->timing.detect, std::chrono::milliseconds(1500));
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
