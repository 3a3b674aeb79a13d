#include "ps/client/step_pipeline.h"

#include <gtest/gtest.h>

#include "tests/client/member_parts.h"

namespace ps::client {
namespace {

constexpr ShardId kBoth[] = {ShardId(0), ShardId(1)};

class StepPipelineTest : public ::testing::Test {
 protected:
  explicit StepPipelineTest(bool overlap = false) : parts_(overlap) {
    parts_.leases.Take(parts_.Grant(1, 0, 32));
  }

  void Advance() { EXPECT_TRUE(parts_.steps.Advance(true, parts_.now, &parts_.out).ok()); }

  void Values(float value) {
    for (const ShardId shard : kBoth) {
      parts_.parameters.OnValues(parts_.AnswerPull(shard, value), parts_.steps.is_host_busy());
    }
  }

  void Compute() {
    parts_.steps.OnHostFree();
    EXPECT_TRUE(parts_.steps.OnComputed({2.0, 3, 0.5}, false, true, parts_.now, &parts_.out).ok());
    Advance();
  }

  MemberParts parts_;
};

TEST_F(StepPipelineTest, AStepIsPulledComputedPushedAndReportedInThatOrder) {
  Advance();
  EXPECT_TRUE(parts_.host.tasks.empty()) << "the first step needs parameters";
  Values(3);
  Advance();
  ASSERT_EQ(parts_.host.tasks.size(), 1U);
  EXPECT_EQ(parts_.host.tasks[0].end, 8U);
  EXPECT_EQ(parts_.host.FirstParameter(), 3);
  Compute();
  for (const ShardId shard : kBoth) {
    EXPECT_TRUE(parts_.out.All<proto::StepReport>().empty());
    parts_.AnswerPush(shard, 1);
    Advance();
  }
  const auto reports = parts_.out.All<proto::StepReport>();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].steps[0].loss_sum, 2.0);
  EXPECT_EQ(reports[0].steps[0].lives, 10U);
  EXPECT_EQ(parts_.host.tasks.size(), 1U) << "the fused pull has not come";
}

TEST_F(StepPipelineTest, ValuesThatComeDuringATaskWaitForItsEnd) {
  Advance();
  Values(3);
  Advance();
  PullIntake::Fresh fresh;
  fresh.key = MakeChunkKey(0, 0);
  fresh.bytes = std::as_bytes(std::span(parts_.values));
  fresh.element_count = static_cast<uint32_t>(parts_.values.size());
  parts_.parameters.OnValues({fresh}, parts_.steps.is_host_busy());
  const size_t taken = parts_.host.taken.size();
  Compute();
  EXPECT_EQ(parts_.host.taken.size(), taken + 1);
}

TEST_F(StepPipelineTest, AHostThatKeepsThemFromTheTaskGetsThemAsTheyCome) {
  parts_.host.takes_during_tasks = true;
  Advance();
  Values(3);
  Advance();
  const size_t taken = parts_.host.taken.size();
  Values(4);
  EXPECT_EQ(parts_.host.taken.size(), taken + 2);
  Compute();
  EXPECT_EQ(parts_.host.taken.size(), taken + 2) << "each once";
}

TEST_F(StepPipelineTest, NoStepBeginsWhenNoneMayAndWhatIsInHandIsFinished) {
  Advance();
  Values(3);
  Advance();
  EXPECT_TRUE(parts_.steps.HasStepToFinish());
  parts_.steps.ShortenStepThatIsLate(parts_.now + seconds(10), parts_.now);
  EXPECT_TRUE(parts_.steps.HasStepToFinish()) << "there is time";
  parts_.steps.DropTask();
  EXPECT_FALSE(parts_.steps.HasStepToFinish());
  EXPECT_EQ(parts_.times.counters().steps_dropped, 1U);
  parts_.steps.OnHostFree();
  EXPECT_TRUE(parts_.steps.Advance(false, parts_.now, &parts_.out).ok());
  EXPECT_EQ(parts_.host.tasks.size(), 1U);
}

