// All servers go back to the newest checkpoint together when one of them is lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/coordinator/rollback_fixture.h"

namespace ps::coordinator {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(RollbackTest, WhoLoadsItsDataAgainKeepsNobodyFromTraining) {
  BeginAndWrite();
  Lose(1);
  Read();
  ShardsReturn(1);
  WorkersReturn();
  proto::WorkerHeartbeat loading;
  loading.incarnation = workers_[2].incarnation;
  loading.state = proto::WorkerState::kJoining;
  const proto::PeerId peer = workers_[2].peer;
  workers_.pop_back();
  for (const FakeWorker& worker : workers_) {
    harness_.Give(worker.peer, proto::LeaseRequest{worker.incarnation, worker.newest});
  }
  for (const TimePoint end = harness_.now + harness_.timing.detect * 3; harness_.now < end;) {
    harness_.Give(peer, loading);
    harness_.Wait(harness_.timing.heartbeat, workers_);
  }
  EXPECT_TRUE(harness_.TakeGrant(&workers_[0]).has_value()) << harness_.status().detail;
  EXPECT_TRUE(harness_.TakeGrant(&workers_[1]).has_value()) << StateName(harness_.status().state);
  EXPECT_EQ(harness_.status().revocations_unnoticed, 0U) << "it is no silence";
}

TEST_F(RollbackTest, ALostServerTakesAllBackToTheNewestCheckpoint) {
  BeginAndWrite();
  Round();
  const std::vector<FakeWorker> before = workers_;
  const size_t started = harness_.fleet.servers.size();
  Lose(1);
  EXPECT_EQ(harness_.fleet.servers.size(), started + 1);
  EXPECT_EQ(harness_.status().state, proto::RunState::kWaiting);
  EXPECT_THAT(harness_.status().detail, HasSubstr("go back to checkpoint 1"));
  EXPECT_THAT(disk_.reads, ElementsAre(1));
  Read();
  EXPECT_EQ(checkpoints().rollbacks, 1U);
  EXPECT_EQ(checkpoints().steps_undone, 3U);
  EXPECT_EQ(checkpoints().samples_undone, 30U);
  EXPECT_EQ(harness_.status().samples_counted, 60U);
  for (const FakeWorker& worker : before) {
    const auto refusal = harness_.Take<proto::Refusal>(worker.peer);
    ASSERT_TRUE(refusal.has_value());
    EXPECT_EQ(refusal->code, StatusCode::kStale);
    EXPECT_TRUE(harness_.is_closed(worker.peer));
  }
  ShardsReturn(1);
  for (uint32_t shard = 0; shard < 2; ++shard) {
    EXPECT_EQ(NewestSetup(shard).restore.checkpoint, 1U);
    EXPECT_EQ(NewestSetup(shard).restore.shards, 2U);
    EXPECT_GT(NewestSetup(shard).life, 1U);
    EXPECT_THAT(NewestSetup(shard).membership.members, IsEmpty());
  }
  EXPECT_EQ(NewestSetup(0).life, NewestSetup(1).life);
  WorkersReturn();
  EXPECT_GT(workers_[0].incarnation, before.back().incarnation);
  FinishRun();
}

TEST_F(RollbackTest, TheNextRoundIsAgainOfAllWhoTookPart) {
  BeginAndWrite();
  Lose(1);
  Read();
  ShardsReturn(1);
  workers_[0] = harness_.Join(0, 1000, true);
  EXPECT_FALSE(harness_.Ask(&workers_[0]).has_value()) << "two others are to come back";
  workers_[1] = harness_.Join(1, 1001, true);
  workers_[2] = harness_.Join(2, 1002, true);
  EXPECT_FALSE(harness_.Ask(&workers_[1]).has_value());
  EXPECT_TRUE(harness_.Ask(&workers_[2]).has_value());
  EXPECT_TRUE(harness_.TakeGrant(&workers_[0]).has_value());
}

TEST_F(RollbackTest, WhoDoesNotComeBackIsNotWaitedForLongerThanALostOneWouldBe) {
  BeginAndWrite();
  Lose(1);
  Read();
  ShardsReturn(1);
  workers_ = {harness_.Join(0, 1000, true)};
  EXPECT_FALSE(harness_.Ask(&workers_[0]).has_value());
  Wait(harness_.timing.detect * 2 + harness_.timing.tick * 2);
  EXPECT_TRUE(harness_.TakeGrant(&workers_[0]).has_value());
}

/// Its process ends, or nothing more is heard of it.
TEST_F(RollbackTest, WhoIsFoundDeadAfterwardsIsARevocation) {
  BeginAndWrite();
  const int64_t victim = 1000 + workers_[2].seat.value;
  Lose(1);
  Read();
  ShardsReturn(1);
  workers_.pop_back();
  WorkersReturn();
  harness_.Exit(ProcessKind::kWorker, 2, victim, "killed by signal 9");
  EXPECT_EQ(harness_.status().revocations_unnoticed, 1U);
  const std::vector<proto::WorkerRow> rows = harness_.status().workers;
  const auto lost = std::ranges::find(rows, WorkerId(2), &proto::WorkerRow::worker);
  ASSERT_NE(lost, rows.end());
  EXPECT_EQ(lost->state, proto::WorkerRowState::kLost);
  EXPECT_EQ(lost->reason, "killed by signal 9");
  grants_ = harness_.AskAll(&workers_);
  Lose(1);
  Read();
  harness_.RegisterShard(0, PidOf(0));
  harness_.RegisterShard(1, PidOf(1) + 1000);
  EXPECT_EQ(harness_.status().revocations_unnoticed, 1U) << "those who were sent away are none";
  workers_.pop_back();
  WorkersReturn();
  Wait(harness_.timing.detect * 2 + harness_.timing.tick * 2);
  EXPECT_EQ(harness_.status().revocations_unnoticed, 2U) << "worker 1 has not come back";
}

TEST_F(RollbackTest, WithoutACheckpointItIsBackToTheBeginning) {
  Begin();
  Round();
  Lose(0);
  EXPECT_THAT(disk_.reads, IsEmpty());
  EXPECT_EQ(harness_.status().samples_counted, 0U);
  EXPECT_EQ(checkpoints().steps_undone, 3U);
  ShardsReturn(0);
  EXPECT_EQ(NewestSetup(1).restore.checkpoint, 0U);
  EXPECT_EQ(NewestSetup(1).life, NewestSetup(0).life);
  WorkersReturn();
  FinishRun();
}

TEST_F(RollbackTest, AManifestThatIsBeingWrittenIsWaitedFor) {
  BeginAndOpen();
  Lose(1);
  EXPECT_THAT(disk_.reads, IsEmpty());
  Written();
  EXPECT_THAT(disk_.reads, ElementsAre(1));
  Read();
  EXPECT_EQ(checkpoints().steps_undone, 0U);
  ShardsReturn(1);
  WorkersReturn();
  FinishRun();
}

TEST_F(RollbackTest, ADiskThatHangsWhileAllGoBackEndsTheRun) {
  BeginAndWrite();
  Lose(1);
  ASSERT_FALSE(disk_.reads.empty());
  Wait(FromSeconds(double{harness_.options.config.fleet.join_timeout_s}));
  EXPECT_TRUE(harness_.core->outcome().ok());
  Wait(std::chrono::seconds(1));
  EXPECT_EQ(harness_.status().state, proto::RunState::kFailed);
  EXPECT_THAT(
      std::string(harness_.core->outcome().message()),
      ::testing::HasSubstr("has not given the manifest of checkpoint 1 for 30 s"));
}

TEST_F(RollbackTest, AManifestThatCannotBeWrittenIsNotGoneBackTo) {
  BeginAndOpen();
  Lose(1);
  Written(Status::Io("no space left"));
  EXPECT_EQ(harness_.status().samples_counted, 0U) << "back at the beginning";
}

TEST_F(RollbackTest, ACheckpointThatLacksAReportIsGivenUp) {
  BeginAndWrite();
  harness_.shards[1].checkpoint_code.reset();
  Wait(kEvery);
  Round();
  ASSERT_THAT(disk_.opened, ElementsAre(1, 2));
  Lose(1);
  EXPECT_EQ(checkpoints().failed, 1U);
  EXPECT_THAT(disk_.reads, ElementsAre(1));
  Read();
  harness_.shards[1].checkpoint_code = StatusCode::kOk;
  ShardsReturn(1);
  WorkersReturn();
  FinishRun();
}

TEST_F(RollbackTest, WhatCameFromTheUndoneTimeCountsForNothing) {
  BeginAndWrite();
  const FakeWorker old = workers_[0];
  const proto::LeaseGrant grant = grants_[0];
  Lose(1);
  proto::StepDone done = harness_.MakeStep(&workers_[0], grant, grant.begin);
  harness_.Give(old.peer, proto::StepReport{old.incarnation, {done}});
  Read();
  harness_.Give(old.peer, proto::StepReport{old.incarnation, {done}});
  EXPECT_EQ(harness_.status().samples_counted, 60U);
  // One that has not heard of it comes back as who it was.
  const proto::PeerId again = harness_.Connect(proto::Role::kWorker, old.incarnation);
  harness_.Give(again, proto::StepReport{old.incarnation, {done}});
  const auto refusal = harness_.Take<proto::Refusal>(again);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, StatusCode::kStale);
  EXPECT_EQ(harness_.status().samples_counted, 60U);
}

