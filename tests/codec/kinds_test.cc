// What each kind of encoding does by itself: its bytes, by hand.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/codec/encodings.h"

namespace ps::codec {
namespace {

constexpr Encoding kInt8{EncodingKind::kInt8};
constexpr Encoding kInt4{EncodingKind::kInt4};

Encoding Topk(uint32_t share) {
  return {EncodingKind::kTopk, share};
}

std::vector<int> IntsOf(std::span<const std::byte> bytes) {
  std::vector<int> ints;
  for (const std::byte byte : bytes) {
    ints.push_back(static_cast<int8_t>(byte));
  }
  return ints;
}

std::vector<std::byte> WithScale(float scale, std::vector<int> rest) {
  std::vector<std::byte> bytes(sizeof(float));
  std::memcpy(bytes.data(), &scale, sizeof(scale));
  for (const int value : rest) {
    bytes.push_back(static_cast<std::byte>(value));
  }
  return bytes;
}

TEST(Int8Test, RoundsToTheNearestAndTiesToEven) {
  const std::vector<float> values = {127, -127, 0.5F, 1.5F, -0.5F, -2.5F, 0.51F, 100.4F};
  EXPECT_EQ(Encoded(kInt8, values), WithScale(1, {127, -127, 0, 2, 0, -2, 1, 100}));
}

TEST(Int8Test, WholeNumbersAreExactWhereTheLargestIs127) {
  std::vector<float> values = {127};
  for (int i = -127; i < 127; ++i) {
    values.push_back(static_cast<float>(i));
  }
  EXPECT_EQ(Decoded(kInt8, Encoded(kInt8, values), values.size()), values);
}

TEST(Int8Test, ABlockIs256ValuesAndABlockOfOneIsItself) {
  EXPECT_EQ(kInt8.SizeOf(0), 0U);
  EXPECT_EQ(kInt8.SizeOf(1), 4U);
  EXPECT_EQ(kInt8.SizeOf(2), 6U);
  EXPECT_EQ(kInt8.SizeOf(256), 260U);
  EXPECT_EQ(kInt8.SizeOf(257), 264U);
  EXPECT_EQ(kInt8.SizeOf(512), 520U);
  std::vector<float> values(257, 1e-3F);
  values[256] = 12345.678F;
  EXPECT_EQ(Decoded(kInt8, Encoded(kInt8, values), 257)[256], 12345.678F);
}

TEST(Int8Test, AScaleIsPositiveFiniteOrTheOneNan) {
  std::vector<float> values(2);
  EXPECT_TRUE(Decode(kInt8, WithScale(0, {5, 5}), values).ok());
  EXPECT_EQ(values, std::vector<float>(2));
  constexpr float kInfiniteValue = std::numeric_limits<float>::infinity();
  for (const float scale :
       {-1.0F,
        kInfiniteValue,
        -kInfiniteValue,
        std::bit_cast<float>(0x7fc00001U),
        std::bit_cast<float>(0xffc00000U)}) {
    EXPECT_EQ(Decode(kInt8, WithScale(scale, {1, 1}), values).code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(Decode(kInt4, WithScale(scale, {1}), values).code(), StatusCode::kInvalidArgument);
  }
}

TEST(Int4Test, RoundsToTheNearestOfItsMagnitudes) {
  const std::vector<float> values = {6, -6, 0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5, -5.01F};
  EXPECT_EQ(
      Decoded(kInt4, Encoded(kInt4, values), 10),
      (std::vector<float>{6, -6, 0, 1, 1, 2, 2, 4, 4, -6}));
}

TEST(Int4Test, LowerHalvesAreTheFirstHalfOfABlock) {
  // Codes: 7, 15 (-6), 4 (2), and none.
  EXPECT_EQ(Encoded(kInt4, std::vector<float>{6, -6, 2}), WithScale(1, {7 + 4 * 16, 15}));
  EXPECT_EQ(
      Encoded(kInt4, std::vector<float>{6, -6, 2, 0.5F}), WithScale(1, {7 + 4 * 16, 15 + 16}));
  std::vector<float> values(3);
  EXPECT_FALSE(Decode(kInt4, WithScale(1, {7, 16}), values).ok());
  EXPECT_EQ(kInt4.SizeOf(128), 68U);
  EXPECT_EQ(kInt4.SizeOf(129), 72U);
  EXPECT_EQ(kInt4.SizeOf(131), 74U);
}

TEST(TopkTest, SendsTheLargestAndOfEqualOnesTheFirst) {
  const std::vector<float> values = {1, -3, 2, 2, 0, 2, -2, 1};
  std::vector<float> residual(8);
  EXPECT_EQ(
      Decoded(Topk(375'000), Encoded(Topk(375'000), values, residual), 8),
      (std::vector<float>{0, -3, 2, 2, 0, 0, 0, 0}));
  EXPECT_EQ(residual, (std::vector<float>{1, 0, 0, 0, 0, 2, -2, 1}));
}

TEST(TopkTest, AlwaysSendsTheSameNumber) {
  EXPECT_EQ(Topk(10'000).SizeOf(4096), 41U * 4);
  EXPECT_EQ(Topk(10'000).SizeOf(4097), 42U * 4);
  EXPECT_EQ(Topk(10'000).SizeOf(1), 4U);
  const std::vector<float> nothing(4096);
  const std::vector<std::byte> bytes = Encoded(Topk(10'000), nothing);
  EXPECT_EQ(Decoded(Topk(10'000), bytes, 4096), nothing);
  EXPECT_EQ(IntsOf(std::span(bytes).subspan(0, 6)), (std::vector<int>{0, 0, 1, 0, 2, 0}));
}

TEST(TopkTest, WhatComesIsHeldBackUntilItIsLargeEnough) {
  std::vector<float> residual(4);
  double arrived = 0;
  for (int step = 0; step < 100; ++step) {
    const std::vector<float> values = {8, 1, 1, 1};
    arrived += Decoded(Topk(250'000), Encoded(Topk(250'000), values, residual), 4)[3];
  }
  EXPECT_NEAR(arrived, 100, 12);
}

TEST(TopkTest, PlacesGrowAndAreWithinTheirBlock) {
  std::vector<float> values(4);
  const auto bytes = [](std::vector<int> places) {
    std::vector<std::byte> result;
    for (const int place : places) {
      result.push_back(static_cast<std::byte>(place));
      result.push_back(static_cast<std::byte>(place >> 8));
    }
    result.resize(result.size() * 2);
    return result;
  };
  EXPECT_TRUE(Decode(Topk(500'000), bytes({1, 3}), values).ok());
  EXPECT_FALSE(Decode(Topk(500'000), bytes({3, 1}), values).ok());
  EXPECT_FALSE(Decode(Topk(500'000), bytes({1, 1}), values).ok());
  EXPECT_FALSE(Decode(Topk(500'000), bytes({1, 4}), values).ok());
  EXPECT_FALSE(Decode(Topk(500'000), bytes({1, 0x103}), values).ok());
}

}  // namespace
}  // namespace ps::codec
