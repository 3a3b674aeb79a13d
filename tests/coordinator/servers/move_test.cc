// Chunks that move to other servers while training goes on, in async. bsp has
// scale_servers_test.cc.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/coordinator/move_fixture.h"

namespace ps::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class MoveTest : public MovingTest {
 protected:
  MoveTest() : MovingTest(proto::Mode::kAsync) {}

  void BeginAndScale(int32_t servers) {
    BeginAndAsk(servers);
    NewcomersCome();
  }

  void TrainToTheEnd() {
    for (size_t i = 0; i < workers_.size(); ++i) {
      harness_.Work(&workers_[i], grants_[i]);
    }
    RunToTheEnd(&harness_, &workers_);
    ASSERT_EQ(harness_.core->StateAt(harness_.now).phase, proto::JobPhase::kLeaving);
    CloseAll(&harness_, workers_);
  }

  void MoveAll() {
    for (int i = 0; i < 100 && status().is_moving; ++i) {
      if (move()) {
        Given();
      } else {
        Tick();
      }
    }
  }
};

TEST_F(MoveTest, ChunksGoToNewServersWhileTrainingGoesOn) {
  BeginAndScale(3);
  AllConnect();
  EXPECT_TRUE(status().is_moving);
  ASSERT_TRUE(move().has_value());
  const proto::GiveChunks& order = harness_.shards[move()->from.value].gives.back();
  EXPECT_EQ(order.to.shard, ShardId(2));
  EXPECT_EQ(order.version, 2U);
  Round();
  EXPECT_NE(grants_[0].lease, LeaseId()) << "nobody waits";
  MoveAll();
  EXPECT_EQ(status().count, 3U);
  EXPECT_EQ(status().moves, 1U);
  EXPECT_EQ(ShardsWithChunks().size(), 3U);
  EXPECT_EQ(checkpoints().rollbacks, 0U);
  EXPECT_EQ(checkpoints().steps_undone, 0U);
  Round();
  EXPECT_EQ(checkpoints().steps_undone, 0U) << "a step of other shards is no lost one";
}

TEST_F(MoveTest, TheFirstChunksLeaveAsSoonAsTheirShardHasComeBack) {
  BeginAndScale(3);
  harness_.shards.resize(status().count);
  for (const uint32_t shard : {2U, 1U, 0U}) {
    harness_.RegisterShard(shard, PidOf(shard) != 0 ? PidOf(shard) : 5000 + shard);
  }
  ASSERT_TRUE(move().has_value());
  EXPECT_THAT(harness_.shards[move()->from.value].gives, SizeIs(1)) << "not when asked again";
}

TEST_F(MoveTest, MembersAreToldWhereChunksAre) {
  BeginAndScale(3);
  AllConnect();
  while (harness_.Take<proto::ShardAddresses>(workers_[0].peer)) {
  }
  const proto::ChunkMove now = *move();
  Given();
  const auto told = harness_.Take<proto::ShardAddresses>(workers_[0].peer);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->version, now.version);
  EXPECT_EQ(told->base, now.version - 1);
  ASSERT_EQ(told->places.size(), now.keys.size());
  EXPECT_EQ(told->places[0].shard, now.to);
  ASSERT_EQ(told->shards.size(), 1U) << "else it would grow with servers times members";
  EXPECT_EQ(told->shards[0].shard, now.to);
  proto::WorkerHeartbeat beat;
  beat.incarnation = workers_[0].incarnation;
  beat.placement = 1;
  harness_.Give(workers_[0].peer, beat);
  std::optional<proto::ShardAddresses> all;
  while (const auto next = harness_.Take<proto::ShardAddresses>(workers_[0].peer)) {
    all = next;
  }
  ASSERT_TRUE(all.has_value()) << "who says that he does not know is told";
  EXPECT_EQ(all->base, 0U);
  EXPECT_EQ(all->places.size(), harness_.core->StateAt(harness_.now).placement.chunks.size());
}

/// A worker took such an address, which came late, for that of a server that had moved.
TEST_F(MoveTest, MembersAreNotToldOfServersThatNobodyKnowsThePlaceOf) {
  BeginAndScale(3);
  harness_.shards.resize(status().count);
  ASSERT_EQ(status().count, 3U) << "the third one has not connected since";
  harness_.Reconnect(&workers_[0]);
  proto::WorkerHeartbeat beat;
  beat.incarnation = workers_[0].incarnation;
  beat.placement = 0;
  harness_.Give(workers_[0].peer, beat);
  const auto told = harness_.Take<proto::ShardAddresses>(workers_[0].peer);
  ASSERT_TRUE(told.has_value());
  EXPECT_THAT(told->shards, SizeIs(2));
  for (const proto::ShardAddress& address : told->shards) {
    EXPECT_NE(address.port, 0U);
  }
}

