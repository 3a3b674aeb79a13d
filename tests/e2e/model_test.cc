// The model that a run leaves, and a run that begins from one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/base/png_bytes.h"
#include "tests/base/temporary_folder.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kDataset = "/usr/share/datasets/fashion-mnist";
constexpr int kNoTorch = 77;  // exit code of torch_accuracy.py

class ModelTest : public E2eTest {
 protected:
  std::string ModelOf(const TrainRun& run) const { return run.Root() + "/model.safetensors"; }
};

TEST_F(ModelTest, TheModelOfARunHasItsAccuracyInPyTorch) {
  job_.Set("model", R"({"name": "cnn"})")
      .SetData(2000, 1000)
      .Set("optimizer", R"({"kind": "adam", "lr": 0.001})")
      .Set("servers", R"({"count": 2, "chunk_kib": 64, "frame_kib": 16})")
      .Set("train", R"({"epochs": 1, "minibatch": 50})");
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  const Json summary = run.Summary();
  EXPECT_EQ(summary["model"].text(), ModelOf(run));
  EXPECT_THAT(run.psctl().Out(), HasSubstr("model  "));
  // The file says all that it takes to evaluate it: a copy of it alone does.
  std::filesystem::copy_file(ModelOf(run), folder_ / "alone.safetensors");
  const Output evaluated = Psctl({"evaluate", folder_ / "alone.safetensors", "--json"});
  ASSERT_EQ(evaluated.end, ProcessEnd{}) << evaluated.err;
  const Json result = Json::Parse(evaluated.out).value();
  EXPECT_EQ(result["samples"].number(), 1000);
  EXPECT_NEAR(result["accuracy"].number(), summary["test_accuracy"].number(), 0.0011);
  EXPECT_NEAR(result["loss"].number(), summary["test_loss"].number(), 1e-3);
  const Output torch = RunToEnd(
      {.program = "/usr/bin/env",
       .arguments =
           {"-u",
            "LD_PRELOAD",
            "/usr/bin/python3",
            PS_E2E_SOURCE_DIR "/torch_accuracy.py",
            ModelOf(run),
            kDataset,
            "2000",
            "1000"},
       .output_stem = folder_ / "torch"},
      kRunPatience);
  if (torch.end.code == kNoTorch) {
    GTEST_SKIP() << torch.out << "install python3-torch, or have it in /usr/bin/python3";
  }
  ASSERT_EQ(torch.end, ProcessEnd{}) << torch.err;
  const double correct = 1000 * summary["test_accuracy"].number();
  EXPECT_GT(correct, 200) << "of 10 classes it has learned something";
  // Sums are made in another order: a sample between two classes may go the other way.
  EXPECT_NEAR(std::stod(torch.out), correct, 1.5);
}

TEST_F(ModelTest, ATableOfNumbersIsLearntAndMeasuredByR2) {
  const std::string data = folder_ / "table";
  std::filesystem::create_directory(data);
  for (const bool is_train : {true, false}) {
    std::ofstream file(data + (is_train ? "/train.csv" : "/test.csv"));
    file << "a,b,y,z\n";
    for (int i = 0; i < 512; ++i) {
      const double a = 2 * std::fmod(i * (is_train ? 0.618034 : 0.754878), 1) - 1;
      const double b = 2 * std::fmod(i * (is_train ? 0.414214 : 0.569840), 1) - 1;
      file << a << "," << b << "," << 2 * a - b + a * b << "," << 1 - b << "\n";
    }
  }
  job_.Set("data", R"({"format": "csv", "labels": ["z", "y"], "directory": ")" + data + R"("})")
      .Set(
          "model",
          R"({"layers": [{"kind": "linear", "out": 16}, {"kind": "tanh"},)"
          R"( {"kind": "linear", "out": 2}, {"kind": "mse"}]})")
      .Set("optimizer", R"({"kind": "adam", "lr": 0.02, "schedule": {"kind": "cosine"}})")
      .Set("train", R"({"epochs": 30, "minibatch": 32, "evaluate_every_epochs": 10})");
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  const Json summary = run.Summary();
  EXPECT_GT(summary["test_r2"].number(), 0.9);
  EXPECT_LE(summary["test_r2"].number(), 1);
  EXPECT_NEAR(
      std::pow(summary["figures"]["test_rmse"].number(), 2), summary["test_loss"].number(), 1e-6);
  EXPECT_THAT(run.psctl().Out(), HasSubstr("test r2  "));
  const Output evaluated = Psctl({"evaluate", ModelOf(run), "--json"});
  ASSERT_EQ(evaluated.end, ProcessEnd{}) << evaluated.err;
  const Json result = Json::Parse(evaluated.out).value();
  EXPECT_NEAR(result["r2"].number(), summary["test_r2"].number(), 1e-6);
  EXPECT_NEAR(result["mae"].number(), summary["figures"]["test_mae"].number(), 1e-5);
}

