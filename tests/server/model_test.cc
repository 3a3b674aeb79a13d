#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;

std::vector<ChunkKey> KeysOf(const proto::PullReply& reply) {
  std::vector<ChunkKey> keys;
  for (const proto::PullReply::Chunk& chunk : reply.chunks) {
    keys.push_back(chunk.key);
  }
  return keys;
}

/// A frame of initial values for elements [begin, begin + values.size()) of a chunk.
proto::PullReply Values(ChunkKey key, uint32_t begin, const std::vector<float>& values) {
  proto::PullReply reply;
  reply.chunks.push_back({key, 0, static_cast<uint32_t>(values.size()), begin});
  auto buffer = std::make_shared<Buffer>(values.size() * sizeof(float));
  std::ranges::copy(values, buffer->floats().begin());
  reply.payload = proto::Payload::Own(std::move(buffer), values.size() * sizeof(float));
  return reply;
}

TEST(ShardModelTest, TheCoordinatorReadsTheModelWithoutBeingAMember) {
  ShardRig rig;
  rig.SetUp();
  rig.Push(rig.WholeStep(1, 1, 0.5F));
  rig.Take<proto::PushReply>();
  rig.Deliver(kCoordinator, proto::PullRequest{}, 21);
  const auto pulls = rig.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_EQ(pulls[0].to, kCoordinator);
  EXPECT_EQ(pulls[0].request_id, 21U);
  EXPECT_THAT(KeysOf(pulls[0].message), ElementsAre(kFirst, kSecond, kThird));
  EXPECT_EQ(pulls[0].values, std::vector<float>(7, 0.5F));
}

TEST(ShardModelTest, WhatTheCoordinatorHoldsIsLeftOutHoweverNewItIs) {
  ShardRig rig;
  rig.SetUp();
  rig.Push(rig.WholeStep(1, 1, 0.5F));
  proto::PullRequest pull;
  pull.held = {{kFirst, 0}, {kThird, 0}};
  rig.Deliver(kCoordinator, pull);
  const auto pulls = rig.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_THAT(KeysOf(pulls[0].message), ElementsAre(kSecond));
  pull.held = {{kForeign, 0}};
  rig.Deliver(kCoordinator, pull);
  EXPECT_EQ(rig.OnlyRefusal().code, StatusCode::kInvalidArgument);
}

TEST(ShardModelTest, TheModelLeavesAsFastAsTheCoordinatorReads) {
  ShardRig rig;
  rig.settings.frame_bytes = 8;
  rig.SetUp();
  rig.sent.slow = kCoordinator;
  rig.sent.has_frame = false;
  rig.Deliver(kCoordinator, proto::PullRequest{});
  size_t frames = rig.Take<proto::PullReply>().size();
  EXPECT_EQ(frames, 1U);
  for (; frames < 4; ++frames) {
    rig.sent.has_frame = false;
    rig.core.OnDrained(kCoordinator, &rig.sent);
    EXPECT_EQ(rig.Take<proto::PullReply>().size(), 1U) << frames;
  }
  rig.sent.has_frame = false;
  rig.core.OnDrained(kCoordinator, &rig.sent);
  EXPECT_TRUE(rig.Take<proto::PullReply>().empty()) << "all of it has left";
}

TEST(ShardModelTest, ALostConnectionEndsTheAnswer) {
  ShardRig rig;
  rig.settings.frame_bytes = 8;
  rig.SetUp();
  rig.sent.slow = kCoordinator;
  rig.Deliver(kCoordinator, proto::PullRequest{});
  rig.core.OnPeerClosed(kCoordinator, rig.now, &rig.sent);
  rig.core.OnCoordinatorConnected(kCoordinator, 1, rig.now, &rig.sent);
  rig.Take<proto::PullReply>();
  rig.sent.has_frame = false;
  rig.core.OnDrained(kCoordinator, &rig.sent);
  EXPECT_TRUE(rig.Take<proto::PullReply>().empty());
}

TEST(ShardModelTest, BspIsReadBetweenCommits) {
  ShardRig rig(proto::Mode::kBsp);
  rig.settings.commit_slice_bytes = 1;
  rig.SetUp();
  proto::PushRequest push = rig.WholeStep(1, 1, 0.5F);
  push.round = 1;
  rig.Push(push);
  proto::CommitRound commit;
  commit.round = 1;
  commit.contributions = {{WorkerId(0), Incarnation(1), 1, push.samples}};
  rig.Deliver(kCoordinator, commit);
  ASSERT_TRUE(rig.core.HasWork());
  rig.Deliver(kCoordinator, proto::PullRequest{});
  while (rig.core.HasWork()) {
    EXPECT_TRUE(rig.Take<proto::PullReply>().empty());
    rig.core.Continue(&rig.sent);
  }
  const auto pulls = rig.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_EQ(pulls[0].values, std::vector<float>(7, 0.5F));
}

