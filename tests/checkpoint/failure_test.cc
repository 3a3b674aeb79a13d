// What RocksDB says when its files are damaged, gone, out of reach, locked or of a newer version,
// and what is made of it.

#include "checkpoint/storage/failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/storage/rocksdb_files.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "ps/base/crc32c.h"
#include "tests/checkpoint/faulty_files.h"
#include "tests/checkpoint/temporary_path.h"

namespace ps::checkpoint {
namespace {

using ::testing::HasSubstr;

constexpr std::array<std::string_view, 2> kColumns = {"first", "second"};
constexpr std::array<std::string_view, 3> kMoreColumns = {"first", "second", "third"};

/// A database with a small value, which lies in a table, and a large one, in a file of its own.
class FailureTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto database = Open(OpenMode::kWrite);
    ASSERT_TRUE(database.ok()) << database.status();
    const std::vector<std::byte> small(100, std::byte{1});
    const std::vector<std::byte> large(100'000, std::byte{2});
    const std::array<Change, 2> changes = {
        Change{.kind = ChangeKind::kPut, .column = 0, .key = "small", .value = {small}},
        Change{.kind = ChangeKind::kPut, .column = 0, .key = "large", .value = {large}}};
    ASSERT_TRUE((*database)->Write(changes, Durability::kFlush).ok());
    ASSERT_TRUE((*database)->Flush().ok());
  }

  Result<std::unique_ptr<Database>> Open(OpenMode mode) {
    return storage_->Open(directory_, kColumns, mode);
  }

  /// Opens it and reads both values.
  Status Use(OpenMode mode) {
    PS_ASSIGN(const auto database, Open(mode));
    for (const std::string_view key : {"small", "large"}) {
      PS_TRY(database->Read(
          0, key, ReadCheck::kEngine, [](std::string_view, std::span<const std::byte>) {
            return Status::Ok();
          }));
    }
    return Status::Ok();
  }

  /// The only file whose name begins and ends so.
  std::string File(const std::string& begin, const std::string& end) const {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(begin) && name.ends_with(end)) {
        EXPECT_EQ(found, "");
        found = entry.path().string();
      }
    }
    EXPECT_NE(found, "") << begin << "*" << end;
    return found;
  }

  static void Rewrite(const std::string& file, const std::function<void(std::string*)>& change) {
    std::ifstream in(file, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    change(&bytes);
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  }

  TemporaryPath path_;
  std::string directory_ = path_.path() + "/database";
  FaultyFiles files_;
  std::unique_ptr<Storage> storage_ = MakeRocksDbStorage(files_.env());
};

void ExpectDamage(const Status& status) {
  EXPECT_EQ(status.code(), StatusCode::kCorruption) << status;
  EXPECT_TRUE(IsProvedCorrupt(status)) << status;
  EXPECT_TRUE(IsUnusable(status)) << status;
}

void ExpectMissing(const Status& status, StatusCode code) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_FALSE(IsProvedCorrupt(status)) << "it may be put back: " << status;
  EXPECT_TRUE(IsUnusable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("No such file or directory"));
}

void ExpectPassing(const Status& status) {
  EXPECT_EQ(status.code(), StatusCode::kIo) << status;
  EXPECT_FALSE(IsProvedCorrupt(status)) << status;
  EXPECT_FALSE(IsUnusable(status)) << status;
}

void ExpectNewer(const Status& status) {
  EXPECT_EQ(status.code(), StatusCode::kUnsupported) << status;
  EXPECT_FALSE(IsProvedCorrupt(status)) << status;
  EXPECT_TRUE(IsUnusable(status)) << status;
}

TEST_F(FailureTest, AWrongBitIsDamage) {
  Rewrite(File("", ".sst"), [](std::string* bytes) { (*bytes)[20] ^= 1; });
  ExpectDamage(Use(OpenMode::kRead));
}

