#include <gmock/gmock.h>

#include "tests/client/worker_core_fixture.h"

namespace ps::client {
namespace {

using ::testing::HasSubstr;

TEST_F(WorkerCoreTest, AStepIsPulledComputedPushedAndReported) {
  Begin(proto::Mode::kAsync, false);
  EXPECT_EQ(out_.All<proto::LeaseRequest>().size(), 1U);
  FromCoordinator(Grant(1, 0, 12));
  ASSERT_EQ(out_.All<proto::PullRequest>().size(), 1U);
  EXPECT_TRUE(host_.tasks.empty());
  AnswerPull(0);
  ASSERT_EQ(host_.tasks.size(), 1U);
  EXPECT_EQ(host_.tasks[0].end, 8U);
  EXPECT_EQ(host_.FirstParameter(), 0.0F);
  Compute();
  ASSERT_EQ(out_.All<proto::PushRequest>().size(), 1U);
  EXPECT_EQ(out_.All<proto::PushRequest>()[0].samples, 8U);
  EXPECT_TRUE(out_.All<proto::StepReport>().empty());
  AnswerPush(1);
  ASSERT_EQ(out_.All<proto::StepReport>().size(), 1U);
  EXPECT_EQ(out_.All<proto::StepReport>()[0].steps[0].end, 8U);
  EXPECT_EQ(host_.tasks.size(), 1U);  // the fused pull is still out
  AnswerPull(1);
  ASSERT_EQ(host_.tasks.size(), 2U);
  EXPECT_EQ(host_.tasks[1].begin, 8U);
  EXPECT_EQ(host_.tasks[1].end, 12U);
  EXPECT_EQ(host_.FirstParameter(), 1.0F);
}

class LoadingTest : public WorkerCoreTest {
 protected:
  LoadingTest() {
    host_.loading = proto::Timing::FromMaxDetect(milliseconds(2400));
    Begin(proto::Mode::kAsync, false);
  }