TEST_F(RollbackTest, AnAcknowledgedRoundOfTheUndoneTimeIsNotTakenForTheNewOne) {
  BeginAndWrite();
  const proto::PeerId old = harness_.shards[0].peer;
  Lose(1);
  Read();
  ShardsReturn(1);
  WorkersReturn();
  grants_ = harness_.AskAll(&workers_);
  harness_.shards[0].is_mute = true;
  for (size_t i = 0; i < workers_.size(); ++i) {
    harness_.Work(&workers_[i], grants_[i]);
  }
  harness_.Give(old, proto::CommitAck{ShardId(0), 3});
  grants_ = harness_.AskAll(&workers_);
  for (size_t i = 0; i < workers_.size(); ++i) {
    harness_.Work(&workers_[i], grants_[i]);
  }
  EXPECT_EQ(harness_.status().round, 3U) << "round 4 waits for shard 0's acknowledgement of 3";
  harness_.Unmute(0);
  EXPECT_EQ(harness_.status().round, 4U);
}

TEST_F(RollbackTest, AnotherServerThatIsLostMeanwhileComesBackToo) {
  BeginAndWrite();
  Lose(1);
  const size_t started = harness_.fleet.servers.size();
  Lose(0);
  EXPECT_EQ(harness_.fleet.servers.size(), started + 1);
  Read();
  harness_.RegisterShard(0, 800);
  harness_.RegisterShard(1, 801);
  EXPECT_EQ(NewestSetup(0).restore.checkpoint, 1U);
  EXPECT_EQ(checkpoints().rollbacks, 1U);
  WorkersReturn();
  FinishRun();
}

