// A server that is lost comes back from the newest checkpoint while the others go on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/coordinator/checkpoint_fixture.h"

namespace ps::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LostServerTest : public CheckpointTest {
 protected:
  /// Server 1's newest process ends at once, each time that it is started, and perhaps the
  /// coordinator with it. Returns how long it took until the run ended.
  Duration EndEachAtOnce(bool with_coordinator = false) {
    const TimePoint begin = harness_.now;
    std::vector<uint32_t>& started = harness_.fleet.servers;
    started.clear();
    harness_.Exit(ProcessKind::kServer, 1, 501, "exited with code 1");
    for (int64_t pid = 502; harness_.core->outcome().ok(); ++pid) {
      for (int ticks = 0; started.size() < static_cast<size_t>(pid - 501) && ticks < 2000;
           ++ticks) {
        Wait(harness_.timing.tick);
      }
      starts_.push_back(harness_.now - begin);
      harness_.Exit(ProcessKind::kServer, 1, pid, "exited with code 1");
      if (with_coordinator && harness_.core->outcome().ok()) {
        harness_.Restart();
        harness_.core->StartMissing({}, harness_.now);
      }
    }
    return harness_.now - begin;
  }

  std::vector<Duration> starts_;  // of server 1, since it was lost
};

TEST_F(LostServerTest, AServerThatIsLostComesBackFromTheNewest) {
  Begin();
  Wait(kEvery);
  Written();
  harness_.Work(&workers_[0], grants_[0]);
  const size_t started = harness_.fleet.servers.size();
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  ASSERT_EQ(harness_.fleet.servers.size(), started + 1);
  EXPECT_EQ(harness_.fleet.servers.back(), 1U);
  EXPECT_EQ(harness_.status().state, proto::RunState::kTraining);
  EXPECT_GT(checkpoints().steps_undone, 0U);

  harness_.shards[1].membership = proto::Membership();
  harness_.RegisterShard(1, 777);
  const proto::ShardSetup& setup = harness_.shards[1].setups.back();
  EXPECT_EQ(setup.life, 2U);
  EXPECT_EQ(setup.restore.checkpoint, 1U);
  EXPECT_EQ(setup.restore.shards, 2U);
  ASSERT_EQ(setup.counted.size(), 3U);
  EXPECT_EQ(setup.counted[0].step, workers_[0].step);
  const auto moved = harness_.Take<proto::ShardAddresses>(workers_[0].peer);
  ASSERT_TRUE(moved.has_value());
  ASSERT_EQ(moved->shards.size(), 1U);
  EXPECT_EQ(moved->shards[0].shard, ShardId(1));
  EXPECT_EQ(checkpoints().shards_restored, 1U);
  harness_.Work(&workers_[1], grants_[1]);
  harness_.Work(&workers_[2], grants_[2]);
  RunToTheEnd(&harness_, &workers_);
  EXPECT_EQ(harness_.status().samples_counted, harness_.status().samples_total);
}

TEST_F(LostServerTest, WhatIsUndoneIsCountedInStepsAndInSamples) {
  Begin();
  harness_.Work(&workers_[1], grants_[1]);
  Wait(kEvery);
  Written();
  harness_.Work(&workers_[0], grants_[0]);
  const proto::StepDone late = harness_.MakeStep(&workers_[2], grants_[2], grants_[2].begin);
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  EXPECT_EQ(checkpoints().steps_undone, 2U) << "the lease of worker 0, after the checkpoint";
  EXPECT_EQ(checkpoints().samples_undone, 20U);
  harness_.shards[1].membership = proto::Membership();
  harness_.RegisterShard(1, 777);
  harness_.Complete(workers_[2], late.step);
  harness_.Give(workers_[2].peer, proto::StepReport{workers_[2].incarnation, {late}});
  EXPECT_EQ(checkpoints().steps_undone, 3U) << "it was there, and reported later";
  EXPECT_EQ(checkpoints().samples_undone, 30U);
}

