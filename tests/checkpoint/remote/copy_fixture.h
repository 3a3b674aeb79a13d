#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/remote/copies.h"
#include "checkpoint/remote/download.h"
#include "checkpoint/remote/index.h"
#include "checkpoint/remote/upload.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "tests/checkpoint/remote/memory_store.h"
#include "tests/checkpoint/temporary_path.h"
#include "tests/checkpoint/workload.h"

namespace ps::checkpoint {

/// A path with two checkpoints, and a place in memory for copies.
class CopyTest : public testing::Test {
 protected:
  CopyTest() { Train(2); }

  /// So many more checkpoints; two are kept.
  void Train(int checkpoints) { TrainIn(path_, checkpoints); }

  void TrainIn(const std::string& path, int checkpoints) {
    Status end;
    RunWorkload(*storage_, path, checkpoints, &end);
    ASSERT_TRUE(end.ok()) << end;
  }

  Result<UploadReport> Upload(size_t keep = 0) { return UploadFrom(path_, keep); }

  Result<UploadReport> UploadFrom(const std::string& path, size_t keep = 0) {
    Uploader uploader(path, &store_, {.writer = "test", .keep = keep, .on_progress = nullptr});
    return uploader.Run();
  }

  Result<DownloadReport> Fetch(const std::string& name) {
    return Download(store_, *storage_, PathOf(name), nullptr);
  }

  std::string PathOf(const std::string& name) const { return folder_.path() + "/" + name; }

  std::vector<CheckpointId> Copies() { return *ListCopies(store_); }

  /// Every index in the store names only pieces that are there.
  void ExpectIndexesAreComplete() {
    for (const CheckpointId id : Copies()) {
      const auto index = DecodeIndex(id, store_.objects().at(IndexKey(id)));
      ASSERT_TRUE(index.ok()) << index.status();
      for (const std::string& key : PieceKeys(*index)) {
        EXPECT_TRUE(store_.objects().contains(key)) << id << " lacks " << key;
      }
    }
  }

  std::set<std::string> PiecesOf(CheckpointId id) {
    return PieceKeys(*DecodeIndex(id, store_.objects().at(IndexKey(id))));
  }

  /// A piece that `newer` has and `older` has not, the largest.
  std::string PieceOnlyOf(CheckpointId newer, CheckpointId older) {
    const std::set<std::string> others = PiecesOf(older);
    std::string found;
    for (const std::string& key : PiecesOf(newer)) {
      if (!others.contains(key) &&
          (found.empty() || store_.objects()[key].size() > store_.objects()[found].size())) {
        found = key;
      }
    }
    return found;
  }

  TemporaryPath folder_;
  const std::string path_ = folder_.path() + "/p";
  const std::unique_ptr<Storage> storage_ = MakeRocksDbStorage();
  MemoryStore store_;
};

}  // namespace ps::checkpoint
