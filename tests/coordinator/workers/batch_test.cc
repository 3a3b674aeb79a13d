#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/coordinator/meters/batch_shares.h"
#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

proto::WorkerStats Done(uint64_t samples, double compute_s) {
  proto::WorkerStats stats;
  stats.samples = samples;
  stats.compute_s = compute_s;
  return stats;
}

// The golden of "Dynamic batching" (Tyagi and Sharma): b = (32, 32), t = (1, 2) become in
// proportion to 32 and 16 samples/s, of the same sum.
TEST(BatchSharesTest, WhatAllHaveIsSharedInProportionToMeasuredSpeed) {
  BatchShares shares;
  shares.Note(Incarnation(1), 32, {}, Done(32, 1));
  shares.Note(Incarnation(2), 32, {}, Done(32, 2));
  EXPECT_EQ(shares.BatchOf(Incarnation(1), 32), 43U);
  EXPECT_EQ(shares.BatchOf(Incarnation(2), 32), 21U);
  EXPECT_NEAR(43 / 32.0, 21 / 16.0, 0.05) << "steps take equally long";
}

TEST(BatchSharesTest, AnUnknownSpeedChangesNothing) {
  BatchShares shares;
  shares.Note(Incarnation(1), 32, {}, Done(32, 1));
  EXPECT_EQ(shares.BatchOf(Incarnation(2), 24), 24U);
  EXPECT_EQ(shares.BatchOf(Incarnation(1), 32), 32U) << "alone it has what it had";
  shares.Note(Incarnation(1), 32, Done(32, 1), Done(32, 5));
  shares.Note(Incarnation(1), 32, Done(32, 1), Done(10, 0.5));
  EXPECT_EQ(shares.BatchOf(Incarnation(1), 32), 32U) << "no step, and a late report";
}

TEST(BatchSharesTest, AFewPercentAreNoReasonForAnother) {
  BatchShares shares;
  shares.Note(Incarnation(1), 100, {}, Done(104, 1));
  shares.Note(Incarnation(2), 100, {}, Done(100, 1));
  EXPECT_EQ(shares.BatchOf(Incarnation(1), 100), 100U);
  EXPECT_EQ(shares.BatchOf(Incarnation(1), 90), 102U);
}

TEST(BatchSharesTest, NobodyGetsLessThanAQuarterOrMoreThanFourTimesItsOwn) {
  BatchShares shares;
  shares.Note(Incarnation(1), 10, {}, Done(1'000'000, 1));
  for (uint64_t i = 2; i <= 9; ++i) {
    shares.Note(Incarnation(i), 10, {}, Done(1, 1000));
  }
  EXPECT_EQ(shares.BatchOf(Incarnation(1), 10), 40U);
  EXPECT_EQ(shares.BatchOf(Incarnation(2), 10), 3U);
  BatchShares ones;
  ones.Note(Incarnation(1), 1, {}, Done(1000, 1));
  ones.Note(Incarnation(2), 1, {}, Done(1, 1));
  EXPECT_EQ(ones.BatchOf(Incarnation(2), 2), 1U) << "nor none";
}

TEST(BatchSharesTest, WhoIsGoneLeavesNothingBehind) {
  BatchShares shares;
  shares.Note(Incarnation(1), 32, {}, Done(32, 1));
  shares.Note(Incarnation(2), 32, {}, Done(32, 3));
  shares.Remove(Incarnation(2));
  shares.Remove(Incarnation(7));
  EXPECT_EQ(shares.BatchOf(Incarnation(1), 48), 32U);
}

TEST(BatchSharesTest, SpeedsAreSharesOfTheFastest) {
  BatchShares shares;
  EXPECT_EQ(shares.SpeedOf(Incarnation(1)), 1) << "not known";
  shares.Note(Incarnation(1), 32, {}, Done(32, 1));
  shares.Note(Incarnation(2), 32, {}, Done(32, 4));
  EXPECT_EQ(shares.SpeedOf(Incarnation(1)), 1);
  EXPECT_EQ(shares.SpeedOf(Incarnation(2)), 0.25);
  shares.Remove(Incarnation(1));
  EXPECT_EQ(shares.SpeedOf(Incarnation(2)), 1);
}

CoordinatorOptions BySpeed() {
  CoordinatorOptions options = SmallJob();
  options.config.workers = {{2, 0, 1, 1}};
  options.config.train.batch_policy = proto::BatchPolicy::kBySpeed;
  return options;
}

void Beat(Harness* harness, const FakeWorker& worker, uint64_t samples, double compute_s) {
  proto::WorkerHeartbeat beat;
  beat.incarnation = worker.incarnation;
  beat.state = proto::WorkerState::kComputing;
  beat.stats = Done(samples, compute_s);
  harness->Give(worker.peer, beat);
}

TEST(BatchTest, LeasesHaveStepsInProportionToSpeedAndEverySampleCountsOnce) {
  Harness harness(BySpeed());
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> first = harness.AskAll(&workers);
  EXPECT_EQ(first[0].minibatch, 10U);
  EXPECT_EQ(first[0].end - first[0].begin, 20U);
  Beat(&harness, workers[0], 30, 1);
  Beat(&harness, workers[1], 10, 1);
  // What was granted before keeps its steps, also when it is worked on later.
  const auto second = harness.Ask(&workers[0]);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->minibatch, 15U);
  harness.Work(&workers[0], first[0]);
  harness.Work(&workers[0], *second);
  harness.Work(&workers[1], first[1]);
  EXPECT_EQ(harness.status().samples_counted, 20U + (second->end - second->begin) + 20U);
  const auto slow = harness.Ask(&workers[1]);
  EXPECT_EQ(slow->minibatch, 5U);
  harness.Work(&workers[1], *slow);
  RunToTheEnd(&harness, &workers);
  EXPECT_EQ(harness.status().samples_counted, 200U);
}

TEST(BatchTest, AnotherCoordinatorCountsLeasesByTheStepsTheyWereGrantedWith) {
  Harness harness(BySpeed());
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  Beat(&harness, workers[0], 30, 1);
  Beat(&harness, workers[1], 10, 1);
  const auto grant = harness.Ask(&workers[0]);
  ASSERT_EQ(grant->minibatch, 15U);
  harness.Restart();
  harness.Reconnect(&workers[0]);
  harness.Give(workers[0].peer, proto::LeaseRequest{workers[0].incarnation, {}});
  const auto again = harness.Take<proto::LeaseGrant>(workers[0].peer);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->minibatch, 15U);
}

TEST(BatchTest, WithoutThePolicySpeedsChangeNothing) {
  CoordinatorOptions options = BySpeed();
  options.config.train.batch_policy = proto::BatchPolicy::kFixed;
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  Beat(&harness, workers[0], 30, 1);
  Beat(&harness, workers[1], 10, 1);
  EXPECT_EQ(harness.Ask(&workers[0])->minibatch, 10U);
}

}  // namespace
}  // namespace ps::coordinator
