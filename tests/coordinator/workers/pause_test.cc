// psctl pause and continue; what the machines cost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/rollback_fixture.h"

namespace ps::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PauseTest : public CheckpointTest {
 protected:
  PauseTest()
      : CheckpointTest([](CoordinatorOptions* options) {
          options->config.checkpoint.every_s = 60;
          options->config.workers[0].usd_per_hour = 2;
          options->config.servers.usd_per_hour = 0.5;
        }) {}

  void Pause(bool is_paused) {
    const proto::PeerId control = harness_.Connect(proto::Role::kControl);
    harness_.Give(control, proto::PauseRequest{is_paused});
    ASSERT_TRUE(harness_.Take<proto::PauseReply>(control).has_value());
  }

  std::vector<proto::LeaseGrant> FinishLeases() {
    for (size_t i = 0; i < workers_.size(); ++i) {
      harness_.Work(&workers_[i], grants_[i]);
    }
    return harness_.AskAll(&workers_);
  }
};

using BspPauseTest = RollbackTest;

TEST_F(PauseTest, WorkersFinishWhatTheyHaveAndThenACheckpointIsMade) {
  Begin();
  Pause(true);
  EXPECT_EQ(harness_.status().state, proto::RunState::kPaused);
  EXPECT_THAT(harness_.status().detail, HasSubstr("workers finish what they have"));
  Wait(harness_.timing.tick * 2);
  EXPECT_THAT(disk_.opened, IsEmpty()) << "leases are out";
  for (const proto::LeaseGrant& grant : FinishLeases()) {
    EXPECT_EQ(grant.lease, LeaseId());
  }
  const uint64_t counted = harness_.status().samples_counted;
  Wait(harness_.timing.tick * 2);
  ASSERT_THAT(disk_.opened, ElementsAre(1));
  Written();
  EXPECT_THAT(harness_.status().detail, HasSubstr("checkpoint 1 has all"));
  const Result<JobState> saved = proto::DecodeJobState(disk_.writes[0].manifest.job_state);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->ledger.epochs[0].counted.size(), counted);
  Wait(std::chrono::seconds(200));
  EXPECT_THAT(disk_.opened, ElementsAre(1)) << "nothing is new";
  EXPECT_EQ(harness_.status().samples_counted, counted);
  EXPECT_LT(harness_.status().eta_s, 0);
}

TEST_F(PauseTest, ContinueGoesOnWithThoseWhoWait) {
  Begin();
  Pause(true);
  FinishLeases();
  Pause(false);
  EXPECT_EQ(harness_.status().state, proto::RunState::kTraining);
  for (size_t i = 0; i < workers_.size(); ++i) {
    const auto grant = harness_.TakeGrant(&workers_[i]);
    ASSERT_TRUE(grant.has_value());
    harness_.Work(&workers_[i], *grant);
  }
  RunToTheEnd(&harness_, &workers_);
  EXPECT_EQ(harness_.status().samples_counted, harness_.status().samples_total);
}

TEST_F(PauseTest, MachinesCostWhileNoCoordinatorIsThere) {
  Begin();
  const double usd_per_hour = 3 * 2 + 2 * 0.5;
  Wait(std::chrono::seconds(1));
  const TimePoint from = harness_.now;
  const double before = harness_.status().usd_spent;
  harness_.Restart(std::chrono::seconds(20));
  for (FakeWorker& worker : workers_) {
    harness_.Reconnect(&worker);
  }
  Wait(harness_.timing.tick);
  EXPECT_NEAR(
      harness_.status().usd_spent - before,
      usd_per_hour * Seconds(harness_.now - from) / 3600,
      usd_per_hour * 0.2 / 3600);
  const double later = harness_.status().usd_spent;
  harness_.Restart(std::chrono::hours(10));
  Wait(harness_.timing.tick);
  EXPECT_NEAR(harness_.status().usd_spent - later, usd_per_hour / 60, usd_per_hour / 3600)
      << "for fleet.orphan_grace_s: then no process is left";
}

