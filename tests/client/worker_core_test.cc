#include "ps/client/worker_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/client/recording_outbox.h"

namespace ps::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class FakeHost final : public WorkerHost {
 public:
  Result<WorkerSettings> Configure(const proto::JoinReply& /*reply*/) override { return settings; }

  void ConnectCoordinator(Incarnation incarnation) override {
    coordinator_connects.push_back(incarnation);
  }

  void ConnectShard(const proto::ShardAddress& address, Incarnation /*incarnation*/) override {
    shard_connects.push_back(address.shard);
  }

  void StartCompute(const ComputeTask& task) override {
    tasks.push_back(task);
    if (on_compute) {
      on_compute();
    }
  }

  void Exit(const Status& status) override { exits.push_back(status); }

  WorkerSettings settings;
  std::vector<Incarnation> coordinator_connects;
  std::vector<ShardId> shard_connects;
  std::vector<ComputeTask> tasks;
  std::vector<Status> exits;
  std::function<void()> on_compute;
};

constexpr proto::PeerId kCoordinator(1);
constexpr proto::PeerId kShard(2);

/// One tensor of 4 floats on one shard; minibatches of 8.
class WorkerCoreTest : public ::testing::Test {
 protected:
  void Begin(proto::Mode mode, bool overlap) {
    host_.settings.mode = mode;
    host_.settings.overlap = overlap;
    host_.settings.timing = proto::Timing::FromMaxDetect(milliseconds(2400));
    host_.settings.timing.orphan = seconds(20);
    host_.settings.tensor_elements = {4};
    core_ = std::make_unique<WorkerCore>(
        WorkerCore::Options{AskFor(WorkerId(1)), host_.settings.timing, 1}, &host_, &NullLogger());
    core_->Start(now_);
    core_->OnCoordinatorConnected(kCoordinator, now_, &out_);
    FromCoordinator(Join(Incarnation(4)));
    core_->OnShardConnected(ShardId(0), kShard, now_, &out_);
  }

  static proto::JoinRequest AskFor(WorkerId seat) {
    proto::JoinRequest request;
    request.seat = seat;
    request.has_seat = true;
    return request;
  }

  proto::JoinReply Join(Incarnation incarnation) {
    proto::JoinReply join;
    join.worker = WorkerId(1);
    join.incarnation = incarnation;
    join.minibatch = 8;
    join.shards = {{ShardId(0), "127.0.0.1", 1}};
    join.placement.chunks = {{MakeChunkKey(0, 0), 4, 0, ShardId(0)}};
    return join;
  }

  proto::LeaseGrant Grant(uint64_t id, uint64_t begin, uint64_t end, uint64_t round = 0) {
    return {Incarnation(4), LeaseId(id), proto::LeaseKind::kTrain, 0, begin, end, round};
  }

  void FromCoordinator(proto::Message message) {
    core_->OnMessage(kCoordinator, 0, std::move(message), now_, &out_);
  }

  /// The shard answers the newest pull, or the pull fused to the newest push.
  void AnswerPull(Version version) { AnswerPullOf(LastToShard(), version); }

  void AnswerPullOf(uint64_t request_id, Version version) {
    auto buffer = std::make_shared<Buffer>(16);
    std::fill(buffer->floats().begin(), buffer->floats().end(), static_cast<float>(version));
    proto::PullReply reply;
    reply.chunks = {{MakeChunkKey(0, 0), version, 4}};
    reply.chunk_total = 1;
    reply.payload = proto::Payload::Own(std::move(buffer), 16);
    core_->OnMessage(kShard, request_id, reply, now_, &out_);
  }

  uint64_t LastToShard() const {
    uint64_t id = 0;
    for (const auto& sent : out_.sent) {
      id = sent.to == kShard ? sent.request_id : id;
    }
    return id;
  }

  void AnswerPush(Step step, proto::PushOutcome outcome = proto::PushOutcome::kApplied) {
    core_->OnMessage(kShard, LastToShard(), proto::PushReply{step, outcome, 0}, now_, &out_);
  }

  void Compute() { core_->OnComputed(host_.tasks.back().session, {2.0, 3, 0.01}, now_, &out_); }

  FakeHost host_;
  RecordingOutbox out_;
  std::unique_ptr<WorkerCore> core_;
  TimePoint now_{seconds(100)};
};