TEST_F(LostServerTest, AStepThatIsReportedAfterAServerLostItIsUndone) {
  Begin();
  Wait(kEvery);
  Written();
  const proto::StepDone had = harness_.MakeStep(&workers_[0], grants_[0], grants_[0].begin);
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  harness_.shards[1].membership = proto::Membership();
  harness_.RegisterShard(1, 777);
  EXPECT_EQ(checkpoints().steps_undone, 0U) << "it was not counted";
  harness_.Complete(workers_[0], had.step);
  harness_.Give(workers_[0].peer, proto::StepReport{workers_[0].incarnation, {had}});
  EXPECT_EQ(checkpoints().steps_undone, 1U);
  const proto::StepDone next = harness_.MakeStep(&workers_[0], grants_[0], had.end);
  harness_.Complete(workers_[0], next.step);
  harness_.Give(workers_[0].peer, proto::StepReport{workers_[0].incarnation, {next}});
  EXPECT_EQ(harness_.status().steps_counted, 2U);
  EXPECT_EQ(checkpoints().steps_undone, 1U) << "the server that came back has it";
}

/// Chunks moved before the worker heard of it, so the step's lives are those of other shards.
TEST_F(LostServerTest, AStepByAnEarlierPlacementThatAServerLostIsUndoneToo) {
  Begin();
  Wait(kEvery);
  Written();
  proto::StepDone had = harness_.MakeStep(&workers_[0], grants_[0], grants_[0].begin);
  --had.placement;
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  harness_.shards[1].membership = proto::Membership();
  harness_.RegisterShard(1, 777);
  harness_.Give(workers_[0].peer, proto::StepReport{workers_[0].incarnation, {had}});
  EXPECT_EQ(checkpoints().steps_undone, 1U);
}

/// A step that a shard acknowledged in its new life shows that the shard was ready.
TEST_F(LostServerTest, StepsOfAServerWhoseWordThatItIsBackWasLostAreUndoneToo) {
  Begin();
  Wait(kEvery);
  Written();
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  harness_.shards[1].membership = proto::Membership();
  harness_.shards[1].is_mute = true;
  harness_.RegisterShard(1, 777);
  harness_.shards[1].life = 2;
  const proto::StepDone had = harness_.MakeStep(&workers_[0], grants_[0], grants_[0].begin);
  harness_.Give(workers_[0].peer, proto::StepReport{workers_[0].incarnation, {had}});
  EXPECT_EQ(checkpoints().steps_undone, 0U);
  harness_.Exit(ProcessKind::kServer, 1, 777, "killed by signal 9");
  EXPECT_EQ(checkpoints().steps_undone, 1U);
}

TEST_F(LostServerTest, OneThatWasOpenWhenAServerWasLostIsGivenUp) {
  Begin();
  harness_.shards[0].checkpoint_code.reset();
  harness_.shards[1].checkpoint_code.reset();
  Wait(kEvery);
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  harness_.shards[1].membership = proto::Membership();
  harness_.RegisterShard(1, 777);
  for (uint32_t shard = 0; shard < 2; ++shard) {
    proto::CheckpointReport report;
    report.shard = ShardId(shard);
    report.checkpoint = 1;
    harness_.Give(harness_.shards[shard].peer, report);
  }
  EXPECT_THAT(disk_.writes, IsEmpty()) << "what came back lacks what was counted";
  EXPECT_EQ(checkpoints().failed, 1U);
}

TEST_F(LostServerTest, TheEndOfAProcessThatWasReplacedIsNoLoss) {
  Begin();
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  const size_t started = harness_.fleet.servers.size();
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  EXPECT_EQ(harness_.fleet.servers.size(), started);
}

TEST_F(LostServerTest, TheEndOfAReplacedProcessIsNoLossToAnotherCoordinatorEither) {
  Begin();
  harness_.Exit(ProcessKind::kServer, 1, 501, "no way to it");
  harness_.RegisterShard(1, 777);
  harness_.Restart();
  const size_t started = harness_.fleet.servers.size();
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  EXPECT_EQ(harness_.fleet.servers.size(), started);
}

/// It was one of several that were started for the place.
TEST_F(LostServerTest, TheEndOfAProcessThatHasNoPlaceIsNoLoss) {
  Begin();
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  harness_.RegisterShard(1, 777);
  const size_t started = harness_.fleet.servers.size();
  harness_.Exit(ProcessKind::kServer, 1, 778, "exited with code 1");
  EXPECT_EQ(harness_.fleet.servers.size(), started);
  Wait(harness_.timing.detect * 2);
  harness_.Exit(ProcessKind::kServer, 1, 777, "killed by signal 9");
  EXPECT_EQ(harness_.fleet.servers.size(), started + 1);
}

