// The bytes that FORMAT.md promises, as files.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/chunk_codec.h"
#include "checkpoint/chunk_record.h"
#include "checkpoint/envelope.h"
#include "checkpoint/keys.h"
#include "checkpoint/manifest.h"
#include "checkpoint/part.h"
#include "ps/base/crc32c.h"
#include "ps/base/file.h"
#include "tests/checkpoint/samples.h"

namespace ps::checkpoint {
namespace {

using Bytes = std::vector<std::byte>;

Bytes Golden(const std::string& name) {
  const Result<std::string> text = ReadFile("tests/data/checkpoint/" + name);
  EXPECT_TRUE(text.ok()) << text.status();
  if (!text.ok()) {
    return {};
  }
  const auto bytes = std::as_bytes(std::span(*text));
  return {bytes.begin(), bytes.end()};
}

/// Leaves the actual bytes in the temporary folder when they are others.
void ExpectGolden(const std::string& name, const Bytes& bytes) {
  ASSERT_EQ(NewestFormat(RecordKind::kChunk), 2) << "a new version gets golden files of its own";
  if (Golden(name) != bytes) {
    const std::string actual = testing::TempDir() + name;
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const Status written = WriteFileAtomically(actual, text);
    ADD_FAILURE() << "the bytes of " << name << " changed; " << actual << " has them: " << written;
  }
}

TEST(FormatTest, AManifestHasItsGoldenBytes) {
  ExpectGolden("manifest-1.bin", EncodeManifest(SampleManifest()));
  const auto manifest = DecodeManifest(7, Golden("manifest-1.bin"));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(*manifest, SampleManifest());
}

TEST(FormatTest, APartHasItsGoldenBytes) {
  ExpectGolden("part-1.bin", EncodePart(7, SamplePart()));
  const auto part = DecodePart(7, Golden("part-1.bin"));
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(*part, SamplePart());
}

TEST(FormatTest, AChunkRecordHasItsGoldenBytes) {
  ExpectGolden("chunk-raw-1.bin", SampleChunkRecord());
}

TEST(FormatTest, AChunkRecordWithBf16SlotsHasItsGoldenBytes) {
  ExpectGolden("chunk-bf16-2.bin", SampleBf16Record());
  const Bytes record = Golden("chunk-bf16-2.bin");
  const auto view = ViewChunkRecord(MakeChunkKey(1, 2), 7, record);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->head.encodings[0], Encoding::kRaw);
  EXPECT_EQ(view->head.encodings[1], Encoding::kBf16);
}

/// The compressed bytes themselves are zstd's to choose.
TEST(FormatTest, ACompressedChunkRecordIsRead) {
  const Bytes record = Golden("chunk-zstd-1.bin");
  const auto view = ViewChunkRecord(MakeChunkKey(1, 2), 9, record);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->head.previous, 7U);
  EXPECT_EQ(view->head.depth, 1U);
  ASSERT_EQ(view->head.buffer_count, 2U);
  EXPECT_EQ(view->head.encodings[0], Encoding::kDelta);
  EXPECT_EQ(view->head.encodings[1], Encoding::kPlain);

  ChunkCodec codec;
  std::vector<float> value = SampleValues(0);
  std::vector<float> slot(value.size());
  const Status first = codec.Decode(
      view->head.encodings[0], view->stored[0], std::as_writable_bytes(std::span(value)));
  const Status second = codec.Decode(
      view->head.encodings[1], view->stored[1], std::as_writable_bytes(std::span(slot)));
  ASSERT_TRUE(first.ok() && second.ok()) << first << second;
  EXPECT_EQ(value, SampleValues(1));
  EXPECT_EQ(slot, std::vector<float>(value.size(), 0.5F));
  EXPECT_EQ(
      Crc32c(std::as_bytes(std::span(slot)), Crc32c(std::as_bytes(std::span(value)))),
      view->head.crc);
}

TEST(FormatTest, ACompressedChunkRecordIsWrittenInTheSameWay) {
  const Bytes record = SampleDeltaRecord();
  const auto view = ViewChunkRecord(MakeChunkKey(1, 2), 9, record);
  const Bytes golden = Golden("chunk-zstd-1.bin");
  const auto golden_view = ViewChunkRecord(MakeChunkKey(1, 2), 9, golden);
  ASSERT_TRUE(view.ok() && golden_view.ok());
  EXPECT_EQ(view->head.encodings, golden_view->head.encodings);
  EXPECT_EQ(view->head.crc, golden_view->head.crc);
}

TEST(FormatTest, KeysSortByChunkAndThenNewestFirst) {
  const std::string key = MakeRecordKey(MakeChunkKey(1, 2), 7);
  EXPECT_EQ(
      key, std::string("\x00\x00\x00\x01\x00\x00\x00\x02\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xF8", 16));
  EXPECT_LT(MakeRecordKey(MakeChunkKey(1, 2), 8), key);
  EXPECT_LT(key, MakeRecordKey(MakeChunkKey(1, 3), 900));
  EXPECT_LT(MakeIdKey(255), MakeIdKey(256));
  EXPECT_EQ(ParseRecordKey(key).id, 7U);
  EXPECT_EQ(ParseRecordKey(key).key, MakeChunkKey(1, 2));
}

TEST(FormatTest, EveryFlippedBitOfAPartIsFound) {
  Bytes bytes = EncodePart(7, SamplePart());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const std::byte mask = std::byte{1} << (bit % 8);
    bytes[bit / 8] ^= mask;
    EXPECT_FALSE(DecodePart(7, bytes).ok()) << "bit " << bit;
    bytes[bit / 8] ^= mask;
  }
}

TEST(FormatTest, EveryFlippedBitOfAChunksHeadIsFound) {
  Bytes bytes = SampleChunkRecord();
  ASSERT_TRUE(ViewChunkRecord(MakeChunkKey(1, 2), 7, bytes).ok());
  for (size_t bit = 0; bit < kChunkHeadBytes * 8; ++bit) {
    const std::byte mask = std::byte{1} << (bit % 8);
    bytes[bit / 8] ^= mask;
    EXPECT_FALSE(ViewChunkRecord(MakeChunkKey(1, 2), 7, bytes).ok()) << "bit " << bit;
    bytes[bit / 8] ^= mask;
  }
}

TEST(FormatTest, NewerRecordsAreToldFromDamage) {
  Bytes part = EncodePart(7, SamplePart());
  Bytes chunk = SampleChunkRecord();
  part[6] = std::byte{2};
  chunk[6] = std::byte{3};
  EXPECT_EQ(DecodePart(7, part).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(
      ViewChunkRecord(MakeChunkKey(1, 2), 7, chunk).status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace ps::checkpoint
