#include "run/report/rate_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ps::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(RateNotesTest, WhatMoreWorkersThanTheJobListsDoToTheRateIsSaid) {
  proto::JobConfig config;
  config.workers.resize(1);
  config.workers[0].count = 2;
  config.optimizer.kind = proto::OptimizerKind::kAdam;
  constexpr proto::Mode kAsync = proto::Mode::kAsync;
  EXPECT_EQ(RateNote(config, kAsync, 2), "");
  EXPECT_THAT(
      RateNote(config, kAsync, 6),
      AllOf(
          HasSubstr("2/6 of the learning rate (train.lr_policy listed)"),
          HasSubstr("each of which moves the parameters less")));
  config.train.lr_policy = proto::LrPolicy::kFixed;
  EXPECT_THAT(RateNote(config, kAsync, 6), HasSubstr("the loss may jump"));
  config.train.lr_policy = proto::LrPolicy::kAuto;
  config.optimizer.kind = proto::OptimizerKind::kSgd;
  config.optimizer.momentum = 0.9F;
  EXPECT_THAT(RateNote(config, kAsync, 6), HasSubstr("train.lr_policy live"));
  config.train.local_steps = 8;
  EXPECT_EQ(RateNote(config, kAsync, 6), "") << "the rate stays, and every follows the workers";
  config.outer.kind = proto::OuterKind::kHeloco;
  EXPECT_THAT(RateNote(config, kAsync, 6), HasSubstr("2/6 of the learning rate"));
  config.workers[0].count = 0;
  EXPECT_EQ(RateNote(config, kAsync, 6), "") << "nobody is listed";
}

/// The mode in force counts, and the policy of the job's own.
TEST(RateNotesTest, TheModeInForceSaysWhatBecomesOfTheRate) {
  proto::JobConfig config;
  config.workers.resize(1);
  config.workers[0].count = 2;
  config.optimizer.momentum = 0.9F;
  config.optimizer.lr = 0.1F;
  config.train.overlap = false;
  EXPECT_EQ(RateNote(config, proto::Mode::kBsp, 6), "") << "rounds have no old gradients";
  EXPECT_THAT(
      RateNote(config, proto::Mode::kSsp, 6),
      AllOf(HasSubstr("ssp with 6 workers"), HasSubstr("train.lr_policy live")));
  config.train.mode = proto::Mode::kBsp;
  EXPECT_EQ(RateNote(config, proto::Mode::kBsp, 6), "");
  EXPECT_THAT(RateNote(config, proto::Mode::kAsync, 6), HasSubstr("2/6 of the learning rate"))
      << "auto of a job in bsp is listed, whatever mode it goes on in";
  config.train.lr_policy = proto::LrPolicy::kLive;
  config.train.switch_lr_factor = 0.5F;
  EXPECT_THAT(
      RateNote(config, proto::Mode::kAsync, 6),
      AllOf(HasSubstr("async with 6 workers"), HasSubstr("for rate 0.05 and momentum 0.9")));
}

}  // namespace
}  // namespace ps::run
