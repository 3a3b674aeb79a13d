#include <gtest/gtest.h>

#include "ps/server/shard_settings.h"

namespace ps::server {
namespace {

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
  EXPECT_EQ(settings->reference_samples, 32U);
  EXPECT_EQ(settings->frame_bytes, uint64_t{64} << 10);
  EXPECT_EQ(settings->queue_bytes, uint64_t{3} << 20);
  EXPECT_EQ(settings->checkpoints.format.codec, checkpoint::Codec::kNone);
  EXPECT_EQ(settings->checkpoints.format.slots, checkpoint::SlotType::kBf16);
  EXPECT_EQ(settings->checkpoints.bytes_per_s, uint64_t{3} << 19);
  EXPECT_EQ(settings->timing.detect, std::chrono::milliseconds(1500));
}

TEST(ShardSettingsTest, WithLocalStepsTheOuterRuleIsTheServers) {
  proto::JobConfig config;
  config.name = "job";
  config.model.name = "mlp";
  config.data.directory = "/not/on/this/machine";
  config.train.mode = proto::Mode::kBsp;
  config.train.minibatch = 32;
  config.train.local_steps = 10;
  config.optimizer.kind = proto::OptimizerKind::kAdamw;
  config.workers.resize(1);
  const Result<ShardSettings> settings = ShardSettings::Read(proto::PrintJobConfig(config));
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->optimizer.kind, proto::OptimizerKind::kSgd);
  EXPECT_TRUE(settings->optimizer.nesterov);
  EXPECT_EQ(settings->reference_samples, 32U) << "a push says how many minibatches it is for";
}

}  // namespace
}  // namespace ps::server