TEST_F(RollbackTest, AServerThatIsLostAgainBeforeTrainingGoesOnTakesAllBackAgain) {
  BeginAndWrite();
  Lose(1);
  Read();
  harness_.RegisterShard(0, PidOf(0));
  Lose(0);
  Read();
  EXPECT_EQ(checkpoints().rollbacks, 2U);
  EXPECT_EQ(checkpoints().steps_undone, 0U);
  harness_.RegisterShard(0, 800);
  harness_.RegisterShard(1, 801);
  EXPECT_EQ(NewestSetup(0).life, NewestSetup(1).life);
  WorkersReturn();
  FinishRun();
}

TEST_F(RollbackTest, AServerThatDiesAgainAndAgainEndsTheRun) {
  BeginAndWrite();
  for (int i = 0; i < 9 && harness_.status().state != proto::RunState::kFailed; ++i) {
    Lose(1);
    if (harness_.status().state != proto::RunState::kFailed) {
      Read();
      ShardsReturn(1);
    }
  }
  EXPECT_EQ(harness_.status().state, proto::RunState::kFailed);
  EXPECT_THAT(harness_.status().detail, HasSubstr("started again 8 times"));
}

TEST_F(RollbackTest, ACoordinatorThatDiesMeanwhileGoesBackAllTheSame) {
  BeginAndWrite();
  Lose(1);
  harness_.shards[1].peer = proto::PeerId();
  harness_.Restart();
  workers_.clear();
  Wait(harness_.timing.tick);
  EXPECT_THAT(disk_.reads, ElementsAre(1, 1));
  Read();
  EXPECT_EQ(checkpoints().rollbacks, 1U);
  ShardsReturn(1);
  harness_.Restart();
  workers_ = {harness_.Join(0, 1000, true), harness_.Join(1, 1001, true)};
  workers_.push_back(harness_.Join(2, 1002, true));
  FinishRun();
}