TEST_F(FailureTest, AWrongBitOfALargeValueIsDamage) {
  Rewrite(File("", ".blob"), [](std::string* bytes) { (*bytes)[50'000] ^= 1; });
  ExpectDamage(Use(OpenMode::kRead));
}

TEST_F(FailureTest, ATableThatIsCutOffIsDamage) {
  Rewrite(File("", ".sst"), [](std::string* bytes) { bytes->resize(bytes->size() / 2); });
  ExpectDamage(Use(OpenMode::kWrite));
  ExpectDamage(Use(OpenMode::kRead));
}

TEST_F(FailureTest, ACurrentFileWithoutAnythingInItIsDamage) {
  Rewrite(directory_ + "/CURRENT", [](std::string* bytes) { bytes->clear(); });
  ExpectDamage(Use(OpenMode::kWrite));
}

TEST_F(FailureTest, AMissingTableMayBePutBack) {
  std::filesystem::remove(File("", ".sst"));
  ExpectMissing(Use(OpenMode::kWrite), StatusCode::kCorruption);
  ExpectMissing(Use(OpenMode::kRead), StatusCode::kIo);
}

TEST_F(FailureTest, AMissingLargeValueMayBePutBack) {
  std::filesystem::remove(File("", ".blob"));
  ExpectMissing(Use(OpenMode::kRead), StatusCode::kIo);
}

TEST_F(FailureTest, AMissingListOfTablesMayBePutBack) {
  std::filesystem::remove(File("MANIFEST", ""));
  ExpectMissing(Use(OpenMode::kWrite), StatusCode::kIo);
}

/// Reading this file gives EIO.
TEST_F(FailureTest, ADiskThatGivesNoAnswerIsNoDamage) {
  std::filesystem::remove(directory_ + "/CURRENT");
  std::filesystem::create_symlink("/proc/self/mem", directory_ + "/CURRENT");
  for (const OpenMode mode : {OpenMode::kWrite, OpenMode::kRead}) {
    const Status status = Use(mode);
    ExpectPassing(status);
    EXPECT_THAT(std::string(status.message()), HasSubstr("Input/output error"));
  }
}

// Before, the process ended: std::filesystem::exists throws where the system can't say.
TEST_F(FailureTest, AFolderThatCannotBeLookedAtIsNoDamage) {
  std::filesystem::remove(directory_ + "/CURRENT");
  std::filesystem::create_symlink("CURRENT", directory_ + "/CURRENT");
  for (const OpenMode mode : {OpenMode::kWrite, OpenMode::kRead}) {
    const Status status = Use(mode);
    ExpectPassing(status);
    EXPECT_THAT(std::string(status.message()), HasSubstr("Too many levels of symbolic links"));
  }
  const Status linked = LinkDatabase(directory_, directory_ + ".link");
  EXPECT_EQ(linked.code(), StatusCode::kIo) << linked;
}

/// Wherever the process runs out of them.
TEST_F(FailureTest, TooManyOpenFilesAreNoDamage) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto open = static_cast<rlim_t>(std::distance(
      std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
  int failures = 0;
  for (const OpenMode mode : {OpenMode::kWrite, OpenMode::kRead}) {
    for (rlim_t more = 0; more < 16; ++more) {
      rlimit few = before;
      few.rlim_cur = open + more;
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
      const Status status = Use(mode);
      ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
      if (!status.ok()) {
        ++failures;
        ExpectPassing(status);
      }
    }
    const Status again = Use(mode);
    EXPECT_TRUE(again.ok()) << again;
  }
  EXPECT_GT(failures, 2);
}

TEST_F(FailureTest, AFullDiskIsNoDamage) {
  files_.SetSpace(10);
  ExpectPassing(Use(OpenMode::kWrite));
}

TEST_F(FailureTest, ALockIsNoDamage) {
  const auto holder = Open(OpenMode::kWrite);
  ASSERT_TRUE(holder.ok()) << holder.status();
  const Status status = Use(OpenMode::kWrite);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_FALSE(IsProvedCorrupt(status));
  EXPECT_FALSE(IsUnusable(status));
}

TEST_F(FailureTest, AColumnOfANewerProgramIsNoDamage) {
  ASSERT_TRUE(storage_->Open(directory_, kMoreColumns, OpenMode::kWrite).ok());
  ExpectNewer(Use(OpenMode::kWrite));
  const Status read = Use(OpenMode::kRead);
  EXPECT_TRUE(read.ok()) << read;
}

TEST_F(FailureTest, ATableOfANewerRocksDbIsNoDamage) {
  Rewrite(File("", ".sst"), [](std::string* bytes) { (*bytes)[bytes->size() - 12] = 99; });
  ExpectNewer(Use(OpenMode::kWrite));
  ExpectNewer(Use(OpenMode::kRead));
}

TEST_F(FailureTest, ALargeValueOfANewerRocksDbIsNoDamage) {
  Rewrite(File("", ".blob"), [](std::string* bytes) { (*bytes)[4] = 99; });
  ExpectNewer(Use(OpenMode::kRead));
}

/// A record with a tag that this RocksDB does not know, as in a log: masked CRC-32C of type and
/// text, length, type, text.
TEST_F(FailureTest, AListOfTablesOfANewerRocksDbIsNoDamage) {
  const std::string record = "\x01\x96\x01";  // a whole record, tag 150
  const uint32_t crc = Crc32c(std::as_bytes(std::span(record)));
  const uint32_t masked = ((crc >> 15U) | (crc << 17U)) + 0xa282ead8U;
  Rewrite(File("MANIFEST", ""), [&](std::string* bytes) {
    bytes->append(reinterpret_cast<const char*>(&masked), 4);
    bytes->append(std::string("\x02\x00", 2) + record);
  });
  ExpectNewer(Use(OpenMode::kWrite));
}

}  // namespace
}  // namespace ps::checkpoint
