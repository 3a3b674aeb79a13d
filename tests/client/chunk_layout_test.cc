#include "ps/client/chunk_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ps::client {
namespace {

using ::testing::HasSubstr;

proto::Placement TwoTensors() {
  return {
      1,
      {{MakeChunkKey(0, 0), 8, 0, ShardId(0)},
       {MakeChunkKey(0, 1), 2, 8, ShardId(1)},
       {MakeChunkKey(1, 0), 5, 0, ShardId(0)}}};
}

TEST(ChunkLayoutTest, TensorsStartAlignedAndChunksFollowEachOther) {
  const auto layout = ChunkLayout::Make({10, 5}, TwoTensors());
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->tensor_count(), 2U);
  EXPECT_EQ(layout->element_count(), 32);
  ASSERT_EQ(layout->chunks().size(), 3U);
  EXPECT_EQ(layout->chunks()[0].offset, 0);
  EXPECT_EQ(layout->chunks()[1].offset, 8);
  EXPECT_EQ(layout->chunks()[2].offset, 16);
}

struct BadPlacement {
  const char* name;
  std::vector<int64_t> tensors;
  proto::Placement placement;
  const char* message;
};

class BadPlacementTest : public ::testing::TestWithParam<BadPlacement> {};

TEST_P(BadPlacementTest, IsRefusedWithItsReason) {
  const auto layout = ChunkLayout::Make(GetParam().tensors, GetParam().placement);
  ASSERT_FALSE(layout.ok());
  EXPECT_EQ(layout.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(layout.status().message()), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All,
    BadPlacementTest,
    ::testing::Values(
        BadPlacement{"UnknownTensor", {10}, TwoTensors(), "there are 1 tensors"},
        BadPlacement{
            "TooLong", {9, 5}, TwoTensors(), "chunk 1 is 2 elements from 8 on, behind 8 of 9"},
        BadPlacement{"TooShort", {11, 5}, TwoTensors(), "only 10 of 11"},
        BadPlacement{"Gap", {10}, {1, {{MakeChunkKey(0, 0), 8, 2, ShardId(0)}}}, "only 8 of 10"},
        BadPlacement{
            "OutOfOrder",
            {2, 2},
            {1, {{MakeChunkKey(1, 0), 2, 0, ShardId(0)}, {MakeChunkKey(0, 0), 2, 0, ShardId(0)}}},
            "out of order"}),
    [](const auto& entry) { return std::string(entry.param.name); });

TEST(ChunkLayoutTest, ARoundedGradientIsInTheFirstHalfOfItsPlace) {
  const std::vector<codec::Encoding> encodings = {
      {codec::EncodingKind::kBf16}, {codec::EncodingKind::kF32}};
  const auto layout = ChunkLayout::Make({10, 5}, TwoTensors(), encodings).value();
  const std::vector<ChunkLayout::Chunk>& chunks = layout.chunks();
  EXPECT_EQ(chunks[1].offset, 8) << "parameters are f32";
  EXPECT_EQ(chunks[0].gradient_begin, 0U);
  EXPECT_EQ(chunks[1].gradient_begin, 16U);
  EXPECT_EQ(chunks[1].encoding.kind, codec::EncodingKind::kBf16);
  EXPECT_EQ(chunks[2].gradient_begin, 64U);
  EXPECT_EQ(chunks[2].encoding.kind, codec::EncodingKind::kF32);
}

}  // namespace
}  // namespace ps::client
