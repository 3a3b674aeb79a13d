// Another number of servers: how they come and go, and how chunks move, in bsp. The other modes
// have move_test.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/coordinator/move_fixture.h"

namespace ps::coordinator {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ScaleServersTest : public MovingTest {
 protected:
  ScaleServersTest() : MovingTest(proto::Mode::kBsp) {}

  /// Somebody has a lease.
  bool IsAnybodyAtWork() const {
    return std::ranges::any_of(grants_, [](const auto& grant) { return grant.lease != LeaseId(); });
  }

  /// What was held back is granted, at once or when they ask again.
  void AskAgain() {
    for (size_t i = 0; i < workers_.size(); ++i) {
      grants_[i] = harness_.TakeGrant(&workers_[i]).value_or(proto::LeaseGrant());
    }
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (grants_[i].lease == LeaseId()) {
        const FakeWorker& worker = workers_[i];
        harness_.Give(worker.peer, proto::LeaseRequest{worker.incarnation, worker.newest});
      }
    }
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (const auto grant = harness_.TakeGrant(&workers_[i]); grant) {
        grants_[i] = *grant;
      }
    }
  }

  /// With what is granted.
  void Finish() {
    for (size_t i = 0; i < workers_.size(); ++i) {
      harness_.Work(&workers_[i], grants_[i]);
    }
    FinishRun();
  }

  /// The first of the new ones; it waits beside the job when it is not the only one.
  void OneNewcomerComes() {
    harness_.shards.emplace_back();
    harness_.RegisterShard(2, 5002);
  }

  /// Chunks are on their way while a round is open.
  void BeginMove() {
    Tick();
    ASSERT_TRUE(move().has_value());
    ASSERT_TRUE(IsAnybodyAtWork());
  }

  /// To the end, servers that leave included.
  void MoveAll() {
    for (int i = 0; i < 100 && status().is_moving; ++i) {
      if (move()) {
        Given();
      } else {
        Round();
        Tick();
      }
    }
    EXPECT_FALSE(status().is_moving);
  }
};

TEST_F(ScaleServersTest, NewServersJoinWhileARoundIsOpen) {
  BeginAndAsk(3);
  EXPECT_THAT(harness_.fleet.servers, ElementsAre(2));
  Round();
  harness_.Work(&workers_[0], grants_[0]);
  const uint64_t round = grants_[1].round;
  OneNewcomerComes();
  EXPECT_EQ(status().count, 3U) << "at once";
  AllConnect();
  EXPECT_THAT(harness_.shards[2].setups, SizeIs(1));
  harness_.Work(&workers_[1], grants_[1]);
  EXPECT_THAT(harness_.shards[2].commits, IsEmpty());
  harness_.Work(&workers_[2], grants_[2]);
  ASSERT_THAT(harness_.shards[2].commits, SizeIs(1));
  EXPECT_EQ(harness_.shards[2].commits.back().round, round);
  EXPECT_EQ(harness_.shards[2].commits.back().contributions.size(), 3U) << "of before, too";
}

TEST_F(ScaleServersTest, ChunksMoveWhileARoundIsOpenAndNothingIsDoneAgain) {
  BeginAndAsk(3);
  NewcomersCome();
  AllConnect();
  const uint64_t joins = harness_.status().joins;
  BeginMove();
  const ShardId first = move()->from;
  EXPECT_EQ(harness_.shards[first.value].gives.back().to.shard, ShardId(2));
  Given();
  ASSERT_TRUE(move().has_value()) << "the next ones follow at once";
  EXPECT_NE(move()->from, first);
  MoveAll();
  EXPECT_EQ(status().moves, 1U);
  EXPECT_EQ(ShardsWithChunks().size(), 3U);
  EXPECT_EQ(checkpoints().rollbacks, 0U);
  EXPECT_EQ(harness_.status().joins, joins);
  Finish();
}

