#include "provisioner/profile/local_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/proto/limits.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;

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

TEST(LocalStepsTest, AnExchangeIsLocalStepsAndEncodings) {
  proto::JobConfig job;
  job.train.overlap = true;
  EXPECT_EQ(SchemeOf(job), (proto::ExchangeScheme{1, "f32", "f32"}));
  const auto changed = WithScheme(job, {8, "int8", "bf16"});
  ASSERT_TRUE(changed.ok());
  EXPECT_EQ(SchemeOf(*changed), (proto::ExchangeScheme{8, "int8", "bf16"}));
  EXPECT_FALSE(changed->train.overlap);
  EXPECT_TRUE(WithScheme(job, {1, "int8", "f32"})->train.overlap) << "only bits are fewer";
  job.exchange.push = proto::kAutoWord;
  EXPECT_EQ(SchemeOf(job).push, "f32") << "it begins with that";
  EXPECT_EQ(WithScheme(job, SchemeOf(job))->exchange.push, proto::kAutoWord) << "it stays chosen";
}

}  // namespace
}  // namespace ps::provisioner