/// Whoever uses the model has to know what its class 0 is.
TEST_F(ModelTest, TheNamesOfATablesClassesAreRecordedInTheOrderOfTheModels) {
  const std::string data = folder_ / "table";
  std::filesystem::create_directory(data);
  for (const char* const name : {"/train.csv", "/test.csv"}) {
    std::ofstream file(data + name);
    file << "a,b,label\n";
    for (int i = 0; i < 120; ++i) {
      const int kind = i % 3;
      file << (kind == 1 ? 1 : 0) + i % 7 * 0.01 << "," << (kind == 2 ? 1 : 0) + i % 5 * 0.01 << ","
           << (kind == 0   ? "tulip"
               : kind == 1 ? "iris"
                           : "rose")
           << "\n";
    }
  }
  job_.Set("data", R"({"format": "csv", "label": "label", "directory": ")" + data + R"("})")
      .Set("model", R"({"layers": [{"kind": "linear", "out": 3}]})")
      .Set("optimizer", R"({"kind": "adam", "lr": 0.1})")
      .Set("train", R"({"epochs": 20, "minibatch": 12, "evaluate_every_epochs": 20})");
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  EXPECT_EQ(ReadText(run.Root() + "/classes.txt"), "iris\nrose\ntulip\n");
  const std::string rows = folder_ / "rows.csv";
  WriteText(rows, "a,b\n1.02,0.01\n0.02,1.01\n0.01,0.01\n");
  const Output applied = Psctl({"apply", ModelOf(run), rows, "-o", "-"});
  ASSERT_EQ(applied.end, ProcessEnd{}) << applied.err;
  EXPECT_THAT(
      applied.out, testing::ContainsRegex("p_iris,p_rose,p_tulip\n.*iris,.*\n.*rose,.*\n.*tulip,"));
}

