#include "ps/client/shard_link.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ps/client/host_tensors.h"
#include "tests/client/recording_outbox.h"

namespace ps::client {
namespace {

using std::chrono::milliseconds;

std::shared_ptr<FlatGradient> GradientOf(const ChunkLayout& layout) {
  return HostTensors::Make(layout, 1).value().Lend().value();
}

/// Three tensors of 4 floats, all on shard 0 but the second.
class ShardLinkTest : public ::testing::Test {
 protected:
  ShardLinkTest() {
    proto::Placement placement;
    for (uint32_t t = 0; t < 3; ++t) {
      placement.chunks.push_back({MakeChunkKey(t, 0), 4, 0, ShardId(t == 1 ? 1 : 0)});
    }
    layout_ = ChunkLayout::Make({4, 4, 4}, placement).value();
    gradient_ = GradientOf(layout_);
    std::iota(gradient_->floats().begin(), gradient_->floats().end(), 0.0F);
  }

  ShardLink MakeLink(size_t frame_bytes) {
    return ShardLink(
        ShardId(0),
        {WorkerId(2), Incarnation(7)},
        &layout_,
        frame_bytes,
        proto::Timing::FromMaxDetect(milliseconds(2400)),
        &random_);
  }

  PushJob Job(bool wants_pull) { return {1, LeaseId(3), 0, 16, 1, gradient_, wants_pull}; }

  /// The reply of a shard whose every value is `value` at `version`.
  proto::PullReply Values(
      const std::vector<uint32_t>& tensors, Version version, float value, uint32_t total) {
    auto buffer = std::make_shared<Buffer>(tensors.size() * 4 * sizeof(float));
    std::fill(buffer->floats().begin(), buffer->floats().end(), value);
    proto::PullReply reply;
    for (const uint32_t t : tensors) {
      reply.chunks.push_back({MakeChunkKey(t, 0), version, 4});
    }
    reply.chunk_total = total;
    const size_t size_bytes = buffer->size();
    reply.payload = proto::Payload::Own(std::move(buffer), size_bytes);
    return reply;
  }

