#include "run/report/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "psctl/view/status_view.h"
#include "tests/psctl/golden.h"
#include "tests/run/sample_status.h"

namespace ps::psctl {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

proto::JobStatus Done() {
  proto::JobStatus status = run::MakeStatus();
  status.state = proto::RunState::kDone;
  status.samples_counted = 180'000;
  status.elapsed_s = 100;
  return status;
}

TEST(SummaryTest, SaysWhatTheRunCameTo) {
  EXPECT_EQ(run::RenderSummary(Done()), Golden("summary.txt"));
}

TEST(SummaryTest, TrafficIsAFigureOfItsOwnWhereItCosts) {
  proto::JobStatus status = Done();
  EXPECT_THAT(run::RenderSummary(status), Not(HasSubstr("traffic")));
  EXPECT_THAT(RenderStatus(status, 100), Not(HasSubstr("traffic")));
  status.usd_spent = 1.5;
  status.traffic.usd = 0.42;
  status.traffic.usd_per_hour = 0.2;
  status.traffic.bytes = uint64_t{20} << 30;
  EXPECT_THAT(run::RenderSummary(status), HasSubstr("1.50 USD\n"));
  EXPECT_THAT(run::RenderSummary(status), HasSubstr("0.42 USD for 20.0 GiB\n"));
  const std::string json = run::SummaryToJson(status, "");
  EXPECT_THAT(json, HasSubstr("\"usd_spent\":1.5,\"traffic_usd\":0.42,"));
  EXPECT_THAT(json, HasSubstr("\"traffic_bytes\":21474836480"));
  EXPECT_THAT(
      RenderStatus(status, 100), HasSubstr("0.42 USD for 20.0 GiB so far, 0.20 USD an hour"));
}

TEST(SummaryTest, AMetricIsCalledByItsName) {
  proto::JobStatus status = Done();
  status.metric = proto::Metric::kR2;
  status.evaluations.back().accuracy = 0.8312;
  status.figures = {{"grad", 1}, {"test_mae", 0.25}};
  const std::string text = run::RenderSummary(status);
  EXPECT_THAT(text, HasSubstr("test r2"));
  EXPECT_THAT(text, HasSubstr("0.8312 (loss "));
  EXPECT_THAT(text, HasSubstr("test_mae 0.25\n"));
  EXPECT_THAT(text, Not(HasSubstr("accuracy")));
  const std::string json = run::SummaryToJson(status, "");
  EXPECT_THAT(json, HasSubstr("\"metric\":\"r2\""));
  EXPECT_THAT(json, HasSubstr("\"test_r2\":0.8312"));
  EXPECT_THAT(json, Not(HasSubstr("accuracy")));
  const std::string told = RenderStatus(status, 100);
  EXPECT_THAT(told, HasSubstr("r2 0.8312, loss "));
  EXPECT_THAT(told, Not(HasSubstr("accuracy")));
}

TEST(SummaryTest, SamplesForValidationAreCountedBesideTheTests) {
  proto::JobStatus status = Done();
  status.validation_samples = 6'000;
  ASSERT_GE(status.evaluations.size(), 1U);
  status.evaluations.back().samples = 6'000;
  EXPECT_THAT(run::RenderSummary(status), HasSubstr("validation accuracy"));
  EXPECT_THAT(RenderStatus(status, 100), HasSubstr(", 6,000 samples\n"));
  proto::EvaluationRow last = status.evaluations.back();
  last.samples = 10'000;
  status.evaluations.push_back(last);
  status.has_last_evaluation = true;
  const std::string text = run::RenderSummary(status);
  EXPECT_THAT(text, ContainsRegex("test accuracy +[0-9.]+ % \\(loss [0-9.]+, 10,000 samples"));
  EXPECT_THAT(text, ContainsRegex("validation accuracy +[0-9.]+ % \\(loss [0-9.]+, 6,000 samples"));
  EXPECT_THAT(run::SummaryToJson(status, ""), HasSubstr("\"validation_samples\":6000"));
  status.evaluations.clear();
  status.has_last_evaluation = false;
  EXPECT_THAT(RenderStatus(status, 100), HasSubstr("no epoch yet, 6,000 samples"));
}

TEST(SummaryTest, AFailureComesWithItsReason) {
  proto::JobStatus status;
  status.name = "mnist";
  status.state = proto::RunState::kFailed;
  status.detail = "server 1 was killed by signal 9 (Killed)";
  const std::string text = run::RenderSummary(status);
  EXPECT_THAT(
      text,
      StartsWith(
          "mnist: failed before training began: server 1 was killed by signal 9 (Killed)\n"));
  EXPECT_THAT(text, HasSubstr("/logs\n"));
  EXPECT_THAT(text, Not(HasSubstr("samples")));
}

TEST(SummaryTest, AHugeLossIsShort) {
  proto::JobStatus status = Done();
  status.evaluations.back().loss = 776402802.7643;
  EXPECT_THAT(run::RenderSummary(status), HasSubstr("(loss 7.76e+08, "));
}

TEST(SummaryTest, UpdatesThatOverflowAreSaid) {
  proto::JobStatus status = Done();
  status.shards.resize(1);
  status.shards[0].stats.chunks_overflowed = 12;
  EXPECT_THAT(run::RenderSummary(status), HasSubstr("12 updates of a chunk would have made"));
  EXPECT_THAT(run::SummaryToJson(status), HasSubstr(R"("chunks_overflowed":12,)"));
  EXPECT_THAT(run::SummaryToJson(Done()), HasSubstr(R"("chunks_overflowed":0,)"));
}

TEST(SummaryTest, CheckpointsAndTheirCopiesAreCounted) {
  proto::JobStatus status = Done();
  status.checkpoints.is_on = true;
  status.checkpoints.committed = 12;
  status.checkpoints.failed = 3;
  status.checkpoints.skipped = 2;
  status.checkpoints.damaged = 1;
  status.checkpoints.shards_restored = 4;
  status.copies = {"s3://bucket/run", 12, 11, 1, 4096, "it is full"};
  EXPECT_THAT(run::RenderSummary(status), HasSubstr("12 written, 3 failed, 2 skipped"));
  EXPECT_THAT(
      run::RenderSummary(status),
      HasSubstr("11 to s3://bucket/run, 4.0 KiB sent, 1 failed, the last one too: it is full"));
  EXPECT_THAT(
      run::SummaryToJson(status),
      HasSubstr(R"("shards_restored":4,"checkpoints_written":12,"checkpoints_failed":3,)"
                R"("checkpoints_skipped":2,"checkpoints_damaged":1,"checkpoints_copied":11,)"
                R"("copies_failed":1,"bytes_copied":4096,)"));
}

/// The same in the summary, in the status and in what programs read.
TEST(SummaryTest, WhatWasUndoneIsOneLineEverywhere) {
  proto::JobStatus status = Done();
  EXPECT_THAT(run::RenderSummary(status), Not(HasSubstr("undone")));
  status.checkpoints.is_on = true;
  status.checkpoints.shards_restored = 1;
  status.checkpoints.steps_undone = 353;
  status.checkpoints.samples_undone = 11'296;
  const std::string line =
      "353 steps of 11,296 samples that had counted, with servers that were lost\n";
  EXPECT_THAT(run::RenderSummary(status), HasSubstr("undone                " + line));
  EXPECT_THAT(RenderStatus(status), HasSubstr("undone       " + line));
  EXPECT_THAT(
      run::SummaryToJson(status), HasSubstr(R"("steps_undone":353,"samples_undone":11296,)"));
}

TEST(SummaryTest, RowsOfWorkersAddUpOrSayWhyNot) {
  proto::JobStatus status = Done();
  status.samples_counted = 120'000;
  EXPECT_THAT(run::RenderSummary(status), Not(HasSubstr("not in the table")));
  EXPECT_THAT(run::SummaryToJson(status), HasSubstr(R"("samples_of_other_workers":0)"));
  status.samples_counted = 180'000;
  for (uint64_t incarnation = 10; incarnation < 30; ++incarnation) {
    status.workers.push_back(run::MakeWorkerRow(5, incarnation, proto::WorkerRowState::kLost));
    status.workers.back().samples_counted = 1000;
  }
  // Five rows of 44,000 are not shown, and 40,000 are of before the run was resumed.
  EXPECT_THAT(
      run::RenderSummary(status),
      HasSubstr("and 5 earlier ones, in summary.json\n"
                "84,000 samples are of workers that are not in the table: of before a resume, or "
                "gone\n"));
  EXPECT_THAT(run::SummaryToJson(status), HasSubstr(R"("samples_of_other_workers":40000)"));
}

TEST(SummaryTest, MovesOfAllChunksAreCounted) {
  proto::JobStatus status = Done();
  EXPECT_THAT(run::RenderSummary(status), Not(HasSubstr("placed anew")));
  status.servers = {3, 3, false, 2, ""};
  EXPECT_THAT(
      run::RenderSummary(status),
      HasSubstr("3 servers at the end; all chunks were placed anew 2 times"));
}

TEST(SummaryTest, JsonIsOneObjectOnOneLine) {
  const std::string json = run::SummaryToJson(Done());
  EXPECT_THAT(json, StartsWith(R"({"name":"fashion-mnist","state":"done","detail":"")"));
  EXPECT_THAT(json, HasSubstr(R"("test_accuracy":0.8612,"test_loss":0.3811)"));
  EXPECT_THAT(json, HasSubstr(R"("samples_per_s":1800,)"));
  EXPECT_THAT(json, HasSubstr(R"("bytes_pushed":1610612736,)"));
  EXPECT_THAT(
      json,
      HasSubstr(R"("ledger":[{"epoch":1,"samples_total":60000,"samples_counted":60000,)"
                R"("samples_leased":0,"samples_returned":312},{"epoch":2,)"));
  EXPECT_THAT(json, HasSubstr(R"("workers":[{"worker":0,"incarnation":1,"state":"stayed")"));
  EXPECT_THAT(json, Not(HasSubstr("\n")));
  EXPECT_EQ(json.back(), '}');
}

TEST(SummaryTest, TheExitCodeIsZeroOnlyWhereTheModelOfTheEndWasLeft) {
  EXPECT_EQ(run::ExitCodeOf("done", ""), 0);
  EXPECT_EQ(run::ExitCodeOf("stopped", ""), 0);
  EXPECT_EQ(run::ExitCodeOf("failed", ""), 1);
  EXPECT_EQ(run::ExitCodeOf("killed", ""), 1);
  EXPECT_EQ(run::ExitCodeOf("done", "it is that of checkpoint 3, after 40 steps"), 1);
}

TEST(SummaryTest, JsonWithoutEvaluationHasNulls) {
  EXPECT_THAT(run::SummaryToJson({}), HasSubstr(R"("test_accuracy":null,"test_loss":null)"));
}

TEST(SummaryTest, SaysHowLongMachinesTookUntilTheirFirstStep) {
  EXPECT_THAT(run::RenderSummary(Done()), Not(HasSubstr("start-up")));
  EXPECT_THAT(run::SummaryToJson(Done()), HasSubstr(R"("starts":[],)"));
  const std::vector<proto::StartSample> starts = {
      {.instance_type = "g4dn.xlarge", .launcher = "ec2", .join_s = 60, .step_s = 94},
      {.instance_type = "g4dn.xlarge", .launcher = "ec2", .join_s = 62}};
  EXPECT_THAT(
      run::RenderSummary(Done(), 0, starts),
      HasSubstr("start-up              1m 34s until the first step of g4dn.xlarge (1 start)\n"));
  EXPECT_THAT(
      run::SummaryToJson(Done(), "", starts),
      HasSubstr(R"("starts":[{"type":"g4dn.xlarge","count":1,"median_s":94,"high_s":94}],)"));
  EXPECT_THAT(run::RenderSummary(Done(), 0, std::span(starts).last(1)), Not(HasSubstr("start-up")));
}

}  // namespace
}  // namespace ps::psctl
