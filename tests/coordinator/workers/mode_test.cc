// psctl mode, and train.mode_policy.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/coordinator/meters/straggler_watch.h"
#include "tests/coordinator/rollback_fixture.h"

namespace ps::coordinator {
namespace {

using proto::Mode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ModeSwitchTest : public RollbackTest {
 protected:
  explicit ModeSwitchTest(Mode mode = Mode::kAsync) : RollbackTest(mode) {}

  void Ask(proto::ModeChoice wanted) {
    control_ = harness_.Connect(proto::Role::kControl);
    harness_.Give(control_, proto::ModeRequest{wanted});
  }

  proto::ModesStatus AskAndGet(proto::ModeChoice wanted) {
    Ask(wanted);
    const auto reply = harness_.Take<proto::ModeReply>(control_);
    EXPECT_TRUE(reply.has_value());
    return reply.value_or(proto::ModeReply()).modes;
  }

  std::string RefusalOf(proto::ModeChoice wanted) {
    Ask(wanted);
    const auto refusal = harness_.Take<proto::Refusal>(control_);
    return refusal ? refusal->message : "it is not refused";
  }

  proto::ModesStatus modes() const { return harness_.status().modes; }

  /// All leases are done and all ask for more; then what came.
  void TakeGrants() {
    for (size_t i = 0; i < workers_.size(); ++i) {
      grants_[i] = harness_.TakeGrant(&workers_[i]).value_or(grants_[i]);
    }
  }

  proto::PeerId control_;
};

class BspModeSwitchTest : public ModeSwitchTest {
 protected:
  BspModeSwitchTest() : ModeSwitchTest(Mode::kBsp) {}
};

TEST_F(ModeSwitchTest, TheNextLeasesAreOfTheNewModeWhenTheStepsUnderWayAreDone) {
  Begin();
  EXPECT_EQ(grants_[0].mode, Mode::kAsync);
  const proto::ModesStatus modes = AskAndGet({Mode::kBsp});
  EXPECT_EQ(modes.in_force.mode, Mode::kAsync);
  EXPECT_EQ(modes.wanted.mode, Mode::kBsp);
  EXPECT_TRUE(modes.is_switching);
  EXPECT_THAT(harness_.status().detail, HasSubstr("the mode changes to bsp"));
  harness_.Work(&workers_[0], grants_[0]);
  EXPECT_FALSE(harness_.Ask(&workers_[0]).has_value());
  harness_.Work(&workers_[1], grants_[1]);
  EXPECT_FALSE(harness_.Ask(&workers_[1]).has_value());
  harness_.Work(&workers_[2], grants_[2]);
  EXPECT_EQ(harness_.shards[1].membership.mode.mode, Mode::kBsp);
  ASSERT_TRUE(harness_.Ask(&workers_[2]).has_value());
  TakeGrants();
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(grants_[i].mode, Mode::kBsp);
    EXPECT_EQ(grants_[i].round, 2U);
  }
  ASSERT_EQ(this->modes().switches.size(), 1U);
  EXPECT_EQ(this->modes().switches[0].samples, 60U);
  EXPECT_FALSE(this->modes().switches[0].is_policy);
  EXPECT_EQ(harness_.status().mode, Mode::kBsp);
}

TEST_F(ModeSwitchTest, NobodyGetsALeaseBeforeEveryShardKnowsTheMode) {
  Begin();
  AskAndGet({Mode::kSsp, 2});
  harness_.shards[1].is_mute = true;
  for (size_t i = 0; i < workers_.size(); ++i) {
    harness_.Work(&workers_[i], grants_[i]);
    EXPECT_FALSE(harness_.Ask(&workers_[i]).has_value());
  }
  EXPECT_TRUE(modes().is_switching);
  EXPECT_EQ(modes().in_force.staleness_max, 2U);
  harness_.Unmute(1);
  EXPECT_FALSE(modes().is_switching);
  for (FakeWorker& worker : workers_) {
    const auto grant = harness_.TakeGrant(&worker);
    ASSERT_TRUE(grant.has_value());
    EXPECT_EQ(grant->mode, Mode::kSsp);
  }
}

TEST_F(BspModeSwitchTest, ARoundUnderWayIsCommittedAndRoundsGoOnWhereTheyWere) {
  Begin();
  Round();
  AskAndGet({Mode::kAsync});
  EXPECT_EQ(modes().in_force.mode, Mode::kBsp);
  Round();
  EXPECT_EQ(harness_.shards[0].commits.back().round, 2U);
  EXPECT_EQ(modes().in_force.mode, Mode::kAsync);
  TakeGrants();
  EXPECT_EQ(grants_[0].mode, Mode::kAsync);
  EXPECT_EQ(grants_[0].round, 0U);
  AskAndGet({Mode::kBsp});
  Round();
  TakeGrants();
  EXPECT_EQ(harness_.shards[0].membership.round, 3U)
      << "nobody takes what round 2 left for what is there now";
  EXPECT_EQ(grants_[0].round, 4U);
  for (size_t i = 0; i < workers_.size(); ++i) {
    harness_.Work(&workers_[i], grants_[i]);
  }
  FinishRun();
}

TEST_F(ModeSwitchTest, AnotherCoordinatorGoesOnWithTheSwitch) {
  Begin();
  AskAndGet({Mode::kBsp});
  harness_.Restart();
  for (FakeWorker& worker : workers_) {
    harness_.Reconnect(&worker);
  }
  EXPECT_TRUE(modes().is_switching);
  Round();
  TakeGrants();
  EXPECT_EQ(grants_[0].mode, Mode::kBsp);
  harness_.Restart();
  EXPECT_EQ(modes().in_force.mode, Mode::kBsp);
  EXPECT_EQ(modes().switches.size(), 1U);
}

TEST_F(BspModeSwitchTest, AJobThatGoesBackStaysInTheModeInForce) {
  BeginAndWrite();
  AskAndGet({Mode::kAsync});
  Round();
  AskAndGet({Mode::kBsp});
  TakeGrants();
  Round();
  ASSERT_EQ(modes().in_force.mode, Mode::kBsp);
  AskAndGet({Mode::kSsp, 4});
  Round();
  AskAndGet({Mode::kBsp});
  TakeGrants();
  Round();
  ASSERT_EQ(modes().in_force.mode, Mode::kBsp);
  Lose(0);
  Read();
  ShardsReturn(0);
  EXPECT_EQ(NewestSetup(1).membership.mode.mode, Mode::kBsp);
  EXPECT_EQ(NewestSetup(1).membership.round, 2U) << "of the checkpoint";
  WorkersReturn();
  FinishRun();
}

TEST_F(ModeSwitchTest, ACheckpointUnderWayIsNotOfTwoModes) {
  Begin();
  Wait(kEvery);
  ASSERT_THAT(disk_.opened, ElementsAre(1));
  AskAndGet({Mode::kBsp});
  Round();
  EXPECT_NE(grants_[0].lease, LeaseId()) << "training goes on meanwhile";
  EXPECT_EQ(grants_[0].mode, Mode::kAsync);
  Written();
  Wait(harness_.timing.tick);
  Round();
  TakeGrants();
  EXPECT_EQ(grants_[0].mode, Mode::kBsp);
}

TEST_F(ModeSwitchTest, ALaterWishTakesThePlaceOfOneThatIsNotDone) {
  Begin();
  AskAndGet({Mode::kBsp});
  const proto::ModesStatus modes = AskAndGet({Mode::kAsync});
  EXPECT_EQ(modes.wanted.mode, Mode::kAsync);
  Round();
  EXPECT_NE(grants_[0].lease, LeaseId());
  EXPECT_EQ(grants_[0].mode, Mode::kAsync);
  EXPECT_THAT(this->modes().switches, IsEmpty());
}

/// A shard that misses a mode between two times of bsp misses the number of the rounds, too.
TEST_F(ModeSwitchTest, TheNextSwitchWaitsUntilEveryShardKnowsOfTheLast) {
  Begin();
  AskAndGet({Mode::kSsp, 2});
  harness_.shards[1].is_mute = true;
  for (size_t i = 0; i < workers_.size(); ++i) {
    harness_.Work(&workers_[i], grants_[i]);
  }
  ASSERT_EQ(modes().in_force.mode, Mode::kSsp);
  AskAndGet({Mode::kBsp});
  EXPECT_EQ(modes().in_force.mode, Mode::kSsp) << "shard 1 has not heard of it";
  harness_.Unmute(1);
  EXPECT_EQ(modes().in_force.mode, Mode::kBsp);
}

TEST_F(ModeSwitchTest, WhatCanNotBeIsRefused) {
  Begin();
  EXPECT_THAT(RefusalOf({Mode::kSsp, 0}), HasSubstr("a staleness bound of 0; allowed: 1 to"));
  EXPECT_THAT(RefusalOf({Mode::kBsp, 3}), HasSubstr("only ssp has"));
  harness_.core->RequestStop(false, "enough", harness_.now, harness_.out());
  EXPECT_THAT(RefusalOf({Mode::kBsp}), HasSubstr("the run is ending"));
}

class TightModeSwitchTest : public CheckpointTest {
 protected:
  TightModeSwitchTest()
      : CheckpointTest([](CoordinatorOptions* options) {
          options->config.servers.queue_mib = 1;
          options->tensors = {{"w", {200000}}};
          options->config.servers.chunk_kib = 64;
        }) {}
};

TEST_F(TightModeSwitchTest, BspIsRefusedWhereShardsHaveNoRoomForAllGradients) {
  Begin();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::ModeRequest{{Mode::kBsp}});
  const auto refusal = harness_.Take<proto::Refusal>(control);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_THAT(refusal->message, HasSubstr("gradients of 2 workers, and 3 are wanted"));
}

