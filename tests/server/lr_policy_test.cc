#include "ps/server/lr_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ps/proto/state/shard_state.h"
#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using testing::ElementsAre;

constexpr proto::Mode kAsync = proto::Mode::kAsync;
constexpr proto::Mode kSsp = proto::Mode::kSsp;
constexpr proto::Mode kBsp = proto::Mode::kBsp;

LrPolicy PolicyOf(
    proto::LrPolicy kind,
    uint32_t ramp_steps = 0,
    bool overlap = false,
    proto::Mode mode = kAsync) {
  proto::JobConfig config;
  config.train.mode = mode;
  config.train.lr_policy = kind;
  config.train.lr_ramp_steps = ramp_steps;
  config.train.overlap = overlap;
  config.workers = {{.count = 3}, {.count = 1}};
  return LrPolicy(config);
}

TEST(LrPolicyTest, FollowsTheWorkersThatTakePartNotThoseThatAreConfigured) {
  const LrPolicy fixed = PolicyOf(proto::LrPolicy::kFixed);
  const LrPolicy linear = PolicyOf(proto::LrPolicy::kLinear);
  const LrPolicy sqrt_live = PolicyOf(proto::LrPolicy::kSqrtLive);
  EXPECT_EQ(fixed.Factor(kAsync, 9), 1);
  EXPECT_EQ(linear.Factor(kAsync, 4), 1);
  EXPECT_EQ(linear.Factor(kAsync, 6), 1.5);
  EXPECT_EQ(sqrt_live.Factor(kAsync, 1), 1);
  EXPECT_EQ(sqrt_live.Factor(kAsync, 16), 0.25) << "of 4 configured";
}

TEST(LrPolicyTest, ARampDoublesTheRateInSoManyStepsAndEndsAtTheTarget) {
  LrPolicy linear = PolicyOf(proto::LrPolicy::kLinear, 4);
  linear.OnStep(4);
  EXPECT_EQ(linear.state(), 1) << "the first step has no past";
  for (int i = 1; i <= 4; ++i) {
    EXPECT_NEAR(linear.Factor(kAsync, 8), std::exp2(i / 4.0), 1e-12);
    linear.OnStep(8);
  }
  linear.OnStep(8);
  EXPECT_EQ(linear.state(), 2);
  linear.OnStep(7);
  EXPECT_EQ(linear.state(), 1.75) << "near enough for one step";
}

/// A round of four workers makes one step with the mean of four gradients.
TEST(LrPolicyTest, InAModeOfTheOtherKindAllWorkersTogetherMoveTheParametersAsFar) {
  proto::JobConfig config;
  config.workers = {{.count = 3}, {.count = 1}};
  config.train.switch_momentum_factor = 0.75F;
  const LrPolicy async(config);
  EXPECT_EQ(async.Factor(kSsp, 4), 1);
  EXPECT_EQ(async.Factor(kBsp, 4), 4);
  EXPECT_EQ(async.MomentumFactor(kSsp, 4), 1);
  EXPECT_EQ(async.MomentumFactor(kBsp, 4), 0.75F);
  config.train.mode = kBsp;
  config.train.lr_policy = proto::LrPolicy::kStaleness;
  const LrPolicy bsp(config);
  EXPECT_EQ(bsp.Factor(kBsp, 4), 1);
  EXPECT_EQ(bsp.FactorOf(kAsync, 4, 2), 0.125);
  EXPECT_EQ(bsp.FactorOf(kSsp, 4, 0), 0.25);
  config.train.switch_lr_factor = 0.5F;
  EXPECT_EQ(LrPolicy(config).Factor(kAsync, 4), 0.5) << "the job says so";
}

