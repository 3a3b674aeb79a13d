// train.mode_policy sync_switch_elastic: who straggles sits out of the rounds.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "ps/coordinator/meters/straggler_watch.h"
#include "ps/coordinator/state/mode_state.h"
#include "ps/coordinator/workers/sit_outs.h"
#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

using proto::Mode;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Workers of 0.2 s a step, but for the last one, whose steps take what they are told.
class ElasticTest : public testing::Test {
 protected:
  explicit ElasticTest(uint32_t workers = 4) : harness_(Options(workers)) {
    for (const FakeWorker& worker : harness_.StartWithWorkers()) {
      Add(worker);
    }
  }

  struct Worker {
    FakeWorker fake;
    double step_s = 0.2;
    std::optional<proto::LeaseGrant> grant;
    TimePoint done_at{};
    bool has_asked = false;
    int steps = 0;  // in the last Run
  };

  static CoordinatorOptions Options(uint32_t workers) {
    CoordinatorOptions options = SmallJob(Mode::kBsp);
    options.config.train.mode_policy = proto::ModePolicy::kSyncSwitchElastic;
    options.config.train.switch_at = 0.8F;
    options.config.train.lease_steps = 1;
    options.train_samples = 25000;
    options.config.workers = {{workers, 10, 1, 1}};
    return options;
  }

  void Add(const FakeWorker& worker) {
    workers_.emplace_back();
    workers_.back().fake = worker;
  }

  /// Everybody asks, computes and asks again; the last one's steps take `slow_s`.
  void Run(double seconds, double slow_s) {
    workers_.back().step_s = slow_s;
    for (Worker& worker : workers_) {
      worker.steps = 0;
    }
    const TimePoint end = harness_.now + FromSeconds(seconds);
    while (harness_.now < end) {
      for (Worker& worker : workers_) {
        Step(&worker);
      }
      std::vector<FakeWorker> alive;
      for (const Worker& worker : workers_) {
        alive.push_back(worker.fake);
      }
      harness_.Wait(harness_.timing.tick, alive);
    }
  }

  void Step(Worker* worker) {
    if (worker->grant && harness_.now >= worker->done_at) {
      harness_.Work(&worker->fake, *worker->grant);
      worker->grant.reset();
      worker->has_asked = false;
      ++worker->steps;
    }
    if (!worker->grant) {
      worker->grant =
          worker->has_asked ? harness_.TakeGrant(&worker->fake) : harness_.Ask(&worker->fake);
      worker->has_asked = true;
      worker->done_at = harness_.now + FromSeconds(worker->step_s);
    }
  }

  /// It sits out for the first time.
  void LeaveOutTheLast() {
    Run(4, 0.4);
    Run(8, 1.2);
    ASSERT_EQ(RowOf(3).state, proto::WorkerRowState::kSitsOut);
  }

  void Restart() {
    harness_.Restart();
    for (Worker& worker : workers_) {
      harness_.Reconnect(&worker.fake);
      worker.has_asked = false;
    }
  }

  void Kill(size_t i) {
    harness_.Exit(
        ProcessKind::kWorker, workers_[i].fake.seat.value, 0, "killed by signal 9 (Killed)");
    workers_.erase(workers_.begin() + static_cast<int64_t>(i));
  }

  void AskForMode(Mode mode) {
    harness_.Give(harness_.Connect(proto::Role::kControl), proto::ModeRequest{{mode}});
  }

  proto::WorkerRow RowOf(uint32_t seat) const {
    for (const proto::WorkerRow& row : harness_.status().workers) {
      if (row.worker == WorkerId(seat) && !row.is_gone()) {
        return row;
      }
    }
    return {};
  }

  std::vector<proto::SitOutRecord> records() const {
    return harness_.core->StateAt(harness_.now).modes.sit_outs;
  }

  size_t out() const {
    const auto all = records();
    return static_cast<size_t>(std::ranges::count_if(all, &proto::SitOutRecord::is_out));
  }

  uint32_t times() const { return records().empty() ? 0 : records().front().times; }

  int slow_steps() const { return workers_.back().steps; }

  Harness harness_;
  std::vector<Worker> workers_;
};

TEST_F(ElasticTest, RoundsGoOnWithoutAStraggler) {
  Run(4, 0.4);
  EXPECT_GE(slow_steps(), 6) << "it was slow from the start";
  EXPECT_EQ(times(), 0U);
  LeaveOutTheLast();
  const uint64_t counted = harness_.status().samples_counted;
  Run(4, 1.2);
  EXPECT_EQ(slow_steps(), 0);
  EXPECT_GE(harness_.status().samples_counted - counted, 300U) << "nobody waits for it";
  EXPECT_EQ(harness_.status().modes.in_force.mode, Mode::kBsp);
  EXPECT_THAT(harness_.status().modes.switches, IsEmpty());
}

