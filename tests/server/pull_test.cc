#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PullTest : public ::testing::Test {
 protected:
  void SetUp() override { rig_.SetUp(); }

  ShardRig rig_;
};

TEST_F(PullTest, AFirstPullGetsEverythingInOneFrame) {
  rig_.Pull(rig_.PullAll(1), 9);
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_EQ(pulls[0].to, PeerOf(0));
  EXPECT_EQ(pulls[0].request_id, 9U);
  EXPECT_EQ(pulls[0].message.chunk_total, 3U);
  ASSERT_EQ(pulls[0].message.chunks.size(), 3U);
  EXPECT_EQ(pulls[0].message.chunks[2].key, kThird);
  EXPECT_EQ(pulls[0].message.chunks[2].element_count, 3U);
  EXPECT_EQ(pulls[0].message.chunks[2].version, 0U);
  EXPECT_EQ(pulls[0].values, std::vector<float>(7, 1));
}

TEST_F(PullTest, OnlyNewerChunksAreSent) {
  proto::PushRequest push = rig_.Frame(2, 1, {kSecond}, 0.25F);
  push.chunk_count = 1;
  rig_.Push(push);
  proto::PullRequest pull = rig_.PullAll(1);
  pull.held = {{kFirst, 0}, {kSecond, 0}, {kThird, 0}};
  rig_.Pull(pull);
  auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  ASSERT_EQ(pulls[0].message.chunks.size(), 1U);
  EXPECT_EQ(pulls[0].message.chunks[0].key, kSecond);
  EXPECT_EQ(pulls[0].message.chunks[0].version, 1U);
  EXPECT_THAT(pulls[0].values, ElementsAre(0.75F, 0.75F));
}

TEST_F(PullTest, WhoHoldsEverythingGetsOneEmptyFrame) {
  proto::PullRequest pull = rig_.PullAll(1);
  pull.held = {{kFirst, 0}, {kSecond, 0}, {kThird, 0}};
  rig_.Pull(pull);
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_TRUE(pulls[0].message.chunks.empty());
  EXPECT_EQ(pulls[0].message.chunk_total, 0U);
}

TEST_F(PullTest, LargeAnswersAreCutIntoFrames) {
  ShardRig rig;
  rig.settings.frame_bytes = 17;  // two chunks of 8 bytes, then one of 12
  rig.SetUp();
  rig.Pull(rig.PullAll(1));
  const auto pulls = rig.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 2U);
  EXPECT_EQ(pulls[0].message.chunks.size(), 2U);
  EXPECT_EQ(pulls[1].message.chunks.size(), 1U);
  EXPECT_EQ(pulls[0].message.chunk_total, 3U);
  EXPECT_EQ(pulls[1].message.chunk_total, 3U);
  EXPECT_EQ(pulls[1].values.size(), 3U);
  EXPECT_EQ(rig.core.Stats().bytes_sent, 28U);
}

TEST_F(PullTest, AChunkLargerThanAFrameTravelsInParts) {
  ShardRig rig;
  rig.settings.frame_bytes = 8;
  rig.SetUp();
  rig.Pull(rig.PullAll(1));
  const auto pulls = rig.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 4U);
  const auto expect_part = [&](size_t frame, ChunkKey key, uint32_t begin, uint32_t count) {
    ASSERT_EQ(pulls[frame].message.chunks.size(), 1U);
    const proto::PullReply::Chunk& chunk = pulls[frame].message.chunks[0];
    EXPECT_EQ(chunk.key, key);
    EXPECT_EQ(chunk.element_begin, begin);
    EXPECT_EQ(chunk.element_count, count);
    EXPECT_EQ(pulls[frame].values.size(), count);
    EXPECT_EQ(pulls[frame].message.chunk_total, 3U);
  };
  expect_part(0, kFirst, 0, 2);
  expect_part(1, kSecond, 0, 2);
  expect_part(2, kThird, 0, 2);
  expect_part(3, kThird, 2, 1);
}

