#include "checkpoint/chunk_codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "ps/base/random.h"

namespace ps::checkpoint {
namespace {

using Floats = std::vector<float>;

Floats Noise(uint64_t seed, size_t count, float scale) {
  Floats values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(scale * static_cast<float>(ToUnit(CounterRandom(seed, 0, i)) - 0.5));
  }
  return values;
}

Floats Sum(Floats a, const Floats& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] += b[i];
  }
  return a;
}

/// Encodes, decodes, compares. Returns how it was stored.
ChunkCodec::Encoded RoundTrip(
    const Floats& values, const Floats& previous, std::vector<std::byte>* room) {
  ChunkCodec codec;
  const auto bytes = std::as_bytes(std::span(values));
  const auto encoded =
      codec.Encode({Encoding::kRaw, bytes}, bytes, std::as_bytes(std::span(previous)), room);
  Floats target = previous;
  target.resize(values.size());
  const Status decoded =
      codec.Decode(encoded.encoding, encoded.bytes, std::as_writable_bytes(std::span(target)));
  EXPECT_TRUE(decoded.ok()) << decoded;
  EXPECT_EQ(std::memcmp(target.data(), values.data(), values.size() * sizeof(float)), 0);
  return encoded;
}

TEST(ChunkCodecTest, ZerosTakeNextToNothing) {
  std::vector<std::byte> room;
  const auto encoded = RoundTrip(Floats(100'000), {}, &room);
  EXPECT_EQ(encoded.encoding, Encoding::kPlain);
  EXPECT_LT(encoded.bytes.size(), 100U);
}

TEST(ChunkCodecTest, WhatDoesNotCompressStaysAsItIs) {
  std::vector<float> values(10'000);
  for (size_t i = 0; i < values.size(); ++i) {
    const auto bits = static_cast<uint32_t>(CounterRandom(1, 2, i));
    std::memcpy(&values[i], &bits, sizeof bits);
  }
  std::vector<std::byte> room;
  const auto encoded = RoundTrip(values, {}, &room);
  EXPECT_EQ(encoded.encoding, Encoding::kRaw);
  EXPECT_EQ(encoded.bytes.data(), std::as_bytes(std::span(values)).data());
}

TEST(ChunkCodecTest, ASmallUpdateIsADelta) {
  const Floats before = Noise(1, 50'000, 0.1F);
  const Floats after = Sum(before, Noise(2, 50'000, 1e-5F));
  std::vector<std::byte> room;
  const auto encoded = RoundTrip(after, before, &room);
  EXPECT_EQ(encoded.encoding, Encoding::kDelta);
  std::vector<std::byte> other_room;
  EXPECT_LT(encoded.bytes.size(), RoundTrip(after, {}, &other_room).bytes.size());
}

TEST(ChunkCodecTest, ADeltaThatIsLargerThanTheValueIsNotTaken) {
  std::vector<std::byte> room;
  EXPECT_EQ(RoundTrip(Floats(50'000, 1.5F), Noise(1, 50'000, 1), &room).encoding, Encoding::kPlain);
}

TEST(ChunkCodecTest, OddSizesAndSpecialValuesComeBack) {
  for (const size_t count : {1U, 2U, 3U, 7U, 31U, 32U, 33U, 1009U}) {
    Floats values = Noise(3, count, 1);
    values[0] = std::nanf("5");
    values[count / 2] = -INFINITY;
    std::vector<std::byte> room;
    RoundTrip(values, {}, &room);
    RoundTrip(values, Noise(4, count, 1), &room);
  }
}

TEST(ChunkCodecTest, DamagedAndWrongSizesAreRefused) {
  ChunkCodec codec;
  const Floats values(1000, 2.5F);
  std::vector<std::byte> room;
  const auto raw = std::as_bytes(std::span(values));
  const auto encoded = codec.Encode({Encoding::kRaw, raw}, raw, {}, &room);
  ASSERT_EQ(encoded.encoding, Encoding::kPlain);
  for (const size_t count : {0U, 999U, 1001U}) {
    Floats target(count);
    const auto bytes = std::as_writable_bytes(std::span(target));
    EXPECT_EQ(codec.Decode(Encoding::kPlain, encoded.bytes, bytes).code(), StatusCode::kCorruption);
    EXPECT_EQ(codec.Decode(Encoding::kRaw, encoded.bytes, bytes).code(), StatusCode::kCorruption);
  }
  Floats target(1000);
  for (size_t size = 0; size < encoded.bytes.size(); ++size) {
    const Status status = codec.Decode(
        Encoding::kDelta, encoded.bytes.first(size), std::as_writable_bytes(std::span(target)));
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << size;
  }
}

TEST(ChunkCodecTest, HalvesOfFloatsArePackedAndOnlyTheirOwnSizeIsTaken) {
  ChunkCodec codec;
  const Floats values = {1.5F, -2, 0, INFINITY, -0x1p-130F};
  std::vector<std::byte> room;
  const auto packed = ChunkCodec::Pack(std::as_bytes(std::span(values)), &room);
  EXPECT_EQ(packed.encoding, Encoding::kBf16);
  ASSERT_EQ(packed.bytes.size(), 2 * values.size());
  Floats target(values.size());
  const auto bytes = std::as_writable_bytes(std::span(target));
  ASSERT_TRUE(codec.Decode(Encoding::kBf16, packed.bytes, bytes).ok());
  EXPECT_EQ(target, values);
  for (const size_t size : {0U, 8U, 9U}) {
    const Status status = codec.Decode(Encoding::kBf16, packed.bytes.first(size), bytes);
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << size;
  }
}

}  // namespace
}  // namespace ps::checkpoint
