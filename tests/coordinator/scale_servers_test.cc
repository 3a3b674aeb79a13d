// Another number of servers: how they come and go, and in bsp the move of all chunks at once.
// Chunks that move while training goes on have move_test.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/rollback_fixture.h"

namespace ps::coordinator {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ScaleServersTest : public FallbackTest {
 protected:
  ScaleServersTest() : FallbackTest(proto::Mode::kBsp) {}

  /// Two servers train, and so many are asked for.
  void BeginAndAsk(int32_t servers) {
    Begin();
    control_ = harness_.Connect(proto::Role::kControl);
    harness_.fleet.servers.clear();
    Scale(servers);
    ASSERT_TRUE(harness_.Take<proto::ScaleReply>(control_).has_value());
  }

  /// And the leases of before are done.
  void BeginAndScale(int32_t servers) {
    BeginAndAsk(servers);
    Round();
  }

  void Scale(int32_t servers, bool is_relative = false) {
    harness_.Give(control_, proto::ScaleRequest{{{"", servers, is_relative, true}}});
  }

  proto::ServersStatus servers() const { return harness_.status().servers; }

  void Tick() { Wait(harness_.timing.tick * 2); }

  /// New shards come; they wait beside the job.
  void NewcomersCome() {
    for (size_t shard = harness_.shards.size(); shard < servers().wanted; ++shard) {
      harness_.shards.emplace_back();
      harness_.RegisterShard(static_cast<uint32_t>(shard), 5000 + static_cast<int64_t>(shard));
    }
  }

  /// The steps in hand are done; the checkpoint of the move is made and read.
  void Move() {
    Tick();
    Round();
    Tick();
    ASSERT_FALSE(disk_.opened.empty());
    Written();
    Tick();
    Read();
  }

  void AllReturn(uint32_t lost = UINT32_MAX) {
    harness_.shards.resize(servers().count);
    ShardsReturn(lost);
    WorkersReturn();
  }