TEST_F(PullTest, TheRestOfALargeChunkSharesItsFrame) {
  ShardRig rig;
  rig.setup.tensors[0].shape = {5};
  rig.setup.placement.chunks = {{kFirst, 5, 0, kShard}, {kThird, 1, 0, kShard}};
  rig.settings.frame_bytes = 8;
  rig.SetUp();
  rig.Pull(rig.PullAll(1));
  const auto pulls = rig.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 3U);
  EXPECT_EQ(pulls[2].message.chunks.size(), 2U);
  EXPECT_EQ(pulls[2].message.chunks[0].element_begin, 4U);
  EXPECT_EQ(pulls[2].message.chunks[1].key, kThird);
}

/// An answer of three frames, one chunk each, to a worker that takes one frame at a time.
class PacedPullTest : public ::testing::Test {
 protected:
  explicit PacedPullTest(proto::Mode mode = proto::Mode::kAsync, uint64_t frame_bytes = 12)
      : rig_(mode) {
    rig_.settings.frame_bytes = frame_bytes;
    rig_.SetUp();
    rig_.sent.slow = PeerOf(0);
  }

  void Drain() {
    rig_.sent.has_frame = false;
    rig_.core.OnDrained(PeerOf(0), &rig_.sent);
  }

  ShardRig rig_;
};

/// The worker counts what it has got.
TEST_F(PacedPullTest, AChunkThatLeavesAfterItWasSentStaysInTheTotal) {
  rig_.Pull(rig_.PullAll(1), 9);
  EXPECT_EQ(rig_.Take<proto::PullReply>()[0].message.chunks[0].key, kFirst);
  constexpr proto::PeerId kSecondPeer{50};
  rig_.Deliver(kCoordinator, proto::GiveChunks{2, {ShardId(4), "other", 4712}, 1, {kFirst}});
  rig_.core.OnDialed(ShardId(4), kSecondPeer, rig_.now, &rig_.sent);
  rig_.Deliver(kSecondPeer, proto::ChunksTaken{2, Generation(1)});
  ASSERT_FALSE(rig_.core.HasChunk(kFirst));
  for (const ChunkKey key : {kSecond, kThird}) {
    Drain();
    const auto pulls = rig_.Take<proto::PullReply>();
    ASSERT_EQ(pulls.size(), 1U);
    EXPECT_EQ(pulls[0].message.chunk_total, 3U);
    EXPECT_EQ(pulls[0].message.chunks[0].key, key);
  }
}

TEST_F(PacedPullTest, AFrameFollowsWhenTheOneBeforeHasLeft) {
  rig_.Pull(rig_.PullAll(1), 9);
  for (const ChunkKey key : {kFirst, kSecond, kThird}) {
    const auto pulls = rig_.Take<proto::PullReply>();
    ASSERT_EQ(pulls.size(), 1U);
    EXPECT_EQ(pulls[0].request_id, 9U);
    EXPECT_EQ(pulls[0].message.chunk_total, 3U);
    EXPECT_EQ(pulls[0].message.chunks[0].key, key);
    Drain();
  }
  EXPECT_TRUE(rig_.sent.all.empty());
}

TEST_F(PacedPullTest, TheRestComesAtOnceWhenTheWorkerHasCaughtUp) {
  rig_.Pull(rig_.PullAll(1));
  rig_.sent.slow = proto::PeerId();
  Drain();
  EXPECT_EQ(rig_.Take<proto::PullReply>().size(), 3U);
}

TEST_F(PacedPullTest, ALaterFrameHasTheNewestValuesAndTheSameChunks) {
  proto::PullRequest pull = rig_.PullAll(1);
  pull.held = {{kFirst, 0}};
  rig_.Push(rig_.WholeStep(2, 1, 0));  // all chunks have version 1 now
  rig_.Pull(pull);
  rig_.Push(rig_.WholeStep(2, 2, 0.25F));
  Drain();
  Drain();
  Drain();
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 3U);
  EXPECT_EQ(pulls[0].message.chunks[0].version, 1U);
  EXPECT_EQ(pulls[2].message.chunks[0].key, kThird);
  EXPECT_EQ(pulls[2].message.chunks[0].version, 2U);
  EXPECT_EQ(pulls[2].values, std::vector<float>(3, 0.75F));
}

