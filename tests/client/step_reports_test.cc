#include "ps/client/step_reports.h"

#include <gtest/gtest.h>

#include "tests/client/member_parts.h"

namespace ps::client {
namespace {

proto::StepDone Done(Step step) {
  proto::StepDone done;
  done.step = step;
  return done;
}

TEST(StepReportsTest, WhatIsNotAcknowledgedIsInEveryReport) {
  MemberParts parts;
  parts.reports.Add(Done(1), parts.now, &parts.out);
  parts.reports.Add(Done(2), parts.now, &parts.out);
  parts.reports.OnStepAck({Incarnation(3), 2});
  EXPECT_TRUE(parts.reports.has_steps()) << "another incarnation's";
  parts.reports.OnStepAck({Incarnation(4), 1});
  parts.now += seconds(1);
  EXPECT_TRUE(parts.reports.OnTick(parts.now, &parts.out));
  const auto sent = parts.out.All<proto::StepReport>();
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(sent[1].steps.size(), 2U);
  ASSERT_EQ(sent[2].steps.size(), 1U);
  EXPECT_EQ(sent[2].steps[0].step, 2U);
}

TEST(StepReportsTest, NothingIsRepeatedOnceAllIsAcknowledged) {
  MemberParts parts;
  parts.reports.Add(Done(1), parts.now, &parts.out);
  parts.reports.Add(
      proto::EvaluateReport{Incarnation(4), LeaseId(9), 8, 1.0, 3, {}}, parts.now, &parts.out);
  parts.reports.OnStepAck({Incarnation(4), 1});
  parts.reports.Settle();
  EXPECT_TRUE(parts.reports.OnTick(parts.now + seconds(1), &parts.out)) << "the evaluation is open";
  parts.reports.OnEvaluateAck({Incarnation(4), LeaseId(9)});
  EXPECT_FALSE(parts.reports.has_evaluation());
  parts.reports.Settle();
  EXPECT_FALSE(parts.reports.OnTick(parts.now + seconds(60), &parts.out));
}

TEST(StepReportsTest, WhatFindsNoConnectionIsDueOnTheNextOne) {
  MemberParts parts;
  parts.coordinator.OnClosed(parts.now);
  parts.reports.Add(Done(1), parts.now, &parts.out);
  EXPECT_TRUE(parts.out.sent.empty());
  EXPECT_FALSE(parts.coordinator.OnConnected(proto::PeerId(8), 0, parts.now, &parts.out))
      << "of an earlier term";
  parts.coordinator.OnConnected(proto::PeerId(9), 2, parts.now, &parts.out);
  parts.reports.Hurry(parts.now);
  parts.reports.OnTick(parts.now, &parts.out);
  ASSERT_EQ(parts.out.sent.size(), 1U);
  EXPECT_EQ(parts.out.sent[0].to, proto::PeerId(9));
}

TEST(WorkTimesTest, TheWayToTheThreadAndBackIsWaiting) {
  WorkTimes times;
  TimePoint now{seconds(10)};
  times.Begin(now);
  now += seconds(2);
  times.OnTask(now);
  now += seconds(5);
  times.OnTaskDone({0, 0, 3.0}, now);
  times.OnStepDone({0, 0, 3.0});
  EXPECT_EQ(times.counters().wait_s, 2);
  EXPECT_EQ(times.counters().compute_s, 3);
  EXPECT_EQ(now - times.waiting_since(), seconds(2));
  EXPECT_EQ(times.step_seconds(), 3);
  times.counters().samples = 70;
  times.UpdateRate(now);
  EXPECT_EQ(times.counters().samples_per_s, 10);
  times.UpdateRate(now);
  EXPECT_EQ(times.counters().samples_per_s, 10) << "the last look is less than a second ago";
}

}  // namespace
}  // namespace ps::client
