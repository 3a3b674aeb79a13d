// What resume goes on from, and what it leaves alone.

#include "run/directory/run_checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "checkpoint/keys.h"
#include "checkpoint/shard_store.h"
#include "checkpoint/storage/failure.h"
#include "ps/proto/state/shard_state.h"
#include "tests/base/temporary_folder.h"
#include "tests/checkpoint/memory_storage.h"

namespace ps::run {
namespace {

using checkpoint::CheckpointId;
using checkpoint::JobStore;
using checkpoint::MemoryStorage;
using checkpoint::OpenMode;
using checkpoint::Operation;
using checkpoint::ShardStore;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The databases of another one.
class Borrowed final : public checkpoint::Storage {
 public:
  explicit Borrowed(checkpoint::Storage* lender) : lender_(*lender) {}

  Result<std::unique_ptr<checkpoint::Database>> Open(
      const std::string& directory,
      std::span<const std::string_view> columns,
      OpenMode mode) override {
    return lender_.Open(directory, columns, mode);
  }

  Result<std::unique_ptr<checkpoint::Mark>> OpenMark(const std::string& directory) override {
    return lender_.OpenMark(directory);
  }

  Result<std::vector<std::string>> List(const std::string& path) override {
    return lender_.List(path);
  }

  Status Remove(const std::string& directory) override { return lender_.Remove(directory); }

 private:
  checkpoint::Storage& lender_;
};

/// A path in memory with checkpoints: number N is of N shards.
class RunCheckpointsTest : public ::testing::Test {
 protected:
  RunCheckpointsTest() : path_(folder_ / "checkpoints") {
    std::filesystem::create_directories(checkpoint::JobDirectory(path_));  // IsCheckpointPath
  }

  /// The part of shard `shard`, of one chunk.
  Result<checkpoint::PartSummary> CommitPart(CheckpointId id, uint32_t shard) {
    PS_ASSIGN(
        const auto store, ShardStore::Open(storage_, path_, ShardId(shard), OpenMode::kWrite));
    const std::array<float, 2> values = {1, 2};
    const checkpoint::ChunkImage image{
        .key = MakeChunkKey(shard, 0), .version = id, .value = values, .slots = {}};
    PS_ASSIGN(const checkpoint::ChunkRef ref, store->PutChunk(id, image, nullptr, {}));
    return store->CommitPart(id, {proto::EncodeShardState({}), {ref}});
  }

  Status Commit(CheckpointId id) {
    checkpoint::Manifest manifest;
    manifest.id = id;
    manifest.job_state = proto::EncodeJobState({});
    for (uint32_t shard = 0; shard < id; ++shard) {
      PS_ASSIGN(const checkpoint::PartSummary summary, CommitPart(id, shard));
      manifest.tensors.push_back({.name = "t" + std::to_string(shard), .shape = {2}});
      manifest.chunks.push_back({MakeChunkKey(shard, 0), 0, 2, ShardId(shard)});
      manifest.parts.push_back({ShardId(shard), "shard-" + std::to_string(shard), summary});
    }
    PS_ASSIGN(const auto store, JobStore::Open(storage_, path_, OpenMode::kWrite));
    return store->PutManifest(id, checkpoint::EncodeManifest(manifest));
  }

  void CommitThree() {
    for (const CheckpointId id : {1U, 2U, 3U}) {
      const Status committed = Commit(id);
      ASSERT_TRUE(committed.ok()) << committed;
    }
  }

  /// Opening the store of this shard fails.
  void Fail(uint32_t shard, Status why) {
    const std::string directory = path_ + "/shard-" + std::to_string(shard);
    storage_.SetFaultHook([=](Operation operation, const std::string& at) {
      return operation == Operation::kOpen && at == directory ? why : Status::Ok();
    });
  }

  void FlipPart(uint32_t shard, CheckpointId id) {
    std::vector<std::byte>* const part =
        storage_.ValueOf(path_ + "/shard-" + std::to_string(shard), 1, checkpoint::MakeIdKey(id));
    ASSERT_NE(part, nullptr);
    part->back() ^= std::byte{1};
  }

  Result<FoundCheckpoint> Find() {
    return FindNewestCheckpoint(path_, std::make_unique<Borrowed>(&storage_));
  }

  std::vector<CheckpointId> Manifests() {
    const auto store = JobStore::Open(storage_, path_, OpenMode::kRead);
    return store.ok() ? (*store)->Manifests().value() : std::vector<CheckpointId>();
  }