TEST_F(PacedPullTest, ARepetitionOfWhatIsBeingAnsweredChangesNothing) {
  rig_.Pull(rig_.PullAll(1), 9);
  rig_.Pull(rig_.PullAll(1), 9);
  EXPECT_EQ(rig_.Take<proto::PullReply>().size(), 1U);
  Drain();
  Drain();
  EXPECT_EQ(rig_.Take<proto::PullReply>().size(), 2U);
  Drain();
  rig_.Pull(rig_.PullAll(1), 9);
  EXPECT_EQ(rig_.Take<proto::PullReply>().size(), 1U) << "that answer was lost, another one begins";
}

TEST_F(PacedPullTest, AnAnswerBeginsWhenThereIsRoom) {
  rig_.sent.has_frame = true;
  rig_.Pull(rig_.PullAll(1));
  EXPECT_TRUE(rig_.sent.all.empty());
  Drain();
  EXPECT_EQ(rig_.Take<proto::PullReply>().size(), 1U);
}

TEST_F(PacedPullTest, ANewerPullEndsTheAnswerUnderWay) {
  rig_.Pull(rig_.PullAll(1), 9);
  rig_.Pull(rig_.PullAll(1), 10);
  Drain();
  Drain();
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 3U);
  EXPECT_EQ(pulls[1].request_id, 10U);
  EXPECT_EQ(pulls[1].message.chunks[0].key, kFirst);
  EXPECT_EQ(pulls[2].request_id, 10U);
  EXPECT_EQ(pulls[2].message.chunks[0].key, kSecond);
}

TEST_F(PacedPullTest, AClosedConnectionOrAFenceEndsTheAnswerUnderWay) {
  rig_.Pull(rig_.PullAll(1));
  rig_.core.OnPeerClosed(PeerOf(0), rig_.now, &rig_.sent);
  rig_.sent.all.clear();
  Drain();
  EXPECT_TRUE(rig_.sent.all.empty());
  rig_.Pull(rig_.PullAll(1), 9);
  proto::Membership without = rig_.MembersUpTo(2);
  without.members.erase(without.members.begin());
  rig_.Deliver(kCoordinator, without);
  rig_.sent.all.clear();
  Drain();
  EXPECT_TRUE(rig_.sent.all.empty());
}

/// The last chunk in two parts.
class PacedPartsTest : public PacedPullTest {
 protected:
  PacedPartsTest() : PacedPullTest(proto::Mode::kAsync, 8) {}
};

TEST_F(PacedPartsTest, EachPartHasTheNewestValuesAndSaysTheirVersion) {
  proto::PullRequest pull = rig_.PullAll(1);
  pull.held = {{kFirst, 0}, {kSecond, 0}};
  rig_.Pull(pull);
  rig_.Push(rig_.Part(2, 1, kThird, 0, 2, 0.25F));
  rig_.Push(rig_.Part(2, 1, kThird, 2, 1, 0.25F));
  Drain();
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 2U);
  EXPECT_EQ(pulls[0].message.chunks[0].version, 0U);
  EXPECT_EQ(pulls[0].values, std::vector<float>(2, 1));
  EXPECT_EQ(pulls[1].message.chunks[0].version, 1U);
  EXPECT_EQ(pulls[1].values, std::vector<float>(1, 0.75F));
  EXPECT_EQ(pulls[1].message.chunk_total, 1U);
  Drain();
  EXPECT_TRUE(rig_.sent.all.empty());
}

class PacedBspPullTest : public PacedPullTest {
 protected:
  PacedBspPullTest() : PacedPullTest(proto::Mode::kBsp) {}
};

