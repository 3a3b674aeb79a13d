#include "run/report/script_parts.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "ps/base/file.h"
#include "run/report/job_parts.h"
#include "tests/base/temporary_folder.h"

namespace ps::run {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A job whose program is a shell that leaves a description that was made before, or does not.
class ScriptPartsTest : public testing::Test {
 protected:
  ScriptPartsTest() {
    job_.name = "script";
    job_.workers = {proto::WorkerGroup{}};
    job_.worker.directory = folder_.path();
    TensorSpec tensor;
    tensor.name = "weight";
    tensor.shape = {2};
    own_.tensors = {tensor};
    own_.train_samples = 100;
    own_.test_samples = 10;
    own_.optimizer_json = R"({"kind": "adam", "lr": 0.25})";
    SetShell("cp prepared \"$SPOTPS_DESCRIBE\"");
  }

  void SetShell(const std::string& command) { job_.worker.program = {"sh", "-c", command}; }

  Result<ScriptParts> Ask() {
    const float values[] = {1, 2};
    const Status written =
        worker::WriteDescription(folder_ / "prepared", own_, {.tensors = {values}});
    EXPECT_TRUE(written.ok()) << written;
    return ScriptParts::Ask(job_);
  }

  proto::JobConfig Complete() { return Ask().value().Complete(job_, names_optimizer_).value(); }

  std::string CompleteError() {
    return Ask().value().Complete(job_, names_optimizer_).status().ToString();
  }

  TemporaryFolder folder_;
  proto::JobConfig job_;
  worker::Description own_;
  bool names_optimizer_ = false;
};

TEST_F(ScriptPartsTest, AProgramThatDescribesItselfIsKeptAsTheRunsFirstValues) {
  const std::string kept = folder_ / "kept";
  {
    const Result<ScriptParts> parts = Ask();
    ASSERT_TRUE(parts.ok()) << parts.status();
    EXPECT_EQ(parts->description().tensors, own_.tensors);
    ASSERT_TRUE(parts->KeepAs(kept).ok());
  }
  const Result<ScriptParts> again = ScriptParts::Read(kept);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->description().train_samples, 100U);
  const std::string next = folder_ / "of the next run";
  ASSERT_TRUE(again->KeepAs(next).ok()) << "the config of a run is a job file, too";
  EXPECT_EQ(ReadFile(next).value(), ReadFile(kept).value());
}

TEST_F(ScriptPartsTest, AProgramThatDoesNotDescribeItselfIsRefusedWithWhatItPrinted) {
  const auto error = [this](const std::string& command) {
    SetShell(command);
    return Ask().status().ToString();
  };
  EXPECT_THAT(
      error("echo so it was; exit 3"),
      AllOf(HasSubstr("worker.program exited with code 3 without saying"), HasSubstr("so it was")));
  EXPECT_THAT(error("true"), HasSubstr("exited with code 0 without saying what it trains"));
  EXPECT_THAT(error("kill -9 $$"), HasSubstr("was killed by signal 9"));
  EXPECT_THAT(error("echo x > \"$SPOTPS_DESCRIBE\""), HasSubstr("description.safetensors"));
  job_.fleet.join_timeout_s = 1;
  EXPECT_THAT(
      error("echo hello; exec sleep 100"),
      AllOf(HasSubstr("within 1 s (fleet.join_timeout_s)"), HasSubstr("hello")));
  job_.worker.program = {"/no/such/program"};
  EXPECT_THAT(Ask().status().ToString(), HasSubstr("worker.program cannot start"));
  job_.worker.directory = folder_ / "missing";
  EXPECT_THAT(Ask().status().ToString(), HasSubstr("worker.directory"));
}