  void Finish() {
    host_.loading.reset();
    core_->OnLoaded(now_, &out_);
  }
};

TEST_F(LoadingTest, AWorkerThatLoadsIsHeardOfAndJoinsWhenItIsDone) {
  EXPECT_TRUE(host_.shard_connects.empty());
  for (int i = 0; i < 60; ++i) {
    TickFor(seconds(1));
    FromCoordinator(proto::HeartbeatReply{Generation(2)});
  }
  EXPECT_GE(out_.All<proto::WorkerHeartbeat>().size(), 100U);
  const proto::WorkerHeartbeat beat = out_.All<proto::WorkerHeartbeat>().back();
  EXPECT_EQ(beat.state, proto::WorkerState::kJoining);
  EXPECT_EQ(beat.stats.wait_s, 0) << "it waits for nobody";
  ASSERT_EQ(beat.waits.size(), 1U);
  EXPECT_EQ(beat.waits[0].what, "loading /data, 34 %");
  const size_t joins = out_.All<proto::JoinRequest>().size();
  // Its connection is lost when it has loaded: it asks on the next one.
  core_->OnPeerClosed(kCoordinator, now_);
  Finish();
  EXPECT_EQ(out_.All<proto::JoinRequest>().size(), joins);
  core_->OnCoordinatorConnected(kCoordinator, 1, now_, &out_);
  EXPECT_EQ(out_.All<proto::JoinRequest>().size(), joins + 1);
  FromCoordinator(Join(Incarnation(4)));
  EXPECT_EQ(host_.shard_connects.size(), 1U);
  core_->OnShardConnected(ShardId(0), kShard, now_, &out_);
  EXPECT_EQ(out_.All<proto::LeaseRequest>().size(), 1U);
}

TEST_F(LoadingTest, ANoticeWhileItLoadsIsAGoodbyeAtOnce) {
  core_->OnNotice(now_ + seconds(30), "its machine is taken back", now_, &out_);
  ASSERT_EQ(out_.All<proto::Goodbye>().size(), 1U);
  FromCoordinator(proto::GoodbyeReply{Incarnation(4)});
  ASSERT_EQ(host_.exits.size(), 1U);
  EXPECT_EQ(host_.exits[0].code(), StatusCode::kRevoked);
  Finish();
  EXPECT_EQ(out_.All<proto::JoinRequest>().size(), 1U) << "the first one";
}

TEST_F(LoadingTest, OneThatIsFencedWhileItLoadsJoinsAnewAndGoesOnLoading) {
  proto::Refusal fenced;
  fenced.code = StatusCode::kStale;
  FromCoordinator(fenced);
  core_->OnCoordinatorConnected(kCoordinator, 1, now_, &out_);
  FromCoordinator(Join(Incarnation(5)));
  TickFor(seconds(1));
  EXPECT_EQ(out_.All<proto::WorkerHeartbeat>().back().incarnation, Incarnation(5));
  Finish();
  FromCoordinator(Join(Incarnation(5)));
  EXPECT_EQ(host_.shard_connects.size(), 1U);
}

TEST_F(WorkerCoreTest, ALeasesStepsHaveTheMinibatchThatItWasGrantedWith) {
  Begin(proto::Mode::kAsync, true);
  proto::LeaseGrant grant = Grant(1, 0, 12);
  grant.minibatch = 5;
  FromCoordinator(grant);
  AnswerPull(0);
  Compute();
  ASSERT_EQ(host_.tasks.size(), 2U);
  EXPECT_EQ(host_.tasks[0].end, 5U);
  EXPECT_EQ(host_.tasks[1].end, 10U);
}

TEST_F(WorkerCoreTest, WithOverlapTheNextStepBeginsBeforeTheLastOnesGradientsAreSent) {
  Begin(proto::Mode::kAsync, true);
  FromCoordinator(Grant(1, 0, 24));
  AnswerPull(0);
  ASSERT_EQ(host_.tasks.size(), 1U);
  size_t pushes_before = 1;
  host_.on_compute = [&] { pushes_before = out_.All<proto::PushRequest>().size(); };
  Compute();
  EXPECT_EQ(host_.tasks.size(), 2U);
  EXPECT_EQ(pushes_before, 0U);
  EXPECT_EQ(out_.All<proto::PushRequest>().size(), 1U);
}

TEST_F(WorkerCoreTest, WithOverlapTheNextStepIsComputedWhileTheLastOneTravels) {
  Begin(proto::Mode::kAsync, true);
  FromCoordinator(Grant(1, 0, 24));
  AnswerPull(0);
  Compute();
  ASSERT_EQ(host_.tasks.size(), 2U);
  EXPECT_NE(host_.gradients[0].lock(), host_.gradients[1].lock());
  AnswerPush(1);
  AnswerPull(1);
  EXPECT_EQ(host_.FirstParameter(), 0.0F);  // arithmetic reads them: kept back
  Compute();
  EXPECT_EQ(host_.FirstParameter(), 1.0F);
  ASSERT_EQ(host_.tasks.size(), 3U);
  Compute();
  EXPECT_EQ(host_.tasks.size(), 3U);  // step 2 still travels: no third gradient
}

TEST_F(WorkerCoreTest, AStepIsLateWithoutThePullOfTheStepBeforeTheLast) {
  Begin(proto::Mode::kAsync, true);
  FromCoordinator(Grant(1, 0, 80));
  AnswerPull(0);
  Compute();
  AnswerPush(1);
  AnswerPull(1);
  Compute();
  ASSERT_EQ(host_.tasks.size(), 3U);
  EXPECT_EQ(core_->Stats(now_).steps_late, 0U);
  const uint64_t of_second = LastToShard();
  AnswerPush(2);  // but not its pull, which comes while step 4 is computed
  Compute();
  ASSERT_EQ(host_.tasks.size(), 4U);
  EXPECT_EQ(core_->Stats(now_).steps_late, 1U);
  AnswerPullOf(of_second, 2);
  const uint64_t of_third = LastToShard();
  ASSERT_NE(of_third, of_second);
  AnswerPush(3);
  AnswerPullOf(of_third, 3);
  Compute();
  ASSERT_EQ(host_.tasks.size(), 5U);
  EXPECT_EQ(core_->Stats(now_).steps_late, 1U) << "on time again";
}

TEST_F(WorkerCoreTest, WithoutOverlapEveryStepIsLate) {
  Begin(proto::Mode::kAsync, false);
  FromCoordinator(Grant(1, 0, 80));
  AnswerPull(0);
  Compute();
  AnswerPush(1);
  AnswerPull(1);
  ASSERT_EQ(host_.tasks.size(), 2U);
  EXPECT_EQ(core_->Stats(now_).steps_late, 2U);
}

TEST_F(WorkerCoreTest, TheSamplesOfTheNextStepAreToldOnceEach) {
  using Ahead = std::vector<SamplesAhead>;
  Begin(proto::Mode::kAsync, false);
  FromCoordinator(Grant(1, 0, 12));
  EXPECT_EQ(host_.ahead, (Ahead{{0, 0, 8}})) << "while its parameters are pulled";
  AnswerPull(0);
  EXPECT_EQ(host_.ahead, (Ahead{{0, 0, 8}, {0, 8, 12}}));
  Compute();
  AnswerPush(1);
  AnswerPull(1);
  ASSERT_EQ(host_.tasks.size(), 2U);
  FromCoordinator(Grant(2, 40, 80));
  EXPECT_EQ(host_.ahead, (Ahead{{0, 0, 8}, {0, 8, 12}, {0, 40, 48}}));
}

TEST_F(WorkerCoreTest, ALeaseThatIsLostCountsNothingOfWhatWasToldAhead) {
  Begin(proto::Mode::kAsync, false);
  FromCoordinator(Grant(1, 0, 80));
  AnswerPull(0);
  ASSERT_EQ(host_.ahead.back(), (SamplesAhead{0, 8, 16}));
  core_->OnNotice(now_ + seconds(5), "notice", now_, &out_);
  Compute();
  AnswerPush(1);
  EXPECT_EQ(host_.tasks.size(), 1U);
  uint64_t counted = 0;
  for (const auto& report : out_.All<proto::StepReport>()) {
    for (const auto& step : report.steps) {
      counted = std::max(counted, step.end);
    }
  }
  EXPECT_EQ(counted, 8U);
}

TEST_F(WorkerCoreTest, ARepeatedGrantIsTakenOnce) {
  Begin(proto::Mode::kAsync, false);
  FromCoordinator(Grant(1, 0, 8));
  FromCoordinator(Grant(1, 0, 8));
  AnswerPull(0);
  Compute();
  AnswerPush(1);
  AnswerPull(1);
  EXPECT_EQ(host_.tasks.size(), 1U);
}

TEST_F(WorkerCoreTest, BspPullsTheRoundBeforeItsOwn) {
  Begin(proto::Mode::kBsp, true);
  FromCoordinator(Grant(1, 0, 8, 6));
  ASSERT_EQ(out_.All<proto::PullRequest>().size(), 1U);
  EXPECT_EQ(out_.All<proto::PullRequest>()[0].min_round, 5U);
  AnswerPull(5);
  Compute();
  EXPECT_EQ(out_.All<proto::PushRequest>()[0].round, 6U);
  AnswerPush(1, proto::PushOutcome::kStaged);
  FromCoordinator(proto::StepAck{Incarnation(4), 1});
  FromCoordinator(Grant(2, 8, 16, 9));  // two rounds went by without this worker
  AnswerPull(6);                        // the fused pull, of round 6
  ASSERT_EQ(out_.All<proto::PullRequest>().size(), 2U);
  EXPECT_EQ(out_.All<proto::PullRequest>()[1].min_round, 8U);
}

TEST_F(WorkerCoreTest, ARejectedPushIsReportedAsSuch) {
  Begin(proto::Mode::kAsync, false);
  FromCoordinator(Grant(1, 0, 8));
  AnswerPull(0);
  Compute();
  AnswerPush(1, proto::PushOutcome::kRejected);
  EXPECT_TRUE(out_.All<proto::StepReport>()[0].steps[0].is_rejected);
}

TEST_F(WorkerCoreTest, ACoordinatorOfAnEarlierTermIsSentAway) {
  Begin(proto::Mode::kAsync, false);
  core_->OnPeerClosed(kCoordinator, now_);
  core_->OnCoordinatorConnected(proto::PeerId(90), 3, now_, &out_);
  core_->OnPeerClosed(proto::PeerId(90), now_);
  core_->OnCoordinatorConnected(proto::PeerId(91), 2, now_, &out_);
  EXPECT_EQ(out_.closed, std::vector<proto::PeerId>{proto::PeerId(91)});
  EXPECT_EQ(core_->term(), 3U);
  core_->OnCoordinatorConnected(proto::PeerId(92), 3, now_, &out_);
  EXPECT_EQ(out_.closed.size(), 1U) << "it is the same one";
}

TEST_F(WorkerCoreTest, AServerThatMovesWhileAWorkerJoinsAnewIsOfNoConcern) {
  Begin(proto::Mode::kAsync, false);
  core_->OnMessage(kShard, 1, proto::Refusal{StatusCode::kStale, "fenced", 0, 1}, now_, &out_);
  core_->OnCoordinatorConnected(kCoordinator, 1, now_, &out_);
  proto::ShardAddresses addresses;
  addresses.shards = {{ShardId(0), "127.0.0.1", 2}};
  FromCoordinator(addresses);
  EXPECT_EQ(host_.shard_connects.size(), 1U);
  FromCoordinator(Join(Incarnation(5)));
  EXPECT_EQ(host_.shard_connects.size(), 2U) << "it is told where they are when it has joined";
}

TEST_F(WorkerCoreTest, AChunkThatLeftItsShardAndCameBackIsPushedAgain) {
  Begin(proto::Mode::kAsync, false);
  FromCoordinator(Grant(1, 0, 16));
  AnswerPull(0);
  Compute();
  proto::PushReply reply;
  reply.step = 1;
  reply.placement = 1;  // its shard answered when it had no chunks
  core_->OnMessage(kShard, LastToShard(), reply, now_, &out_);
  EXPECT_TRUE(out_.All<proto::StepReport>().empty());
  proto::ShardAddresses addresses;
  addresses.version = 2;
  addresses.shards = {{ShardId(0), "127.0.0.1", 1}};
  addresses.places = {{MakeChunkKey(0, 0), ShardId(0)}};
  FromCoordinator(addresses);
  ASSERT_EQ(out_.All<proto::PushRequest>().size(), 2U);
  EXPECT_EQ(out_.All<proto::PushRequest>()[1].step, 1U);
  EXPECT_TRUE(out_.All<proto::StepReport>().empty());
  reply.placement = 2;
  core_->OnMessage(kShard, LastToShard(), reply, now_, &out_);
  EXPECT_EQ(out_.All<proto::StepReport>().size(), 1U);
}

/// It was admitted, and its answer was lost.
TEST_F(WorkerCoreTest, AWorkerThatIsFencedBeforeAnAnswerCameAsksForTheSameSeat) {
  for (const bool has_seat : {true, false}) {
    out_.sent.clear();
    proto::JoinRequest join = AskFor(WorkerId(has_seat ? 3 : 0));
    join.has_seat = has_seat;
    WorkerCore core(
        {join, proto::Timing::FromMaxDetect(milliseconds(2400)), 1}, &host_, &NullLogger());
    core.Start(now_);
    core.OnCoordinatorConnected(kCoordinator, 1, now_, &out_);
    core.OnMessage(
        kCoordinator, 0, proto::Refusal{StatusCode::kStale, "fenced", 0, 1}, now_, &out_);
    core.OnCoordinatorConnected(proto::PeerId(9), 1, now_, &out_);
    ASSERT_EQ(out_.All<proto::JoinRequest>().size(), 2U);
    const proto::JoinRequest again = out_.All<proto::JoinRequest>()[1];
    EXPECT_EQ(again.seat, join.seat);
    EXPECT_EQ(again.is_returning, has_seat) << "any free seat will do for one that knows none";
  }
}

TEST_F(WorkerCoreTest, AFencedWorkerJoinsAnewOnceItsArithmeticIsOver) {
  Begin(proto::Mode::kAsync, false);
  FromCoordinator(Grant(1, 0, 16));
  AnswerPull(0);
  ASSERT_EQ(host_.tasks.size(), 1U);
  core_->OnMessage(kShard, 1, proto::Refusal{StatusCode::kStale, "fenced", 0, 1}, now_, &out_);
  EXPECT_EQ(out_.closed.size(), 2U);
  EXPECT_EQ(host_.coordinator_connects.size(), 1U);
  const size_t pushes = out_.All<proto::PushRequest>().size();
  Compute();
  EXPECT_EQ(out_.All<proto::PushRequest>().size(), pushes);
  ASSERT_EQ(host_.coordinator_connects.size(), 2U);
  core_->OnCoordinatorConnected(proto::PeerId(9), 1, now_, &out_);
  ASSERT_EQ(out_.All<proto::JoinRequest>().size(), 2U);
  EXPECT_TRUE(out_.All<proto::JoinRequest>()[0].has_seat);
  EXPECT_FALSE(out_.All<proto::JoinRequest>()[0].is_returning);
  EXPECT_TRUE(out_.All<proto::JoinRequest>()[1].is_returning);
  EXPECT_EQ(out_.All<proto::JoinRequest>()[1].seat, WorkerId(1));
  core_->OnMessage(proto::PeerId(9), 0, Join(Incarnation(5)), now_, &out_);
  EXPECT_EQ(core_->incarnation(), Incarnation(5));
  EXPECT_TRUE(host_.exits.empty());
}

TEST_F(WorkerCoreTest, ANoticeWithTimeFinishesTheStepThenSaysGoodbye) {
  Begin(proto::Mode::kAsync, false);
  FromCoordinator(Grant(1, 0, 80));
  AnswerPull(0);
  core_->OnNotice(now_ + seconds(5), "test", now_, &out_);
  EXPECT_TRUE(out_.All<proto::Goodbye>().empty());
  Compute();
  AnswerPush(1);
  EXPECT_TRUE(out_.All<proto::Goodbye>().empty());
  FromCoordinator(proto::StepAck{Incarnation(4), 1});
  EXPECT_EQ(out_.All<proto::Goodbye>().size(), 1U);
  EXPECT_EQ(host_.tasks.size(), 1U);
  FromCoordinator(proto::GoodbyeReply{Incarnation(4)});
  ASSERT_EQ(host_.exits.size(), 1U);
  EXPECT_EQ(host_.exits[0].code(), StatusCode::kRevoked);
}

TEST_F(WorkerCoreTest, ANoticeHandsOverWhatIsHeldBackWithTheStepInHand) {
  Begin(proto::Mode::kAsync, false);
  proto::LeaseGrant grant = Grant(1, 0, 16);
  grant.settings.push = {codec::EncodingKind::kInt8};
  FromCoordinator(grant);
  AnswerPull(0);
  Compute();
  now_ += milliseconds(100);
  AnswerPush(1);
  AnswerPull(1);
  FromCoordinator(proto::StepAck{Incarnation(4), 1});
  ASSERT_EQ(host_.tasks.size(), 2U);
  FromCoordinator(proto::Drain{"scaled down", 60'000});
  EXPECT_EQ(host_.handed_over, 2U);
  Compute();
  AnswerPush(2);
  FromCoordinator(proto::StepAck{Incarnation(4), 2});
  EXPECT_EQ(out_.All<proto::Goodbye>().size(), 1U);
  EXPECT_EQ(host_.tasks.size(), 2U) << "it was the last";
}

TEST_F(WorkerCoreTest, ANoticeWithoutTimeDropsTheStep) {
  Begin(proto::Mode::kAsync, false);
  FromCoordinator(Grant(1, 0, 80));
  AnswerPull(0);
  core_->OnComputed(host_.tasks.back().session, {1, 1, 10.0}, now_, &out_);  // steps take 10 s
  AnswerPush(1);
  AnswerPull(1);
  FromCoordinator(proto::StepAck{Incarnation(4), 1});
  ASSERT_EQ(host_.tasks.size(), 2U);
  core_->OnNotice(now_ + seconds(2), "test", now_, &out_);
  EXPECT_EQ(out_.All<proto::Goodbye>().size(), 1U);
  EXPECT_EQ(core_->Stats(now_).steps_dropped, 1U);
}

TEST_F(WorkerCoreTest, AWorkerWhoseDeviceIsLostHandsOverAndLeaves) {
  Begin(proto::Mode::kAsync, true);
  FromCoordinator(Grant(1, 0, 80));
  AnswerPull(0);
  Compute();
  ASSERT_EQ(host_.tasks.size(), 2U) << "one step travels, one is computed";
  core_->OnDeviceLost(Status::Unavailable("the device failed"), now_, &out_);
  EXPECT_EQ(core_->Stats(now_).steps_dropped, 1U);
  EXPECT_TRUE(out_.All<proto::Goodbye>().empty()) << "the step that travels counts";
  AnswerPush(1);
  FromCoordinator(proto::StepAck{Incarnation(4), 1});
  ASSERT_EQ(out_.All<proto::Goodbye>().size(), 1U);
  EXPECT_EQ(out_.All<proto::Goodbye>()[0].reason, "the device failed");
  EXPECT_EQ(host_.tasks.size(), 2U);
  FromCoordinator(proto::GoodbyeReply{Incarnation(4)});
  ASSERT_EQ(host_.exits.size(), 1U);
  EXPECT_EQ(host_.exits[0].code(), StatusCode::kRevoked);
}

TEST_F(WorkerCoreTest, AWorkerThatCantComputeATaskTellsWhyAndEnds) {
  Begin(proto::Mode::kAsync, false);
  FromCoordinator(Grant(1, 0, 80));
  AnswerPull(0);
  core_->OnComputeFailed(Status::Corruption("sample 3 is nan"), &out_);
  ASSERT_EQ(out_.All<proto::Refusal>().size(), 1U);
  EXPECT_EQ(out_.All<proto::Refusal>()[0].code, StatusCode::kCorruption);
  EXPECT_EQ(out_.All<proto::Refusal>()[0].message, "sample 3 is nan");
  ASSERT_EQ(host_.exits.size(), 1U);
  EXPECT_EQ(host_.exits[0].code(), StatusCode::kCorruption);
}

TEST_F(WorkerCoreTest, AFencedWorkerWhoseDeviceIsLostDoesNotJoinAnew) {
  Begin(proto::Mode::kAsync, false);
  FromCoordinator(Grant(1, 0, 80));
  AnswerPull(0);
  proto::Refusal fenced;
  fenced.code = StatusCode::kStale;
  FromCoordinator(fenced);
  core_->OnDeviceLost(Status::Unavailable("the device failed"), now_, &out_);
  ASSERT_EQ(host_.exits.size(), 1U);
  EXPECT_EQ(host_.coordinator_connects.size(), 1U);
}

TEST_F(WorkerCoreTest, AtTheDeadlineItLeavesWhateverIsOpen) {
  Begin(proto::Mode::kAsync, false);
  FromCoordinator(Grant(1, 0, 80));
  AnswerPull(0);
  core_->OnNotice(now_ + seconds(2), "test", now_, &out_);
  now_ += seconds(2);
  core_->OnTick(now_, &out_);
  ASSERT_EQ(host_.exits.size(), 1U);
  EXPECT_THAT(std::string(host_.exits[0].message()), HasSubstr("grace period over"));
}

TEST_F(WorkerCoreTest, WithoutACoordinatorItGivesUpAfterTheOrphansGrace) {
  Begin(proto::Mode::kAsync, false);
  core_->OnPeerClosed(kCoordinator, now_);
  TickFor(seconds(19));
  EXPECT_TRUE(host_.exits.empty());
  TickFor(seconds(2));
  ASSERT_EQ(host_.exits.size(), 1U);
  EXPECT_EQ(host_.exits[0].code(), StatusCode::kUnavailable);
}

TEST_F(WorkerCoreTest, ItGivesUpACoordinatorThatIsSilentThoughConnected) {
  Begin(proto::Mode::kAsync, false);
  TickFor(seconds(19));
  FromCoordinator(proto::HeartbeatReply{});
  TickFor(seconds(19));
  EXPECT_TRUE(host_.exits.empty());
  TickFor(seconds(2));
  ASSERT_EQ(host_.exits.size(), 1U);
  EXPECT_EQ(host_.exits[0].code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(host_.exits[0].message()), HasSubstr("silent"));
}

TEST_F(WorkerCoreTest, ItsOwnPauseIsNotTheCoordinatorsSilence) {
  Begin(proto::Mode::kAsync, false);
  TickFor(seconds(1));
  now_ += seconds(60);
  TickFor(seconds(18));
  EXPECT_TRUE(host_.exits.empty());
  TickFor(seconds(3));
  EXPECT_EQ(host_.exits.size(), 1U);
}

TEST_F(WorkerCoreTest, AnEvaluationPullsFreshValuesAndReportsItsCounts) {
  Begin(proto::Mode::kAsync, true);
  FromCoordinator(
      proto::LeaseGrant{Incarnation(4), LeaseId(1), proto::LeaseKind::kEvaluate, 0, 10, 20, 0});
  ASSERT_EQ(out_.All<proto::PullRequest>().size(), 1U);
  EXPECT_TRUE(out_.All<proto::PullRequest>()[0].is_evaluation);
  AnswerPull(3);
  ASSERT_EQ(host_.tasks.size(), 1U);
  EXPECT_EQ(host_.tasks[0].kind, proto::LeaseKind::kEvaluate);
  core_->OnEvaluated(host_.tasks[0].session, {4.0, 7, 0.1}, now_, &out_);
  const auto reports = out_.All<proto::EvaluateReport>();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].correct, 7U);
  EXPECT_EQ(reports[0].samples, 10U);
}

TEST_F(WorkerCoreTest, AModelThatDoesNotFitEndsTheWorker) {
  host_.settings.tensor_elements = {5};
  host_.settings.timing = proto::Timing::FromMaxDetect(milliseconds(2400));
  WorkerCore core({{}, host_.settings.timing, 1}, &host_, &NullLogger());
  core.Start(now_);
  core.OnCoordinatorConnected(kCoordinator, 1, now_, &out_);
  core.OnMessage(kCoordinator, 0, Join(Incarnation(9)), now_, &out_);
  ASSERT_EQ(host_.exits.size(), 1U);
  EXPECT_THAT(std::string(host_.exits[0].message()), HasSubstr("only 4 of 5"));
}

TEST_F(WorkerCoreTest, AHostWithoutRoomForTheModelDoesNotTakePart) {
  host_.prepare_error = Status::InvalidArgument("no memory");
  Begin(proto::Mode::kAsync, true);
  ASSERT_EQ(out_.All<proto::Refusal>().size(), 1U);
  EXPECT_THAT(out_.All<proto::Refusal>()[0].message, HasSubstr("no memory"));
  EXPECT_EQ(host_.exits.size(), 1U);
  EXPECT_TRUE(host_.shard_connects.empty());
}

TEST_F(WorkerCoreTest, AHostThatCannotBeginATaskEndsTheWorker) {
  Begin(proto::Mode::kAsync, true);
  FromCoordinator(Grant(1, 0, 80));
  AnswerPull(0);
  host_.compute_error = Status::InvalidArgument("no memory");
  Compute();
  ASSERT_EQ(host_.exits.size(), 1U);
  EXPECT_THAT(std::string(host_.exits[0].message()), HasSubstr("no memory"));
  EXPECT_EQ(host_.tasks.size(), 1U);
}

TEST_F(WorkerCoreTest, ARefusalThatRepeatingCannotMendEndsTheWorker) {
  Begin(proto::Mode::kAsync, false);
  core_->OnMessage(
      kShard, 1, proto::Refusal{StatusCode::kInvalidArgument, "unknown chunk", 0, 1}, now_, &out_);
  ASSERT_EQ(host_.exits.size(), 1U);
  EXPECT_THAT(std::string(host_.exits[0].message()), HasSubstr("refused by a shard"));
}

}  // namespace
}  // namespace ps::client
