#include "psctl/view/status_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "psctl/view/why_view.h"
#include "run/report/run_events.h"
#include "tests/psctl/golden.h"
#include "tests/run/sample_status.h"

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StatusViewTest, ARunningJobIsShownWhole) {
  EXPECT_EQ(RenderStatus(run::MakeStatus()), Golden("status.txt"));
}

TEST(StatusViewTest, ANarrowTerminalKeepsTheColumnsThatMatter) {
  EXPECT_THAT(
      RenderStatus(run::MakeStatus(), 40),
      HasSubstr("worker  state      samples/s  silent s\n"
                "     0  computing        812       0.2\n"
                "     1  waiting         96.0       0.2\n"
                "     2  lost               -         -\n"));
}

TEST(StatusViewTest, AJobWithoutWorkersOrServersSaysSo) {
  proto::JobStatus status;
  status.name = "mnist";
  status.state = proto::RunState::kStarting;
  const std::string text = RenderStatus(status);
  EXPECT_THAT(text, HasSubstr("no workers yet\n"));
  EXPECT_THAT(text, HasSubstr("no servers yet\n"));
  EXPECT_THAT(text, HasSubstr("no step yet\n"));
}

TEST(StatusViewTest, TextOfOtherProcessesCanNotControlTheTerminal) {
  proto::JobStatus status = run::MakeStatus();
  status.name = "a\x1b[2J";
  status.workers[0].host = "\x1b]0;title\x07";
  status.waits[0].what = "\r\n";
  for (const std::string& text :
       {RenderStatus(status), RenderJobList({status}), RenderWhy(status)}) {
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    EXPECT_THAT(text, Not(HasSubstr("\r")));
  }
}

