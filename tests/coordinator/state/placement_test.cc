#include "ps/coordinator/state/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ps/base/random.h"

namespace ps::coordinator {
namespace {

std::map<ShardId, uint64_t> BytesOf(const proto::Placement& placement) {
  std::map<ShardId, uint64_t> bytes;
  for (const proto::ChunkAssignment& chunk : placement.chunks) {
    bytes[chunk.shard] += chunk.element_count * sizeof(float);
  }
  return bytes;
}

bool IsSame(const proto::Placement& a, const proto::Placement& b) {
  return a.version == b.version &&
         std::equal(
             a.chunks.begin(),
             a.chunks.end(),
             b.chunks.begin(),
             b.chunks.end(),
             [](const auto& x, const auto& y) {
               return x.key == y.key && x.element_count == y.element_count &&
                      x.element_begin == y.element_begin && x.shard == y.shard;
             });
}

TEST(PlacementTest, ChunksTileEveryTensorInKeyOrder) {
  const std::vector<TensorSpec> tensors = {{"a", {1000, 3}}, {"b", {}}, {"c", {256}}, {"d", {257}}};
  const proto::Placement placement = PlaceChunks(tensors, 1024, 3);
  EXPECT_EQ(placement.version, 1U);
  std::vector<int64_t> covered(tensors.size());
  ChunkKey previous;
  for (size_t i = 0; i < placement.chunks.size(); ++i) {
    const proto::ChunkAssignment& chunk = placement.chunks[i];
    EXPECT_TRUE(i == 0 || previous < chunk.key);
    previous = chunk.key;
    EXPECT_LE(chunk.element_count, 256U);
    EXPECT_GT(chunk.element_count, 0U);
    EXPECT_LT(chunk.shard.value, 3U);
    EXPECT_EQ(chunk.element_begin, covered[TensorOf(chunk.key)]);
    covered[TensorOf(chunk.key)] += chunk.element_count;
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(covered[i], tensors[i].element_count()) << tensors[i].name;
  }
}

TEST(PlacementTest, ShardsDifferByAtMostTheLargestChunk) {
  Random random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<TensorSpec> tensors;
    for (uint64_t n = 1 + random.Below(30); n > 0; --n) {
      tensors.push_back({"t", {static_cast<int64_t>(1 + random.Below(200000))}});
    }
    const auto shards = static_cast<uint32_t>(1 + random.Below(8));
    const proto::Placement placement = PlaceChunks(tensors, 65536, shards);
    std::map<ShardId, uint64_t> bytes = BytesOf(placement);
    uint64_t most = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < shards; ++i) {
      most = std::max(most, bytes[ShardId(i)]);
      least = std::min(least, bytes[ShardId(i)]);
    }
    EXPECT_LE(most - least, 65536U) << round;
  }
}

/// By shard, of those chunks that both placements have on it.
std::map<ShardId, uint64_t> KeptBytes(const proto::Placement& a, const proto::Placement& b) {
  proto::Placement kept;
  for (size_t i = 0; i < a.chunks.size(); ++i) {
    EXPECT_EQ(a.chunks[i].key, b.chunks[i].key);
    if (a.chunks[i].shard == b.chunks[i].shard) {
      kept.chunks.push_back(a.chunks[i]);
    }
  }
  return BytesOf(kept);
}

TEST(PlacementTest, AnotherNumberOfShardsMovesWhatAShardHasTooMuchAndOneChunkAtMost) {
  constexpr uint64_t kChunk = 4096;
  Random random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<TensorSpec> tensors;
    for (uint64_t n = 1 + random.Below(30); n > 0; --n) {
      tensors.push_back({"t", {static_cast<int64_t>(1 + random.Below(20000))}});
    }
    proto::Placement before =
        PlaceChunks(tensors, kChunk, static_cast<uint32_t>(1 + random.Below(8)));
    for (uint64_t version = 2; version < 5; ++version) {
      const auto shards = static_cast<uint32_t>(1 + random.Below(8));
      const proto::Placement after = PlaceAgain(before, std::vector<uint32_t>(shards, 1));
      EXPECT_EQ(after.version, version);
      ASSERT_TRUE(CheckPlacement(after, tensors, shards).ok());
      std::map<ShardId, uint64_t> now = BytesOf(after);
      std::map<ShardId, uint64_t> then = BytesOf(before);
      std::map<ShardId, uint64_t> kept = KeptBytes(before, after);
      uint64_t total = 0;
      for (const auto& [shard, bytes] : now) {
        total += bytes;
      }
      const uint64_t share = total / shards;
      for (uint32_t i = 0; i < shards; ++i) {
        const ShardId shard(i);
        EXPECT_LE(now[shard], share + kChunk) << round;
        EXPECT_GE(now[shard] + kChunk, share) << round;
        if (then[shard] <= share) {
          EXPECT_EQ(kept[shard], then[shard]) << round;
        } else {
          EXPECT_GE(kept[shard] + kChunk, share) << round;
        }
      }
      before = after;
    }
  }
}