TEST_F(ModelTest, PicturesInFoldersAreLearntAndToldByTheirNames) {
  // Stripes across and stripes down, beginning anywhere.
  const std::string data = folder_ / "stripes";
  for (const std::string name : {"across", "down"}) {
    for (int i = 0; i < 80; ++i) {
      std::string pixels;
      for (int y = 0; y < 12; ++y) {
        for (int x = 0; x < 16; ++x) {
          pixels += static_cast<char>(
              (i / 4 + (name == "down" ? x : y)) % 4 < 2 ? 200 - i % 20 : 20 + i % 20);
        }
      }
      const std::string part = i < 64 ? "/train/" : i < 72 ? "/val/" : "/test/";
      const std::string folder = data + part + name;
      std::filesystem::create_directories(folder);
      WriteText(folder + "/" + std::to_string(i) + ".png", PngOf(16, 12, pixels));
    }
  }
  WriteText(data + "/train/down/Thumbs.db", "no picture");
  const std::string picture =
      R"({"format": "pictures", "picture": {"height": 12, "channels": 1}, "directory": ")" + data +
      "\"";
  job_.Set("data", picture + "}")
      .Set(
          "model",
          R"({"layers": [{"kind": "conv2d", "out": 4, "kernel": 3}, {"kind": "relu"},)"
          R"( {"kind": "global_avg_pool"}, {"kind": "linear", "out": 2}]})")
      .Set("optimizer", R"({"kind": "adam", "lr": 0.03})")
      .Set("train", R"({"epochs": 20, "minibatch": 16, "evaluate_every_epochs": 10})");
  job_.Write();
  const Output unused = Psctl({"check", job_.path()});
  EXPECT_THAT(
      unused.out, HasSubstr("val/ in data.directory is not used; with data.validation=val"));
  job_.Set("data", picture + R"(, "validation": "val"})").Write();
  const Output checked = Psctl({"check", job_.path()});
  EXPECT_THAT(
      checked.out,
      AllOf(
          HasSubstr("train/down/Thumbs.db: left out, since they are no png"),
          HasSubstr("128 training, 16 validation and 16 test samples")));
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  run.ExpectExactLedger();
  EXPECT_GT(run.Summary()["test_accuracy"].number(), 0.9);
  const Json evaluations = run.Summary()["evaluations"];
  ASSERT_EQ(evaluations.size(), 3U) << "epochs 10 and 20 by validation, and the end by the tests";
  EXPECT_EQ(evaluations[0]["samples"].number(), 16) << "each once, in parts";
  EXPECT_THAT(
      run.psctl().Out() + run.psctl().Err(),
      AllOf(
          HasSubstr("epoch 10 of 20: validation accuracy"),
          HasSubstr("epoch 20 of 20: validation accuracy"),
          HasSubstr("the model that is left, after epoch 20 of 20: test accuracy")));
  const Output measured = Psctl({"evaluate", ModelOf(run), "--part", "val", "--json"});
  ASSERT_EQ(measured.end, ProcessEnd{}) << measured.err;
  EXPECT_EQ(
      Json::Parse(measured.out).value()["accuracy"].number(),
      run.Summary()["validation_accuracy"].number());
  std::filesystem::create_directory_symlink(data + "/val", data + "/dev");
  const Output refused = Psctl({"resume", run.Root(), "--set", "data.validation=dev"});
  EXPECT_EQ(refused.end, ProcessEnd{2});
  EXPECT_THAT(refused.err, HasSubstr("data.validation was \"val\" and has to stay"));
  EXPECT_EQ(ReadText(run.Root() + "/classes.txt"), "across\ndown\n");
  const Output evaluated = Psctl({"evaluate", ModelOf(run), "--json"});
  ASSERT_EQ(evaluated.end, ProcessEnd{}) << evaluated.err;
  EXPECT_EQ(
      Json::Parse(evaluated.out).value()["accuracy"].number(),
      run.Summary()["test_accuracy"].number());
  const Output applied = Psctl({"apply", ModelOf(run), data + "/test/down", "-o", "-"});
  ASSERT_EQ(applied.end, ProcessEnd{}) << applied.err;
  EXPECT_THAT(
      applied.out,
      AllOf(HasSubstr("file,class,probability,p_across,p_down\n"), HasSubstr("\n79.png,down,")));
}

TEST_F(ModelTest, ARunBeginsFromTheModelOfAnotherIfItFits) {
  job_.SetData(1000, 1000).Set("train", R"({"epochs": 1, "minibatch": 50})");
  TrainRun first(job_);
  ASSERT_EQ(first.WaitForEnd(), ProcessEnd{});
  TemporaryFolder other;
  Job next = job_.CopyIn(other.path());
  next.Set("model", R"({"name": "mlp", "from": ")" + ModelOf(first) + R"("})")
      .Set("servers", R"({"count": 1, "shards_per_server": 3, "chunk_kib": 32, "frame_kib": 16})")
      .Set("optimizer", R"({"kind": "sgd", "lr": 1e-30})");
  TrainRun second(next);
  ASSERT_EQ(second.WaitForEnd(), ProcessEnd{});
  EXPECT_EQ(second.Summary()["test_accuracy"].number(), first.Summary()["test_accuracy"].number());
  const std::string a = ReadText(ModelOf(first));
  const std::string b = ReadText(ModelOf(second));
  ASSERT_EQ(a.size(), b.size());
  EXPECT_TRUE(a.substr(a.size() - 4 * 1000) == b.substr(b.size() - 4 * 1000))
      << "the last tensors are the same, to the bit";

  TemporaryFolder third;
  Job misfit = job_.CopyIn(third.path());
  misfit.Set("model", R"({"name": "cnn", "from": ")" + ModelOf(first) + R"("})");
  TrainRun refused(misfit);
  EXPECT_EQ(refused.WaitForEnd(), ProcessEnd{2});
  EXPECT_THAT(
      refused.psctl().Err(),
      AllOf(
          HasSubstr("model.safetensors: none of its tensors is one of the model's by name"),
          HasSubstr("0.conv2d.weight [32,1,3,3]")));
  EXPECT_FALSE(std::filesystem::exists(misfit.runs())) << "nothing was started";
}