CoordinatorOptions SyncSwitchJob() {
  CoordinatorOptions options = SmallJob(Mode::kBsp);
  options.config.train.mode_policy = proto::ModePolicy::kSyncSwitch;
  options.config.train.switch_at = 0.25F;
  return options;
}

TEST(ModePolicyTest, SyncSwitchEndsTheRoundsAtItsShareOfTheSamples) {
  Harness harness(SyncSwitchJob());
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  EXPECT_EQ(grants[0].mode, Mode::kBsp);
  for (int round = 0; round < 2; ++round) {  // 30 of 200 samples each
    for (size_t i = 0; i < workers.size(); ++i) {
      harness.Work(&workers[i], grants[i]);
    }
    grants = harness.AskAll(&workers);
  }
  EXPECT_EQ(grants[0].mode, Mode::kAsync) << "25 % are 50 samples";
  const proto::JobStatus status = harness.status();
  ASSERT_EQ(status.modes.switches.size(), 1U);
  EXPECT_TRUE(status.modes.switches[0].is_policy);
  EXPECT_EQ(status.modes.switches[0].samples, 60U);
}

TEST(ModePolicyTest, WhoAsksForAModeKnowsBetterThanThePolicy) {
  Harness harness(SyncSwitchJob());
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const proto::PeerId control = harness.Connect(proto::Role::kControl);
  harness.Give(control, proto::ModeRequest{{Mode::kBsp}});
  std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < workers.size(); ++i) {
      harness.Work(&workers[i], grants[i]);
    }
    grants = harness.AskAll(&workers);
    EXPECT_EQ(grants[0].mode, Mode::kBsp);
  }
}

