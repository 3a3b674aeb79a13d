// RocksDB linked into the program, as from a static library: its checksum function is defined once
// more. That this links is the test; what has it built for its machine is to use that.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <vector>

#include "checkpoint/storage/rocksdb_storage.h"
#include "ps/base/crc32c.h"
#include "tests/checkpoint/temporary_path.h"

namespace {

std::atomic<int> calls = 0;

}  // namespace

namespace rocksdb::crc32c {

uint32_t Extend(uint32_t crc, const char* data, size_t bytes);

/// Stands for the definition of a static library.
uint32_t Extend(uint32_t crc, const char* data, size_t bytes) {
  ++calls;
  return ps::Crc32c(std::as_bytes(std::span(data, bytes)), crc);
}

}  // namespace rocksdb::crc32c

namespace ps::checkpoint {
namespace {

constexpr std::array<std::string_view, 1> kColumns = {"values"};

TEST(LinkedInTest, TheLibrarysOwnChecksumIsTaken) {
  const TemporaryPath path;
  const auto storage = MakeRocksDbStorage();
  const auto database = storage->Open(path.path(), kColumns, OpenMode::kWrite);
  ASSERT_TRUE(database.ok()) << database.status();
  const std::vector<std::byte> large(100'000, std::byte{2});
  const Change change{.kind = ChangeKind::kPut, .column = 0, .key = "large", .value = {large}};
  ASSERT_TRUE((*database)->Write({&change, 1}, Durability::kFlush).ok());
  ASSERT_TRUE((*database)->Flush().ok());
  EXPECT_GT(calls, 0);
}

}  // namespace
}  // namespace ps::checkpoint