TEST_F(ElasticTest, ItIsToldWhoSitsOutAndWhy) {
  LeaveOutTheLast();
  const proto::JobStatus status = harness_.status();
  EXPECT_EQ(status.state, proto::RunState::kTraining);
  EXPECT_THAT(status.detail, HasSubstr("out of the rounds: w3 (rounds would take"));
  EXPECT_THAT(status.detail, HasSubstr("times as long with it; tried again in"));
  EXPECT_THAT(RowOf(3).reason, HasSubstr("tried again in"));
  EXPECT_EQ(RowOf(0).state, proto::WorkerRowState::kComputing);
  const auto wait = std::ranges::find(status.waits, "w3", &proto::Wait::who);
  ASSERT_NE(wait, status.waits.end());
  EXPECT_EQ(wait->what, "a lease (it sits out of the rounds)");
}

/// Longer each time, so that a round with it is rare.
TEST_F(ElasticTest, OneThatStaysSlowIsTriedAgainAfterLongerAndLonger) {
  LeaveOutTheLast();
  std::vector<double> until;
  for (uint32_t time = 2; time <= 4; ++time) {
    const TimePoint before = harness_.now;
    int steps = 0;
    while (times() < time && harness_.now - before < std::chrono::seconds(300)) {
      Run(0.5, 1.2);
      steps += slow_steps();
    }
    until.push_back(Seconds(harness_.now - before));
    EXPECT_GE(steps, 1) << "its step decides";
    EXPECT_LE(steps, 3);
  }
  EXPECT_GT(until[0], 10);
  EXPECT_GT(until[1], 1.5 * until[0]);
  EXPECT_GT(until[2], 1.5 * until[1]);
  EXPECT_EQ(out(), 1U);
}

TEST_F(ElasticTest, OneThatIsQuickAgainComesBackAndStays) {
  LeaveOutTheLast();
  Run(40, 0.4);
  EXPECT_EQ(out(), 0U);
  Run(4, 0.4);
  EXPECT_GE(slow_steps(), 6) << "it is in every round";
  EXPECT_EQ(RowOf(3).reason, "");
  EXPECT_EQ(times(), 1U);
  Run(10, 1.2);
  EXPECT_EQ(out(), 1U) << "it straggles again";
  EXPECT_EQ(times(), 2U);
}

TEST_F(ElasticTest, NobodyReplacesItAndNoSampleIsLost) {
  harness_.fleet.TakeStarted();
  LeaveOutTheLast();
  Run(30, 1.2);
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty());
  EXPECT_EQ(harness_.status().joins, 4U);
  EXPECT_EQ(harness_.status().revocations_unnoticed, 0U);
  for (int i = 0; i < 100 && harness_.status().samples_counted < 25000; ++i) {
    Run(10, 1.2);
  }
  const proto::JobStatus status = harness_.status();
  EXPECT_EQ(status.samples_counted, status.samples_total);
  uint64_t samples = 0;
  for (const proto::WorkerRow& row : status.workers) {
    samples += row.samples_counted;
  }
  EXPECT_EQ(samples, status.samples_total);
  EXPECT_EQ(status.steps_lost, 0U);
  EXPECT_EQ(status.modes.in_force.mode, Mode::kAsync) << "the policy ends at its share";
}

TEST_F(ElasticTest, ItTakesPartInAsync) {
  LeaveOutTheLast();
  AskForMode(Mode::kAsync);
  Run(4, 1.2);
  EXPECT_EQ(harness_.status().modes.in_force.mode, Mode::kAsync);
  EXPECT_GT(slow_steps(), 0);
  EXPECT_THAT(records(), IsEmpty());
}

TEST_F(ElasticTest, WhoAsksForRoundsGetsThemWithEverybody) {
  LeaveOutTheLast();
  AskForMode(Mode::kBsp);
  Run(12, 1.2);
  EXPECT_GE(slow_steps(), 7);
  EXPECT_THAT(records(), IsEmpty());
}

TEST_F(ElasticTest, AnotherCoordinatorKnowsWhoSitsOut) {
  LeaveOutTheLast();
  Restart();
  EXPECT_EQ(out(), 1U);
  Run(4, 1.2);
  EXPECT_EQ(slow_steps(), 0);
  Run(40, 0.4);
  EXPECT_EQ(out(), 0U) << "its usual pace was saved";
  EXPECT_EQ(times(), 1U);
}

TEST_F(ElasticTest, ATrialThatAnotherCoordinatorDidNotSeeBeginsAgain) {
  LeaveOutTheLast();
  for (int i = 0; i < 1000 && !records().at(0).is_trial; ++i) {
    Run(Seconds(harness_.timing.tick), 0.4);
  }
  ASSERT_TRUE(records().at(0).is_trial);
  Restart();
  Run(10, 0.4);
  EXPECT_EQ(out(), 0U);
  EXPECT_FALSE(records().at(0).is_trial);
  EXPECT_EQ(times(), 1U);
}

TEST_F(ElasticTest, WhereTooFewAreLeftItTakesPart) {
  LeaveOutTheLast();
  Kill(0);
  Kill(0);
  Run(3, 1.2);
  EXPECT_EQ(out(), 1U) << "one of two";
  Kill(0);
  Run(10, 1.2);
  EXPECT_EQ(out(), 0U) << "one always works";
  EXPECT_GT(slow_steps(), 5);
}