TEST_F(ScaleServersTest, NoRoundIsCommittedWhileChunksAreOnTheirWay) {
  BeginAndAsk(1);
  BeginMove();
  const size_t commits = harness_.shards[0].commits.size();
  Round();
  EXPECT_FALSE(IsAnybodyAtWork());
  Tick();
  EXPECT_EQ(harness_.shards[0].commits.size(), commits);
  Given();
  ASSERT_EQ(harness_.shards[0].commits.size(), commits + 1);
  EXPECT_EQ(harness_.shards[0].commits.back().contributions.size(), 3U) << "of all";
}

TEST_F(ScaleServersTest, NoChunksSetOffWhileARoundIsBeingCommitted) {
  BeginAndAsk(2);
  harness_.shards[0].is_mute = true;
  Round();
  harness_.Give(control_, proto::ScaleRequest{{{"", 2, false, true, {9, 1}}}});
  Tick();
  EXPECT_TRUE(status().is_moving);
  EXPECT_FALSE(move().has_value());
  harness_.Unmute(0);
  EXPECT_TRUE(move().has_value());
}

/// The others are about to push, and would wait for them.
TEST_F(ScaleServersTest, NoChunksSetOffOnceSomebodyHasContributed) {
  BeginAndAsk(2);
  harness_.Work(&workers_[0], grants_[0]);
  harness_.Give(control_, proto::ScaleRequest{{{"", 2, false, true, {9, 1}}}});
  Tick();
  EXPECT_FALSE(move().has_value());
  harness_.Work(&workers_[1], grants_[1]);
  harness_.Work(&workers_[2], grants_[2]);
  EXPECT_TRUE(move().has_value()) << "of the next round nobody has";
}

TEST_F(ScaleServersTest, ServersLeaveWhileARoundIsOpen) {
  BeginAndAsk(1);
  BeginMove();
  harness_.Work(&workers_[0], grants_[0]);
  Given();
  Tick();
  EXPECT_EQ(status().count, 1U);
  AllConnect();
  const size_t commits = harness_.shards[0].commits.size();
  harness_.Work(&workers_[1], grants_[1]);
  harness_.Work(&workers_[2], grants_[2]);
  ASSERT_EQ(harness_.shards[0].commits.size(), commits + 1);
  EXPECT_EQ(harness_.shards[0].commits.back().contributions.size(), 3U) << "of before, too";
}

TEST_F(ScaleServersTest, TheNextCommitOpensTheCheckpointThatHasAllChunksWhereTheyAre) {
  BeginAndAsk(2);
  harness_.Give(control_, proto::ScaleRequest{{{"", 2, false, true, {9, 1}}}});
  BeginMove();
  const size_t opened = disk_.opened.size();
  Given();
  EXPECT_THAT(status().shares, ElementsAre(9, 1));
  Tick();
  EXPECT_EQ(status().moves, 1U);
  EXPECT_FALSE(status().is_moving);
  EXPECT_EQ(disk_.opened.size(), opened);
  Round();
  EXPECT_EQ(disk_.opened.size(), opened + 1);
  EXPECT_TRUE(IsAnybodyAtWork()) << "nobody waits for the disk";
  Written();
  EXPECT_EQ(checkpoints().newest, disk_.opened.back());
  Finish();
}

TEST_F(ScaleServersTest, TrainingGoesOnWhenThatCheckpointFails) {
  BeginAndAsk(2);
  harness_.shards[1].checkpoint_code = StatusCode::kIo;
  harness_.Give(control_, proto::ScaleRequest{{{"", 2, false, true, {9, 1}}}});
  BeginMove();
  Given();
  Tick();
  Round();
  const size_t opened = disk_.opened.size();
  Tick();
  Round();
  EXPECT_TRUE(IsAnybodyAtWork());
  EXPECT_EQ(disk_.opened.size(), opened) << "once; the next one is made in its turn";
  Finish();
}

TEST_F(ScaleServersTest, NoChunksMoveWhileACheckpointIsOpen) {
  BeginAndOpen();
  control_ = harness_.Connect(proto::Role::kControl);
  Scale(1);
  Tick();
  Round();
  EXPECT_TRUE(IsAnybodyAtWork());
  EXPECT_FALSE(move().has_value());
  Written();
  BeginMove();
  MoveAll();
  EXPECT_EQ(status().count, 1U);
}