/// Nothing was heard of it while it was to restore, so that another one was started.
TEST_F(LostServerTest, AProcessThatWasGivenUpAndComesAllTheSameCanBeLost) {
  Begin();
  Wait(kEvery);
  Written();
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  harness_.shards[1].is_silent = true;
  harness_.RegisterShard(1, 777);
  Wait(harness_.timing.server_detect + harness_.timing.detect);
  harness_.shards[1].is_silent = false;
  harness_.shards[1].life = 0;
  harness_.RegisterShard(1, 777);
  Wait(harness_.timing.detect * 2);
  const size_t started = harness_.fleet.servers.size();
  harness_.Exit(ProcessKind::kServer, 1, 777, "killed by signal 9");
  EXPECT_EQ(harness_.fleet.servers.size(), started + 1);
}

/// Two that were set up for one place would both be taken for it.
TEST_F(LostServerTest, TheFirstThatComesForAPlaceHasItUntilItIsLost) {
  Begin();
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  harness_.shards[1].is_mute = true;
  harness_.RegisterShard(1, 777);
  const proto::PeerId second = harness_.Connect(proto::Role::kShard);
  const LaunchId launch = harness_.LaunchOf(ProcessKind::kServer, 1, 778);
  harness_.Give(second, proto::RegisterShard{ShardId(1), "host", 7001, 778, 0, launch});
  const auto refusal = harness_.Take<proto::Refusal>(second);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, StatusCode::kUnavailable);
  EXPECT_FALSE(harness_.is_closed(harness_.shards[1].peer));
  harness_.Exit(ProcessKind::kServer, 1, 777, "killed by signal 9");
  harness_.shards[1].is_mute = false;
  harness_.RegisterShard(1, 778);
  EXPECT_EQ(harness_.shards[1].setups.back().life, 3U);
}

/// The coordinator had ended after it had written that the server is lost, and before it started
/// another one.
TEST_F(LostServerTest, AnotherCoordinatorStartsTheServerThatIsToComeInThePlaceOfALostOne) {
  Begin();
  harness_.Exit(ProcessKind::kServer, 1, 501, "no way to it");
  harness_.Restart();
  harness_.fleet.servers.clear();
  const std::vector<LaunchId>& launches = harness_.fleet.launches[{ProcessKind::kServer, 1}];
  ASSERT_EQ(launches.size(), 2U);
  const proto::LaunchRecord lost{ProcessKind::kServer, 1, launches[0], 501, 1};
  const proto::LaunchRecord next{ProcessKind::kServer, 1, launches[1], 777, 1};
  harness_.core->StartMissing(std::vector{lost, next}, harness_.now);
  EXPECT_THAT(harness_.fleet.servers, IsEmpty());
  harness_.Restart();
  harness_.core->StartMissing(std::vector{lost}, harness_.now);
  EXPECT_THAT(harness_.fleet.servers, ElementsAre(1));
}

TEST_F(LostServerTest, AServerThatFallsSilentWhileItRestoresIsLostAgain) {
  Begin();
  Wait(kEvery);
  Written();
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  harness_.shards[1].is_silent = true;
  harness_.RegisterShard(1, 777);
  const size_t started = harness_.fleet.servers.size();
  Wait(harness_.timing.server_detect + harness_.timing.detect);
  EXPECT_EQ(harness_.fleet.servers.size(), started + 1);
}

TEST_F(LostServerTest, AServerThatDrawsItsValuesAnewMayTakeAsLongAsAtTheStart) {
  Begin();
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  harness_.shards[1].is_silent = true;
  harness_.RegisterShard(1, 777);
  const size_t started = harness_.fleet.servers.size();
  Wait(harness_.timing.server_detect + harness_.timing.detect);
  EXPECT_EQ(harness_.fleet.servers.size(), started);
  Wait(FromSeconds(static_cast<double>(harness_.options.config.fleet.join_timeout_s)));
  EXPECT_EQ(harness_.fleet.servers.size(), started + 1);
}

TEST_F(LostServerTest, AWorkerIsToldWhereAShardIsUntilItHasFoundIt) {
  Begin();
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  harness_.shards[1].membership = proto::Membership();
  harness_.RegisterShard(1, 777);
  ASSERT_TRUE(harness_.Take<proto::ShardAddresses>(workers_[0].peer).has_value());
  EXPECT_FALSE(harness_.Take<proto::ShardAddresses>(workers_[0].peer).has_value());
  Wait(harness_.timing.heartbeat);
  EXPECT_TRUE(harness_.Take<proto::ShardAddresses>(workers_[0].peer).has_value());
  harness_.Work(&workers_[0], grants_[0]);
  ASSERT_TRUE(harness_.Ask(&workers_[0]).has_value());
  Wait(harness_.timing.heartbeat);
  EXPECT_FALSE(harness_.Take<proto::ShardAddresses>(workers_[0].peer).has_value());
}

