#include "ps/proto/chunks.h"

#include <gtest/gtest.h>

namespace ps::proto {
namespace {

TEST(ChunkPartsTest, PartsCoverAChunkInOrderAndAreToldByTheirElements) {
  for (const uint64_t frame_bytes : {1U, 4U, 12U, 13U, 40U}) {
    const ChunkParts parts(frame_bytes);
    for (const uint64_t elements : {1U, 2U, 3U, 4U, 9U, 10U, 11U}) {
      uint64_t next = 0;
      for (uint32_t i = 0; i < parts.CountOf(elements); ++i) {
        const ChunkParts::Range range = parts.At(elements, i);
        ASSERT_EQ(range.element_begin, next);
        ASSERT_GT(range.element_count, 0U);
        ASSERT_LE(range.element_count * sizeof(float), std::max<uint64_t>(frame_bytes, 4));
        ASSERT_EQ(parts.IndexOf(elements, range), i);
        next += range.element_count;
      }
      ASSERT_EQ(next, elements);
    }
  }
}

TEST(ChunkPartsTest, OtherRangesAreNoParts) {
  const ChunkParts parts(16);  // 4 elements
  for (uint32_t begin = 0; begin < 20; ++begin) {
    for (uint32_t count = 0; count < 20; ++count) {
      const bool is_part =
          (begin == 0 && count == 4) || (begin == 4 && count == 4) || (begin == 8 && count == 1);
      EXPECT_EQ(parts.IndexOf(9, {begin, count}).has_value(), is_part) << begin << " " << count;
    }
  }
  EXPECT_FALSE(parts.IndexOf(9, {UINT32_MAX - 3, 4}).has_value());
}

TEST(ChunkPartsTest, ChunksBeyondFourGigabytesAreCutToo) {
  const ChunkParts parts(uint64_t{32} << 20);
  constexpr uint64_t kElements = UINT32_MAX;
  const uint32_t last = parts.CountOf(kElements) - 1;
  EXPECT_EQ(last, 511U);
  EXPECT_EQ(parts.At(kElements, last).element_count, (8U << 20) - 1);
  EXPECT_EQ(parts.IndexOf(kElements, parts.At(kElements, last)), last);
}

TensorSpec Vector(int64_t elements) {
  TensorSpec tensor;
  tensor.shape = {elements};
  return tensor;
}

TEST(ChunksTest, TensorsAreCutInOrderAndCoveredInFull) {
  const std::vector<TensorSpec> tensors = {Vector(10), Vector(8), Vector(1)};
  Placement placement;
  placement.chunks = CutIntoChunks(tensors, 16);
  ASSERT_EQ(placement.chunks.size(), 6U);
  EXPECT_EQ(placement.chunks[2].key, MakeChunkKey(0, 2));
  EXPECT_EQ(placement.chunks[2].element_begin, 8);
  EXPECT_EQ(placement.chunks[2].element_count, 2U);
  EXPECT_EQ(ChunkCountOf(10, 16), 3U);
  EXPECT_EQ(ChunkCountOf(8, 16), 2U);
  EXPECT_EQ(ChunkCountOf(1, 16), 1U);
  const std::vector<int64_t> elements = {10, 8, 1};
  EXPECT_TRUE(CheckPlacement(placement, elements).ok());
  for (size_t missing = 0; missing < placement.chunks.size(); ++missing) {
    Placement rest = placement;
    rest.chunks.erase(rest.chunks.begin() + static_cast<int64_t>(missing));
    EXPECT_FALSE(CheckPlacement(rest, elements).ok()) << missing;
    EXPECT_TRUE(CheckChunks(rest, elements).ok()) << missing;
  }
  placement.chunks[1].element_begin = 3;
  EXPECT_FALSE(CheckChunks(placement, elements).ok()) << "it overlaps the first";
}

TEST(ChunksTest, TensorsOfALayoutBeginAligned) {
  const TensorLayout layout(std::vector<int64_t>{10, 5, 16, 1});
  EXPECT_EQ(layout.OffsetOf(0), 0);
  EXPECT_EQ(layout.OffsetOf(1), 16);
  EXPECT_EQ(layout.OffsetOf(2), 32);
  EXPECT_EQ(layout.OffsetOf(3), 48);
  EXPECT_EQ(layout.element_count(), 64);
}

}  // namespace
}  // namespace ps::proto
