// All servers go back to the newest checkpoint together when one of them is lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/coordinator/checkpoint_fixture.h"

namespace ps::coordinator {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RollbackTest : public CheckpointTest {
 protected:
  explicit RollbackTest(
      proto::Mode mode = proto::Mode::kBsp,
      proto::RecoveryKind recovery = proto::RecoveryKind::kAuto)
      : CheckpointTest(mode, recovery) {}

  /// Everybody does what he was granted and asks for more.
  void Round() {
    for (size_t i = 0; i < workers_.size(); ++i) {
      harness_.Work(&workers_[i], grants_[i]);
    }
    grants_ = harness_.AskAll(&workers_);
  }

  /// Checkpoint 1 is open after two rounds.
  void BeginAndOpen() {
    Begin();
    Round();
    Wait(kEvery);
    Round();
    ASSERT_THAT(disk_.opened, ElementsAre(1));
  }

  void BeginAndWrite() {
    BeginAndOpen();
    Written();
    ASSERT_EQ(checkpoints().newest, 1U);
  }

  void Lose(uint32_t server) {
    harness_.Exit(ProcessKind::kServer, server, PidOf(server), "killed by signal 9");
  }

  int64_t PidOf(uint32_t shard) const { return harness_.shards[shard].pid; }

  /// The disk has read the manifest that was asked for last.
  void Read() {
    ASSERT_FALSE(disk_.reads.empty());
    const uint64_t wanted = disk_.reads.back();
    const auto write = std::ranges::find(disk_.writes, wanted, &ManifestWrite::checkpoint);
    ASSERT_NE(write, disk_.writes.end());
    harness_.core->OnManifestRead(wanted, write->manifest, harness_.now, harness_.out());
  }

  void ReadFails() {
    harness_.core->OnManifestRead(
        disk_.reads.back(), Status::Corruption("a flipped bit"), harness_.now, harness_.out());
  }

  /// Shards connect again; `lost` as another process.
  void ShardsReturn(uint32_t lost) {
    for (uint32_t i = 0; i < harness_.shards.size(); ++i) {
      const int64_t pid = PidOf(i);
      harness_.RegisterShard(i, i == lost ? pid + 1000 : pid);
    }
  }

  void WorkersReturn() {
    for (FakeWorker& worker : workers_) {
      worker = harness_.Join(worker.seat.value, 1000 + worker.seat.value, true);
    }
  }

  void FinishRun() {
    RunToTheEnd(&harness_, &workers_);
    EXPECT_EQ(harness_.status().samples_counted, harness_.status().samples_total);
    uint64_t samples = 0;
    for (const proto::WorkerRow& row : harness_.status().workers) {
      samples += row.samples_counted;
    }
    EXPECT_EQ(samples, harness_.status().samples_total) << "the rows add up";
  }