  proto::PeerId control_;
};

TEST_F(ScaleServersTest, NewServersComeBeforeAnybodyWaits) {
  BeginAndScale(3);
  Tick();
  EXPECT_THAT(harness_.fleet.servers, ElementsAre(2));
  Round();
  EXPECT_NE(grants_[0].lease, LeaseId()) << "training goes on";
  EXPECT_FALSE(servers().is_moving);
  NewcomersCome();
  EXPECT_THAT(harness_.shards[2].setups, IsEmpty());
  Tick();
  EXPECT_TRUE(servers().is_moving);
  EXPECT_THAT(disk_.opened, IsEmpty()) << "steps are under way";
  Round();
  EXPECT_EQ(grants_[0].lease, LeaseId()) << "no new step is begun";
  Tick();
  EXPECT_THAT(disk_.opened, ElementsAre(1));
}

TEST_F(ScaleServersTest, ChunksMoveToMoreServersAndNothingIsDoneAgain) {
  BeginAndScale(3);
  Tick();
  NewcomersCome();
  Move();
  EXPECT_EQ(servers().count, 3U);
  EXPECT_EQ(servers().moves, 1U);
  EXPECT_EQ(checkpoints().rollbacks, 0U);
  EXPECT_EQ(checkpoints().samples_undone, 0U);
  EXPECT_EQ(checkpoints().seconds_undone, 0.0);
  EXPECT_EQ(harness_.status().samples_counted, 60U);
  const std::vector<FakeWorker> before = workers_;
  AllReturn();
  EXPECT_EQ(NewestSetup(2).placement.version, 2U);
  EXPECT_EQ(NewestSetup(2).restore.checkpoint, 1U);
  EXPECT_EQ(NewestSetup(2).restore.shards, 2U) << "that wrote it";
  EXPECT_EQ(NewestSetup(0).life, NewestSetup(2).life);
  EXPECT_GT(workers_[0].incarnation, before[2].incarnation);
  FinishRun();
}

TEST_F(ScaleServersTest, OtherSharesMoveAllAtOnce) {
  Begin();
  control_ = harness_.Connect(proto::Role::kControl);
  harness_.Give(control_, proto::ScaleRequest{{{"", 2, false, true, {9, 1}}}});
  Round();
  Move();
  EXPECT_FALSE(servers().is_moving);
  EXPECT_EQ(servers().moves, 1U);
  EXPECT_THAT(servers().shares, ElementsAre(9, 1));
  AllReturn();
  EXPECT_EQ(NewestSetup(0).placement.version, 2U);
  FinishRun();
}

TEST_F(ScaleServersTest, ServersThatHaveNoChunksAnyMoreAreToldToLeave) {
  BeginAndScale(1);
  const proto::PeerId leaving = harness_.shards[1].peer;
  const int64_t pid = PidOf(1);
  Move();
  EXPECT_EQ(servers().count, 1U);
  harness_.Wait(harness_.timing.tick);
  EXPECT_TRUE(harness_.shards[1].is_told);
  EXPECT_TRUE(harness_.is_closed(leaving));
  harness_.Exit(ProcessKind::kServer, 1, pid, "exited");
  EXPECT_THAT(harness_.fleet.servers, IsEmpty()) << "its end is no loss";
  EXPECT_EQ(harness_.status().state, "waiting");
  AllReturn();
  FinishRun();
}

TEST_F(ScaleServersTest, OneThatComesBackAfterItsChunksMovedIsToldAgain) {
  BeginAndScale(1);
  Move();
  harness_.Wait(harness_.timing.tick);
  harness_.shards[1].is_told = false;
  harness_.RegisterShard(1, PidOf(1));
  EXPECT_TRUE(harness_.shards[1].is_told);
}

TEST_F(ScaleServersTest, ANewServerThatDiesIsStartedAgainAndGivenUpInTheEnd) {
  BeginAndScale(3);
  for (int i = 0; i < 4; ++i) {
    harness_.Wait(seconds(15), workers_);
    harness_.Exit(ProcessKind::kServer, 2, 6000 + i, "exited with code 1");
  }
  EXPECT_EQ(servers().wanted, 3U);
  EXPECT_THAT(harness_.fleet.servers, ElementsAre(2, 2, 2, 2));
  harness_.Wait(seconds(15), workers_);
  harness_.Exit(ProcessKind::kServer, 2, 6009, "exited with code 1");
  EXPECT_EQ(servers().wanted, 2U);
  EXPECT_THAT(servers().trouble, HasSubstr("2 servers, not 3: a new one ended 5 times: exited"));
}

TEST_F(ScaleServersTest, ANewServerThatStallsAndWakesIsToldThatItsPlaceIsTaken) {
  BeginAndScale(3);
  Tick();
  NewcomersCome();
  harness_.fleet.servers.clear();
  harness_.Wait(harness_.timing.server_detect + seconds(1), workers_);
  ASSERT_THAT(harness_.fleet.servers, ElementsAre(2)) << "another one is started";
  harness_.RegisterShard(2, 5002);
  EXPECT_TRUE(harness_.shards[2].is_told);
  harness_.shards[2] = {};
  harness_.RegisterShard(2, 6002);
  EXPECT_FALSE(harness_.shards[2].is_told);
  harness_.Exit(ProcessKind::kServer, 2, 5002, "exited");
  Tick();
  EXPECT_TRUE(servers().is_moving) << "its end is not that of the other one";
  EXPECT_THAT(harness_.fleet.servers, ElementsAre(2));
}

TEST_F(ScaleServersTest, ANewServerThatNeverComesIsGivenUp) {
  BeginAndScale(3);
  harness_.Wait(seconds(31), workers_);
  EXPECT_EQ(servers().wanted, 2U);
  EXPECT_THAT(servers().trouble, HasSubstr("server 2 did not come within 30 s"));
}

TEST_F(ScaleServersTest, TrainingGoesOnWhenNoCheckpointCanBeMade) {
  BeginAndScale(1);
  harness_.shards[1].checkpoint_code = StatusCode::kIo;
  Tick();
  Round();
  EXPECT_EQ(grants_[0].lease, LeaseId());
  for (int i = 0; i < 6; ++i) {
    Tick();
  }
  EXPECT_EQ(servers().wanted, 2U);
  EXPECT_THAT(servers().trouble, HasSubstr("no space left"));
  EXPECT_TRUE(harness_.TakeGrant(&workers_[0]).has_value());
}

TEST_F(ScaleServersTest, WhoeverChangesHisMindInTimeMovesNothing) {
  BeginAndScale(3);
  Tick();
  NewcomersCome();
  Tick();
  EXPECT_TRUE(servers().is_moving);
  Scale(-1, true);
  EXPECT_EQ(servers().wanted, 2U);
  EXPECT_TRUE(harness_.shards[2].is_told);
  Round();
  EXPECT_NE(grants_[0].lease, LeaseId());
}

TEST_F(ScaleServersTest, ACoordinatorThatComesBackGoesOnWithTheMove) {
  BeginAndScale(3);
  Tick();
  NewcomersCome();
  Tick();
  ASSERT_TRUE(servers().is_moving);
  harness_.Restart();
  harness_.core->StartMissing({}, harness_.now);
  for (FakeWorker& worker : workers_) {
    harness_.Reconnect(&worker);
  }
  EXPECT_EQ(servers().wanted, 3U);
  Move();
  EXPECT_EQ(servers().count, 3U);
  AllReturn();
  FinishRun();
}

/// All are still there, be it that nobody launched them.
TEST_F(ScaleServersTest, ACoordinatorThatComesBackAfterTheMoveStartsNobodyASecondTime) {
  BeginAndScale(1);
  Move();
  ASSERT_EQ(servers().count, 1U);
  harness_.fleet.workers.clear();
  harness_.Restart();
  harness_.core->StartMissing({}, harness_.now);
  EXPECT_TRUE(harness_.fleet.workers.empty());
  AllReturn();
  EXPECT_EQ(harness_.core->member_count(), 3U);
  FinishRun();
}

TEST_F(ScaleServersTest, AReleasedWorkerThatComesBackAfterTheMoveIsNoRevocation) {
  BeginAndScale(1);
  Tick();
  harness_.Give(control_, proto::NoticeRequest{workers_[2].seat, 60000, false, true});
  Move();
  ASSERT_EQ(servers().count, 1U);
  AllReturn();
  Tick();
  const auto drain = harness_.Take<proto::Drain>(workers_[2].peer);
  ASSERT_TRUE(drain.has_value());
  EXPECT_EQ(drain->reason, "release");
  harness_.Give(workers_[2].peer, proto::Goodbye{workers_[2].incarnation, drain->reason, {}});
  EXPECT_EQ(harness_.status().revocations_noticed, 0U);
}

TEST_F(ScaleServersTest, AJobThatHasGrantedNoLeaseYetIsNotHeld) {
  harness_.StartWithShards();
  for (uint32_t seat = 0; seat < 3; ++seat) {
    harness_.Exit(ProcessKind::kWorker, seat, 0, "killed by signal 9");
  }
  workers_ = {harness_.Join()};
  control_ = harness_.Connect(proto::Role::kControl);
  Scale(1);
  Tick();
  grants_ = harness_.AskAll(&workers_);
  EXPECT_NE(grants_[0].lease, LeaseId()) << "without one there is no checkpoint";
  Move();
  EXPECT_EQ(servers().count, 1U);
  AllReturn();
  FinishRun();
}

TEST_F(ScaleServersTest, WhatCannotBeIsRefused) {
  Begin();
  control_ = harness_.Connect(proto::Role::kControl);
  Scale(0);
  auto refusal = harness_.Take<proto::Refusal>(control_);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_THAT(refusal->message, HasSubstr("that would be 0 servers; allowed: 1 to 1024"));
  Scale(-2, true);
  refusal = harness_.Take<proto::Refusal>(control_);
  ASSERT_TRUE(refusal.has_value());
  Scale(2000);
  refusal = harness_.Take<proto::Refusal>(control_);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(servers().wanted, 2U);
}

TEST_F(ScaleServersTest, RoundsGoOnWithAllWorkersAfterTheMove) {
  BeginAndScale(3);
  Tick();
  NewcomersCome();
  Move();
  EXPECT_EQ(servers().count, 3U);
  EXPECT_EQ(checkpoints().steps_undone, 0U);
  AllReturn();
  FinishRun();
}

TEST_F(ScaleServersTest, AServerThatIsLostMeanwhileCostsWhatItCostsAtAnyTime) {
  BeginAndScale(3);
  Tick();
  NewcomersCome();
  Tick();
  Round();
  Tick();
  Written();
  Lose(1);
  ASSERT_FALSE(disk_.reads.empty());
  Read();
  EXPECT_EQ(servers().count, 3U);
  EXPECT_EQ(checkpoints().steps_undone, 0U);
  AllReturn(1);
  FinishRun();
}

}  // namespace
}  // namespace ps::coordinator
