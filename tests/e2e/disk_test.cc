// A disk that fills up costs log and metrics lines, not the run. On one without room for what a run
// needs, none begins.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>

#include <filesystem>
#include <optional>
#include <string>

#include "tests/e2e/support/machine.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class DiskTest : public E2eTest {
 protected:
  DiskTest() {
    job_.Set("train", R"({"epochs": 4, "minibatch": 32})")
        .Set("workers", R"([{"count": 2, "step_ms": 12}])")
        .Set("run", R"({"directory": ")" + job_.runs() + R"(", "metrics_every_s": 0.05})");
  }
};

TEST_F(DiskTest, FilesThatCannotGrowCostLinesOnly) {
  // Every file is as if on a disk with this much space: enough for config and summary.
  constexpr uint64_t kFileBytesMax = 12'000;
  TrainRun run(job_, {.arguments = {}, .file_bytes_max = kFileBytesMax});
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{1}) << "the model was not saved";
  run.ExpectExactLedger();
  const std::string metrics = ReadText(run.Root() + "/metrics.jsonl");
  EXPECT_LE(metrics.size(), kFileBytesMax);
  EXPECT_GT(metrics.size(), kFileBytesMax / 2);
  EXPECT_THAT(metrics, EndsWith("}\n")) << "no part of a line";
  EXPECT_THAT(run.psctl().Err(), HasSubstr("records are being lost"));
  EXPECT_THAT(run.psctl().Err(), HasSubstr("training goes on"));
  EXPECT_THAT(run.psctl().Err(), HasSubstr("the model was not saved: cannot write"));
  EXPECT_THAT(run.Summary()["model_problem"].text(), HasSubstr("File too large"));
}

TEST_F(DiskTest, AFullDiskDoesNotStopTraining) {
  std::filesystem::create_directory(job_.runs());
  const testing::AssertionResult mounted = MountSmallDisk(job_.runs(), "size=256k");
  if (!mounted) {
    GTEST_SKIP() << "cannot mount a small disk here: " << mounted.message();
  }
  {
    job_.SetEndless();
    TrainRun run(job_, {.arguments = {"--json"}});
    EXPECT_TRUE(run.WaitForSamples(256).has_value());
    const DiskFiller filler(run.Root() + "/filler");
    EXPECT_TRUE(WaitUntil([&] { return Contains(run.psctl().Err(), "records are being lost"); }));
    const std::optional<proto::JobStatus> full = run.Status();
    ASSERT_TRUE(full.has_value());
    EXPECT_TRUE(run.WaitForSamples(full->samples_counted + 512)) << "training does not go on";
    run.psctl().SignalGroup(SIGINT);
    EXPECT_EQ(run.WaitForEnd(), ProcessEnd{1}) << "there is no summary";
    EXPECT_THAT(run.psctl().Err(), HasSubstr("summary.json"));
    const std::optional<Json> summary = Json::Parse(run.psctl().Out());
    ASSERT_TRUE(summary.has_value()) << run.psctl().Out();
    EXPECT_EQ((*summary)["state"].text(), "stopped");
    ExpectConsistentLedger(*summary);
  }
  ::umount2(job_.runs().c_str(), MNT_DETACH);
}

/// Nothing else fills it, and nothing is removed from it.
TEST_F(DiskTest, CheckpointsThatFillTheDiskCostCheckpointsAndNotTheRun) {
  std::filesystem::create_directory(job_.folder() + "/small");
  const testing::AssertionResult mounted = MountSmallDisk(job_.folder() + "/small", "size=24m");
  if (!mounted) {
    GTEST_SKIP() << "cannot mount a small disk here: " << mounted.message();
  }
  job_.SetEndless()
      .Set("servers", R"({"count": 2})")
      .Set(
          "checkpoint",
          R"({"every_s": 0.2, "keep": 1000, "path": ")" + job_.folder() + R"(/small/kept"})");
  {
    TrainRun run(job_);
    const auto failed = [](const proto::JobStatus& status) {
      return status.checkpoints.newest > 0 && Contains(status.checkpoints.trouble, "full");
    };
    const auto full = run.WaitFor(failed);
    ASSERT_TRUE(full.has_value());
    EXPECT_THAT(run.psctl().Err(), HasSubstr("the disk may become full"));
    // It comes back from what there is, and goes on.
    const int64_t server = full->shards.at(0).pid;
    ::kill(static_cast<pid_t>(server), SIGKILL);
    const auto back = run.WaitFor([&](const proto::JobStatus& status) {
      return status.shards.at(0).pid != server && status.shards.at(0).pid > 0 &&
             status.state == proto::RunState::kTraining &&
             status.samples_counted > full->samples_counted + 512;
    });
    ASSERT_TRUE(back.has_value());
    EXPECT_GE(back->checkpoints.newest, full->checkpoints.newest);
    const Json summary = StopCleanly(&run);
    EXPECT_GT(summary["checkpoints_failed"].number(), 0);
    const Output verified = RunToEnd(
        {.program = "psctl",
         .arguments = {"checkpoint", "verify", "--all", run.Root()},
         .directory = job_.folder(),
         .output_stem = folder_ / "verify"},
        kRunPatience);
    EXPECT_EQ(verified.end, ProcessEnd{}) << verified.err << verified.out;
  }
  ::umount2((job_.folder() + "/small").c_str(), MNT_DETACH);
}

TEST_F(DiskTest, ARunThatCannotMakeItsFilesDoesNotBegin) {
  constexpr int kFilesMax = 50;
  job_.Write();
  std::filesystem::create_directory(job_.runs());
  std::string failures;
  bool has_begun = false;
  for (int files = 2; !has_begun && files < kFilesMax; ++files) {
    const testing::AssertionResult mounted =
        MountSmallDisk(job_.runs(), "nr_inodes=" + std::to_string(files));
    if (!mounted) {
      GTEST_SKIP() << "cannot mount a small disk here: " << mounted.message();
    }
    const Output output = RunToEnd(
        {.program = "psctl",
         .arguments = {"train", job_.path(), "--set", "fleet.join_timeout_s=1"},
         .directory = job_.folder(),
         .output_stem = folder_ / "command"},
        kRunPatience);
    has_begun = Contains(output.err, "Ctrl-C ends the run");  // what it ends of is not the point
    if (!has_begun) {
      EXPECT_EQ(output.end, ProcessEnd{1}) << output.err;
      EXPECT_THAT(output.err, HasSubstr("No space left on device"));
      EXPECT_TRUE(std::filesystem::is_empty(job_.runs())) << files << output.err;
      failures += output.err;
    }
    ::umount2(job_.runs().c_str(), MNT_DETACH);
  }
  EXPECT_TRUE(has_begun);
  EXPECT_THAT(failures, HasSubstr("/token"));
  EXPECT_THAT(
      failures, ContainsRegex("cannot listen on .*/control.sock: .*--set run.directory=DIR"));
  EXPECT_THAT(failures, HasSubstr("/coordinator.addr"));
}

}  // namespace
}  // namespace ps::e2e
