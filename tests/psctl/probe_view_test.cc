#include "psctl/view/probe_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/base/file.h"
#include "run/probe_log.h"
#include "tests/base/temporary_folder.h"

namespace ps::psctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPrefix[] = "t=1.5 time=2026-01-31T09:41:36.123Z node=w0 level=info event=";

std::string Line(const std::string& rest) {
  return kPrefix + rest + "\n";
}

/// Two tensors, of which the second is ready first.
std::string ProbeLog() {
  return Line("joined worker=0") + Line("probe_tensor tensor=0 bytes=1000 ready=0.9") +
         Line("probe_tensor tensor=1 bytes=24 ready=0.25") +
         Line("probe_step minibatch=32 steps=40 forward_s=0.02 backward_s=0.04") +
         Line(
             "probe_link exchanges=39 push_bytes_per_s=1e+08 pull_bytes_per_s=2e+08 "
             "round_trip_s=0.0005");
}

proto::WorkerGroup GroupOf(const std::string& type) {
  proto::WorkerGroup group;
  group.type = type;
  return group;
}

TEST(ProbeLogTest, AWorkersLogTellsItsPassesInTheOrderOfReadiness) {
  proto::JobProfile profile;
  run::AddProbe(ProbeLog(), GroupOf("fast"), &profile);
  ASSERT_EQ(profile.steps.size(), 1U);
  const proto::StepTimes expected = {"fast", 32, 0.02, 0.04, 40, {{24, 0.25}, {1000, 0.9}}};
  EXPECT_EQ(profile.steps[0], expected);
  EXPECT_EQ(profile.link, (proto::LinkTimes{1e8, 2e8, 0.0005, 39}));
  // A worker that ran again has the same log: the last counts.
  run::AddProbe(
      ProbeLog() + Line("probe_tensor tensor=0 bytes=8 ready=1") +
          Line("probe_step minibatch=32 steps=9 forward_s=0.5 backward_s=0.5"),
      GroupOf("fast"),
      &profile);
  ASSERT_EQ(profile.steps.size(), 1U);
  EXPECT_EQ(profile.steps[0].forward_s, 0.5);
  EXPECT_EQ(profile.steps[0].tensors.size(), 1U);
}

TEST(ProbeLogTest, FiguresThatNoProfileCanHoldArePassedOver) {
  const std::string tensor = Line("probe_tensor tensor=0 bytes=8 ready=1");
  for (const std::string& log :
       {std::string("\xff\xfe=\n\n\"="),
        Line("probe_step minibatch=32 steps=40 forward_s=0.02 backward_s=0.04"),
        tensor + Line("probe_step minibatch=0 steps=40 forward_s=0.02 backward_s=0.04"),
        tensor + Line("probe_step minibatch=32 steps=0 forward_s=0 backward_s=0"),
        tensor + Line("probe_step minibatch=32 steps=4 forward_s=nan backward_s=0.1"),
        tensor + Line("probe_step minibatch=32 steps=4 forward_s=1e300 backward_s=0.1"),
        Line("probe_tensor tensor=0 bytes=8 ready=1.5") +
            Line("probe_step minibatch=32 steps=4 forward_s=0.1 backward_s=0.1"),
        Line("probe_link exchanges=0 push_bytes_per_s=0 pull_bytes_per_s=0 round_trip_s=0"),
        Line("probe_link exchanges=9 push_bytes_per_s=-1 pull_bytes_per_s=1 round_trip_s=0")}) {
    proto::JobProfile profile;
    run::AddProbe(log, GroupOf("fast"), &profile);
    EXPECT_EQ(profile, proto::JobProfile()) << log;
  }
}