/// Several workers' steps act like momentum, which is taken from the optimizer's; a gradient moves
/// the parameters 1/n times as far in all.
TEST(LrPolicyTest, LiveMakesTheRateAndTheMomentumOfOneProcessThoseOfMany) {
  proto::JobConfig config;
  config.workers = {{.count = 3}, {.count = 1}};
  config.train.lr_policy = proto::LrPolicy::kLive;
  config.train.overlap = false;
  config.optimizer.momentum = 0.9F;
  const LrPolicy live(config);
  EXPECT_EQ(live.Factor(kAsync, 1), 1);
  EXPECT_EQ(live.MomentumFactor(kAsync, 1), 1);
  for (const size_t workers : {2U, 4U, 32U}) {
    const double left = 0.9 * live.MomentumFactor(kSsp, workers);
    EXPECT_NEAR(left, std::max(1.0 / static_cast<double>(workers) - 0.1, 0.009), 1e-6);
    const double moved = live.Factor(kSsp, workers) / (1 - left);
    EXPECT_NEAR(moved, 10.0 / static_cast<double>(workers), 1e-4);
  }
  EXPECT_EQ(live.Factor(kBsp, 4), 1) << "the mean of the gradients, at the rate of one process";
  EXPECT_EQ(live.MomentumFactor(kBsp, 4), 1);
  config.train.overlap = true;
  EXPECT_EQ(LrPolicy(config).Factor(kAsync, 2), live.Factor(kAsync, 4)) << "a step older each";
  config.train.mode = kBsp;
  EXPECT_EQ(LrPolicy(config).Factor(kSsp, 4), live.Factor(kSsp, 4));
}

TEST(LrPolicyTest, ByItselfMomentumFollowsTheWorkersThatAreThere) {
  proto::JobConfig config;
  config.workers = {{.count = 4}};
  config.train.overlap = false;
  config.optimizer.momentum = 0.9F;
  EXPECT_LT(LrPolicy(config).MomentumFactor(kAsync, 4), 0.2F);
  config.train.local_steps = 8;
  EXPECT_EQ(LrPolicy(config).Factor(kAsync, 4), 1) << "the momentum is each worker's own";
  EXPECT_EQ(LrPolicy(config).MomentumFactor(kAsync, 4), 1);
}

/// With as many updates as workers between two uses of the momentum each of them counts by its
/// share; at the listed number a fleet that grew would add too much
/// (docs/measurements/training.md).
TEST(LrPolicyTest, ADelayedMomentumFollowsTheWorkersThatAreThere) {
  proto::JobConfig config;
  config.workers = {{.count = 2}};
  config.train.local_steps = 8;
  const LrPolicy delayed(config);
  EXPECT_EQ(delayed.EveryOf(kAsync, 6), 6U);
  EXPECT_EQ(delayed.EveryOf(kSsp, 1), 1U);
  EXPECT_EQ(delayed.EveryOf(kAsync, 0), 1U);
  EXPECT_EQ(delayed.EveryOf(kBsp, 6), 0U) << "as in the config";
  EXPECT_EQ(delayed.Factor(kAsync, 6), 1) << "each push is divided by them already";
  config.outer.every = 3;
  EXPECT_EQ(LrPolicy(config).EveryOf(kAsync, 6), 0U);
  EXPECT_EQ(LrPolicy(config).Factor(kAsync, 6), 1.0 / 3);
  config.outer = {.kind = proto::OuterKind::kHeloco};
  EXPECT_EQ(LrPolicy(config).EveryOf(kAsync, 6), 0U);
  EXPECT_EQ(LrPolicy(config).Factor(kAsync, 6), 1.0 / 3);
  config.outer = {};
  config.train.lr_policy = proto::LrPolicy::kFixed;
  EXPECT_EQ(LrPolicy(config).EveryOf(kAsync, 6), 0U);
}

