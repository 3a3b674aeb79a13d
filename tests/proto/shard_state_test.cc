#include "ps/proto/state/shard_state.h"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "ps/base/file.h"

namespace ps::proto {
namespace {

/// A state as the program of the version before wrote it: one that has no lr_factor.
std::vector<std::byte> SavedBefore() {
  const Result<std::string> file = ReadFile("tests/data/shard_state/v2.bin");
  EXPECT_TRUE(file.ok()) << file.status();
  if (!file.ok()) {
    return {};
  }
  const auto bytes = std::as_bytes(std::span(*file));
  return {bytes.begin(), bytes.end()};
}

TEST(ShardStateTest, AStateOfTheProgramBeforeIsRead) {
  const Result<ShardState> back = DecodeShardState(SavedBefore());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->round, 7U);
  EXPECT_EQ(back->samples_done, 1234U);
  EXPECT_EQ(back->lr_factor, 0) << "as before the first step";
  ASSERT_EQ(back->members.size(), 1U);
  EXPECT_EQ(back->members[0].incarnation, Incarnation(3));
  EXPECT_EQ(back->members[0].last_step, 9U);
  EXPECT_EQ(back->members[0].applied, std::vector<ChunkKey>{ChunkKey(1)});
}

TEST(ShardStateTest, OlderAndNewerOnesAreRefusedByTheirVersion) {
  const std::vector<std::byte> saved = SavedBefore();
  const uint32_t before = kShardStateVersion - 1;
  for (const uint32_t version : {before - 1, kShardStateVersion + 1}) {
    size_t refused = 0;
    for (size_t at = 0; at + sizeof version <= saved.size(); at += sizeof version) {
      std::vector<std::byte> other = saved;  // wherever its version is
      if (std::memcmp(other.data() + at, &before, sizeof before) == 0) {
        std::memcpy(other.data() + at, &version, sizeof version);
        const Status status = DecodeShardState(other).status();
        refused += status.code() == StatusCode::kUnsupported ? 1 : 0;
      }
    }
    EXPECT_EQ(refused, 1U) << version;
  }
}

}  // namespace
}  // namespace ps::proto
