#include "run/report/rate_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ps::run {
namespace {

using ::testing::HasSubstr;

TEST(RateNotesTest, WhatMoreWorkersThanTheJobListsDoToTheRateIsSaid) {
  proto::JobConfig config;
  config.workers.resize(1);
  config.workers[0].count = 2;
  config.optimizer.kind = proto::OptimizerKind::kAdam;
  EXPECT_EQ(RateNote(config, 2), "");
  EXPECT_THAT(RateNote(config, 6), HasSubstr("2/6 of the learning rate (train.lr_policy listed)"));
  config.train.lr_policy = proto::LrPolicy::kFixed;
  EXPECT_THAT(RateNote(config, 6), HasSubstr("the loss may jump"));
  config.train.mode = proto::Mode::kBsp;
  EXPECT_EQ(RateNote(config, 6), "");
  config.train.mode = proto::Mode::kAsync;
  config.train.lr_policy = proto::LrPolicy::kAuto;
  config.optimizer.kind = proto::OptimizerKind::kSgd;
  config.optimizer.momentum = 0.9F;
  EXPECT_THAT(RateNote(config, 6), HasSubstr("train.lr_policy live"));
  config.train.local_steps = 8;
  EXPECT_EQ(RateNote(config, 6), "") << "the rate stays, and every follows the workers";
  config.outer.kind = proto::OuterKind::kHeloco;
  EXPECT_THAT(RateNote(config, 6), HasSubstr("2/6 of the learning rate"));
  config.workers[0].count = 0;
  EXPECT_EQ(RateNote(config, 6), "") << "nobody is listed";
}

}  // namespace
}  // namespace ps::run
