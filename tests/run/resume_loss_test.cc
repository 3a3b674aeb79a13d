#include "run/resume_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "ps/base/file.h"
#include "run/directory/files.h"
#include "tests/base/temporary_folder.h"
#include "tests/proto/small_job.h"

namespace ps::run {
namespace {

using ::testing::HasSubstr;

checkpoint::Progress At(uint64_t steps, uint64_t samples) {
  return {0, steps, samples, 0.5, 0.5};
}

std::string Line(uint64_t steps, uint64_t samples, double unix_s, const char* state = "training") {
  return R"({"time_unix_s":)" + std::to_string(unix_s) + R"(,"state":")" + state +
         R"(","samples_counted":)" + std::to_string(samples) + R"(,"steps_counted":)" +
         std::to_string(steps) + "}\n";
}

TEST(ResumeLossTest, TheJournalKnowsWhatWasCountedAfterTheCheckpoint) {
  proto::JobState state;
  state.checkpoints.next = 8;
  state.counters.steps_counted = 601;
  state.ledger.epochs.resize(2);
  state.ledger.epochs[0].counted.Insert(0, 10'000);
  state.ledger.epochs[1].counted.Insert(0, 9'232);
  const auto counted = CountedByJournal(state, 7);
  ASSERT_TRUE(counted.has_value());
  EXPECT_EQ(
      LossText(At(300, 9'600), counted, 30),
      "lost since the checkpoint: 301 steps of 9,632 samples; they are trained again\n");
  EXPECT_EQ(LossText(At(601, 19'232), counted, 30), "lost since the checkpoint: nothing\n");
  EXPECT_FALSE(CountedByJournal(state, 8).has_value()) << "another run wrote this one";
}

TEST(ResumeLossTest, TheLastWholeLineOfTheMetricsKnowsAtLeastSomeOfIt) {
  const std::string lines = Line(100, 3'200, 5) + Line(587, 18'784, 9);
  const auto counted = CountedByMetrics(lines + R"({"time_unix_s":10,"steps_cou)");
  ASSERT_TRUE(counted.has_value());
  EXPECT_EQ(
      LossText(At(300, 9'600), counted, 30),
      "lost since the checkpoint: by the last line of metrics.jsonl at least 287 steps of 9,184 "
      "samples; they are trained again\n");
  const auto ended = CountedByMetrics(lines + Line(600, 19'200, 11, "stopped"));
  EXPECT_EQ(LossText(At(600, 19'200), ended, 30), "lost since the checkpoint: nothing\n");
  EXPECT_FALSE(CountedByMetrics("").has_value());
  EXPECT_FALSE(CountedByMetrics("{\"steps_counted\":1}\nnonsense\n").has_value());
}

TEST(ResumeLossTest, WhatNobodyKnowsIsSaid) {
  EXPECT_THAT(
      LossText(At(300, 9'600), std::nullopt, 30),
      HasSubstr("not known, up to 30 s of training (checkpoint.every_s)"));
  const CountedWork older{200, 6'400, false, 1};
  EXPECT_THAT(LossText(At(300, 9'600), older, 30), HasSubstr("not known"))
      << "the metrics are older than the checkpoint";
}

TEST(ResumeLossTest, MetricsAreThoseOfTheRunThatWroteLastToThePath) {
  const TemporaryFolder folder;
  const std::string runs = folder.path() + "/runs";
  const RunPaths first{runs + "/job-20240101-000000"};
  const RunPaths second{runs + "/job-20240102-000000"};
  for (const RunPaths& run : {first, second}) {
    std::filesystem::create_directories(run.checkpoints());
    ASSERT_TRUE(WriteFileAtomically(run.lock(), "").ok());
  }
  Result<proto::JobConfig> config =
      proto::ParseJobConfig(std::string(tests::kSmall), "job.json", {});
  ASSERT_TRUE(config.ok()) << config.status();
  config->checkpoint.path = first.checkpoints();
  ASSERT_TRUE(WriteFileAtomically(second.config(), proto::PrintJobConfig(*config)).ok());
  ASSERT_TRUE(WriteFileAtomically(first.metrics(), Line(500, 16'000, 100)).ok());
  ASSERT_TRUE(WriteFileAtomically(second.metrics(), Line(400, 12'800, 200)).ok());
  const RunRegistry registry(folder.path() + "/registry", {runs});
  checkpoint::Manifest manifest;
  manifest.unix_micros = 90'000'000;
  auto counted = FindCounted(first.checkpoints(), first, registry, manifest);
  ASSERT_TRUE(counted.has_value());
  EXPECT_EQ(counted->steps, 400U) << "the first run had ended when the second went on from it";
  manifest.unix_micros = 201'000'000;
  EXPECT_FALSE(FindCounted(first.checkpoints(), first, registry, manifest).has_value());
}

}  // namespace
}  // namespace ps::run
