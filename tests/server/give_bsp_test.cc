// Chunks that a shard gives to another one, or gets, in bsp: what waits for the round travels with
// them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Two members; round 1 is committed.
class GiveInBspTest : public ::testing::Test {
 protected:
  GiveInBspTest() : rig_(proto::Mode::kBsp) {
    rig_.settings.frame_bytes = 8;  // a chunk of two elements
    rig_.SetUp();
    rig_.Deliver(kCoordinator, rig_.MembersUpTo(2));
    Contribute(1, 1, false);
    Contribute(2, 1, false);
  }

  void Contribute(uint64_t incarnation, uint64_t round, bool wants_pull) {
    for (const ChunkKey key : {kFirst, kSecond, kThird}) {
      if (!rig_.core.HasChunk(key)) {
        continue;
      }
      const uint32_t elements = key == kThird ? 3 : 2;
      for (uint32_t begin = 0; begin < elements; begin += 2) {
        proto::PushRequest push =
            rig_.Part(incarnation, round, key, begin, std::min(elements - begin, 2U), 0.25F);
        push.round = round;
        push.chunk_count = rig_.core.HasChunk(kFirst) ? 3 : 2;
        push.placement = rig_.core.HasChunk(kFirst) ? 1 : 2;
        push.wants_pull = wants_pull && key == kThird && begin == 2;
        rig_.Push(push);
      }
    }
  }

  void Commit(uint64_t round, const std::vector<uint64_t>& incarnations) {
    proto::CommitRound commit{round, {}};
    for (const uint64_t i : incarnations) {
      commit.contributions.push_back(
          {WorkerId(static_cast<uint32_t>(i - 1)), Incarnation(i), round, 1});
    }
    rig_.Deliver(kCoordinator, commit);
    while (rig_.core.HasWork()) {
      rig_.core.Continue(&rig_.sent);
    }
    EXPECT_EQ(rig_.core.Stats().round, round);
  }

  void Give(ChunkKey key) {
    rig_.Deliver(kCoordinator, proto::GiveChunks{2, {kOther, "other", 4712}, 1, {key}});
    rig_.core.OnDialed(kOther, kOtherPeer, rig_.now, &rig_.sent);
  }

  void Taken() {
    rig_.Deliver(
        kOtherPeer,
        proto::ChunksTaken{2, rig_.Take<proto::ChunksOffer>().back().message.generation});
  }

  /// Round 2, which lasts as long as round 1 took, has begun; chunks leave, and none is sent yet.
  void GiveSlowly(Duration round) {
    Commit(1, {1, 2});
    rig_.now += round;
    Contribute(1, 2, false);
    Contribute(2, 2, false);
    Commit(2, {1, 2});
    rig_.sent.slow = kOtherPeer;
    rig_.sent.has_frame = true;
    Give(kFirst);
    EXPECT_THAT(rig_.Take<proto::ChunkPart>(), IsEmpty());
  }

  void PullAfterRoundTwo() {
    proto::PullRequest pull = rig_.PullAll(1);
    pull.min_round = 2;
    rig_.Pull(pull, 30);
  }

  void OtherShardTakesMore() {
    rig_.sent.has_frame = false;
    rig_.core.OnDrained(kOtherPeer, &rig_.sent);
  }

  ShardRig rig_;
};

TEST_F(GiveInBspTest, RoundsGoOnWithTheChunksThatStay) {
  Commit(1, {1, 2});
  Give(kFirst);
  Taken();
  EXPECT_FALSE(rig_.core.HasChunk(kFirst));
  Contribute(1, 2, false);
  Contribute(2, 2, false);
  EXPECT_EQ(rig_.Take<proto::PushReply>().size(), 4U);
  Commit(2, {1, 2});
  EXPECT_EQ(rig_.core.VersionOf(kSecond), 2U);
  EXPECT_THAT(rig_.core.ValuesOf(kThird), ElementsAre(0.5F, 0.5F, 0.5F));
}