TEST_F(ScaleServersTest, ServersThatHaveNoChunksAnyMoreAreToldToLeave) {
  BeginAndAsk(1);
  const proto::PeerId leaving = harness_.shards[1].peer;
  const int64_t pid = PidOf(1);
  BeginMove();
  Given();
  EXPECT_EQ(status().count, 1U);
  EXPECT_TRUE(harness_.shards[1].is_told);
  EXPECT_TRUE(harness_.is_closed(leaving));
  harness_.shards[1].is_told = false;
  harness_.RegisterShard(1, pid);
  EXPECT_TRUE(harness_.shards[1].is_told) << "it is told again";
  harness_.fleet.servers.clear();
  harness_.Exit(ProcessKind::kServer, 1, pid, "exited");
  EXPECT_THAT(harness_.fleet.servers, IsEmpty()) << "its end is no loss";
  AllConnect();
  Finish();
}

TEST_F(ScaleServersTest, ANewServerThatStallsAndWakesIsToldThatItsPlaceIsTaken) {
  BeginAndAsk(4);
  OneNewcomerComes();
  harness_.fleet.servers.clear();
  harness_.Wait(harness_.timing.server_detect + seconds(1), workers_);
  ASSERT_THAT(harness_.fleet.servers, ElementsAre(2)) << "another one is started";
  harness_.RegisterShard(2, 5002);
  EXPECT_TRUE(harness_.shards[2].is_told);
  harness_.shards[2] = {};
  harness_.RegisterShard(2, 6002);
  EXPECT_FALSE(harness_.shards[2].is_told);
  harness_.Exit(ProcessKind::kServer, 2, 5002, "exited");
  harness_.shards.emplace_back();
  harness_.RegisterShard(3, 5003);
  EXPECT_EQ(status().count, 4U) << "its end is not that of the other one";
  EXPECT_THAT(harness_.fleet.servers, ElementsAre(2));
}

TEST_F(ScaleServersTest, WhoeverChangesHisMindInTimeMovesNothing) {
  BeginAndAsk(4);
  OneNewcomerComes();
  Scale(-2, true);
  EXPECT_EQ(status().wanted, 2U);
  EXPECT_TRUE(harness_.shards[2].is_told);
  Tick();
  Round();
  EXPECT_TRUE(IsAnybodyAtWork());
}

TEST_F(ScaleServersTest, WhoeverChangesHisMindLateWaitsForTheChunksOnTheirWay) {
  BeginAndAsk(1);
  BeginMove();
  Scale(2);
  MoveAll();
  EXPECT_EQ(ShardsWithChunks().size(), 2U);
  Finish();
}

TEST_F(ScaleServersTest, ACoordinatorThatComesBackGoesOnWithTheMove) {
  BeginAndAsk(1);
  BeginMove();
  const proto::ChunkMove before = *move();
  harness_.Restart();
  AllConnect();
  ASSERT_TRUE(move().has_value());
  EXPECT_EQ(harness_.shards[before.from.value].gives.back().version, before.version);
  MoveAll();
  EXPECT_EQ(status().count, 1U);
}

TEST_F(ScaleServersTest, AJobThatNobodyWorksForMovesAll) {
  BeginAndAsk(1);
  harness_.Give(control_, proto::PauseRequest{true});
  Round();
  EXPECT_FALSE(IsAnybodyAtWork());
  Tick();
  ASSERT_TRUE(move().has_value());
  Given();
  EXPECT_EQ(status().count, 1U);
  AllConnect();
  Written();  // what a pause asks for
}

/// No commit comes that could open it.
TEST_F(ScaleServersTest, NoMoveWaitsForACheckpointThatIsDueWhileNobodyWorks) {
  BeginAndAsk(2);
  harness_.Give(control_, proto::PauseRequest{true});
  Round();
  Tick();
  Written();  // what a pause asks for
  Wait(kEvery * 2);
  Scale(1);
  Tick();
  EXPECT_TRUE(move().has_value());
}

