// Programs of others as workers: in C, and in Python without PyTorch. torch_test.cc has PyTorch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tests/e2e/support/elsewhere.h"
#include "tests/e2e/support/script_fixture.h"
#include "tests/e2e/support/socket.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(ScriptTest, AProgramInCLearnsALineInEveryMode) {
  for (const std::string mode : {"async", "ssp", "bsp"}) {
    TemporaryFolder folder;
    SetC();
    Job job = job_.CopyIn(folder.path());
    job.Set("train", R"({"epochs": 10, "minibatch": 20, "mode": ")" + mode + R"("})");
    TrainRun run(job);
    ASSERT_EQ(run.WaitForEnd(), ProcessEnd{}) << run.psctl().Err();
    run.ExpectExactLedger();
    const Json summary = run.Summary();
    EXPECT_EQ(summary["samples_counted"].number(), 40000);
    EXPECT_GT(summary["test_accuracy"].number(), 0.9);
    EXPECT_LT(summary["test_loss"].number(), 1e-3);
    ExpectLearned(run);
    run.ExpectNothingLeft();
  }
}

TEST_F(ScriptTest, AProgramInPythonIsKilledAndEverySampleCountsOnce) {
  SetPython(R"(, "0.01")");
  job_.Set("train", R"({"epochs": 100000, "minibatch": 20, "evaluate_every_epochs": 0})");
  TrainRun run(job_, {.is_replacing = true});
  const auto training = run.WaitForSamples(400);
  ASSERT_TRUE(training.has_value()) << run.psctl().Err();
  const std::vector<proto::WorkerRow> alive = Alive(*training);
  ASSERT_FALSE(alive.empty());
  ::kill(static_cast<pid_t>(alive[0].pid), SIGKILL);
  ASSERT_TRUE(run.WaitFor([](const proto::JobStatus& status) {
    return status.revocations_unnoticed == 1 && Alive(status).size() == 2 &&
           status.samples_counted >= 16000;  // four epochs
  })) << run.psctl().Err();
  const Json summary = StopCleanly(&run);
  EXPECT_EQ(summary["revocations_unnoticed"].number(), 1);
  EXPECT_EQ(summary["ledger"][0]["samples_counted"].number(), 4000) << "the epoch of the kill";
  ExpectLearned(run);
}

/// Python's subprocess closes all files but the standard ones, as launchers written in it do.
TEST_F(ScriptTest, AProgramMayBeStartedByAWrapperThatClosesFiles) {
  const std::string wrapper = folder_ / "wrap.py";
  WriteText(wrapper, "import subprocess, sys\nsys.exit(subprocess.call(sys.argv[1:]))\n");
  SetProgram(R"("/usr/bin/python3", ")" + wrapper + R"(", ")" + PS_LINEAR + '"');
  job_.Set("train", R"({"epochs": 10, "minibatch": 20})");
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{}) << run.psctl().Err();
  run.ExpectExactLedger();
  ExpectLearned(run);
}

TEST_F(ScriptTest, AJobMayUseFewerSamplesThanAProgramHas) {
  SetC();
  job_.Set("data", R"({"train_samples": 1000, "test_samples": 50})")
      .Set("train", R"({"epochs": 20, "minibatch": 20})");
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{}) << run.psctl().Err();
  run.ExpectExactLedger();
  EXPECT_EQ(run.Summary()["samples_counted"].number(), 20000);
  ExpectLearned(run);
}