/// What a shard has said of it before it was lost itself is not true any more.
TEST_F(LostServerTest, AStepOfOneWhoIsGoneThatAShardLosesBeforeItCountsIsDoneAgain) {
  Begin();
  Wait(kEvery);
  Written();
  harness_.Complete(workers_[0], harness_.MakeStep(&workers_[0], grants_[0], 0).step);
  harness_.shards[0].is_mute = true;
  harness_.Exit(ProcessKind::kWorker, 0, 1000, "killed by signal 9");
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  harness_.shards[1].complete.clear();
  harness_.shards[1].membership = proto::Membership();
  harness_.RegisterShard(1, 777);
  harness_.Unmute(0);
  EXPECT_EQ(harness_.status().steps_counted, 0U);
  EXPECT_EQ(harness_.status().steps_partial, 1U);
}

/// The server lost the first step with its earlier life, and has the second.
TEST_F(LostServerTest, AnotherCoordinatorKnowsWhichLivesAWorkerHadFound) {
  Begin();
  Wait(kEvery);
  Written();
  harness_.Complete(workers_[0], harness_.MakeStep(&workers_[0], grants_[0], 0).step);
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  harness_.shards[1].membership = proto::Membership();
  harness_.RegisterShard(1, 777);
  harness_.Complete(workers_[0], harness_.MakeStep(&workers_[0], grants_[0], 10).step);
  harness_.Restart();
  harness_.Exit(ProcessKind::kWorker, 0, 1000, "killed by signal 9");
  EXPECT_EQ(harness_.status().steps_counted, 2U);
  EXPECT_EQ(checkpoints().steps_undone, 2U) << "each may be lacking";
}

TEST_F(LostServerTest, TheLastOneDoesNotWaitForAServerThatIsSilent) {
  Begin();
  harness_.shards[0].checkpoint_code.reset();
  Wait(kEvery);
  ASSERT_EQ(checkpoints().open, 1U);
  harness_.shards[0].is_silent = true;
  harness_.core->RequestStop(false, "enough", harness_.now, harness_.out());
  harness_.Wait(harness_.timing.detect * 4);
  CloseAll(&harness_, workers_);
  harness_.Wait(harness_.timing.detect);
  EXPECT_FALSE(harness_.shards[1].is_told);
  harness_.Wait(harness_.timing.server_detect);
  EXPECT_EQ(checkpoints().failed, 1U);
  EXPECT_TRUE(harness_.shards[1].is_told);
}

TEST_F(LostServerTest, AServerThatNeverComesBackEndsTheRun) {
  Begin();
  EndEachAtOnce();
  EXPECT_THAT(harness_.status().detail, HasSubstr("started again 8 times"));
  EXPECT_EQ(harness_.status().state, proto::RunState::kFailed);
}

/// What ends it may pass: a full disk, a launcher that is busy. The first start is at once.
TEST_F(LostServerTest, StartsOfAServerThatEndsAtOnceWaitLongerAndLonger) {
  Begin();
  const Duration all = EndEachAtOnce();
  ASSERT_EQ(starts_.size(), 8U);
  EXPECT_EQ(starts_[0], Duration::zero());
  EXPECT_GT(starts_[1], std::chrono::milliseconds(700));
  for (size_t i = 2; i < starts_.size(); ++i) {
    EXPECT_GT(starts_[i] - starts_[i - 1], starts_[i - 1] - starts_[i - 2]);
  }
  EXPECT_GT(all, std::chrono::seconds(90));
  EXPECT_LT(all, std::chrono::seconds(160));
}

TEST_F(LostServerTest, AnotherCoordinatorGoesOnWithTheWaitsOfAServer) {
  Begin();
  const Duration all = EndEachAtOnce(true);
  ASSERT_EQ(starts_.size(), 8U);
  EXPECT_GT(starts_[1], std::chrono::milliseconds(700));
  EXPECT_GT(all, std::chrono::seconds(90));
  EXPECT_LT(all, std::chrono::seconds(160));
}

