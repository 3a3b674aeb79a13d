// A disk that fills up costs log and metrics lines, not the run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/e2e/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::HasSubstr;

class DiskTest : public E2eTest {
 protected:
  DiskTest() {
    job_.Set("train", R"({"epochs": 4, "minibatch": 32})")
        .Set("workers", R"([{"count": 2, "slowdown": 6}])")
        .Set("run", R"({"directory": ")" + job_.runs() + R"(", "metrics_every_s": 0.05})");
  }
};

TEST_F(DiskTest, FilesThatCannotGrowCostLinesOnly) {
  // Every file is as if on a disk with this much space: enough for config and summary.
  constexpr uint64_t kFileBytesMax = 12'000;
  TrainRun run(job_, {.arguments = {}, .file_bytes_max = kFileBytesMax});
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  run.ExpectExactLedger();
  EXPECT_EQ(ReadText(run.Root() + "/metrics.jsonl").size(), kFileBytesMax);
  EXPECT_THAT(run.psctl().Err(), HasSubstr("lines are being lost"));
  EXPECT_THAT(run.psctl().Err(), HasSubstr("training goes on"));
}

/// Puts a small file system at a path, seen by this process and its children alone.
testing::AssertionResult MountSmallDisk(const std::string& path) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr)) {
    return testing::AssertionFailure() << "no mount namespace: " << std::strerror(errno);
  }
  if (::mount("none", path.c_str(), "tmpfs", 0, "size=256k") != 0) {
    return testing::AssertionFailure() << "mount tmpfs: " << std::strerror(errno);
  }
  return testing::AssertionSuccess();
}

TEST_F(DiskTest, AFullDiskDoesNotStopTraining) {
  std::filesystem::create_directory(job_.runs());
  const testing::AssertionResult mounted = MountSmallDisk(job_.runs());
  if (!mounted) {
    GTEST_SKIP() << "cannot mount a small disk here: " << mounted.message();
  }
  {
    TrainRun run(job_, {.arguments = {"--json"}});
    EXPECT_TRUE(run.WaitForSamples(256).has_value());
    std::ofstream filler(job_.runs() + "/filler", std::ios::binary);
    while (filler.write("0123456789abcdef", 16).flush().good()) {
    }
    EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
    EXPECT_THAT(run.psctl().Err(), HasSubstr("lines are being lost"));
    EXPECT_THAT(run.psctl().Err(), HasSubstr("summary.json"));
    const std::optional<Json> summary = Json::Parse(run.psctl().Out());
    ASSERT_TRUE(summary.has_value()) << run.psctl().Out();
    EXPECT_EQ((*summary)["state"].text(), "done");
    EXPECT_EQ((*summary)["samples_counted"].number(), (*summary)["samples_total"].number());
  }
  ::umount2(job_.runs().c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace ps::e2e