/// A worker, a server and the coordinator are killed by turns, and the program has no line for it.
TEST_F(ScriptTest, EveryKindOfProcessIsKilledByTurnsAndEverySampleCountsOnce) {
  SetPython(R"(, "0.01")");
  job_.SetEndless()
      .Set("fleet", R"({"max_detect_s": 1})")
      .Set("servers", R"({"count": 2})")
      .Set("checkpoint", R"({"every_s": 0.3})");
  TrainRun run(job_, {.is_replacing = true});
  auto before = run.WaitFor([](const proto::JobStatus& status) {
    return status.checkpoints.newest > 0 && status.samples_counted >= 400;
  });
  ASSERT_TRUE(before.has_value()) << run.psctl().Err();
  ::kill(static_cast<pid_t>(Alive(*before)[0].pid), SIGKILL);
  before = run.WaitFor([](const proto::JobStatus& status) {
    return status.revocations_unnoticed == 1 && Alive(status).size() == 2;
  });
  ASSERT_TRUE(before.has_value()) << "no worker came in its place";
  ::kill(static_cast<pid_t>(before->shards[1].pid), SIGKILL);
  const auto after = run.WaitFor([&](const proto::JobStatus& status) {
    return status.shards[1].state == proto::ShardRowState::kReady &&
           status.shards[1].pid != before->shards[1].pid;
  });
  ASSERT_TRUE(after.has_value()) << "no server came in its place";
  ASSERT_TRUE(run.WaitForSamples(after->samples_counted + 400)) << "training does not go on";
  const auto coordinator = static_cast<pid_t>(run.CoordinatorPid());
  ::kill(coordinator, SIGKILL);
  ASSERT_TRUE(
      WaitUntil([&] { return run.CoordinatorPid() > 0 && run.CoordinatorPid() != coordinator; }));
  const auto last = run.WaitFor([](const proto::JobStatus&) { return true; });
  ASSERT_TRUE(last.has_value());
  ASSERT_TRUE(run.WaitForSamples(last->samples_counted + 400)) << "training does not go on";
  StopCleanly(&run);
}

TEST_F(ScriptTest, AProgramBeginsWithTheModelOfAnotherRun) {
  SetC();
  TrainRun first(job_);
  ASSERT_EQ(first.WaitForEnd(), ProcessEnd{}) << first.psctl().Err();
  const std::string model = first.Root() + "/model.safetensors";
  TemporaryFolder folder;
  Job next = job_.CopyIn(folder.path());
  next.Set("optimizer", R"({"kind": "sgd", "lr": 1e-9})")
      .Set("train", R"({"epochs": 1, "minibatch": 20})")
      .Set("model", R"({"from": ")" + model + R"("})");
  TrainRun second(next);
  ASSERT_EQ(second.WaitForEnd(), ProcessEnd{}) << second.psctl().Err();
  const std::vector<float> learned = ModelOf(first, 3);
  const std::vector<float> kept = ModelOf(second, 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(kept[i], learned[i], 1e-5);
  }
  // Another model than the file's is refused before anything starts.
  next.Set("worker", R"({"program": [")" + std::string(PS_LINEAR) + R"(", "3"]})");
  next.Write();
  EXPECT_THAT(
      Psctl({"check", next.path()}).err,
      AllOf(HasSubstr("model.from"), HasSubstr("weight"), HasSubstr("[2]"), HasSubstr("[5]")));
}

TEST_F(ScriptTest, AProgramIsDrainedAndHandsOverWhatItHas) {
  SetPython(R"(, "0.01")");
  job_.SetEndless().Set("exchange", R"({"push": "int8"})");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(400).has_value()) << run.psctl().Err();
  ASSERT_EQ(Psctl({"drain", "0", run.Root()}).end, ProcessEnd{});
  EXPECT_TRUE(
      run.WaitFor([](const proto::JobStatus& status) { return Alive(status).size() == 1; }));
  EXPECT_THAT(ReadText(run.Root() + "/logs/worker0.log"), HasSubstr("held_back_goes_along"));
  const auto told = run.WaitFor([](const proto::JobStatus& status) {
    return !status.figures.empty() && status.figures[0].value > 0;
  });
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->figures[0].name, "share right");
  EXPECT_LE(told->figures[0].value, 1);
  EXPECT_THAT(Psctl({"status", run.Root()}).out, HasSubstr("figures      share right "));
  const Json summary = StopCleanly(&run);
  EXPECT_EQ(summary["steps_lost"].number(), 0);
}

