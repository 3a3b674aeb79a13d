#include "ps/codec/difference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/codec/encodings.h"

namespace ps::codec {
namespace {

constexpr size_t kCount = 1000;

/// For int8 and int4, with what one difference may leave of the largest.
class DifferenceTest : public testing::TestWithParam<Encoding> {
 protected:
  double share() const { return GetParam().kind == EncodingKind::kInt8 ? 1 / 253.0 : 1 / 5.9; }

  bool Send(std::span<const float> values, std::span<float> held) {
    return EncodeDifference(GetParam(), values, held, scratch_, bytes_);
  }

  Status Take(std::span<float> held) { return AddDifference(GetParam(), bytes_, held, scratch_); }

  std::vector<float> scratch_ = std::vector<float>(kCount);
  std::vector<std::byte> bytes_ = std::vector<std::byte>(GetParam().SizeOf(kCount));
};

double LargestGap(std::span<const float> a, std::span<const float> b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest;
}

TEST_P(DifferenceTest, BothSidesHoldTheSameBitsWhateverComes) {
  std::vector<float> values = GradientLike(kCount, 1);
  std::vector<float> sender = GradientLike(kCount, 2);
  std::vector<float> receiver = sender;
  for (uint64_t step = 0; step < 50; ++step) {
    const std::vector<float> move = GradientLike(kCount, step + 3);
    for (size_t i = 0; i < kCount; ++i) {
      values[i] += move[i];
    }
    ASSERT_TRUE(Send(values, sender));
    ASSERT_TRUE(CheckDifference(GetParam(), bytes_, scratch_).ok());
    ASSERT_TRUE(Take(receiver).ok());
    ASSERT_EQ(BitsOf(sender), BitsOf(receiver)) << step;
  }
}

TEST_P(DifferenceTest, WhatIsLostOfOneIsInTheNext) {
  const std::vector<float> values = GradientLike(kCount, 1);
  std::vector<float> held(kCount);
  double gap = LargestGap(values, held);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(Send(values, held));
    const double now = LargestGap(values, held);
    EXPECT_LE(now, gap * share() + 1e-9) << i;
    gap = now;
  }
}

TEST_P(DifferenceTest, WhatWouldNotBeFiniteIsRefusedAndNothingMoves) {
  const std::vector<float> before = GradientLike(kCount, 1);
  constexpr float kMost = std::numeric_limits<float>::max();
  const auto refused = [&](float value, float held_there) {
    std::vector<float> values = before;
    std::vector<float> held = before;
    values[300] = value;
    held[300] = held_there;
    const std::vector<float> held_before = held;
    EXPECT_FALSE(Send(values, held)) << value << " from " << held_there;
    EXPECT_EQ(BitsOf(held), BitsOf(held_before));
  };
  refused(std::numeric_limits<float>::quiet_NaN(), 0);
  refused(std::numeric_limits<float>::infinity(), 0);
  refused(0, -std::numeric_limits<float>::infinity());
  refused(kMost, -kMost);
}

TEST_P(DifferenceTest, BytesThatAreNoDifferenceAreFound) {
  std::vector<float> held(kCount);
  ASSERT_TRUE(Send(GradientLike(kCount, 1), held));
  for (const float scale : {-1.0F, std::numeric_limits<float>::infinity()}) {
    std::vector<std::byte> bytes = bytes_;
    std::memcpy(bytes.data(), &scale, sizeof(scale));
    EXPECT_EQ(CheckDifference(GetParam(), bytes, scratch_).code(), StatusCode::kInvalidArgument);
  }
  const uint32_t not_finite = 0x7fc00000U;  // an encoder may write it, and Decode takes it
  std::memcpy(bytes_.data(), &not_finite, sizeof(not_finite));
  EXPECT_EQ(CheckDifference(GetParam(), bytes_, scratch_).message(), "a difference is not finite");
  EXPECT_FALSE(CheckDifference(GetParam(), std::span(bytes_).first(4), scratch_).ok());
}

INSTANTIATE_TEST_SUITE_P(
    All,
    DifferenceTest,
    testing::Values(Encoding{EncodingKind::kInt8}, Encoding{EncodingKind::kInt4}),
    [](const auto& info) { return info.param.ToText(); });

}  // namespace
}  // namespace ps::codec