TEST_F(RollbackTest, ACoordinatorThatDiesRightAfterwardsSetsTheShardsUp) {
  BeginAndWrite();
  Lose(1);
  Read();
  harness_.shards[1].peer = proto::PeerId();
  harness_.Restart();
  EXPECT_EQ(NewestSetup(0).restore.checkpoint, 1U);
  harness_.RegisterShard(1, 801);
  WorkersReturn();
  FinishRun();
}

TEST_F(RollbackTest, ASilentShardThatComesNoMoreIsLostToo) {
  BeginAndWrite();
  Lose(1);
  Read();
  harness_.shards[0].peer = proto::PeerId();
  harness_.RegisterShard(1, 801);
  workers_.clear();
  const size_t started = harness_.fleet.servers.size();
  Wait(harness_.timing.server_detect + harness_.timing.detect);
  EXPECT_EQ(harness_.fleet.servers.size(), started + 1);
  EXPECT_EQ(harness_.fleet.servers.back(), 0U);
}

TEST_F(RollbackTest, AnEvaluationOfTheUndoneTimeIsNotShown) {
  CoordinatorOptions options = OptionsWith(&disk_, proto::Mode::kBsp);
  options.config.train.epochs = 2;
  options.test_samples = 30;
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  auto grants = harness.AskAll(&workers);
  while (harness.status().evaluations.empty()) {
    for (size_t i = 0; i < workers.size(); ++i) {
      if (grants[i].lease == LeaseId()) {
        continue;
      }
      if (grants[i].kind == proto::LeaseKind::kTrain) {
        harness.Work(&workers[i], grants[i]);
      } else {
        harness.Evaluate(workers[i], grants[i]);
      }
    }
    grants = harness.AskAll(&workers);
  }
  harness.Exit(ProcessKind::kServer, 0, 500, "killed by signal 9");
  EXPECT_THAT(harness.status().evaluations, IsEmpty());
}

TEST_F(RollbackTest, AStopMeanwhileEndsTheRunWithTheCheckpointsModel) {
  BeginAndWrite();
  Lose(1);
  harness_.core->RequestStop(false, "enough", harness_.now, harness_.out());
  Read();
  EXPECT_EQ(harness_.status().state, proto::RunState::kWaiting);
  ShardsReturn(1);
  Wait(harness_.timing.detect * 2);
  EXPECT_EQ(harness_.status().state, proto::RunState::kStopped);
  EXPECT_TRUE(harness_.shards[0].is_told);
}

TEST_F(RollbackTest, ANoticeThatWasGivenGoesOn) {
  BeginAndWrite();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{WorkerId(2), 5000});
  Lose(1);
  Read();
  ShardsReturn(1);
  WorkersReturn();
  Wait(harness_.timing.tick * 2);
  EXPECT_TRUE(harness_.Take<proto::Drain>(workers_[2].peer).has_value());
  Wait(std::chrono::seconds(5));
  EXPECT_THAT(harness_.fleet.kills, ElementsAre(WorkerId(2)));
}

/// All are still there, be it that nobody launched them.
TEST_F(RollbackTest, ACoordinatorThatComesBackThenStartsNobodyASecondTime) {
  BeginAndWrite();
  Lose(1);
  Read();
  harness_.fleet.workers.clear();
  harness_.Restart();
  harness_.core->StartMissing({}, harness_.now);
  EXPECT_TRUE(harness_.fleet.workers.empty());
  ShardsReturn(1);
  WorkersReturn();
  EXPECT_EQ(harness_.core->member_count(), 3U);
  FinishRun();
}

