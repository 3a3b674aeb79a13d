// A chunk that goes from one shard to another while a round of bsp is open: the round is as it
// would have been without that.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Two shards, and kSecond that goes from one to the other while round 1 is open.
class MoveInBspTest : public ::testing::Test {
 protected:
  /// A new pair. The taker has kThird, or nothing, and the giver all else.
  void Begin(bool is_taker_empty) {
    giver_ = std::make_unique<ShardRig>(proto::Mode::kBsp);
    taker_ = std::make_unique<ShardRig>(proto::Mode::kBsp);
    (is_taker_empty ? taker_ : giver_)->setup.placement.chunks[2].shard = kOther;
    taker_->setup.placement.chunks[0].shard = kOther;
    taker_->setup.placement.chunks[1].shard = kOther;
    third_ = is_taker_empty ? giver_.get() : taker_.get();
    second_ = giver_.get();
    for (ShardRig* const rig : {giver_.get(), taker_.get()}) {
      rig->SetUp();
      rig->Deliver(kCoordinator, rig->MembersUpTo(2));
      rig->sent.all.clear();
    }
    replies_.clear();
    placement_ = 1;
  }

  void Move() {
    giver_->Deliver(kCoordinator, proto::GiveChunks{2, {kOther, "taker", 4712}, 1, {kSecond}});
    giver_->core.OnDialed(kOther, kOtherPeer, giver_->now, &giver_->sent);
    for (auto& offer : giver_->Take<proto::ChunksOffer>()) {
      taker_->Deliver(kGiver, std::move(offer.message));
    }
    auto parts = giver_->Take<proto::ChunkPart>();
    std::ranges::reverse(parts);  // in whatever order they come
    for (auto& part : parts) {
      taker_->Deliver(kGiver, std::move(part.message));
    }
    for (const auto& taken : taker_->Take<proto::ChunksTaken>()) {
      giver_->Deliver(kOtherPeer, taken.message);
    }
    ASSERT_TRUE(taker_->core.HasChunk(kSecond));
    ASSERT_FALSE(giver_->core.HasChunk(kSecond));
    second_ = taker_.get();
    placement_ = 2;
    NoteReplies();
  }

  ShardRig* ShardOf(ChunkKey key) {
    return key == kFirst ? giver_.get() : key == kSecond ? second_ : third_;
  }

  void Push(uint64_t incarnation, uint64_t step, ChunkKey key, float gradient) {
    ShardRig* const rig = ShardOf(key);
    proto::PushRequest push = rig->Frame(incarnation, step, {key}, gradient);
    push.round = step;
    push.placement = placement_;
    push.chunk_count = 0;
    for (const ChunkKey other : {kFirst, kSecond, kThird}) {
      push.chunk_count += rig->core.HasChunk(other) ? 1 : 0;
    }
    rig->Push(push);
    NoteReplies();
  }

  /// The newest answer to each worker by each shard.
  void NoteReplies() {
    for (ShardRig* const rig : {giver_.get(), taker_.get()}) {
      for (const auto& reply : rig->Take<proto::PushReply>()) {
        replies_[{rig, reply.to}] = reply.message;
      }
      EXPECT_THAT(rig->Take<proto::Refusal>(), IsEmpty());
    }
  }

  bool IsDone(ShardRig* rig, uint64_t incarnation, uint64_t step) const {
    const auto reply = replies_.find({rig, PeerOf(static_cast<uint32_t>(incarnation - 1))});
    return reply != replies_.end() && reply->second.step == step;
  }

  bool IsRejected(uint64_t incarnation) const {
    return std::ranges::any_of(replies_, [incarnation](const auto& entry) {
      return entry.first.second == PeerOf(static_cast<uint32_t>(incarnation - 1)) &&
             entry.second.outcome == proto::PushOutcome::kRejected;
    });
  }

