// The coordinator's process is killed, and the run goes on; runs that need no terminal.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "tests/e2e/support/machine.h"
#include "tests/e2e/support/socket.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class CoordinatorTest : public E2eTest {
 protected:
  CoordinatorTest() {
    job_.SetEndless()
        .Set("workers", R"([{"count": 3, "step_ms": 20}])")
        .Set("servers", R"({"count": 2})");
  }

  Process::Options Psctl(const std::string& name, std::vector<std::string> arguments) const {
    Process::Options options;
    options.program = "psctl";
    options.arguments = std::move(arguments);
    options.directory = job_.folder();
    options.output_stem = job_.folder() + "/" + name;
    return options;
  }

  /// The successor, once it trains: it counts from where the one before it was, or further on.
  static std::optional<proto::JobStatus> AwaitSuccessor(TrainRun* run, uint64_t samples_before) {
    return run->WaitFor([&](const proto::JobStatus& status) {
      return status.journal.restarts == 1 && status.samples_counted > samples_before + 512;
    });
  }

  /// Nobody who was told of a step or a sample heard of it in vain.
  static void ExpectNothingRepeated(const Json& summary, int joins) {
    ExpectConsistentLedger(summary);
    EXPECT_EQ(summary["state"].text(), "stopped");
    EXPECT_EQ(summary["joins"].number(), joins);
  }
};

class CoordinatorModeTest : public CoordinatorTest,
                            public testing::WithParamInterface<const char*> {};

TEST_P(CoordinatorModeTest, ARunGoesOnWhenItsCoordinatorIsKilledAloneAndWithAWorker) {
  job_.SetEndless(R"("mode": ")" + std::string(GetParam()) + '"');
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(512).has_value());
  const int64_t first = run.CoordinatorPid();
  ASSERT_EQ(::kill(static_cast<pid_t>(first), SIGKILL), 0);
  const auto after = run.WaitFor([](const proto::JobStatus& s) { return s.journal.restarts == 1; });
  ASSERT_TRUE(after.has_value());
  EXPECT_NE(run.CoordinatorPid(), first);
  EXPECT_EQ(Alive(*after).size(), 3U);
  ASSERT_TRUE(run.WaitForSamples(after->samples_counted + 512).has_value());

  ASSERT_EQ(::kill(static_cast<pid_t>(run.CoordinatorPid()), SIGKILL), 0);
  ASSERT_EQ(::kill(static_cast<pid_t>(Alive(*after)[0].pid), SIGKILL), 0);
  ASSERT_TRUE(run.WaitFor([&](const proto::JobStatus& status) {
    return status.journal.restarts == 2 && status.revocations_unnoticed == 1 &&
           status.samples_counted > after->samples_counted + 1024;
  }));
  ExpectNothingRepeated(StopCleanly(&run), 3);
  EXPECT_THAT(
      run.psctl().Err(),
      AllOf(
          HasSubstr("the coordinator was killed by signal 9 (Killed); another one goes on"),
          HasSubstr("no step is repeated")));
  EXPECT_THAT(run.psctl().Out(), ContainsRegex("coordinator +restarted 2 times"));
}

INSTANTIATE_TEST_SUITE_P(Modes, CoordinatorModeTest, testing::Values("async", "bsp"));

TEST_F(CoordinatorTest, OneThatIsFrozenIsKilledAndAnotherOneGoesOn) {
  job_.Set("fleet", R"({"max_detect_s": 5, "orphan_grace_s": 12})");
  job_.SetEndless();
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(512).has_value());
  const int64_t first = run.CoordinatorPid();
  ASSERT_EQ(::kill(static_cast<pid_t>(first), SIGSTOP), 0);
  ASSERT_TRUE(WaitUntil([&] { return run.CoordinatorPid() != first; }));
  EXPECT_THAT(run.psctl().Err(), HasSubstr("has stood still for 6 s"));
  const auto after = run.Status();
  ASSERT_TRUE(run.WaitForSamples(after ? after->samples_counted + 512 : 512).has_value());
  EXPECT_THAT(run.psctl().Err(), HasSubstr("no step is repeated"));
  StopCleanly(&run);
  run.ExpectNothingLeft();
}

