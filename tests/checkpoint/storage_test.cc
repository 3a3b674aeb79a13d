// What every storage engine does, for each of them.

#include "checkpoint/storage/storage.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tests/checkpoint/engines.h"
#include "tests/checkpoint/memory_storage.h"

namespace ps::checkpoint {
namespace {

constexpr std::array<std::string_view, 2> kColumnNames = {"zero", "one"};

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

Change Put(std::string_view key, std::string_view value, Column column = 0) {
  return {.kind = ChangeKind::kPut, .column = column, .key = key, .value = {BytesOf(value)}};
}

Change Erase(std::string_view key, ChangeKind kind = ChangeKind::kErase) {
  return {.kind = kind, .column = 0, .key = key, .value = {}};
}

/// "a=1 b=2 ": everything in a column whose key begins with `prefix`.
std::string Contents(Database& database, Column column = 0, std::string_view prefix = "") {
  std::string text;
  const Status status =
      database.Scan(column, prefix, [&](std::string_view key, std::span<const std::byte> value) {
        text.append(key).append("=");
        text.append(reinterpret_cast<const char*>(value.data()), value.size()).append(" ");
        return Status::Ok();
      });
  return status.ok() ? text : status.ToString();
}

class StorageTest : public testing::TestWithParam<const Engine*> {
 protected:
  std::unique_ptr<Database> Open(OpenMode mode = OpenMode::kWrite) {
    auto database = engine_->storage().Open(directory(), kColumnNames, mode);
    EXPECT_TRUE(database.ok()) << database.status();
    return database.ok() ? std::move(database).value() : nullptr;
  }

  std::string directory() const { return engine_->path() + "/p/shard-0"; }