/// Two workers of 0.2 s a step, and one whose steps take what they are told.
class GreedyTest : public testing::Test {
 protected:
  static CoordinatorOptions Options() {
    CoordinatorOptions options = SyncSwitchJob();
    options.config.train.mode_policy = proto::ModePolicy::kSyncSwitchGreedy;
    options.config.train.lease_steps = 1;
    options.train_samples = 6000;
    return options;
  }

  void Turns(int count, double slow_s) {
    for (int turn = 0; turn < count; ++turn) {
      grants_ = harness_.AskAll(&workers_);
      harness_.Wait(FromSeconds(0.2), workers_);
      MakeStep(0);
      MakeStep(1);
      harness_.Wait(FromSeconds(slow_s - 0.2), workers_);
      MakeStep(2);
    }
  }

  Mode mode() const { return harness_.status().modes.in_force.mode; }

  Harness harness_{Options()};
  std::vector<FakeWorker> workers_ = harness_.StartWithWorkers();
  std::vector<proto::LeaseGrant> grants_;

 private:
  void MakeStep(size_t i) {
    if (grants_[i].lease != LeaseId()) {
      harness_.Work(&workers_[i], grants_[i]);
    }
  }
};

TEST_F(GreedyTest, RoundsEndWhileAWorkerStraggles) {
  Turns(6, 0.4);
  EXPECT_EQ(mode(), Mode::kBsp) << "it was slow from the start";
  Turns(8, 1.2);
  EXPECT_EQ(mode(), Mode::kAsync);
  Turns(6, 1.2);
  EXPECT_EQ(mode(), Mode::kAsync) << "it straggles still";
  Turns(16, 0.4);
  EXPECT_EQ(mode(), Mode::kBsp) << "its usual pace";
  const std::vector<proto::ModeSwitch> switches = harness_.status().modes.switches;
  ASSERT_EQ(switches.size(), 2U);
  EXPECT_TRUE(switches[0].is_policy);
  EXPECT_TRUE(switches[1].is_policy);
}