/// Gradients of twice as many workers are twice as old: unless the rate is half of it, growing a
/// fleet makes the loss jump (docs/measurements/training.md).
TEST(LrPolicyTest, ByItselfTheRateIsForTheWorkersListedAndLessForMore) {
  proto::JobConfig config;
  config.workers = {{.count = 1}, {.count = 1}};
  const LrPolicy listed(config);
  for (const size_t workers : {0U, 1U, 2U}) {
    EXPECT_EQ(listed.Factor(kAsync, workers), 1) << workers;
  }
  EXPECT_EQ(listed.Factor(kAsync, 4), 0.5);
  EXPECT_EQ(listed.FactorOf(kSsp, 8, 3), 0.25);
  EXPECT_EQ(listed.Factor(kBsp, 8), 2) << "a round is one step with the mean of all gradients";
  EXPECT_EQ(listed.MomentumFactor(kAsync, 8), 1);
  config.optimizer.kind = proto::OptimizerKind::kAdam;
  EXPECT_EQ(LrPolicy(config).Factor(kAsync, 6), 1.0 / 3);
  config.train.mode = kBsp;
  EXPECT_EQ(LrPolicy(config).Factor(kBsp, 8), 1);
  config.train.mode = kAsync;
  config.workers = {{.count = 0}};
  EXPECT_EQ(LrPolicy(config).Factor(kAsync, 8), 1) << "who comes from elsewhere is not listed";
}

TEST(LrPolicyTest, AWorkerThatIsLostChangesRateAndMomentumOfTheNextPush) {
  ShardRig rig;
  proto::JobConfig config;
  config.train.lr_policy = proto::LrPolicy::kLive;
  config.train.overlap = false;
  config.optimizer.momentum = 0.75F;
  rig.settings.lr_policy = LrPolicy(config);
  rig.settings.optimizer.momentum = 0.75F;
  rig.setup.membership = rig.MembersUpTo(2);
  rig.SetUp();
  const auto value_is = [&rig](float value) {
    EXPECT_THAT(rig.Values(), testing::Each(testing::FloatNear(value, 1e-6F)));
  };
  rig.Push(rig.WholeStep(1, 1, 0.5F));
  value_is(0.25F);  // 1.5 times the rate
  rig.Push(rig.WholeStep(1, 2, 0));
  value_is(0.0625F);  // momentum 0.25
  rig.Deliver(kCoordinator, rig.MembersUpTo(1));
  rig.Push(rig.WholeStep(1, 3, 0));
  value_is(-0.03125F);  // those of the job
}

TEST(LrPolicyTest, AWorkerThatIsLostChangesWhenADelayedMomentumMoves) {
  ShardRig rig;
  proto::JobConfig config;
  config.workers = {{.count = 1}};
  config.optimizer.kind = proto::OptimizerKind::kDelayedNesterov;
  rig.settings.lr_policy = LrPolicy(config);
  rig.settings.optimizer.kind = proto::OptimizerKind::kDelayedNesterov;
  rig.settings.optimizer.momentum = 0.5F;
  rig.settings.optimizer.every = 1;
  rig.setup.membership = rig.MembersUpTo(2);
  rig.SetUp();
  const auto value_is = [&rig](float value) {
    EXPECT_THAT(rig.Values(), testing::Each(testing::FloatNear(value, 1e-6F)));
  };
  rig.Push(rig.WholeStep(1, 1, 0.5F));
  value_is(0.75F);  // half of the gradient; the momentum waits
  rig.Push(rig.WholeStep(1, 2, 0.5F));
  value_is(0.25F);  // the same, and half of the momentum, which is the mean of the two
  rig.Deliver(kCoordinator, rig.MembersUpTo(1));
  rig.Push(rig.WholeStep(1, 3, 0));
  value_is(0.125F);  // each update moves it
}

