#include "ps/proto/job/optimizer_rules.h"

#include <gtest/gtest.h>

namespace ps::proto {
namespace {

JobConfig LocalJob(Mode mode) {
  JobConfig config;
  config.train.mode = mode;
  config.train.local_steps = 8;
  config.workers.resize(2);
  config.workers[0].count = 3;
  config.optimizer.kind = OptimizerKind::kAdamw;
  config.optimizer.weight_decay = 0.1F;
  config.optimizer.clip_value = 1;
  return config;
}

TEST(OptimizerRulesTest, WithoutLocalStepsTheServersHaveTheJobs) {
  JobConfig config = LocalJob(Mode::kBsp);
  config.train.local_steps = 1;
  EXPECT_EQ(ServerOptimizer(config), config.optimizer);
  EXPECT_EQ(LocalOptimizer(config), config.optimizer);
}

TEST(OptimizerRulesTest, RoundsAreDilocosAndPushesOfAnyTimeDelayed) {
  const OptimizerConfig round = ServerOptimizer(LocalJob(Mode::kBsp));
  EXPECT_EQ(round.kind, OptimizerKind::kSgd);
  EXPECT_TRUE(round.nesterov);
  EXPECT_EQ(round.lr, 0.7F);
  EXPECT_EQ(round.momentum, 0.9F);
  EXPECT_EQ(round.weight_decay, 0) << "the worker's rule has it";
  EXPECT_EQ(round.clip_value, 0);
  for (const Mode mode : {Mode::kAsync, Mode::kSsp}) {
    const OptimizerConfig delayed = ServerOptimizer(LocalJob(mode));
    EXPECT_EQ(delayed.kind, OptimizerKind::kDelayedNesterov);
    EXPECT_EQ(delayed.every, 4U) << "the workers listed";
    EXPECT_EQ(delayed.lr, 0.3F);
  }
  EXPECT_EQ(LocalOptimizer(LocalJob(Mode::kBsp)), LocalJob(Mode::kBsp).optimizer);
}

TEST(OptimizerRulesTest, HelocoDividesByTheRootOfTheWorkersWhereTheyDoNotWait) {
  for (const Mode mode : {Mode::kAsync, Mode::kSsp, Mode::kBsp}) {
    JobConfig config = LocalJob(mode);
    config.outer.kind = OuterKind::kHeloco;
    const OptimizerConfig rule = ServerOptimizer(config);
    EXPECT_EQ(rule.kind, OptimizerKind::kHeloco);
    EXPECT_EQ(rule.momentum, 0.9F);
    EXPECT_FLOAT_EQ(rule.lr, mode == Mode::kBsp ? 0.7F : 0.35F) << "4 workers are listed";
    config.outer.lr = 0.5F;
    EXPECT_EQ(ServerOptimizer(config).lr, 0.5F);
  }
}

TEST(OptimizerRulesTest, WhatIsGivenStands) {
  JobConfig config = LocalJob(Mode::kAsync);
  config.outer = {.kind = OuterKind::kDelayedNesterov, .lr = 0.3F, .momentum = 0.8F, .every = 7};
  const OptimizerConfig rule = ServerOptimizer(config);
  EXPECT_EQ(rule.lr, 0.3F);
  EXPECT_EQ(rule.momentum, 0.8F);
  EXPECT_EQ(rule.every, 7U);
}

TEST(OptimizerRulesTest, SgdWithoutMomentumAverages) {
  JobConfig config = LocalJob(Mode::kBsp);
  config.outer.kind = OuterKind::kSgd;
  EXPECT_EQ(ServerOptimizer(config).lr, 0.7F);
  config.outer.momentum = 0;
  EXPECT_EQ(ServerOptimizer(config).lr, 1);
  EXPECT_FALSE(ServerOptimizer(config).nesterov);
}

TEST(OptimizerRulesTest, ADelayedNesterovOfTheJobIsOfTheWorkersListed) {
  JobConfig config = LocalJob(Mode::kAsync);
  config.train.local_steps = 1;
  config.optimizer.kind = OptimizerKind::kDelayedNesterov;
  EXPECT_EQ(ServerOptimizer(config).every, 4U);
  config.workers.clear();
  EXPECT_EQ(ServerOptimizer(config).every, 1U);
}

OptimizerConfig Config(ScheduleKind kind) {
  OptimizerConfig config;
  config.lr = 0.5F;
  config.schedule.kind = kind;
  return config;
}

TEST(ScheduleTest, ConstantStays) {
  const auto config = Config(ScheduleKind::kConstant);
  for (const double fraction : {-1.0, 0.0, 0.3, 1.0, 2.0}) {
    EXPECT_EQ(ScheduledLr(config, fraction), 0.5F);
  }
}

TEST(ScheduleTest, StepMultipliesAtEveryMilestone) {
  auto config = Config(ScheduleKind::kStep);
  config.schedule.step_factor = 0.5F;
  config.schedule.milestones = {0.25F, 0.75F};
  EXPECT_EQ(ScheduledLr(config, 0.249), 0.5F);
  EXPECT_EQ(ScheduledLr(config, 0.25), 0.25F);
  EXPECT_EQ(ScheduledLr(config, 0.7), 0.25F);
  EXPECT_EQ(ScheduledLr(config, 1), 0.125F);
}

TEST(ScheduleTest, CosineFallsToTheFinalFactor) {
  auto config = Config(ScheduleKind::kCosine);
  config.schedule.final_factor = 0.2F;
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0), 0.5F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0.5), 0.5F * 0.6F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 1), 0.1F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 1.5), 0.1F);
}

TEST(ScheduleTest, LinearFallsToTheFinalFactor) {
  auto config = Config(ScheduleKind::kLinear);
  config.schedule.final_factor = 0.5F;
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0), 0.5F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0.5), 0.375F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 1), 0.25F);
}

TEST(ScheduleTest, WarmUpRisesFromZeroAndTheCurveFillsTheRest) {
  auto config = Config(ScheduleKind::kLinear);
  config.schedule.warmup = 0.5F;
  EXPECT_EQ(ScheduledLr(config, 0), 0);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0.25), 0.25F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0.5), 0.5F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0.75), 0.25F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 1), 0);
  config.schedule.kind = ScheduleKind::kConstant;
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0.1), 0.1F);
  EXPECT_FLOAT_EQ(ScheduledLr(config, 0.9), 0.5F);
}

}  // namespace
}  // namespace ps::proto