TEST_F(MoveTest, ServersThatAreNotWantedGiveAllAndLeave) {
  BeginAndScale(1);
  EXPECT_TRUE(status().is_moving);
  const proto::PeerId leaving = harness_.shards[1].peer;
  const int64_t pid = PidOf(1);
  MoveAll();
  EXPECT_EQ(status().count, 1U);
  EXPECT_TRUE(harness_.is_closed(leaving));
  EXPECT_TRUE(harness_.shards[1].is_told);
  harness_.fleet.servers.clear();
  harness_.Exit(ProcessKind::kServer, 1, pid, "exited");
  EXPECT_THAT(harness_.fleet.servers, IsEmpty()) << "its end is no loss";
  AllConnect();
  const uint64_t counted = harness_.status().samples_counted;
  Round();
  EXPECT_GT(harness_.status().samples_counted, counted);
}

/// A process of the earlier one may still be about.
TEST_F(MoveTest, AShardThatComesAgainBeginsWithNoLifeBeforeThoseThatItsNumberHad) {
  const auto move_until = [this](uint32_t servers) {
    for (int i = 0; i < 50 && status().count != servers; ++i) {
      if (move()) {
        Given();
      } else {
        Written();
        Tick();
      }
    }
    ASSERT_EQ(status().count, servers);
  };
  Begin();
  Wait(kEvery);
  Written();
  Lose(1);
  harness_.RegisterShard(1, 777);
  ASSERT_EQ(NewestSetup(1).life, 2U);
  control_ = harness_.Connect(proto::Role::kControl);
  Scale(1);
  Tick();
  move_until(1);
  AllConnect();
  harness_.Restart();
  AllConnect();
  control_ = harness_.Connect(proto::Role::kControl);
  Scale(2);
  Tick();
  NewcomersCome();
  move_until(2);
  AllConnect();
  EXPECT_GE(NewestSetup(1).life, 2U);
}

TEST_F(MoveTest, ChunksGoWhereTheSharesWantThem) {
  Begin();
  control_ = harness_.Connect(proto::Role::kControl);
  const auto elements_of = [&](uint32_t shard) {
    uint64_t elements = 0;
    for (const auto& chunk : harness_.core->StateAt(harness_.now).placement.chunks) {
      elements += chunk.shard == ShardId(shard) ? chunk.element_count : 0;
    }
    return elements;
  };
  const uint64_t before = elements_of(0);
  harness_.Give(control_, proto::ScaleRequest{{{"", 2, false, true, {9, 1}}}});
  EXPECT_EQ(harness_.Take<proto::ScaleReply>(control_)->servers.shares.size(), 2U);
  EXPECT_TRUE(status().is_moving);
  Tick();
  MoveAll();
  EXPECT_EQ(status().moves, 1U);
  EXPECT_EQ(status().count, 2U);
  EXPECT_GT(elements_of(0), before);
  Tick();
  Written();
  const uint64_t joins = harness_.status().joins;
  harness_.Give(control_, proto::ScaleRequest{{{"", 0, true, true}}});
  Tick();
  MoveAll();
  EXPECT_EQ(status().moves, 2U);
  EXPECT_THAT(status().shares, IsEmpty());
  EXPECT_LT(elements_of(0), 2 * before);
  EXPECT_EQ(harness_.status().joins, joins);
}