TEST_F(ElasticTest, WhoSitsOutAndIsLostLeavesNothing) {
  LeaveOutTheLast();
  Kill(3);
  EXPECT_THAT(records(), IsEmpty());
  Add(harness_.Join(3));
  Run(4, 0.4);
  EXPECT_GE(slow_steps(), 6) << "another process in its seat";
}

TEST_F(ElasticTest, WhenFewerAreWantedWhoSitsOutGoesFirst) {
  LeaveOutTheLast();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::ScaleRequest{{{"", 5}}});
  Run(0.5, 1.2);
  Add(harness_.Join(4));
  Run(1, 0.2);
  harness_.Give(control, proto::ScaleRequest{{{"", 4}}});
  Run(1, 0.2);
  EXPECT_TRUE(harness_.Take<proto::Drain>(workers_[3].fake.peer).has_value());
  EXPECT_FALSE(harness_.Take<proto::Drain>(workers_[4].fake.peer).has_value());
}

/// Of four, at most two.
TEST_F(ElasticTest, AtMostHalfOfTheWorkersSitOut) {
  Run(4, 0.2);
  Run(8, 1.2);
  EXPECT_EQ(out(), 1U);
  workers_[2].step_s = 1.4;
  Run(8, 1.2);
  EXPECT_EQ(out(), 2U);
  workers_[1].step_s = 1.6;
  Run(10, 1.2);
  EXPECT_EQ(out(), 2U);
  EXPECT_NE(RowOf(1).state, proto::WorkerRowState::kSitsOut);
}

class TwoElasticTest : public ElasticTest {
 protected:
  TwoElasticTest() : ElasticTest(2) {}
};

TEST_F(TwoElasticTest, OneOfTwoGoesOnAlone) {
  Run(4, 0.4);
  Run(9, 1.2);
  EXPECT_EQ(out(), 1U);
  Run(4, 1.2);
  EXPECT_EQ(slow_steps(), 0);
  Run(40, 0.4);
  EXPECT_EQ(out(), 0U);
}

class LoneElasticTest : public ElasticTest {
 protected:
  LoneElasticTest() : ElasticTest(1) {}
};

TEST_F(LoneElasticTest, OneAloneNeverSitsOut) {
  Run(4, 0.4);
  Run(20, 2.4);
  EXPECT_GE(slow_steps(), 7);
  EXPECT_EQ(out(), 0U);
}

TEST(SitOutsTest, WhatMakesNoSenseIsRefused) {
  proto::MembershipState membership;
  membership.members[Incarnation(3)];
  membership.members[Incarnation(5)];
  proto::SitOutRecord record{.incarnation = Incarnation(3), .is_out = true, .times = 1};
  EXPECT_TRUE(CheckSitOuts({record}, membership).ok());
  proto::SitOutRecord later = record;
  later.incarnation = Incarnation(5);
  EXPECT_TRUE(CheckSitOuts({record, later}, membership).ok());
  EXPECT_FALSE(CheckSitOuts({later, record}, membership).ok()) << "not sorted";
  EXPECT_FALSE(CheckSitOuts({record, record}, membership).ok());
  proto::SitOutRecord wrong = record;
  wrong.incarnation = Incarnation(4);
  EXPECT_FALSE(CheckSitOuts({wrong}, membership).ok()) << "nobody";
  wrong = record;
  wrong.is_trial = true;
  EXPECT_FALSE(CheckSitOuts({wrong}, membership).ok());
  wrong = record;
  wrong.usual_s = -1;
  EXPECT_FALSE(CheckSitOuts({wrong}, membership).ok());
  wrong = record;
  wrong.times = 0;
  EXPECT_FALSE(CheckSitOuts({wrong}, membership).ok());
}

TEST(StragglerWatchTest, AStepOnTrialIsComparedWithTheOthersNow) {
  StragglerWatch watch;
  for (int i = 0; i < 5; ++i) {
    watch.NoteStep(Incarnation(1), 10, 1, true);
    watch.NoteStep(Incarnation(2), 10, 2, true);
  }
  watch.SetAside(Incarnation(2));
  watch.NoteStep(Incarnation(2), 10, 9, true);
  EXPECT_FALSE(watch.TrialSlowdown(Incarnation(2)).has_value());
  watch.Try(Incarnation(2));
  EXPECT_FALSE(watch.TrialSlowdown(Incarnation(2)).has_value()) << "no step yet";
  watch.NoteStep(Incarnation(2), 10, 6, true);
  EXPECT_NEAR(*watch.TrialSlowdown(Incarnation(2)), 3, 1e-9);
  for (int i = 0; i < 40; ++i) {
    watch.NoteStep(Incarnation(1), 10, 3, true);
  }
  EXPECT_NEAR(*watch.TrialSlowdown(Incarnation(2)), 1, 0.01) << "all are as slow now";
  watch.TakeBack(Incarnation(2));
  EXPECT_EQ(watch.UsualOf(Incarnation(2)), 2);
}

}  // namespace
}  // namespace ps::coordinator