TEST_F(StepPipelineTest, AHostThatCanNotComputeIsAnError) {
  parts_.host.compute_error = Status::Io("no device");
  Advance();
  Values(3);
  const Status status = parts_.steps.Advance(true, parts_.now, &parts_.out);
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_NE(status.message().find("begin a step"), std::string::npos);
}

/// A lease of 24 samples for a step of three minibatches.
class LocalPipelineTest : public StepPipelineTest {
 protected:
  LocalPipelineTest() {
    parts_.leases.Reset();
    proto::LeaseGrant grant = parts_.Grant(2, 100, 124);
    grant.local_steps = 3;
    grant.settings.local_steps = 3;
    grant.samples_done = 1000;
    parts_.leases.Take(grant);
    Advance();
    Values(3);
    Advance();
  }

  size_t pushes() const { return parts_.out.All<proto::PushRequest>().size(); }

  void ComputeSome(uint64_t samples) {
    parts_.steps.OnHostFree();
    const ComputeResult result{2.0, 3, 0.5, samples};
    EXPECT_TRUE(parts_.steps.OnComputed(result, false, true, parts_.now, &parts_.out).ok());
    Advance();
  }
};

TEST_F(LocalPipelineTest, AStepIsAllMinibatchesAndTravelsWhenTheyAreDone) {
  ASSERT_EQ(parts_.host.tasks.size(), 1U);
  EXPECT_EQ(parts_.host.tasks[0].begin, 100U);
  EXPECT_EQ(parts_.host.tasks[0].end, 124U);
  EXPECT_EQ(parts_.host.tasks[0].minibatch, 8U);
  EXPECT_EQ(parts_.host.tasks[0].local_steps, 3U);
  EXPECT_EQ(parts_.host.tasks[0].samples_done, 1000U);
  parts_.steps.OnTensorReady(0, parts_.now, &parts_.out);
  EXPECT_EQ(pushes(), 0U);
  ComputeSome(24);
  EXPECT_EQ(pushes(), 2U) << "one to each shard";
  EXPECT_EQ(parts_.out.All<proto::PushRequest>()[0].samples, 24U);
  EXPECT_TRUE(parts_.out.All<proto::CutLease>().empty());
}

TEST_F(LocalPipelineTest, AStepThatEndsEarlyTravelsWhenTheCoordinatorKnows) {
  parts_.steps.ShortenStepThatIsLate(parts_.now + seconds(10), parts_.now);
  EXPECT_EQ(parts_.host.ended_early, 1U);
  ComputeSome(16);
  const auto cuts = parts_.out.All<proto::CutLease>();
  ASSERT_EQ(cuts.size(), 1U);
  EXPECT_EQ(cuts[0].lease, LeaseId(2));
  EXPECT_EQ(cuts[0].end, 116U);
  EXPECT_EQ(pushes(), 0U);
  EXPECT_TRUE(parts_.steps.HasStepToFinish());
  parts_.now += seconds(5);
  parts_.leases.OnTick(parts_.now, &parts_.out);
  EXPECT_EQ(parts_.out.All<proto::CutLease>().size(), 2U) << "told again";
  parts_.leases.OnCut({Incarnation(4), LeaseId(2)});
  Advance();
  ASSERT_EQ(pushes(), 2U);
  EXPECT_EQ(parts_.out.All<proto::PushRequest>()[0].samples, 16U);
  for (const ShardId shard : kBoth) {
    parts_.AnswerPush(shard, 1);
  }
  Advance();
  const auto reports = parts_.out.All<proto::StepReport>();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].steps[0].end, 116U);
}

TEST_F(LocalPipelineTest, AStepOfWhichNotEvenOneMinibatchFitsIsDropped) {
  ComputeSome(24);  // it took 0.5 s
  for (const ShardId shard : kBoth) {
    parts_.AnswerPush(shard, 1);
    parts_.parameters.OnValues(parts_.AnswerPull(shard, 4), parts_.steps.is_host_busy());
  }
  proto::LeaseGrant grant = parts_.Grant(3, 200, 224);
  grant.local_steps = 3;
  grant.settings.local_steps = 3;
  parts_.leases.Take(grant);
  Advance();
  ASSERT_EQ(parts_.host.tasks.size(), 2U);
  parts_.steps.ShortenStepThatIsLate(parts_.now + milliseconds(100), parts_.now);
  EXPECT_EQ(parts_.host.ended_early, 0U);
  EXPECT_EQ(parts_.times.counters().steps_dropped, 1U);
}