TEST_F(WorkerCoreTest, AStepIsPulledComputedPushedAndReported) {
  Begin(proto::Mode::kAsync, false);
  EXPECT_EQ(out_.All<proto::LeaseRequest>().size(), 1U);
  FromCoordinator(Grant(1, 0, 12));
  ASSERT_EQ(out_.All<proto::PullRequest>().size(), 1U);
  EXPECT_TRUE(host_.tasks.empty());
  AnswerPull(0);
  ASSERT_EQ(host_.tasks.size(), 1U);
  EXPECT_EQ(host_.tasks[0].end, 8U);
  EXPECT_EQ(core_->parameters()[0], 0.0F);
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
  EXPECT_EQ(core_->parameters()[0], 1.0F);
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
  EXPECT_NE(host_.tasks[0].gradient.data(), host_.tasks[1].gradient.data());
  AnswerPush(1);
  AnswerPull(1);
  EXPECT_EQ(core_->parameters()[0], 0.0F);  // arithmetic reads them: kept back
  Compute();
  EXPECT_EQ(core_->parameters()[0], 1.0F);
  ASSERT_EQ(host_.tasks.size(), 3U);
  Compute();
  EXPECT_EQ(host_.tasks.size(), 3U);  // step 2 still travels: no third gradient buffer
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

TEST_F(WorkerCoreTest, ReportsAreRepeatedUntilAcknowledged) {
  Begin(proto::Mode::kAsync, false);
  FromCoordinator(Grant(1, 0, 8));
  AnswerPull(0);
  Compute();
  AnswerPush(1);
  EXPECT_EQ(out_.All<proto::StepReport>().size(), 1U);
  now_ += seconds(1);
  core_->OnTick(now_, &out_);
  EXPECT_EQ(out_.All<proto::StepReport>().size(), 2U);
  FromCoordinator(proto::StepAck{Incarnation(4), 1});
  now_ += seconds(10);
  core_->OnTick(now_, &out_);
  EXPECT_EQ(out_.All<proto::StepReport>().size(), 2U);
}

TEST_F(WorkerCoreTest, AReportThatFindsNoConnectionGoesOutOnTheNextOne) {
  Begin(proto::Mode::kBsp, false);
  FromCoordinator(Grant(1, 0, 8, 1));
  AnswerPull(0);
  Compute();
  core_->OnPeerClosed(kCoordinator, now_);
  AnswerPush(1, proto::PushOutcome::kStaged);
  EXPECT_TRUE(out_.All<proto::StepReport>().empty());
  // The round waits for it, and this worker for the round.
  core_->OnCoordinatorConnected(proto::PeerId(9), now_, &out_);
  ASSERT_EQ(out_.All<proto::StepReport>().size(), 1U);
  EXPECT_EQ(out_.All<proto::StepReport>()[0].steps[0].step, 1U);
}

TEST_F(WorkerCoreTest, WithoutOverlapTheNextLeaseIsAskedForRightBehindTheReport) {
  Begin(proto::Mode::kBsp, false);
  FromCoordinator(Grant(1, 0, 8, 1));
  AnswerPull(0);
  Compute();
  EXPECT_EQ(out_.All<proto::LeaseRequest>().size(), 1U);  // the shard has not acknowledged it
  AnswerPush(1, proto::PushOutcome::kStaged);
  ASSERT_EQ(out_.All<proto::LeaseRequest>().size(), 2U);
  const size_t count = out_.sent.size();
  EXPECT_TRUE(std::holds_alternative<proto::StepReport>(out_.sent[count - 2].message));
  EXPECT_TRUE(std::holds_alternative<proto::LeaseRequest>(out_.sent[count - 1].message));
}

TEST_F(WorkerCoreTest, TheWayToTheArithmeticAndBackCountsAsWaiting) {
  Begin(proto::Mode::kAsync, false);
  FromCoordinator(Grant(1, 0, 16));
  now_ += milliseconds(4);
  AnswerPull(0);
  now_ += milliseconds(15);
  Compute();  // takes 10
  AnswerPush(1);
  now_ += milliseconds(2);
  AnswerPull(1);
  EXPECT_NEAR(core_->Stats(now_).compute_s, 0.010, 1e-9);
  EXPECT_NEAR(core_->Stats(now_).wait_s, 0.004 + 0.005 + 0.002, 1e-9);
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

TEST_F(WorkerCoreTest, AServerThatMovesWhileAWorkerJoinsAnewIsOfNoConcern) {
  Begin(proto::Mode::kAsync, false);
  core_->OnMessage(kShard, 1, proto::Refusal{StatusCode::kStale, "fenced", 0, 1}, now_, &out_);
  core_->OnCoordinatorConnected(kCoordinator, now_, &out_);
  FromCoordinator(proto::ShardAddresses{{{ShardId(0), "127.0.0.1", 2}}});
  EXPECT_EQ(host_.shard_connects.size(), 1U);
  FromCoordinator(Join(Incarnation(5)));
  EXPECT_EQ(host_.shard_connects.size(), 2U) << "it is told where they are when it has joined";
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
  core_->OnCoordinatorConnected(proto::PeerId(9), now_, &out_);
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
  core_->OnTick(now_ + seconds(19), &out_);
  EXPECT_TRUE(host_.exits.empty());
  core_->OnTick(now_ + seconds(21), &out_);
  ASSERT_EQ(host_.exits.size(), 1U);
  EXPECT_EQ(host_.exits[0].code(), StatusCode::kUnavailable);
}

TEST_F(WorkerCoreTest, AtTheEndOfTheJobItTellsWhatItDidSinceItsLastHeartbeat) {
  Begin(proto::Mode::kAsync, false);
  FromCoordinator(Grant(1, 0, 8));
  AnswerPull(0);
  Compute();
  AnswerPush(1);
  FromCoordinator(proto::Shutdown{"the job is done"});
  ASSERT_EQ(host_.exits.size(), 1U);
  EXPECT_TRUE(host_.exits[0].ok());
  ASSERT_FALSE(out_.All<proto::WorkerHeartbeat>().empty());
  const proto::WorkerStats stats = out_.All<proto::WorkerHeartbeat>().back().stats;
  EXPECT_EQ(stats.steps, 1U);
  EXPECT_EQ(stats.samples, 8U);
  EXPECT_EQ(stats.bytes_pushed, 16U);
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
  core.OnCoordinatorConnected(kCoordinator, now_, &out_);
  core.OnMessage(kCoordinator, 0, Join(Incarnation(9)), now_, &out_);
  ASSERT_EQ(host_.exits.size(), 1U);
  EXPECT_THAT(std::string(host_.exits[0].message()), HasSubstr("only 4 of 5"));
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
