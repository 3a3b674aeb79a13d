// The commands that ask a running job, and psctl's answers to what people type wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/base/temporary_folder.h"
#include "tests/e2e/support/socket.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int kMisused = 2;

class CommandTest : public E2eTest {
 protected:
  Output Psctl(const std::vector<std::string>& arguments, const std::string& directory) const {
    return RunToEnd(
        {.program = "psctl",
         .arguments = arguments,
         .directory = directory,
         .output_stem = folder_ / "command"},
        kRunPatience);
  }

  Output Psctl(const std::vector<std::string>& arguments) const {
    return Psctl(arguments, folder_.path());
  }

  void MakeEndless(const std::string& mode = "async") {
    job_.Set(
            "train",
            R"({"epochs": 10000, "minibatch": 32, "evaluate_every_epochs": 0, "mode": ")" + mode +
                R"(", "staleness_max": 1})")
        .Set("workers", R"([{"count": 1}, {"count": 1, "slowdown": 30}])");
  }
};

TEST_F(CommandTest, StatusWithoutANameFindsTheRunFromAnywhere) {
  MakeEndless();
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(256).has_value());
  const TemporaryFolder elsewhere;
  Output output;
  // Runs of other tests are listed, too. As long as one of them does not listen yet, it is 1.
  const auto is_answered = [&](const std::vector<std::string>& words) {
    return WaitUntil([&] {
      output = Psctl(words, elsewhere.path());
      return output.end == ProcessEnd{};
    });
  };
  EXPECT_TRUE(is_answered({"status"})) << output.err;
  EXPECT_THAT(output.out, HasSubstr(job_.name()));
  EXPECT_THAT(output.out, HasSubstr("training"));

  EXPECT_TRUE(is_answered({"status", "--json"})) << output.err;
  const Output json = output;
  const std::optional<Json> jobs = Json::Parse(json.out);
  ASSERT_TRUE(jobs.has_value()) << json.out;
  bool is_listed = false;
  for (size_t i = 0; i < jobs->size(); ++i) {
    is_listed = is_listed || (*jobs)[i]["name"].text() == job_.name();
  }
  EXPECT_TRUE(is_listed) << json.out;
}

TEST_F(CommandTest, StatusOfOneRunShowsWorkersServersAndLedger) {
  MakeEndless();
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(256).has_value());
  for (const std::string& name : {run.Root(), job_.name(), job_.path()}) {
    const Output output = Psctl({"status", name});
    EXPECT_EQ(output.end, ProcessEnd{}) << output.err;
    EXPECT_THAT(
        output.out,
        AllOf(
            ContainsRegex("job +" + job_.name()),
            ContainsRegex("state +training"),
            ContainsRegex("shard +state"),
            ContainsRegex("worker +state"),
            ContainsRegex("epoch +samples +counted")));
  }
  const std::optional<Json> status = Json::Parse(Psctl({"status", run.Root(), "--json"}).out);
  ASSERT_TRUE(status.has_value());
  EXPECT_EQ((*status)["state"].text(), "training");
  EXPECT_EQ((*status)["workers"].size(), 2U);
  EXPECT_EQ((*status)["shards"].size(), 2U);
  EXPECT_GT((*status)["samples_counted"].number(), 0);
}

TEST_F(CommandTest, WhySaysWhoWaitsForWhom) {
  // The fast worker may lead by one step only, so it waits for the slow one nearly all the time.
  MakeEndless("ssp");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(128).has_value());
  Output output;
  EXPECT_TRUE(WaitUntil([&] {
    output = Psctl({"why", run.Root()});
    return Contains(output.out, "w0 waits for w1");
  })) << output.out
      << output.err;
  EXPECT_EQ(output.end, ProcessEnd{});
  EXPECT_THAT(
      output.out,
      AllOf(
          ContainsRegex("w0 waits for w1.*staleness bound 1"),
          HasSubstr("since membership generation"),
          HasSubstr("a silent member is lost after")));
}