/// Two of three pushes are gathered when two workers are lost: they are a third each of what moves
/// the momentum, not the whole of it.
TEST(LrPolicyTest, WhatIsGatheredForADelayedMomentumIsDividedByThoseItWasGatheredOf) {
  ShardRig rig;
  proto::JobConfig config;
  config.workers = {{.count = 3}};
  config.optimizer.kind = proto::OptimizerKind::kDelayedNesterov;
  rig.settings.lr_policy = LrPolicy(config);
  rig.settings.optimizer.kind = proto::OptimizerKind::kDelayedNesterov;
  rig.settings.optimizer.momentum = 0.5F;
  rig.settings.optimizer.every = 3;
  rig.setup.membership = rig.MembersUpTo(3);
  rig.SetUp();
  rig.Push(rig.WholeStep(1, 1, 0.5F));
  rig.Push(rig.WholeStep(1, 2, 0.5F));
  rig.Deliver(kCoordinator, rig.MembersUpTo(1));
  const auto value_is = [&rig](float value) {
    EXPECT_THAT(rig.Values(), testing::Each(testing::FloatNear(value, 1e-6F)));
  };
  value_is(4 / 6.0F);
  rig.Push(rig.WholeStep(1, 3, 0));
  value_is(3 / 6.0F);  // half of the momentum, a third
  rig.Push(rig.WholeStep(1, 4, 0));
  value_is(2.5F / 6);  // it moves with each update now
}

TEST(LrPolicyTest, AStalePushIsDividedByTheStepsThatItMissed) {
  const LrPolicy policy = PolicyOf(proto::LrPolicy::kStaleness);
  EXPECT_EQ(policy.FactorOf(kAsync, 4, 0), 1);
  EXPECT_EQ(policy.FactorOf(kAsync, 4, 1), 1);
  EXPECT_EQ(policy.FactorOf(kAsync, 4, 8), 0.125);
  EXPECT_EQ(PolicyOf(proto::LrPolicy::kFixed).FactorOf(kAsync, 4, 8), 1);
}

TEST(LrPolicyTest, AShardCountsWhatAWorkerMissedFromItsLastPullOn) {
  ShardRig rig;
  rig.settings.lr_policy = PolicyOf(proto::LrPolicy::kStaleness);
  rig.SetUp();
  rig.Pull(rig.PullAll(1));
  for (uint32_t step = 1; step <= 4; ++step) {
    rig.Push(rig.WholeStep(2, step, 0));
  }
  rig.Push(rig.WholeStep(1, 1, 0.5F));
  EXPECT_THAT(rig.Values(), ElementsAre(0.875F, 0.875F, 0.875F));
  rig.Pull(rig.PullAll(1));
  rig.Push(rig.WholeStep(1, 2, 0.5F));
  EXPECT_THAT(rig.Values(), ElementsAre(0.375F, 0.375F, 0.375F)) << "nothing was missed";
}

TEST(LrPolicyTest, AShardReportsHowStaleTheParametersOfEachWorkersPushesWere) {
  ShardRig rig;
  rig.SetUp();
  for (Step step = 1; step <= 60; ++step) {
    rig.Pull(rig.PullAll(1));
    rig.Push(rig.WholeStep(2, 2 * step - 1, 0));
    rig.Push(rig.WholeStep(2, 2 * step, 0));
    rig.Push(rig.WholeStep(1, step, 0));
    rig.Pull(rig.PullAll(2));
  }
  const std::vector<proto::WorkerAtShard> workers = rig.core.Stats().workers;
  EXPECT_EQ(workers[0].worker, WorkerId(0));
  EXPECT_NEAR(workers[0].staleness, 2, 0.1) << "the two steps of the other";
  EXPECT_NEAR(workers[1].staleness, 0.5, 0.1) << "none, and its own, which it had not read";
}

TEST(LrPolicyTest, WithOverlapAPushWasComputedFromTheAnswerBeforeTheLast) {
  ShardRig rig;
  rig.settings.lr_policy = PolicyOf(proto::LrPolicy::kStaleness, 0, true);
  rig.SetUp();
  rig.Pull(rig.PullAll(1));
  rig.Push(rig.WholeStep(2, 1, 0));
  rig.Push(rig.WholeStep(2, 2, 0));
  rig.Pull(rig.PullAll(1));
  rig.Push(rig.WholeStep(1, 1, 0.5F));
  EXPECT_THAT(rig.Values(), ElementsAre(0.75F, 0.75F, 0.75F));
}