TEST_F(ModelTest, ARunBeginsFromNoModelWithNan) {
  job_.SetData(1000, 1000).Set("train", R"({"epochs": 1, "minibatch": 50})");
  TrainRun first(job_);
  ASSERT_EQ(first.WaitForEnd(), ProcessEnd{});
  std::string bytes = ReadText(ModelOf(first));
  const float nan = std::nanf("");
  std::memcpy(bytes.data() + bytes.size() - sizeof(nan), &nan, sizeof(nan));
  const std::string damaged = folder_ / "damaged.safetensors";
  WriteText(damaged, bytes);
  TemporaryFolder other;
  Job next = job_.CopyIn(other.path());
  next.Set("model", R"({"name": "mlp", "from": ")" + damaged + R"("})");
  TrainRun refused(next);
  EXPECT_EQ(refused.WaitForEnd(), ProcessEnd{1});
  const auto says_why = testing::ContainsRegex(
      R"(model\.from: .*damaged\.safetensors: element [0-9]+ of tensor "[0-9a-z.]+" is NaN)");
  EXPECT_THAT(refused.psctl().Err(), AllOf(HasSubstr("failed before training began: "), says_why));
  EXPECT_FALSE(std::filesystem::exists(ModelOf(refused)));
  EXPECT_THAT(Psctl({"check", next.path()}).err, says_why);
}

TEST_F(ModelTest, AFrozenBodyIsTakenAndStaysAsItIs) {
  job_.SetData(1000, 1000).Set("train", R"({"epochs": 1, "minibatch": 50})");
  TrainRun first(job_);
  ASSERT_EQ(first.WaitForEnd(), ProcessEnd{});
  TemporaryFolder other;
  Job next = job_.CopyIn(other.path());
  next.Set(
          "model",
          R"({"from": ")" + ModelOf(first) +
              R"(", "take": "fitting", "layers": [{"kind": "flatten"}, )"
              R"({"kind": "linear", "out": 256}, {"kind": "relu"}, )"
              R"({"kind": "linear", "out": 10}]})")
      .Set("parameters", R"([{"match": ["1.*"], "frozen": true}])")
      .Set("exchange", R"({"push": "int8"})")
      .Set("servers", R"({"count": 2, "chunk_kib": 32, "frame_kib": 16})");
  TrainRun second(next);
  ASSERT_EQ(second.WaitForEnd(), ProcessEnd{});
  EXPECT_THAT(
      second.psctl().Err(),
      AllOf(
          HasSubstr("of which 200,960 are frozen"),
          HasSubstr("2 of 4 tensors, by name; drawn: 3.linear.weight, 3.linear.bias; in another "
                    "shape: its tensor \"3.linear.weight\" has shape [128,256], the model's has "
                    "[10,256]")));
  // The body is the first of both files, as f32 behind their headers.
  const auto body = [](const std::string& file) {
    uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof(header));
    return file.substr(sizeof(header) + header, (784 * 256 + 256) * sizeof(float));
  };
  EXPECT_TRUE(body(ReadText(ModelOf(first))) == body(ReadText(ModelOf(second))));
  EXPECT_GT(second.Summary()["test_accuracy"].number(), 0.4);
  const Output resumed =
      Psctl({"resume", second.Root(), "--set", "train.epochs=2", "--set", "parameters=[]"});
  EXPECT_EQ(resumed.end, ProcessEnd{}) << resumed.err;
}

TEST_F(ModelTest, CtrlCLeavesTheModelToo) {
  job_.Set("train", R"({"epochs": 10000, "minibatch": 32, "evaluate_every_epochs": 0})");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(256).has_value());
  run.psctl().SignalGroup(SIGINT);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  EXPECT_EQ(run.Summary()["state"].text(), "stopped");
  EXPECT_EQ(run.Summary()["model"].text(), ModelOf(run));
  EXPECT_TRUE(std::filesystem::exists(ModelOf(run)));
}