TEST_F(LostServerTest, WhatAServerIsWaitedForAndWhenItIsStartedNextIsTold) {
  Begin();
  Wait(harness_.timing.detect * 2);
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  EXPECT_THAT(harness_.status().detail, HasSubstr("shard 1 of server 1 (not registered)"));
  harness_.Exit(ProcessKind::kServer, 1, 502, "no space left");
  EXPECT_THAT(
      harness_.status().detail,
      testing::ContainsRegex(
          "shard 1 of server 1 \\(started again in [12] s, since no space left"));
  ASSERT_THAT(harness_.status().waits, testing::SizeIs(testing::Ge(1)));
  EXPECT_THAT(harness_.status().waits[0].for_whom, HasSubstr("started again in"));
}

/// Each coordinator would start it eight times else.
TEST_F(LostServerTest, AnotherCoordinatorKnowsHowOftenAServerWasStartedAgain) {
  Begin();
  int starts = 0;
  for (int64_t pid = 501; harness_.core->outcome().ok() && starts < 30; ++pid) {
    harness_.Exit(ProcessKind::kServer, 1, pid, "killed by signal 9");
    harness_.shards[1].membership = proto::Membership();
    harness_.RegisterShard(1, pid + 1);
    ++starts;
    if (harness_.core->outcome().ok()) {
      harness_.Restart();
    }
  }
  EXPECT_EQ(starts, 9);
}

/// Somebody has started it by hand.
TEST_F(LostServerTest, AServerThatComesWhileItsNextStartWaitsIsNotStarted) {
  Begin();
  Wait(harness_.timing.detect * 2);
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  harness_.Exit(ProcessKind::kServer, 1, 502, "exited with code 1");
  harness_.shards[1].membership = proto::Membership();
  const size_t started = harness_.fleet.servers.size();
  harness_.RegisterShard(1, 777);
  Wait(std::chrono::seconds(5));
  EXPECT_EQ(harness_.fleet.servers.size(), started);
  EXPECT_TRUE(harness_.core->outcome().ok());
}

TEST_F(LostServerTest, AServerThatDiesAsSoonAsItIsBackEndsTheRunToo) {
  Begin();
  for (int64_t pid = 501; pid < 510; ++pid) {
    ASSERT_TRUE(harness_.core->outcome().ok());
    harness_.Exit(ProcessKind::kServer, 1, pid, "killed by signal 9");
    harness_.shards[1].membership = proto::Membership();
    harness_.RegisterShard(1, pid + 1);
  }
  EXPECT_EQ(harness_.status().state, proto::RunState::kFailed);
}

TEST_F(LostServerTest, AServerThatIsLostNowAndThenComesBackEachTime) {
  Begin();
  for (int64_t pid = 501; pid < 511; ++pid) {
    harness_.Exit(ProcessKind::kServer, 1, pid, "killed by signal 9");
    harness_.shards[1].membership = proto::Membership();
    harness_.RegisterShard(1, pid + 1);
    Wait(harness_.timing.detect * 2);
  }
  EXPECT_EQ(harness_.status().state, proto::RunState::kTraining);
  EXPECT_EQ(checkpoints().shards_restored, 10U);
}

TEST_F(LostServerTest, AFreshProcessWithTheNameOfAnotherIsNotTakenForIt) {
  Begin();
  const proto::PeerId stranger = harness_.Connect(proto::Role::kShard);
  const LaunchId launch = harness_.LaunchOf(ProcessKind::kServer, 1, 501);
  harness_.Give(stranger, proto::RegisterShard{ShardId(1), "host", 7001, 501, 0, launch});
  const auto refusal = harness_.Take<proto::Refusal>(stranger);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, StatusCode::kUnavailable);
}

/// It died before it had registered, and its machine with it: nobody told.
TEST_F(LostServerTest, AServerThatDoesNotComeIsStartedAgainAndNotForEver) {
  Begin();
  Wait(kEvery);
  Written();
  const size_t started = harness_.fleet.servers.size();
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  const auto patience =
      FromSeconds(static_cast<double>(harness_.options.config.fleet.join_timeout_s));
  Wait(patience + std::chrono::seconds(1));
  EXPECT_EQ(harness_.fleet.servers.size(), started + 2);
  EXPECT_THAT(harness_.fleet.server_kills, ElementsAre(1)) << "it may wait for a machine";
  EXPECT_TRUE(harness_.core->outcome().ok());
  Wait(patience * 5);
  EXPECT_TRUE(harness_.core->outcome().ok());
  Wait(patience * 3 + std::chrono::minutes(1));
  EXPECT_EQ(harness_.fleet.servers.size(), started + 8);
  EXPECT_THAT(std::string(harness_.core->outcome().message()), HasSubstr("did not come"));
}