TEST(ShardModelTest, AShardThatIsNotSetUpHasNoModel) {
  ShardRig rig;
  rig.core.OnCoordinatorConnected(kCoordinator, 1, rig.now, &rig.sent);
  rig.Deliver(kCoordinator, proto::PullRequest{});
  EXPECT_EQ(rig.OnlyRefusal().code, StatusCode::kUnavailable);
}

class InitialValuesTest : public ::testing::Test {
 protected:
  InitialValuesTest() {
    rig_.settings.frame_bytes = 8;
    rig_.setup.has_values = true;
    rig_.core.OnCoordinatorConnected(kCoordinator, 1, rig_.now, &rig_.sent);
    rig_.Deliver(kCoordinator, rig_.setup, 5);
  }

  std::vector<ChunkKey> AskedFor() {
    const auto pulls = rig_.Take<proto::PullRequest>();
    std::vector<ChunkKey> held;
    if (pulls.size() == 1) {
      for (const proto::ChunkVersion& chunk : pulls[0].message.held) {
        held.push_back(chunk.key);
      }
    } else {
      ADD_FAILURE() << pulls.size() << " pulls";
    }
    return held;
  }

  ShardRig rig_;
};

TEST_F(InitialValuesTest, AShardIsReadyWhenAllOfThemAreHere) {
  EXPECT_THAT(AskedFor(), ElementsAre());
  rig_.Deliver(kCoordinator, Values(kThird, 2, {7}));
  rig_.Deliver(kCoordinator, Values(kThird, 2, {7}));
  rig_.Deliver(kCoordinator, Values(kFirst, 0, {1, 2}));
  rig_.Deliver(kCoordinator, Values(kSecond, 0, {3, 4}));
  EXPECT_FALSE(rig_.core.is_set_up());
  EXPECT_TRUE(rig_.Take<proto::ShardReady>().empty());
  rig_.Deliver(kCoordinator, Values(kThird, 0, {5, 6}));
  EXPECT_TRUE(rig_.core.is_set_up());
  const auto ready = rig_.Take<proto::ShardReady>();
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].request_id, 5U);
  EXPECT_THAT(rig_.core.ValuesOf(kFirst), ElementsAre(1, 2));
  EXPECT_THAT(rig_.core.ValuesOf(kSecond), ElementsAre(3, 4));
  EXPECT_THAT(rig_.core.ValuesOf(kThird), ElementsAre(5, 6, 7));
  EXPECT_EQ(rig_.core.VersionOf(kThird), 0U);
  rig_.Deliver(kCoordinator, Values(kFirst, 0, {8, 9}));
  EXPECT_THAT(rig_.core.ValuesOf(kFirst), ElementsAre(1, 2)) << "too late";
}

TEST_F(InitialValuesTest, WhatIsLostIsAskedForAgain) {
  AskedFor();
  rig_.Deliver(kCoordinator, Values(kSecond, 0, {3, 4}));
  rig_.Deliver(kCoordinator, Values(kThird, 0, {5, 6}));
  rig_.Wait(rig_.settings.timing.lease - std::chrono::milliseconds(200));
  EXPECT_TRUE(rig_.Take<proto::PullRequest>().empty());
  rig_.Deliver(kCoordinator, proto::HeartbeatReply{});
  rig_.Wait(std::chrono::milliseconds(400));
  EXPECT_THAT(AskedFor(), ElementsAre(kSecond)) << "of the third a part is missing";
}

TEST_F(InitialValuesTest, AnotherConnectionGoesOnWithWhatIsHere) {
  AskedFor();
  rig_.Deliver(kCoordinator, Values(kSecond, 0, {3, 4}));
  rig_.core.OnPeerClosed(kCoordinator, rig_.now, &rig_.sent);
  const proto::PeerId next(2);
  rig_.core.OnCoordinatorConnected(next, 1, rig_.now, &rig_.sent);
  rig_.Tick(rig_.settings.timing.retry_limit * 2);
  EXPECT_TRUE(rig_.Take<proto::PullRequest>().empty()) << "the set-up comes first";
  rig_.Deliver(next, rig_.setup, 6);
  EXPECT_THAT(AskedFor(), ElementsAre(kSecond));
  rig_.Deliver(next, Values(kFirst, 0, {1, 2}));
  rig_.Deliver(next, Values(kThird, 0, {5, 6}));
  rig_.Deliver(next, Values(kThird, 2, {7}));
  const auto ready = rig_.Take<proto::ShardReady>();
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].to, next);
  EXPECT_EQ(ready[0].request_id, 6U);
}

TEST_F(InitialValuesTest, WhatIsNoPartIsRefused) {
  for (const auto& reply :
       {Values(kForeign, 0, {1}), Values(kThird, 1, {1}), Values(kThird, 0, {1, 2, 3})}) {
    rig_.Deliver(kCoordinator, reply);
    EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(rig_.core.is_set_up());
}

TEST_F(InitialValuesTest, WorkersWaitMeanwhile) {
  rig_.Pull(rig_.PullAll(1));
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kUnavailable);
}

}  // namespace
}  // namespace ps::server