TEST_F(ScriptPartsTest, WhatTheJobLeavesOpenIsTheProgramsToSay) {
  const proto::JobConfig job = Complete();
  EXPECT_EQ(job.data.train_samples, 100U);
  EXPECT_EQ(job.data.test_samples, 10U);
  EXPECT_EQ(job.optimizer.kind, proto::OptimizerKind::kAdam);
  EXPECT_EQ(job.optimizer.lr, 0.25F);
  EXPECT_EQ(job.worker.directory, folder_.path());
  EXPECT_THAT(Ask()->OptimizerNote(job), IsEmpty());
}

TEST_F(ScriptPartsTest, WhatTheJobSaysCountsAndDifferencesAreTold) {
  job_.data.train_samples = 50;
  job_.optimizer.lr = 1;
  job_.optimizer.schedule.warmup = 0.1F;
  names_optimizer_ = true;
  const proto::JobConfig job = Complete();
  EXPECT_EQ(job.data.train_samples, 50U);
  EXPECT_EQ(job.optimizer, job_.optimizer);
  EXPECT_THAT(Ask()->OptimizerNote(job), HasSubstr("has another one: {\"kind\": \"adam\""));
  job_.optimizer.kind = proto::OptimizerKind::kAdam;
  job_.optimizer.lr = 0.25F;
  EXPECT_THAT(Ask()->OptimizerNote(Complete()), IsEmpty()) << "schedules are the job's";
  own_.optimizer_json = "";
  EXPECT_THAT(Ask()->OptimizerNote(Complete()), HasSubstr("is none that they have"));
}

TEST_F(ScriptPartsTest, AScheduleAndClippingOfTheJobGoWithTheProgramsOptimizer) {
  job_.optimizer.schedule.warmup = 0.1F;
  job_.optimizer.clip_value = 3;
  const proto::JobConfig job = Complete();
  EXPECT_EQ(job.optimizer.kind, proto::OptimizerKind::kAdam);
  EXPECT_EQ(job.optimizer.lr, 0.25F);
  EXPECT_EQ(job.optimizer.schedule.warmup, 0.1F);
  EXPECT_EQ(job.optimizer.clip_value, 3);
  EXPECT_THAT(Ask()->OptimizerNote(job), IsEmpty());
}

TEST_F(ScriptPartsTest, WhereNobodyNamesAnOptimizerThatTheServersHaveTheJobIsRefused) {
  own_.optimizer_json = "";
  EXPECT_THAT(
      CompleteError(),
      AllOf(
          HasSubstr("optimizer.kind is missing, and worker.program has no optimizer that"),
          HasSubstr("allowed: an optimizer with its kind, lr and schedule (parameters[].lr_factor "
                    "is the")));
  job_.train.local_steps = 4;
  EXPECT_EQ(Complete().optimizer, proto::OptimizerConfig());
  job_.train.local_steps = 1;
  names_optimizer_ = true;
  EXPECT_EQ(Complete().optimizer, proto::OptimizerConfig()) << "it may name what is the default";
}

/// What counts is what the job file has, not whether it is the default.
TEST_F(ScriptPartsTest, AJobNamesItsOptimizerByAnyFieldOfTheRule) {
  const float values[] = {1, 2};
  own_.optimizer_json = "";
  ASSERT_TRUE(worker::WriteDescription(folder_ / "prepared", own_, {.tensors = {values}}).ok());
  const std::string path = folder_ / "job.json";
  const auto load = [&](const std::string& optimizer,
                        const std::vector<proto::ConfigOverride>& overrides) {
    const std::string text = fmt::format(
        R"({{"name": "script", "worker": {{"program": ["sh", "-c", "cp prepared)"
        R"( \"$SPOTPS_DESCRIBE\""], "directory": "{}"}}, {} "train": {{"epochs": 1}},)"
        R"( "workers": [{{"count": 1}}]}})",
        folder_.path(),
        optimizer);
    EXPECT_TRUE(WriteFileAtomically(path, text).ok());
    const Result<proto::JobConfig> config = proto::LoadJobConfig(path, overrides);
    EXPECT_TRUE(config.ok()) << config.status();
    return LoadParts(*config, path, overrides).status().ToString();
  };
  EXPECT_THAT(load("", {}), HasSubstr("optimizer.kind is missing"));
  EXPECT_THAT(
      load(R"("optimizer": {"clip_value": 1, "schedule": {"kind": "cosine"}},)", {}),
      AllOf(HasSubstr("job.json:1:"), HasSubstr("optimizer.kind is missing")));
  EXPECT_EQ(load(R"("optimizer": {"kind": "sgd"},)", {}), "ok");
  EXPECT_EQ(load("", {{"optimizer.lr", "0.01"}}), "ok");
}

