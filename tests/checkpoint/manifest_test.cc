#include "checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/checkpoint/samples.h"

namespace ps::checkpoint {
namespace {

using ::testing::HasSubstr;

TEST(ManifestTest, WhatIsEncodedIsDecoded) {
  const Manifest manifest = SampleManifest();
  const auto decoded = DecodeManifest(7, EncodeManifest(manifest));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, manifest);
}

TEST(ManifestTest, StatsAddUpOverParts) {
  const WriteStats total = TotalStats(SampleManifest());
  EXPECT_EQ(total.logical_bytes, 1101U);
  EXPECT_EQ(total.chunks_written, 4U);
}

TEST(ManifestTest, EveryFlippedBitIsFound) {
  std::vector<std::byte> bytes = EncodeManifest(SampleManifest());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const std::byte mask = std::byte{1} << (bit % 8);
    bytes[bit / 8] ^= mask;
    EXPECT_FALSE(DecodeManifest(7, bytes).ok()) << "bit " << bit;
    bytes[bit / 8] ^= mask;
  }
}

TEST(ManifestTest, EveryTruncationIsFound) {
  const std::vector<std::byte> bytes = EncodeManifest(SampleManifest());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = DecodeManifest(7, std::span(bytes).first(size));
    EXPECT_EQ(decoded.status().code(), StatusCode::kCorruption) << size;
  }
}

TEST(ManifestTest, ANewerFormatIsToldFromDamage) {
  std::vector<std::byte> bytes = EncodeManifest(SampleManifest());
  bytes[6] = std::byte{2};
  const Status status = DecodeManifest(7, bytes).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("its format is 2"));
}

TEST(ManifestTest, OneOfAnotherCheckpointIsRefused) {
  EXPECT_EQ(
      DecodeManifest(8, EncodeManifest(SampleManifest())).status().code(), StatusCode::kCorruption);
}

TEST(ManifestTest, WhatContradictsItselfIsSaid) {
  struct Case {
    std::string said;
    std::function<void(Manifest&)> spoil;
  };

  const std::vector<Case> cases = {
      {"conv1.weight has an impossible shape",
       [](Manifest& m) {
         m.tensors[0].shape = {4, -3};
       }},
      {"conv1.weight has an impossible shape",
       [](Manifest& m) {
         m.tensors[0].shape = {int64_t{1} << 40, int64_t{1} << 40};
       }},
      {"conv1.weight do not cover", [](Manifest& m) { m.chunks[1].begin = 7; }},
      {"conv1.weight do not cover", [](Manifest& m) { m.chunks[1].count = 5; }},
      {"conv1.weight do not cover", [](Manifest& m) { m.chunks[1].key = m.chunks[0].key; }},
      {"conv1.bias do not cover", [](Manifest& m) { m.chunks.pop_back(); }},
      {"tensor that is not in the model",
       [](Manifest& m) {
         m.chunks.push_back({.key = MakeChunkKey(9, 0), .begin = 0, .count = 1, .shard = {}});
       }},
      {"on shard 5, which has no part", [](Manifest& m) { m.chunks[0].shard = ShardId(5); }},
      {"order of their shards", [](Manifest& m) { m.parts[1].shard = ShardId(0); }},
      {"no plain name", [](Manifest& m) { m.parts[0].directory = "../../etc"; }},
      {"no plain name", [](Manifest& m) { m.parts[0].directory = ""; }},
      {"no plain name", [](Manifest& m) { m.parts[0].directory = ".."; }},
  };
  for (const Case& test : cases) {
    Manifest manifest = SampleManifest();
    test.spoil(manifest);
    const Status status = CheckManifest(manifest);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << test.said;
    EXPECT_THAT(status.message(), HasSubstr(test.said));
  }
}

}  // namespace
}  // namespace ps::checkpoint