TEST_F(LocalPipelineTest, OnlyTheFirstMinibatchIsForeseen) {
  proto::LeaseGrant grant = parts_.Grant(3, 200, 224);
  grant.local_steps = 3;
  grant.settings.local_steps = 3;
  parts_.leases.Take(grant);
  EXPECT_EQ(parts_.leases.NewsAhead(), (SamplesAhead{0, 200, 208}));
}

/// Its share is one minibatch of the job's local steps: what it pushes is a change all the same,
/// not a gradient.
TEST_F(StepPipelineTest, AStepOfOneMinibatchIsLocalWhereTheJobsStepsAre) {
  parts_.leases.Reset();
  proto::LeaseGrant grant = parts_.Grant(2, 100, 108);
  grant.settings.local_steps = 4;
  parts_.leases.Take(grant);
  Advance();
  Values(3);
  Advance();
  ASSERT_EQ(parts_.host.tasks.size(), 1U);
  EXPECT_TRUE(parts_.host.tasks[0].is_local);
  EXPECT_EQ(parts_.host.tasks[0].local_steps, 1U);
  parts_.steps.OnTensorReady(0, parts_.now, &parts_.out);
  EXPECT_TRUE(parts_.out.All<proto::PushRequest>().empty()) << "before it is done";
  Compute();
  const auto pushes = parts_.out.All<proto::PushRequest>();
  ASSERT_EQ(pushes.size(), 2U);
  EXPECT_EQ(pushes[0].local_steps, 4U) << "those that the learning rate is for";
}

/// Leases of one step each, the second one with other settings.
TEST_F(StepPipelineTest, WhatALeaseSaysHoldsFromItsFirstStepOn) {
  parts_.leases.Reset();
  parts_.leases.Take(parts_.Grant(2, 100, 108));
  proto::LeaseGrant grant = parts_.Grant(3, 108, 116);
  grant.settings.push = {codec::EncodingKind::kInt8};
  grant.settings.pull = {codec::EncodingKind::kBf16};
  parts_.leases.Take(grant);
  Advance();
  Values(3);
  Advance();
  Compute();
  EXPECT_TRUE(parts_.host.changes.empty());
  for (const ShardId shard : kBoth) {
    parts_.AnswerPush(shard, 1);
    parts_.parameters.OnValues(parts_.AnswerPull(shard, 4), false);
  }
  Advance();
  ASSERT_EQ(parts_.host.changes.size(), 1U);
  EXPECT_EQ(parts_.host.changes[0].first, grant.settings.push);
  EXPECT_TRUE(parts_.host.changes[0].second) << "what was kept is kept";
  Compute();
  const auto pushes = parts_.out.All<proto::PushRequest>();
  ASSERT_EQ(pushes.size(), 4U);
  EXPECT_EQ(pushes[1].encoding, codec::Encoding());
  EXPECT_EQ(pushes[3].encoding, grant.settings.push);
  EXPECT_EQ(pushes[3].pull_encoding, grant.settings.pull);
}

class OverlapPipelineTest : public StepPipelineTest {
 protected:
  OverlapPipelineTest() : StepPipelineTest(true) {}
};

TEST_F(OverlapPipelineTest, GradientsChangeHowTheyTravelWhenNoneIsUnderWay) {
  parts_.leases.Reset();
  parts_.leases.Take(parts_.Grant(2, 100, 108));
  proto::LeaseGrant grant = parts_.Grant(3, 108, 116);
  grant.settings.push = {codec::EncodingKind::kInt4};
  parts_.leases.Take(grant);
  Advance();
  Values(3);
  Advance();
  Compute();
  EXPECT_EQ(parts_.host.tasks.size(), 1U) << "the first step travels in memory of the old layout";
  EXPECT_TRUE(parts_.host.changes.empty());
  for (const ShardId shard : kBoth) {
    parts_.AnswerPush(shard, 1);
    parts_.parameters.OnValues(parts_.AnswerPull(shard, 4), false);
  }
  Advance();
  EXPECT_EQ(parts_.host.tasks.size(), 2U);
  EXPECT_EQ(parts_.host.changes.size(), 1U);
}

