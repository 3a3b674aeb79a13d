// How a run ends when it does not end by itself, and that nothing of it stays behind.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

/// Words that start psctl from a script, whose $0 and $@ are its words.
std::vector<std::string> InAShell(const std::string& script) {
  return {"/bin/sh", "-c", script, ProgramPath("psctl")};
}

class EndingTest : public E2eTest {
 protected:
  EndingTest() {
    job_.Set("train", R"({"epochs": 10000, "minibatch": 32, "evaluate_every_epochs": 0})")
        .Set("workers", R"([{"count": 2, "slowdown": 2}])");
  }
};

TEST_F(EndingTest, WithoutCheckpointsALostServerEndsTheRunAndTheMessageSaysWhatToDo) {
  job_.Set("checkpoint", R"({"enabled": false})");
  TrainRun run(job_);
  const auto training = run.WaitForSamples(256);
  ASSERT_TRUE(training.has_value());
  ASSERT_EQ(training->shards.size(), 2U);
  ASSERT_EQ(::kill(static_cast<pid_t>(training->shards[1].pid), SIGKILL), 0);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{1});
  EXPECT_THAT(run.psctl().Err(), ContainsRegex("server 1 .*killed by signal 9"));
  const std::string all = run.psctl().Err() + run.psctl().Out();
  EXPECT_THAT(all, HasSubstr("start the job again"));
  const Json summary = run.Summary();
  EXPECT_EQ(summary["state"].text(), "failed");
  EXPECT_THAT(summary["detail"].text(), ContainsRegex("^server 1 "));
  run.ExpectNothingLeft();
}

TEST_F(EndingTest, AServerThatStopsAnsweringEndsTheRunToo) {
  job_.Set("checkpoint", R"({"enabled": false})");
  job_.Set("fleet", R"({"max_detect_s": 2})").Set("servers", R"({"count": 2, "max_detect_s": 2})");
  TrainRun run(job_);
  const auto training = run.WaitForSamples(256);
  ASSERT_TRUE(training.has_value());
  ASSERT_EQ(::kill(static_cast<pid_t>(training->shards[0].pid), SIGSTOP), 0);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{1});
  EXPECT_THAT(
      run.Summary()["detail"].text(), ContainsRegex("^server 0 .*does not answer: no heartbeat"));
  run.ExpectNothingLeft();
}

TEST_F(EndingTest, AServerThatStandsStillForAWhileIsWaitedFor) {
  job_.Set("fleet", R"({"max_detect_s": 1})");
  TrainRun run(job_);
  const auto training = run.WaitForSamples(256);
  ASSERT_TRUE(training.has_value());
  const auto pid = static_cast<pid_t>(training->shards[0].pid);
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  const auto waiting = run.WaitFor([](const proto::JobStatus& status) {
    return std::ranges::any_of(status.waits, [](const proto::Wait& wait) {
      return wait.for_whom == "shard 0" && wait.what == "a heartbeat" && wait.since_s > 3;
    });
  });
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  ASSERT_TRUE(waiting.has_value());
  EXPECT_EQ(waiting->state, proto::RunState::kWaiting);
  EXPECT_TRUE(WaitUntil([&] { return Contains(run.psctl().Err(), "training goes on"); }));
  StopCleanly(&run);
  EXPECT_THAT(run.psctl().Err(), HasSubstr("waiting: server 0 does not answer"));
}

TEST_F(EndingTest, WorkersThatAllFailByThemselvesEndTheRunWithTheirReason) {
  // Too short for its header, which psctl has read and believes.
  const std::string data = folder_ / "data";
  std::filesystem::create_directory(data);
  for (const auto& file :
       std::filesystem::directory_iterator("/usr/share/datasets/fashion-mnist")) {
    std::filesystem::copy(file, data);
  }
  for (const auto& file : std::filesystem::directory_iterator(data)) {
    if (Contains(file.path().filename(), "train-images")) {
      std::filesystem::permissions(
          file, std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
      std::filesystem::resize_file(file, 1'000'000);
    }
  }
  job_.Set("data", R"({"directory": ")" + data + R"("})");
  TrainRun run(job_);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{1});
  EXPECT_THAT(
      run.Summary()["detail"].text(),
      ContainsRegex("^every worker failed: .*train-images.*worker 0, worker 1"));
  EXPECT_EQ(run.Summary()["revocations_unnoticed"].number(), 0);
  run.ExpectNothingLeft();
}

