#include "tests/client/worker_core_fixture.h"

namespace ps::client {
namespace {

using WorkerReportTest = WorkerCoreTest;

TEST_F(WorkerReportTest, ReportsAreRepeatedUntilAcknowledged) {
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

TEST_F(WorkerReportTest, AReportThatFindsNoConnectionGoesOutOnTheNextOne) {
  Begin(proto::Mode::kBsp, false);
  FromCoordinator(Grant(1, 0, 8, 1));
  AnswerPull(0);
  Compute();
  core_->OnPeerClosed(kCoordinator, now_);
  AnswerPush(1, proto::PushOutcome::kStaged);
  EXPECT_TRUE(out_.All<proto::StepReport>().empty());
  // The round waits for it, and this worker for the round.
  core_->OnCoordinatorConnected(proto::PeerId(9), 1, now_, &out_);
  ASSERT_EQ(out_.All<proto::StepReport>().size(), 1U);
  EXPECT_EQ(out_.All<proto::StepReport>()[0].steps[0].step, 1U);
}

TEST_F(WorkerReportTest, TheAdviceOfAProviderTravelsWithHeartbeats) {
  Begin(proto::Mode::kAsync, false);
  const auto newest = [&] {
    now_ += seconds(1);
    core_->OnTick(now_, &out_);
    return out_.All<proto::WorkerHeartbeat>().back().is_at_risk;
  };
  EXPECT_FALSE(newest());
  core_->OnRisk(true);
  EXPECT_TRUE(newest());
  EXPECT_TRUE(newest());
  core_->OnRisk(false);
  EXPECT_FALSE(newest());
}

TEST_F(WorkerReportTest, WhatIsNoNoticeTravelsWithHeartbeatsForAsLongAsItIsAnnounced) {
  Begin(proto::Mode::kAsync, false);
  const auto newest = [&] {
    now_ += seconds(1);
    core_->OnTick(now_, &out_);
    return out_.All<proto::WorkerHeartbeat>().back().ignored;
  };
  EXPECT_EQ(newest(), "");
  core_->OnIgnoredNotice("Azure event (Freeze), which ends no machine");
  EXPECT_EQ(newest(), "Azure event (Freeze), which ends no machine");
  core_->OnIgnoredNotice("");
  EXPECT_EQ(newest(), "");
}

TEST_F(WorkerReportTest, WithoutOverlapTheNextLeaseIsAskedForRightBehindTheReport) {
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

TEST_F(WorkerReportTest, TheWayToTheArithmeticAndBackCountsAsWaiting) {
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

TEST_F(WorkerReportTest, AtTheEndOfTheJobItTellsWhatItDidSinceItsLastHeartbeat) {
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

TEST_F(WorkerReportTest, TheRateIsOfTheTimeSinceItJoined) {
  Begin(proto::Mode::kAsync, false);
  FromCoordinator(Grant(1, 0, 8));
  AnswerPull(0);
  Compute();
  AnswerPush(1);
  const auto rate_after = [&](Duration time) {
    now_ += time;
    core_->OnTick(now_, &out_);
    return out_.All<proto::WorkerHeartbeat>().back().stats.samples_per_s;
  };
  EXPECT_EQ(rate_after(milliseconds(900)), 0);  // too soon to tell
  EXPECT_EQ(rate_after(milliseconds(1100)), 4);
}

}  // namespace
}  // namespace ps::client
