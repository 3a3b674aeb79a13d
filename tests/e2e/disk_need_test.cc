// A run says when it begins that it may come to need more room than there is.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <filesystem>
#include <string>

#include "tests/e2e/support/machine.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// Of a run that writes none of the checkpoints that it may keep.
class DiskNeedTest : public E2eTest {
 protected:
  ~DiskNeedTest() override {
    if (!disk_.empty()) {
      ::umount2(disk_.c_str(), MNT_DETACH);
    }
  }

  /// Has room for a run and less than it may come to need.
  testing::AssertionResult MountAt(const std::string& path) {
    std::filesystem::create_directory(path);
    testing::AssertionResult mounted = MountSmallDisk(path, "size=32m");
    if (mounted) {
      disk_ = path;
    }
    return mounted;
  }

  /// What a run says, the checkpoints of which are in `path`; "": in its own folder.
  std::string SaidWith(const std::string& path) {
    const std::string place = path.empty() ? "" : R"(, "path": ")" + path + '"';
    job_.SetEndless().Set("checkpoint", R"({"every_s": 600, "keep": 500)" + place + "}");
    TrainRun run(job_);
    EXPECT_TRUE(run.WaitForSamples(64).has_value()) << run.psctl().Err();
    StopCleanly(&run);
    return run.psctl().Err();
  }

 private:
  std::string disk_;  // "": none is mounted
};

TEST_F(DiskNeedTest, ADiskWithLessRoomThanTheRunMayNeedIsToldWhenItBegins) {
  if (const testing::AssertionResult mounted = MountAt(job_.runs()); !mounted) {
    GTEST_SKIP() << "cannot mount a small disk here: " << mounted.message();
  }
  EXPECT_THAT(
      SaidWith(""),
      ContainsRegex(
          "the disk may become full: " + job_.runs() +
          "/[^/ ]+/checkpoints has [0-9.]+ MiB free, "
          "and the run may come to need [0-9.]+ MiB: .* and 501 checkpoints of "));
}

TEST_F(DiskNeedTest, CheckpointsElsewhereAreJudgedByTheDiskOfThatPlace) {
  const std::string other = folder_ / "other";
  if (const testing::AssertionResult mounted = MountAt(other); !mounted) {
    GTEST_SKIP() << "cannot mount a small disk here: " << mounted.message();
  }
  EXPECT_THAT(
      SaidWith(other + "/of-this-job"),
      HasSubstr("the disk may become full: " + other + "/of-this-job has "));
}

TEST_F(DiskNeedTest, ASmallDiskWithoutCheckpointsIsNoneThatTheyNeed) {
  if (const testing::AssertionResult mounted = MountAt(job_.runs()); !mounted) {
    GTEST_SKIP() << "cannot mount a small disk here: " << mounted.message();
  }
  const std::string said = SaidWith(folder_ / "of-this-job");
  EXPECT_THAT(said, HasSubstr("Ctrl-C ends the run"));
  EXPECT_THAT(said, Not(HasSubstr("the disk may become full")));
}

}  // namespace
}  // namespace ps::e2e
