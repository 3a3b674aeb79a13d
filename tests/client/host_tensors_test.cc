#include "ps/client/host_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace ps::client {
namespace {

using testing::Each;
using testing::ElementsAre;

/// A tensor of 3 values, which travels as bf16, and one of 6 in two chunks.
ChunkLayout RoundedAndWhole() {
  proto::Placement placement;
  placement.chunks = {
      {MakeChunkKey(0, 0), 3, 0, ShardId(0)},
      {MakeChunkKey(1, 0), 4, 0, ShardId(0)},
      {MakeChunkKey(1, 1), 2, 4, ShardId(1)}};
  const std::vector<codec::Encoding> encodings = {
      {codec::EncodingKind::kBf16}, {codec::EncodingKind::kF32}};
  return ChunkLayout::Make({3, 6}, placement, encodings).value();
}

TEST(HostTensorsTest, NewValuesAreCopiedToTheirPlace) {
  const ChunkLayout layout = RoundedAndWhole();
  HostTensors tensors = HostTensors::Make(layout, 1).value();
  const std::array<float, 2> values = {7, 8};
  const ChunkLayout::Chunk& chunk = layout.chunks()[1];
  const auto place =
      tensors.Take({chunk.key, 1, chunk.offset + 1, std::as_bytes(std::span(values)), 2, {}});
  EXPECT_THAT(place, ElementsAre(7, 8));
  EXPECT_EQ(place.data(), tensors.parameters().data() + chunk.offset + 1);
}

TEST(HostTensorsTest, AWholeTensorIsF32UntilItsMemoryIsLentAnew) {
  const ChunkLayout layout = RoundedAndWhole();
  HostTensors tensors = HostTensors::Make(layout, 1).value();
  const ChunkLayout::Chunk& chunk = layout.chunks()[0];
  {
    const auto gradient = tensors.Lend().value();
    gradient->floats()[1] = 7;
    EXPECT_EQ(gradient->EncodingOf(chunk), chunk.encoding);
    EXPECT_EQ(gradient->Piece(chunk, 0, 3).size(), 6U);
    gradient->SetWhole(0);
    EXPECT_EQ(gradient->EncodingOf(chunk), codec::Encoding());
    const std::span<const std::byte> piece = gradient->Piece(chunk, 1, 2);
    ASSERT_EQ(piece.size(), 8U);
    float value = 0;
    std::memcpy(&value, piece.data(), sizeof(value));
    EXPECT_EQ(value, 7);
    EXPECT_FALSE(gradient->IsWhole(1));
  }
  EXPECT_FALSE(tensors.Lend().value()->IsWhole(0));
}

TEST(HostTensorsTest, NothingOfATensorTravelsUntilItsMemoryIsLentAnew) {
  const ChunkLayout layout = RoundedAndWhole();
  HostTensors tensors = HostTensors::Make(layout, 1).value();
  const ChunkLayout::Chunk& chunk = layout.chunks()[1];
  {
    const auto gradient = tensors.Lend().value();
    gradient->SetNothing(TensorOf(chunk.key));
    EXPECT_EQ(gradient->EncodingOf(chunk).kind, codec::EncodingKind::kNothing);
    EXPECT_TRUE(gradient->Piece(chunk, 0, 2).empty());
  }
  EXPECT_EQ(tensors.Lend().value()->EncodingOf(chunk), chunk.encoding);
}

TEST(HostTensorsTest, RoundedValuesBecomeFloats) {
  const ChunkLayout layout = RoundedAndWhole();
  HostTensors tensors = HostTensors::Make(layout, 1).value();
  const std::array<uint16_t, 2> halves = {0x3f80, 0xc000};
  const ChunkLayout::Chunk& chunk = layout.chunks()[1];
  const auto place = tensors.Take(
      {chunk.key,
       1,
       chunk.offset + 1,
       std::as_bytes(std::span(halves)),
       2,
       {codec::EncodingKind::kBf16}});
  EXPECT_THAT(place, ElementsAre(1, -2));
}

TEST(HostTensorsTest, ADifferenceIsAddedToWhatIsThere) {
  constexpr codec::Encoding kInt8{codec::EncodingKind::kInt8};
  const ChunkLayout layout = RoundedAndWhole();
  HostTensors tensors = HostTensors::Make(layout, 1).value();
  const std::array<float, 2> values = {7, 8};
  const ChunkLayout::Chunk& chunk = layout.chunks()[1];
  tensors.Take({chunk.key, 1, chunk.offset + 1, std::as_bytes(std::span(values)), 2, {}});
  const std::array<float, 2> move = {1, -1};
  std::array<std::byte, 6> bytes;
  codec::Encode(kInt8, move, {}, bytes);
  const auto place = tensors.Take({chunk.key, 1, chunk.offset + 1, bytes, 2, kInt8, true});
  EXPECT_THAT(place, ElementsAre(8, 7));
}

TEST(HostTensorsTest, APieceOfAGradientIsOfTheChunksTypeAndAtItsPlace) {
  const ChunkLayout layout = RoundedAndWhole();
  HostTensors tensors = HostTensors::Make(layout, 1).value();
  const auto gradient = tensors.Lend().value();
  const auto begins_at = [&](std::span<const std::byte> piece) {
    return piece.data() - std::as_bytes(gradient->floats()).data();
  };
  const auto rounded = gradient->Piece(layout.chunks()[0], 1, 2);
  EXPECT_EQ(begins_at(rounded), 2);
  EXPECT_EQ(rounded.size(), 4U);
  const auto whole = gradient->Piece(layout.chunks()[2], 1, 1);
  EXPECT_EQ(begins_at(whole), (layout.chunks()[2].offset + 1) * 4);
  EXPECT_EQ(whole.size(), 4U);
}

TEST(HostTensorsTest, AGradientIsUsedAgainWhenNobodyHoldsItAndNotBefore) {
  HostTensors tensors = HostTensors::Make(RoundedAndWhole(), 1).value();
  auto first = tensors.Lend().value();
  const float* const memory = first->floats().data();
  first.reset();
  first = tensors.Lend().value();
  EXPECT_EQ(first->floats().data(), memory);
  std::ranges::fill(first->floats(), 1.0F);
  const std::shared_ptr<const void> of_a_transport = std::move(first);
  const auto second = tensors.Lend().value();
  std::ranges::fill(second->floats(), 2.0F);
  EXPECT_THAT(std::span(memory, second->floats().size()), Each(1.0F));
  EXPECT_EQ(tensors.gradient_count(), 2U);
}

TEST(HostTensorsTest, WhatIsLentOutlivesTheTensors) {
  std::optional<HostTensors> tensors = HostTensors::Make(RoundedAndWhole(), 1).value();
  const auto gradient = tensors->Lend().value();
  std::ranges::fill(gradient->floats(), 1.0F);
  tensors.reset();
  EXPECT_THAT(gradient->floats(), Each(1.0F));
}

TEST(HostTensorsTest, AFailureToMakeMemoryIsPassedOn) {
  int left = 2;
  const auto make = [&](size_t size_bytes) -> Result<Buffer> {
    if (left-- == 0) {
      return Status::InvalidArgument("no memory");
    }
    return Buffer(size_bytes);
  };
  Result<HostTensors> tensors = HostTensors::Make(RoundedAndWhole(), 1, make);
  ASSERT_TRUE(tensors.ok());
  const auto gradient = tensors->Lend().value();
  EXPECT_EQ(tensors->Lend().status().message(), "no memory");
  left = 1;
  EXPECT_FALSE(HostTensors::Make(RoundedAndWhole(), 1, make).ok());
}

}  // namespace
}  // namespace ps::client