TEST_F(RollbackTest, AReleasedWorkerThatComesBackIsNoRevocation) {
  BeginAndWrite();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{workers_[2].seat, 60000, false, true});
  Lose(1);
  Read();
  ShardsReturn(1);
  WorkersReturn();
  Wait(harness_.timing.tick * 2);
  const auto drain = harness_.Take<proto::Drain>(workers_[2].peer);
  ASSERT_TRUE(drain.has_value());
  EXPECT_EQ(drain->reason, "release");
  harness_.Give(workers_[2].peer, proto::Goodbye{workers_[2].incarnation, drain->reason, {}});
  EXPECT_EQ(harness_.status().revocations_noticed, 0U);
}

TEST_F(RollbackTest, AManifestThatCannotBeReadIsGivenUpForTheOneBefore) {
  BeginAndWrite();
  Wait(kEvery);
  Round();
  Written();
  Lose(1);
  EXPECT_THAT(disk_.reads, ElementsAre(2));
  ReadFails();
  ASSERT_EQ(disk_.set_aside.size(), 1U);
  EXPECT_EQ(disk_.set_aside[0].id, 2U);
  EXPECT_TRUE(disk_.set_aside[0].is_corrupt);
  EXPECT_THAT(disk_.reads, ElementsAre(2, 1));
  Read();
  EXPECT_EQ(checkpoints().damaged, 1U);
  EXPECT_THAT(checkpoints().damage, HasSubstr("checkpoint 2: a flipped bit"));
  ShardsReturn(1);
  EXPECT_EQ(NewestSetup(0).restore.checkpoint, 1U);
  WorkersReturn();
  FinishRun();
}

/// A job that was resumed past checkpoint 1, which is corrupt, and 2, whose folder is not there.
class SetAsideTest : public CheckpointTest {
 protected:
  SetAsideTest()
      : CheckpointTest([](CoordinatorOptions* options) {
          options->set_aside = {{1, true, "a flipped bit"}, {2, false, "no folder"}};
          options->next_checkpoint = 3;
        }) {}
};

TEST_F(SetAsideTest, WhatIsProvedCorruptGoesWithTheNextCheckpointAndTheRestStays) {
  Begin();
  Wait(kEvery);
  ASSERT_EQ(disk_.writes.size(), 1U);
  EXPECT_EQ(disk_.writes[0].checkpoint, 3U);
  EXPECT_THAT(disk_.writes[0].dropped, ElementsAre(1));
  ASSERT_FALSE(harness_.shards[0].checkpoints.empty());
  EXPECT_THAT(harness_.shards[0].checkpoints.back().kept, ElementsAre(1, 2)) << "their parts stay";
  Written(Status::Io("the disk is full"));
  Wait(kEvery);
  ASSERT_EQ(disk_.writes.size(), 2U);
  EXPECT_THAT(disk_.writes[1].dropped, ElementsAre(1)) << "no other one was committed yet";
  Written();
  for (int i = 0; i < 3; ++i) {
    Wait(kEvery);
    EXPECT_THAT(disk_.writes.back().dropped, Not(AnyOf(Contains(1), Contains(2))));
    Written();
  }
}

class ConsistentAsyncTest : public RollbackTest {
 protected:
  ConsistentAsyncTest() : RollbackTest(proto::Mode::kAsync, proto::RecoveryKind::kConsistent) {}
};

TEST_F(ConsistentAsyncTest, AllServersGoBackWhenTheConfigSaysSo) {
  Begin();
  Wait(kEvery);
  Written();
  harness_.Work(&workers_[0], grants_[0]);
  Lose(1);
  Read();
  EXPECT_EQ(harness_.status().samples_counted, 0U);
  EXPECT_GT(checkpoints().steps_undone, 0U);
  ShardsReturn(1);
  EXPECT_EQ(NewestSetup(0).restore.checkpoint, 1U);
  WorkersReturn();
  FinishRun();
}

}  // namespace
}  // namespace ps::coordinator
