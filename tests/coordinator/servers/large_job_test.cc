// What a job of many workers and many chunks says in one event is bounded: by the frame, and by
// memory.

#include <gtest/gtest.h>

#include "ps/proto/move_limits.h"
#include "tests/coordinator/checkpoint_fixture.h"

namespace ps::coordinator {
namespace {

/// A job of 1,200 chunks that are all small enough to move at once.
class LargeMoveTest : public CheckpointTest {
 protected:
  LargeMoveTest()
      : CheckpointTest([](CoordinatorOptions* options) {
          options->tensors.assign(1200, {"w", {1}});
        }) {}

  /// Two servers train, and one is to have all.
  void BeginAndAsk() {
    Begin();
    const proto::PeerId control = harness_.Connect(proto::Role::kControl);
    harness_.Give(control, proto::ScaleRequest{{{"", 1, false, true}}});
    Wait(harness_.timing.tick * 2);
  }

  std::optional<proto::ChunkMove> move() const {
    return harness_.core->StateAt(harness_.now).servers.chunks;
  }

  void Given() {
    const proto::ChunkMove now = *move();
    harness_.Give(harness_.shards[now.from.value].peer, proto::ChunksGiven{now.from, now.version});
  }
};

TEST_F(LargeMoveTest, NoMoreChunksMoveAtATimeThanTheirOfferCanName) {
  BeginAndAsk();
  size_t moved = 0;
  for (int i = 0; i < 20 && move(); ++i) {
    EXPECT_LE(move()->keys.size(), proto::OfferKeysMax(1024));
    moved += move()->keys.size();
    Given();
    Wait(harness_.timing.tick * 2);
  }
  EXPECT_EQ(moved, 600U);
  EXPECT_EQ(harness_.status().servers.count, 1U);
}

TEST_F(LargeMoveTest, WhoWouldMakeTheOfferTooLargeJoinsWhenTheChunksHaveMoved) {
  BeginAndAsk();
  ASSERT_TRUE(move().has_value());
  const uint64_t members_max = proto::OfferMembersMax(move()->keys.size());
  ASSERT_LT(members_max, 1200U);
  for (uint64_t members = workers_.size(); members < members_max; ++members) {
    harness_.Join();
  }
  const proto::PeerId one_more = harness_.AskToJoin(std::nullopt);
  EXPECT_FALSE(harness_.Take<proto::JoinReply>(one_more).has_value());
  EXPECT_FALSE(harness_.Take<proto::Refusal>(one_more).has_value());
  Given();
  EXPECT_TRUE(harness_.Take<proto::JoinReply>(one_more).has_value());
}

/// The answer to each has where all chunks are.
TEST(LargeJobTest, SoManyJoinAtOnceThatTheAnswersFitIntoMemory) {
  CoordinatorOptions options = SmallJob();
  options.tensors = {{"w", {20'000 * 256}}};
  options.config.workers.clear();
  Harness harness(options);
  harness.StartWithShards();
  harness.shards[1].is_mute = true;
  std::vector<proto::PeerId> peers;
  for (int i = 0; i < 150; ++i) {
    peers.push_back(harness.AskToJoin(std::nullopt));
  }
  const size_t at_once = harness.core->StateAt(harness.now).membership.members.size();
  EXPECT_GT(at_once, 50U);
  EXPECT_LT(at_once, 110U) << "of 640 KB each";
  harness.Unmute(1);
  for (const proto::PeerId peer : peers) {
    EXPECT_TRUE(harness.Take<proto::JoinReply>(peer).has_value());
  }
}

/// Members know where chunks are, and say so when they do not.
TEST(LargeJobTest, MembersAreToldOfAServerThatIsBackAndNotOfAllChunks) {
  FakeDisk disk;
  Harness harness(OptionsWith(&disk));
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  harness.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  harness.shards[1].membership = proto::Membership();
  harness.RegisterShard(1, 777);
  const auto told = harness.Take<proto::ShardAddresses>(workers[0].peer);
  ASSERT_TRUE(told.has_value());
  ASSERT_EQ(told->shards.size(), 1U);
  EXPECT_EQ(told->shards[0].shard, ShardId(1));
  EXPECT_EQ(told->version, 0U);
  EXPECT_TRUE(told->places.empty());
  harness.Wait(harness.timing.heartbeat, workers);
  const auto again = harness.Take<proto::ShardAddresses>(workers[0].peer);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->shards.size(), 1U) << "those that it may have missed";
  EXPECT_TRUE(again->places.empty());
}

/// With the addresses of all servers for every member, 1,024 servers and 10,000 members were 1 GB.
TEST(LargeJobTest, WhatIsSaidOfAServerThatIsBackDoesNotGrowWithTheServers) {
  const auto bytes_told = [](uint32_t servers) {
    FakeDisk disk;
    CoordinatorOptions options = OptionsWith(&disk);
    options.config.servers.count = servers;
    options.tensors.assign(servers, {"w", {1}});
    Harness harness(options);
    std::vector<FakeWorker> workers = harness.StartWithWorkers();
    harness.AskAll(&workers);
    harness.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
    harness.shards[1].membership = proto::Membership();
    harness.RegisterShard(1, 777);
    size_t bytes = 0;
    for (const FakeWorker& worker : workers) {
      while (const auto told = harness.Take<proto::ShardAddresses>(worker.peer)) {
        bytes += proto::EncodeMessage(*told, 1).size();
      }
    }
    return bytes;
  };
  EXPECT_GT(bytes_told(2), 0U);
  EXPECT_EQ(bytes_told(64), bytes_told(2));
}

}  // namespace
}  // namespace ps::coordinator