/// The folder of a network is gone for a moment, as a port may be in use for one.
TEST_F(CoordinatorTest, ASuccessorThatFindsNoDataTriesAgainForAsLongAsTheOthersWait) {
  const std::string data = job_.folder() + "/data";
  std::filesystem::create_directory_symlink("/usr/share/datasets/fashion-mnist", data);
  job_.Set(
      "data", R"({"directory": ")" + data + R"(", "train_samples": 4096, "test_samples": 1000})");
  TrainRun run(job_);
  const auto before = run.WaitForSamples(512);
  ASSERT_TRUE(before.has_value());
  std::filesystem::rename(data, data + ".away");
  ASSERT_EQ(::kill(static_cast<pid_t>(run.CoordinatorPid()), SIGKILL), 0);
  ASSERT_TRUE(WaitUntil([&] { return Contains(run.psctl().Err(), "the run can't go on yet: "); }));
  std::filesystem::rename(data + ".away", data);
  ASSERT_TRUE(AwaitSuccessor(&run, before->samples_counted));
  ExpectNothingRepeated(StopCleanly(&run), 3);
  EXPECT_THAT(run.psctl().Err(), HasSubstr("no step is repeated"));
}

/// Whoever listens there now may be gone in a moment, and the others look for the run nowhere else.
TEST_F(CoordinatorTest, ASuccessorWhosePortAnotherProcessHoldsGoesOnOnceItIsFree) {
  TrainRun run(job_);
  const auto before = run.WaitForSamples(512);
  ASSERT_TRUE(before.has_value());
  const auto address = run.Address();
  ASSERT_TRUE(address.has_value());
  const int64_t coordinator = run.CoordinatorPid();
  run.psctl().Signal(SIGSTOP);
  ASSERT_EQ(::kill(static_cast<pid_t>(coordinator), SIGKILL), 0);
  ASSERT_TRUE(WaitUntil([&] { return !IsAlive(coordinator); }));
  {
    const ListeningSocket other(static_cast<uint16_t>(address->port));
    run.psctl().Signal(SIGCONT);
    ASSERT_TRUE(WaitUntil([&] {
      return Contains(run.psctl().Err(), "the run can't go on yet: run.listen and run.port: ");
    })) << run.psctl().Err();
  }
  ASSERT_TRUE(AwaitSuccessor(&run, before->samples_counted));
  ExpectNothingRepeated(StopCleanly(&run), 3);
  EXPECT_THAT(run.psctl().Err(), HasSubstr("no step is repeated"));
}

/// That would take as long as the text is large, and servers and workers do not wait for ever.
TEST_F(CoordinatorTest, ASuccessorReadsNoTextAgain) {
  const std::string data = job_.folder() + "/data";
  std::filesystem::create_directory(data);
  std::string text;
  while (text.size() < 20'000) {
    text += "In the beginning was the word. ";
  }
  WriteText(data + "/text.txt", text);
  job_.Set("model", R"({"name": "gpt", "depth": 1, "heads": 2, "width": 16})")
      .Set(
          "data",
          R"({"format": "text", "directory": ")" + data +
              R"(", "context": 16, "test_share": 0.1})");
  TrainRun run(job_);
  const auto before = run.WaitForSamples(512);
  ASSERT_TRUE(before.has_value());
  std::filesystem::rename(data, data + ".away");
  ASSERT_EQ(::kill(static_cast<pid_t>(run.CoordinatorPid()), SIGKILL), 0);
  ASSERT_TRUE(AwaitSuccessor(&run, before->samples_counted));
  ExpectNothingRepeated(StopCleanly(&run), 3);
  EXPECT_THAT(run.psctl().Err(), HasSubstr("no step is repeated"));
  EXPECT_THAT(run.psctl().Err(), Not(HasSubstr("the run can't go on yet")));
}

