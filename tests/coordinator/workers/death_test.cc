#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

/// Two workers, both at work; worker 0 holds `grant_`, samples [0, 20).
class DeathTest : public ::testing::Test {
 protected:
  DeathTest() : harness_(Options()) {
    workers_ = harness_.StartWithWorkers();
    grant_ = harness_.AskAll(&workers_)[0];
  }

  static CoordinatorOptions Options() {
    CoordinatorOptions options = SmallJob();
    options.config.workers = {{2, 0, 1, 1}};
    return options;
  }

  void Kill() { harness_.Exit(ProcessKind::kWorker, 0, 1000, "killed by signal 9 (Killed)"); }

  uint64_t Counted() const { return harness_.status().samples_counted; }

  Harness harness_;
  std::vector<FakeWorker> workers_;
  proto::LeaseGrant grant_;
};

TEST_F(DeathTest, TheRestOfTheLeaseGoesBackWhenEveryShardHasFencedIt) {
  const proto::StepDone one = harness_.MakeStep(&workers_[0], grant_, grant_.begin);
  harness_.Give(workers_[0].peer, proto::StepReport{workers_[0].incarnation, {one}});
  harness_.Complete(workers_[0], 1);
  harness_.shards[1].is_mute = true;
  Kill();
  EXPECT_EQ(harness_.status().ledger[0].samples_returned, 0U) << "a late push could still apply";
  harness_.Unmute(1);
  EXPECT_EQ(harness_.status().ledger[0].samples_returned, 10U);
  EXPECT_EQ(Counted(), 10U);
  const auto next = harness_.Ask(&workers_[1]);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->begin, 10U) << "returned samples first";
  EXPECT_EQ(next->end, 20U);
}

/// Strangers fill the coordinator's port: that is not the fault of a worker that wants to come
/// back.
TEST_F(DeathTest, WhoMayBeKeptOutByACrowdHasMoreTimeToComeBackButNotForEver) {
  CoordinatorOptions options = Options();
  options.config.fleet.orphan_grace_s = 4;
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  CloseAll(&harness, {workers[0]});
  const auto wait_in_a_crowd = [&](Duration duration) {
    for (const TimePoint end = harness.now + duration; harness.now < end;) {
      harness.core->NoteCrowd(harness.now);
      harness.Wait(harness.timing.tick, {workers[1]});
    }
  };
  wait_in_a_crowd(harness.timing.detect * 2);
  EXPECT_EQ(harness.core->member_count(), 2U);
  wait_in_a_crowd(std::chrono::seconds(2));
  EXPECT_EQ(harness.core->member_count(), 1U);
}

/// Whoever takes machines away kills; a program that raises, or leaves its loop, does that itself.
TEST_F(DeathTest, AProgramThatEndsByItselfHasFailedAndIsReplaced) {
  for (const bool is_program : {true, false}) {
    CoordinatorOptions options = Options();
    if (is_program) {
      options.config.worker.program = {"train.py"};
    }
    Harness harness(options);
    std::vector<FakeWorker> workers = harness.StartWithWorkers();
    const proto::LeaseGrant grant = harness.AskAll(&workers)[0];
    const proto::StepDone one = harness.MakeStep(&workers[0], grant, grant.begin);
    harness.Give(workers[0].peer, proto::StepReport{workers[0].incarnation, {one}});
    harness.Complete(workers[0], 1);
    harness.FailWorker(0, 1000, "ValueError: bad batch");
    const proto::JobStatus status = harness.status();
    const auto gone = std::ranges::find_if(status.workers, [](const auto& row) {
      return row.incarnation != Incarnation() && row.is_gone();
    });
    ASSERT_NE(gone, status.workers.end());
    EXPECT_EQ(
        gone->state, is_program ? proto::WorkerRowState::kFailed : proto::WorkerRowState::kLost);
    EXPECT_EQ(gone->reason, "exited with code 1: ValueError: bad batch");
    EXPECT_EQ(status.revocations_unnoticed, is_program ? 0U : 1U);
    EXPECT_EQ(status.samples_counted, 10U);
    EXPECT_EQ(status.ledger[0].samples_returned, 10U);
    EXPECT_EQ(status.workers_wanted, 2U);
    EXPECT_TRUE(harness.Ask(&workers[1]).has_value());
    FakeWorker next = harness.Join(0, 2000);
    EXPECT_TRUE(harness.Ask(&next).has_value()) << "who takes its place";
  }
}