  TemporaryFolder folder_;
  std::string path_;
  MemoryStorage storage_;
};

std::vector<CheckpointId> IdsOf(const std::vector<proto::KeptCheckpoint>& kept) {
  std::vector<CheckpointId> ids;
  for (const proto::KeptCheckpoint& one : kept) {
    ids.push_back(one.checkpoint);
  }
  return ids;
}

TEST_F(RunCheckpointsTest, WhatCannotBeReadNowIsSkippedAndStays) {
  CommitThree();
  for (const Status& why :
       {Status::NotFound("no checkpoints in shard-2"),
        Status::Io("too many open files"),
        Status::Unsupported("version 99"),
        checkpoint::FileMissing(StatusCode::kCorruption, "000012.sst")}) {
    Fail(2, why);
    const Result<FoundCheckpoint> found = Find();
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->manifest.id, 2U);
    ASSERT_EQ(found->skipped.size(), 1U);
    EXPECT_EQ(found->skipped[0].id, 3U);
    EXPECT_FALSE(found->skipped[0].is_corrupt) << why;
    EXPECT_THAT(found->skipped[0].why, HasSubstr(std::string(why.message())));
    EXPECT_THAT(IdsOf(found->checkpoints.kept), ElementsAre(1, 2));
    EXPECT_EQ(found->checkpoints.set_aside, found->skipped);
    EXPECT_EQ(found->checkpoints.next, 4U) << "above the skipped one";
    EXPECT_THAT(Manifests(), ElementsAre(1, 2, 3));
  }
  storage_.SetFaultHook(nullptr);
  EXPECT_EQ(Find()->manifest.id, 3U) << "it is there again";
}

TEST_F(RunCheckpointsTest, WhereNoneCanBeReadAllStay) {
  CommitThree();
  Fail(0, Status::NotFound("no checkpoints in shard-0"));
  const Status none = Find().status();
  EXPECT_EQ(none.code(), StatusCode::kUnavailable) << "what is missing may be put back";
  EXPECT_THAT(std::string(none.message()), HasSubstr("none was deleted"));
  EXPECT_THAT(std::string(none.message()), HasSubstr("\n  checkpoint 1: part of shard 0"));
  EXPECT_THAT(Manifests(), ElementsAre(1, 2, 3));
}

TEST_F(RunCheckpointsTest, AWrongChecksumIsAProofAndStillDeletesNothing) {
  CommitThree();
  FlipPart(1, 3);
  const Result<FoundCheckpoint> found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->manifest.id, 2U);
  ASSERT_EQ(found->skipped.size(), 1U);
  EXPECT_TRUE(found->skipped[0].is_corrupt);
  EXPECT_THAT(Manifests(), ElementsAre(1, 2, 3));
}

TEST_F(RunCheckpointsTest, AProofCountsMoreThanAPassingReason) {
  CommitThree();
  FlipPart(1, 3);
  Fail(0, Status::Io("too many open files"));
  const Status none = Find().status();
  EXPECT_THAT(std::string(none.message()), HasSubstr("checkpoint 3: part of shard 1"));
}

TEST_F(RunCheckpointsTest, ACoordinatorThatComesBackKnowsWhatWasSkipped) {
  CommitThree();
  {
    Fail(2, Status::NotFound("no checkpoints in shard-2"));
    const Result<FoundCheckpoint> found = Find();
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_TRUE(NoteSkipped(*found).ok());
  }
  {
    const auto store = JobStore::Open(storage_, path_, OpenMode::kRead);
    ASSERT_TRUE(store.ok());
    const auto set_aside = (*store)->ReadSetAside();
    ASSERT_TRUE(set_aside.ok());
    ASSERT_EQ(set_aside->size(), 1U);
    EXPECT_EQ((*set_aside)[0].id, 3U);
  }
  // Back again: a later resume may use it, and notes that it does.
  storage_.SetFaultHook(nullptr);
  const Result<FoundCheckpoint> found = Find();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->manifest.id, 3U);
  EXPECT_THAT(found->checkpoints.set_aside, IsEmpty());
  EXPECT_THAT(IdsOf(found->checkpoints.kept), ElementsAre(1, 2, 3));
}

TEST_F(RunCheckpointsTest, OneThatWasSkippedOnceStaysAsideBelowNewerOnes) {
  CommitThree();
  {
    Fail(2, Status::NotFound("no checkpoints in shard-2"));
    const Result<FoundCheckpoint> found = Find();
    ASSERT_TRUE(found.ok() && NoteSkipped(*found).ok());
  }
  storage_.SetFaultHook(nullptr);
  ASSERT_TRUE(Commit(4).ok());
  const Result<FoundCheckpoint> found = Find();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->manifest.id, 4U);
  EXPECT_THAT(IdsOf(found->checkpoints.kept), ElementsAre(1, 2, 4));
  ASSERT_EQ(found->checkpoints.set_aside.size(), 1U);
  EXPECT_EQ(found->checkpoints.set_aside[0].id, 3U);
}

}  // namespace
}  // namespace ps::run
