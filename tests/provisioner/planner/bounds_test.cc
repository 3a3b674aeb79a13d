// What planners prune with: bounds hold for random fleets.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "provisioner/model/closed_queue.h"
#include "provisioner/model/curve_model.h"
#include "provisioner/model/queue_model.h"
#include "provisioner/model/queue_parts.h"
#include "provisioner/model/spotdnn_model.h"
#include "provisioner/planner/exact/least_sums.h"
#include "provisioner/planner/exact/ratio_search.h"
#include "ps/base/random.h"

namespace ps::provisioner {
namespace {

double LogBetween(Random* random, double low, double high) {
  return low * std::exp(random->Unit() * std::log(high / low));
}

struct RandomQueue {
  explicit RandomQueue(Random* random) {
    const auto kinds = static_cast<int>(1 + random->Below(6));
    std::vector<WorkerClass> classes;
    for (int k = 0; k < kinds; ++k) {
      WorkerClass worker;
      worker.samples = static_cast<double>(64 << random->Below(6));
      worker.compute_s = LogBetween(random, 0.01, 10);
      worker.link_bytes_per_s = LogBetween(random, 2e7, 1e9);
      worker.pcie_bytes_per_s = 1e10;
      classes.push_back(worker);
      counts.push_back(random->Chance(0.4) ? 0 : static_cast<int>(random->Below(20)));
      workers += counts.back();
    }
    if (workers == 0) {
      counts[0] = workers = 1;
    }
    traffic.push_bytes = LogBetween(random, 1e5, 1e8);
    traffic.pull_bytes = LogBetween(random, 1e5, 1e8);
    traffic.local_steps = random->Chance(0.2) ? 4 : 1;
    traffic.overlap = random->Chance(0.7) ? 0 : random->Unit();
    fit.wait_share = random->Chance(0.5) ? 1 : LogBetween(random, 0.05, 1);
    fit.overhead_s = random->Chance(0.5) ? 0 : LogBetween(random, 1e-4, 1e-2);
    model = std::make_unique<QueueSpeedModel>(std::move(classes), traffic, fit);
    servers = {static_cast<int>(1 + random->Below(8)), LogBetween(random, 2e7, 2e9)};
  }

