// Chunks larger than a frame, which are pushed in parts. tests/server/pull_test.cc has how they are
// pulled.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using proto::PushOutcome;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

/// Frames of one element: kThird has parts 0, 1 and 2, the others 0 and 1.
class PartsTest : public ::testing::Test {
 protected:
  explicit PartsTest(proto::Mode mode = proto::Mode::kAsync) : rig_(mode) {
    rig_.settings.frame_bytes = 4;
    rig_.SetUp();
  }

  /// A step of kThird alone.
  proto::PushRequest Third(uint32_t part, float gradient = 0.5F, uint64_t incarnation = 1) const {
    proto::PushRequest push = rig_.Part(incarnation, 1, kThird, part, 1, gradient);
    push.chunk_count = 1;
    return push;
  }

  std::vector<float> ThirdValues() const {
    const std::span<const float> values = rig_.core.ValuesOf(kThird);
    return {values.begin(), values.end()};
  }

  ShardRig rig_;
};

TEST_F(PartsTest, AChunkIsUpdatedOnceWhenItsLastPartIsHereInWhateverOrderAndNumber) {
  std::vector<uint32_t> order = {0, 0, 1, 1, 2, 2};
  do {
    ShardRig rig;
    rig.settings.frame_bytes = 4;
    rig.SetUp();
    std::vector<uint32_t> seen;
    for (const uint32_t part : order) {
      rig.Push(Third(part, 0.25F * static_cast<float>(part + 1)));
      if (std::find(seen.begin(), seen.end(), part) == seen.end()) {
        seen.push_back(part);
      }
      const bool is_whole = seen.size() == 3;
      ASSERT_EQ(rig.core.VersionOf(kThird), is_whole ? 1U : 0U);
      ASSERT_EQ(rig.Take<proto::PushReply>().size(), is_whole ? 1U : 0U);
      ASSERT_EQ(rig.core.Stats().staged_bytes, is_whole ? 0U : 4 * seen.size());
    }
    const std::span<const float> values = rig.core.ValuesOf(kThird);
    ASSERT_THAT(values, ElementsAre(0.75F, 0.5F, 0.25F));
    ASSERT_EQ(rig.core.Stats().chunks_applied, 1U);
    ASSERT_EQ(rig.core.Stats().chunks_duplicate, 3U);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(PartsTest, PartsOfSeveralWorkersDoNotMix) {
  rig_.Push(Third(0, 0.5F, 1));
  rig_.Push(Third(0, 0.25F, 2));
  rig_.Push(Third(1, 0.25F, 2));
  rig_.Push(Third(1, 0.5F, 1));
  rig_.Push(Third(2, 0.25F, 2));
  EXPECT_THAT(ThirdValues(), Each(0.75F));
  rig_.Push(Third(2, 0.5F, 1));
  EXPECT_THAT(ThirdValues(), Each(0.25F));
  EXPECT_EQ(rig_.core.VersionOf(kThird), 2U);
}

TEST_F(PartsTest, AChunkGoesOnOverANewConnection) {
  rig_.Push(Third(0));
  rig_.Push(Third(1));
  rig_.core.OnPeerClosed(PeerOf(0), rig_.now, &rig_.sent);
  const proto::PeerId second(200);
  for (const uint32_t part : {0U, 1U, 2U}) {
    rig_.Deliver(second, Third(part), 9);
  }
  const auto replies = rig_.Take<proto::PushReply>();
  ASSERT_THAT(replies, SizeIs(1));
  EXPECT_EQ(replies[0].to, second);
  EXPECT_THAT(ThirdValues(), Each(0.5F));
}

TEST_F(PartsTest, NaNInOnePartLeavesOutTheChunk) {
  for (const uint32_t bad : {0U, 1U, 2U}) {
    ShardRig rig;
    rig.settings.frame_bytes = 4;
    rig.SetUp();
    for (const uint32_t part : {0U, 1U, 2U}) {
      rig.Push(Third(part, part == bad ? std::numeric_limits<float>::quiet_NaN() : 0.5F));
      EXPECT_EQ(rig.core.Stats().staged_bytes, part < bad ? 4 * (part + 1) : 0);
    }
    const proto::PushReply reply = rig.OnlyPushReply();
    EXPECT_EQ(reply.outcome, PushOutcome::kRejected);
    EXPECT_EQ(reply.rejected_chunks, 1U);
    EXPECT_EQ(rig.core.VersionOf(kThird), 0U);
    EXPECT_THAT(rig.core.ValuesOf(kThird), Each(1));
  }
}

TEST_F(PartsTest, SeveralBadPartsAreOneRejectedChunk) {
  for (const uint32_t part : {0U, 1U, 2U}) {
    rig_.Push(Third(part, std::numeric_limits<float>::infinity()));
  }
  EXPECT_EQ(rig_.OnlyPushReply().rejected_chunks, 1U);
  EXPECT_EQ(rig_.core.Stats().chunks_rejected, 1U);
}

TEST_F(PartsTest, AFencedWorkersPartsAreDropped) {
  rig_.Push(Third(0, 0.5F, 3));
  rig_.Push(Third(1, 0.5F, 3));
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 8U);
  rig_.Deliver(kCoordinator, rig_.MembersUpTo(2));
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 0U);
  rig_.Take<proto::MembershipAck>();
  rig_.Push(Third(2, 0.5F, 3));
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kStale);
  EXPECT_THAT(ThirdValues(), Each(1));
}