TEST_F(CommandTest, StopEndsTheRunAndReturnsWhenItHasEnded) {
  MakeEndless();
  // On a busy machine a step of the slow worker takes longer than the 2 * fleet.max_detect_s that a
  // stop waits for it, and is lost then.
  job_.Set("workers", R"([{"count": 2}])");
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(256).has_value());
  const Output output = Psctl({"stop", job_.name()});
  EXPECT_EQ(output.end, ProcessEnd{}) << output.err;
  EXPECT_THAT(output.out, HasSubstr("has ended"));
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  EXPECT_EQ(run.Summary()["state"].text(), "stopped");
  EXPECT_EQ(run.Summary()["steps_lost"].number(), 0);
  run.ExpectNothingLeft();

  const Output ended = Psctl({"status", run.Root()});
  EXPECT_EQ(ended.end, ProcessEnd{});
  EXPECT_THAT(ended.out, HasSubstr("stopped after"));
  EXPECT_EQ(Psctl({"stop", run.Root()}).end, ProcessEnd{1});
}

TEST_F(CommandTest, StopNowEndsTheRunAtOnce) {
  MakeEndless();
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(256).has_value());
  const Output output = Psctl({"stop", "--now", run.Root()});
  EXPECT_EQ(output.end, ProcessEnd{}) << output.err;
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{1}) << "there is no model of the end";
  EXPECT_EQ(run.Summary()["state"].text(), "stopped");
  run.ExpectNothingLeft();
}

TEST_F(CommandTest, AResultThatCannotBeWrittenIsAFailure) {
  const Output output = RunToEnd(
      {.program = "/bin/sh",
       .arguments = {"-c", R"(exec "$0" status --json > /dev/full)", ProgramPath("psctl")},
       .directory = folder_.path(),
       .output_stem = folder_ / "full"},
      kRunPatience);
  EXPECT_EQ(output.end, ProcessEnd{1});
  EXPECT_THAT(output.err, HasSubstr("cannot write the result: No space left on device"));
}

class BadInputTest : public CommandTest {
 protected:
  /// psctl check has to refuse what train refuses, with the same words.
  Output Train(const std::vector<std::string>& arguments = {}) {
    job_.Write();
    std::vector<std::string> all{"check", job_.path()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Output checked = Psctl(all);
    all.front() = "train";
    Output trained = Psctl(all);
    EXPECT_EQ(checked.end, trained.end) << checked.err;
    if (trained.end == ProcessEnd{kMisused}) {
      EXPECT_EQ(checked.err, trained.err);
    }
    return trained;
  }
};

TEST_F(BadInputTest, AMissingJobFileIsNamed) {
  const Output output = Psctl({"train", "no_such_job.json"});
  EXPECT_EQ(output.end, ProcessEnd{kMisused});
  EXPECT_THAT(output.err, HasSubstr("no_such_job.json"));
  EXPECT_EQ(output.out, "");
}

TEST_F(BadInputTest, AnUnknownFieldComesWithItsPlaceAndTheNearestName) {
  job_.Set("train", "{\n    \"minibach\": 64}");
  const Output output = Train();
  EXPECT_EQ(output.end, ProcessEnd{kMisused});
  EXPECT_THAT(output.err, ContainsRegex("\\.json:[0-9]+:5: .*minibach"));
  EXPECT_THAT(output.err, ContainsRegex("did you mean .?minibatch"));
  EXPECT_EQ(output.out, "");
}

TEST_F(BadInputTest, AWrongTypeComesWithItsPlace) {
  job_.Set("train", "{\n    \"epochs\": \"three\"}");
  const Output output = Train();
  EXPECT_EQ(output.end, ProcessEnd{kMisused});
  EXPECT_THAT(output.err, ContainsRegex("\\.json:[0-9]+:15: .*train.epochs"));
}

TEST_F(BadInputTest, AnUnknownSettingComesWithTheNearestName) {
  const Output output = Train({"--set", "train.epoks=1"});
  EXPECT_EQ(output.end, ProcessEnd{kMisused});
  EXPECT_THAT(output.err, AllOf(HasSubstr("--set"), HasSubstr("epoks"), HasSubstr("epochs")));
}

TEST_F(BadInputTest, UnknownCommandsAndFlagsAreMisuse) {
  const Output command = Psctl({"trane"});
  EXPECT_EQ(command.end, ProcessEnd{kMisused});
  EXPECT_THAT(command.err, HasSubstr("did you mean 'train'?"));
  const Output flag = Psctl({"status", "--jsn"});
  EXPECT_EQ(flag.end, ProcessEnd{kMisused});
  EXPECT_THAT(flag.err, HasSubstr("did you mean '--json'?"));
  EXPECT_EQ(Psctl({}).end, ProcessEnd{kMisused});
}

TEST_F(BadInputTest, AMissingDatasetIsNamedBeforeAnythingStarts) {
  job_.Set("data", R"({"directory": "/no/such/dataset"})");
  const Output output = Train();
  EXPECT_EQ(output.end, ProcessEnd{kMisused});
  EXPECT_THAT(output.err, HasSubstr("/no/such/dataset"));
  EXPECT_EQ(ReadText(job_.runs()), "");
}

TEST_F(BadInputTest, WhatOnlyDataAndModelShowComesWithItsPlaceToo) {
  std::filesystem::create_directory(folder_ / "empty");
  job_.Set("data", "{\n    \"directory\": \"" + folder_ / "empty" + "\"}");
  EXPECT_THAT(
      Train().err,
      AllOf(
          ContainsRegex("\\.json:[0-9]+:18: data.directory .*/empty. has no train-images"),
          HasSubstr("apt-get install dataset-fashion-mnist")));
  job_.SetData(100, 100);
  EXPECT_THAT(
      Train({"--set", "data.train_samples=999999"}).err,
      HasSubstr("--set:1:20: data.train_samples is 999999; allowed: up to 60000"));
  job_.Set("model", R"({"layers": [{"kind": "flatten"},
    {"kind": "residual", "layers": [{"kind": "relu"},
      {"kind": "conv2d", "out": 3}]}, {"kind": "linear", "out": 10}]})");
  const Output output = Train();
  EXPECT_EQ(output.end, ProcessEnd{kMisused});
  EXPECT_THAT(
      output.err,
      ContainsRegex(
          "\\.json:[0-9]+:7: model.layers.1.\\.layers.1. .conv2d.: kernel 3 does not fit"));
  EXPECT_EQ(ReadText(job_.runs()), "");
}