  const proto::ShardSetup& NewestSetup(uint32_t shard) const {
    return harness_.shards[shard].setups.back();
  }
};

TEST_F(RollbackTest, ALostServerTakesAllBackToTheNewestCheckpoint) {
  BeginAndWrite();
  Round();
  const std::vector<FakeWorker> before = workers_;
  const size_t started = harness_.fleet.servers.size();
  Lose(1);
  EXPECT_EQ(harness_.fleet.servers.size(), started + 1);
  EXPECT_EQ(harness_.status().state, "waiting");
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
  for (int i = 0; i < 6 && harness_.status().state != "failed"; ++i) {
    Lose(1);
    if (harness_.status().state != "failed") {
      Read();
      ShardsReturn(1);
    }
  }
  EXPECT_EQ(harness_.status().state, "failed");
  EXPECT_THAT(harness_.status().detail, HasSubstr("started again 5 times"));
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
  EXPECT_EQ(harness_.status().state, "waiting");
  ShardsReturn(1);
  Wait(harness_.timing.detect * 2);
  EXPECT_EQ(harness_.status().state, "stopped");
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

TEST_F(RollbackTest, AManifestThatCannotBeReadIsGivenUpForTheOneBefore) {
  BeginAndWrite();
  Wait(kEvery);
  Round();
  Written();
  Lose(1);
  EXPECT_THAT(disk_.reads, ElementsAre(2));
  ReadFails();
  EXPECT_THAT(disk_.drops, ElementsAre(2));
  EXPECT_THAT(disk_.reads, ElementsAre(2, 1));
  Read();
  EXPECT_EQ(checkpoints().damaged, 1U);
  EXPECT_THAT(checkpoints().damage, HasSubstr("checkpoint 2: a flipped bit"));
  ShardsReturn(1);
  EXPECT_EQ(NewestSetup(0).restore.checkpoint, 1U);
  WorkersReturn();
  FinishRun();
}

class FallbackTest : public RollbackTest {
 protected:
  using RollbackTest::RollbackTest;

  static proto::RestoreFailed FailureOf(uint32_t shard, const proto::ShardSetup& setup) {
    return {
        ShardId(shard),
        setup.life,
        setup.restore.checkpoint,
        StatusCode::kCorruption,
        "chunk 3 is damaged"};
  }

  /// The shard can't do what its newest set-up wants.
  void Fails(uint32_t shard) {
    const proto::ShardSetup setup = NewestSetup(shard);
    harness_.Give(harness_.shards[shard].peer, FailureOf(shard, setup));
  }

  /// Checkpoints 1 and 2 exist.
  void BeginAndWriteTwo() {
    BeginAndWrite();
    Wait(kEvery);
    Round();
    Written();
    ASSERT_EQ(checkpoints().newest, 2U);
  }

  /// Two shards, of which the second says nothing to its set-up.
  void ReturnWithoutAnswer() {
    harness_.RegisterShard(0, PidOf(0));
    harness_.shards[1].is_mute = true;
    harness_.RegisterShard(1, PidOf(1) + 1000);
    for (const proto::Message& message : harness_.shards[1].unanswered) {
      if (const auto* setup = std::get_if<proto::ShardSetup>(&message)) {
        harness_.shards[1].setups.push_back(*setup);
      }
    }
    harness_.shards[1].unanswered.clear();
  }
};

TEST_F(FallbackTest, ADamagedPartTakesAllBackToTheCheckpointBefore) {
  BeginAndWriteTwo();
  Lose(1);
  Read();
  ReturnWithoutAnswer();
  ASSERT_EQ(NewestSetup(1).restore.checkpoint, 2U);
  Fails(1);
  EXPECT_THAT(checkpoints().damage, HasSubstr("checkpoint 2: shard 1: chunk 3 is damaged"));
  EXPECT_THAT(disk_.drops, ElementsAre(2));
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
  EXPECT_EQ(harness_.status().state, "failed");
  EXPECT_THAT(harness_.status().detail, HasSubstr("shard 1: chunk 3 is damaged"));
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

class PartialFallbackTest : public FallbackTest {
 protected:
  PartialFallbackTest() : FallbackTest(proto::Mode::kAsync) {}
};

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
  EXPECT_EQ(harness_.status().shards[1].state, "ready");
  EXPECT_EQ(harness_.shards[0].setups.size(), setups + 1) << "it only connected again";
  // The same once more, late: the life is over.
  harness_.Give(harness_.shards[1].peer, FailureOf(1, first));
  EXPECT_EQ(checkpoints().damaged, 1U);
  workers_[2].step = 0;
  harness_.Work(&workers_[2], grants_[2]);
  FinishRun();
}

TEST_F(RollbackTest, AServersNoticeCostsNothingWhereAllGoBackTogether) {
  Begin();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{WorkerId(1), 10'000, true});
  EXPECT_TRUE(harness_.Take<proto::NoticeReply>(control).has_value());
  Wait(harness_.timing.tick * 2);
  EXPECT_THAT(disk_.opened, IsEmpty()) << "a round is under way";
  Round();
  EXPECT_EQ(grants_[0].lease, LeaseId()) << "no new step is begun";
  Wait(harness_.timing.tick * 2);
  ASSERT_THAT(disk_.opened, ElementsAre(1));
  EXPECT_FALSE(harness_.shards[1].is_told);
  Written();
  Wait(harness_.timing.tick * 2);
  EXPECT_TRUE(harness_.shards[1].is_told);
  EXPECT_FALSE(harness_.shards[0].is_told);
  harness_.core->OnPeerClosed(harness_.shards[1].peer, harness_.now, harness_.out());
  harness_.shards[1].peer = proto::PeerId();
  const size_t started = harness_.fleet.servers.size();
  Wait(harness_.timing.tick * 2);
  EXPECT_EQ(harness_.fleet.servers.size(), started + 1);
  Read();
  EXPECT_EQ(checkpoints().steps_undone, 0U);
  ShardsReturn(1);
  WorkersReturn();
  FinishRun();
}

TEST_F(RollbackTest, AServersNoticeThatIsOverChangesNothing) {
  Begin();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{WorkerId(1), 100, true});
  Wait(milliseconds(300));
  EXPECT_THAT(disk_.opened, IsEmpty());
  Round();
  EXPECT_NE(grants_[0].lease, LeaseId());
  Round();
  EXPECT_EQ(harness_.status().samples_counted, 60U);
}

TEST_F(RollbackTest, ANoticeForAServerThatIsNotThereIsRefused) {
  Begin();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{WorkerId(2), 1000, true});
  const auto refusal = harness_.Take<proto::Refusal>(control);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, StatusCode::kNotFound);
  EXPECT_THAT(refusal->message, HasSubstr("there are 0 to 1"));
}