TEST_F(ScriptTest, AnEncryptedRunOfAProgramIsScaledUpAndDown) {
  SetPython(R"(, "0.01")");
  job_.SetEndless(R"("lr_policy": "fixed")")  // four epochs at the whole rate
      .Set("run", R"({"directory": ")" + job_.runs() + R"(", "tls": "on"})")
      .Set("servers", R"({"count": 1})")
      .Set("workers", R"([{"count": 1}])");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(200).has_value()) << run.psctl().Err();
  const RawConnection raw(*run.Address());
  proto::Hello hello;
  hello.role = proto::Role::kWorker;
  hello.token = run.Token();
  raw.Send(hello);
  const auto refusal = raw.Receive();
  ASSERT_TRUE(refusal.has_value());
  EXPECT_THAT(std::get<proto::Refusal>(*refusal).message, HasSubstr("encrypted"));

  const struct {
    const char* wish;
    size_t workers;
  } scalings[] = {{"workers=3", 3}, {"servers=2", 3}, {"workers=1", 1}, {"servers=1", 1}};

  for (const auto& [wish, workers] : scalings) {
    const Output scaled = Psctl({"scale", run.Root(), wish, "--wait"});
    ASSERT_EQ(scaled.end, ProcessEnd{}) << wish << ": " << scaled.err;
    const auto there = run.WaitFor(
        [&](const proto::JobStatus& status) { return Alive(status).size() == workers; });
    ASSERT_TRUE(there.has_value()) << wish;
    ASSERT_TRUE(run.WaitForSamples(there->samples_counted + 200)) << wish;
  }
  ASSERT_TRUE(run.WaitForSamples(16000)) << "four epochs";
  StopCleanly(&run);
  ExpectLearned(run);
}

TEST_F(ScriptTest, WhatAProgramRaisesIsShownBeforeAnythingStarts) {
  WriteText(folder_ / "broken.py", "raise RuntimeError('no such data')\n");
  SetProgram(R"("/usr/bin/python3", ")" + (folder_ / "broken.py") + '"');
  job_.Write();
  const Output output = Psctl({"train", job_.path()});
  EXPECT_EQ(output.end.code, 2);
  EXPECT_THAT(
      output.err,
      AllOf(
          HasSubstr("worker.program exited with code 1 without saying what it trains"),
          HasSubstr("RuntimeError: no such data")));
  SetProgram(R"("/no/such/program")");
  job_.Write();
  EXPECT_THAT(
      Psctl({"check", job_.path()}).err,
      HasSubstr("worker.program cannot start \"/no/such/program\" in"));
}

TEST_F(ScriptTest, AnExceptionInTheLoopIsTheWorkersFailureWithItsLastLine) {
  SetPython(R"(, "0", "fail")");
  TrainRun run(job_);
  ASSERT_TRUE(WaitUntil([&run] {
    return Contains(run.psctl().Err(), "ValueError: this script was told to fail");
  })) << run.psctl().Err();
  EXPECT_THAT(
      run.psctl().Err(), HasSubstr("exited with code 1; its log ends: ValueError: this script"));
  EXPECT_TRUE(WaitUntil([&run] {
    return Contains(
        run.psctl().Err(),
        "failed after 80 samples: exited with code 1: ValueError: this script was told to fail");
  })) << run.psctl().Err();
  run.psctl().Signal(SIGINT);
  run.WaitForEnd();
  EXPECT_EQ(run.Summary()["revocations_unnoticed"].number(), 0) << "nobody took it away";
}

TEST_F(ScriptTest, WhatAProgramDoesAfterItsLoopIsWaitedForAndTold) {
  SetPython(R"(, "0", "linger")");
  job_.Set("workers", R"([{"count": 1}])").Set("train", R"({"epochs": 1, "minibatch": 20})");
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{}) << run.psctl().Err();
  EXPECT_THAT(
      run.psctl().Err(),
      HasSubstr("the job is over, and worker.program is still at work after its loop"));
  EXPECT_THAT(ReadText(run.Root() + "/logs/worker0.log"), HasSubstr("this script was let finish"));
}