TEST_F(PauseTest, APauseOutlivesTheCoordinator) {
  Begin();
  Pause(true);
  FinishLeases();
  harness_.Restart();
  for (FakeWorker& worker : workers_) {
    harness_.Reconnect(&worker);
  }
  EXPECT_EQ(harness_.status().state, proto::RunState::kPaused);
  Wait(harness_.timing.tick * 2);
  ASSERT_THAT(disk_.opened, ElementsAre(1));
  for (FakeWorker& worker : workers_) {
    EXPECT_FALSE(harness_.Ask(&worker).has_value());
  }
}

TEST_F(PauseTest, TheMachinesCostWhetherTheyTrainOrWait) {
  Begin();
  const double usd_per_hour =
      0.5 * harness_.options.config.servers.count + 2.0 * harness_.options.config.workers[0].count;
  EXPECT_NEAR(harness_.status().usd_per_hour, usd_per_hour, 1e-6);
  Pause(true);
  FinishLeases();
  const double before = harness_.status().usd_spent;
  Wait(std::chrono::seconds(36));
  EXPECT_NEAR(harness_.status().usd_spent - before, usd_per_hour / 100, usd_per_hour / 1000);
  const double spent = harness_.status().usd_spent;
  harness_.Restart();
  EXPECT_NEAR(harness_.status().usd_spent, spent, spent / 100);
}

/// Zones are without capacity for hours. What was done is safe meanwhile, and older checkpoints
/// are not pushed out by ever more of the same state.
TEST_F(PauseTest, AJobWithoutWorkersIsParkedWithOneCheckpointAndWakesByItself) {
  Begin();
  for (size_t i = 0; i < workers_.size(); ++i) {
    harness_.Work(&workers_[i], grants_[i]);
  }
  const uint64_t counted = harness_.status().samples_counted;
  ASSERT_GT(counted, 0U);
  harness_.Wait(harness_.timing.detect * 2);
  ASSERT_THAT(harness_.status().detail, HasSubstr("no worker is left"));
  ASSERT_THAT(disk_.opened, ElementsAre(1)) << "of the last steps it may lack something";
  Written();
  harness_.Wait(std::chrono::seconds(11));
  ASSERT_THAT(disk_.opened, ElementsAre(1, 2));
  Written();
  EXPECT_THAT(harness_.status().detail, HasSubstr("left; checkpoint 2 has all that was done; tr"));
  harness_.Wait(std::chrono::minutes(10));
  EXPECT_THAT(disk_.opened, ElementsAre(1, 2)) << "nothing is new";
  EXPECT_EQ(harness_.status().state, proto::RunState::kWaiting);

  workers_ = {harness_.Join()};
  EXPECT_EQ(harness_.status().state, proto::RunState::kTraining);
  grants_ = harness_.AskAll(&workers_);
  ASSERT_NE(grants_[0].lease, LeaseId());
  harness_.Work(&workers_[0], grants_[0]);
  Wait(std::chrono::seconds(61));
  EXPECT_THAT(disk_.opened, ElementsAre(1, 2, 3)) << "as always";
}

TEST_F(BspPauseTest, ARoundUnderWayIsCommittedAndNoneIsBegun) {
  Begin();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::PauseRequest{true});
  Round();
  EXPECT_EQ(grants_[0].lease, LeaseId());
  Wait(harness_.timing.tick * 2);
  ASSERT_THAT(disk_.opened, ElementsAre(1));
  Written();
  EXPECT_THAT(harness_.status().detail, HasSubstr("checkpoint 1 has all"));
  harness_.Give(control, proto::PauseRequest{false});
  for (size_t i = 0; i < workers_.size(); ++i) {
    EXPECT_TRUE(harness_.TakeGrant(&workers_[i]).has_value());
  }
}

TEST_F(PauseTest, ARunThatEndsIsNotPaused) {
  Begin();
  harness_.core->RequestStop(false, "enough", harness_.now, harness_.out());
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::PauseRequest{true});
  const auto refusal = harness_.Take<proto::Refusal>(control);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_THAT(refusal->message, HasSubstr("the run is ending"));
}

}  // namespace
}  // namespace ps::coordinator