/// It may be frozen, and would keep the lock of its store for ever.
TEST_F(LostServerTest, AServerThatFallsSilentIsKilledBeforeAnotherOneIsStarted) {
  Begin();
  Wait(kEvery);
  Written();
  const LaunchId frozen = harness_.fleet.NewestOf(ProcessKind::kServer, 1);
  harness_.shards[1].is_silent = true;
  Wait(harness_.timing.server_detect + harness_.timing.detect);
  EXPECT_NE(harness_.fleet.NewestOf(ProcessKind::kServer, 1), frozen);
  EXPECT_THAT(harness_.fleet.killed, ElementsAre(frozen));
}

TEST_F(LostServerTest, WhoeverWaitsForThePlaceOfASilentServerIsNotKilledWithIt) {
  Begin();
  Wait(kEvery);
  Written();
  const LaunchId frozen = harness_.fleet.NewestOf(ProcessKind::kServer, 1);
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.shards[1].is_silent = true;
  harness_.Give(control, proto::NoticeRequest{WorkerId(1), 3'600'000, true, false});
  const LaunchId successor = harness_.fleet.NewestOf(ProcessKind::kServer, 1);
  ASSERT_NE(successor, frozen);
  Wait(harness_.timing.server_detect + harness_.timing.detect);
  EXPECT_THAT(harness_.fleet.killed, ElementsAre(frozen));
  EXPECT_EQ(harness_.fleet.NewestOf(ProcessKind::kServer, 1), successor);
}

/// The coordinator had ended after it had written that the server is lost, and before it killed it.
TEST_F(LostServerTest, AnotherCoordinatorKillsTheLostServer) {
  Begin();
  harness_.shards[1].is_silent = true;
  Wait(harness_.timing.server_detect + harness_.timing.detect);
  const std::vector<LaunchId> launches = harness_.fleet.launches[{ProcessKind::kServer, 1}];
  ASSERT_EQ(launches.size(), 2U);
  harness_.Restart();
  harness_.fleet.killed.clear();
  const proto::LaunchRecord frozen{ProcessKind::kServer, 1, launches[0], 501, 1};
  const proto::LaunchRecord next{ProcessKind::kServer, 1, launches[1], 777, 1};
  harness_.core->StartMissing(std::vector{frozen, next}, harness_.now);
  EXPECT_THAT(harness_.fleet.killed, ElementsAre(launches[0]));
}

/// What was killed may not die while its disk hangs, and keeps the lock: the next one says that it
/// is there and waits.
TEST_F(LostServerTest, AServerThatIsNeverSetUpIsStartedAgainAndNotForEver) {
  Begin();
  Wait(kEvery);
  Written();
  const auto patience =
      FromSeconds(double{harness_.options.config.fleet.join_timeout_s}) + harness_.timing.detect;
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  for (int64_t pid = 601; pid < 609; ++pid) {
    ASSERT_TRUE(harness_.core->outcome().ok()) << harness_.core->outcome();
    harness_.shards[1].is_mute = true;
    harness_.shards[1].life = 0;
    harness_.RegisterShard(1, pid);
    proto::Refusal refusal{StatusCode::kUnavailable, "shard-1 is in use by process 501", 0, 0};
    harness_.Give(harness_.shards[1].peer, std::move(refusal));
    const size_t started = harness_.fleet.servers.size();
    Wait(patience);
    while (pid < 608 && harness_.fleet.servers.size() == started) {
      Wait(harness_.timing.tick);
    }
    EXPECT_EQ(harness_.fleet.servers.size(), started + (pid < 608 ? 1 : 0));
  }
  EXPECT_EQ(harness_.status().state, proto::RunState::kFailed);
  EXPECT_THAT(
      std::string(harness_.core->outcome().message()),
      HasSubstr("was not set up from checkpoint 1 within 30 s: shard-1 is in use by process 501"));
}

TEST_F(LostServerTest, AnOldProcessOfAShardIsSentAway) {
  Begin();
  harness_.Exit(ProcessKind::kServer, 1, 501, "no way to it");
  const proto::PeerId old = harness_.Connect(proto::Role::kShard);
  const LaunchId launch = harness_.LaunchOf(ProcessKind::kServer, 1, 501);
  harness_.Give(old, proto::RegisterShard{ShardId(1), "host", 7001, 501, 1, launch});
  const auto refusal = harness_.Take<proto::Refusal>(old);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ps::coordinator
