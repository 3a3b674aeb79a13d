#include "kernels/cpu/optimizer_combine.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/finite.h"
#include "tests/kernels/op_runner.h"

// What else a server does with whole buffers, on the CPU alone.

namespace ps::kernels {
namespace {

using test::NormalValues;

constexpr int64_t kCombineSizes[] = {0, 1, 31, 32, 33, 997, 20011};

TEST(AllFiniteTest, OrdinaryExtremeAndTinyNumbersAreFinite) {
  using Limits = std::numeric_limits<float>;
  const std::vector<float> values = {
      0, -0.0F, 1, Limits::max(), Limits::lowest(), Limits::min(), Limits::denorm_min()};
  EXPECT_TRUE(AllFinite(values));
  EXPECT_TRUE(AllFinite({}));
}

TEST(AllFiniteTest, OneBadElementIsFoundWhereverItIs) {
  const float bad[] = {
      std::numeric_limits<float>::infinity(),
      -std::numeric_limits<float>::infinity(),
      std::numeric_limits<float>::quiet_NaN(),
      -std::numeric_limits<float>::quiet_NaN(),
      std::bit_cast<float>(0x7f800001U),  // signalling
      std::bit_cast<float>(0xffffffffU)};
  for (const size_t n : {size_t{1}, size_t{31}, size_t{32}, size_t{33}, size_t{997}}) {
    std::vector<float> values(n, std::numeric_limits<float>::max());
    ASSERT_TRUE(AllFinite(values));
    for (size_t i = 0; i < n; ++i) {
      values[i] = bad[i % std::size(bad)];
      ASSERT_FALSE(AllFinite(values)) << i << " of " << n;
      values[i] = -1;
    }
  }
}

TEST(AllFiniteTest, BadElementsAreFoundInEveryBlockOfALongBuffer) {
  std::vector<float> values(100003, 1);
  for (size_t i = 0; i < values.size(); i += 9091) {
    values[i] = std::numeric_limits<float>::quiet_NaN();
    ASSERT_FALSE(AllFinite(values)) << i;
    values[i] = 1;
  }
  values.back() = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(AllFinite(values));
}

TEST(MoveTowardsTest, AnAverageThatWouldOverflowStays) {
  const std::vector<float> x = {3e38F, 1};
  std::vector<float> w = {-3e38F, 0};
  EXPECT_FALSE(MoveTowards(x.data(), 0.5F, w.data(), 2));
  EXPECT_EQ(w[0], -3e38F);
  EXPECT_EQ(w[1], 0.5F);
  EXPECT_TRUE(MoveTowards(x.data() + 1, 0.5F, w.data() + 1, 1));
}

TEST(MoveTowardsTest, MovesByTheRate) {
  for (const int64_t n : kCombineSizes) {
    const std::vector<float> x = NormalValues(n, 3);
    const std::vector<float> before = NormalValues(n, 4);
    std::vector<float> w = before;
    MoveTowards(x.data(), 0.25F, w.data(), n);
    for (size_t i = 0; i < w.size(); ++i) {
      ASSERT_NEAR(w[i], 0.75 * before[i] + 0.25 * x[i], 1e-6);
    }
  }
}

TEST(WeightedMeanTest, IsTheMeanOfThePartsBySamples) {
  for (const int64_t n : kCombineSizes) {
    const std::vector<float> a = NormalValues(n, 5);
    const std::vector<float> b = NormalValues(n, 6);
    const std::vector<float> c = NormalValues(n, 7);
    std::vector<float> y(static_cast<size_t>(n), 99);
    const WeightedPart parts[] = {{a.data(), 64}, {b.data(), 32}, {c.data(), 7}};
    WeightedMean(parts, y.data(), n);
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], (64.0 * a[i] + 32.0 * b[i] + 7.0 * c[i]) / 103, 1e-6);
    }
  }
}

TEST(WeightedMeanTest, SumsInTheOrderGiven) {
  const float big = 1e8F;
  const float a = big;
  const float b = -big;
  const float c = 1;
  float y = 0;
  const WeightedPart small_last[] = {{&a, 1}, {&b, 1}, {&c, 1}};
  WeightedMean(small_last, &y, 1);
  EXPECT_EQ(y, 1.0F / 3.0F);
  const WeightedPart small_first[] = {{&c, 1}, {&a, 1}, {&b, 1}};
  WeightedMean(small_first, &y, 1);
  EXPECT_EQ(y, 0);  // 1 + 1e8 is 1e8 in f32
}

TEST(WeightedMeanTest, OnePartIsTakenAsItIs) {
  const std::vector<float> a = NormalValues(997, 8);
  std::vector<float> y(a.size());
  const WeightedPart parts[] = {{a.data(), 3}};
  WeightedMean(parts, y.data(), 997);
  EXPECT_EQ(std::memcmp(a.data(), y.data(), a.size() * sizeof(float)), 0);
}

}  // namespace
}  // namespace ps::kernels