TEST_F(CoordinatorTest, ADetachedRunNeedsNeitherTerminalNorSupervisor) {
  TrainRun run(job_, {.arguments = {"--detach"}});
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  EXPECT_THAT(run.psctl().Out(), AllOf(HasSubstr("psctl attach "), HasSubstr("psctl stop ")));
  const std::string root = run.Root();
  ASSERT_TRUE(WaitUntil([&] {
    const auto status = run.Status();
    return status && status->samples_counted > 0;
  }));
  Process attached(Psctl("attach", {"attach", root}));
  ASSERT_TRUE(WaitUntil([&] { return Contains(attached.Err(), "attached to "); }));

  // Its coordinator is killed: another one goes on. Then its supervisor is: nothing happens.
  const auto restarts = [&] {
    const auto status = run.Status();
    return status ? static_cast<int>(status->journal.restarts) : -1;
  };
  ASSERT_EQ(::kill(static_cast<pid_t>(run.CoordinatorPid()), SIGKILL), 0);
  ASSERT_TRUE(WaitUntil([&] { return restarts() == 1; }));
  const int64_t coordinator = run.CoordinatorPid();
  ASSERT_EQ(::kill(static_cast<pid_t>(ParentOf(coordinator)), SIGKILL), 0);
  ASSERT_TRUE(WaitUntil([&] { return Contains(attached.Err(), "the run goes on"); }));
  EXPECT_TRUE(IsAlive(coordinator));

  EXPECT_EQ(RunToEnd(Psctl("stop", {"stop", root})).end, ProcessEnd{});
  EXPECT_EQ(attached.Wait(), ProcessEnd{});
  EXPECT_THAT(attached.Out(), HasSubstr("stopped after"));
  EXPECT_THAT(ReadText(root + "/run.log"), HasSubstr("another one goes on"));
  run.ExpectNothingLeft();
}

/// No file of the run gets the number of a stream that was closed at the start.
TEST_F(CoordinatorTest, ARunWithoutStandardStreamsIsWatchedOverAndWritesIntoNoOtherFile) {
  TrainRun run(
      job_,
      {.before = {"/bin/sh", "-c", R"(exec "$0" "$@" <&- >&- 2>&-)", ProgramPath("psctl")},
       .arguments = {"--detach"}});
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  const std::string root = run.Root();
  ASSERT_TRUE(WaitUntil([&] {
    const auto status = run.Status();
    return status && status->samples_counted > 0;
  }));
  const int64_t killed = run.CoordinatorPid();
  EXPECT_EQ(ReadText(root + "/psctl.pid"), std::to_string(killed) + "\n");
  ASSERT_EQ(::kill(static_cast<pid_t>(killed), SIGKILL), 0);
  EXPECT_TRUE(WaitUntil([&] {
    const auto status = run.Status();
    return status && status->journal.restarts == 1;
  })) << "nobody started another coordinator";
  EXPECT_EQ(RunToEnd(Psctl("stop", {"stop", root})).end, ProcessEnd{});
  run.ExpectNothingLeft();
}

TEST_F(CoordinatorTest, ADetachedRunThatCannotBeginSaysWhy) {
  job_.Set("run", R"({"directory": "/proc/none"})");
  TrainRun run(job_, {.arguments = {"--detach"}});
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{1});
  EXPECT_THAT(run.psctl().Err(), HasSubstr("run.directory=DIR"));
}

TEST_F(CoordinatorTest, ARunWithoutCoordinatorAndSupervisorIsTakenUpWhileItsServersLive) {
  TrainRun run(job_);
  const auto before = run.WaitForSamples(512);
  ASSERT_TRUE(before.has_value());
  const std::string root = run.Root();
  run.KillCoordinator();
  EXPECT_EQ(run.WaitForEnd(), (ProcessEnd{0, SIGKILL}));
  EXPECT_EQ(run.Children().size(), 5U);
  // A disk that gives no answer for a moment costs no step: before, this went on from a checkpoint.
  const std::filesystem::path current = root + "/journal/CURRENT";
  std::filesystem::rename(current, root + "/CURRENT");
  std::filesystem::create_symlink("CURRENT", current);
  const Output refused = RunToEnd(Psctl("resume", {"resume", root}));
  EXPECT_EQ(refused.end, (ProcessEnd{1, 0}));
  EXPECT_THAT(refused.err, HasSubstr("its journal can't be read now"));
  std::filesystem::rename(root + "/CURRENT", current);
  Process resumed(Psctl("resume", {"resume", root}));
  EXPECT_TRUE(WaitUntil(
      [&] {
        const auto status = run.Status();
        return status && status->samples_counted > before->samples_counted + 512;
      },
      kRunPatience));
  EXPECT_EQ(RunToEnd(Psctl("stop", {"stop", root})).end, ProcessEnd{});
  EXPECT_EQ(resumed.Wait(kRunPatience), ProcessEnd{});
  EXPECT_THAT(
      resumed.Err(),
      AllOf(HasSubstr("going on from the journal of " + root), Not(HasSubstr("checkpoint"))));
  ExpectNothingRepeated(run.Summary(), 3);
  run.ExpectNothingLeft();
}