TEST_F(OverlapPipelineTest, TheNextStepIsComputedWhileOneTravelsAndNoThird) {
  Advance();
  Values(3);
  Advance();
  Compute();
  EXPECT_EQ(parts_.host.tasks.size(), 2U);
  Compute();
  EXPECT_EQ(parts_.host.tasks.size(), 2U) << "the first still travels";
  for (const ShardId shard : kBoth) {
    parts_.AnswerPush(shard, 1);
  }
  Advance();
  EXPECT_EQ(parts_.host.tasks.size(), 3U);
}

class ParameterGateTest : public StepPipelineTest {};

TEST_F(ParameterGateTest, ALeaseIsComputedWithWhatIsHeldUnlessItMustBePulled) {
  const proto::LeaseGrant grant = parts_.Grant(1, 0, 8);
  EXPECT_FALSE(parts_.parameters.Prepare(grant, parts_.now, &parts_.out));
  EXPECT_FALSE(parts_.parameters.Prepare(grant, parts_.now, &parts_.out)) << "it is asked for";
  EXPECT_EQ(parts_.out.All<proto::PullRequest>().size(), 2U);
  Values(3);
  EXPECT_TRUE(parts_.parameters.Prepare(grant, parts_.now, &parts_.out));
  const proto::LeaseGrant next = parts_.Grant(2, 8, 16);
  EXPECT_TRUE(parts_.parameters.Prepare(next, parts_.now, &parts_.out));
  parts_.parameters.RequirePull();
  EXPECT_FALSE(parts_.parameters.Prepare(next, parts_.now, &parts_.out));
  EXPECT_EQ(parts_.out.All<proto::PullRequest>().size(), 4U);
}

TEST_F(ParameterGateTest, AnEvaluationIsAlwaysPulledForAndSspPullsAfterIt) {
  proto::LeaseGrant grant = parts_.Grant(1, 0, 8);
  grant.mode = proto::Mode::kSsp;
  parts_.parameters.Prepare(grant, parts_.now, &parts_.out);
  Values(3);
  ASSERT_TRUE(parts_.parameters.Prepare(grant, parts_.now, &parts_.out));
  parts_.out.sent.clear();
  const proto::LeaseGrant evaluation = parts_.Grant(2, 0, 8, proto::LeaseKind::kEvaluate);
  EXPECT_FALSE(parts_.parameters.Prepare(evaluation, parts_.now, &parts_.out));
  EXPECT_TRUE(parts_.out.All<proto::PullRequest>().at(0).is_evaluation);
  Values(4);
  EXPECT_TRUE(parts_.parameters.Prepare(evaluation, parts_.now, &parts_.out));
  parts_.parameters.OnEvaluation();
  grant.lease = LeaseId(3);
  EXPECT_FALSE(parts_.parameters.Prepare(grant, parts_.now, &parts_.out));
}

/// Gradients travel as int8. The first step's push took a second.
class LastPushTest : public StepPipelineTest {
 protected:
  LastPushTest() { parts_.leases.Reset(); }

  /// A lease of so many steps.
  void Take(const codec::Encoding& push, bool has_feedback, uint64_t steps = 2) {
    proto::LeaseGrant grant = parts_.Grant(2, 100, 100 + 8 * steps);
    grant.mode = mode_;
    grant.round = mode_ == proto::Mode::kBsp ? 1 : 0;
    grant.settings.push = push;
    grant.settings.has_feedback = has_feedback;
    parts_.leases.Take(grant);
    Advance();
    Values(3);
    Advance();
  }

  void FinishStep(Step step) {
    Compute();
    parts_.now += seconds(1);
    for (const ShardId shard : kBoth) {
      parts_.AnswerPush(shard, step);
      parts_.parameters.OnValues(
          parts_.AnswerPull(shard, static_cast<float>(3 + step)), parts_.steps.is_host_busy());
    }
    Advance();
  }