TEST_F(ScaleServersTest, AJobThatHasGrantedNoLeaseYetIsNotHeld) {
  harness_.StartWithShards();
  for (uint32_t seat = 0; seat < 3; ++seat) {
    harness_.Exit(ProcessKind::kWorker, seat, 0, "killed by signal 9");
  }
  workers_ = {harness_.Join()};
  grants_.resize(1);
  control_ = harness_.Connect(proto::Role::kControl);
  Scale(1);
  Tick();
  AskAgain();
  EXPECT_TRUE(IsAnybodyAtWork()) << "without one there is no checkpoint";
}

TEST_F(ScaleServersTest, AServerThatIsLostMeanwhileTakesAllBackAndThenTheMoveIsMade) {
  BeginAndWrite();
  control_ = harness_.Connect(proto::Role::kControl);
  Scale(1);
  BeginMove();
  Lose(0);
  Read();
  EXPECT_EQ(checkpoints().rollbacks, 1U);
  EXPECT_FALSE(move().has_value());
  ShardsReturn(0);
  WorkersReturn();
  AskAgain();
  BeginMove();
  MoveAll();
  EXPECT_EQ(status().count, 1U);
}

TEST_F(ScaleServersTest, NewServersThatWaitAreNotStartedAgainWhenAllGoBack) {
  BeginAndWrite();
  control_ = harness_.Connect(proto::Role::kControl);
  Scale(4);
  OneNewcomerComes();
  harness_.fleet.servers.clear();
  Lose(0);
  Read();
  harness_.shards.resize(2);
  ShardsReturn(0);
  WorkersReturn();
  AskAgain();
  Tick();
  EXPECT_THAT(harness_.fleet.servers, ElementsAre(0));
}

TEST_F(ScaleServersTest, ANewServerThatDiesIsStartedAgainAndGivenUpInTheEnd) {
  BeginAndAsk(3);
  for (int i = 0; i < 4; ++i) {
    harness_.Wait(seconds(15), workers_);
    harness_.Exit(ProcessKind::kServer, 2, 6000 + i, "exited with code 1");
  }
  EXPECT_EQ(status().wanted, 3U);
  EXPECT_THAT(harness_.fleet.servers, ElementsAre(2, 2, 2, 2));
  harness_.Wait(seconds(15), workers_);
  harness_.Exit(ProcessKind::kServer, 2, 6009, "exited with code 1");
  EXPECT_EQ(status().wanted, 2U);
  EXPECT_THAT(status().trouble, HasSubstr("2 servers, not 3: a new one ended 5 times: exited"));
}

TEST_F(ScaleServersTest, ANewServerThatNeverComesIsGivenUp) {
  BeginAndAsk(3);
  harness_.Wait(seconds(31), workers_);
  EXPECT_EQ(status().wanted, 2U);
  EXPECT_THAT(status().trouble, HasSubstr("server 2 did not come within 30 s"));
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
  EXPECT_EQ(status().wanted, 2U);
}

/// Three servers fit on the hosts of the job.
class ServersOverSshTest : public CheckpointTest {
 protected:
  ServersOverSshTest()
      : CheckpointTest([](CoordinatorOptions* options) {
          options->config.servers.launcher = proto::LauncherKind::kSsh;
          options->config.servers.hosts = {{"a", 1}, {"b", 2}};
        }) {}
};

TEST_F(ServersOverSshTest, TheyAreNoMoreThanTheirHostsHaveSlots) {
  Begin();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::ScaleRequest{{{"", 4, false, true}}});
  const auto refusal = harness_.Take<proto::Refusal>(control);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_THAT(
      refusal->message, HasSubstr("that would be 4 servers, and servers.hosts has 3 slots"));
  harness_.Give(control, proto::ScaleRequest{{{"", 3, false, true}}});
  EXPECT_TRUE(harness_.Take<proto::ScaleReply>(control).has_value());
}

}  // namespace
}  // namespace ps::coordinator