TEST(StatusViewTest, WhatWasMovedByHandIsShownWithItsServer) {
  proto::JobStatus status = run::MakeStatus();
  EXPECT_THAT(RenderStatus(status), Not(HasSubstr("pinned")));
  status.servers.pinned = {{"7.linear.weight", -1, 1}, {"3.\x1b", 2, 0}};
  status.servers.chunks_pinned = 5;
  const std::string text = RenderStatus(status);
  EXPECT_THAT(text, HasSubstr("7.linear.weight on server 1, 3."));
  EXPECT_THAT(text, HasSubstr(":2 on server 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  status.servers.pinned.resize(20, {"w", 1, 1});
  EXPECT_THAT(RenderStatus(status), HasSubstr("w:1 on server 1, ...: 5 chunks in all\n"));
}

TEST(StatusViewTest, WhatStepsHaveIsShownOnceSomebodyHasChosenIt) {
  proto::JobStatus status = run::MakeStatus();
  EXPECT_THAT(RenderStatus(status), Not(HasSubstr("exchange")));
  EXPECT_THAT(RenderStatus(status), Not(HasSubstr("held back")));
  status.steps.in_force.push = {codec::EncodingKind::kInt8};
  status.steps.in_force.local_steps = 50;
  status.steps.wanted = status.steps.in_force;
  status.steps.chosen.push = true;
  status.steps.changes = 2;
  status.steps.since_samples = 12'000;
  status.workers[0].stats.times.held_back = 0.123;
  EXPECT_THAT(
      RenderStatus(status),
      HasSubstr("exchange     push int8 with error feedback (auto), pull f32, every 50 "
                "minibatches, since 12,000 samples\n"));
  EXPECT_THAT(RenderStatus(status), HasSubstr("held back"));
  EXPECT_THAT(RenderStatus(status), HasSubstr(" 12 % "));
  status.steps.wanted.pull = {codec::EncodingKind::kBf16};
  EXPECT_THAT(RenderStatus(status), HasSubstr("; with the next round exchange.pull=bf16\n"));
}

TEST(StatusViewTest, GroupsSayHowManyTakePart) {
  proto::JobStatus status = run::MakeStatus();
  status.fleet = {{"fast", 4, 3}, {"slow", 0, 0}};
  EXPECT_THAT(RenderStatus(status, 0), HasSubstr("fast 3 of 4, slow 0 of 0\n"));
}

TEST(StatusViewTest, WorkersThatCannotBeStartedAreShownWithTheReason) {
  proto::JobStatus status = run::MakeStatus();
  EXPECT_THAT(RenderStatus(status, 0), Not(HasSubstr("\nwaiting")));
  status.fleet = {{"fast", 4, 3}, {"slow", 2, 0, 2, 590, "zone a: \x1b was not started"}};
  EXPECT_THAT(
      RenderStatus(status, 0),
      HasSubstr("waiting      2 workers of slow for 9m 50s: zone a: ? was not started\n"));
}

TEST(StatusViewTest, SeveralJobsAreARowEach) {
  proto::JobStatus other;
  other.name = std::string(60, 'x');
  other.state = proto::RunState::kStarting;
  other.run_directory = "/r/other-20240131-120000";
  EXPECT_EQ(RenderJobList({run::MakeStatus(), other}), Golden("job_list.txt"));
}

TEST(StatusViewTest, WhyNamesWhoWaitsForWhomAndTheTimes) {
  EXPECT_EQ(RenderWhy(run::MakeStatus()), Golden("why.txt"));
}

TEST(StatusViewTest, WhyWithoutWaitsSaysSo) {
  proto::JobStatus status = run::MakeStatus();
  status.waits.clear();
  EXPECT_THAT(RenderWhy(status), HasSubstr("nobody waits\n"));
}

TEST(StatusViewTest, OnlyTheNewestOfManyGoneWorkersAreListed) {
  proto::JobStatus status = run::MakeStatus();
  for (uint64_t incarnation = 10; incarnation < 40; ++incarnation) {
    status.workers.push_back(run::MakeWorkerRow(5, incarnation, proto::WorkerRowState::kLost));
  }
  status.workers.push_back(run::MakeWorkerRow(5, 40, proto::WorkerRowState::kComputing));
  const run::ShownWorkers shown = run::ChooseWorkers(status, 8);
  ASSERT_EQ(shown.rows.size(), 3U + 8U);
  EXPECT_EQ(shown.rows[2].incarnation, Incarnation(40));
  EXPECT_EQ(shown.rows[3].incarnation, Incarnation(32)) << "the newest, in order";
  EXPECT_EQ(shown.rows.back().incarnation, Incarnation(39));
  EXPECT_EQ(shown.hidden, 23U);
  EXPECT_THAT(RenderStatus(status), HasSubstr("and 23 more that are gone\n"));
}

TEST(StatusViewTest, TheGoneAreListedBySeat) {
  proto::JobStatus status;
  for (const auto& [seat, incarnation] :
       std::vector<std::pair<uint32_t, uint64_t>>{{1, 6}, {3, 4}, {2, 5}, {1, 2}, {0, 7}}) {
    status.workers.push_back(run::MakeWorkerRow(
        seat,
        incarnation,
        seat == 0 ? proto::WorkerRowState::kComputing : proto::WorkerRowState::kLost));
  }
  std::vector<uint64_t> incarnations;
  for (const proto::WorkerRow& row : run::ChooseWorkers(status, 8).rows) {
    incarnations.push_back(row.incarnation.value);
  }
  EXPECT_THAT(incarnations, testing::ElementsAre(7, 2, 6, 5, 4));
}

TEST(StatusViewTest, StatusShowsTheLongestWaitsAndWhyShowsAll) {
  proto::JobStatus status = run::MakeStatus();
  status.waits.clear();
  for (int i = 0; i < 20; ++i) {
    status.waits.push_back({"w" + std::to_string(i), "w99", "a round", i + 0.5, Generation(1)});
  }
  EXPECT_THAT(RenderStatus(status), HasSubstr("\nw19 waits for w99"));
  EXPECT_THAT(RenderStatus(status), Not(HasSubstr("w0 waits")));
  EXPECT_THAT(RenderStatus(status), HasSubstr("and 12 shorter waits: psctl why\n"));
  EXPECT_THAT(RenderWhy(status), HasSubstr("w0 waits"));
}

TEST(StalenessTest, MedianAndMaxComeFromTheHistogram) {
  const StalenessSummary some = SummarizeStaleness({100, 300, 50, 2, 0});
  EXPECT_EQ(some.median, 1U);
  EXPECT_EQ(some.max, 3U);
  EXPECT_EQ(some.count, 452U);
  EXPECT_FALSE(some.is_open_ended);
  const StalenessSummary open = SummarizeStaleness({1, 0, 5});
  EXPECT_EQ(open.median, 2U);
  EXPECT_TRUE(open.is_open_ended);
  EXPECT_EQ(SummarizeStaleness({}).count, 0U);
  EXPECT_EQ(SummarizeStaleness({0, 0}).count, 0U);
}

}  // namespace
}  // namespace ps::psctl
