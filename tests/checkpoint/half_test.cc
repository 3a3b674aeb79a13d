#include "checkpoint/model/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace ps::checkpoint {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A 16-bit type: its conversions, and the bits of its infinity.
struct ShortType {
  uint16_t (*from)(float);
  float (*to)(uint16_t);
  uint16_t infinity;
};

constexpr ShortType kHalf = {FloatToHalf, HalfToFloat, 0x7c00};
constexpr ShortType kBf16 = {FloatToBf16, Bf16ToFloat, 0x7f80};

class HalfTest : public ::testing::TestWithParam<ShortType> {};

TEST_P(HalfTest, EveryShortValueComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = GetParam().to(static_cast<uint16_t>(bits));
    const uint16_t back = GetParam().from(value);
    if ((bits & 0x7fffU) > GetParam().infinity) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(GetParam().to(back))) << bits;
      ASSERT_EQ(back & 0x8000U, bits & 0x8000U) << bits;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

TEST_P(HalfTest, BetweenTwoNeighboursTheNearestIsTakenAndOfATieTheEven) {
  for (uint16_t low = 0; low + 1 < GetParam().infinity; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    // Exact: one more place than the short type has.
    const auto middle =
        static_cast<float>((double{GetParam().to(low)} + double{GetParam().to(high)}) / 2);
    ASSERT_EQ(GetParam().from(middle), low % 2 == 0 ? low : high) << low;
    ASSERT_EQ(GetParam().from(std::nextafter(middle, 0.0F)), low) << low;
    ASSERT_EQ(GetParam().from(std::nextafter(middle, kInfinity)), high) << low;
    ASSERT_EQ(GetParam().from(-middle), 0x8000U | (low % 2 == 0 ? low : high)) << low;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, HalfTest, ::testing::Values(kHalf, kBf16));

TEST(HalfLimitsTest, KnownValuesHaveTheirBits) {
  EXPECT_EQ(FloatToHalf(1.0F), 0x3c00);
  EXPECT_EQ(FloatToHalf(-2.0F), 0xc000);
  EXPECT_EQ(FloatToHalf(65504.0F), 0x7bff) << "the largest";
  EXPECT_EQ(FloatToHalf(0x1p-24F), 0x0001) << "the smallest";
  EXPECT_EQ(FloatToBf16(1.0F), 0x3f80);
  EXPECT_EQ(FloatToBf16(-2.0F), 0xc000);
}

TEST(HalfLimitsTest, WhatIsTooLargeIsInfinite) {
  EXPECT_EQ(FloatToHalf(65519.99F), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0F), 0x7c00);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(FloatToHalf(-kInfinity), 0xfc00);
  EXPECT_EQ(FloatToBf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(FloatToBf16(kInfinity), 0x7f80);
}

TEST(HalfLimitsTest, WhatIsTooSmallIsZeroWithItsSign) {
  EXPECT_EQ(FloatToHalf(0x1p-25F), 0x0000) << "a tie with zero, which is even";
  EXPECT_EQ(FloatToHalf(std::nextafter(0x1p-25F, 1.0F)), 0x0001);
  EXPECT_EQ(FloatToHalf(-0x1p-30F), 0x8000);
}

TEST(HalfLimitsTest, ANanWhosePayloadIsInTheLowBitsStaysOne) {
  const auto nan = std::bit_cast<float>(0x7fc00001U);
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(nan))));
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(nan))));
  const auto low = std::bit_cast<float>(0x7f800001U);
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(low))));
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(low))));
}

TEST(RoundToBf16Test, TheErrorIsAtMostA256thAndWhatIsFiniteStaysSo) {
  std::vector<float> values = {
      0,
      -0.0F,
      1,
      std::numeric_limits<float>::max(),
      -std::numeric_limits<float>::max(),
      3.3961e38F};
  // Every exponent of normal numbers, with mantissas all over.
  for (uint32_t bits = 0x00800000; bits < 0x7f800000; bits += 40'009) {
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(-std::bit_cast<float>(bits));
  }
  std::vector<float> rounded(values.size());
  RoundToBf16(values, rounded);
  for (size_t i = 0; i < values.size(); ++i) {
    const double error = std::abs(double{rounded[i]} - double{values[i]});
    ASSERT_LE(error, std::abs(double{values[i]}) / 256) << values[i];
    ASSERT_EQ(std::bit_cast<uint32_t>(rounded[i]) & 0xffffU, 0U) << values[i];
    ASSERT_EQ(std::signbit(rounded[i]), std::signbit(values[i])) << values[i];
  }
}

TEST(RoundToBf16Test, SubnormalAndSpecialValuesKeepTheirKind) {
  const std::vector<float> values = {
      kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 0x1.8p-133F, 0x1p-149F};
  std::vector<float> rounded(values.size());
  RoundToBf16(values, rounded);
  EXPECT_EQ(rounded[0], kInfinity);
  EXPECT_EQ(rounded[1], -kInfinity);
  EXPECT_TRUE(std::isnan(rounded[2]));
  EXPECT_EQ(rounded[3], 0x1p-132F) << "a tie goes to the even one";
  EXPECT_EQ(rounded[4], 0);
}

}  // namespace
}  // namespace ps::checkpoint