TEST_F(GiveInBspTest, WhatIsStagedTravelsWithTheChunk) {
  Commit(1, {1, 2});
  Contribute(2, 2, false);
  const uint64_t staged = rig_.core.Stats().staged_bytes;
  Give(kFirst);
  const auto offers = rig_.Take<proto::ChunksOffer>();
  ASSERT_EQ(offers.size(), 1U);
  EXPECT_THAT(
      offers[0].message.staged, ElementsAre(proto::StagedStep{Incarnation(2), 2, 2, 1, {kFirst}}));
  const auto parts = rig_.Take<proto::ChunkPart>();
  ASSERT_EQ(parts.size(), 2U) << "its value, and a gradient of it";
  EXPECT_EQ(parts[1].message.buffer, kBuffersMax);
  rig_.Deliver(kOtherPeer, proto::ChunksTaken{2, offers[0].message.generation});
  EXPECT_EQ(rig_.core.Stats().staged_bytes, staged - 2 * sizeof(float));
  Contribute(1, 2, false);
  Commit(2, {1, 2});
  EXPECT_THAT(rig_.core.ValuesOf(kSecond), ElementsAre(0.5F, 0.5F));
}

TEST_F(GiveInBspTest, NoRoundIsCommittedWhileChunksAreOnTheirWay) {
  Commit(1, {1, 2});
  Contribute(1, 2, false);
  Give(kFirst);
  rig_.Deliver(kCoordinator, proto::CommitRound{2, {{WorkerId(0), Incarnation(1), 2, 1}}});
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kUnavailable);
  Taken();
  Commit(2, {1});
  EXPECT_THAT(rig_.core.ValuesOf(kSecond), ElementsAre(0.5F, 0.5F));
}

TEST_F(GiveInBspTest, AnAnswerThatIsStillBeingSentEndsWithTheChunkThatLeaves) {
  Commit(1, {1, 2});
  Contribute(1, 2, true);
  Contribute(2, 2, false);
  rig_.sent.slow = PeerOf(0);
  rig_.sent.has_frame = true;
  Commit(2, {1, 2});
  rig_.sent.has_frame = false;
  rig_.core.OnDrained(PeerOf(0), &rig_.sent);
  Give(kThird);
  Taken();
  const size_t frames = rig_.Take<proto::PullReply>().size();
  ASSERT_LT(frames, 4U) << "some of it was still to be sent";
  rig_.sent.has_frame = false;
  rig_.core.OnDrained(PeerOf(0), &rig_.sent);
  EXPECT_THAT(rig_.Take<proto::PullReply>(), IsEmpty());
  proto::PullRequest pull = rig_.PullAll(1);
  pull.min_round = 2;
  pull.placement = 2;
  rig_.Pull(pull, 30);
  for (int i = 0; i < 4; ++i) {
    rig_.sent.has_frame = false;
    rig_.core.OnDrained(PeerOf(0), &rig_.sent);
  }
  const auto answers = rig_.Take<proto::PullReply>();
  ASSERT_FALSE(answers.empty());
  EXPECT_EQ(answers.back().message.chunk_total, 2U);
  EXPECT_EQ(answers.back().message.placement, 2U);
  EXPECT_THAT(answers.back().values, ElementsAre(0.5F, 0.5F));
}

TEST_F(GiveInBspTest, AnswersToPullsWaitForChunksThatLeave) {
  GiveSlowly(std::chrono::seconds(8));
  PullAfterRoundTwo();
  EXPECT_THAT(rig_.Take<proto::PullReply>(), IsEmpty());
  OtherShardTakesMore();
  EXPECT_EQ(rig_.Take<proto::ChunkPart>().size(), 1U);
  EXPECT_EQ(rig_.Take<proto::PullReply>().size(), 4U) << "of three chunks, one has two parts";
}

TEST_F(GiveInBspTest, AnswersWaitForAQuarterOfARoundAtMost) {
  GiveSlowly(std::chrono::seconds(8));
  PullAfterRoundTwo();
  rig_.Wait(std::chrono::milliseconds(1800));
  EXPECT_THAT(rig_.Take<proto::PullReply>(), IsEmpty()) << "also when it is offered again";
  rig_.Wait(std::chrono::milliseconds(300));
  EXPECT_EQ(rig_.Take<proto::PullReply>().size(), 4U);
  OtherShardTakesMore();
  Taken();
  rig_.sent.has_frame = true;
  rig_.Deliver(kCoordinator, proto::GiveChunks{3, {kOther, "other", 4712}, 1, {kSecond}});
  proto::PullRequest pull = rig_.PullAll(2);
  pull.min_round = 2;
  pull.placement = 2;
  rig_.Pull(pull, 31);
  EXPECT_EQ(rig_.Take<proto::PullReply>().size(), 3U) << "nothing waits in this round any more";
}

