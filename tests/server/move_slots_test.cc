// What the optimizer remembers of a chunk moves with it: the next step is as it would have been
// where the chunk came from.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using ::testing::ElementsAreArray;

constexpr uint32_t kPartElements = 2;

struct SlotsCase {
  const char* name;
  proto::OptimizerKind kind;
  float momentum;
  size_t buffers;  // of a chunk: its values and what the optimizer keeps
};

void PrintTo(const SlotsCase& c, std::ostream* out) {
  *out << c.name;
}

class MoveSlotsTest : public ::testing::TestWithParam<SlotsCase> {
 protected:
  void Begin(ShardRig* rig) {
    rig->settings.optimizer.kind = GetParam().kind;
    rig->settings.optimizer.momentum = GetParam().momentum;
    rig->settings.optimizer.lr = 0.125F;
    rig->settings.frame_bytes = kPartElements * sizeof(float);
    rig->SetUp();
    rig->Deliver(kCoordinator, rig->MembersUpTo(1));
    rig->sent.all.clear();
  }

  /// A step of worker 1 in the chunks that the shard has, with another gradient in each step.
  static void Step(ShardRig* rig, ps::Step step, uint64_t placement) {
    std::vector<ChunkKey> here;
    for (const ChunkKey key : {kFirst, kSecond, kThird}) {
      if (rig->core.HasChunk(key)) {
        here.push_back(key);
      }
    }
    for (const ChunkKey key : here) {
      const uint32_t elements = key == kThird ? 3 : 2;
      for (uint32_t begin = 0; begin < elements; begin += kPartElements) {
        const uint32_t count = std::min(elements - begin, kPartElements);
        const float gradient = static_cast<float>(step * step) + 0.25F * static_cast<float>(begin);
        proto::PushRequest push = rig->Part(1, step, key, begin, count, gradient);
        push.chunk_count = static_cast<uint32_t>(here.size());
        push.placement = placement;
        rig->Push(push);
      }
    }
    ASSERT_EQ(rig->OnlyPushReply().step, step);
  }
};

TEST_P(MoveSlotsTest, AStepAfterAMoveIsAsItWouldHaveBeen) {
  ShardRig stays;
  ShardRig giver;
  ShardRig taker;
  taker.setup.placement.chunks[2].shard = ShardId(0);
  for (ShardRig* const rig : {&stays, &giver, &taker}) {
    Begin(rig);
    Step(rig, 1, 1);
    Step(rig, 2, 1);
  }
  ASSERT_FALSE(taker.core.HasChunk(kThird));

  giver.Deliver(kCoordinator, proto::GiveChunks{2, {kOther, "taker", 4712}, 1, {kThird}});
  giver.core.OnDialed(kOther, kOtherPeer, giver.now, &giver.sent);
  auto offers = giver.Take<proto::ChunksOffer>();
  ASSERT_EQ(offers.size(), 1U);
  offers[0].message.to_life = taker.setup.life;
  offers[0].message.generation = Generation(1);
  taker.Deliver(kGiver, offers[0].message);
  auto parts = giver.Take<proto::ChunkPart>();
  EXPECT_EQ(parts.size(), 2 * GetParam().buffers) << "two parts of each";
  std::ranges::reverse(parts);  // in whatever order they come
  for (const auto& part : parts) {
    taker.Deliver(kGiver, part.message);
  }
  ASSERT_TRUE(taker.core.HasChunk(kThird));
  ASSERT_THAT(taker.core.ValuesOf(kThird), ElementsAreArray(stays.core.ValuesOf(kThird)));

  for (const ps::Step step : {3U, 4U}) {
    Step(&stays, step, 1);
    Step(&taker, step, 2);
    EXPECT_THAT(taker.core.ValuesOf(kThird), ElementsAreArray(stays.core.ValuesOf(kThird)))
        << "step " << step;
  }
  EXPECT_EQ(taker.core.VersionOf(kThird), stays.core.VersionOf(kThird));
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers,
    MoveSlotsTest,
    ::testing::Values(
        SlotsCase{"Sgd", proto::OptimizerKind::kSgd, 0, 1},
        SlotsCase{"Momentum", proto::OptimizerKind::kSgd, 0.5F, 2},
        SlotsCase{"Adagrad", proto::OptimizerKind::kAdagrad, 0, 2},
        SlotsCase{"Heloco", proto::OptimizerKind::kHeloco, 0.5F, 2},
        SlotsCase{"Adam", proto::OptimizerKind::kAdam, 0, 3}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ps::server