TEST_F(PacedBspPullTest, ACommitSendsTheRestOfAnAnswerBeforeItChangesAnything) {
  rig_.Pull(rig_.PullAll(1));
  EXPECT_EQ(rig_.Take<proto::PullReply>().size(), 1U);
  proto::PushRequest push = rig_.WholeStep(2, 1, 0.25F);
  push.round = 1;
  rig_.Push(push);
  proto::CommitRound commit;
  commit.round = 1;
  commit.contributions = {{WorkerId(1), Incarnation(2), 1, 1}};
  rig_.Deliver(kCoordinator, commit);
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 2U);
  EXPECT_EQ(pulls[1].values, std::vector<float>(3, 1));
  EXPECT_EQ(rig_.Versions(), (std::vector<Version>{1, 1, 1}));
  Drain();
  EXPECT_TRUE(rig_.Take<proto::PullReply>().empty());
}

TEST_F(PullTest, ChunksThatAreNotHereCanNotBeHeld) {
  proto::PullRequest pull = rig_.PullAll(1);
  pull.held = {{kForeign, 1}};
  rig_.Pull(pull);
  const proto::Refusal refusal = rig_.OnlyRefusal();
  EXPECT_EQ(refusal.code, StatusCode::kInvalidArgument);
  EXPECT_THAT(refusal.message, HasSubstr("8589934592"));
}

TEST_F(PullTest, FencedAndFutureIncarnationsAreRefused) {
  rig_.Deliver(kCoordinator, rig_.MembersUpTo(2));
  rig_.Pull(rig_.PullAll(3));
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kStale);
  EXPECT_EQ(rig_.core.Stats().pushes_fenced, 0U);
  rig_.Pull(rig_.PullAll(9));
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kUnavailable);
}

TEST_F(PullTest, APullThatWasOvertakenByANewerOneIsDropped) {
  rig_.Pull(rig_.PullAll(1), 12);
  EXPECT_EQ(rig_.Take<proto::PullReply>().size(), 1U);
  rig_.Pull(rig_.PullAll(1), 11);
  EXPECT_TRUE(rig_.sent.all.empty());
  rig_.Pull(rig_.PullAll(1), 13);
  EXPECT_EQ(rig_.Take<proto::PullReply>().size(), 1U);
}

TEST_F(PullTest, AFusedPullThatWasOvertakenByANewerOneIsDropped) {
  proto::PushRequest push = rig_.Frame(1, 1, {kFirst}, 1);
  push.wants_pull = true;
  rig_.Push(push, 5);
  rig_.Pull(rig_.PullAll(1), 6);
  EXPECT_EQ(rig_.Take<proto::PullReply>().size(), 1U);
  rig_.Push(rig_.Frame(1, 1, {kSecond, kThird}, 1), 5);
  EXPECT_EQ(rig_.OnlyPushReply().step, 1U);
  EXPECT_TRUE(rig_.Take<proto::PullReply>().empty());
}

TEST_F(PullTest, AStatedLeadIsCounted) {
  rig_.Push(rig_.WholeStep(1, 1, 0));
  rig_.Push(rig_.WholeStep(1, 2, 0));
  rig_.Pull(rig_.PullAll(1));
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_EQ(pulls[0].message.staleness_steps, 2U);
  proto::PullRequest evaluation = rig_.PullAll(1);
  evaluation.is_evaluation = true;
  rig_.Pull(evaluation, 9);
  const std::vector<uint64_t> histogram = rig_.core.Stats().staleness_histogram;
  ASSERT_EQ(histogram.size(), PullQueue::kStalenessBuckets);
  EXPECT_EQ(histogram[2], 1U);
  EXPECT_EQ(histogram[0], 0U);
}

TEST_F(PullTest, LeadsBeyondTheHistogramCountInItsLastBucket) {
  for (Step step = 1; step <= 40; ++step) {
    rig_.Push(rig_.WholeStep(1, step, 0));
  }
  rig_.Pull(rig_.PullAll(1));
  EXPECT_EQ(rig_.core.Stats().staleness_histogram.back(), 1U);
}

}  // namespace
}  // namespace ps::server