  /// That the whole gradient needs at that rate and half as much again, twice.
  Duration Grace() const {
    const auto whole = static_cast<double>(parts_.links.layout().element_count()) * sizeof(float);
    return FromSeconds(2 * 1.5 * whole / static_cast<double>(parts_.links.bytes_pushed()));
  }

  void Leave(Duration grace) { parts_.steps.HandOverWithLast(parts_.now + grace, parts_.now); }

  /// As a worker does that leaves.
  void Go() { EXPECT_TRUE(parts_.steps.Advance(false, parts_.now, &parts_.out).ok()); }

  /// The step in hand is computed and acknowledged, and its pull has come.
  void FinishWhileLeaving(Step step) {
    parts_.steps.OnHostFree();
    EXPECT_TRUE(parts_.steps.OnComputed({2.0, 3, 0.5}, false, false, parts_.now, &parts_.out).ok());
    Go();
    for (const ShardId shard : kBoth) {
      parts_.AnswerPush(shard, step);
      Values(static_cast<float>(3 + step));
    }
    Go();
  }

  proto::Mode mode_ = proto::Mode::kAsync;

  static constexpr codec::Encoding kInt8{codec::EncodingKind::kInt8};
};

TEST_F(LastPushTest, WhatIsHeldBackGoesWithTheStepInHandIfTheGraceIsLongEnough) {
  Take(kInt8, true);
  FinishStep(1);
  ASSERT_EQ(parts_.host.tasks.size(), 2U);
  EXPECT_GT(Grace(), seconds(5));
  Leave(Grace() - milliseconds(100));
  EXPECT_EQ(parts_.host.handed_over, 0U) << "an f32 push might not be done";
  Leave(Grace() + milliseconds(100));
  EXPECT_EQ(parts_.host.handed_over, 2U);
}

TEST_F(LastPushTest, AnotherNoticeThatLeavesLessTimeTakesItBack) {
  Take(kInt8, true);
  FinishStep(1);
  Leave(seconds(1000));
  Leave(seconds(900));
  EXPECT_EQ(parts_.host.handed_over, 2U) << "there is time";
  Leave(milliseconds(100));
  EXPECT_EQ(parts_.host.handed_over, 0U);
}

TEST_F(LastPushTest, AnotherNoticeThatLeavesLessTimeEndsTheWaitForOneMore) {
  Take(kInt8, true, 4);
  Compute();
  parts_.now += seconds(1);
  for (const ShardId shard : kBoth) {
    parts_.AnswerPush(shard, 1);
  }
  Go();
  Leave(seconds(1000));
  EXPECT_TRUE(parts_.steps.HasStepToFinish());
  Leave(milliseconds(100));
  EXPECT_FALSE(parts_.steps.HasStepToFinish());
}

TEST_F(LastPushTest, TheOneMoreThatHasBegunStaysTheLast) {
  Take(kInt8, true, 4);
  FinishStep(1);
  Leave(seconds(1000));
  FinishWhileLeaving(2);
  EXPECT_EQ(parts_.host.handed_over, 3U);
  Leave(seconds(900));
  FinishWhileLeaving(3);
  EXPECT_EQ(parts_.host.tasks.size(), 3U);
  EXPECT_EQ(parts_.host.handed_over, 3U);
}

TEST_F(LastPushTest, WithoutAPushBeforeNobodyKnowsHowLongItTakesAndNothingIsHeldBack) {
  Take(kInt8, true);
  Leave(seconds(1000));
  EXPECT_EQ(parts_.host.handed_over, 0U);
}

TEST_F(LastPushTest, WithoutFeedbackTheLastPushIsAsTheOthers) {
  Take(kInt8, false);
  FinishStep(1);
  Leave(seconds(1000));
  EXPECT_EQ(parts_.host.handed_over, 0U);
}

TEST_F(LastPushTest, AHostThatCannotHandOverMakesNoStepForIt) {
  parts_.host.can_hand_over = false;
  Take(kInt8, true, 4);
  FinishStep(1);
  Leave(seconds(1000));
  FinishWhileLeaving(2);
  EXPECT_EQ(parts_.host.handed_over, 0U);
  EXPECT_EQ(parts_.host.tasks.size(), 2U);
}

