#include "provisioner/profile/share_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ps/proto/job/optimizer_rules.h"
#include "ps/server/lr_policy.h"

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;

proto::JobConfig EightWorkers(proto::Mode mode) {
  proto::JobConfig job;
  job.name = "job";
  job.train.mode = mode;
  job.optimizer.lr = 0.1F;
  job.faults.resize(1);
  job.workers.resize(2);
  job.workers[0].count = 5;
  job.workers[1].count = 3;
  return job;
}

/// Sync-Switch's own figures: 64,000 steps, 8 workers.
TEST(ShareSearchTest, AShareIsSoManyRoundsAndThenSoManySteps) {
  EXPECT_EQ(StepsOfShare(0.05, 64000, 8), (SwitchedSteps{400, 60800}));
  EXPECT_EQ(StepsOfShare(0.0625, 64000, 8), (SwitchedSteps{500, 60000}));
  EXPECT_EQ(StepsOfShare(0, 64000, 8), (SwitchedSteps{0, 64000}));
  EXPECT_EQ(StepsOfShare(1, 64000, 8), (SwitchedSteps{8000, 0}));
  EXPECT_EQ(StepsOfShare(0.1, 1000, 3), (SwitchedSteps{34, 898})) << "a round is never cut";
  EXPECT_EQ(StepsOfShare(1, 10, 8), (SwitchedSteps{2, 0}));
}

/// Rounds have the rate of n gradients at once, single steps that of one.
TEST(ShareSearchTest, EachModeHasTheRateThatBelongsToIt) {
  const proto::JobConfig of_steps = WithShare(EightWorkers(proto::Mode::kAsync), 0.25);
  EXPECT_EQ(of_steps.train.mode, proto::Mode::kBsp);
  EXPECT_EQ(of_steps.train.mode_policy, proto::ModePolicy::kSyncSwitch);
  EXPECT_EQ(of_steps.train.switch_at, 0.25F);
  EXPECT_FLOAT_EQ(of_steps.optimizer.lr, 0.8F);
  EXPECT_EQ(of_steps.train.switch_lr_factor, 0) << "divided by the workers, after the switch";
  const proto::JobConfig of_rounds = WithShare(EightWorkers(proto::Mode::kBsp), 0.25);
  EXPECT_FLOAT_EQ(of_rounds.optimizer.lr, 0.1F) << "it is that of rounds already";
  proto::JobConfig says_so = EightWorkers(proto::Mode::kAsync);
  says_so.train.switch_lr_factor = 4;
  EXPECT_FLOAT_EQ(WithShare(says_so, 0.25).optimizer.lr, 0.4F);
  EXPECT_FLOAT_EQ(WithShare(says_so, 0.25).train.switch_lr_factor, 0.25F);
}

/// The rate and the momentum that the servers take for single steps of `workers`.
proto::AgedRule RuleOfSteps(const proto::JobConfig& job, size_t workers) {
  const server::LrPolicy policy(job);
  const auto lr = static_cast<double>(job.optimizer.lr);
  return {
      lr * policy.Factor(proto::Mode::kAsync, workers),
      job.optimizer.momentum * policy.MomentumFactor(proto::Mode::kAsync, workers)};
}

/// `auto` stands for another policy in bsp than in the job's own mode.
TEST(ShareSearchTest, AfterTheSwitchTheServersTakeWhatTheyTookForTheJob) {
  for (const float momentum : {0.0F, 0.9F}) {
    for (const float factor : {0.0F, 4.0F}) {
      proto::JobConfig job = EightWorkers(proto::Mode::kAsync);
      job.optimizer.momentum = momentum;
      job.train.switch_lr_factor = factor;
      const proto::JobConfig switched = WithShare(job, 0.25);
      for (const size_t workers : {size_t{1}, size_t{8}, size_t{12}}) {
        const proto::AgedRule before = RuleOfSteps(job, workers);
        const proto::AgedRule after = RuleOfSteps(switched, workers);
        EXPECT_FLOAT_EQ(after.lr_factor, before.lr_factor) << momentum << " " << workers;
        EXPECT_FLOAT_EQ(after.momentum, before.momentum) << momentum << " " << workers;
      }
    }
  }
  proto::JobConfig job = EightWorkers(proto::Mode::kSsp);
  job.optimizer.momentum = 0.9F;
  EXPECT_EQ(WithShare(job, 0.25).train.lr_policy, proto::LrPolicy::kLive);
  EXPECT_EQ(WithShare(job, 0.25).optimizer.lr, 0.1F) << "live makes of it what steps need";
  job.train.lr_policy = proto::LrPolicy::kFixed;
  EXPECT_EQ(WithShare(job, 0.25).train.lr_policy, proto::LrPolicy::kFixed);
  EXPECT_FLOAT_EQ(WithShare(job, 0.25).optimizer.lr, 0.8F);
}