/// It tells so before its process is over, which may take it long.
TEST_F(DeathTest, AProgramThatTellsOfItsEndHasFailedOnceAndIsReplaced) {
  CoordinatorOptions options = Options();
  options.config.worker.program = {"train.py"};
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const proto::LeaseGrant grant = harness.AskAll(&workers)[0];
  const proto::StepDone one = harness.MakeStep(&workers[0], grant, grant.begin);
  harness.Give(workers[0].peer, proto::StepReport{workers[0].incarnation, {one}});
  harness.Complete(workers[0], 1);
  harness.Give(workers[0].peer, proto::Refusal{StatusCode::kCancelled, "ValueError: bad batch"});
  harness.Close(workers[0].peer);
  harness.FailWorker(0, 1000, "ValueError: bad batch");
  const proto::JobStatus status = harness.status();
  EXPECT_EQ(
      std::ranges::count(status.workers, proto::WorkerRowState::kFailed, &proto::WorkerRow::state),
      1);
  EXPECT_EQ(status.revocations_unnoticed, 0U);
  EXPECT_EQ(status.state, proto::RunState::kTraining);
  FakeWorker next = harness.Join(0, 2000);
  EXPECT_TRUE(harness.Ask(&next).has_value()) << "who takes its place";
}

TEST_F(DeathTest, AnUnreportedStepThatAllShardsHaveCounts) {
  harness_.Complete(workers_[0], 2);
  Kill();
  EXPECT_EQ(Counted(), 20U);
  EXPECT_EQ(harness_.status().steps_counted, 2U);
  EXPECT_EQ(harness_.status().ledger[0].samples_returned, 0U);
  EXPECT_EQ(harness_.status().steps_lost, 0U);
}

TEST_F(DeathTest, ItsRowHasTheStepsThatCountWhateverItsLastHeartbeatSaid) {
  harness_.Complete(workers_[0], 2);
  Kill();
  const proto::JobStatus status = harness_.status();
  ASSERT_EQ(status.workers.back().state, proto::WorkerRowState::kLost);
  EXPECT_EQ(status.workers.back().samples_counted, 20U);
  EXPECT_EQ(status.workers.back().stats.steps, 2U);
}

TEST_F(DeathTest, AStepThatSomeShardsHaveIsPartialAndDoneAgain) {
  harness_.shards[0].complete[workers_[0].incarnation] = 2;
  harness_.shards[1].complete[workers_[0].incarnation] = 1;
  Kill();
  EXPECT_EQ(Counted(), 10U);
  EXPECT_EQ(harness_.status().steps_partial, 1U);
  EXPECT_EQ(harness_.status().steps_lost, 1U);
  EXPECT_EQ(harness_.status().ledger[0].samples_returned, 10U);
}

TEST_F(DeathTest, AReportThatComesAfterTheFenceIsStale) {
  const proto::StepDone one = harness_.MakeStep(&workers_[0], grant_, grant_.begin);
  harness_.Complete(workers_[0], 1);
  Kill();
  const proto::PeerId back = harness_.Connect(proto::Role::kWorker, workers_[0].incarnation);
  harness_.Give(back, proto::StepReport{workers_[0].incarnation, {one}});
  EXPECT_EQ(harness_.Take<proto::Refusal>(back)->code, StatusCode::kStale);
  EXPECT_EQ(Counted(), 10U) << "the shards have told";
}

TEST_F(DeathTest, ShardsWithoutChunksHaveNoSay) {
  CoordinatorOptions options = Options();
  options.config.servers.count = 3;
  options.tensors = {{"w", {10}}, {"b", {10}}};
  options.config.workers = {{1, 0, 1, 1}};
  Harness harness(options);
  FakeWorker worker = harness.StartWithWorkers()[0];
  harness.Ask(&worker);
  harness.shards[0].complete[worker.incarnation] = 1;
  harness.shards[1].complete[worker.incarnation] = 1;
  harness.shards[2].complete[worker.incarnation] = proto::kEveryStep;
  harness.Exit(ProcessKind::kWorker, 0, 1000, "killed by signal 9");
  EXPECT_EQ(harness.status().samples_counted, 10U);
  EXPECT_EQ(harness.status().steps_partial, 0U);
}

TEST_F(DeathTest, SilenceIsNoticedWithinMaxDetect) {
  harness_.Wait(harness_.timing.heartbeat, workers_);
  harness_.Wait(harness_.timing.detect - harness_.timing.tick * 2, {workers_[1]});
  EXPECT_EQ(harness_.status().revocations_unnoticed, 0U);
  harness_.Wait(harness_.timing.tick * 4, {workers_[1]});
  EXPECT_EQ(harness_.status().revocations_unnoticed, 1U);
  EXPECT_EQ(harness_.Take<proto::Refusal>(workers_[0].peer)->code, StatusCode::kStale);
}