TEST_F(ScriptTest, AProgramThatEndsBeforeTheJobHasFailed) {
  SetPython(R"(, "0.01", "stop")");
  job_.Set("workers", R"([{"count": 1}])").Set("train", R"({"epochs": 1, "minibatch": 20})");
  TrainRun run(job_, {.is_replacing = true});
  ASSERT_TRUE(WaitUntil([&run] {
    return Contains(
        run.psctl().Err(), "failed after 80 samples: exited with code 0: this script has enough");
  })) << run.psctl().Err();
  ASSERT_TRUE(run.WaitForSamples(160).has_value()) << "it is replaced: " << run.psctl().Err();
  run.psctl().Signal(SIGINT);
  run.WaitForEnd();
  EXPECT_EQ(run.Summary()["revocations_unnoticed"].number(), 0);
  EXPECT_EQ(run.Summary()["revocations_noticed"].number(), 0);
}

TEST_F(ScriptTest, AProgramWithAnotherModelIsToldTheFirstTensorThatDiffers) {
  SetPython(R"(, "0.01")");
  job_.SetEndless().Set("workers", R"([{"count": 1}])");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(100).has_value()) << run.psctl().Err();
  const auto odd =
      run.StartWorker({"--program", '[' + ('"' + std::string(PS_LINEAR)) + "\", \"3\"]"});
  const auto end = odd->Wait();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code, 1);
  EXPECT_THAT(
      odd->Err(),
      HasSubstr("tensor 0 is weight of shape [5] here and weight of shape [2] in the job"));
  const auto ours = run.StartWorker();
  ASSERT_TRUE(ours->Wait().has_value());
  EXPECT_THAT(ours->Err(), HasSubstr("start ps_worker with --program"));
  StopCleanly(&run);
}

TEST_F(ScriptTest, ARunOfAProgramIsResumedFromItsCheckpoint) {
  SetPython(R"(, "0.01")");
  job_.SetEndless().Set("checkpoint", R"({"every_s": 0.5})");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(2000).has_value()) << run.psctl().Err();
  const size_t epochs = StopCleanly(&run)["ledger"].size() + 1;
  const Output resumed =
      Psctl({"resume", run.Root(), "--json", "--set", "train.epochs=" + std::to_string(epochs)});
  ASSERT_EQ(resumed.end, ProcessEnd{}) << resumed.err;
  const auto summary = Json::Parse(resumed.out);
  ASSERT_TRUE(summary.has_value()) << resumed.out;
  EXPECT_EQ((*summary)["samples_counted"].number(), static_cast<double>(4000 * epochs));
}

TEST_F(ScriptTest, AFrozenTensorIsInTheModelAndNeverTravels) {
  SetPython(R"(, "0", "frozen")");
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{}) << run.psctl().Err();
  const std::vector<float> model = ModelOf(run, 5);
  EXPECT_NEAR(model[0], 3, 0.05);
  EXPECT_EQ(model[3], 4.5F);
  EXPECT_EQ(model[4], 5.5F);
  const Json summary = run.Summary();
  const double bytes_of_all = summary["steps_counted"].number() * 5 * sizeof(float);
  EXPECT_LT(summary["bytes_pushed"].number(), bytes_of_all);
  // Such a file is one to begin with, and a run that is resumed leaves it as well.
  TemporaryFolder folder;
  Job next = job_.CopyIn(folder.path());
  next.SetEndless("").Set("model", R"({"from": ")" + run.Root() + R"(/model.safetensors"})");
  TrainRun second(next);
  ASSERT_TRUE(second.WaitForSamples(200).has_value()) << second.psctl().Err();
  StopCleanly(&second);
  const std::string exported = folder / "exported.safetensors";
  const Output written = Psctl({"checkpoint", "export", "newest", exported, second.Root()});
  ASSERT_EQ(written.end, ProcessEnd{}) << written.err;
  EXPECT_THAT(LastValuesOf(exported, 2), testing::ElementsAre(4.5F, 5.5F));
  const Output resumed = Psctl(
      {"resume", second.Root(), "--set", "run.seconds_max=1", "run.directory=" + job_.runs()});
  ASSERT_EQ(resumed.end, ProcessEnd{}) << resumed.err;
  EXPECT_THAT(ModelOf(second, 2), testing::ElementsAre(4.5F, 5.5F));
}

class FrozenTest : public ScriptTest, public testing::WithParamInterface<const char*> {};