TEST(LrPolicyTest, ALostWorkerChangesTheRateOfTheNextPush) {
  ShardRig rig;
  rig.settings.lr_policy = PolicyOf(proto::LrPolicy::kSqrtLive);
  rig.setup.membership = rig.MembersUpTo(4);
  rig.SetUp();
  rig.Push(rig.WholeStep(1, 1, 0.5F));
  EXPECT_THAT(rig.Values(), ElementsAre(0.75F, 0.75F, 0.75F));
  rig.Deliver(kCoordinator, rig.MembersUpTo(1));
  rig.Push(rig.WholeStep(1, 2, 0.5F));
  EXPECT_THAT(rig.Values(), ElementsAre(0.25F, 0.25F, 0.25F));
  rig.Push(rig.WholeStep(1, 2, 0.5F));
  EXPECT_THAT(rig.Values(), ElementsAre(0.25F, 0.25F, 0.25F)) << "once";
}

TEST(LrPolicyTest, ARoundsRateFollowsItsContributions) {
  ShardRig rig(kBsp);
  rig.settings.lr_policy = PolicyOf(proto::LrPolicy::kLinear, 0, false, kBsp);
  rig.SetUp();
  const auto contribute = [&rig](uint64_t incarnation, Step step, uint64_t round) {
    proto::PushRequest push = rig.WholeStep(incarnation, step, 1);
    push.round = round;
    rig.Push(push);
  };
  contribute(1, 1, 1);
  contribute(2, 1, 1);
  rig.Deliver(
      kCoordinator,
      proto::CommitRound{
          1, {{WorkerId(0), Incarnation(1), 1, 1}, {WorkerId(1), Incarnation(2), 1, 1}}});
  EXPECT_THAT(rig.Values(), ElementsAre(0.5F, 0.5F, 0.5F)) << "two of four: half the rate";
  contribute(1, 2, 2);
  rig.Deliver(kCoordinator, proto::CommitRound{2, {{WorkerId(0), Incarnation(1), 2, 1}}});
  EXPECT_THAT(rig.Values(), ElementsAre(0.25F, 0.25F, 0.25F)) << "one of four";
}

TEST(LrPolicyTest, ARampGoesOnFromACheckpoint) {
  ShardRig rig;
  rig.settings.checkpoints.path = "path";
  rig.settings.lr_policy = PolicyOf(proto::LrPolicy::kLinear, 1);
  rig.setup.membership = rig.MembersUpTo(1);
  rig.SetUp();
  rig.Push(rig.WholeStep(1, 1, 0));  // a quarter of the rate
  rig.Deliver(kCoordinator, proto::CheckpointRequest{1, 0, {}});
  rig.RunDisk();
  proto::ShardSetup later = rig.setup;
  later.life = 2;
  later.restore = {1, kShard.value + 1};
  later.membership = rig.MembersUpTo(4);
  rig.Deliver(kCoordinator, later);
  rig.RunDisk();
  rig.Push(rig.WholeStep(2, 1, 0.5F));
  EXPECT_THAT(rig.Values(), ElementsAre(0.75F, 0.75F, 0.75F)) << "twice a quarter, not all of it";
}

TEST(LrPolicyTest, ASavedFactorThatIsNoneIsCorrupt) {
  proto::ShardState state;
  state.lr_factor = 0.75;
  const auto back = proto::DecodeShardState(proto::EncodeShardState(state));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->lr_factor, 0.75);
  state.lr_factor = std::nan("");
  EXPECT_EQ(
      proto::DecodeShardState(proto::EncodeShardState(state)).status().code(),
      StatusCode::kCorruption);
}

}  // namespace
}  // namespace ps::server