TEST_F(DeathTest, ALostConnectionHasAGraceOfMaxDetect) {
  harness_.core->OnPeerClosed(workers_[0].peer, harness_.now, harness_.out());
  harness_.Wait(harness_.timing.detect - harness_.timing.tick, {workers_[1]});
  EXPECT_EQ(harness_.status().revocations_unnoticed, 0U);
  harness_.Wait(harness_.timing.tick * 3, {workers_[1]});
  EXPECT_EQ(harness_.status().revocations_unnoticed, 1U);
}

TEST_F(DeathTest, ACoordinatorThatSleptBlamesNobody) {
  harness_.Wait(harness_.timing.tick, workers_);
  harness_.now += harness_.timing.detect * 3;
  harness_.core->OnTick(harness_.now, harness_.out());
  EXPECT_EQ(harness_.status().revocations_unnoticed, 0U);
  EXPECT_EQ(harness_.status().state, proto::RunState::kTraining);
}

TEST_F(DeathTest, TheEndOfAnEarlierProcessOfTheSeatChangesNothing) {
  harness_.Exit(ProcessKind::kWorker, 0, 999, "killed by signal 9");
  EXPECT_EQ(harness_.status().revocations_unnoticed, 0U);
}

TEST_F(DeathTest, ADrainedWorkerIsAnsweredWhenItsStepsAreResolved) {
  harness_.Complete(workers_[0], 1);
  harness_.shards[0].is_mute = true;
  proto::Goodbye goodbye{workers_[0].incarnation, "notice", {}};
  goodbye.stats.steps_dropped = 1;
  harness_.Give(workers_[0].peer, goodbye);
  EXPECT_FALSE(harness_.Take<proto::GoodbyeReply>(workers_[0].peer).has_value());
  proto::WorkerHeartbeat beat;
  beat.incarnation = workers_[0].incarnation;
  harness_.Give(workers_[0].peer, beat);
  EXPECT_TRUE(harness_.Take<proto::HeartbeatReply>(workers_[0].peer).has_value());
  harness_.Unmute(0);
  EXPECT_TRUE(harness_.Take<proto::GoodbyeReply>(workers_[0].peer).has_value());
  harness_.Give(workers_[0].peer, goodbye);
  EXPECT_TRUE(harness_.Take<proto::GoodbyeReply>(workers_[0].peer).has_value()) << "repeated";
  const proto::JobStatus status = harness_.status();
  EXPECT_EQ(status.samples_counted, 10U);
  EXPECT_EQ(status.revocations_noticed, 1U);
  EXPECT_EQ(status.revocations_unnoticed, 0U);
  EXPECT_EQ(status.steps_lost, 1U);
  EXPECT_EQ(status.workers.back().state, proto::WorkerRowState::kDrained);
}

TEST_F(DeathTest, ADrainingWorkerGetsNoMoreWork) {
  proto::WorkerHeartbeat beat;
  beat.incarnation = workers_[0].incarnation;
  beat.state = proto::WorkerState::kDraining;
  harness_.Give(workers_[0].peer, beat);
  EXPECT_FALSE(harness_.Ask(&workers_[0]).has_value());
}

TEST_F(DeathTest, AnAcknowledgementWithoutItsAnswersIsAskedForAgain) {
  harness_.shards[0].is_mute = true;
  Kill();
  const proto::MembershipAck empty{ShardId(0), harness_.status().generation, {}};
  harness_.Give(harness_.shards[0].peer, empty);
  EXPECT_EQ(harness_.status().ledger[0].samples_returned, 0U);
  harness_.Unmute(0);
  harness_.Wait(harness_.timing.detect / 2, {workers_[1]});
  EXPECT_EQ(harness_.status().ledger[0].samples_returned, 20U);
}

TEST_F(DeathTest, AllWorkersGoneOnlyPausesTheJob) {
  Kill();
  harness_.Exit(ProcessKind::kWorker, 1, 1001, "killed by signal 9 (Killed)");
  harness_.Wait(harness_.timing.lease * 10);
  proto::JobStatus status = harness_.status();
  EXPECT_EQ(status.state, proto::RunState::kWaiting);
  EXPECT_NE(status.detail.find("no worker"), std::string::npos);
  ASSERT_FALSE(status.waits.empty());
  EXPECT_EQ(status.waits[0].who, "coordinator");
  EXPECT_GT(status.waits[0].since_s, 10);
  FakeWorker fresh = harness_.Join();
  EXPECT_EQ(harness_.status().state, proto::RunState::kTraining);
  for (auto grant = harness_.Ask(&fresh); grant; grant = harness_.Ask(&fresh)) {
    harness_.Work(&fresh, *grant);
  }
  EXPECT_EQ(harness_.status().state, proto::RunState::kDone);
  EXPECT_EQ(Counted(), 200U);
}

}  // namespace
}  // namespace ps::coordinator