TEST_F(ScriptPartsTest, NumbersOfSamplesThatCannotBeAreRefused) {
  job_.data.train_samples = 101;
  EXPECT_THAT(CompleteError(), HasSubstr("data.train_samples is 101, and worker.program has 100"));
  job_.data.train_samples = 0;
  own_.train_samples = 0;
  EXPECT_THAT(
      CompleteError(), HasSubstr("data.train_samples is 0, and worker.program doesn't say"));
  own_.train_samples = 5;
  own_.test_samples = 0;
  job_.data.test_samples = 1;
  EXPECT_THAT(CompleteError(), HasSubstr("worker.program evaluates nothing"));
}

TEST_F(ScriptPartsTest, AWeightDecayThatIsForNoTensorIsRefused) {
  names_optimizer_ = true;
  job_.optimizer.weight_decay = 0.5F;
  own_.tensors[0].has_weight_decay = false;
  EXPECT_THAT(
      CompleteError(),
      AllOf(
          HasSubstr("optimizer.weight_decay is 0.5, and no tensor of worker.program decays"),
          HasSubstr(R"("weight_decay": "on")")));
  proto::ParameterGroup group;
  group.match = {"weight"};
  group.weight_decay = proto::DecayUse::kOn;
  job_.parameters = {group};
  EXPECT_EQ(Complete().optimizer.weight_decay, 0.5F);
  job_.parameters = {};
  own_.tensors[0].has_weight_decay = true;
  EXPECT_EQ(Complete().optimizer.weight_decay, 0.5F);
  own_.tensors[0].has_weight_decay = false;
  job_.train.local_steps = 2;
  EXPECT_EQ(Complete().train.local_steps, 2U) << "the program's optimizer steps";
}

TEST_F(ScriptPartsTest, StepsOfALoopThatSaysTheirSizeAreTheJobs) {
  own_.minibatch = 32;
  EXPECT_THAT(
      CompleteError(),
      HasSubstr("train.minibatch is 64, and worker.program has steps of 32 samples"));
  job_.train.minibatch = 32;
  EXPECT_EQ(Complete().train.minibatch, 32U);
  proto::WorkerGroup other;
  other.minibatch = 16;
  job_.workers.push_back(other);
  EXPECT_THAT(CompleteError(), HasSubstr("workers[1].minibatch is 16, and worker.program"));
  job_.train.minibatch = 64;
  job_.workers = {other};
  own_.minibatch = 16;
  EXPECT_EQ(Complete().train.minibatch, 64U) << "nobody has that one";
}

TEST_F(ScriptPartsTest, LocalStepsAreSaidInOnePlace) {
  own_.local_steps = 8;
  const proto::JobConfig job = Complete();
  EXPECT_EQ(job.train.local_steps, 8U);
  EXPECT_FALSE(job.train.overlap);
  EXPECT_EQ(job.optimizer, proto::OptimizerConfig()) << "the inner optimizer is the program's";
  EXPECT_THAT(Ask()->OptimizerNote(job), IsEmpty());
  job_.train.local_steps = 4;
  EXPECT_THAT(CompleteError(), HasSubstr("train.local_steps is 4, and worker.program asks for 8"));
  job_.train.local_steps = 8;
  EXPECT_EQ(Complete().train.local_steps, 8U);
}

}  // namespace
}  // namespace ps::run
