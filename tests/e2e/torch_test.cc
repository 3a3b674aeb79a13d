// PyTorch scripts as workers, where it is there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/e2e/support/script_fixture.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// To import PyTorch takes seconds, and minutes on a machine that does much else.
constexpr Duration kTorchPatience = std::chrono::minutes(8);

class TorchTest : public ScriptTest {
 protected:
  void SetUp() override {
    ScriptTest::SetUp();
    const char* const told = std::getenv("SPOTPS_TORCH_PYTHON");
    python_ = told == nullptr ? "/usr/bin/python3" : told;
    const Output found = RunToEnd(
        {.program = "/usr/bin/env",
         .arguments = {"-u", "LD_PRELOAD", python_, "-c", "import torch"},
         .output_stem = folder_ / "torch"},
        kTorchPatience);
    job_.Set("fleet", R"({"max_detect_s": 5, "join_timeout_s": 400})");
    if (found.end.code != 0) {
      GTEST_SKIP() << python_ << " has no PyTorch: pip install torch, and name that python3 in "
                   << "SPOTPS_TORCH_PYTHON";
    }
  }

  void SetTorch(const std::string& words, const std::string& script = "small_net.py") {
    SetProgram(
        '"' + python_ + R"(", ")" PS_E2E_SOURCE_DIR "/programs/" + script + '"',
        words.empty() ? "" : ", " + words);
  }

  /// One of these scripts to its end, without a job.
  Output RunTorch(const std::string& script, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), PS_E2E_SOURCE_DIR "/programs/" + script);
    return RunToEnd(
        {.program = python_,
         .arguments = std::move(arguments),
         .directory = folder_.path(),
         .output_stem = folder_ / "script"},
        kTorchPatience);
  }

  std::string python_;
  std::string model_;  // bytes of a file
};

TEST_F(TorchTest, OneWorkerInBspWithSgdHasTheBitsOfPlainPyTorch) {
  // The script leaves its parameters after each step, once as a worker and once by itself.
  job_.Drop("optimizer")
      .Set("train", R"({"epochs": 1, "minibatch": 16, "mode": "bsp"})")
      .Set("servers", R"({"count": 1})")
      .Set("workers", R"([{"count": 1}])");
  for (const std::string how : {"", R"(, "--early")"}) {
    SetTorch('"' + (folder_ / "worker.pt") + '"' + how);
    TrainRun run(job_);
    ASSERT_EQ(run.WaitForEnd(kTorchPatience), ProcessEnd{}) << run.psctl().Err();
    run.ExpectExactLedger();
    const Output compared = RunTorch(
        "small_net.py", {"--compare", folder_ / "worker.pt", run.Root() + "/model.safetensors"});
    EXPECT_EQ(compared.end, ProcessEnd{}) << how << compared.out << compared.err;
  }
}

/// 9 samples are left of each epoch, for four batches that the script counts.
TEST_F(TorchTest, FourBatchesAreOneStepWhateverIsLeftOfAnEpoch) {
  job_.Drop("optimizer")
      .Set("train", R"({"epochs": 6, "minibatch": 16})")
      .Set("data", R"({"train_samples": 633})")
      .Set("workers", R"([{"count": 1}])");
  SetTorch('"' + (folder_ / "parts.pt") + R"(", "--parts")");
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(kTorchPatience), ProcessEnd{}) << run.psctl().Err();
  run.ExpectExactLedger();
  const Json summary = run.Summary();
  EXPECT_EQ(summary["samples_counted"].number(), 6 * 633);
  EXPECT_EQ(summary["steps_counted"].number(), 6 * 40);
  EXPECT_GT(summary["test_accuracy"].number(), 0.7);
}

/// Floats of tied_net.py that the servers train or average, without and with its mask.
constexpr double kTiedFloats = 32 * 8 + 4 * 8;
constexpr double kTiedFloatsWithMask = kTiedFloats + 64 * 64;

