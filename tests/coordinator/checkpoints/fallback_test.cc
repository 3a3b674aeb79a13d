// A checkpoint that a server can't restore: the one before is taken.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/rollback_fixture.h"

namespace ps::coordinator {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(FallbackTest, ADamagedPartTakesAllBackToTheCheckpointBefore) {
  BeginAndWriteTwo();
  Lose(1);
  Read();
  ReturnWithoutAnswer();
  ASSERT_EQ(NewestSetup(1).restore.checkpoint, 2U);
  Fails(1);
  EXPECT_THAT(checkpoints().damage, HasSubstr("checkpoint 2: shard 1: chunk 3 is damaged"));
  ASSERT_EQ(disk_.set_aside.size(), 1U);
  EXPECT_EQ(disk_.set_aside[0].id, 2U);
  Read();
  harness_.shards[1].is_mute = false;
  ShardsReturn(2);
  for (uint32_t shard = 0; shard < 2; ++shard) {
    EXPECT_EQ(NewestSetup(shard).restore.checkpoint, 1U);
  }
  EXPECT_EQ(NewestSetup(0).life, NewestSetup(1).life);
  WorkersReturn();
  FinishRun();
}

TEST_F(FallbackTest, WhenNoneIsLeftTheRunEndsAndSaysWhatIsBroken) {
  BeginAndWrite();
  Lose(1);
  Read();
  ReturnWithoutAnswer();
  Fails(1);
  EXPECT_EQ(harness_.status().state, proto::RunState::kFailed);
  EXPECT_THAT(harness_.status().detail, HasSubstr("shard 1: chunk 3 is damaged"));
}

TEST_F(PartialFallbackTest, TheLostServerAloneGoesBackToTheCheckpointBefore) {
  Begin();
  Wait(kEvery);
  Written();
  harness_.Work(&workers_[0], grants_[0]);
  Wait(kEvery);
  Written();
  harness_.Work(&workers_[1], grants_[1]);
  const size_t setups = harness_.shards[0].setups.size();
  Lose(1);
  const uint64_t undone = checkpoints().steps_undone;
  harness_.shards[1].membership = proto::Membership();
  ReturnWithoutAnswer();
  const proto::ShardSetup first = NewestSetup(1);
  ASSERT_EQ(first.restore.checkpoint, 2U);
  harness_.shards[1].is_mute = false;
  Fails(1);
  EXPECT_EQ(NewestSetup(1).restore.checkpoint, 1U);
  EXPECT_GT(NewestSetup(1).life, first.life);
  EXPECT_GT(checkpoints().steps_undone, undone);
  EXPECT_EQ(harness_.status().shards[1].state, proto::ShardRowState::kReady);
  EXPECT_EQ(harness_.shards[0].setups.size(), setups + 1) << "it only connected again";
  // The same once more, late: the life is over.
  harness_.Give(harness_.shards[1].peer, FailureOf(1, first));
  EXPECT_EQ(checkpoints().damaged, 1U);
  workers_[2].step = 0;
  harness_.Work(&workers_[2], grants_[2]);
  FinishRun();
}

TEST_F(PartialFallbackTest, WhatIsFoundDamagedWhileAnotherIsWrittenGoesWithTheOneAfter) {
  Begin();
  for (int i = 0; i < 3; ++i) {
    Wait(kEvery);
    if (i < 2) {
      Written();
    }
  }
  ASSERT_EQ(disk_.writes.back().checkpoint, 3U);
  Lose(1);
  harness_.shards[1].membership = proto::Membership();
  ReturnWithoutAnswer();
  ASSERT_EQ(NewestSetup(1).restore.checkpoint, 2U);
  harness_.shards[1].is_mute = false;
  Fails(1);
  ASSERT_EQ(disk_.set_aside.size(), 1U);
  Written();  // of 3, which was sent before
  const size_t writes = disk_.writes.size();
  Wait(kEvery);
  ASSERT_GT(disk_.writes.size(), writes);
  EXPECT_THAT(disk_.writes.back().dropped, Contains(2));
}

/// Its coordinator had ended before it wrote down that the checkpoint exists.
TEST_F(PartialFallbackTest, OneThatNobodyKnowsAndWhoseManifestIsDamagedIsNotGoneBackTo) {
  Begin();
  harness_.Work(&workers_[1], grants_[1]);
  Wait(kEvery);
  Written();
  const uint64_t counted_before = harness_.status().steps_counted;
  harness_.Work(&workers_[0], grants_[0]);
  const uint64_t counted = harness_.status().steps_counted;
  ASSERT_GT(counted_before, 0U);
  ASSERT_GT(counted, counted_before);
  CoordinatorOptions options = harness_.options;
  options.checkpoints = {harness_.core->StateAt(harness_.now).checkpoints.newest(), {2, 0, 0, 0}};
  options.next_checkpoint = 3;
  proto::JobState state = harness_.core->StateAt(harness_.now);
  TakeCheckpointsOf(options, &state);
  FakeFleet fleet;
  const LaunchId launch = state.shards[1].launch;
  const auto core =
      CoordinatorCore::Load(std::move(state), options, &fleet, &NullLogger(), harness_.now);
  ASSERT_TRUE(core.ok()) << core.status();
  (*core)->OnProcessExited(
      {ProcessKind::kServer, 1, launch, "killed", false, ""}, harness_.now, harness_.out());
  const proto::JobState then = (*core)->StateAt(harness_.now);
  EXPECT_EQ(then.checkpoints.newest().checkpoint, 1U);
  EXPECT_EQ(then.checkpoints.next, 3U);
  EXPECT_EQ(then.shards[1].restore.checkpoint, 1U);
  EXPECT_EQ(then.checkpoints.steps_undone, counted - counted_before);
}

}  // namespace
}  // namespace ps::coordinator