TEST_F(GiveInBspTest, AnswersDoNotWaitForAShardThatIsNotThere) {
  GiveSlowly(std::chrono::seconds(8));
  PullAfterRoundTwo();
  rig_.core.OnPeerClosed(kOtherPeer, rig_.now, &rig_.sent);
  rig_.Tick(rig_.core.timing().tick);
  EXPECT_EQ(rig_.Take<proto::PullReply>().size(), 4U);
  rig_.core.OnDialed(kOther, kOtherPeer, rig_.now, &rig_.sent);
  PullAfterRoundTwo();
  rig_.Deliver(kOtherPeer, proto::Refusal{StatusCode::kUnavailable, "not yet", 10, 0});
  EXPECT_EQ(rig_.Take<proto::PullReply>().size(), 4U);
}

TEST_F(GiveInBspTest, NothingLeavesWhileARoundIsBeingCommitted) {
  ShardRig rig(proto::Mode::kBsp);
  rig.settings.commit_slice_bytes = 1;
  rig.SetUp();
  proto::PushRequest push = rig.WholeStep(1, 1, 0.5F);
  push.round = 1;
  rig.Push(push);
  rig.Deliver(kCoordinator, proto::CommitRound{1, {{WorkerId(0), Incarnation(1), 1, 1}}});
  ASSERT_TRUE(rig.core.HasWork());
  rig.Deliver(kCoordinator, proto::GiveChunks{2, {kOther, "other", 4712}, 1, {kFirst}});
  EXPECT_EQ(rig.OnlyRefusal().code, StatusCode::kUnavailable);
  EXPECT_THAT(rig.dialer.dialled, IsEmpty());
}

/// bsp: it was set up without chunks, when round 5 was the newest.
TEST(TakeInBspTest, AShardThatHadNoChunksGoesOnWithTheRoundsOfTheOthers) {
  ShardRig rig(proto::Mode::kBsp);
  for (proto::ChunkAssignment& chunk : rig.setup.placement.chunks) {
    chunk.shard = kOther;
  }
  rig.setup.membership.round = 5;
  rig.SetUp();
  proto::ChunksOffer offer;
  offer.from = kOther;
  offer.version = 2;
  offer.to_life = rig.setup.life;
  offer.generation = rig.setup.membership.generation;
  offer.samples_done = 50;
  offer.members = {{Incarnation(1), 5, 5, false, true}};
  offer.chunks = {{kFirst, 5, {}}};
  rig.Deliver(kGiver, offer);
  proto::ChunkPart part;
  part.version = 2;
  part.chunks = {{kFirst, 2, 0}};
  auto buffer = std::make_shared<Buffer>(2 * sizeof(float));
  std::ranges::fill(buffer->floats(), 4.0F);
  part.payload = proto::Payload::Own(std::move(buffer), 2 * sizeof(float));
  rig.Deliver(kGiver, part);
  ASSERT_TRUE(rig.core.HasChunk(kFirst));
  proto::PullRequest pull = rig.PullAll(1);
  pull.min_round = 5;
  pull.placement = 2;
  rig.Pull(pull);
  ASSERT_EQ(rig.Take<proto::PullReply>().size(), 1U);
  proto::PushRequest push = rig.Frame(1, 6, {kFirst}, 0.5F);
  push.chunk_count = 1;
  push.placement = 2;
  push.round = 6;
  rig.Push(push);
  EXPECT_EQ(rig.OnlyPushReply().outcome, proto::PushOutcome::kStaged);
  rig.Deliver(kCoordinator, proto::CommitRound{6, {{WorkerId(0), Incarnation(1), 6, 1}}});
  EXPECT_EQ(rig.Take<proto::CommitAck>().size(), 1U);
  EXPECT_THAT(rig.core.ValuesOf(kFirst), ElementsAre(3.5F, 3.5F));
}

}  // namespace
}  // namespace ps::server