/// Its journal lacks what others were told.
class JournalBehindTest : public CoordinatorTest {
 protected:
  JournalBehindTest() { job_.Set("checkpoint", R"({"every_s": 0.3})"); }

  void TearDown() override {
    if (has_disk_) {
      ::umount2(job_.runs().c_str(), MNT_DETACH);
    }
  }

  /// Returns once there is something to go on from.
  void Train(TrainRun* run) {
    const auto status =
        run->WaitFor([](const proto::JobStatus& status) { return status.checkpoints.newest >= 2; });
    ASSERT_TRUE(status.has_value());
    root_ = run->Root();
    for (const proto::ShardRow& shard : status->shards) {
      servers_.push_back(shard.pid);
    }
  }

  /// Kills the coordinator, whose supervisor sees that when it is woken.
  void KillBehind(TrainRun* run) const {
    const int64_t coordinator = run->CoordinatorPid();
    run->psctl().Signal(SIGSTOP);
    ASSERT_EQ(::kill(static_cast<pid_t>(coordinator), SIGKILL), 0);
    ASSERT_TRUE(WaitUntil([&] { return !IsAlive(coordinator); }));
    // In place: that takes no space.
    std::fstream mark(root_ + "/journal/MARK", std::ios::in | std::ios::out);
    mark << "behind\n" << std::string(57, '\n');
    ASSERT_TRUE(mark.flush().good());
  }

  /// The run that goes on has a folder of its own, beside the first one's.
  void ExpectAnotherRunGoesOn(TrainRun* run) {
    std::string next;
    ASSERT_TRUE(WaitUntil(
        [&] {
          for (const auto& entry : std::filesystem::directory_iterator(job_.runs())) {
            next = entry.path() == root_ || !entry.is_directory() ? next : entry.path().string();
          }
          return !next.empty() && Contains(ReadText(next + "/metrics.jsonl"), "samples_counted");
        },
        kRunPatience));
    run->psctl().SignalGroup(SIGINT);
    EXPECT_EQ(run->WaitForEnd(), ProcessEnd{});
    EXPECT_THAT(
        run->psctl().Err(),
        AllOf(
            ContainsRegex("its journal is of no use: .*it fell behind"),
            ContainsRegex("ended what was left of it: [0-9]+ of its processes"),
            ContainsRegex("going on from checkpoint [0-9]+ in " + root_)));
    EXPECT_THAT(run->psctl().Out(), HasSubstr("stopped after"));
    run->ExpectNothingLeft();
  }

  std::string root_;
  std::vector<int64_t> servers_;
  bool has_disk_ = false;
};

TEST_F(JournalBehindTest, TheRunGoesOnFromItsNewestCheckpoint) {
  TrainRun run(job_);
  Train(&run);
  KillBehind(&run);
  run.psctl().Signal(SIGCONT);
  ExpectAnotherRunGoesOn(&run);
}

/// What made the journal fall behind, a full disk, lasts for a while longer: neither the checkpoint
/// nor a folder for another run can be written then.
TEST_F(JournalBehindTest, AFullDiskIsWaitedForBeforeAnotherRunGoesOn) {
  std::filesystem::create_directory(job_.runs());
  const testing::AssertionResult mounted = MountSmallDisk(job_.runs(), "size=256m");
  if (!mounted) {
    GTEST_SKIP() << "cannot mount a small disk here: " << mounted.message();
  }
  has_disk_ = true;
  TrainRun run(job_);
  Train(&run);
  KillBehind(&run);
  {
    // They would give back what a checkpoint took that failed.
    std::list<Freeze> frozen;
    for (const int64_t server : servers_) {
      frozen.emplace_back(server);
    }
    const DiskFiller filler(job_.runs() + "/filler");
    run.psctl().Signal(SIGCONT);
    ASSERT_TRUE(WaitUntil(
        [&] { return Contains(run.psctl().Err(), "the run can't go on yet"); }, kRunPatience))
        << run.psctl().Err();
  }
  ExpectAnotherRunGoesOn(&run);
}

TEST_F(CoordinatorTest, OrphansEndThemselves) {
  job_.Set("fleet", R"({"orphan_grace_s": 1})");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(64).has_value());
  run.KillCoordinator();
  run.ExpectNothingLeft();
  EXPECT_THAT(ReadText(run.Root() + "/logs/worker0.log"), HasSubstr("no coordinator for"));
}

}  // namespace
}  // namespace ps::e2e
