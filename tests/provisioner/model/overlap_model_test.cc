#include "provisioner/model/overlap_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "provisioner/model/overlap_check.h"
#include "ps/base/random.h"

namespace ps::provisioner {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kMb = 1e6;

/// 40 ms forward and 60 backward; 1 MB is ready in its middle and 3 MB at its end.
StepShape TwoBuckets() {
  return {0.04, 0.06, 0, {{1 * kMb, 0.5}, {3 * kMb, 1}}, 4 * kMb};
}

/// All bytes are ready at the end of 100 ms.
OverlapWorker OneBucket(double bytes) {
  return {{0.04, 0.06, 0, {{bytes, 1}}, bytes}, {}};
}

ServerSide Servers(double bytes_per_s) {
  return {1, bytes_per_s};
}

TEST(OverlapModelTest, ABucketLeavesWhenItIsReadyAndTheOneBeforeHasLeft) {
  // By hand: ready at 70 and 100 ms. At 100 MB/s they take 10 and 30 ms, values 20 at 200 MB/s.
  OverlapTimeline fast = SimulateStep(TwoBuckets(), {100 * kMb, 200 * kMb, 0.001});
  ASSERT_EQ(fast.buckets.size(), 2U);
  EXPECT_NEAR(fast.buckets[0].start_s, 0.07, 1e-12);
  EXPECT_NEAR(fast.buckets[0].end_s, 0.08, 1e-12);
  EXPECT_NEAR(fast.buckets[1].start_s, 0.1, 1e-12);
  EXPECT_NEAR(fast.pushed_s, 0.13, 1e-12);
  EXPECT_NEAR(fast.pulled_s, 0.151, 1e-12);
  EXPECT_NEAR(fast.step_s, 0.151, 1e-12);
  // At a fifth of the rates the second waits for the first: 70 + 50, + 150, + 1 + 100 ms.
  const OverlapTimeline slow = SimulateStep(TwoBuckets(), {20 * kMb, 40 * kMb, 0.001});
  EXPECT_NEAR(slow.buckets[1].ready_s, 0.1, 1e-12);
  EXPECT_NEAR(slow.buckets[1].start_s, 0.12, 1e-12);
  EXPECT_NEAR(slow.step_s, 0.371, 1e-12);
}

TEST(OverlapModelTest, AStepIsNeverShorterThanItsPassesAndTheUpdate) {
  StepShape step = TwoBuckets();
  step.update_s = 0.004;
  EXPECT_NEAR(SimulateStep(step, {}).step_s, 0.104, 1e-12) << "no limit of any link";
  EXPECT_NEAR(SimulateStep(step, {100 * kMb, 200 * kMb, 0.001}).step_s, 0.155, 1e-12);
  EXPECT_NEAR((OverlapWorker{step, {}}.HiddenSeconds(1)), 0.104, 1e-12);
}

/// The times of a worker that hides its exchange, step after step: what may begin when, as
/// ps/client has it. The mean time between the last steps.
double SimulatedHidden(const OverlapWorker& worker) {
  constexpr int kSteps = 1200;
  const StepShape& step = worker.step;
  double computed = 0;  // the step before is
  double begun = 0;     // the step before has begun to travel
  double acknowledged = 0;
  double pulled = 0;
  double begin = 0;
  double middle = 0;
  for (int i = 0; i < kSteps; ++i) {
    // One step is computed at a time, and the one before has to have begun to travel.
    begin = std::max(computed, begun);
    middle = i == kSteps / 2 ? begin : middle;
    // It travels when the one before has been acknowledged.
    const double travels = std::max(begin, acknowledged);
    double left = travels;
    for (const GradientBucket& bucket : step.buckets) {
      const double ready = begin + step.forward_s + step.backward_s * bucket.ready;
      left = std::max(left, ready) + bucket.bytes / worker.link.push_bytes_per_s;
    }
    const double here = left + worker.link.round_trip_s;
    computed = begin + step.compute_s() + step.update_s;
    // The acknowledgement comes behind the values of the step before.
    acknowledged = std::max({begin + step.compute_s(), here, pulled});
    pulled = std::max(here, pulled) + step.pull_bytes / worker.link.pull_bytes_per_s;
    begun = travels;
  }
  return (begin - middle) / (kSteps - 1 - kSteps / 2);
}

/// Up to 6 tensors, times and rates of any proportion.
OverlapWorker RandomWorker(Random* random) {
  const auto between = [random](double low, double high) {
    return low * std::pow(high / low, random->Unit());
  };
  OverlapWorker worker;
  worker.step.forward_s = between(0.001, 0.3);
  worker.step.backward_s = between(0.001, 0.3);
  worker.step.update_s = 0.01 * random->Unit();
  const auto count = 1 + static_cast<int>(6 * random->Unit());
  for (int i = 1; i <= count; ++i) {
    worker.step.buckets.push_back({between(1e4, 1e7), static_cast<double>(i) / count});
    worker.step.pull_bytes += worker.step.buckets.back().bytes;
  }
  worker.link = {between(1e6, 1e10), between(1e6, 1e10), between(1e-5, 0.1)};
  return worker;
}

TEST(OverlapModelTest, HiddenStepsAreThoseOfTheSimulatedStreams) {
  Random random(7);
  for (int i = 0; i < 500; ++i) {
    const OverlapWorker worker = RandomWorker(&random);
    const double simulated = SimulatedHidden(worker);
    EXPECT_NEAR(worker.HiddenSeconds(1) / simulated, 1, 0.005) << i;
  }
}

TEST(OverlapModelTest, WorkersMeetForTheShareOfTimeInWhichTheyMoveBytes) {
  // 8 MB at 100 MB/s are 80 ms of 100; two of them fill the link, and a step is 160 ms.
  const std::vector<OverlapWorker> busy(2, OneBucket(8 * kMb));
  EXPECT_THAT(
      OverlapStepSeconds(busy, Servers(100 * kMb), ExchangeKind::kHidden),
      ElementsAre(DoubleNear(0.16, 1e-6), DoubleNear(0.16, 1e-6)));
  // Half of that hides: u = 0.4 (1 + u).
  const std::vector<OverlapWorker> calm(2, OneBucket(4 * kMb));
  EXPECT_NEAR(OverlapStepSeconds(calm, Servers(100 * kMb), ExchangeKind::kHidden)[0], 0.1, 1e-9);
  // Who waits: f = 1 + 20 f / (100 + 40 f), so f^2 + f = 2.5, and a step is 100 + 40 f ms.
  const std::vector<OverlapWorker> waiting(2, OneBucket(2 * kMb));
  EXPECT_NEAR(
      OverlapStepSeconds(waiting, Servers(100 * kMb), ExchangeKind::kWaiting)[1],
      0.1 + 0.04 * (std::sqrt(11.0) - 1) / 2,
      1e-7);
}

TEST(OverlapModelTest, WorkersWithSlowLinksOfTheirOwnDoNotMeetAtTheServers) {
  std::vector<OverlapWorker> workers(2, OneBucket(2 * kMb));
  for (OverlapWorker& worker : workers) {
    worker.link = {50 * kMb, 50 * kMb, 0.003};
  }
  for (const double servers : {100 * kMb, 0.0}) {
    EXPECT_NEAR(
        OverlapStepSeconds(workers, Servers(servers), ExchangeKind::kWaiting)[0], 0.183, 1e-9);
  }
  const double shared = OverlapStepSeconds(workers, {2, 25 * kMb}, ExchangeKind::kWaiting)[0];
  EXPECT_GT(shared, 0.19) << "two hosts of 25 MB/s carry 50";
}

TEST(OverlapModelTest, ARoundsBucketsAreThoseOfTheLastWorkerAtTheSlowestRate) {
  OverlapWorker quick;
  quick.step = {0.02, 0.04, 0, {{1 * kMb, 0.5}, {1 * kMb, 1}}, 2 * kMb};
  quick.link.round_trip_s = 0.005;
  OverlapWorker slow = quick;
  slow.step.forward_s = 0.05;
  slow.step.backward_s = 0.05;
  // Ready at 75 and 100 ms; each has half of 20 MB/s: 175, 275, and 5 + 200 ms of values.
  std::vector<OverlapWorker> workers = {quick, slow};
  EXPECT_THAT(
      OverlapStepSeconds(workers, Servers(20 * kMb), ExchangeKind::kRounds),
      ElementsAre(DoubleNear(0.48, 1e-9), DoubleNear(0.48, 1e-9)));
  workers[0].link.push_bytes_per_s = 5 * kMb;
  EXPECT_NEAR(OverlapStepSeconds(workers, Servers(20 * kMb), ExchangeKind::kRounds)[1], 0.68, 1e-9);
}

TEST(OverlapModelTest, MoreBandwidthIsNeverSlowerAndNoStepShorterThanItsPasses) {
  Random random(11);
  for (int i = 0; i < 300; ++i) {
    std::vector<OverlapWorker> workers;
    const auto n = 1 + static_cast<int>(5 * random.Unit());
    const OverlapWorker like = RandomWorker(&random);
    for (int k = 0; k < n; ++k) {
      workers.push_back(RandomWorker(&random));
      workers.back().step.buckets = like.step.buckets;
      workers.back().step.pull_bytes = like.step.pull_bytes;
      workers.back().link.pull_bytes_per_s = workers.back().link.push_bytes_per_s;
    }
    for (const ExchangeKind kind :
         {ExchangeKind::kWaiting, ExchangeKind::kHidden, ExchangeKind::kRounds}) {
      std::vector<double> before(workers.size(), std::numeric_limits<double>::infinity());
      for (double rate = 1e5; rate < 1e12; rate *= 3) {
        const auto seconds = OverlapStepSeconds(workers, Servers(rate), kind);
        for (size_t k = 0; k < seconds.size(); ++k) {
          EXPECT_LE(seconds[k], before[k] * (1 + 1e-6)) << i << " at " << rate;
          EXPECT_GE(seconds[k], workers[k].step.compute_s());
        }
        before = seconds;
      }
      const auto unlimited = OverlapStepSeconds(workers, Servers(0), kind);
      for (size_t k = 0; k < unlimited.size(); ++k) {
        EXPECT_LE(unlimited[k], before[k] * (1 + 1e-6));
      }
    }
  }
}

/// One type of 100 ms a step, 32 of them forward, with 8 MB each way.
proto::JobProfile TimedProfile() {
  proto::JobProfile profile;
  profile.parameter_bytes = 8 * kMb;
  profile.push_bytes = 8 * kMb;
  profile.pull_bytes = 8 * kMb;
  profile.overlap = 1;
  profile.workers = {{"local", 32, 0.1, 0, 50, 0}};
  profile.steps = {{"local", 32, 0.032, 0.068, 40, {{3 * kMb, 0.4}, {5 * kMb, 1}}}};
  profile.link = {400 * kMb, 400 * kMb, 0.001, 40};
  profile.fleets = {
      {{"local"}, 1, 0, 9.6, 307, 10},
      {{"local", "local"}, 1, 100 * kMb, 12.5, 400, 10},
      {{"local", "unknown"}, 1, 0, 30, 960, 10}};
  return profile;
}

TEST(OverlapCheckTest, BothModelsStandBesideTheMeasuredFleets) {
  const auto comparisons = CompareStepModels(TimedProfile(), ExchangeKind::kHidden);
  ASSERT_TRUE(comparisons.ok()) << comparisons.status();
  ASSERT_EQ(comparisons->size(), 2U) << "nothing is known of one of the third's workers";
  const StepComparison& alone = comparisons->front();
  EXPECT_NEAR(alone.measured_s, 1 / 9.6, 1e-12);
  EXPECT_NEAR(alone.overlap_s, 0.1, 1e-9);
  EXPECT_NEAR(alone.queue_s, 0.1, 1e-6);
  EXPECT_NEAR(alone.OverlapError(), -0.04, 1e-6);
  const StepComparison& two = comparisons->back();
  EXPECT_NEAR(two.measured_s, 0.16, 1e-12);
  EXPECT_NEAR(two.overlap_s, 0.1605016, 1e-6) << "they meet but for the round trip";
  EXPECT_NEAR(two.QueueError(), 0, 0.01);
  // A worker that waits: 100 ms, then 5 of 8 MB at 400 MB/s, a round trip and 20 ms of values.
  EXPECT_NEAR(
      CompareStepModels(TimedProfile(), ExchangeKind::kWaiting)->front().overlap_s, 0.1335, 1e-9);
}

TEST(OverlapCheckTest, WhatWasNotTimedIsNamed) {
  proto::JobProfile profile = TimedProfile();
  profile.link = {};
  auto comparisons = CompareStepModels(profile, ExchangeKind::kHidden);
  ASSERT_FALSE(comparisons.ok());
  EXPECT_THAT(comparisons.status().message(), HasSubstr("--instrument"));
  profile = TimedProfile();
  profile.steps.clear();
  comparisons = CompareStepModels(profile, ExchangeKind::kHidden);
  ASSERT_FALSE(comparisons.ok());
  EXPECT_THAT(comparisons.status().message(), HasSubstr("no forward and backward times of"));
  EXPECT_FALSE(CompareStepModels({}, ExchangeKind::kHidden).ok());
}

}  // namespace
}  // namespace ps::provisioner