TEST_F(GreedyTest, ThePolicyEndsAtItsShareOfTheSamplesAllTheSame) {
  Turns(52, 0.4);
  EXPECT_EQ(mode(), Mode::kAsync) << "25 % of 6000 samples are 50 rounds of 30";
  Turns(10, 1.2);
  Turns(10, 0.4);
  EXPECT_EQ(mode(), Mode::kAsync);
  EXPECT_EQ(harness_.status().modes.switches.size(), 1U);
}

TEST_F(GreedyTest, AStragglerThatIsLostIsNone) {
  Turns(6, 0.4);
  Turns(8, 1.2);
  ASSERT_EQ(mode(), Mode::kAsync);
  harness_.Exit(ProcessKind::kWorker, 2, 0, "killed by signal 9 (Killed)");
  workers_.pop_back();
  for (int turn = 0; turn < 40 && mode() == Mode::kAsync; ++turn) {
    grants_ = harness_.AskAll(&workers_);
    harness_.Wait(FromSeconds(0.2), workers_);
    for (size_t i = 0; i < workers_.size(); ++i) {
      if (grants_[i].lease != LeaseId()) {
        harness_.Work(&workers_[i], grants_[i]);
      }
    }
  }
  EXPECT_EQ(mode(), Mode::kBsp);
}

TEST(StragglerWatchTest, WhatSlowsAllAlikeMakesNoStraggler) {
  StragglerWatch watch;
  TimePoint now{std::chrono::seconds(1)};
  const auto steps = [&](double first, double second) {
    for (int i = 0; i < 20; ++i) {
      watch.NoteStep(Incarnation(1), 10, first, true);
      watch.NoteStep(Incarnation(2), 10, second, true);
      now += std::chrono::seconds(1);
      watch.Look(now);
    }
  };
  steps(1, 2);
  EXPECT_FALSE(watch.is_straggling());
  steps(3, 6);
  EXPECT_FALSE(watch.is_straggling());
  steps(1.9, 2);
  EXPECT_FALSE(watch.is_straggling()) << "the slower one is still what a round waits for";
  steps(1, 4);
  EXPECT_TRUE(watch.is_straggling());
  EXPECT_EQ(watch.straggler(), Incarnation(2));
  EXPECT_NEAR(watch.slowdown(), 2, 0.01);
}

TEST(StragglerWatchTest, AnotherMinibatchIsAnotherPace) {
  StragglerWatch watch;
  for (int i = 1; i <= 20; ++i) {
    watch.NoteStep(Incarnation(1), 10, 1, true);
    watch.NoteStep(Incarnation(2), i < 10 ? 10U : 40U, i < 10 ? 1 : 4, true);
    watch.Look(TimePoint{std::chrono::seconds(i)});
  }
  EXPECT_FALSE(watch.is_straggling());
}

}  // namespace
}  // namespace ps::coordinator