TEST_F(PartsTest, BorrowedPartsAreCopied) {
  for (const uint32_t part : {0U, 1U, 2U}) {
    float value = 0.5F;
    proto::PushRequest push = Third(part);
    push.payload = proto::Payload();
    push.payload.parts.push_back(std::as_bytes(std::span(&value, 1)));
    rig_.Push(push);
    value = 99;
  }
  EXPECT_THAT(ThirdValues(), Each(0.5F));
}

TEST_F(PartsTest, OneFrameMayHaveSeveralPartsOfAChunk) {
  proto::PushRequest push = rig_.Frame(1, 1, {kThird}, 0.5F);
  push.chunks = {{kThird, 1, 2}, {kThird, 1, 0}, {kThird, 1, 1}};
  push.chunk_count = 1;
  rig_.Push(push);
  EXPECT_EQ(rig_.OnlyPushReply().outcome, PushOutcome::kApplied);
  EXPECT_THAT(ThirdValues(), Each(0.5F));
  push.step = 2;
  push.chunks[2].element_begin = 0;
  rig_.Push(push);
  EXPECT_THAT(rig_.OnlyRefusal().message, HasSubstr("one chunk twice"));
}

TEST_F(PartsTest, WhatIsNoPartIsRefusedByName) {
  ShardRig rig;
  rig.settings.frame_bytes = 8;  // kThird: 2 elements, then 1
  rig.SetUp();
  const std::pair<uint32_t, uint32_t> ranges[] = {
      {0, 1}, {0, 3}, {1, 1}, {1, 2}, {2, 2}, {3, 1}, {4, 1}, {UINT32_MAX - 1, 2}, {2, 0}};
  for (const auto& [begin, count] : ranges) {
    rig.Push(rig.Part(1, 1, kThird, begin, count, 0.5F));
    const proto::Refusal refusal = rig.OnlyRefusal();
    EXPECT_EQ(refusal.code, StatusCode::kInvalidArgument) << begin << " " << count;
    EXPECT_THAT(
        refusal.message,
        HasSubstr(
            "has 3 elements in 2 parts; none is " + std::to_string(count) + " from " +
            std::to_string(begin)));
  }
  EXPECT_EQ(rig.core.Stats().staged_bytes, 0U);
}

