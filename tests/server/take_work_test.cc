// What a shard does when chunks come, counted in basic blocks of its code: of these there are as
// many on every machine.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ps/proto/limits.h"
#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

uint64_t blocks_entered = 0;

}  // namespace

/// ps_server_counted calls it for each basic block.
extern "C" void __sanitizer_cov_trace_pc() {
  ++blocks_entered;
}

namespace {

/// Takes chunks from a shard on which every other member has begun a step. Returns what that took.
uint64_t WorkOf(uint32_t members, bool has_chunks) {
  constexpr uint32_t kKeys = 8;
  ShardRig rig;
  proto::Placement& placement = rig.setup.placement;
  placement.chunks.pop_back();
  rig.setup.tensors.pop_back();
  for (proto::ChunkAssignment& chunk : placement.chunks) {
    chunk.shard = has_chunks ? kShard : ShardId(0);
  }
  std::vector<Incarnation> ahead;
  proto::ChunksOffer offer;
  offer.from = kOther;
  offer.version = 2;
  offer.to_life = 1;
  for (uint64_t i = 1; i <= members; ++i) {
    offer.members.push_back({Incarnation(i), 0, 0, false, true});
    if (i % 2 == 0) {
      ahead.emplace_back(i);
    }
  }
  for (uint32_t i = 0; i < kKeys; ++i) {
    const ChunkKey key = MakeChunkKey(2 + i, 0);
    TensorSpec tensor;
    tensor.name = "t" + std::to_string(i);
    tensor.shape = {1};
    rig.setup.tensors.push_back(tensor);
    placement.chunks.push_back({key, 1, 0, ShardId(0)});
    offer.chunks.push_back({key, 7, ahead});
  }
  rig.setup.membership = rig.MembersUpTo(members);
  offer.generation = rig.setup.membership.generation;
  rig.SetUp();

  const uint64_t before = blocks_entered;
  rig.Deliver(kGiver, offer);
  const auto value = std::make_shared<Buffer>(sizeof(float));
  for (const proto::OfferedChunk& chunk : offer.chunks) {
    rig.Deliver(
        kGiver,
        proto::ChunkPart{2, 0, {{chunk.key, 1, 0}}, proto::Payload::Own(value, sizeof(float))});
  }
  const uint64_t work = blocks_entered - before;
  EXPECT_EQ(rig.Take<proto::ChunksTaken>().size(), 1U);
  EXPECT_EQ(rig.core.VersionOf(offer.chunks[0].key), 7U);
  return work;
}

class TakeWorkTest : public ::testing::TestWithParam<bool> {};

TEST_P(TakeWorkTest, AMemberCostsAsMuchAmongManyAsAmongFew) {
  constexpr uint32_t kTimes = 8;
  const uint64_t few = WorkOf(proto::kSeatsMax / kTimes, GetParam());
  EXPECT_GT(few, proto::kSeatsMax / kTimes) << "nothing is counted";
  // Those that are found by their number are found in the logarithm of how many there are.
  EXPECT_LT(WorkOf(proto::kSeatsMax, GetParam()), few * kTimes * 3 / 2);
}

INSTANTIATE_TEST_SUITE_P(Shards, TakeWorkTest, ::testing::Bool(), [](const auto& suite) {
  return suite.param ? "WithChunks" : "Empty";
});

}  // namespace
}  // namespace ps::server
