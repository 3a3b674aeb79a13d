#include "ps/base/range_set.h"

#include <gtest/gtest.h>

namespace ps {
namespace {

TEST(RangeSetTest, NeighboursMergeAndTheLowestComesOutFirst) {
  RangeSet set;
  set.Insert(10, 20);
  set.Insert(30, 40);
  set.Insert(20, 30);
  set.Insert(0, 5);
  EXPECT_EQ(set.ranges(), (std::map<uint64_t, uint64_t>{{0, 5}, {10, 40}}));
  EXPECT_EQ(set.size(), 35U);
  EXPECT_EQ(set.TakeLowest(3), (std::pair<uint64_t, uint64_t>(0, 3)));
  EXPECT_EQ(set.TakeLowest(3), (std::pair<uint64_t, uint64_t>(3, 5)));
  EXPECT_EQ(set.TakeLowest(UINT64_MAX), (std::pair<uint64_t, uint64_t>(10, 40)));
  EXPECT_TRUE(set.empty());
}

}  // namespace
}  // namespace ps
