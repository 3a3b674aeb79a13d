// A process or a machine that ends between any two changes of its files.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "checkpoint/storage/rocksdb_storage.h"
#include "ps/base/random.h"
#include "tests/checkpoint/faulty_files.h"
#include "tests/checkpoint/temporary_path.h"
#include "tests/checkpoint/workload.h"

namespace ps::checkpoint {
namespace {

/// A path with three checkpoints in it, two of them kept, to begin from.
class CrashTest : public testing::Test {
 protected:
  void SetUp() override {
    Status end;
    RunWorkload(*MakeRocksDbStorage(), begin_.path(), 3, &end);
    ASSERT_TRUE(end.ok()) << end;
  }

  /// Ends a run of two checkpoints after so many changes. False: it had come to its end by itself.
  bool CrashAt(uint64_t changes, bool is_machine_lost) {
    const TemporaryPath path;
    std::filesystem::copy(begin_.path(), path.path(), std::filesystem::copy_options::recursive);
    FaultyFiles files;
    files.CrashAfter(changes);
    Status end;
    const Acknowledged done = RunWorkload(*MakeRocksDbStorage(files.env()), path.path(), 2, &end);
    if (end.ok()) {
      return false;
    }
    if (is_machine_lost) {
      Random random(changes);
      files.LoseUnsynced(&random);
    }
    const auto storage = MakeRocksDbStorage();
    const Acknowledged known = done.rows == 0 ? AtTheBeginning() : done;
    const Status checked = CheckWorkload(*storage, path.path(), known, is_machine_lost);
    EXPECT_TRUE(checked.ok()) << "after " << changes << " changes: " << checked;
    RunWorkload(*storage, path.path(), 1, &end);
    EXPECT_TRUE(end.ok()) << "after " << changes << " changes it does not go on: " << end;
    return true;
  }

  static Acknowledged AtTheBeginning() {
    return {.manifest = 3, .rows = 6, .rows_before_manifest = 6};
  }

  /// Every so many changes, from the first on.
  void CrashEverywhere(uint64_t stride, bool is_machine_lost) {
    uint64_t at = 0;
    while (!HasFatalFailure() && CrashAt(at, is_machine_lost)) {
      at += stride;
    }
    EXPECT_GT(at, 100U) << "so few changes can't be two checkpoints";
  }

  TemporaryPath begin_;
};

TEST_F(CrashTest, AProcessMayEndBetweenAnyTwoChanges) {
  CrashEverywhere(9, false);
}

TEST_F(CrashTest, AMachineMayEndBetweenAnyTwoChanges) {
  CrashEverywhere(9, true);
}

}  // namespace
}  // namespace ps::checkpoint
