// What a shard's disk does, on storage that is damaged, full or slow.

#include "ps/server/checkpoints/disk_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "checkpoint/job_store.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "ps/base/time.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/memory_storage.h"
#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using testing::HasSubstr;

/// Its shard's first store can be read and not be written.
class DamagedStorage final : public checkpoint::Storage {
 public:
  DamagedStorage(checkpoint::Storage* storage, Status why)
      : storage_(storage), why_(std::move(why)) {}

  Result<std::unique_ptr<checkpoint::Database>> Open(
      const std::string& directory,
      std::span<const std::string_view> columns,
      checkpoint::OpenMode mode) override {
    if (mode == checkpoint::OpenMode::kWrite && directory == "path/shard-0") {
      return why_;
    }
    return storage_->Open(directory, columns, mode);
  }

  Result<std::unique_ptr<checkpoint::Mark>> OpenMark(const std::string& directory) override {
    return storage_->OpenMark(directory);
  }

  Result<std::vector<std::string>> List(const std::string& path) override {
    return storage_->List(path);
  }

  Status Remove(const std::string& directory) override { return storage_->Remove(directory); }

 private:
  checkpoint::Storage* const storage_;
  const Status why_;
};

/// The disk of shard 0, with a checkpoint 1 of one chunk.
class DiskWorkTest : public testing::Test {
 protected:
  static constexpr ShardId kOwn{0};
  static constexpr float kBegin = 2.5F;

  DiskWorkTest() {
    DiskWork before = Open(&memory_, kOwn);
    EXPECT_EQ(Write(&before, 1, kBegin).directory, "shard-0");
  }

  static DiskWork Open(checkpoint::Storage* storage, ShardId shard) {
    DiskWork disk(storage, shard);
    disk.Use({"path", checkpoint::ChunkFormat()});
    return disk;
  }

  static PartWritten Write(DiskWork* disk, uint64_t checkpoint, float value) {
    auto data = std::make_shared<checkpoint::ChunkData>();
    data->version = checkpoint;
    data->value = Buffer(sizeof(float));
    data->value.floats()[0] = value;
    const ChunkWritten chunk = disk->Do(ChunkWrite{1, checkpoint, 0, kFirst, data, std::nullopt});
    EXPECT_TRUE(chunk.ref.ok()) << chunk.ref.status();
    return disk->Do(PartWrite{1, checkpoint, {{}, {*chunk.ref}}, {checkpoint}});
  }

  static Restored Read(DiskWork* disk, uint64_t checkpoint) {
    return disk->Do(RestoreRequest{1, checkpoint, 1, {kFirst}});
  }

  static float ValueOf(const Restored& restored) {
    EXPECT_TRUE(restored.what.ok()) << restored.what.status();
    return restored.what.ok() ? restored.what->chunks[0].data.value.floats()[0] : 0;
  }

  checkpoint::MemoryStorage memory_;
};

TEST_F(DiskWorkTest, AStoreThatCannotBeWrittenIsReadAndAFreshOneIsBegun) {
  DamagedStorage damaged(&memory_, Status::Corruption("the footer of a table"));
  DiskWork disk = Open(&damaged, kOwn);
  EXPECT_EQ(ValueOf(Read(&disk, 1)), kBegin);
  EXPECT_EQ(Write(&disk, 2, 3.5F).directory, "shard-0.2");
  DiskWork after = Open(&memory_, ShardId(1));
  EXPECT_EQ(ValueOf(Read(&after, 2)), 3.5F) << "another shard finds it, too";
  EXPECT_EQ(ValueOf(Read(&after, 1)), kBegin);
}

TEST_F(DiskWorkTest, AFullDiskIsReadAndWrittenOnceThereIsSpace) {
  DamagedStorage full(&memory_, Status::Io("the disk is full"));
  DiskWork disk = Open(&full, kOwn);
  const Restored restored = Read(&disk, 1);
  EXPECT_EQ(ValueOf(restored), kBegin);
  EXPECT_THAT(std::string(restored.not_writable.message()), HasSubstr("the disk is full"));
  ASSERT_TRUE(restored.what.ok());
  EXPECT_FALSE(restored.what->chunks[0].ref.has_value()) << "of a store that is closed again";

  DiskWork after = Open(&memory_, kOwn);
  EXPECT_TRUE(Read(&after, 1).not_writable.ok());
  EXPECT_EQ(Write(&after, 2, 3.5F).directory, "shard-0");
}

TEST_F(DiskWorkTest, AStoreThatAnotherHasOpenIsNotRead) {
  DiskWork other = Open(&memory_, kOwn);
  EXPECT_EQ(ValueOf(Read(&other, 1)), kBegin);
  DiskWork disk = Open(&memory_, kOwn);
  EXPECT_EQ(Read(&disk, 1).what.status().code(), StatusCode::kUnavailable)
      << "it may still be written by a life before";
}