/// A tensor to one server, while training goes on; a later move of others leaves it there.
TEST_F(MoveTest, ChunksGoToTheServerThatAPersonChose) {
  Begin();
  control_ = harness_.Connect(proto::Role::kControl);
  const auto shards_of = [&](uint32_t tensor) {
    std::set<ShardId> shards;
    for (const auto& chunk : harness_.core->StateAt(harness_.now).placement.chunks) {
      if (TensorOf(chunk.key) == tensor) {
        shards.insert(chunk.shard);
      }
    }
    return shards;
  };
  ASSERT_EQ(shards_of(0).size(), 2U);
  proto::ScaleChange change;
  change.tensor = "w";
  change.count = 1;
  harness_.Give(control_, proto::ScaleRequest{{change}});
  const auto reply = harness_.Take<proto::ScaleReply>(control_);
  ASSERT_TRUE(reply.has_value());
  EXPECT_TRUE(reply->servers.is_moving);
  Tick();
  MoveAll();
  EXPECT_EQ(shards_of(0), std::set{ShardId(1)});
  EXPECT_THAT(status().pinned, ElementsAre(proto::PinnedPart{"w", -1, 1}));
  EXPECT_GE(status().chunks_pinned, 2U);
  Tick();
  Written();
  harness_.Give(control_, proto::ScaleRequest{{{"", 2, false, true, {2, 1}}}});
  Tick();
  MoveAll();
  EXPECT_EQ(shards_of(0), std::set{ShardId(1)});
  harness_.Restart();
  AllConnect();
  control_ = harness_.Connect(proto::Role::kControl);
  change.count = 0;
  change.chunk = 1;
  harness_.Give(control_, proto::ScaleRequest{{change}});
  ASSERT_GE(status().pinned.size(), 2U);
  EXPECT_EQ(status().pinned[0], (proto::PinnedPart{"w", 0, 1}));
  EXPECT_EQ(status().pinned[1], (proto::PinnedPart{"w", 1, 0}));
  change.count = -1;
  change.chunk = -1;
  harness_.Give(control_, proto::ScaleRequest{{change}});
  EXPECT_THAT(status().pinned, IsEmpty());
  Tick();
  if (!disk_.writes.empty()) {
    Written();
  }
  Tick();
  MoveAll();
  EXPECT_EQ(shards_of(0).size(), 2U) << "it is where the shares want it";
  EXPECT_EQ(checkpoints().steps_undone, 0U);
}

TEST_F(MoveTest, MovesThatMakeNoSenseAreRefused) {
  Begin();
  control_ = harness_.Connect(proto::Role::kControl);

  struct Case {
    std::string tensor;
    int32_t server;
    int32_t chunk;
    std::string why;
  };

  for (const Case& c : std::vector<Case>{
           {"x", 1, -1, "the model has no tensor 'x'; it has w, b"},
           {"w", 2, -1, "there is no server 2; there are 0 to 1"},
           {"w", -2, -1, "there is no server -2"},
           {"b", 1, 1, "tensor 'b' has the chunks 0 to 0, and no 1"}}) {
    proto::ScaleChange change;
    change.tensor = c.tensor;
    change.count = c.server;
    change.chunk = c.chunk;
    harness_.Give(control_, proto::ScaleRequest{{change}});
    const auto refusal = harness_.Take<proto::Refusal>(control_);
    ASSERT_TRUE(refusal.has_value()) << c.why;
    EXPECT_EQ(refusal->code, StatusCode::kNotFound);
    EXPECT_NE(refusal->message.find(c.why), std::string::npos) << refusal->message;
  }
}

TEST_F(MoveTest, SharesThatMakeNoSenseAreRefused) {
  Begin();
  control_ = harness_.Connect(proto::Role::kControl);
  for (const std::vector<uint32_t>& shares :
       std::vector<std::vector<uint32_t>>{{1}, {1, 2, 3}, {0, 1}, {1, proto::kShareMax + 1}}) {
    harness_.Give(control_, proto::ScaleRequest{{{"", 2, false, true, shares}}});
    const auto refusal = harness_.Take<proto::Refusal>(control_);
    ASSERT_TRUE(refusal.has_value());
    EXPECT_NE(refusal->message.find("for 2 servers; allowed: one of 1 to 1000"), std::string::npos)
        << refusal->message;
  }
  EXPECT_FALSE(status().is_moving);
}

TEST_F(MoveTest, NoCheckpointIsOpenWhileChunksAreOnTheirWay) {
  BeginAndScale(1);
  ASSERT_TRUE(move().has_value());
  const size_t opened = disk_.opened.size();
  Wait(kEvery * 2);
  EXPECT_EQ(disk_.opened.size(), opened);
  Given();
  Tick();
  EXPECT_EQ(disk_.opened.size(), opened + 1) << "the one that is due comes before the next chunks";
  EXPECT_FALSE(move().has_value());
}