TEST_F(BadInputTest, CheckReadsAllDataAndStartsNothing) {
  job_.SetData(0, 0);
  job_.Write();
  const Output good = Psctl({"check", job_.path()});
  EXPECT_EQ(good.end, ProcessEnd{}) << good.err;
  EXPECT_THAT(
      good.out,
      AllOf(
          ContainsRegex("model +[0-9,]+ parameters"),
          ContainsRegex("data +60,000 training"),
          HasSubstr(job_.path() + ": nothing is wrong\n")));
  EXPECT_FALSE(std::filesystem::exists(job_.runs()));

  // The headers alone do not tell that pictures are missing.
  const std::string data = folder_ / "data";
  std::filesystem::copy("/usr/share/datasets/fashion-mnist", data);
  for (const char* name : {"train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"}) {
    if (std::filesystem::exists(data + "/" + name)) {
      std::filesystem::resize_file(data + "/" + name, 1'000'000);
    }
  }
  const Output cut = Psctl({"check", job_.path(), "--set", "data.directory=" + data});
  EXPECT_EQ(cut.end, ProcessEnd{kMisused});
  EXPECT_THAT(cut.err, HasSubstr("train-images-idx3-ubyte"));
}

TEST_F(BadInputTest, ARunDirectoryThatCannotBeMadeIsNamed) {
  // Root may write anywhere, except where there can be no directory: below a file, or in /proc.
  WriteText(folder_ / "file", "");
  for (const std::string& place : {folder_ / "file/runs", std::string("/proc/runs")}) {
    job_.Set("run", R"({"directory": ")" + place + R"("})");
    const Output output = Train();
    EXPECT_EQ(output.end, ProcessEnd{1});
    EXPECT_THAT(output.err, AllOf(HasSubstr(place), HasSubstr("--set run.directory=DIR")));
  }
}

TEST_F(BadInputTest, APortInUseIsNamed) {
  const ListeningSocket taken;
  const std::string port = std::to_string(taken.port());
  const Output output = Train({"--set", "run.port=" + port});
  EXPECT_EQ(output.end, ProcessEnd{1});
  EXPECT_THAT(output.err, AllOf(HasSubstr(port), HasSubstr("in use")));
  EXPECT_TRUE(ProcessesNaming(job_.runs()).empty());
  EXPECT_TRUE(std::filesystem::is_empty(job_.runs())) << "a run that did not begin leaves nothing";
}

TEST_F(BadInputTest, NothingRunsAndNothingIsFound) {
  for (const char* command : {"status", "why", "stop"}) {
    const Output output = Psctl({command, "no-such-job"});
    EXPECT_EQ(output.end, ProcessEnd{1}) << command;
    EXPECT_THAT(output.err, HasSubstr("no-such-job")) << command;
  }
}

}  // namespace
}  // namespace ps::e2e
