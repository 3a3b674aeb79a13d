#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "ps/coordinator/meters/divergence.h"
#include "ps/coordinator/meters/fleet_speed.h"
#include "ps/coordinator/meters/progress_meter.h"
#include "ps/coordinator/state/evaluations.h"
#include "ps/coordinator/state/events.h"
#include "ps/coordinator/state/fault_schedule.h"
#include "ps/coordinator/state/rounds.h"
#include "ps/coordinator/state/seats.h"

namespace ps::coordinator {
namespace {

TEST(EventsTest, AreNumberedAndTheLastOnesAreKept) {
  proto::EventsState state;
  TouchedRows touched;
  Events events(&state, &NullLogger(), &touched);
  for (uint64_t epoch = 1; epoch <= Events::kLastMax + 3; ++epoch) {
    events.Tell(proto::EventCode::kEpochComplete, {{"epoch", epoch}});
  }
  EXPECT_EQ(state.before, 3U);
  ASSERT_EQ(state.last.size(), Events::kLastMax);
  EXPECT_EQ(state.last.front().number, 4U);
  EXPECT_EQ(state.last.front().text, "epoch 4 is complete");
  EXPECT_EQ(state.last.back().number, Events::kLastMax + 3);
}

TEST(EventsTest, SayWhoAskedAndWhyAndWhatElseThereWas) {
  proto::EventsState state;
  TouchedRows touched;
  Events events(&state, &NullLogger(), &touched);
  events.Tell(proto::EventCode::kPolicy, {{"why", "one is enough"}, {"by", "policy"}}, "2: 3 USD");
  events.Stamp(5);
  events.Tell(proto::EventCode::kWorkerLost, {{"worker", 3}, {"reason", "it was killed"}});
  events.Stamp(7);
  ASSERT_EQ(state.last.size(), 2U);
  const proto::EventRow& decided = state.last[0];
  EXPECT_EQ(decided.kind, proto::EventKind::kPolicy);
  EXPECT_EQ(
      decided.by + ", " + decided.why + ", " + decided.others, "policy, one is enough, 2: 3 USD");
  EXPECT_EQ(decided.unix_s, 5);
  EXPECT_EQ(state.last[1].text, "worker_lost") << "a sentence that lacks a field is its name";
  EXPECT_EQ(state.last[1].why, "it was killed");
  EXPECT_EQ(state.last[1].unix_s, 7);
}

TEST(EvaluationsTest, PartsTileTheTestSetAndAddUp) {
  proto::EvaluationsState state;
  TouchedRows touched;
  Evaluations evaluations(&state, &touched);
  evaluations.Begin(2, {0, 10}, 3);
  uint64_t covered = 0;
  for (uint64_t lease = 1; evaluations.HasWork(); ++lease) {
    const auto granted = evaluations.Grant(Incarnation(1), LeaseId(lease));
    EXPECT_EQ(granted.epoch, 2U);
    EXPECT_EQ(granted.begin, covered);
    covered = granted.end;
    evaluations.Report(
        {Incarnation(1), LeaseId(lease), granted.end - granted.begin, 2.0, 1, {}},
        std::chrono::seconds(9));
  }
  EXPECT_EQ(covered, 10U);
  ASSERT_EQ(evaluations.results().size(), 1U);
  EXPECT_DOUBLE_EQ(evaluations.results()[0].accuracy, 0.3);
  EXPECT_DOUBLE_EQ(evaluations.results()[0].loss, 0.6);
  EXPECT_DOUBLE_EQ(evaluations.results()[0].at_s, 9);
  EXPECT_FALSE(evaluations.is_pending());
}

proto::EvaluationsState EvaluatedAs(
    const EvaluationKind& kind, const std::vector<proto::EvaluateReport>& reports) {
  proto::EvaluationsState state;
  TouchedRows touched;
  Evaluations evaluations(&state, &touched, kind);
  uint64_t samples = 0;
  for (const proto::EvaluateReport& report : reports) {
    samples += report.samples;
  }
  evaluations.Begin(1, {0, samples}, reports.size());
  LeaseId lease;
  for (proto::EvaluateReport report : reports) {
    ++lease.value;
    report.lease = lease;
    evaluations.Grant(Incarnation(1), lease);
    evaluations.Report(report, std::chrono::seconds(1));
  }
  return state;
}

TEST(EvaluationsTest, R2IsThatOfAllPartsTogether) {
  // Targets 1, 2, 3 and 6, less 2; of predictions 1, 2, 4 and 5.
  proto::EvaluateReport first{Incarnation(1), LeaseId(), 2, 0, 0, {}};
  first.sums = {0, 0, -1, 1, 0, 0};
  proto::EvaluateReport second{Incarnation(1), LeaseId(), 2, 2, 0, {}};
  second.sums = {2, 2, 5, 17, 0, 0};
  const proto::EvaluationsState state =
      EvaluatedAs({proto::Task::kNumbers, false}, {first, second});
  ASSERT_EQ(state.results.size(), 1U);
  EXPECT_DOUBLE_EQ(state.results[0].accuracy, 1 - 2.0 / 14) << "squares about the mean 3";
  EXPECT_DOUBLE_EQ(state.results[0].loss, 0.5);
  ASSERT_EQ(state.figures.size(), 1U);
  const std::vector<proto::Figure> expected = {{"test_mae", 0.5}, {"test_rmse", std::sqrt(0.5)}};
  EXPECT_EQ(state.figures[0].figures, expected);
}

TEST(EvaluationsTest, R2OfTargetsThatAreAllOneNumberIsOneOrNothing) {
  const EvaluationKind kind{proto::Task::kNumbers, false};
  EvaluationSums sums;
  sums.metrics.target = 0.3 * 7;
  sums.metrics.target_square = 0.3 * 0.3 * 7;
  EXPECT_EQ(kind.MetricValue(sums, 7), 1);
  sums.metrics.squared_error = 0.1;
  EXPECT_EQ(kind.MetricValue(sums, 7), 0);
}

TEST(EvaluationsTest, FiguresFollowFromWhatIsLearnt) {
  EvaluationSums sums;
  sums.Add(std::log(3.0) * 10, 4, {0, 0, 0, 0, 8, 10});
  const auto names = [&](const EvaluationKind& kind) {
    std::string text;
    for (const proto::Figure& figure : kind.Figures(sums, 10)) {
      text += fmt::format("{} {:.2f} ", figure.name, figure.value);
    }
    return text;
  };
  EXPECT_EQ(names({proto::Task::kClasses, false}), "test_top5 0.80 ");
  EXPECT_EQ(names({proto::Task::kLabels, false}), "test_exact_match 0.80 ");
  const EvaluationKind labels{proto::Task::kLabels, false};
  EXPECT_DOUBLE_EQ(labels.MetricValue(sums, 10), 0.4);
  sums.metrics.near_samples = 0;
  EXPECT_EQ(names({proto::Task::kClasses, true}), "test_perplexity 3.00 ");
  proto::LayerConfig loss;
  loss.kind = proto::LayerKind::kSoftmaxCrossEntropy;
  EXPECT_TRUE(EvaluationKind::Of({loss}, proto::Task::kClasses, true).has_perplexity);
  loss.label_smoothing = 0.1F;
  EXPECT_FALSE(EvaluationKind::Of({loss}, proto::Task::kClasses, true).has_perplexity);
  loss.label_smoothing = 0;
  loss.class_weights = {1, 2};
  EXPECT_FALSE(EvaluationKind::Of({loss}, proto::Task::kClasses, true).has_perplexity);
  sums.loss_sum = 1e9;
  EXPECT_EQ(names({proto::Task::kClasses, true}), "") << "not finite";
}

TEST(EvaluationsTest, SumsThatNoSamplesMakeAreFound) {
  EXPECT_TRUE(CheckMetricSums({1, 1, -1, 1, 3, 4}, 4).ok());
  EXPECT_TRUE(CheckMetricSums({std::nan(""), 0, 0, 0, 0, 0}, 4).ok()) << "it has diverged";
  for (const proto::MetricSums& sums :
       {proto::MetricSums{-1, 0, 0, 0, 0, 0},
        proto::MetricSums{0, -1, 0, 0, 0, 0},
        proto::MetricSums{0, 0, 0, -1, 0, 0},
        proto::MetricSums{0, 0, 0, 0, 2, 1},
        proto::MetricSums{0, 0, 0, 0, 1, 5}}) {
    EXPECT_EQ(CheckMetricSums(sums, 4).code(), StatusCode::kInvalidArgument);
  }
}

TEST(EvaluationsTest, APartWhoseHolderIsGoneIsDoneAgainByAnother) {
  proto::EvaluationsState state;
  TouchedRows touched;
  Evaluations evaluations(&state, &touched);
  evaluations.Begin(1, {0, 10}, 2);
  evaluations.Grant(Incarnation(1), LeaseId(1));
  evaluations.Grant(Incarnation(2), LeaseId(2));
  EXPECT_FALSE(evaluations.HasWork());
  evaluations.Return(Incarnation(1));
  EXPECT_EQ(evaluations.Find(LeaseId(1)), nullptr);
  EXPECT_NE(evaluations.Find(LeaseId(2)), nullptr);
  EXPECT_EQ(evaluations.Grant(Incarnation(2), LeaseId(3)).begin, 0U);
  evaluations.Begin(2, {0, 10}, 2);
  evaluations.Begin(3, {0, 10}, 2);
  ASSERT_EQ(evaluations.pending().size(), 2U) << "nobody has begun the one after epoch 2";
  EXPECT_EQ(evaluations.pending()[0].epoch, 1U);
  EXPECT_EQ(evaluations.pending()[1].epoch, 3U);
}

TEST(RoundsTest, ContributionsAreSortedByWorkerAndRejectedOnesLeftOut) {
  proto::RoundsState state;
  TouchedRows touched;
  Rounds rounds(&state, &touched);
  rounds.Enter(WorkerId(2), Incarnation(1));
  rounds.Enter(WorkerId(0), Incarnation(7));
  rounds.Enter(WorkerId(1), Incarnation(5));
  rounds.Contribute(Incarnation(1), 4, 10, false);
  rounds.Contribute(Incarnation(5), 9, 10, true);
  EXPECT_FALSE(rounds.is_settled());
  rounds.Contribute(Incarnation(7), 2, 8, false);
  ASSERT_TRUE(rounds.is_settled());
  rounds.Commit(1);
  const proto::CommitRound commit = *rounds.commit();
  EXPECT_EQ(commit.round, 1U);
  ASSERT_EQ(commit.contributions.size(), 2U);
  EXPECT_EQ(commit.contributions[0].worker, WorkerId(0));
  EXPECT_EQ(commit.contributions[1].step, 4U);
  EXPECT_EQ(rounds.open_round(), 2U);
}

TEST(RoundsTest, ARoundThatAllHaveLeftStaysOpen) {
  proto::RoundsState state;
  TouchedRows touched;
  Rounds rounds(&state, &touched);
  rounds.Enter(WorkerId(0), Incarnation(1));
  rounds.Leave(Incarnation(1));
  EXPECT_FALSE(rounds.is_settled());
  EXPECT_EQ(rounds.open_round(), 1U);
  rounds.Enter(WorkerId(0), Incarnation(2));
  rounds.Contribute(Incarnation(2), 1, 5, false);
  rounds.Leave(Incarnation(2));
  EXPECT_TRUE(rounds.is_settled()) << "who has contributed stays in";
}

TEST(RoundsTest, ACommitIsAcknowledgedByEveryShardOnce) {
  proto::RoundsState state;
  TouchedRows touched;
  Rounds rounds(&state, &touched);
  rounds.Enter(WorkerId(0), Incarnation(1));
  rounds.Contribute(Incarnation(1), 1, 5, false);
  rounds.Commit(1);
  EXPECT_FALSE(rounds.OnAck({ShardId(0), 2}, 2).ok()) << "not committed yet";
  EXPECT_FALSE(*rounds.OnAck({ShardId(0), 1}, 2));
  EXPECT_FALSE(*rounds.OnAck({ShardId(0), 1}, 2)) << "a repetition";
  EXPECT_TRUE(*rounds.OnAck({ShardId(1), 1}, 2));
  EXPECT_TRUE(rounds.is_commit_acknowledged());
  EXPECT_FALSE(*rounds.OnAck({ShardId(1), 1}, 2)) << "late";
}

TEST(FaultScheduleTest, EachFaultIsDueOnceWhenItsPartIsCounted) {
  std::vector<proto::FaultConfig> faults(3);
  faults[0].at = 0.5F;
  faults[1].at = 0.25F;
  faults[2].at = 0.5F;
  faults[2].worker = 7;
  uint32_t fired = 0;
  FaultSchedule schedule(faults, &fired);
  EXPECT_TRUE(schedule.TakeDue(24, 100).empty());
  EXPECT_EQ(schedule.TakeDue(25, 100).size(), 1U);
  EXPECT_TRUE(schedule.TakeDue(49, 100).empty());
  const auto due = schedule.TakeDue(90, 100);
  ASSERT_EQ(due.size(), 2U);
  EXPECT_EQ(schedule.faults()[due[1]].worker, 7U) << "in the config's order";
  EXPECT_TRUE(schedule.TakeDue(100, 100).empty());
}

TEST(ProgressMeterTest, TheRateIsThatOfTheLastSeconds) {
  proto::MeterState state;
  ProgressMeter meter(&state, 10);
  TimePoint now{};
  uint64_t counted = 0;
  for (int i = 0; i < 100; ++i) {
    meter.OnTick(now, counted);
    now += std::chrono::milliseconds(250);
    counted += i < 50 ? 1000 : 25;
  }
  EXPECT_NEAR(meter.SamplesPerSecond(), 100, 1);
}

TEST(ProgressMeterTest, LossIsPerSampleAndIgnoresWhatIsNotFinite) {
  proto::MeterState state;
  ProgressMeter meter(&state, 10);
  meter.OnStep(10, 20, 5);
  EXPECT_DOUBLE_EQ(meter.loss(), 2);
  EXPECT_DOUBLE_EQ(meter.accuracy(), 0.5);
  meter.OnStep(10, std::nan(""), 10);
  EXPECT_DOUBLE_EQ(meter.loss(), 2);
  for (int i = 0; i < 1000; ++i) {
    meter.OnStep(10, 10, 10);
  }
  EXPECT_NEAR(meter.loss(), 1, 1e-6);
  EXPECT_NEAR(meter.accuracy(), 1, 1e-6);
}

TEST(SeatsTest, GroupsAreSpreadOverSeatsInOrder) {
  proto::JobConfig config;
  config.train.minibatch = 64;
  config.workers = {
      {.count = 2, .minibatch = 0, .threads = 2}, {.count = 1, .minibatch = 32, .slowdown = 4}};
  const std::vector<proto::FaultConfig> faults(1, {.add = {.count = 1, .minibatch = 16}});
  proto::SeatsState state;
  TouchedRows touched;
  Seats seats(config, faults, &state, &touched);
  EXPECT_EQ(seats.size(), 3U);
  EXPECT_EQ(seats.GroupOf(WorkerId(1)).minibatch, 64U);
  EXPECT_EQ(seats.GroupOf(WorkerId(1)).threads, 2U);
  EXPECT_EQ(seats.GroupOf(WorkerId(2)).minibatch, 32U);
  EXPECT_EQ(seats.GroupOf(WorkerId(2)).count, 1U);
  EXPECT_EQ(seats.GroupOf(WorkerId(9)).minibatch, 64U) << "a seat that nobody described";
  EXPECT_EQ(seats.AddFresh(0), WorkerId(3));
  EXPECT_EQ(seats.GroupOf(WorkerId(3)).minibatch, 16U);
}

/// The end of a process that the fleet has started is told; that of another one never is.
TEST(SeatsTest, OneByHandThatDidNotComeKeepsNobodyFromItsSeat) {
  const proto::JobConfig config;
  proto::SeatsState state;
  TouchedRows touched;
  Seats seats(config, {}, &state, &touched);
  seats.Open(WorkerId(0));
  seats.Open(WorkerId(1));
  seats.ExpectBack(WorkerId(0));
  seats.Expect(WorkerId(1), LaunchId(7));
  seats.Cancel(WorkerId(0));
  seats.Cancel(WorkerId(1));
  EXPECT_FALSE(seats.IsExpected(WorkerId(0)));
  EXPECT_FALSE(seats.IsCancelled(WorkerId(0)));
  EXPECT_TRUE(seats.IsCancelled(WorkerId(1)));
  seats.NoteEnd(WorkerId(1));
  EXPECT_FALSE(seats.IsCancelled(WorkerId(1)));
}

TEST(SeatsTest, TheLowestSeatThatNobodyHasOrIsExpectedInIsVacant) {
  proto::JobConfig config;
  config.workers = {{.count = 3, .minibatch = 1, .threads = 1}};
  proto::SeatsState state;
  TouchedRows touched;
  Seats seats(config, {}, &state, &touched);
  seats.Take(WorkerId(0), LaunchId(1));
  seats.Expect(WorkerId(1), LaunchId(2));
  EXPECT_EQ(seats.Vacant(), WorkerId(2));
  seats.Take(WorkerId(2), LaunchId());
  EXPECT_EQ(seats.Vacant(), std::nullopt);
  seats.Open(WorkerId(4));
  EXPECT_EQ(seats.Vacant(), WorkerId(3));
  seats.Leave(WorkerId(0));
  EXPECT_EQ(seats.Vacant(), WorkerId(0));
  EXPECT_EQ(seats.LaunchOf(WorkerId(0)), LaunchId(1)) << "its end may come yet";
  seats.Expect(WorkerId(0), LaunchId(3));
  seats.StopExpecting(WorkerId(1));
  EXPECT_EQ(seats.Vacant(), WorkerId(1));
  EXPECT_EQ(seats.LaunchOf(WorkerId(0)), LaunchId(3));
  EXPECT_EQ(seats.LaunchOf(WorkerId(2)), LaunchId()) << "somebody has started it by hand";
}

TEST(DivergenceTest, MostOfTheLastStepsHaveToBeUseless) {
  DivergenceWatch watch(10);
  for (int i = 0; i < 1000; ++i) {
    watch.OnStep(i % 2 == 0, 0.5, 4);
    ASSERT_FALSE(watch.has_diverged()) << "a broken worker among two, step " << i;
  }
  watch.OnStep(true, 0.5, 4);
  EXPECT_FALSE(watch.has_diverged());
  watch.OnStep(true, 0.5, 4);
  EXPECT_EQ(watch.why(), "33 of the last 64 steps gave a gradient or a loss that is not finite");
  watch.OnStep(true, 0.5, 4);
  EXPECT_TRUE(watch.why().starts_with("33 ")) << "it stays as it was first seen";
}

TEST(DivergenceTest, AFewStepsSayNothingUntilTheyAreAllThereWillBe) {
  DivergenceWatch watch(10);
  for (int i = 0; i < 63; ++i) {
    watch.OnStep(true, 0.5, 1);
  }
  EXPECT_FALSE(watch.has_diverged());
  watch.OnLastStep(63);
  EXPECT_TRUE(watch.has_diverged());
  DivergenceWatch none(10);
  none.OnLastStep(0);
  EXPECT_FALSE(none.has_diverged());
}

/// A coordinator that was restarted near the end has seen but the last step of many.
TEST(DivergenceTest, TheLastStepsAfterARestartEndNoRun) {
  DivergenceWatch watch(10);
  watch.OnStep(true, std::nullopt, 4);
  watch.OnLastStep(400);
  EXPECT_FALSE(watch.has_diverged());
}

TEST(DivergenceTest, OfALargeFleetTwoStepsOfEachAreLookedAt) {
  DivergenceWatch watch(10);
  for (int i = 0; i < 199; ++i) {
    watch.OnStep(true, 0.5, 100);
  }
  EXPECT_FALSE(watch.has_diverged());
  watch.OnStep(true, 0.5, 100);
  EXPECT_TRUE(watch.has_diverged());
}

TEST(DivergenceTest, UpdatesThatOverflowWithMostStepsAreADivergence) {
  DivergenceWatch watch(10);
  proto::ShardStats stats;
  const auto add = [&](uint64_t steps, uint64_t overflows) {
    stats.steps_applied += steps;
    stats.chunks_overflowed += overflows;
    watch.OnShard(ShardId(3), stats);
  };
  add(1000, 500);
  add(32, 32);
  EXPECT_FALSE(watch.has_diverged()) << "too few to say";
  add(32, 0);
  EXPECT_FALSE(watch.has_diverged());
  add(64, 33);
  EXPECT_EQ(
      watch.why(),
      "33 updates in the last 64 steps would have made parameters of shard 3 infinite");
}

TEST(DivergenceTest, AModelWhoseTestLossIsNotFiniteIsOfNoUse) {
  DivergenceWatch watch(10);
  watch.OnEvaluation({1, 0.5, 2.0, 100, 1});
  EXPECT_FALSE(watch.has_diverged());
  watch.OnEvaluation({2, 0.1, std::nan(""), 100, 2});
  EXPECT_EQ(watch.why(), "the loss on the test samples after epoch 2 is not finite");
}

TEST(DivergenceTest, ALossThatStaysFarAboveAGuessIsADivergence) {
  DivergenceWatch watch(10);
  watch.OnStep(false, 2.3, 4);
  for (int i = 0; i < 32; ++i) {
    watch.OnStep(false, 24, 4);
    watch.OnStep(false, 22, 4);
    ASSERT_FALSE(watch.has_diverged()) << "a spike, step " << i;
  }
  watch.OnStep(false, 2.8e10, 4);
  EXPECT_FALSE(watch.has_diverged());
  watch.OnStep(false, 2.8e10, 4);
  EXPECT_EQ(
      watch.why(),
      "33 of the last 64 steps gave a gradient or a loss that is not finite, or a loss above 23, "
      "which is 10 times that of a guess or of the best step");
}

TEST(DivergenceTest, ARunThatBeginsFarAboveAGuessMayTakeItsTime) {
  DivergenceWatch watch(2);
  for (int i = 0; i < 1000; ++i) {
    watch.OnStep(false, 900 - i % 500, 4);
  }
  EXPECT_FALSE(watch.has_diverged());
}

TEST(DivergenceTest, AStepWhoseLossNobodyKnowsSaysNothing) {
  DivergenceWatch watch(10);
  DivergenceWatch classless(0);
  for (int i = 0; i < 1000; ++i) {
    watch.OnStep(false, std::nullopt, 1);
    classless.OnStep(false, i, 1);
  }
  EXPECT_FALSE(watch.has_diverged());
  EXPECT_FALSE(classless.has_diverged()) << "without classes nobody knows what a guess has";
}

TEST(FleetSpeedTest, TheSlowestIsKnownWhoeverGoes) {
  FleetSpeed speed;
  speed.NoteWarmingUp(Incarnation(1));
  EXPECT_TRUE(speed.is_anybody_warming_up());
  EXPECT_EQ(speed.slowest_s(), 0);
  speed.NoteStep(Incarnation(1), 0, 2);
  speed.NoteStep(Incarnation(2), 0, 5);
  EXPECT_FALSE(speed.is_anybody_warming_up());
  EXPECT_NEAR(speed.slowest_s(), 5.25, 0.25);
  speed.NoteStep(Incarnation(2), 5, 1);
  EXPECT_NEAR(speed.slowest_s(), 2.1, 0.1);
  speed.NoteStep(Incarnation(2), 1, 1.0001);
  speed.Remove(Incarnation(1), 2);
  EXPECT_NEAR(speed.slowest_s(), 1.05, 0.05);
  speed.Remove(Incarnation(2), 1.0001);
  EXPECT_EQ(speed.slowest_s(), 0);
}

}  // namespace
}  // namespace ps::coordinator