  JobTraffic traffic;
  proto::QueueFit fit;
  std::unique_ptr<QueueSpeedModel> model;
  std::vector<int> counts;
  int workers = 0;
  ServerSide servers;
};

TEST(BoundsTest, TheQueuesHoldAtTheLoadThatAFleetHas) {
  Random random(1);
  for (int i = 0; i < 5000; ++i) {
    const RandomQueue queue(&random);
    const SpeedPrediction speed = queue.model->Predict(queue.counts, queue.servers);
    const double rate = speed.steps_per_s;
    const double wait_s = queue.model->WaitSeconds(queue.counts, queue.servers);
    const Range loads = queue.model->Loads(queue.workers, queue.servers);
    EXPECT_LE(wait_s, loads.high * (1 + 1e-9) + 1e-12) << "fleet " << i;
    for (const Range& load : {Range{wait_s, wait_s}, loads}) {
      const SpeedBounds bounds = queue.model->BoundWithin(queue.workers, queue.servers, load);
      double least = 0;
      double most = 0;
      for (size_t k = 0; k < queue.counts.size(); ++k) {
        least += queue.counts[k] * bounds.steps_per_s_min[k];
        most += queue.counts[k] * bounds.steps_per_s[k];
      }
      EXPECT_GE(speed.late, bounds.late.low) << "fleet " << i;
      EXPECT_LE(speed.late, bounds.late.high) << "fleet " << i;
      EXPECT_LE(rate, bounds.fleet_steps_per_s * (1 + 1e-9)) << "fleet " << i;
      EXPECT_LE(least, rate * (1 + 1e-8)) << "fleet " << i;
      EXPECT_GE(most, rate * (1 - 1e-8)) << "fleet " << i;
    }
  }
}

/// Lemmas 1 and 2 of PLANNING.md.
TEST(BoundsTest, AFleetWaitsAsLongAsItsEqualWorkersAtLeastAndBehindAllOthersAtMost) {
  Random random(5);
  int unequal = 0;
  for (int i = 0; i < 5000; ++i) {
    const RandomQueue queue(&random);
    if (queue.traffic.overlap > 0) {
      continue;
    }
    const StationPair stations = QueueServersOf(queue.traffic, queue.fit, queue.servers).stations;
    double rate = 0;
    double rate_square = 0;
    for (size_t k = 0; k < queue.counts.size(); ++k) {
      std::vector<int> one(queue.counts.size());
      one[k] = 1;
      const double alone =
          queue.model->Predict(one, queue.servers).steps_per_s / queue.traffic.local_steps;
      rate += queue.counts[k] * alone;
      rate_square += queue.counts[k] * alone * alone;
    }
    const double together =
        queue.model->Predict(queue.counts, queue.servers).steps_per_s / queue.traffic.local_steps;
    const double cycle_s = rate / rate_square;
    const double equal_wait_s = rate * rate / rate_square / together - cycle_s;
    const double wait_s = queue.model->WaitSeconds(queue.counts, queue.servers);
    const double slack_s = 1e-6 * cycle_s;  // of differences of cycles
    EXPECT_GE(wait_s, equal_wait_s - slack_s) << "fleet " << i;
    EXPECT_LE(wait_s, (queue.workers - 1) * stations.sum() + slack_s) << "fleet " << i;
    unequal += wait_s > equal_wait_s + slack_s ? 1 : 0;
  }
  EXPECT_GT(unequal, 500);  // else the first lemma is not put to the test
}

/// The think time at which so many customers are served at `rate`.
double ThinkAtRate(double customers, double rate, const StationPair& stations) {
  double low = 0;
  double high = customers / rate;  // a cycle is no longer
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (SharedRate(customers, middle, stations) > rate ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// Theorem 3 of PLANNING.md, which is proved for whole numbers and checked here between them too.
TEST(BoundsTest, OfCustomersServedAtOneRateFewAndFastOnesWaitLeast) {
  Random random(6);
  int longer = 0;
  for (int i = 0; i < 20'000; ++i) {
    const bool is_whole = i % 2 == 0;
    const auto customers = [&](double least, double most) {
      const double n = LogBetween(&random, least, most);
      return is_whole ? std::floor(n) : n;
    };
    const double few = customers(1, 40);
    const double many = customers(few, 64);
    const double push_s = LogBetween(&random, 1e-3, 1);
    const StationPair stations{push_s, random.Chance(0.3) ? push_s : LogBetween(&random, 1e-3, 1)};
    const double think_s = LogBetween(&random, 1e-2, 1e2) * stations.sum();
    const double rate = SharedRate(few, think_s, stations);
    if (rate * stations.slower() > 0.999) {
      continue;  // the rate no longer tells the think time
    }
    const double wait_s = few / rate - think_s - stations.sum();
    const double other_wait_s = many / rate - ThinkAtRate(many, rate, stations) - stations.sum();
    EXPECT_GE(other_wait_s, wait_s - 1e-9 * many / rate) << few << " and " << many;
    longer += other_wait_s > 1.01 * wait_s ? 1 : 0;
  }
  EXPECT_GT(longer, 8000);  // else the test tells nothing apart
}

TEST(BoundsTest, StepsAtLeastHoldsWhereStepsToJumps) {
  Random random(2);
  for (int i = 0; i < 5000; ++i) {
    proto::LossFit fit;
    fit.c1 = random.Unit() * 1000;
    fit.c2 = random.Unit() - 0.7;
    fit.c3 = random.Unit() * 3000 - 300;
    fit.c4 = random.Unit() - 0.3;
    fit.c5 = 0.5;
    const RunProgress progress =
        i % 2 == 0 ? RunProgress() : RunProgress{0.81 + random.Unit(), 0.7};
    const SpotDnnLossModel model(fit, SpotDnnVariant::kPaper, 0, progress);
    const double batch = 32 + random.Unit() * 8000;
    const double heterogeneity = random.Unit();
    const Range batches{batch, batch + random.Unit() * 4000};
    const Range spreads{heterogeneity, heterogeneity + random.Unit() * (1 - heterogeneity)};
    const double least = model.StepsAtLeast(0.8, {5, batches, spreads});
    for (int k = 0; k <= 20; ++k) {
      const double b = batches.low + (batches.high - batches.low) * random.Unit();
      const double r = spreads.low + (spreads.high - spreads.low) * random.Unit();
      EXPECT_LE(least, model.StepsTo(0.8, {5, b, r}) * (1 + 1e-12)) << i;
    }
    EXPECT_EQ(
        model.StepsAtLeast(0.8, {5, {batch, batch}, {heterogeneity, heterogeneity}}),
        model.StepsTo(0.8, {5, batch, heterogeneity}));
  }
}

/// Large fleets behind links that share in equal parts, where tangents tell most.
TEST(BoundsTest, WhatCrowdsTheQueueHoldsAndIsTight) {
  Random random(4);
  int known = 0;
  int tight = 0;
  for (int i = 0; i < 20'000; ++i) {
    const double spread = LogBetween(&random, 1.001, 100);
    const double compute_s = LogBetween(&random, 0.01, 1);
    const auto most = static_cast<uint64_t>(LogBetween(&random, 2, 400));
    std::vector<WorkerClass> classes;
    std::vector<int> counts;
    int workers = 0;
    for (uint64_t k = 1 + random.Below(6); k > 0; --k) {
      WorkerClass worker;
      worker.samples = 64;
      worker.compute_s = LogBetween(&random, compute_s, compute_s * spread);
      worker.link_bytes_per_s = LogBetween(&random, 2e7, 1e9);
      classes.push_back(worker);
      counts.push_back(1 + static_cast<int>(random.Below(most)));
      workers += counts.back();
    }
    JobTraffic traffic;
    traffic.push_bytes = LogBetween(&random, 1e5, 1e8);
    traffic.pull_bytes = random.Chance(0.5) ? traffic.push_bytes : LogBetween(&random, 1e5, 1e8);
    const QueueSpeedModel model(std::move(classes), traffic, proto::QueueFit{});
    const ServerSide servers{static_cast<int>(1 + random.Below(8)), LogBetween(&random, 2e7, 2e9)};
    const double rate = model.Predict(counts, servers).steps_per_s;
    const double wait_s = model.WaitSeconds(counts, servers);
    EXPECT_LE(model.LoadAtLeast(workers, servers, rate), wait_s) << "fleet " << i;
    const SpeedBounds bounds = model.BoundWithin(workers, servers, {wait_s, wait_s});
    if (bounds.crowding.empty()) {
      continue;
    }
    ++known;
    double crowding = 0;
    double alone = 0;
    for (size_t k = 0; k < counts.size(); ++k) {
      std::vector<int> one(counts.size());
      one[k] = 1;
      crowding += counts[k] * bounds.crowding[k];
      alone += counts[k] * model.Predict(one, servers).steps_per_s;
    }
    EXPECT_LE(crowding, 0) << "fleet " << i;
    tight += crowding > -1e-3 * alone ? 1 : 0;
  }
  EXPECT_GT(known, 5000);
  EXPECT_GT(tight, known / 5);
}

TEST(BoundsTest, StepsAtLeastHoldsForCurves) {
  Random random(3);
  for (int i = 0; i < 5000; ++i) {
    proto::CurveFit fit = {.steps = 100, .power = LogBetween(&random, 0.3, 3), .floor = 0.5};
    fit.minibatch = 64;
    fit.batch_power = random.Chance(0.5) ? 0 : random.Unit();
    const auto sizes = static_cast<int>(random.Below(4));
    fit.losses = {1, 0.75};
    for (int k = 0; k < sizes; ++k) {
      const auto size = static_cast<int>(1 + random.Below(10));
      const double factor = LogBetween(&random, 0.5, 3);
      const double late = random.Unit();
      fit.fleets.push_back({size, factor, late, {0.5 + random.Unit(), 0.5 + random.Unit()}});
    }
    const RunProgress progress =
        i % 2 == 0 ? RunProgress() : RunProgress{0.81 + random.Unit(), 1.5};
    const CurveLossModel model(fit, progress);
    const auto workers = static_cast<int>(1 + random.Below(20));
    const double batch = 32 + random.Unit() * 8000;
    const double heterogeneity = random.Unit();
    const Range batches{batch, batch + random.Unit() * 4000};
    const Range spreads{heterogeneity, heterogeneity + random.Unit() * (1 - heterogeneity)};
    const double late = random.Unit();
    const Range lates{late, late + random.Unit() * (1 - late)};
    const double least = model.StepsAtLeast(0.8, {workers, batches, spreads, lates});
    for (int k = 0; k <= 20; ++k) {
      const double b = batches.low + (batches.high - batches.low) * random.Unit();
      const double r = spreads.low + (spreads.high - spreads.low) * random.Unit();
      const double l = lates.low + (lates.high - lates.low) * random.Unit();
      EXPECT_LE(least, model.StepsTo(0.8, {workers, b, r, l}) * (1 + 1e-12)) << i;
    }
    EXPECT_GE(model.ResidualAt(0.8, {workers}), model.residual());
  }
}

/// For both loss models: a line is a bound for a family's fleets, and a tight one.
TEST(BoundsTest, LinesOverBatchesHoldAndAreTight) {
  Random random(8);
  int sloped = 0;
  for (int i = 0; i < 5000; ++i) {
    proto::CurveFit curves = {.steps = 100, .power = 1, .floor = 0.5};
    curves.minibatch = LogBetween(&random, 64, 4096);
    curves.batch_power = random.Chance(0.5) ? 0 : random.Unit();
    const CurveLossModel by_curves(curves);
    const proto::LossFit fit{.c1 = 100, .c2 = -0.2, .c3 = 2000, .c4 = 0.5, .c5 = 0.5};
    const SpotDnnLossModel by_equation(fit, SpotDnnVariant::kPaper, LogBetween(&random, 64, 4096));
    const LossModel& model =
        random.Chance(0.7) ? static_cast<const LossModel&>(by_curves) : by_equation;
    Range batches{LogBetween(&random, 32, 4096), 0};
    batches.high = batches.low * LogBetween(&random, 1, 3);
    const double kink = model.BatchLineOf(batches).kink;
    if (kink > 0) {
      ASSERT_TRUE(kink > batches.low && kink < batches.high) << kink;
      (random.Chance(0.5) ? batches.low : batches.high) = kink;
    }
    const BatchLine line = model.BatchLineOf(batches);
    EXPECT_EQ(line.kink, 0);
    const double least = model.StepsAtLeast(0.8, {5, batches, {0.3, 0.3}, {1, 1}});
    for (int k = 0; k <= 20; ++k) {
      const double b = k < 2 ? (k == 0 ? batches.low : batches.high)
                             : batches.low + (batches.high - batches.low) * random.Unit();
      const double steps = model.StepsTo(0.8, {5, b, 0.3, 1});
      EXPECT_LE(least, steps * line.At(b) * (1 + 1e-12)) << i << ": " << b;
      if (&model == &by_curves) {
        EXPECT_GE(least, steps * line.At(b) * 0.92) << i << ": " << b;
      }
    }
    sloped += line.slope > 0 ? 1 : 0;
  }
  EXPECT_GT(sloped, 2000);
}

/// The smallest ratio over all whole x, by counting up.
double SmallestRatio(const RatioProblem& problem) {
  double smallest = std::numeric_limits<double>::infinity();
  std::vector<int> x;
  for (const RatioTerm& term : problem.terms) {
    x.push_back(term.low);
  }
  while (true) {
    int total = 0;
    double cost = problem.cost_fixed;
    double rate = 0;
    double weight = 0;
    double crowding = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      total += x[i];
      cost += x[i] * problem.terms[i].cost;
      rate += x[i] * problem.terms[i].rate;
      weight += x[i] * problem.terms[i].weight;
      crowding += x[i] * problem.terms[i].crowding;
    }
    rate = std::min(rate, problem.rate_max);
    if (total == problem.total && weight >= 0 && crowding <= 0 && rate >= problem.rate_min) {
      smallest = std::min(smallest, cost / rate);
    }
    size_t digit = 0;
    while (digit < x.size() && x[digit] == problem.terms[digit].high) {
      x[digit] = problem.terms[digit].low;
      ++digit;
    }
    if (digit == x.size()) {
      return smallest;
    }
    ++x[digit];
  }
}

TEST(BoundsTest, TheRatioSearchIsBelowEveryWholeSolutionAndCloseToTheBest) {
  Random random(3);
  double gap_sum = 0;
  int compared = 0;
  for (int i = 0; i < 2200; ++i) {
    RatioProblem problem;
    problem.cost_fixed = random.Unit();
    const bool has_crowding = random.Chance(0.5);
    int low = 0;
    int high = 0;
    for (int k = 0; k < 4; ++k) {
      RatioTerm term;
      term.cost = 0.1 + random.Unit();
      term.rate = 0.1 + random.Unit();
      term.weight = random.Unit() - 0.4;
      term.crowding = has_crowding ? random.Unit() - 0.6 : 0;
      term.low = random.Chance(0.2) ? 1 : 0;
      term.high = term.low + static_cast<int>(random.Below(8));
      low += term.low;
      high += term.high;
      problem.terms.push_back(term);
    }
    problem.total = low + static_cast<int>(random.Below(static_cast<uint64_t>(high - low + 1)));
    if (problem.total == 0) {
      continue;
    }
    problem.rate_min =
        random.Chance(0.3) ? 0 : LargestSum(problem, &RatioTerm::rate) * (0.5 + random.Unit() / 2);
    problem.rate_max = random.Chance(0.5) ? std::numeric_limits<double>::infinity()
                                          : problem.rate_min + random.Unit() * problem.total;
    const double best = SmallestRatio(problem);
    const RatioStart start{
        random.Chance(0.5) ? 0 : random.Unit(), random.Chance(0.5) ? 0 : random.Unit()};
    const double enough =
        random.Chance(0.7) ? std::numeric_limits<double>::infinity() : 2 * random.Unit();
    const double bound = BoundRatio(problem, start, enough).ratio;
    EXPECT_LE(bound, best * (1 + 1e-9)) << "problem " << i;
    if (std::isfinite(best) && std::isinf(enough)) {
      gap_sum += 1 - bound / best;
      ++compared;
    }
  }
  EXPECT_GT(compared, 500);
  EXPECT_LT(gap_sum / compared, 0.1);
}

}  // namespace
}  // namespace ps::provisioner