  std::unique_ptr<EngineUnderTest> engine_ = GetParam()->make();
};

TEST_P(StorageTest, WrittenPairsAreScannedByKeyAndPrefix) {
  const auto database = Open();
  const std::vector<Change> changes = {Put("b1", "2"), Put("a", "1"), Put("b0", "3"), Put("c", "")};
  ASSERT_TRUE(database->Write(changes, Durability::kLogged).ok());
  EXPECT_EQ(Contents(*database), "a=1 b0=3 b1=2 c= ");
  EXPECT_EQ(Contents(*database, 0, "b"), "b0=3 b1=2 ");
}

TEST_P(StorageTest, ColumnsHaveKeysOfTheirOwn) {
  const auto database = Open();
  const std::vector<Change> changes = {Put("k", "zero", 0), Put("k", "one", 1)};
  ASSERT_TRUE(database->Write(changes, Durability::kFlush).ok());
  EXPECT_EQ(Contents(*database, 0), "k=zero ");
  EXPECT_EQ(Contents(*database, 1), "k=one ");
}

TEST_P(StorageTest, AValueIsItsPartsOneAfterAnother) {
  const auto database = Open();
  const std::string large(100'000, 'x');
  Change change = Put("k", "head ");
  change.value.push_back(BytesOf(large));
  change.value.push_back(BytesOf(" tail"));
  ASSERT_TRUE(database->Write({&change, 1}, Durability::kFlush).ok());
  EXPECT_EQ(Contents(*database), "k=head " + large + " tail ");
}

TEST_P(StorageTest, ChangesOfABatchHappenInOrder) {
  const auto database = Open();
  const std::vector<Change> first = {Put("a1", "1"), Put("a2", "2"), Put("b", "3")};
  ASSERT_TRUE(database->Write(first, Durability::kLogged).ok());
  const std::vector<Change> second = {
      Erase("a", ChangeKind::kErasePrefix), Put("a2", "new"), Put("b", "gone"), Erase("b")};
  ASSERT_TRUE(database->Write(second, Durability::kLogged).ok());
  EXPECT_EQ(Contents(*database), "a2=new ");
}

TEST_P(StorageTest, APrefixOfHighestBytesIsErasedToTheEnd) {
  const auto database = Open();
  const std::vector<Change> first = {Put("\xFE", "1"), Put("\xFF\xFF", "2"), Put("\xFF\xFFz", "3")};
  ASSERT_TRUE(database->Write(first, Durability::kLogged).ok());
  const Change erase = Erase("\xFF\xFF", ChangeKind::kErasePrefix);
  ASSERT_TRUE(database->Write({&erase, 1}, Durability::kLogged).ok());
  EXPECT_EQ(Contents(*database), "\xFE=1 ");
}

TEST_P(StorageTest, ATooLongKeyIsRefused) {
  const auto database = Open();
  const std::string key(kKeyBytesMax + 1, 'k');
  const std::vector<Change> changes = {Put("a", "1"), Put(key, "2")};
  EXPECT_EQ(database->Write(changes, Durability::kLogged).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Contents(*database), "");
}

TEST_P(StorageTest, AMissingKeyIsNotFound) {
  const auto database = Open();
  const auto visit = [](std::string_view, std::span<const std::byte>) { return Status::Ok(); };
  for (const ReadCheck check : {ReadCheck::kEngine, ReadCheck::kCaller}) {
    EXPECT_EQ(database->Read(0, "k", check, visit).code(), StatusCode::kNotFound);
  }
}

TEST_P(StorageTest, TheVisitorsFailureEndsReadingAndScanning) {
  const auto database = Open();
  const std::vector<Change> changes = {Put("a", "1"), Put("b", "2")};
  ASSERT_TRUE(database->Write(changes, Durability::kLogged).ok());
  int visits = 0;
  const auto refuse = [&](std::string_view, std::span<const std::byte>) {
    ++visits;
    return Status::Stale("enough");
  };
  EXPECT_EQ(database->Read(0, "a", ReadCheck::kEngine, refuse).code(), StatusCode::kStale);
  EXPECT_EQ(database->Scan(0, "", refuse).code(), StatusCode::kStale);
  EXPECT_EQ(visits, 2);
}

TEST_P(StorageTest, FlushedLoggedAndSyncedWritesOutliveTheDatabase) {
  auto database = Open();
  const Change flushed = Put("flushed", "1");
  const Change logged = Put("logged", "2", 1);
  const Change synced = Put("synced", "3", 1);
  ASSERT_TRUE(database->Write({&flushed, 1}, Durability::kFlush).ok());
  ASSERT_TRUE(database->Flush().ok());
  ASSERT_TRUE(database->Write({&logged, 1}, Durability::kLogged).ok());
  ASSERT_TRUE(database->Write({&synced, 1}, Durability::kSynced).ok());
  database.reset();
  database = Open();
  EXPECT_EQ(Contents(*database, 0), "flushed=1 ");
  EXPECT_EQ(Contents(*database, 1), "logged=2 synced=3 ");
}

TEST_P(StorageTest, AWriterKeepsTheSecondOneOut) {
  auto database = Open();
  const auto second = engine_->storage().Open(directory(), kColumnNames, OpenMode::kWrite);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find(directory() + " is in use by"), std::string::npos)
      << second.status();
  database.reset();
  EXPECT_NE(Open(), nullptr);
}

TEST_P(StorageTest, AReaderSeesWhatWasFlushedBesideAWriter) {
  const auto writer = Open();
  const Change first = Put("a", "1");
  const Change second = Put("b", "2");
  ASSERT_TRUE(writer->Write({&first, 1}, Durability::kFlush).ok());
  ASSERT_TRUE(writer->Flush().ok());
  ASSERT_TRUE(writer->Write({&second, 1}, Durability::kFlush).ok());
  const auto reader = Open(OpenMode::kRead);
  ASSERT_NE(reader, nullptr);
  EXPECT_EQ(Contents(*reader), "a=1 ");
  EXPECT_EQ(reader->Write({&first, 1}, Durability::kFlush).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(reader->Flush().code(), StatusCode::kInvalidArgument);
}

TEST_P(StorageTest, NothingToReadIsNotFound) {
  const auto reader = engine_->storage().Open(directory(), kColumnNames, OpenMode::kRead);
  ASSERT_FALSE(reader.ok());
  EXPECT_EQ(reader.status().code(), StatusCode::kNotFound);
  EXPECT_NE(reader.status().message().find(directory()), std::string::npos) << reader.status();
}

TEST_P(StorageTest, PruneRemovesWhatIsNotKeptFromOneColumn) {
  auto database = Open();
  for (const std::string_view key : {"a", "b", "c"}) {
    const std::vector<Change> changes = {Put(key, "0", 0), Put(key, "1", 1)};
    ASSERT_TRUE(database->Write(changes, Durability::kFlush).ok());
    ASSERT_TRUE(database->Flush().ok());
  }
  ASSERT_TRUE(database->Prune(0, [](std::string_view key) { return key != "b"; }).ok());
  database.reset();
  database = Open();
  EXPECT_EQ(Contents(*database, 0), "a=0 c=0 ");
  EXPECT_EQ(Contents(*database, 1), "a=1 b=1 c=1 ");
}

TEST_P(StorageTest, DirectoriesAreListedAndRemoved) {
  for (const std::string name : {"shard-1", "job", "shard-0"}) {
    ASSERT_TRUE(engine_->storage()
                    .Open(engine_->path() + "/p/" + name, kColumnNames, OpenMode::kWrite)
                    .ok());
  }
  const std::string path = engine_->path() + "/p";
  EXPECT_EQ(
      *engine_->storage().List(path), (std::vector<std::string>{"job", "shard-0", "shard-1"}));
  {
    const auto writer = Open();
    EXPECT_EQ(engine_->storage().Remove(directory()).code(), StatusCode::kUnavailable);
  }
  ASSERT_TRUE(engine_->storage().Remove(directory()).ok());
  EXPECT_EQ(*engine_->storage().List(path), (std::vector<std::string>{"job", "shard-1"}));
  EXPECT_EQ(*engine_->storage().List(path + "/none"), std::vector<std::string>());
}

TEST_P(StorageTest, AMarkIsReplacedAndOutlivesTheDatabase) {
  Open();
  const std::string longest(Mark::kBytesMax, 'x');
  for (const std::string& text : {std::string("whole 17"), longest, std::string("behind")}) {
    const auto mark = engine_->storage().OpenMark(directory());
    ASSERT_TRUE(mark.ok()) << mark.status();
    ASSERT_TRUE((*mark)->Write(text).ok());
    EXPECT_EQ(*(*mark)->Read(), text);
    Open();
    const auto again = engine_->storage().OpenMark(directory());
    EXPECT_EQ(*(*again)->Read(), text);
  }
  ASSERT_TRUE((*engine_->storage().OpenMark(directory()))->Write("whole 1").ok());
  ASSERT_TRUE(engine_->storage().Remove(directory()).ok());
  Open();
  EXPECT_EQ(*(*engine_->storage().OpenMark(directory()))->Read(), "");
}

INSTANTIATE_TEST_SUITE_P(Engines, StorageTest, testing::ValuesIn(Engines()), EngineName);

/// A disk that fails in memory as one does by RocksDB, which disk_test.cc tries.
class FailingMemoryTest : public testing::Test {
 protected:
  FailingMemoryTest() { EXPECT_TRUE(Open().ok()); }

  Status Open() {
    database_.reset();
    auto opened = storage_.Open("p/shard-0", kColumnNames, OpenMode::kWrite);
    if (opened.ok()) {
      database_ = std::move(opened).value();
    }
    return opened.status();
  }

  Status Write(std::string_view key, Durability durability) {
    const Change change = Put(key, "1");
    return database_->Write({&change, 1}, durability);
  }

  MemoryStorage storage_;
  std::unique_ptr<Database> database_;
};

TEST_F(FailingMemoryTest, AFullDiskTakesNothingAndLosesNothing) {
  ASSERT_TRUE(Write("a", Durability::kFlush).ok());
  storage_.SetFull("p", true);
  EXPECT_EQ(Write("b", Durability::kFlush).code(), StatusCode::kIo);
  EXPECT_EQ(database_->Flush().code(), StatusCode::kIo);
  EXPECT_EQ(Contents(*database_), "a=1 ");
  EXPECT_TRUE(storage_.Open("q/job", kColumnNames, OpenMode::kWrite).ok()) << "another disk";
  storage_.SetFull("p", false);
  EXPECT_TRUE(database_->Flush().ok());
  EXPECT_EQ(database_->losses(), 0U);
  storage_.SetFull("", true);
  EXPECT_EQ(Open().code(), StatusCode::kIo);
  EXPECT_TRUE(storage_.Open("p/shard-0", kColumnNames, OpenMode::kRead).ok());
  storage_.SetFull("", false);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Contents(*database_), "a=1 ");
}

TEST_F(FailingMemoryTest, AWriterThatFailedLosesWhatWasNotFlushedAndOpensAnewOnceItCan) {
  ASSERT_TRUE(Write("a", Durability::kFlush).ok());
  ASSERT_TRUE(database_->Flush().ok());
  ASSERT_TRUE(Write("b", Durability::kFlush).ok());
  ASSERT_TRUE(Write("c", Durability::kLogged).ok());
  storage_.FailWriters("p");
  storage_.FailOpens("p", 2, Status::Io("Too many open files"));
  EXPECT_EQ(database_->losses(), 1U);
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_EQ(Write("d", Durability::kFlush).code(), StatusCode::kIo);
    EXPECT_EQ(Contents(*database_), "a=1 c=1 ") << "it can be read";
  }
  EXPECT_TRUE(Write("d", Durability::kFlush).ok());
  EXPECT_EQ(Contents(*database_), "a=1 c=1 d=1 ");
  EXPECT_EQ(database_->losses(), 1U);
}

TEST_F(FailingMemoryTest, TheNextOpensFail) {
  storage_.FailOpens("", 2, Status::Unavailable("in use by process 7"));
  EXPECT_EQ(Open().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(storage_.Open("p/shard-0", kColumnNames, OpenMode::kRead).ok()) << "not for reading";
  EXPECT_EQ(Open().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(Open().ok());
}

}  // namespace
}  // namespace ps::checkpoint
