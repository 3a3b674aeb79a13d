#include "ps/base/ids.h"

#include <iterator>
#include <map>
#include <sstream>
#include <type_traits>

#include "gtest/gtest.h"
#include "ps/base/id_index.h"
#include "ps/base/random.h"

namespace ps {
namespace {

TEST(IdTest, DifferentKindsDoNotMixWithEachOtherOrWithIntegers) {
  static_assert(!std::is_convertible_v<WorkerId, ShardId>);
  static_assert(!std::is_convertible_v<uint32_t, WorkerId>);
  static_assert(!std::is_convertible_v<WorkerId, uint32_t>);
  static_assert(!std::equality_comparable_with<WorkerId, ShardId>);
}

TEST(IdTest, OrderIsTheNumbersOrder) {
  EXPECT_LT(Incarnation(1), Incarnation(2));
  EXPECT_EQ(Incarnation(), Incarnation(0));
  const std::map<ShardId, int> by_shard = {{ShardId(2), 0}, {ShardId(1), 1}};
  EXPECT_EQ(by_shard.begin()->first, ShardId(1));
}

TEST(IdTest, PrintsItsNumber) {
  std::ostringstream out;
  out << WorkerId(7) << " " << LeaseId(1ULL << 40);
  EXPECT_EQ(out.str(), "7 1099511627776");
}

TEST(ChunkKeyTest, TensorAndChunkComeBack) {
  for (const uint32_t tensor : {0U, 1U, 0x7fffffffU, 0xffffffffU}) {
    for (const uint32_t chunk : {0U, 1U, 0x80000000U, 0xffffffffU}) {
      const ChunkKey key = MakeChunkKey(tensor, chunk);
      EXPECT_EQ(TensorOf(key), tensor);
      EXPECT_EQ(ChunkOf(key), chunk);
    }
  }
}

TEST(ChunkKeyTest, ChunksOfATensorAreNeighboursInOrder) {
  EXPECT_LT(MakeChunkKey(1, 0xffffffffU), MakeChunkKey(2, 0));
  EXPECT_EQ(MakeChunkKey(1, 0).value + 1, MakeChunkKey(1, 1).value);
}

TEST(IdIndexTest, FindsWhatAMapHasWhateverComesAndGoes) {
  Random random(1);
  std::map<LeaseId, int> map;
  IdIndex<LeaseId, int> index;
  for (int i = 0; i < 20000; ++i) {
    const size_t wanted = i < 10000 ? 1000 : 10;  // it fills, then nearly all go
    if (map.size() < wanted && random.Chance(0.7)) {
      const LeaseId id(random.Below(5000) + 1);
      if (map.emplace(id, i).second) {
        index.Insert(id, &map.at(id));
      }
    } else if (!map.empty()) {
      const LeaseId id = std::next(map.begin(), static_cast<int>(random.Below(map.size())))->first;
      index.Erase(id);
      index.Erase(id);
      map.erase(id);
    }
    const LeaseId asked(random.Below(5001));
    const auto it = map.find(asked);
    ASSERT_EQ(index.Find(asked), it == map.end() ? nullptr : &it->second) << asked;
    ASSERT_EQ(index.size(), map.size());
  }
  for (auto& [id, value] : map) {
    EXPECT_EQ(index.Find(id), &value);
  }
}

}  // namespace
}  // namespace ps