TEST_F(MoveTest, AServerThatIsLostMeanwhileTakesAllBackToACheckpoint) {
  BeginAndWrite();
  control_ = harness_.Connect(proto::Role::kControl);
  harness_.Give(control_, proto::ScaleRequest{{{"", 1, false, true}}});
  Tick();
  ASSERT_TRUE(move().has_value());
  Lose(0);
  Read();
  EXPECT_EQ(checkpoints().rollbacks, 1U);
  EXPECT_FALSE(move().has_value());
  ShardsReturn(0);
  WorkersReturn();
  grants_ = harness_.AskAll(&workers_);
  Tick();
  MoveAll();
  EXPECT_EQ(status().count, 1U) << "and then it is done after all";
}

/// The checkpoint under way has the chunks where they are. When it exists a server may come back
/// alone, but for the one that was lost before.
TEST_F(MoveTest, AnotherServerThatIsLostDoesNotLetTheFirstComeBackAlone) {
  BeginAndScale(3);
  AllConnect();
  MoveAll();
  Round();
  Tick();
  ASSERT_THAT(disk_.opened, ElementsAre(1));
  Lose(0);
  Written();
  ASSERT_EQ(checkpoints().newest, 1U);
  Lose(1);
  Read();
  EXPECT_EQ(checkpoints().rollbacks, 1U);
  EXPECT_EQ(checkpoints().shards_restored, 0U);
}

TEST_F(MoveTest, ACoordinatorThatComesBackAsksAgain) {
  BeginAndScale(1);
  const proto::ChunkMove before = *move();
  harness_.Restart();
  AllConnect();
  ASSERT_TRUE(move().has_value());
  EXPECT_EQ(move()->version, before.version);
  EXPECT_EQ(harness_.shards[before.from.value].gives.back().version, before.version);
  MoveAll();
  EXPECT_EQ(status().count, 1U);
}

TEST_F(MoveTest, AnotherModeWaitsForTheChunksOnTheirWay) {
  BeginAndScale(1);
  harness_.Give(control_, proto::ModeRequest{{proto::Mode::kSsp, 2}});
  Round();
  Tick();
  EXPECT_EQ(harness_.status().modes.in_force.mode, proto::Mode::kAsync);
  EXPECT_FALSE(harness_.status().modes.is_switching);
  Given();
  Tick();
  EXPECT_TRUE(harness_.status().modes.is_switching);
  EXPECT_FALSE(move().has_value());
}

/// The shard that gives came back at the end and knew of a worker that had left since. The other
/// one did not, took no chunks of a membership that it had never seen, and the run ended ten
/// minutes later without its last checkpoint.
TEST_F(MoveTest, OneThatIsUnderWayAtTheEndIsNotHeldUpByWhoLeavesThen) {
  BeginAndScale(1);
  ASSERT_TRUE(move().has_value());
  const uint32_t giver = move()->from.value;
  FakeShard& taker = harness_.shards[move()->to.value];
  harness_.shards[giver].is_mute = true;
  const proto::PeerId joiner = harness_.AskToJoin(std::nullopt, 4711);
  TrainToTheEnd();
  harness_.core->OnPeerClosed(joiner, harness_.now, harness_.out());
  harness_.Unmute(giver);
  harness_.RegisterShard(giver, PidOf(giver));
  Tick();
  EXPECT_EQ(
      taker.membership.generation, harness_.core->StateAt(harness_.now).membership.generation);
  Given();
  Tick();
  EXPECT_THAT(disk_.opened, SizeIs(1)) << "the last checkpoint";
}

/// The last checkpoint has every chunk in one place, or is none.
TEST_F(MoveTest, WhereOneDoesNotEndTheRunEndsWithoutALastCheckpointAndSaysSo) {
  BeginAndScale(1);
  ASSERT_TRUE(move().has_value());
  TrainToTheEnd();
  harness_.Wait(std::chrono::minutes(9));
  EXPECT_FALSE(harness_.core->is_finished());
  harness_.Wait(std::chrono::minutes(2));
  EXPECT_THAT(disk_.opened, IsEmpty());
  EXPECT_THAT(
      harness_.status().checkpoints.trouble,
      ::testing::HasSubstr("parameters were on their way to another server"));
}

TEST_F(MoveTest, WhatNobodyAskedForIsNoNews) {
  BeginAndScale(1);
  const proto::ChunkMove now = *move();
  harness_.Give(
      harness_.shards[now.from.value].peer, proto::ChunksGiven{now.from, now.version + 1});
  harness_.Give(harness_.shards[now.to.value].peer, proto::ChunksGiven{now.to, now.version});
  EXPECT_TRUE(move().has_value());
}

}  // namespace
}  // namespace ps::coordinator