TEST_F(PartsTest, AWorkerThatFinishesNoChunkIsToldToWait) {
  ShardRig rig;
  rig.settings.frame_bytes = 4;
  rig.setup.placement.chunks.clear();
  rig.setup.tensors[0].shape = {12};
  for (uint32_t i = 0; i < 6; ++i) {
    rig.setup.placement.chunks.push_back({MakeChunkKey(0, i), 2, 2 * i, kShard});
  }
  rig.SetUp();
  const auto push = [&](uint32_t chunk, uint32_t part) {
    proto::PushRequest request = rig.Part(1, 1, MakeChunkKey(0, chunk), part, 1, 0.5F);
    request.chunk_count = 6;
    rig.Push(request);
  };
  for (uint32_t chunk = 0; chunk < 4; ++chunk) {
    push(chunk, 0);
  }
  EXPECT_TRUE(rig.sent.all.empty());
  push(4, 0);
  const proto::Refusal refusal = rig.OnlyRefusal();
  EXPECT_EQ(refusal.code, StatusCode::kOverloaded);
  EXPECT_GT(refusal.retry_after_ms, 0U);
  EXPECT_THAT(refusal.message, HasSubstr("5 unfinished chunks, more than 4"));
  EXPECT_EQ(rig.core.Stats().staged_bytes, 16U);
  // What has begun may end, and the repeated step brings the rest.
  for (uint32_t chunk = 0; chunk < 6; ++chunk) {
    push(chunk, 0);
    push(chunk, 1);
  }
  EXPECT_TRUE(rig.Take<proto::Refusal>().empty());
  EXPECT_EQ(rig.OnlyPushReply().outcome, PushOutcome::kApplied);
  EXPECT_EQ(rig.core.Stats().staged_bytes, 0U);
}

TEST_F(PartsTest, OneFrameMayNotLeaveManyChunksUnfinishedEither) {
  ShardRig rig;
  rig.settings.frame_bytes = 4;
  rig.setup.placement.chunks.clear();
  rig.setup.tensors[0].shape = {12};
  for (uint32_t i = 0; i < 6; ++i) {
    rig.setup.placement.chunks.push_back({MakeChunkKey(0, i), 2, 2 * i, kShard});
  }
  rig.SetUp();
  // The first `halves` chunks' first halves, and both halves of the last chunk.
  const auto push = [&](uint32_t halves) {
    proto::PushRequest request = rig.Frame(1, 1, {}, 0);
    request.chunk_count = 6;
    for (uint32_t i = 0; i < halves; ++i) {
      request.chunks.push_back({MakeChunkKey(0, i), 1, 0});
    }
    request.chunks.push_back({MakeChunkKey(0, 5), 1, 1});
    request.chunks.push_back({MakeChunkKey(0, 5), 1, 0});
    const size_t bytes = request.chunks.size() * sizeof(float);
    auto buffer = std::make_shared<Buffer>(bytes);
    std::fill(buffer->floats().begin(), buffer->floats().end(), 0.5F);
    request.payload = proto::Payload::Own(buffer, bytes);
    rig.Push(request);
  };
  push(5);
  EXPECT_EQ(rig.OnlyRefusal().code, StatusCode::kOverloaded);
  EXPECT_EQ(rig.core.Stats().staged_bytes, 0U);
  EXPECT_EQ(rig.core.VersionOf(MakeChunkKey(0, 5)), 0U);
  push(4);
  EXPECT_TRUE(rig.sent.all.empty());
  EXPECT_EQ(rig.core.Stats().staged_bytes, 16U);
  EXPECT_EQ(rig.core.VersionOf(MakeChunkKey(0, 5)), 1U);
}

TEST_F(PartsTest, MoreChunksThanTheStepSaysAreRefusedThoughNoneIsWhole) {
  rig_.Push(Third(0));
  proto::PushRequest push = rig_.Part(1, 1, kFirst, 0, 1, 0.5F);
  push.chunk_count = 1;
  rig_.Push(push);
  EXPECT_THAT(rig_.OnlyRefusal().message, HasSubstr("have 2 chunks, not 1"));
}