TEST(ShareSearchTest, RoundsOfSeveralMinibatchesHideNothing) {
  proto::JobConfig job = EightWorkers(proto::Mode::kBsp);
  EXPECT_TRUE(WithShare(job, 0.25).train.overlap);
  job.train.local_steps = 8;
  EXPECT_FALSE(WithShare(job, 0.25).train.overlap) << "it would be refused";
}

TEST(ShareSearchTest, AllOfTheJobInRoundsNeedsNoSwitch) {
  proto::JobConfig job = EightWorkers(proto::Mode::kBsp);
  job.train.mode_policy = proto::ModePolicy::kSyncSwitch;
  const proto::JobConfig all = WithShare(job, 1);
  EXPECT_EQ(all.train.mode_policy, proto::ModePolicy::kFixed);
  EXPECT_FALSE(all.train.overlap);
  job.train.mode_policy = proto::ModePolicy::kSyncSwitchElastic;
  EXPECT_EQ(WithShare(job, 0.5).train.mode_policy, proto::ModePolicy::kSyncSwitchElastic);
}

/// A file of its config is read back as it is, so that a child can run it.
TEST(ShareSearchTest, RunsAreUndisturbedAndOfSeedsOfTheirOwn) {
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kBsp}) {
    const proto::JobConfig job = EightWorkers(mode);
    for (const double share : {1.0, 0.5}) {
      const proto::JobConfig run = ShareRun(job, share, 2);
      EXPECT_TRUE(run.faults.empty());
      EXPECT_FALSE(run.checkpoint.enabled);
      EXPECT_EQ(run.train.seed, job.train.seed + 2);
      EXPECT_EQ(run.train.evaluate_every_epochs, 0U);
    }
  }
}

std::vector<double> SharesTried(ShareSearch search, const std::function<double(double)>& accuracy) {
  std::vector<double> tried;
  while (const std::optional<double> share = search.Next()) {
    tried.push_back(*share);
    search.Add(accuracy(*share));
  }
  tried.push_back(search.chosen());
  return tried;
}

/// The curve of Sync-Switch for CIFAR-100: 6.25, 12.5, 25, 50 and 100 %; the knee is 12.5 %.
TEST(ShareSearchTest, TheKneeOfTheirCurveIsFound) {
  const auto curve = [](double share) {
    return share < 0.1 ? 0.7325 : share < 0.2 ? 0.746 : share < 0.4 ? 0.7505 : 0.7462;
  };
  EXPECT_THAT(
      SharesTried(ShareSearch(0.001, 4), curve), ElementsAre(1, 0.5, 0.25, 0.125, 0.0625, 0.125));
  EXPECT_THAT(SharesTried(ShareSearch(0.02, 3), curve), ElementsAre(1, 0.5, 0.25, 0.125, 0.125));
}

TEST(ShareSearchTest, WhereNoSmallerShareIsGoodAllOfTheJobIsChosen) {
  const auto falls = [](double share) { return share; };
  EXPECT_THAT(SharesTried(ShareSearch(0.1, 3), falls), ElementsAre(1, 0.5, 0.75, 0.875, 1));
  EXPECT_THAT(SharesTried(ShareSearch(0.2, 3), falls), ElementsAre(1, 0.5, 0.75, 0.875, 0.875));
}

TEST(ShareSearchTest, WhatDivergesIsNotGood) {
  ShareSearch search(1, 2);
  EXPECT_TRUE(search.Add(0.5));
  EXPECT_FALSE(search.Add(std::nullopt));
  EXPECT_EQ(search.Next(), 0.75);
  EXPECT_TRUE(search.Add(0.1));
  EXPECT_EQ(search.chosen(), 0.75);
  EXPECT_FALSE(search.Next().has_value());
}

}  // namespace
}  // namespace ps::provisioner
