// A chunk that moves from one shard to another while a worker pushes it and asks for it.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "ps/client/host_tensors.h"
#include "ps/client/shard_link.h"
#include "tests/client/recording_outbox.h"

namespace ps::client {
namespace {

using std::chrono::milliseconds;

constexpr ChunkKey kMoving = MakeChunkKey(0, 0);
constexpr proto::PeerId kFromPeer{5};
constexpr proto::PeerId kToPeer{6};

/// Tensors 0 and 2 are on shard 0, 1 is on shard 1; 0 moves to shard 1 with placement 2.
class LinkMoveTest : public ::testing::Test {
 protected:
  LinkMoveTest() {
    proto::Placement placement;
    placement.version = 1;
    for (uint32_t t = 0; t < 3; ++t) {
      placement.chunks.push_back({MakeChunkKey(t, 0), 4, 0, ShardId(t == 1 ? 1 : 0)});
    }
    layout_ = ChunkLayout::Make({4, 4, 4}, placement).value();
    gradient_ = HostTensors::Make(layout_, 1).value().Lend().value();
    std::iota(gradient_->floats().begin(), gradient_->floats().end(), 0.0F);
    from_ = MakeLink(ShardId(0));
    to_ = MakeLink(ShardId(1));
    from_->OnConnected(kFromPeer, now_, &out_);
    to_->OnConnected(kToPeer, now_, &out_);
  }

  std::unique_ptr<ShardLink> MakeLink(ShardId shard) {
    auto link = std::make_unique<ShardLink>(
        shard,
        ShardLink::Identity{WorkerId(2), Incarnation(7)},
        &layout_,
        1U << 20,
        proto::Timing::FromMaxDetect(milliseconds(2400)),
        &random_);
    link->SetPlacement(1);
    return link;
  }

  void Begin(bool wants_pull = false) {
    const PushJob job{1, LeaseId(3), 0, 16, 1, gradient_, wants_pull};
    from_->BeginPush(job);
    to_->BeginPush(job);
  }

  void Ready(uint32_t tensor) {
    from_->TensorReady(tensor, now_, &out_);
    to_->TensorReady(tensor, now_, &out_);
  }

  /// The shard has the step, in the chunks that it has in this placement.
  void Acknowledge(ShardLink* link, uint64_t placement, uint64_t request_id = 1) {
    proto::PushReply reply;
    reply.step = 1;
    reply.life = 1;
    reply.placement = placement;
    link->OnPushReply(request_id, reply, now_, &out_);
  }

  void Move() {
    out_.sent.clear();
    to_->Add(from_->Remove(kMoving, 1), true);
    from_->AfterMove(2, now_, &out_);
    to_->AfterMove(2, now_, &out_);
  }

  /// Pushes to the shard that the chunk has moved to, since it has.
  std::vector<proto::PushRequest> PushesThere() const {
    std::vector<proto::PushRequest> pushes;
    for (const auto& sent : out_.sent) {
      if (sent.to == kToPeer && std::holds_alternative<proto::PushRequest>(sent.message)) {
        pushes.push_back(std::get<proto::PushRequest>(sent.message));
      }
    }
    return pushes;
  }