TEST(ProbeLogTest, EachSeatTellsOfItsTypeAndALoneOneOfItsLink) {
  const TemporaryFolder folder;
  ASSERT_TRUE(WriteFileAtomically(folder / "worker0.log", ProbeLog()).ok());
  ASSERT_TRUE(WriteFileAtomically(
                  folder / "worker2.log",
                  Line("probe_tensor tensor=0 bytes=8 ready=1") +
                      Line("probe_step minibatch=32 steps=9 forward_s=0.5 backward_s=0.5"))
                  .ok());
  proto::JobProfile profile;
  const std::vector<proto::WorkerGroup> seats = {GroupOf("fast"), GroupOf("fast"), GroupOf("slow")};
  run::AddProbes(folder.path(), seats, &profile);
  ASSERT_EQ(profile.steps.size(), 2U) << "seat 1 left no log";
  ASSERT_NE(profile.FindSteps("slow"), nullptr);
  EXPECT_EQ(profile.FindSteps("slow")->forward_s, 0.5);
  EXPECT_EQ(profile.FindSteps("fast")->forward_s, 0.02);
  EXPECT_EQ(profile.link.exchanges, 0);
  run::AddProbes(folder.path(), std::vector(1, GroupOf("fast")), &profile);
  EXPECT_EQ(profile.link.exchanges, 39);
}

/// 30 ms a step alone, of which 10 are forward, and 1 MB each way.
proto::JobProfile TimedProfile() {
  proto::JobProfile profile;
  profile.push_bytes = 1e6;
  profile.pull_bytes = 1e6;
  profile.workers = {{"local", 64, 0.03, 0, 50, 0}};
  profile.steps = {{"local", 64, 0.01, 0.02, 1234, {{0.25e6, 0.5}, {0.75e6, 1}}}};
  profile.link = {100e6, 100e6, 0.001, 40};
  profile.fleets = {{{"local"}, 1, 0, 20, 1280, 10}};
  return profile;
}

TEST(ProbeViewTest, PassesTensorsLinkAndBothModelsStandInTables) {
  const std::string text = RenderProbes(TimedProfile(), provisioner::ExchangeKind::kWaiting);
  EXPECT_THAT(
      text,
      AllOf(
          HasSubstr("passes of a step  minibatch  forward ms  backward ms   both  steps\n"),
          HasSubstr("local                    64       10.00        20.00  30.00  1,234\n"),
          HasSubstr("tensors, as ready      bytes  of backward  ready ms\n"),
          HasSubstr("round trip 1.00 ms, 40 exchanges"),
          HasSubstr("step of a worker, ms  measured  overlap"),
          HasSubstr("1 local                  50.00    48.50  -3.0 %")))
      << text;
}

TEST(ProbeViewTest, ManyTensorsShareRows) {
  proto::JobProfile profile = TimedProfile();
  std::vector<proto::TensorReady>& tensors = profile.steps[0].tensors;
  tensors.clear();
  for (int i = 1; i <= 41; ++i) {
    tensors.push_back({1000, i / 41.0});
  }
  const std::string text = RenderProbes(profile, provisioner::ExchangeKind::kHidden);
  EXPECT_THAT(text, AllOf(HasSubstr("1 to 3 "), HasSubstr("40 to 41 "), Not(HasSubstr("42"))));
}

TEST(ProbeViewTest, WhatWasNotTimedIsSaid) {
  EXPECT_THAT(
      RenderProbes({}, provisioner::ExchangeKind::kHidden), HasSubstr("no passes were timed"));
  proto::JobProfile profile = TimedProfile();
  profile.link = {};
  EXPECT_THAT(
      RenderProbes(profile, provisioner::ExchangeKind::kHidden),
      HasSubstr("the link of a worker was not timed"));
}

TEST(ProbeViewTest, TheJobSaysHowItsWorkersExchange) {
  proto::JobConfig job;
  job.train.mode = proto::Mode::kAsync;
  job.train.overlap = true;
  EXPECT_EQ(ExchangeKindOf(job), provisioner::ExchangeKind::kHidden);
  job.train.overlap = false;
  EXPECT_EQ(ExchangeKindOf(job), provisioner::ExchangeKind::kWaiting);
  job.train.mode = proto::Mode::kBsp;
  EXPECT_EQ(ExchangeKindOf(job), provisioner::ExchangeKind::kRounds);
  job.train.mode = proto::Mode::kSsp;
  EXPECT_EQ(ExchangeKindOf(job), provisioner::ExchangeKind::kWaiting);
}

}  // namespace
}  // namespace ps::psctl
