// A disk that is full or read-only costs checkpoints, and none that is there already.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "checkpoint/shard_store.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "tests/checkpoint/faulty_files.h"
#include "tests/checkpoint/temporary_path.h"
#include "tests/checkpoint/workload.h"

namespace ps::checkpoint {
namespace {

using ::testing::HasSubstr;

class DiskTest : public testing::Test {
 protected:
  DiskTest() {
    auto store = ShardStore::Open(*storage_, path_.path(), ShardId(0), OpenMode::kWrite);
    PS_CHECK(store.ok()) << store.status();
    store_ = std::move(store).value();
  }

  /// A checkpoint of one chunk that changed.
  Status Write(CheckpointId id) {
    const std::vector<float> values = WorkloadValues(1, id);
    const ChunkImage image{.key = MakeChunkKey(0, 0), .version = id, .value = values, .slots = {}};
    PS_ASSIGN(const ChunkRef ref, store_->PutChunk(id, image, nullptr, {Codec::kNone}));
    PartRecord part;
    part.chunks = {ref};
    return store_->CommitPart(id, part).status();
  }

  bool Holds(CheckpointId id) {
    const auto part = store_->ReadPart(id);
    if (!part.ok()) {
      return false;
    }
    const auto data = store_->ReadChunk(part->chunks.front());
    const std::vector<float> values = WorkloadValues(1, id);
    return data.ok() && std::equal(values.begin(), values.end(), data->value.floats().begin());
  }

  TemporaryPath path_;
  FaultyFiles files_;
  std::unique_ptr<Storage> storage_ = MakeRocksDbStorage(files_.env());
  std::unique_ptr<ShardStore> store_;
};

TEST_F(DiskTest, AFullDiskCostsTheCheckpointsThatAreNotWrittenYet) {
  ASSERT_TRUE(Write(1).ok());
  files_.SetSpace(5000);
  const Status full = Write(2);
  EXPECT_EQ(full.code(), StatusCode::kIo);
  EXPECT_THAT(std::string(full.message()), HasSubstr("the disk is full"));
  EXPECT_THAT(std::string(full.message()), HasSubstr("checkpoint 2"));
  EXPECT_EQ(Write(3).code(), StatusCode::kIo) << "still full";
  EXPECT_TRUE(Holds(1));

  files_.SetSpace(-1);
  const Status again = Write(4);
  EXPECT_TRUE(again.ok()) << again;
  EXPECT_TRUE(Holds(1));
  EXPECT_TRUE(Holds(4));
}

TEST_F(DiskTest, AfterAFullDiskTheStoreOpensWithWhatWasCommitted) {
  ASSERT_TRUE(Write(1).ok());
  files_.SetSpace(5000);
  EXPECT_FALSE(Write(2).ok());
  store_.reset();
  files_.SetSpace(-1);
  auto store = ShardStore::Open(*storage_, path_.path(), ShardId(0), OpenMode::kWrite);
  ASSERT_TRUE(store.ok()) << store.status();
  store_ = std::move(store).value();
  EXPECT_TRUE(Holds(1));
  EXPECT_FALSE(Holds(2));
  EXPECT_TRUE(Write(3).ok());
}

TEST_F(DiskTest, AFullOrReadOnlyDiskCanBeReadByOneWhoJustComes) {
  ASSERT_TRUE(Write(1).ok());
  for (const bool is_full : {true, false}) {
    store_.reset();
    files_.SetSpace(is_full ? 0 : -1);
    files_.SetReadOnly(!is_full);
    EXPECT_EQ(
        ShardStore::Open(*storage_, path_.path(), ShardId(0), OpenMode::kWrite).status().code(),
        StatusCode::kIo);
    auto store = ShardStore::Open(*storage_, path_.path(), ShardId(0), OpenMode::kRead);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = std::move(store).value();
    EXPECT_TRUE(Holds(1));
  }
}

TEST_F(DiskTest, AReadOnlyDiskIsSaid) {
  ASSERT_TRUE(Write(1).ok());
  files_.SetReadOnly(true);
  const Status status = Write(2);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Read-only file system"));
  EXPECT_TRUE(Holds(1));
  files_.SetReadOnly(false);
  const Status again = Write(3);
  EXPECT_TRUE(again.ok()) << again;
  EXPECT_TRUE(Holds(1));
  EXPECT_TRUE(Holds(3));
}

/// A disk that stays bad while a store opens itself anew, again and again.
TEST_F(DiskTest, ADiskThatFailedForSeveralAttemptsIsWrittenOnceItWorksAgain) {
  ASSERT_TRUE(Write(1).ok());
  CheckpointId id = 2;
  for (const bool is_full : {true, false}) {
    files_.SetSpace(is_full ? 0 : -1);
    files_.SetReadOnly(!is_full);
    for (int attempt = 0; attempt < 4; ++attempt) {
      const Status failed = Write(id++);
      EXPECT_EQ(failed.code(), StatusCode::kIo) << failed;
      EXPECT_TRUE(Holds(1)) << "it can be read";
    }
    files_.SetSpace(-1);
    files_.SetReadOnly(false);
    const Status again = Write(id);
    EXPECT_TRUE(again.ok()) << again;
    EXPECT_TRUE(Holds(1) && Holds(id));
    ++id;
  }
}

/// Who hears of damage gives the store up.
TEST_F(DiskTest, AFileThatCannotBeOpenedNowIsNoDamage) {
  ASSERT_TRUE(Write(1).ok());
  store_.reset();
  files_.SetUnreadable(true);
  const Status status =
      ShardStore::Open(*storage_, path_.path(), ShardId(0), OpenMode::kWrite).status();
  EXPECT_EQ(status.code(), StatusCode::kIo) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("Too many open files"));
  files_.SetUnreadable(false);
  EXPECT_TRUE(ShardStore::Open(*storage_, path_.path(), ShardId(0), OpenMode::kWrite).ok());
}

TEST_F(DiskTest, ARecordThatWasLostIsInNoCheckpoint) {
  ASSERT_TRUE(Write(1).ok());
  const std::vector<float> values = WorkloadValues(1, 2);
  ChunkImage image{.key = MakeChunkKey(0, 0), .version = 2, .value = values, .slots = {}};
  const auto lost = store_->PutChunk(2, image, nullptr, {Codec::kNone});
  ASSERT_TRUE(lost.ok()) << lost.status();
  PartRecord part;
  part.chunks = {*lost};
  files_.SetReadOnly(true);
  EXPECT_EQ(store_->CommitPart(2, part).status().code(), StatusCode::kIo);
  files_.SetReadOnly(false);

  // The next checkpoint is told as long as it refers to the lost record.
  image.key = MakeChunkKey(0, 1);
  const auto other = store_->PutChunk(3, image, nullptr, {Codec::kNone});
  ASSERT_TRUE(other.ok()) << other.status();
  part.chunks = {*lost, *other};
  EXPECT_EQ(store_->CommitPart(3, part).status().code(), StatusCode::kStale);
  image.key = lost->key;
  const auto again = store_->PutChunk(3, image, nullptr, {Codec::kNone});
  ASSERT_TRUE(again.ok()) << again.status();
  part.chunks = {*again, *other};
  const auto committed = store_->CommitPart(3, part);
  EXPECT_TRUE(committed.ok()) << committed.status();
  EXPECT_TRUE(store_->ReadChunk(*again).ok());
  EXPECT_TRUE(store_->ReadChunk(*other).ok());
}

}  // namespace
}  // namespace ps::checkpoint
