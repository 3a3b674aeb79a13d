// The schedule's clock of a shard has the samples of every step that all of its chunks have, once,
// wherever the chunks were when the step came.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

constexpr uint32_t kSamples = 4;  // of each step

constexpr uint64_t kNewestPlacement = 9;

class MoveScheduleTest : public ::testing::Test {
 protected:
  /// With these of the chunks.
  static void Begin(ShardRig* rig, const std::vector<ChunkKey>& keys) {
    for (proto::ChunkAssignment& chunk : rig->setup.placement.chunks) {
      chunk.shard = std::ranges::find(keys, chunk.key) == keys.end() ? kOther : kShard;
    }
    rig->SetUp();
    rig->Deliver(kCoordinator, rig->MembersUpTo(1));
    rig->sent.all.clear();
  }

  /// A step of worker 1, or what of it is for these chunks of as many as the shard has.
  static void Push(
      ShardRig* rig, Step step, const std::vector<ChunkKey>& keys, uint32_t chunk_count) {
    proto::PushRequest push = rig->Frame(1, step, keys, 0.5F);
    push.samples = kSamples;
    push.chunk_count = chunk_count;
    push.placement = kNewestPlacement;
    rig->Push(push);
  }

  static proto::ChunksOffer Move(
      ShardRig* from, ShardRig* to, const std::vector<ChunkKey>& keys, uint64_t version) {
    const std::string host = "host" + std::to_string(version);
    from->Deliver(kCoordinator, proto::GiveChunks{version, {kOther, host, 4712}, 1, keys});
    from->core.OnDialed(kOther, kOtherPeer, from->now, &from->sent);
    auto offers = from->Take<proto::ChunksOffer>();
    EXPECT_EQ(offers.size(), 1U);
    proto::ChunksOffer offer = offers.at(0).message;
    offer.to_life = to->setup.life;
    offer.generation = Generation(1);
    to->Deliver(kGiver, offer);
    for (const auto& part : from->Take<proto::ChunkPart>()) {
      to->Deliver(kGiver, part.message);
    }
    EXPECT_TRUE(to->core.HasChunk(keys.front()));
    from->Deliver(kOtherPeer, proto::ChunksTaken{version, Generation(1)});
    EXPECT_FALSE(from->core.HasChunk(keys.front()));
    return offer;
  }

  ShardRig giver_;
  ShardRig taker_;
};

TEST_F(MoveScheduleTest, AStepThatIsCompleteInWhatComesFirstIsCounted) {
  Begin(&giver_, {kFirst, kThird});
  Begin(&taker_, {});
  Push(&giver_, 1, {kFirst, kThird}, 2);
  Push(&giver_, 2, {kThird}, 2);
  ASSERT_EQ(giver_.core.samples_done(), kSamples);
  Move(&giver_, &taker_, {kThird}, 2);
  EXPECT_EQ(taker_.core.samples_done(), 2 * kSamples) << "its only chunk has both";
  Push(&giver_, 2, {kFirst}, 1);
  EXPECT_EQ(giver_.core.samples_done(), 2 * kSamples);
}

TEST_F(MoveScheduleTest, AStepThatIsUnderWayAgainIsCountedWhereItIsCompleteAndOnce) {
  ShardRig without;
  ShardRig third;
  Begin(&giver_, {kFirst, kSecond});
  Begin(&without, {kThird});
  Begin(&taker_, {});
  Begin(&third, {});
  Push(&giver_, 1, {kFirst, kSecond}, 2);
  Move(&without, &giver_, {kThird}, 2);
  ASSERT_EQ(giver_.core.samples_done(), kSamples) << "counted, and not here in all chunks any more";
  Move(&giver_, &taker_, {kFirst}, 3);
  EXPECT_EQ(taker_.core.samples_done(), kSamples);
  Move(&giver_, &third, {kThird}, 4);
  EXPECT_EQ(third.core.samples_done(), 0U) << "its only chunk lacks the step";
  Push(&third, 1, {kThird}, 1);
  EXPECT_EQ(third.core.samples_done(), kSamples);
  EXPECT_EQ(giver_.core.samples_done(), kSamples);
}

TEST_F(MoveScheduleTest, AStepIsCountedWhenTheChunksThatLackItHaveLeft) {
  ShardRig third;
  Begin(&giver_, {kFirst, kThird});
  Begin(&taker_, {kSecond});
  Begin(&third, {});
  Push(&giver_, 1, {kThird}, 2);
  Move(&giver_, &taker_, {kThird}, 2);
  EXPECT_EQ(taker_.core.samples_done(), 0U);
  Move(&taker_, &third, {kSecond}, 3);
  EXPECT_EQ(taker_.core.samples_done(), kSamples);
  EXPECT_EQ(third.core.samples_done(), 0U);
}

/// The giver had all of it before, so it is the giver's last step.
TEST_F(MoveScheduleTest, AStepThatTheGiverHadInFullIsCountedWhenTheChunksThatLackItHaveLeft) {
  ShardRig third;
  Begin(&giver_, {kFirst, kThird});
  Begin(&taker_, {kSecond});
  Begin(&third, {});
  Push(&giver_, 1, {kFirst, kThird}, 2);
  Move(&giver_, &taker_, {kThird}, 2);
  Move(&taker_, &third, {kSecond}, 3);
  EXPECT_EQ(taker_.core.samples_done(), kSamples);
}

}  // namespace
}  // namespace ps::server