TEST_F(ModelTest, TrainingEndsEarlyAndTheBestEpochsModelIsLeft) {
  // So few samples are learnt by heart, and others are guessed worse and worse.
  job_.Set(
          "data",
          R"({"directory": ")" + std::string(kDataset) +
              R"(", "train_samples": 150, "test_samples": 500, "validation_share": 0.4})")
      .Set("optimizer", R"({"kind": "adam", "lr": 0.003})")
      .Set("checkpoint", R"({"keep": 1, "best": {"metric": "loss"}})")
      .Set(
          "train",
          R"({"epochs": 1000, "minibatch": 15, "mode": "bsp", )"
          R"("stop_early": {"after_epochs": 3, "metric": "loss"}})");
  TrainRun run(job_);
  ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
  const Json summary = run.Summary();
  EXPECT_EQ(summary["state"].text(), "done");
  EXPECT_THAT(summary["stopped_early"].text(), HasSubstr("(train.stop_early)"));
  const Json& evaluations = summary["evaluations"];
  const Json& best = summary["best"];
  ASSERT_GE(evaluations.size(), 5U);
  const Json& newest = evaluations[evaluations.size() - 2];
  EXPECT_EQ(newest["samples"].number(), 60);
  EXPECT_EQ(best["epoch"].number(), newest["epoch"].number() - 3);
  EXPECT_THAT(run.psctl().Out(), HasSubstr("the model that is left is of it"));
  EXPECT_EQ(evaluations[evaluations.size() - 1]["samples"].number(), 500);
  EXPECT_LT(summary["validation_loss"].number(), 100);

  TemporaryFolder other;
  Job again = job_.CopyIn(other.path());
  again.Set("model", R"({"name": "mlp", "from": ")" + ModelOf(run) + R"("})")
      .Drop("checkpoint")
      .Set("train", R"({"epochs": 1, "minibatch": 15})")
      .Set("optimizer", R"({"kind": "sgd", "lr": 1e-30})");
  TrainRun same(again);
  ASSERT_EQ(same.WaitForEnd(), ProcessEnd{});
  const Json& of_best = evaluations[static_cast<size_t>(best["epoch"].number()) - 1];
  EXPECT_EQ(same.Summary()["test_accuracy"].number(), summary["test_accuracy"].number());
  EXPECT_NEAR(same.Summary()["validation_loss"].number(), of_best["loss"].number(), 1e-5)
      << "the file has the best epoch's model";
}

TEST_F(ModelTest, AServerThatIsLostAtTheEndLeavesTheModelOfACheckpoint) {
  // Standing still, it keeps the run from ending before it is killed.
  job_.Set("train", R"({"epochs": 10000, "minibatch": 32, "evaluate_every_epochs": 0})")
      .Set("fleet", R"({"max_detect_s": 1})")
      .Set("servers", R"({"count": 2, "max_detect_s": 60})")
      .Set("checkpoint", R"({"every_s": 0.3})");
  TrainRun run(job_);
  const auto before =
      run.WaitFor([](const proto::JobStatus& status) { return status.checkpoints.newest >= 1; });
  ASSERT_TRUE(before.has_value());
  const auto server = static_cast<pid_t>(before->shards[1].pid);
  ASSERT_EQ(::kill(server, SIGSTOP), 0);
  run.psctl().SignalGroup(SIGINT);
  EXPECT_TRUE(run.WaitFor([](const proto::JobStatus& status) {
                   return status.state == proto::RunState::kStopped;
                 })
                  .has_value());
  ASSERT_EQ(::kill(server, SIGKILL), 0);
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{1}) << "the model lacks steps";
  EXPECT_THAT(
      run.psctl().Err(), HasSubstr("the model is not that of the end: it is that of checkpoint "));
  const Json summary = run.Summary();
  EXPECT_EQ(summary["model"].text(), ModelOf(run));
  EXPECT_THAT(summary["model_problem"].text(), HasSubstr("server 1 was lost: "));
  EXPECT_TRUE(std::filesystem::exists(ModelOf(run)));
}

}  // namespace
}  // namespace ps::e2e