TEST_F(PartialFallbackTest, AServersNoticeLosesWhatCameAfterTheCheckpoint) {
  Begin();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{WorkerId(1), 10'000, true});
  Wait(harness_.timing.tick * 2);
  ASSERT_THAT(disk_.opened, ElementsAre(1));
  harness_.Work(&workers_[0], grants_[0]);
  Written();
  Wait(harness_.timing.tick * 2);
  EXPECT_TRUE(harness_.shards[1].is_told);
  harness_.core->OnPeerClosed(harness_.shards[1].peer, harness_.now, harness_.out());
  harness_.shards[1].peer = proto::PeerId();
  Wait(harness_.timing.tick * 2);
  EXPECT_EQ(checkpoints().steps_undone, 2U);
  harness_.shards[1].membership = proto::Membership();
  harness_.RegisterShard(1, 777);
  EXPECT_EQ(NewestSetup(1).restore.checkpoint, 1U);
  EXPECT_EQ(harness_.status().state, "training");
}

TEST_F(PartialFallbackTest, AServerThatHandsOverIsStartedOnce) {
  Begin();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{WorkerId(1), 10'000, true});
  Wait(harness_.timing.tick * 2);
  Written();
  Wait(harness_.timing.tick * 2);
  ASSERT_TRUE(harness_.shards[1].is_told);
  const size_t started = harness_.fleet.servers.size();
  Lose(1);  // its end is known before that of its connection
  harness_.shards[1].peer = proto::PeerId();
  Wait(harness_.timing.tick * 3);
  EXPECT_EQ(harness_.fleet.servers.size(), started + 1);
}

TEST_F(PartialFallbackTest, AServersNoticeOutlivesTheCoordinator) {
  Begin();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{WorkerId(1), 10'000, true});
  EXPECT_EQ(harness_.status().shards[1].state, "leaving");
  Wait(harness_.timing.tick * 2);
  ASSERT_THAT(disk_.opened, ElementsAre(1));
  const auto restart = [&] {
    harness_.Restart();
    for (FakeWorker& worker : workers_) {
      harness_.Reconnect(&worker);
    }
  };
  restart();
  Wait(harness_.timing.tick * 2);
  ASSERT_THAT(disk_.opened, ElementsAre(1, 2)) << "the one under way is lost";
  Written();
  restart();
  Wait(harness_.timing.tick * 2);
  EXPECT_THAT(disk_.opened, ElementsAre(1, 2)) << "that one exists";
  EXPECT_TRUE(harness_.shards[1].is_told);
  EXPECT_FALSE(harness_.shards[0].is_told);
  harness_.core->OnPeerClosed(harness_.shards[1].peer, harness_.now, harness_.out());
  harness_.shards[1].peer = proto::PeerId();
  Wait(harness_.timing.tick * 2);
  harness_.shards[1].membership = proto::Membership();
  harness_.RegisterShard(1, 777);
  EXPECT_EQ(NewestSetup(1).restore.checkpoint, 2U);
}

}  // namespace
}  // namespace ps::coordinator