/// A directory that can't be read now may be the one that has the part: nobody takes it for absent.
TEST_F(DiskWorkTest, AStoreThatCannotBeReadForAWhileIsNoDamage) {
  DamagedStorage damaged(&memory_, Status::Corruption("the footer of a table"));
  {
    DiskWork disk = Open(&damaged, kOwn);
    EXPECT_EQ(Write(&disk, 2, 3.5F).directory, "shard-0.2");
  }
  const auto job = checkpoint::JobStore::Open(memory_, "path", checkpoint::OpenMode::kWrite);
  ASSERT_TRUE(job.ok()) << job.status();
  DiskWork disk = Open(&memory_, ShardId(1));
  for (const Status& why : {Status::Io("Too many open files"), Status::Unavailable("locked")}) {
    memory_.SetFaultHook([&](checkpoint::Operation operation, const std::string& directory) {
      return operation == checkpoint::Operation::kOpen && directory == "path/shard-0.2"
                 ? why
                 : Status::Ok();
    });
    EXPECT_EQ(Read(&disk, 2).what.status().code(), why.code());
    EXPECT_EQ(ValueOf(Read(&disk, 1)), kBegin);
  }
  memory_.SetFaultHook({});
  EXPECT_EQ(ValueOf(Read(&disk, 2)), 3.5F);
}

/// Where the coordinator's part is, a shard's part that is not there was lost; elsewhere nobody
/// has put it there.
TEST_F(DiskWorkTest, APartIsMissedOnlyWhereTheCoordinatorWrites) {
  DiskWork disk = Open(&memory_, kOwn);
  const Status elsewhere = Read(&disk, 7).what.status();
  EXPECT_EQ(elsewhere.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(elsewhere.message()), HasSubstr("does not have checkpoint 7"));

  const auto job = checkpoint::JobStore::Open(memory_, "path", checkpoint::OpenMode::kWrite);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(Read(&disk, 7).what.status().code(), StatusCode::kNotFound);
}

/// As where the folder of one shard is a file system of its own that is not mounted: its mount
/// point is empty, and stays so.
TEST_F(DiskWorkTest, AFolderThatIsNotMountedIsNoDamageAndGetsNoStore) {
  const auto job = checkpoint::JobStore::Open(memory_, "path", checkpoint::OpenMode::kWrite);
  ASSERT_TRUE(job.ok()) << job.status();
  const RestoreRequest of_two{1, 1, 2, {MakeChunkKey(7, 7)}};
  DiskWork own = Open(&memory_, ShardId(1));
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Status why = own.Do(of_two).what.status();
    EXPECT_EQ(why.code(), StatusCode::kUnavailable);
    EXPECT_THAT(std::string(why.message()), HasSubstr("path/shard-1 on this host has no database"));
  }
  DiskWork other = Open(&memory_, kOwn);
  EXPECT_EQ(other.Do(of_two).what.status().code(), StatusCode::kUnavailable)
      << "the part of another shard";

  DiskWork written = Open(&memory_, ShardId(1));
  Write(&written, 1, kBegin);
  EXPECT_EQ(other.Do(of_two).what.status().code(), StatusCode::kCorruption)
      << "nobody has the chunk";
}

/// A limit is the least time that a checkpoint takes; there is no most.
TEST(DiskLimitTest, AStoreIsWrittenNoFasterThanItsPlaceSays) {
  const TemporaryFolder folder;
  const auto storage = checkpoint::MakeRocksDbStorage();
  DiskWork disk(storage.get(), ShardId(0));
  checkpoint::ChunkFormat format;
  format.codec = checkpoint::Codec::kNone;
  disk.Use({folder.path(), format, uint64_t{2} << 20U});
  const TimePoint begin = SystemTime().Now();
  for (uint64_t checkpoint = 1; checkpoint <= 2; ++checkpoint) {
    auto data = std::make_shared<checkpoint::ChunkData>();
    data->version = checkpoint;
    data->value = Buffer(size_t{1} << 20U);
    std::ranges::fill(data->value.floats(), 2.5F);
    const ChunkWritten chunk = disk.Do(ChunkWrite{1, checkpoint, 0, kFirst, data, std::nullopt});
    ASSERT_TRUE(chunk.ref.ok()) << chunk.ref.status();
    const PartWritten part = disk.Do(PartWrite{1, checkpoint, {{}, {*chunk.ref}}, {checkpoint}});
    ASSERT_TRUE(part.summary.ok()) << part.summary.status();
  }
  EXPECT_GE(SystemTime().Now() - begin, std::chrono::milliseconds(500)) << "2 MiB at 2 MiB/s";
}

}  // namespace
}  // namespace ps::server