TEST_F(EndingTest, ARunThatDivergesFailsAndSaysWhatToDo) {
  job_.Set("optimizer", R"({"kind": "sgd", "lr": 100})");
  TrainRun run(job_);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{1});
  EXPECT_THAT(
      run.Summary()["detail"].text(),
      ContainsRegex("^training diverged: .*smaller optimizer.lr \\(it is 100\\)"));
  EXPECT_LT(run.Summary()["samples_counted"].number(), 100000) << "it went on in vain";
  run.ExpectNothingLeft();
}

TEST_F(EndingTest, CtrlCEndsTheRunAfterTheStepsInHand) {
  TrainRun run(job_, {.arguments = {"--json"}});
  ASSERT_TRUE(run.WaitForSamples(256).has_value());
  run.psctl().SignalGroup(SIGINT);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  const Json summary = run.Summary();
  EXPECT_EQ(summary["state"].text(), "stopped");
  EXPECT_GT(summary["samples_counted"].number(), 0);
  EXPECT_EQ(summary["steps_lost"].number(), 0);
  EXPECT_EQ(summary["revocations_unnoticed"].number(), 0);
  EXPECT_THAT(run.psctl().Err(), HasSubstr("ending after the steps in hand"));
  EXPECT_EQ(run.psctl().Out(), ReadText(run.Root() + "/summary.json"));
  run.ExpectNothingLeft();
}

/// As with `nohup psctl train`.
TEST_F(EndingTest, ARunThatIgnoresHangupsFromItsStartOutlivesItsTerminal) {
  TrainRun run(job_, {.before = InAShell("trap '' HUP; exec \"$0\" \"$@\"")});
  const auto training = run.WaitForSamples(256);
  ASSERT_TRUE(training.has_value());
  run.psctl().SignalGroup(SIGHUP);
  EXPECT_TRUE(run.WaitForSamples(training->samples_counted + 2048).has_value());
  run.psctl().SignalGroup(SIGTERM);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  EXPECT_EQ(run.Summary()["state"].text(), "stopped");
  run.ExpectNothingLeft();
}

TEST_F(EndingTest, CtrlCTwiceEndsTheRunAtOnce) {
  // With a worker that does not answer, the clean way would take its time.
  job_.Set("fleet", R"({"max_detect_s": 60})");
  TrainRun run(job_);
  const auto training = run.WaitForSamples(256);
  ASSERT_TRUE(training.has_value());
  ::kill(static_cast<pid_t>(Alive(*training).front().pid), SIGSTOP);
  run.psctl().SignalGroup(SIGINT);
  ASSERT_TRUE(WaitUntil([&] {
    return Contains(run.psctl().Err(), "ending after the steps in hand; once more ends at once");
  }));
  EXPECT_TRUE(run.psctl().IsRunning());
  const TimePoint again = SystemTime().Now();
  run.psctl().SignalGroup(SIGINT);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{1});
  EXPECT_LT(Seconds(SystemTime().Now() - again), 10);
  run.ExpectNothingLeft();
}

TEST_F(EndingTest, CtrlCBeforeTrainingBeginsIsCleanToo) {
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitFor([](const proto::JobStatus&) { return true; }).has_value());
  run.psctl().SignalGroup(SIGINT);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  run.ExpectNothingLeft();
}

class FolderGoneTest : public EndingTest {
 protected:
  /// Somebody clears the folder of runs.
  static void Remove(const std::string& root) {
    EXPECT_TRUE(WaitUntil([&] {
      std::error_code error;
      std::filesystem::remove_all(root, error);
      return !std::filesystem::exists(root);
    }));
  }

  /// Of what people look for it either has left a file, or said that it could not.
  static void ExpectFailure(TrainRun* run, const std::string& root) {
    EXPECT_TRUE(run->psctl().IsRunning()) << run->psctl().Err();
    run->psctl().SignalGroup(SIGINT);
    EXPECT_EQ(run->WaitForEnd(), ProcessEnd{1});
    EXPECT_THAT(
        run->psctl().Err(),
        HasSubstr("the folder of the run was removed, or moved away, while it trained: "));
    EXPECT_THAT(run->psctl().Out(), HasSubstr("stopped after"));
    for (const std::string name : {"model.safetensors", "summary.json", "summary.txt"}) {
      EXPECT_TRUE(
          std::filesystem::exists(root + "/" + name) ||
          Contains(run->psctl().Err(), "cannot write " + root + "/" + name))
          << name << ": " << run->psctl().Err();
    }
    run->ExpectNothingLeft();
  }
};

