// What all encodings promise, for each of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "tests/codec/encodings.h"

namespace ps::codec {
namespace {

constexpr size_t kCountMax = 4097;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<size_t> Counts(std::initializer_list<size_t> counts) {
  return counts;
}

class EncodingConformance : public testing::TestWithParam<Encoding> {
 protected:
  const Encoding& encoding() const { return GetParam(); }
};

/// Values that are encoded together.
size_t BlockOf(const Encoding& encoding) {
  switch (encoding.kind) {
    case EncodingKind::kInt8:
      return 256;
    case EncodingKind::kInt4:
      return 128;
    case EncodingKind::kTopk:
      return 4096;
    default:
      return 1;
  }
}

/// How much of `value` an encoding may lose beside others of up to `largest`: what the file of each
/// says.
double BoundOf(const Encoding& encoding, float value, float largest) {
  constexpr double kRounding = 1 + 1e-6;
  switch (encoding.kind) {
    case EncodingKind::kF32:
      return 0;
    case EncodingKind::kBf16:
      return std::abs(static_cast<double>(value)) / 256 + 0x1p-134;
    case EncodingKind::kInt8:
      return std::max(largest / 127.0 / 2 * kRounding, 0x1p-100);
    case EncodingKind::kInt4:
      return std::max(largest / 6.0 * kRounding, 0x1p-100);
    case EncodingKind::kTopk:
    case EncodingKind::kNothing:
      return largest;
  }
  return 0;
}

/// Holds the values of one block to its bound.
void CheckBlock(
    const Encoding& encoding, std::span<const float> values, std::span<const float> decoded) {
  float largest = 0;
  for (const float value : values) {
    largest = std::max(largest, std::abs(value));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const double lost = std::abs(static_cast<double>(decoded[i]) - static_cast<double>(values[i]));
    if (lost > BoundOf(encoding, values[i], largest)) {
      ADD_FAILURE() << "value " << i << " of " << values.size() << ": " << values[i] << " became "
                    << decoded[i];
    }
  }
}

TEST_P(EncodingConformance, LosesNoMoreThanItsBoundAtEverySize) {
  const std::vector<float> all = GradientLike(kCountMax, 1);
  const std::vector<float> all_decoded = Decoded(encoding(), Encoded(encoding(), all), kCountMax);
  const size_t block = BlockOf(encoding());
  for (size_t begin = 0; begin < kCountMax; begin += block) {
    const size_t size = std::min(block, kCountMax - begin);
    CheckBlock(
        encoding(),
        std::span(all).subspan(begin, size),
        std::span(all_decoded).subspan(begin, size));
  }
  for (size_t count = 0; count <= kCountMax; ++count) {
    const std::span<const float> values = std::span(all).first(count);
    const std::vector<float> decoded = Decoded(encoding(), Encoded(encoding(), values), count);
    const size_t whole = count / block * block;  // blocks do not depend on what follows
    ASSERT_EQ(BitsOf(std::span(decoded).first(whole)), BitsOf(std::span(all_decoded).first(whole)))
        << count;
    CheckBlock(encoding(), values.subspan(whole), std::span(decoded).subspan(whole));
    ASSERT_FALSE(HasFailure()) << count;
  }
}

TEST_P(EncodingConformance, IsNeverLargerThanF32AndGrowsWithTheCount) {
  uint64_t before = 0;
  for (size_t count = 0; count <= kCountMax; ++count) {
    const uint64_t size = encoding().SizeOf(count);
    EXPECT_LE(size, 4 * count) << count;
    EXPECT_GE(size, count == 0 ? 0 : 1) << count;
    EXPECT_GE(size + 4, before) << count;
    before = size;
  }
  EXPECT_LE(encoding().SizeOf(uint64_t{1} << 40), uint64_t{4} << 40);
}

TEST_P(EncodingConformance, TheResidualHoldsWhatTheBytesLack) {
  for (const size_t count : Counts({1, 2, 127, 128, 129, 255, 256, 257, 511, 4095, 4096, 4097})) {
    std::vector<float> residual(count);
    std::vector<double> pushed(count);
    std::vector<double> arrived(count);
    for (uint64_t step = 0; step < 5; ++step) {
      const std::vector<float> values = GradientLike(count, step + 7);
      const std::vector<float> decoded =
          Decoded(encoding(), Encoded(encoding(), values, residual), count);
      for (size_t i = 0; i < count; ++i) {
        pushed[i] += values[i];
        arrived[i] += decoded[i];
      }
    }
    for (size_t i = 0; i < count; ++i) {
      // Sums of f32 are rounded.
      EXPECT_NEAR(pushed[i], arrived[i] + residual[i], 1e-8) << i << " of " << count;
    }
  }
}

TEST_P(EncodingConformance, ResidualsOfNothingStayNothing) {
  std::vector<float> residual(1000);
  EXPECT_EQ(
      Decoded(encoding(), Encoded(encoding(), std::vector<float>(1000), residual), 1000),
      std::vector<float>(1000));
  EXPECT_EQ(residual, std::vector<float>(1000));
}

TEST_P(EncodingConformance, WhatIsNotFiniteIsSeenInItsBlock) {
  for (const float bad : {kNan, -kNan, kInfinity, -kInfinity, std::bit_cast<float>(0x7f800001U)}) {
    for (const size_t count : Counts({1, 2, 3, 100, 300, 4096, 4097})) {
      for (const size_t place : {size_t{0}, count / 2, count - 1}) {
        std::vector<float> values = GradientLike(count, 3);
        values[place] = bad;
        const std::vector<float> decoded = Decoded(encoding(), Encoded(encoding(), values), count);
        EXPECT_FALSE(std::ranges::all_of(decoded, [](float x) { return std::isfinite(x); }))
            << bad << " at " << place << " of " << count;
      }
    }
  }
}

TEST_P(EncodingConformance, AResidualOutlivesAGradientThatIsNotFinite) {
  for (const float bad : {kNan, kInfinity}) {
    for (const size_t count : Counts({1, 2, 300, 4097})) {
      std::vector<float> residual = GradientLike(count, 5);
      const std::vector<float> before = residual;
      std::vector<float> values = GradientLike(count, 6);
      values[count - 1] = bad;
      Encoded(encoding(), values, residual);
      EXPECT_EQ(residual[count - 1], before[count - 1]) << count;
      EXPECT_TRUE(std::ranges::all_of(residual, [](float x) { return std::isfinite(x); }));
    }
  }
}

TEST_P(EncodingConformance, TheLargestValuesStayFiniteAndDenormalsAreNoTrouble) {
  constexpr float kMost = std::numeric_limits<float>::max();
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  for (const size_t count : Counts({2, 100, 300})) {
    std::vector<float> values(count, kMost / 3);
    values[0] = -0.99F * kMost;
    for (const float x : Decoded(encoding(), Encoded(encoding(), values), count)) {
      EXPECT_TRUE(std::isfinite(x));
    }
    for (const float small : {kLeast, -kLeast, 1e-38F, 1e-33F, 0x1p-100F}) {
      const std::vector<float> tiny(count, small);
      std::vector<float> residual(count);
      for (const float x : Decoded(encoding(), Encoded(encoding(), tiny, residual), count)) {
        EXPECT_LE(std::abs(x), 2 * std::abs(small));
      }
      for (const float x : residual) {
        EXPECT_LE(std::abs(x), std::abs(small));
      }
    }
  }
}

TEST_P(EncodingConformance, BytesMayLieAnywhere) {
  const std::vector<float> values = GradientLike(777, 4);
  const std::vector<std::byte> expected = Encoded(encoding(), values);
  for (size_t shift = 0; shift < 8; ++shift) {
    std::vector<std::byte> memory(expected.size() + 8);
    const std::span<std::byte> place = std::span(memory).subspan(shift, expected.size());
    Encode(encoding(), values, {}, place);
    EXPECT_TRUE(std::ranges::equal(place, expected));
    EXPECT_EQ(BitsOf(Decoded(encoding(), place, 777)), BitsOf(Decoded(encoding(), expected, 777)));
  }
}

TEST_P(EncodingConformance, BytesMayTakeThePlaceOfTheValues) {
  for (const size_t count : Counts({1, 2, 3, 129, 257, 1000, 4096, 4097, 9000})) {
    for (const bool has_residual : {false, true}) {
      std::vector<float> values = GradientLike(count, 8);
      std::vector<float> residual(has_residual ? count : 0, 1e-4F);
      std::vector<float> same_residual = residual;
      const std::vector<std::byte> expected = Encoded(encoding(), values, same_residual);
      const std::span<std::byte> place =
          std::as_writable_bytes(std::span(values)).first(expected.size());
      Encode(encoding(), values, residual, place);
      EXPECT_TRUE(std::ranges::equal(place, expected)) << count;
      EXPECT_EQ(residual, same_residual);
    }
  }
}

TEST_P(EncodingConformance, AnotherLengthIsRefused) {
  for (const size_t count : Counts({0, 1, 100, 4097})) {
    std::vector<std::byte> bytes = Encoded(encoding(), GradientLike(count, 9));
    std::vector<float> values(count);
    bytes.push_back(std::byte{0});
    EXPECT_EQ(Decode(encoding(), bytes, values).code(), StatusCode::kInvalidArgument);
    if (count > 0) {
      bytes.resize(bytes.size() - 2);
      EXPECT_EQ(Decode(encoding(), bytes, values).code(), StatusCode::kInvalidArgument);
    }
  }
}

TEST_P(EncodingConformance, AnyBytesAreDecodedOrRefused) {
  Random random(11);
  for (int i = 0; i < 500; ++i) {
    const size_t count = random.Below(600);
    std::vector<std::byte> bytes(encoding().SizeOf(count));
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(random.Next());
    }
    std::vector<float> values(count);
    const Status status = Decode(encoding(), bytes, values);
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::kInvalidArgument) << status;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, EncodingConformance, testing::ValuesIn(AllEncodings()), [](const auto& row) {
      std::string name = row.param.ToText();
      std::ranges::replace_if(
          name, [](char c) { return !std::isalnum(c); }, '_');
      return name;
    });

}  // namespace
}  // namespace ps::codec
