#include "provisioner/planner/exact/fill_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "ps/base/random.h"

namespace ps::provisioner {
namespace {

/// The least sum of `total` things in the slots from `depth` on, by trying everything; infinity
/// when they do not fit.
double LeastSum(const std::vector<FillTable::Slot>& slots, size_t depth, int total) {
  if (depth == slots.size()) {
    return total == 0 ? 0 : std::numeric_limits<double>::infinity();
  }
  double least = std::numeric_limits<double>::infinity();
  const FillTable::Slot& slot = slots[depth];
  for (int count = slot.low; count <= std::min(slot.high, total); ++count) {
    least = std::min(least, count * slot.value + LeastSum(slots, depth + 1, total - count));
  }
  return least;
}

int LowFrom(const std::vector<FillTable::Slot>& slots, size_t depth) {
  int low = 0;
  for (size_t i = depth; i < slots.size(); ++i) {
    low += slots[i].low;
  }
  return low;
}

int HighFrom(const std::vector<FillTable::Slot>& slots, size_t depth) {
  int high = 0;
  for (size_t i = depth; i < slots.size(); ++i) {
    high += slots[i].high;
  }
  return high;
}

std::vector<FillTable::Slot> RandomSlots(Random* random) {
  std::vector<FillTable::Slot> slots(1 + random->Below(5));
  for (FillTable::Slot& slot : slots) {
    slot.value = random->Chance(0.2) ? 0.5 : random->Unit() - 0.5;
    slot.low = static_cast<int>(random->Below(3));
    slot.high = slot.low + static_cast<int>(random->Below(4));
  }
  return slots;
}

constexpr double kNoLimit = -std::numeric_limits<double>::infinity();

TEST(FillTableTest, GivesTheLeastSumForEveryNumberOfThingsFromEverySlotOn) {
  Random random(1);
  int compared = 0;
  for (int i = 0; i < 500; ++i) {
    const std::vector<FillTable::Slot> slots = RandomSlots(&random);
    FillTable table;
    ASSERT_TRUE(table.Build(slots, {}, HighFrom(slots, 0), kNoLimit));
    for (size_t depth = 0; depth <= slots.size(); ++depth) {
      const int low = LowFrom(slots, depth);
      const int spare_max = HighFrom(slots, depth) - low;
      const FillTable::Piece* most = table.Find(depth, spare_max);
      for (int spare = spare_max; spare >= 0; --spare) {
        const FillTable::Piece* piece = table.Find(depth, spare);
        EXPECT_NEAR(FillTable::Sum(piece, spare), LeastSum(slots, depth, low + spare), 1e-12)
            << "problem " << i << ", depth " << depth << ", spare " << spare;
        most = FillTable::Back(most, spare);
        EXPECT_EQ(FillTable::Sum(most, spare), FillTable::Sum(piece, spare));
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 5000);
}

TEST(FillTableTest, TheLastThingAddsTheDifferenceAndNeverLessThanTheOneBefore) {
  Random random(2);
  for (int i = 0; i < 500; ++i) {
    const std::vector<FillTable::Slot> slots = RandomSlots(&random);
    FillTable table;
    ASSERT_TRUE(table.Build(slots, {}, HighFrom(slots, 0), kNoLimit));
    EXPECT_EQ(FillTable::Last(table.Find(0, 0), 0), 0);
    double before = -std::numeric_limits<double>::infinity();
    for (int spare = 1; spare <= HighFrom(slots, 0) - LowFrom(slots, 0); ++spare) {
      const FillTable::Piece* piece = table.Find(0, spare);
      const FillTable::Piece* fewer = table.Find(0, spare - 1);
      const double last = FillTable::Last(piece, spare);
      EXPECT_NEAR(FillTable::Sum(piece, spare) - FillTable::Sum(fewer, spare - 1), last, 1e-12);
      EXPECT_GE(last, before);
      before = last;
    }
  }
}

TEST(FillTableTest, BuildsNothingWhenNoSumExceedsTheLimit) {
  Random random(3);
  int built = 0;
  for (int i = 0; i < 500; ++i) {
    std::vector<FillTable::Slot> slots = RandomSlots(&random);
    const int low = LowFrom(slots, 0);
    const int total =
        low + static_cast<int>(random.Below(static_cast<uint64_t>(HighFrom(slots, 0) - low + 1)));
    const double limit = 4 * (random.Unit() - 0.5);
    FillTable table;
    const bool is_built = table.Build(slots, {}, total, limit);
    built += is_built ? 1 : 0;
    for (FillTable::Slot& slot : slots) {
      slot.value = -slot.value;
    }
    EXPECT_EQ(is_built, -LeastSum(slots, 0, total) > limit) << "problem " << i;
  }
  EXPECT_GT(built, 50);
  EXPECT_LT(built, 450);
}

}  // namespace
}  // namespace ps::provisioner