TEST_F(FolderGoneTest, ARunThatHasACheckpointEndsWithFailureAndNamesWhatItCouldNotWrite) {
  job_.Set("checkpoint", R"({"every_s": 600})");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitFor([](const proto::JobStatus& s) { return s.checkpoints.newest > 0; }));
  const std::string root = run.Root();
  Remove(root);
  ExpectFailure(&run, root);
  EXPECT_THAT(run.psctl().Err(), HasSubstr("the model was not saved: "));
  EXPECT_THAT(run.psctl().Out(), ContainsRegex("model +not saved: "));
}

/// Its servers make the folder anew when they write to it for the first time.
TEST_F(FolderGoneTest, ARunWithoutACheckpointEndsWithFailureToo) {
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(1).has_value());
  const std::string root = run.Root();
  Remove(root);
  ExpectFailure(&run, root);
}

TEST_F(EndingTest, ARunEndsCleanlyWhenItsSupervisorIsKilled) {
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(256).has_value());
  EXPECT_EQ(run.Children().size(), 4U);
  run.psctl().Signal(SIGKILL);
  EXPECT_EQ(run.WaitForEnd(), (ProcessEnd{0, SIGKILL}));
  run.ExpectNothingLeft();
  EXPECT_TRUE(WaitUntil([&] { return !IsAlive(run.CoordinatorPid()); }));
  EXPECT_EQ(run.Summary()["state"].text(), "stopped");
}

/// Writes zeros of `type` as an array of numpy; the file has holes.
void WriteZeros(const std::string& path, const std::string& type, size_t bytes, std::string shape) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize(117, ' ');
  std::ofstream(path, std::ios::binary)
      << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header << '\n';
  std::filesystem::resize_file(path, 128 + bytes);
}

TEST_F(EndingTest, MuchDataWithAValueThatCantBeTrainedOnEndsTheRunAndTheMessageSaysWhere) {
  // So much that only a part of it is looked at before the run, and not this place.
  constexpr size_t kSamples = 30000;
  constexpr size_t kValues = 784;
  constexpr size_t kBad = 12345;
  const std::string data = folder_.path() + "/data";
  std::filesystem::create_directory(data);
  const std::string inputs = data + "/train-inputs.npy";
  WriteZeros(inputs, "<f4", kSamples * kValues * 4, "30000, 784");
  WriteZeros(data + "/train-labels.npy", "|u1", kSamples, "30000,");
  WriteZeros(data + "/test-inputs.npy", "<f4", kValues * 4 * 10, "10, 784");
  WriteZeros(data + "/test-labels.npy", "|u1", 10, "10,");
  for (const char* set : {"train", "test"}) {
    std::fstream labels(data + "/" + set + "-labels.npy", std::ios::in | std::ios::out);
    labels.seekp(128 + 3).put(9);
  }
  std::fstream(inputs, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(128 + 4 * kValues * kBad)
      .write("\x00\x00\xc0\x7f", 4);
  job_.Set("data", R"({"format": "npy", "directory": ")" + data + "\"}")
      .Set("model", R"({"layers": [{"kind": "linear", "out": 10}]})")
      .Set("train", R"({"epochs": 2, "minibatch": 64, "evaluate_every_epochs": 0})")
      .Set("workers", R"([{"count": 2}])");
  TrainRun::Options options;
  options.is_replacing = true;
  TrainRun run(job_, options);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{1});
  EXPECT_THAT(
      run.Summary()["detail"].text(),
      ::testing::AllOf(
          HasSubstr("the data can't be trained on: " + inputs),
          HasSubstr("value 0 of sample 12345 is nan"),
          HasSubstr("look at all of it with psctl check, and resume")));
  run.ExpectNothingLeft();
}

TEST_F(EndingTest, AWorkerStartedByHandLeavesWhenPsctlIsKilled) {
  job_.Set("fleet", R"({"max_detect_s": 0.5})");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(256).has_value());
  const auto worker = run.StartWorker();
  ASSERT_TRUE(run.WaitFor([](const proto::JobStatus& status) { return Alive(status).size() == 3; })
                  .has_value());
  run.psctl().Signal(SIGKILL);
  EXPECT_TRUE(worker->Wait().has_value()) << "it goes on without a coordinator";
}

}  // namespace
}  // namespace ps::e2e