TEST(PlacementTest, EachShardHasItsShareAndLessThanAChunkMoreOrLess) {
  constexpr uint64_t kChunk = 4096;
  Random random(12);
  for (int round = 0; round < 100; ++round) {
    std::vector<TensorSpec> tensors;
    for (uint64_t n = 1 + random.Below(30); n > 0; --n) {
      tensors.push_back({"t", {static_cast<int64_t>(1 + random.Below(20000))}});
    }
    std::vector<uint32_t> shares;
    uint64_t sum = 0;
    for (uint64_t n = 1 + random.Below(6); n > 0; --n) {
      shares.push_back(static_cast<uint32_t>(1 + random.Below(5)));
      sum += shares.back();
    }
    const proto::Placement before = PlaceChunks(tensors, kChunk, 2);
    const proto::Placement after = PlaceAgain(before, shares);
    std::map<ShardId, uint64_t> bytes = BytesOf(after);
    uint64_t total = 0;
    for (const auto& [shard, of_shard] : bytes) {
      total += of_shard;
    }
    for (uint32_t i = 0; i < shares.size(); ++i) {
      EXPECT_LE(bytes[ShardId(i)], total * shares[i] / sum + kChunk) << round;
      EXPECT_GE(bytes[ShardId(i)] + kChunk * shares[i], total * shares[i] / sum) << round;
    }
  }
}

TEST(PlacementTest, PinnedChunksAreWhereTheyAreToBeAndCountForTheirShards) {
  const std::vector<TensorSpec> tensors = {{"a", {4000}}, {"b", {4000}}};
  const proto::Placement before = PlaceChunks(tensors, 4000, 2);
  proto::ServersState servers;
  servers.wanted = 2;
  for (uint32_t chunk = 0; chunk < 4; ++chunk) {
    servers.pins.push_back({MakeChunkKey(0, chunk), 1});
  }
  const auto pinned = PinnedShards(servers, 1);
  const proto::Placement after = PlaceAgain(before, {1, 1}, pinned);
  EXPECT_EQ(after.version, before.version + 1);
  for (const proto::ChunkAssignment& chunk : after.chunks) {
    EXPECT_EQ(chunk.shard, ShardId(TensorOf(chunk.key) == 0 ? 1 : 0)) << "b makes room for a";
  }
  EXPECT_TRUE(IsSpread(after, {1, 1}));
  const auto of_two = PinnedShards(servers, 2);
  EXPECT_EQ(of_two.at(MakeChunkKey(0, 0)), ShardId(2)) << "a server of two shards";
  EXPECT_EQ(of_two.at(MakeChunkKey(0, 1)), ShardId(3));
}

TEST(PlacementTest, SharesThatAreNotMetAreSeen) {
  const std::vector<TensorSpec> tensors = {{"a", {12000}}};
  const proto::Placement even = PlaceChunks(tensors, 4000, 2);
  EXPECT_TRUE(IsSpread(even, {1, 1}));
  EXPECT_FALSE(IsSpread(even, {5, 1}));
  EXPECT_FALSE(IsSpread(even, {1})) << "a shard that is not to be there has chunks";
  EXPECT_FALSE(IsSpread(even, {1, 1, 1, 1}));
  EXPECT_TRUE(IsSpread(PlaceAgain(even, {5, 1}), {5, 1}));
}

TEST(PlacementTest, TheSameInputGivesTheSamePlacement) {
  const std::vector<TensorSpec> tensors = {{"a", {5000}}, {"b", {5000}}, {"c", {123}}};
  EXPECT_TRUE(IsSame(PlaceChunks(tensors, 4096, 3), PlaceChunks(tensors, 4096, 3)));
  EXPECT_FALSE(IsSame(PlaceChunks(tensors, 4096, 3), PlaceChunks(tensors, 4096, 2)));
}

TEST(PlacementTest, MoreShardsThanChunksLeavesSomeEmpty) {
  const proto::Placement placement = PlaceChunks({{"a", {10}}, {"b", {10}}}, 1024, 5);
  EXPECT_EQ(placement.chunks.size(), 2U);
  EXPECT_EQ(BytesOf(placement).size(), 2U);
}

}  // namespace
}  // namespace ps::coordinator