  ChunkLayout layout_;
  std::shared_ptr<FlatGradient> gradient_;
  Random random_{1};
  RecordingOutbox out_;
  TimePoint now_{milliseconds(1000)};
  std::unique_ptr<ShardLink> from_;
  std::unique_ptr<ShardLink> to_;
};

TEST_F(LinkMoveTest, WhatWasNotAcknowledgedIsSentToWhereTheChunkIs) {
  Begin();
  for (const uint32_t tensor : {2U, 1U, 0U}) {
    Ready(tensor);
  }
  Acknowledge(to_.get(), 1);
  ASSERT_TRUE(to_->is_push_done());
  Move();
  const auto pushes = PushesThere();
  ASSERT_EQ(pushes.size(), 1U);
  ASSERT_EQ(pushes[0].chunks.size(), 1U);
  EXPECT_EQ(pushes[0].chunks[0].key, kMoving);
  EXPECT_EQ(pushes[0].chunk_count, 2U);
  EXPECT_EQ(pushes[0].placement, 2U);
  EXPECT_FALSE(to_->is_push_done());
  Acknowledge(to_.get(), 1, 1);
  EXPECT_FALSE(to_->is_push_done()) << "that was on its way before the chunk was there";
  Acknowledge(to_.get(), 2, 2);
  EXPECT_TRUE(to_->is_push_done());
}

TEST_F(LinkMoveTest, WhatItsShardHasAcknowledgedWithItIsNotSentAgain) {
  Begin();
  for (const uint32_t tensor : {2U, 1U, 0U}) {
    Ready(tensor);
  }
  Acknowledge(from_.get(), 1);
  Acknowledge(to_.get(), 1);
  Move();
  EXPECT_TRUE(PushesThere().empty());
  EXPECT_TRUE(to_->is_push_done());
}

TEST_F(LinkMoveTest, AnAcknowledgementOfALaterPlacementIsNotOneOfTheChunkThatLeft) {
  Begin();
  for (const uint32_t tensor : {2U, 1U, 0U}) {
    Ready(tensor);
  }
  Acknowledge(from_.get(), 2);
  Acknowledge(to_.get(), 1);
  EXPECT_EQ(from_->seen_placement(), 2U) << "by which the worker sees that it has to ask";
  Move();
  EXPECT_EQ(PushesThere().size(), 1U);
  EXPECT_FALSE(to_->is_push_done());
}

TEST_F(LinkMoveTest, AChunkThatIsReadyWhenItsShardIsDoneWithoutItIsSentThen) {
  Begin();
  Ready(2);
  Ready(1);
  Acknowledge(from_.get(), 2);
  Acknowledge(to_.get(), 1);
  Move();
  EXPECT_TRUE(PushesThere().empty()) << "its gradient is being computed";
  EXPECT_FALSE(to_->is_push_done());
  Ready(0);
  EXPECT_EQ(PushesThere().size(), 1U);
}

TEST_F(LinkMoveTest, AShardThatHasNoChunksLeftHasNothingToAcknowledge) {
  Begin();
  for (const uint32_t tensor : {2U, 1U, 0U}) {
    Ready(tensor);
  }
  from_->Add(to_->Remove(MakeChunkKey(1, 0), 1), true);
  to_->AfterMove(2, now_, &out_);
  from_->AfterMove(2, now_, &out_);
  EXPECT_TRUE(to_->is_push_done());
  EXPECT_EQ(to_->pushed_life(), 0U);
  EXPECT_FALSE(from_->is_push_done());
}

TEST_F(LinkMoveTest, ValuesThatDidNotComeAreAskedForWhereTheChunkIs) {
  from_->BeginPull(0, false, now_, &out_);
  Move();
  bool is_asked_there = false;
  for (const auto& sent : out_.sent) {
    is_asked_there = is_asked_there || (sent.to == kToPeer &&
                                        std::holds_alternative<proto::PullRequest>(sent.message));
  }
  EXPECT_TRUE(is_asked_there);
  EXPECT_FALSE(to_->is_pull_done());
}

/// bsp: a shard that had no chunk has heard of no round.
TEST_F(LinkMoveTest, AShardsFirstChunkIsAskedForAfterTheRoundThatTheWorkerWaitsFor) {
  from_->BeginPull(4, false, now_, &out_);
  layout_.Move(MakeChunkKey(1, 0), ShardId(0));
  to_ = MakeLink(ShardId(1));
  to_->OnConnected(kToPeer, now_, &out_);
  ASSERT_FALSE(to_->has_chunks());
  Move();
  std::vector<uint64_t> rounds;
  for (const auto& sent : out_.sent) {
    const auto* const pull = std::get_if<proto::PullRequest>(&sent.message);
    if (sent.to == kToPeer && pull != nullptr) {
      rounds.push_back(pull->min_round);
    }
  }
  EXPECT_EQ(rounds, std::vector<uint64_t>{4});
}

/// bsp: the round was committed, and its values were on their way.
TEST_F(LinkMoveTest, WhatIsLeftOfAFusedAnswerIsAskedForAfterTheSameRound) {
  const PushJob job{1, LeaseId(3), 4, 16, 1, gradient_, true};
  from_->BeginPush(job);
  to_->BeginPush(job);
  for (const uint32_t tensor : {2U, 1U, 0U}) {
    Ready(tensor);
  }
  Acknowledge(from_.get(), 1);
  Acknowledge(to_.get(), 1);
  proto::PullReply part;
  part.chunks = {{MakeChunkKey(2, 0), 5, 4, 0}};
  part.chunk_total = 2;
  part.life = 1;
  part.placement = 1;
  part.payload = proto::Payload::Own(std::make_shared<Buffer>(16), 16);
  ASSERT_TRUE(from_->OnPullReply(1, part, now_).ok());
  ASSERT_FALSE(from_->is_pull_done()) << "the answer ends here";
  out_.sent.clear();
  to_->Add(from_->Remove(kMoving, 1), false);
  from_->AfterMove(2, now_, &out_);
  to_->AfterMove(2, now_, &out_);
  std::map<proto::PeerId, proto::PullRequest> pulls;
  for (const auto& sent : out_.sent) {
    if (const auto* const pull = std::get_if<proto::PullRequest>(&sent.message)) {
      pulls[sent.to] = *pull;
    }
  }
  ASSERT_EQ(pulls.size(), 2U);
  for (const auto& [peer, pull] : pulls) {
    EXPECT_EQ(pull.min_round, 4U);
    EXPECT_EQ(pull.placement, 2U);
    EXPECT_FALSE(pull.is_evaluation);
  }
  EXPECT_TRUE(PushesThere().empty());
  EXPECT_FALSE(from_->is_pull_done());
  EXPECT_FALSE(to_->is_pull_done());
}

TEST_F(LinkMoveTest, AnAnswerMayHaveAChunkThatTheWorkerDoesNotKnowOf) {
  to_->BeginPull(0, false, now_, &out_);
  const uint64_t request_id = out_.sent.back().request_id;
  auto buffer = std::make_shared<Buffer>(8 * sizeof(float));
  std::ranges::fill(buffer->floats(), 3.0F);
  proto::PullReply reply;
  reply.chunks = {{kMoving, 5, 4, 0}, {MakeChunkKey(1, 0), 2, 4, 0}};
  reply.chunk_total = 2;
  reply.life = 1;
  reply.placement = 2;
  reply.payload = proto::Payload::Own(std::move(buffer), 8 * sizeof(float));
  const auto fresh = to_->OnPullReply(request_id, reply, now_);
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  EXPECT_EQ(fresh->size(), 1U);
  EXPECT_TRUE(to_->is_pull_done());
  EXPECT_EQ(to_->seen_placement(), 2U);
  reply.placement = 1;
  EXPECT_FALSE(to_->OnPullReply(request_id, reply, now_).ok()) << "in this one it is not there";
}

}  // namespace
}  // namespace ps::client
