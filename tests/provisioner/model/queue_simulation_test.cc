// The queue against simulated links: where it is right, and what it leaves out.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "provisioner/model/queue_model.h"
#include "tests/provisioner/model/link_simulation.h"

namespace ps::provisioner {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;

double Predicted(const LinkSimulation& simulation, double wait_share) {
  JobTraffic traffic = {.push_bytes = 1, .pull_bytes = 1};
  if (simulation.has_overlap) {
    traffic.pull_bytes = 0;  // it hides behind the push
    traffic.overlap = 1;
  }
  std::vector<WorkerClass> classes;
  for (const double compute_s : simulation.compute_s) {
    classes.push_back({.name = "w", .compute_s = compute_s, .samples = 1});
  }
  const std::vector<int> counts(classes.size(), 1);
  return QueueSpeedModel(classes, traffic, {.wait_share = wait_share})
      .Predict(counts, {.hosts = 1, .link_bytes_per_s = 1})
      .steps_per_s;
}

/// The mean of several runs.
double Simulated(LinkSimulation simulation, double until_s = 8000) {
  constexpr uint64_t kRuns = 3;
  double sum = 0;
  for (simulation.seed = 0; simulation.seed < kRuns; ++simulation.seed) {
    sum += SimulateLinks(simulation, until_s);
  }
  return sum / kRuns;
}

/// Predicted over simulated speed of 1 to 8 workers, each `spread` slower than the one before.
std::vector<double> PredictedOverSimulated(
    LinkSimulation simulation, double first_s, double spread) {
  std::vector<double> ratios;
  for (int workers = 1; workers <= 8; ++workers) {
    simulation.compute_s.push_back(first_s * (1 + spread * (workers - 1)));
    ratios.push_back(Predicted(simulation, 1) / Simulated(simulation));
  }
  return ratios;
}

TEST(QueueSimulation, EqualSharingAgreesWithinThreePercentAndOneForUnequalWorkers) {
  for (const double compute_s : {2.0, 4.0, 8.0}) {
    // Equal workers keep meeting, or missing, each other for long.
    EXPECT_THAT(PredictedOverSimulated({}, compute_s, 0), Each(DoubleNear(1, 0.03))) << compute_s;
    EXPECT_THAT(PredictedOverSimulated({}, compute_s, 0.3), Each(DoubleNear(1, 0.01))) << compute_s;
  }
}

TEST(QueueSimulation, OverlapAgreesWithinTwoPercent) {
  for (const double compute_s : {2.0, 4.0, 8.0}) {
    for (const double spread : {0.0, 0.3}) {
      EXPECT_THAT(
          PredictedOverSimulated({.compute_s = {}, .has_overlap = true}, compute_s, spread),
          Each(DoubleNear(1, 0.02)))
          << compute_s << " " << spread;
    }
  }
}

// Unequal workers, in units of what the bytes of a step take one way.
const std::vector<double> kUnequal = {0.6, 0.8, 0.7};

TEST(QueueSimulation, EqualSharingAgreesHoweverMuchStepsVary) {
  for (const double deviation : {0.01, 0.1, 0.5}) {
    const LinkSimulation simulation = {.compute_s = kUnequal, .deviation = deviation};
    // Long, for the sake of steps that hardly vary.
    const double simulated = Simulated(simulation, 100'000);
    EXPECT_NEAR(Predicted(simulation, 1) / simulated, 1, 0.015) << deviation;
  }
}

// What the queue leaves out: a link that favours those who come first, be it by 3 % of a message,
// brings workers with steady steps into step, after some hundred of them, and then they are a third
// faster than sharing has it.
TEST(QueueSimulation, AHeadStartBringsSteadyWorkersIntoStep) {
  LinkSimulation simulation = {.compute_s = kUnequal, .deviation = 0.03, .burst_s = 0.03};
  const double shared = Predicted(simulation, 1);
  const double in_turns = Predicted(simulation, 0);
  EXPECT_GT(Simulated(simulation), 1.25 * shared);
  EXPECT_LT(Simulated(simulation), 1.03 * in_turns);  // the burst comes on top of the rate
  simulation.deviation = 0.3;
  EXPECT_LT(Simulated(simulation), 1.15 * shared);
}

TEST(QueueSimulation, WithAHeadStartTheQueueErrsOnTheSafeSide) {
  for (const double first_s : {0.5, 1.0, 2.0, 4.0}) {
    for (const double spread : {0.0, 0.1, 0.3}) {
      const std::vector<double> ratios = PredictedOverSimulated(
          {.compute_s = {}, .deviation = 0.03, .burst_s = 0.03}, first_s, spread);
      EXPECT_LT(*std::ranges::max_element(ratios), 1.02) << first_s << " " << spread;
    }
  }
}

}  // namespace
}  // namespace ps::provisioner