  ChunkLayout layout_;
  std::shared_ptr<FlatGradient> gradient_;
  Random random_{1};
  RecordingOutbox out_;
  TimePoint now_{milliseconds(1000)};
};

TEST_F(ShardLinkTest, SmallChunksTravelTogetherAndOnlyThoseOfTheShard) {
  ShardLink link = MakeLink(1U << 20);
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPush(Job(false));
  link.TensorReady(2, now_, &out_);
  link.TensorReady(1, now_, &out_);
  EXPECT_TRUE(out_.sent.empty());
  link.TensorReady(0, now_, &out_);
  ASSERT_EQ(out_.sent.size(), 1U);
  const auto push = std::get<proto::PushRequest>(out_.sent[0].message);
  EXPECT_EQ(push.chunk_count, 2U);
  EXPECT_EQ(push.incarnation, Incarnation(7));
  ASSERT_EQ(push.chunks.size(), 2U);
  EXPECT_EQ(push.chunks[0].key, MakeChunkKey(2, 0));
  EXPECT_EQ(out_.sent[0].values, (std::vector<float>{32, 33, 34, 35, 0, 1, 2, 3}));
}

/// The last push of a worker: what is encoded already stays so, the rest goes as f32.
TEST_F(ShardLinkTest, WholeTensorsTravelAsF32InFramesOfTheirOwn) {
  constexpr codec::Encoding kInt8{codec::EncodingKind::kInt8};
  layout_.SetEncodings(std::vector<codec::Encoding>(3, kInt8));
  ShardLink link = MakeLink(1U << 20);
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPush(Job(true));
  link.TensorReady(2, now_, &out_);
  gradient_->SetWhole(0);
  link.TensorReady(0, now_, &out_);
  for (uint64_t sending = 0; sending < 2; ++sending) {
    const auto pushes = out_.All<proto::PushRequest>();
    ASSERT_EQ(pushes.size(), 2U) << "sending " << sending;
    EXPECT_EQ(pushes[0].encoding, codec::Encoding());
    ASSERT_EQ(pushes[0].chunks.size(), 1U);
    EXPECT_EQ(pushes[0].chunks[0].key, MakeChunkKey(0, 0));
    EXPECT_EQ(out_.sent[0].values, (std::vector<float>{0, 1, 2, 3}));
    EXPECT_EQ(pushes[1].encoding, kInt8);
    EXPECT_EQ(pushes[1].chunks[0].key, MakeChunkKey(2, 0));
    EXPECT_TRUE(pushes[1].wants_pull) << "with the last";
    EXPECT_EQ(link.bytes_pushed(), (sending + 1) * (16 + kInt8.SizeOf(4)));
    out_.sent.clear();
    link.OnConnected(proto::PeerId(6), now_, &out_);
  }
}

TEST_F(ShardLinkTest, WhatIsNothingTravelsInOneFrameWithAllItsParts) {
  ShardLink link = MakeLink(8);  // chunks of two parts
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPush(Job(true));
  gradient_->SetNothing(2);
  link.TensorReady(2, now_, &out_);
  link.TensorReady(0, now_, &out_);
  const auto pushes = out_.All<proto::PushRequest>();
  ASSERT_EQ(pushes.size(), 3U);
  EXPECT_EQ(pushes[0].encoding.kind, codec::EncodingKind::kNothing);
  ASSERT_EQ(pushes[0].chunks.size(), 2U);
  EXPECT_EQ(pushes[0].chunks[1].element_begin, 2U);
  EXPECT_EQ(pushes[0].payload.size(), 0U);
  EXPECT_FALSE(pushes[0].wants_pull);
  EXPECT_TRUE(pushes[2].wants_pull) << "with the last";
  EXPECT_EQ(link.bytes_pushed(), 16U);
}

TEST_F(ShardLinkTest, AFullFrameLeavesBeforeBackwardIsDone) {
  ShardLink link = MakeLink(16);
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPush(Job(false));
  link.TensorReady(2, now_, &out_);
  EXPECT_EQ(out_.sent.size(), 1U);
  link.TensorReady(0, now_, &out_);
  EXPECT_EQ(out_.sent.size(), 2U);
}

TEST_F(ShardLinkTest, AChunkLargerThanAFrameLeavesInParts) {
  ShardLink link = MakeLink(12);  // 3 elements, then 1
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPush(Job(true));
  link.TensorReady(2, now_, &out_);
  ASSERT_EQ(out_.sent.size(), 2U);
  link.TensorReady(0, now_, &out_);
  const auto pushes = out_.All<proto::PushRequest>();
  ASSERT_EQ(pushes.size(), 4U);
  EXPECT_EQ(out_.sent[0].values, (std::vector<float>{32, 33, 34}));
  EXPECT_EQ(out_.sent[1].values, (std::vector<float>{35}));
  EXPECT_EQ(out_.sent[3].values, (std::vector<float>{3}));
  for (size_t i = 0; i < pushes.size(); ++i) {
    ASSERT_EQ(pushes[i].chunks.size(), 1U);
    EXPECT_EQ(pushes[i].chunks[0].key, MakeChunkKey(i < 2 ? 2 : 0, 0));
    EXPECT_EQ(pushes[i].chunks[0].element_begin, i % 2 == 0 ? 0U : 3U);
    EXPECT_EQ(pushes[i].chunks[0].element_count, i % 2 == 0 ? 3U : 1U);
    EXPECT_EQ(pushes[i].chunk_count, 2U);
    EXPECT_EQ(pushes[i].wants_pull, i == 3) << "once, with the last";
  }
  EXPECT_EQ(link.bytes_pushed(), 32U);
  link.OnConnected(proto::PeerId(6), now_, &out_);
  ASSERT_EQ(out_.sent.size(), 8U) << "all parts again";
  EXPECT_EQ(out_.sent[4].values, out_.sent[0].values);
}

TEST_F(ShardLinkTest, APullInPartsIsCompleteWithTheLastPart) {
  ShardLink link = MakeLink(12);
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPull(0, false, now_, &out_);
  const uint64_t id = out_.sent[0].request_id;
  const auto take = [&](uint32_t tensor, uint32_t begin, uint32_t count) {
    proto::PullReply reply = Values({tensor}, 1, 9, 2);
    reply.chunks[0].element_begin = begin;
    reply.chunks[0].element_count = count;
    const auto fresh = link.OnPullReply(id, reply, now_);
    EXPECT_TRUE(fresh.ok()) << fresh.status();
    return fresh->size();
  };
  EXPECT_EQ(take(0, 0, 3), 1U);
  EXPECT_EQ(take(2, 3, 1), 1U);
  EXPECT_EQ(take(0, 3, 1), 1U);
  EXPECT_FALSE(link.is_pull_done());
  EXPECT_EQ(take(2, 0, 3), 1U);
  EXPECT_TRUE(link.is_pull_done());
  EXPECT_EQ(link.bytes_pulled(), 64U);
}

TEST_F(ShardLinkTest, ALargeTensorLeavesDuringBackwardThoughItsFrameHasRoom) {
  constexpr uint32_t kElements = 16U << 10;  // 64 KiB
  proto::Placement placement;
  placement.chunks = {
      {MakeChunkKey(0, 0), 4, 0, ShardId(0)}, {MakeChunkKey(1, 0), kElements, 0, ShardId(0)}};
  layout_ = ChunkLayout::Make({4, kElements}, placement).value();
  gradient_ = GradientOf(layout_);
  ShardLink link = MakeLink(1U << 20);
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPush(Job(true));
  link.TensorReady(1, now_, &out_);
  ASSERT_EQ(out_.sent.size(), 1U);
  EXPECT_FALSE(std::get<proto::PushRequest>(out_.sent[0].message).wants_pull);
  link.TensorReady(0, now_, &out_);
  ASSERT_EQ(out_.sent.size(), 2U);
  EXPECT_TRUE(std::get<proto::PushRequest>(out_.sent[1].message).wants_pull);
}

TEST_F(ShardLinkTest, AReconnectionRepeatsTheUnansweredPushWithTheSameBytes) {
  ShardLink link = MakeLink(1U << 20);
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPush(Job(false));
  link.TensorReady(0, now_, &out_);
  link.TensorReady(2, now_, &out_);
  link.OnDisconnected();
  link.OnConnected(proto::PeerId(6), now_, &out_);
  ASSERT_EQ(out_.sent.size(), 2U);
  EXPECT_EQ(out_.sent[1].to, proto::PeerId(6));
  EXPECT_EQ(out_.sent[0].values, out_.sent[1].values);
  EXPECT_TRUE(link.OnPushReply(1, {1, proto::PushOutcome::kApplied, 0}, now_, &out_));
  EXPECT_FALSE(link.OnPushReply(1, {1, proto::PushOutcome::kApplied, 0}, now_, &out_));
  EXPECT_TRUE(link.is_push_done());
}

TEST_F(ShardLinkTest, AnUnansweredPushIsRepeatedInTime) {
  ShardLink link = MakeLink(1U << 20);
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPush(Job(false));
  link.TensorReady(0, now_, &out_);
  link.TensorReady(2, now_, &out_);
  link.OnTick(now_ + milliseconds(800), &out_);
  EXPECT_EQ(out_.sent.size(), 1U);
  link.OnTick(now_ + milliseconds(1600), &out_);
  EXPECT_EQ(out_.sent.size(), 2U);
  EXPECT_EQ(link.retries(), 1U);
}

/// A repetition behind what is still leaving would only delay it.
TEST_F(ShardLinkTest, APushThatHasNotLeftYetIsNotRepeatedAndRepetitionsWaitLongerAndLonger) {
  ShardLink link = MakeLink(1U << 20);
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPush(Job(false));
  link.TensorReady(0, now_, &out_);
  link.TensorReady(2, now_, &out_);
  const auto tick_for = [&](milliseconds time) {
    for (const TimePoint end = now_ + time; now_ < end; now_ += milliseconds(100)) {
      link.OnTick(now_, &out_);
    }
  };
  out_.is_backlogged = true;
  tick_for(milliseconds(30'000));
  EXPECT_EQ(out_.sent.size(), 1U);
  out_.is_backlogged = false;
  tick_for(milliseconds(30'000));
  EXPECT_GT(out_.sent.size(), 1U);
  EXPECT_LT(out_.sent.size(), 12U) << "of the first wait there would be over 20";
}

TEST_F(ShardLinkTest, AFusedPullIsCompleteWhenAllItsChunksHaveComeInAnyOrder) {
  ShardLink link = MakeLink(1U << 20);
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPush(Job(true));
  link.TensorReady(0, now_, &out_);
  link.TensorReady(2, now_, &out_);
  const uint64_t id = out_.sent[0].request_id;
  EXPECT_TRUE(std::get<proto::PushRequest>(out_.sent[0].message).wants_pull);
  ASSERT_TRUE(link.OnPullReply(id, Values({2}, 1, 9, 2), now_).ok());
  ASSERT_TRUE(link.OnPullReply(id, Values({2}, 1, 9, 2), now_).ok());  // twice is not two
  EXPECT_FALSE(link.is_pull_done());
  const auto fresh = link.OnPullReply(id, Values({0}, 1, 8, 2), now_);
  ASSERT_TRUE(fresh.ok());
  ASSERT_EQ(fresh->size(), 1U);
  EXPECT_EQ(fresh->front().offset, 0);
  EXPECT_TRUE(link.is_pull_done());
}

TEST_F(ShardLinkTest, AnOlderAnswerNeitherCompletesAPullNorOverwritesNewerValues) {
  ShardLink link = MakeLink(1U << 20);
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPull(0, false, now_, &out_);
  link.BeginPull(0, true, now_, &out_);
  ASSERT_EQ(out_.sent.size(), 2U);
  const uint64_t older = out_.sent[0].request_id;
  const uint64_t newer = out_.sent[1].request_id;
  ASSERT_TRUE(link.OnPullReply(newer, Values({0, 2}, 5, 1, 2), now_).ok());
  EXPECT_TRUE(link.is_pull_done());
  const auto late = link.OnPullReply(older, Values({0, 2}, 4, 1, 2), now_);
  ASSERT_TRUE(late.ok());
  EXPECT_TRUE(late->empty());
}

TEST_F(ShardLinkTest, APullSaysWhatItHolds) {
  ShardLink link = MakeLink(1U << 20);
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPull(0, false, now_, &out_);
  EXPECT_TRUE(out_.All<proto::PullRequest>()[0].held.empty());
  ASSERT_TRUE(link.OnPullReply(out_.sent[0].request_id, Values({0, 2}, 5, 1, 2), now_).ok());
  link.BeginPull(0, false, now_, &out_);
  const auto pulls = out_.All<proto::PullRequest>();
  ASSERT_EQ(pulls[1].held.size(), 2U);
  EXPECT_EQ(pulls[1].held[1].version, 5U);
  proto::PullReply nothing_new;
  ASSERT_TRUE(link.OnPullReply(out_.sent[1].request_id, nothing_new, now_).ok());
  EXPECT_TRUE(link.is_pull_done());
}

TEST_F(ShardLinkTest, APullWhoseDifferencesLackTheirBaseIsAskedForAtTheNextTick) {
  constexpr codec::Encoding kInt8{codec::EncodingKind::kInt8};
  ShardLink link = MakeLink(1U << 20);
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPull(0, false, now_, &out_);
  proto::PullReply reply = Values({0, 2}, 5, 1, 2);
  reply.number = 1;
  ASSERT_TRUE(link.OnPullReply(out_.sent[0].request_id, reply, now_).ok());
  EXPECT_TRUE(link.is_pull_done());
  link.BeginPull(0, false, now_, &out_);
  const auto difference = [&](uint32_t tensor, uint64_t number, uint64_t base) {
    proto::PullReply later = Values({tensor}, 6, 0, 2);
    later.encoding = kInt8;
    later.number = number;
    later.chunks[0].base = base;
    auto bytes = std::make_shared<Buffer>(kInt8.SizeOf(4));
    codec::Encode(kInt8, std::vector<float>(4, 1), {}, bytes->bytes());
    const size_t size = bytes->size();
    later.payload = proto::Payload::Own(std::move(bytes), size);
    return link.OnPullReply(out_.sent[1].request_id, later, now_).value().size();
  };
  EXPECT_EQ(difference(0, 3, 2), 0U) << "frame 2 never came";
  EXPECT_EQ(difference(2, 4, 1), 1U);
  EXPECT_FALSE(link.is_pull_done());
  link.OnTick(now_, &out_);
  const auto pulls = out_.All<proto::PullRequest>();
  ASSERT_EQ(pulls.size(), 3U);
  ASSERT_EQ(pulls[2].held.size(), 1U) << "what lacks its base is not held";
  EXPECT_EQ(pulls[2].held[0].key, MakeChunkKey(2, 0));
  link.OnTick(now_, &out_);
  EXPECT_EQ(out_.All<proto::PullRequest>().size(), 3U);
  reply = Values({0}, 6, 9, 1);
  reply.number = 5;
  EXPECT_EQ(link.OnPullReply(out_.sent[2].request_id, reply, now_).value().size(), 1U);
  EXPECT_TRUE(link.is_pull_done());
}

TEST_F(ShardLinkTest, AnAnswerWithForeignChunksIsRefused) {
  ShardLink link = MakeLink(1U << 20);
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPull(0, false, now_, &out_);
  EXPECT_FALSE(link.OnPullReply(out_.sent[0].request_id, Values({1}, 1, 1, 1), now_).ok());
}

TEST_F(ShardLinkTest, AShardThatAsksForPatienceGetsIt) {
  ShardLink link = MakeLink(1U << 20);
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPush(Job(false));
  link.TensorReady(0, now_, &out_);
  link.TensorReady(2, now_, &out_);
  link.OnRetryLater(50, now_);
  link.OnTick(now_ + milliseconds(49), &out_);
  EXPECT_EQ(out_.sent.size(), 1U);
  link.OnTick(now_ + milliseconds(50), &out_);
  EXPECT_EQ(out_.sent.size(), 2U);
}

TEST_F(ShardLinkTest, RoundedGradientsTravelInHalfTheBytesAndInFramesOfTheirOwn) {
  proto::Placement placement;
  placement.chunks = {
      {MakeChunkKey(0, 0), 2, 0, ShardId(0)},
      {MakeChunkKey(0, 1), 8, 2, ShardId(0)},
      {MakeChunkKey(1, 0), 4, 0, ShardId(0)}};
  const std::vector<codec::Encoding> encodings = {
      {codec::EncodingKind::kBf16}, {codec::EncodingKind::kF32}};
  layout_ = ChunkLayout::Make({10, 4}, placement, encodings).value();
  gradient_ = GradientOf(layout_);
  ShardLink link = MakeLink(24);  // parts of 6 values
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPush(Job(true));
  link.TensorReady(1, now_, &out_);
  link.TensorReady(0, now_, &out_);
  const auto pushes = out_.All<proto::PushRequest>();
  ASSERT_EQ(pushes.size(), 4U);
  /// Where the only piece of a push begins in the gradient, and how long it is, in bytes.
  const auto piece = [&](size_t i) {
    EXPECT_EQ(pushes[i].payload.parts.size(), 1U);
    return std::pair(
        pushes[i].payload.parts[0].data() - std::as_bytes(gradient_->floats()).data(),
        pushes[i].payload.parts[0].size());
  };
  EXPECT_EQ(pushes[0].encoding.kind, codec::EncodingKind::kBf16);
  EXPECT_EQ(piece(0), std::pair(std::ptrdiff_t{4}, size_t{12})) << "of the large chunk";
  EXPECT_EQ(piece(1), std::pair(std::ptrdiff_t{16}, size_t{4}));
  EXPECT_EQ(pushes[2].encoding.kind, codec::EncodingKind::kF32);
  EXPECT_EQ(piece(2), std::pair(std::ptrdiff_t{64}, size_t{16}));
  EXPECT_EQ(pushes[3].encoding.kind, codec::EncodingKind::kBf16);
  EXPECT_EQ(piece(3), std::pair(std::ptrdiff_t{0}, size_t{4}));
  for (size_t i = 0; i < pushes.size(); ++i) {
    EXPECT_EQ(pushes[i].wants_pull, i == 3) << "once, with the last";
  }
  EXPECT_EQ(link.bytes_pushed(), 36U);
}

TEST_F(ShardLinkTest, EncodedPartsAreOfTheSizeThatTheirEncodingSays) {
  proto::Placement placement;
  placement.chunks = {
      {MakeChunkKey(0, 0), 2, 0, ShardId(0)},
      {MakeChunkKey(0, 1), 8, 2, ShardId(0)},
      {MakeChunkKey(1, 0), 4, 0, ShardId(0)}};
  constexpr codec::Encoding kInt8{codec::EncodingKind::kInt8};
  layout_ = ChunkLayout::Make({10, 4}, placement, std::vector{kInt8, kInt8}).value();
  gradient_ = GradientOf(layout_);
  ShardLink link = MakeLink(24);  // parts of 6 values
  link.OnConnected(proto::PeerId(5), now_, &out_);
  link.BeginPush(Job(true));
  link.TensorReady(1, now_, &out_);
  link.TensorReady(0, now_, &out_);
  const auto first = out_.All<proto::PushRequest>();
  std::vector<std::pair<uint32_t, size_t>> parts;  // elements and bytes
  for (const proto::PushRequest& push : first) {
    EXPECT_EQ(push.encoding, kInt8);
    for (size_t i = 0; i < push.chunks.size(); ++i) {
      parts.emplace_back(push.chunks[i].element_count, push.payload.parts[i].size());
    }
  }
  std::ranges::sort(parts);
  EXPECT_EQ(parts, (std::vector<std::pair<uint32_t, size_t>>{{2, 6}, {2, 6}, {4, 8}, {6, 10}}));
  EXPECT_EQ(link.bytes_pushed(), 30U);
}

}  // namespace
}  // namespace ps::client
