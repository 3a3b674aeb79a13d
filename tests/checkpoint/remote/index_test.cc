#include "checkpoint/remote/index.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "ps/crypto/sha256.h"

namespace ps::checkpoint {
namespace {

CopyIndex SampleIndex() {
  CopyIndex index;
  index.id = 7;
  index.manifest = {std::byte{1}, std::byte{2}};
  Piece piece{.digest = crypto::Sha256Of({}), .bytes = 9};
  index.databases.push_back(
      {.directory = "shard-0",
       .files = {{.name = "CURRENT", .pieces = {piece}}, {.name = "empty", .pieces = {}}}});
  return index;
}

TEST(CopyIndexTest, WhatWasEncodedIsDecoded) {
  EXPECT_EQ(*DecodeIndex(7, EncodeIndex(SampleIndex())), SampleIndex());
  EXPECT_EQ(IndexKey(7), "checkpoints/00000000000000000007");
  EXPECT_EQ(ParseIndexKey(IndexKey(7)), 7U);
  EXPECT_EQ(ParseIndexKey("checkpoints/7"), 0U);
  EXPECT_EQ(ParseIndexKey("writer"), 0U);
}

// Of the bytes that a program of its own, written after FORMAT.md, makes of the same index.
TEST(CopyIndexTest, TheBytesAreThoseOfTheFormat) {
  const std::vector<std::byte> bytes = EncodeIndex(SampleIndex());
  EXPECT_EQ(bytes.size(), 113U);
  EXPECT_EQ(
      crypto::HexOf(crypto::Sha256Of(bytes)),
      "a478a07ae6b990356addddab1b2cd1ab400a6d7452b6dab316fb5ce3a85fcdf5");
}

TEST(CopyIndexTest, EveryDamageIsFound) {
  const std::vector<std::byte> whole = EncodeIndex(SampleIndex());
  for (size_t i = 0; i < whole.size(); ++i) {
    std::vector<std::byte> flipped = whole;
    flipped[i] ^= std::byte{16};
    EXPECT_FALSE(DecodeIndex(7, flipped).ok()) << i;
    EXPECT_FALSE(DecodeIndex(7, std::span(whole).first(i)).ok()) << i;
  }
  EXPECT_EQ(DecodeIndex(8, whole).status().code(), StatusCode::kCorruption);
}

TEST(CopyIndexTest, NamesThatLeadElsewhereAreDamage) {
  for (const char* const name : {"", "..", ".hidden", "a/b", "/etc/passwd", "a b", "a\nb"}) {
    CopyIndex file = SampleIndex();
    file.databases[0].files[0].name = name;
    EXPECT_FALSE(DecodeIndex(7, EncodeIndex(file)).ok()) << name;
    CopyIndex directory = SampleIndex();
    directory.databases[0].directory = name;
    EXPECT_FALSE(DecodeIndex(7, EncodeIndex(directory)).ok()) << name;
  }
}

}  // namespace
}  // namespace ps::checkpoint
