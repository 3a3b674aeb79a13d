#include "ps/base/random.h"

#include <array>
#include <cmath>
#include <set>

#include "gtest/gtest.h"

namespace ps {
namespace {

// Fixed for ever: initial parameters and data order are made of these.
TEST(RandomTest, ValuesDoNotChangeBetweenVersions) {
  EXPECT_EQ(Mix64(0), 0xe220a8397b1dcdafULL);
  EXPECT_EQ(Mix64(1), 0x910a2dec89025cc1ULL);
  EXPECT_EQ(CounterRandom(1, 2, 3), Mix64(Mix64(Mix64(1) ^ 2) ^ 3));
}

TEST(RandomTest, SameSeedSameSequence) {
  Random a(42);
  Random b(42);
  Random c(43);
  int equal_to_c = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t value = a.Next();
    ASSERT_EQ(value, b.Next());
    equal_to_c += value == c.Next() ? 1 : 0;
  }
  EXPECT_EQ(equal_to_c, 0);
}

TEST(RandomTest, CounterValuesDoNotDependOnOrder) {
  std::array<uint64_t, 100> forward{};
  for (uint64_t i = 0; i < 100; ++i) {
    forward[i] = CounterRandom(7, 1, i);
  }
  for (uint64_t i = 100; i-- > 0;) {
    ASSERT_EQ(CounterRandom(7, 1, i), forward[i]);
  }
}

TEST(RandomTest, NeighbouringSeedsAndStreamsShareNoValues) {
  std::set<uint64_t> seen;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (uint64_t stream = 0; stream < 10; ++stream) {
      for (uint64_t index = 0; index < 100; ++index) {
        seen.insert(CounterRandom(seed, stream, index));
      }
    }
  }
  EXPECT_EQ(seen.size(), 10U * 10U * 100U);
}

TEST(RandomTest, UnitStaysInItsHalfOpenInterval) {
  EXPECT_EQ(ToUnit(0), 0.0);
  EXPECT_LT(ToUnit(~0ULL), 1.0);
  EXPECT_GT(ToUnit(~0ULL), 0.999999);
}

// Chi-squared over 64 cells: 63 degrees of freedom, mean 63, standard deviation 11.2. The seeds are
// fixed, so this can't fail by chance.
TEST(RandomTest, BelowIsUniform) {
  for (const uint64_t seed : {1ULL, 2ULL, 3ULL}) {
    constexpr int kDraws = 64000;
    std::array<int, 64> count{};
    Random random(seed);
    for (int i = 0; i < kDraws; ++i) {
      ++count[random.Below(64)];
    }
    double chi_squared = 0;
    for (const int n : count) {
      chi_squared += std::pow(n - kDraws / 64.0, 2) / (kDraws / 64.0);
    }
    EXPECT_LT(chi_squared, 63 + 4 * 11.2) << "seed " << seed;
    EXPECT_GT(chi_squared, 63 - 4 * 11.2) << "seed " << seed;
  }
}

TEST(RandomTest, ChanceHappensAboutAsOftenAsAsked) {
  Random random(9);
  int hits = 0;
  for (int i = 0; i < 10000; ++i) {
    hits += random.Chance(0.25) ? 1 : 0;
  }
  EXPECT_NEAR(hits, 2500, 200);
  EXPECT_FALSE(random.Chance(0));
  EXPECT_TRUE(random.Chance(1));
}

}  // namespace
}  // namespace ps