  void Commit(uint64_t round, const std::vector<uint64_t>& incarnations) {
    proto::CommitRound commit{round, {}};
    for (const uint64_t i : incarnations) {
      commit.contributions.push_back(
          {WorkerId(static_cast<uint32_t>(i - 1)), Incarnation(i), round, 1});
    }
    for (ShardRig* const rig : {giver_.get(), taker_.get()}) {
      rig->Deliver(kCoordinator, commit);
      EXPECT_EQ(rig->Take<proto::CommitAck>().size(), 1U);
      EXPECT_THAT(rig->Take<proto::Refusal>(), IsEmpty());
    }
  }

  std::vector<float> Values() {
    std::vector<float> values;
    for (const ChunkKey key : {kFirst, kSecond, kThird}) {
      values.push_back(ShardOf(key)->core.ValuesOf(key)[0]);
    }
    return values;
  }

  /// Worker 1 has sent the chunks of `sent` before the move and sends the rest after it, as a
  /// worker does: again what was not acknowledged where it was.
  void MoveAfter(const std::vector<ChunkKey>& sent, float gradient_of_second) {
    const auto gradient_of = [&](ChunkKey key) {
      return key == kSecond ? gradient_of_second : 0.25F;
    };
    for (const ChunkKey key : sent) {
      Push(1, 1, key, gradient_of(key));
    }
    const bool is_second_done = IsDone(giver_.get(), 1, 1);
    Move();
    for (const ChunkKey key : {kFirst, kSecond, kThird}) {
      const bool is_sent = std::ranges::find(sent, key) != sent.end();
      if (key == kSecond ? !is_second_done : !is_sent) {
        Push(1, 1, key, gradient_of(key));
      }
    }
    EXPECT_TRUE(IsDone(giver_.get(), 1, 1));
    const bool is_all_done = is_second_done && third_ == giver_.get();  // before the move
    EXPECT_TRUE(is_all_done || IsDone(taker_.get(), 1, 1));
  }

  /// All that worker 1 can have sent.
  static std::vector<std::vector<ChunkKey>> Subsets() {
    std::vector<std::vector<ChunkKey>> subsets;
    for (uint32_t bits = 0; bits < 8; ++bits) {
      subsets.emplace_back();
      for (const ChunkKey key : {kThird, kSecond, kFirst}) {
        if ((bits >> (key == kFirst ? 0 : key == kSecond ? 1 : 2) & 1) != 0) {
          subsets.back().push_back(key);
        }
      }
    }
    return subsets;
  }

  /// For each subset of worker 1's pushes, a new pair of shards: kSecond moves after these, and
  /// worker 2 pushes all of its step; then `expect`.
  void ForEachMove(float gradient_of_second, const std::function<void()>& expect) {
    for (const bool is_taker_empty : {false, true}) {
      for (const std::vector<ChunkKey>& sent : Subsets()) {
        SCOPED_TRACE(
            ::testing::Message() << is_taker_empty << ::testing::PrintToString(sent.size()));
        Begin(is_taker_empty);
        MoveAfter(sent, gradient_of_second);
        for (const ChunkKey key : {kThird, kSecond, kFirst}) {
          Push(2, 1, key, 0.75F);
        }
        expect();
      }
    }
  }

  /// An offer of kSecond to the taker.
  proto::ChunksOffer OfferWith(const std::vector<proto::StagedStep>& staged) const {
    proto::ChunksOffer offer;
    offer.from = kOther;
    offer.version = 2;
    offer.to_life = taker_->setup.life;
    offer.generation = Generation(1);
    offer.chunks = {{kSecond, 0, {}}};
    offer.staged = staged;
    return offer;
  }

  std::unique_ptr<ShardRig> giver_;
  std::unique_ptr<ShardRig> taker_;
  ShardRig* second_ = nullptr;  // who has it
  ShardRig* third_ = nullptr;
  uint64_t placement_ = 0;
  std::map<std::pair<ShardRig*, proto::PeerId>, proto::PushReply> replies_;
};

TEST_F(MoveInBspTest, ARoundIsAsItWouldHaveBeenWheneverAChunkMoves) {
  ForEachMove(0.25F, [this] {
    EXPECT_FALSE(IsRejected(1));
    Commit(1, {1, 2});
    EXPECT_THAT(Values(), ElementsAre(0.5F, 0.5F, 0.5F));
    for (const ChunkKey key : {kThird, kSecond, kFirst}) {
      Push(1, 2, key, 0.125F);
      Push(2, 2, key, 0.125F);
    }
    Commit(2, {1, 2});
    EXPECT_THAT(Values(), ElementsAre(0.375F, 0.375F, 0.375F));
    EXPECT_EQ(giver_->core.Stats().staged_bytes + taker_->core.Stats().staged_bytes, 0U);
  });
}