TEST_F(PartsTest, AStepIsAcknowledgedBeforeALongUpdate) {
  constexpr uint32_t kLongElements = 1 << 17;
  ShardRig rig;
  rig.settings.frame_bytes = kLongElements * sizeof(float) / 2;
  rig.setup.tensors[0].shape = {kLongElements};
  rig.setup.placement.chunks = {{kFirst, kLongElements, 0, kShard}};
  rig.SetUp();
  std::vector<Version> versions;
  rig.sent.on_flush = [&] {
    EXPECT_EQ(rig.sent.all.size(), 1U);
    versions.push_back(rig.core.VersionOf(kFirst));
  };
  for (const uint32_t half : {0U, 1U}) {
    proto::PushRequest push =
        rig.Part(1, 1, kFirst, half * kLongElements / 2, kLongElements / 2, 0.5F);
    push.chunk_count = 1;
    rig.Push(push);
  }
  EXPECT_THAT(versions, ElementsAre(0));
  EXPECT_EQ(rig.core.VersionOf(kFirst), 1U);
  EXPECT_THAT(rig.core.ValuesOf(kFirst), Each(0.5F));
}

TEST_F(PartsTest, AFusedPullHasTheUpdate) {
  for (const uint32_t part : {2U, 0U, 1U}) {
    proto::PushRequest push = Third(part);
    push.wants_pull = part == 2;
    rig_.Push(push, 5);
  }
  EXPECT_EQ(rig_.OnlyPushReply().outcome, PushOutcome::kApplied);
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_THAT(pulls, SizeIs(7));
  EXPECT_EQ(pulls[6].message.chunks[0].version, 1U);
  EXPECT_THAT(pulls[6].values, ElementsAre(0.5F));
}

class BspPartsTest : public PartsTest {
 protected:
  BspPartsTest() : PartsTest(proto::Mode::kBsp) {}

  /// Every part of a whole contribution to round 1, back to front.
  void Contribute(uint64_t incarnation, float gradient, uint32_t samples) {
    for (const auto& [key, parts] : {std::pair(kThird, 3U), {kSecond, 2U}, {kFirst, 2U}}) {
      for (uint32_t part = parts; part > 0; --part) {
        proto::PushRequest push = rig_.Part(incarnation, 1, key, part - 1, 1, gradient);
        push.round = 1;
        push.samples = samples;
        rig_.Push(push);
      }
    }
  }
};

TEST_F(BspPartsTest, ARoundIsTheMeanOfItsContributionsInParts) {
  Contribute(1, 0.5F, 3);
  Contribute(2, 0.25F, 1);
  EXPECT_THAT(rig_.Take<proto::PushReply>(), SizeIs(2));
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 56U);
  proto::CommitRound commit;
  commit.round = 1;
  commit.contributions = {{WorkerId(0), Incarnation(1), 1, 3}, {WorkerId(1), Incarnation(2), 1, 1}};
  rig_.Deliver(kCoordinator, commit);
  EXPECT_THAT(ThirdValues(), Each(1 - (3 * 0.5F + 0.25F) / 4));
  EXPECT_THAT(rig_.Versions(), ElementsAre(1, 1, 1));
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 0U);
}

TEST_F(BspPartsTest, NaNInOnePartDropsTheContribution) {
  proto::PushRequest bad = rig_.Part(1, 1, kThird, 1, 1, std::numeric_limits<float>::quiet_NaN());
  bad.round = 1;
  rig_.Push(bad);
  Contribute(1, 0.5F, 1);
  EXPECT_EQ(rig_.OnlyPushReply().outcome, PushOutcome::kRejected);
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 0U);
}

}  // namespace
}  // namespace ps::server