TEST_F(TorchTest, TiedWeightsAndConstantsAreInTheModelAndConstantsTravelOnce) {
  for (const std::string mode : {"async", "bsp"}) {
    TemporaryFolder folder;
    SetTorch("", "tied_net.py");
    Job job = job_.CopyIn(folder.path());
    job.Drop("optimizer")
        .Set("train", R"({"epochs": 4, "minibatch": 16, "mode": ")" + mode + "\"}");
    TrainRun run(job);
    ASSERT_EQ(run.WaitForEnd(kTorchPatience), ProcessEnd{}) << run.psctl().Err();
    run.ExpectExactLedger();
    const Output compared =
        RunTorch("tied_net.py", {"--compare", run.Root() + "/model.safetensors"});
    EXPECT_EQ(compared.end, ProcessEnd{}) << mode << ": " << compared.out << compared.err;
    const Json summary = run.Summary();
    const double steps = summary["steps_counted"].number();
    ASSERT_GE(steps, 160);
    EXPECT_LT(summary["bytes_pushed"].number(), steps * kTiedFloats * sizeof(float) * 1.1) << mode;
    double pulled = 0;
    for (size_t worker = 0; worker < 2; ++worker) {
      pulled += summary["workers"][worker]["bytes_pulled"].number();
    }
    EXPECT_LT(pulled, (2 * kTiedFloatsWithMask + steps * kTiedFloats) * sizeof(float) * 1.5)
        << mode;
    model_ = ReadText(run.Root() + "/model.safetensors");
  }
  // Such a file is one to begin with, by either name of what is tied.
  WriteText(folder_ / "both.safetensors", model_);
  job_.Drop("optimizer").Set("workers", R"([{"count": 1}])");
  const auto check = [&](const std::string& file) {
    job_.Set("model", R"({"from": ")" + (folder_ / file) + "\"}").Write();
    return Psctl({"check", job_.path()});
  };
  EXPECT_EQ(check("both.safetensors").end, ProcessEnd{});
  const Output changed = RunTorch("tied_net.py", {"--change", folder_ / "both.safetensors"});
  ASSERT_EQ(changed.end, ProcessEnd{}) << changed.err;
  const Output one = check("one.safetensors");
  EXPECT_EQ(one.end, ProcessEnd{}) << one.err;
  EXPECT_THAT(
      check("differ.safetensors").err,
      HasSubstr("\"head.weight\" and \"words.weight\" are one tensor of the model"));
  EXPECT_THAT(
      check("other.safetensors").err,
      AllOf(
          HasSubstr("model.from"),
          HasSubstr("\"frozen.weight\" has other values than worker.program has for it")));
  // A program that loads the file itself has its values.
  SetTorch(R"("--load", ")" + (folder_ / "other.safetensors") + '"', "tied_net.py");
  const Output loaded = check("other.safetensors");
  EXPECT_EQ(loaded.end, ProcessEnd{}) << loaded.err;
}

TEST_F(TorchTest, WorkersWithLocalStepsAreKilledAndEverySampleCountsOnce) {
  job_.Set("train", R"({"epochs": 24, "minibatch": 16, "local_steps": 4})");
  job_.Drop("optimizer").Set("workers", R"([{"count": 2, "step_ms": 10}])");
  SetTorch('"' + (folder_ / "local.pt") + '"');
  TrainRun run(job_, {.is_replacing = true});
  const auto training = run.WaitFor(
      [](const proto::JobStatus& status) { return status.samples_counted > 0; }, kTorchPatience);
  ASSERT_TRUE(training.has_value()) << run.psctl().Err();
  ASSERT_FALSE(Alive(*training).empty());
  ::kill(static_cast<pid_t>(Alive(*training)[0].pid), SIGKILL);
  ASSERT_EQ(run.WaitForEnd(kTorchPatience), ProcessEnd{}) << run.psctl().Err();
  run.ExpectExactLedger();
  EXPECT_EQ(run.Summary()["revocations_unnoticed"].number(), 1);
  EXPECT_GT(run.Summary()["test_accuracy"].number(), 0.6) << "chance is 0.5, and it swings";
}

/// Each of configs/pytorch, with little data. fine_tune.py needs a package besides PyTorch.
TEST_F(TorchTest, TheExamplesTrain) {
  const Output package = RunToEnd(
      {.program = "/usr/bin/env",
       .arguments = {python_, "-c", "import importlib.util as i; assert i.find_spec('torchcrepe')"},
       .output_stem = folder_ / "package"},
      kTorchPatience);

  const struct {
    std::string script;
    std::string words;
    bool is_there;
  } examples[] = {
      {"fashion_mnist", "", true},
      {"small_gpt", R"(, "--width", "32", "--depth", "1")", true},
      {"fine_tune", "", package.end.code == 0}};

  for (const auto& [script, words, is_there] : examples) {
    if (!is_there) {
      continue;
    }
    const Output output = RunToEnd(
        {.program = "psctl",
         .arguments =
             {"train",
              "configs/pytorch/" + script + ".json",
              "--json",
              "--set",
              R"(worker={"directory": "configs/pytorch", "program": [")" + python_ + R"(", ")" +
                  script + R"(.py")" + words + "]}",
              "data.train_samples=640",
              "data.test_samples=64",
              "fleet.join_timeout_s=400",
              "run.directory=" + job_.runs()},
         .directory = std::filesystem::current_path().string(),
         .output_stem = folder_ / script},
        kTorchPatience);
    ASSERT_EQ(output.end, ProcessEnd{}) << script << ": " << output.err;
    const auto summary = Json::Parse(output.out);
    ASSERT_TRUE(summary.has_value()) << script << ": " << output.out;
    EXPECT_EQ((*summary)["samples_counted"].number(), 640 * (*summary)["epochs"].number())
        << script;
  }
}

}  // namespace
}  // namespace ps::e2e