TEST_F(MoveInBspTest, AStepThatIsNotFiniteIsRejectedWheneverItsChunkMoves) {
  ForEachMove(std::numeric_limits<float>::quiet_NaN(), [this] {
    EXPECT_TRUE(IsRejected(1));
    EXPECT_FALSE(IsRejected(2));
    Commit(1, {2});
    EXPECT_THAT(Values(), ElementsAre(0.25F, 0.25F, 0.25F));
  });
}

/// Whoever is gone may still be part of the round.
TEST_F(MoveInBspTest, WhatAFencedWorkerHasStagedTravelsToo) {
  for (const bool is_taker_empty : {false, true}) {
    SCOPED_TRACE(is_taker_empty);
    Begin(is_taker_empty);
    for (const uint64_t worker : {1U, 2U}) {
      for (const ChunkKey key : {kThird, kSecond, kFirst}) {
        Push(worker, 1, key, 0.5F);
      }
    }
    for (ShardRig* const rig : {giver_.get(), taker_.get()}) {
      proto::Membership membership = rig->MembersUpTo(1);
      membership.resolve = {Incarnation(2)};
      rig->Deliver(kCoordinator, membership);
    }
    Move();
    Commit(1, {1, 2});
    EXPECT_THAT(Values(), ElementsAre(0.5F, 0.5F, 0.5F));
  }
}

/// Nothing is left of a worker that is fenced in the middle of a step.
TEST_F(MoveInBspTest, WhatAFencedWorkerHasNotFinishedIsOfNoRound) {
  Begin(false);
  Push(2, 1, kSecond, 0.5F);
  for (ShardRig* const rig : {giver_.get(), taker_.get()}) {
    proto::Membership membership = rig->MembersUpTo(1);
    membership.resolve = {Incarnation(2)};
    rig->Deliver(kCoordinator, membership);
  }
  Move();
  EXPECT_EQ(giver_->core.Stats().staged_bytes + taker_->core.Stats().staged_bytes, 0U);
}

TEST_F(MoveInBspTest, MoreStagedStepsThanAShardMayHaveAreRefused) {
  Begin(false);
  taker_ = std::make_unique<ShardRig>(proto::Mode::kBsp);
  taker_->setup.placement.chunks[1].shard = kOther;
  taker_->settings.queue_bytes = 3 * sizeof(float);
  taker_->SetUp();
  taker_->Deliver(
      kGiver,
      OfferWith({{Incarnation(1), 1, 1, 1, {kSecond}}, {Incarnation(2), 1, 1, 1, {kSecond}}}));
  EXPECT_THAT(taker_->OnlyRefusal().message, ::testing::HasSubstr("servers.queue_mib"));
}

TEST_F(MoveInBspTest, StagedStepsThatMakeNoSenseAreRefused) {
  const std::vector<std::vector<proto::StagedStep>> all = {
      {{Incarnation(1), 1, 2, 1, {kSecond}}},           // of another round
      {{Incarnation(1), 0, 1, 1, {kSecond}}},           // there is no such step
      {{Incarnation(1), 1, 1, 0, {kSecond}}},           // of no samples
      {{Incarnation(1), 1, 1, 1, {}}},                  // of no chunk
      {{Incarnation(1), 1, 1, 1, {kFirst}}},            // of a chunk that is not offered
      {{Incarnation(1), 1, 1, 1, {kSecond, kSecond}}},  // twice
      {{Incarnation(2), 1, 1, 1, {kSecond}}, {Incarnation(1), 1, 1, 1, {kSecond}}}};
  for (const std::vector<proto::StagedStep>& staged : all) {
    Begin(false);
    taker_->Deliver(kGiver, OfferWith(staged));
    EXPECT_EQ(taker_->OnlyRefusal().code, StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace ps::server