TEST_P(FrozenTest, AWorkerOrAResumedRunWithOtherValuesIsRefused) {
  const std::string words = std::string(R"(, "0.01", ")") + GetParam() + "\"";
  SetPython(words);
  job_.SetEndless().Set("workers", R"([{"count": 1}])").Set("checkpoint", R"({"every_s": 0.5})");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(100).has_value()) << run.psctl().Err();
  const std::string program =
      R"(["/usr/bin/python3", ")" PS_E2E_SOURCE_DIR R"(/programs/linear.py")";
  const auto same = run.StartWorker({"--program", program + words + "]"});
  const auto odd = run.StartWorker({"--program", program + words + R"(, "other"])"});
  const auto end = odd->Wait();
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code, 1);
  EXPECT_THAT(
      odd->Err(), HasSubstr("its values of what nobody trains are not those of the run (CRC "));
  EXPECT_TRUE(
      run.WaitFor([](const proto::JobStatus& status) { return status.checkpoints.newest > 0; })
          .has_value());
  EXPECT_TRUE(same->IsRunning()) << "its values are the run's";
  StopCleanly(&run);
  const Output resumed =
      Psctl({"resume", run.Root(), "--set", "worker.program=" + program + words + R"(, "other"])"});
  EXPECT_EQ(resumed.end, ProcessEnd{2}) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("other values than before for what nobody trains"));
}

INSTANTIATE_TEST_SUITE_P(Types, FrozenTest, testing::Values("frozen", "int8"));

/// What the job leaves to the program counts in a profile and in a plan, too.
TEST_F(ScriptTest, AProgramIsProfiledPlannedAndRunByThePlan) {
  SetC();
  job_.Set("workers", R"([{"count": 2, "step_ms": 10}])")
      .Set("servers", R"({"count": 1})")
      .Set("fleet", R"({"max_detect_s": 1})");
  job_.Write();
  const std::string profile = folder_ / "profile.json";
  const std::string plan = folder_ / "plan.json";
  const Output profiled =
      Psctl({"profile", job_.path(), "-o", profile, "--seconds", "3", "--curve-seconds", "0"});
  ASSERT_EQ(profiled.end, ProcessEnd{}) << profiled.err;
  const Output planned = Psctl(
      {"plan",
       job_.path(),
       "--profile",
       profile,
       "--catalog",
       std::filesystem::absolute("configs/catalog/this_machine.json").string(),
       "--quota",
       "local=4",
       "--objective",
       "throughput-per-hour",
       "--price-per-hour",
       "100",
       "-o",
       plan});
  ASSERT_EQ(planned.end, ProcessEnd{}) << planned.err;
  EXPECT_THAT(planned.out + planned.err, Not(HasSubstr("trains otherwise")));
  TrainRun run(job_, {.arguments = {"--plan", plan}});
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{}) << run.psctl().Err();
  run.ExpectExactLedger();
}

class ScriptElsewhereTest : public ElsewhereTest {
 protected:
  void UseProgram() {
    job_.Drop("model").Drop("data").Set("optimizer", R"({"kind": "sgd", "lr": 0.1})");
    job_.SetEndless().Set("worker", R"({"program": [")" + std::string(PS_LINEAR) + R"("]})");
  }
};

TEST_F(ScriptElsewhereTest, AProgramOverSshIsReplacedOnAnotherHost) {
  Open("sshd.sh");
  if (IsSkipped()) {
    return;
  }
  UseSsh();
  UseProgram();
  TrainRun run(job_, options_);
  const proto::WorkerRow worker = AwaitWorker(&run);
  ::kill(SshdOf(worker.pid), SIGKILL);
  ExpectReplacedAndStop(&run, worker.pid);
}

TEST_F(ScriptElsewhereTest, AProgramInAJobOfSlurmIsReplacedByAnotherJob) {
  Open("slurm.sh");
  if (IsSkipped()) {
    return;
  }
  UseSlurm();
  UseProgram();
  TrainRun run(job_, options_);
  const proto::WorkerRow worker = AwaitWorker(&run);
  Shell(
      folder_, "squeue --noheader --format='%i %j' | awk '/-worker0-/ {print $1}' | xargs scancel");
  ExpectReplacedAndStop(&run, worker.pid);
}

}  // namespace
}  // namespace ps::e2e