TEST_F(LastPushTest, AStepThatIsDroppedHandsNothingOver) {
  Take(kInt8, true);
  FinishStep(1);
  parts_.steps.DropTask();
  Leave(seconds(1000));
  EXPECT_EQ(parts_.host.handed_over, 0U);
}

/// Some of the step in hand may be encoded already.
TEST_F(LastPushTest, OneMoreStepOfTheLeaseTakesAlongWhatIsHeldBack) {
  Take(kInt8, true, 4);
  FinishStep(1);
  Leave(seconds(1000));
  EXPECT_EQ(parts_.host.handed_over, 0U) << "not with the step in hand";
  FinishWhileLeaving(2);
  ASSERT_EQ(parts_.host.tasks.size(), 3U);
  EXPECT_EQ(parts_.host.handed_over, 3U);
  EXPECT_TRUE(parts_.steps.HasStepToFinish());
  FinishWhileLeaving(3);
  EXPECT_FALSE(parts_.steps.HasStepToFinish());
  EXPECT_EQ(parts_.host.tasks.size(), 3U) << "it was the last";
  EXPECT_FALSE(parts_.out.All<proto::PushRequest>().back().wants_pull);
}

TEST_F(LastPushTest, BetweenTwoStepsOneMoreIsMade) {
  Take(kInt8, true, 4);
  Compute();
  parts_.now += seconds(1);
  for (const ShardId shard : kBoth) {
    parts_.AnswerPush(shard, 1);
  }
  Go();
  EXPECT_FALSE(parts_.steps.HasStepToFinish());
  Leave(seconds(1000));
  EXPECT_TRUE(parts_.steps.HasStepToFinish());
  Values(4);
  Go();
  EXPECT_EQ(parts_.host.tasks.size(), 2U);
  EXPECT_EQ(parts_.host.handed_over, 2U);
}

TEST_F(LastPushTest, AStepThatCannotBeginInTimeIsNotWaitedFor) {
  Take(kInt8, true, 4);
  Compute();
  parts_.now += seconds(1);
  for (const ShardId shard : kBoth) {
    parts_.AnswerPush(shard, 1);
  }
  Go();
  Leave(seconds(60));
  parts_.now += seconds(29);
  Go();
  EXPECT_TRUE(parts_.steps.HasStepToFinish()) << "the pull may still come";
  parts_.now += seconds(1);
  Go();
  EXPECT_FALSE(parts_.steps.HasStepToFinish());
  Values(4);
  Go();
  EXPECT_EQ(parts_.host.tasks.size(), 1U);
}

TEST_F(LastPushTest, WithoutTimeForOneMoreItGoesWithTheStepInHand) {
  Take(kInt8, true, 4);
  FinishStep(1);
  parts_.times.OnStepDone({1, 1, 1e6});
  Leave(seconds(1000));
  EXPECT_EQ(parts_.host.handed_over, 2U);
  FinishWhileLeaving(2);
  EXPECT_EQ(parts_.host.tasks.size(), 2U);
}

/// The others of the round wait for this one.
TEST_F(LastPushTest, InBspItGoesWithTheStepInHand) {
  mode_ = proto::Mode::kBsp;
  Take(kInt8, true, 4);
  FinishStep(1);
  Leave(seconds(1000));
  EXPECT_EQ(parts_.host.handed_over, 2U);
}

TEST_F(LastPushTest, WithoutADeviceNoStepBegins) {
  Take(kInt8, true, 4);
  FinishStep(1);
  Compute();
  parts_.steps.DropTask();
  Leave(seconds(1000));
  Go();
  EXPECT_EQ(parts_.host.tasks.size(), 2U);
  EXPECT_EQ(parts_.host.handed_over, 0U);
}

TEST_F(LastPushTest, AStepThatIsEncodedAlreadyHandsNothingOver) {
  Take(kInt8, true);
  FinishStep(1);
  Compute();
  Leave(seconds(1000));
  EXPECT_EQ(parts_.host.handed_over, 0U);
}

}  // namespace
}  // namespace ps::client
