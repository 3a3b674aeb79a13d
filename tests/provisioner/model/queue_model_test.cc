#include "provisioner/model/queue_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "provisioner/model/closed_queue.h"
#include "provisioner/model/spotdnn_model.h"
#include "ps/base/random.h"

namespace ps::provisioner {
namespace {

/// Exact mean value analysis of several classes: the queue lengths of every smaller population.
/// Steps per second of all.
class ExactQueue {
 public:
  ExactQueue(std::vector<double> think_s, StationPair stations)
      : think_s_(std::move(think_s)), stations_(stations) {}

  double Rate(const std::vector<int>& counts) {
    double rate = 0;
    Queues(counts, &rate);
    return rate;
  }

 private:
  std::pair<double, double> Queues(const std::vector<int>& counts, double* rate) {
    if (const auto known = known_.find(counts); known != known_.end() && rate == nullptr) {
      return known->second;
    }
    std::pair<double, double> queues;
    double sum = 0;
    for (size_t k = 0; k < counts.size(); ++k) {
      if (counts[k] == 0) {
        continue;
      }
      std::vector<int> fewer = counts;
      --fewer[k];
      const auto [push_queue, pull_queue] = Queues(fewer, nullptr);
      const double push_s = stations_.push_s * (1 + push_queue);
      const double pull_s = stations_.pull_s * (1 + pull_queue);
      const double class_rate = counts[k] / (think_s_[k] + push_s + pull_s);
      queues.first += class_rate * push_s;
      queues.second += class_rate * pull_s;
      sum += class_rate;
    }
    known_[counts] = queues;
    if (rate != nullptr) {
      *rate = sum;
    }
    return queues;
  }

  std::vector<double> think_s_;
  StationPair stations_;
  std::map<std::vector<int>, std::pair<double, double>> known_;
};

double LogUniform(Random& random, double low, double high) {
  return low * std::pow(high / low, random.Unit());
}

/// Servers carry 1 byte/s each; a step pushes and pulls about 1 byte, so that a link is busy 1 s.
struct Scenario {
  std::vector<WorkerClass> classes;
  std::vector<int> counts;
  JobTraffic traffic;
  proto::QueueFit fit;
  ServerSide servers;

  int workers() const { return std::accumulate(counts.begin(), counts.end(), 0); }

  QueueSpeedModel Model() const { return {classes, traffic, fit}; }

  SpeedPrediction Predict() const { return Model().Predict(counts, servers); }
};

Scenario RandomScenario(uint64_t seed) {
  Random random(seed);
  Scenario scenario;
  scenario.servers = {
      .hosts = 1 + static_cast<int>(random.Below(4)),
      .link_bytes_per_s = LogUniform(random, 0.2, 2)};
  scenario.traffic.push_bytes = 1;
  scenario.traffic.pull_bytes = random.Chance(0.5) ? 1 : random.Unit();
  scenario.traffic.pcie_bytes = 2;
  scenario.traffic.local_steps = random.Chance(0.7) ? 1 : 4;
  scenario.traffic.overlap = random.Chance(0.6) ? 0 : random.Unit();
  scenario.fit.wait_share = random.Chance(0.4) ? 1 : 0.05 + 0.95 * random.Unit();
  scenario.fit.overhead_s = random.Chance(0.5) ? 0 : 0.1 * random.Unit();
  const size_t classes = 1 + random.Below(7);
  const double link_s = 1 / (scenario.servers.hosts * scenario.servers.link_bytes_per_s);
  for (size_t k = 0; k < classes; ++k) {
    WorkerClass worker;
    worker.name = "w" + std::to_string(k);
    // At least as long as the links take, so that no worker keeps one busy for most of its cycle.
    worker.compute_s = LogUniform(random, link_s, 50 * link_s) / scenario.traffic.local_steps;
    worker.samples = LogUniform(random, 32, 4096);
    worker.devices = 1 << random.Below(4);
    worker.pcie_bytes_per_s = random.Chance(0.3) ? 0 : LogUniform(random, 10, 1000);
    worker.link_bytes_per_s = random.Chance(0.3) ? 0 : LogUniform(random, 0.5, 5);
    scenario.classes.push_back(worker);
    scenario.counts.push_back(static_cast<int>(random.Below(8)));
  }
  if (scenario.workers() == 0) {
    scenario.counts[0] = 1;
  }
  return scenario;
}

constexpr uint64_t kScenarios = 3000;

TEST(ClosedQueue, OneCustomerNeverWaits) {
  EXPECT_DOUBLE_EQ(SharedRate(1, 3, {.push_s = 1, .pull_s = 0.5}), 1 / 4.5);
}

TEST(ClosedQueue, WholeNumbersOfCustomersAreExact) {
  const StationPair stations = {.push_s = 1, .pull_s = 0.6};
  ExactQueue exact({5}, stations);
  for (const int n : {2, 3, 7, 20, 64}) {
    EXPECT_NEAR(SharedRate(n, 5, stations), exact.Rate({n}), 1e-12) << n;
  }
}

TEST(ClosedQueue, TheEstimateBeyondSixtyFourJoinsTheExactPart) {
  for (const double think_s : {1.0, 40.0, 60.0, 70.0, 200.0}) {
    const StationPair stations = {.push_s = 1, .pull_s = 0.9};
    ExactQueue exact({think_s}, stations);
    for (const int n : {65, 80, 200}) {
      const double rate = exact.Rate({n});
      EXPECT_NEAR(SharedRate(n, think_s, stations), rate, 3e-5 * rate) << n << " " << think_s;
    }
  }
}

TEST(QueueModel, EqualWorkersFollowExactMeanValueAnalysis) {
  const JobTraffic traffic = {.push_bytes = 1, .pull_bytes = 1};
  const WorkerClass worker = {.name = "w", .compute_s = 4, .samples = 1};
  const QueueSpeedModel model({worker}, traffic, {});
  ExactQueue exact({4}, {.push_s = 1, .pull_s = 1});
  for (const int n : {1, 2, 5, 12}) {
    const SpeedPrediction prediction =
        model.Predict(std::vector<int>{n}, {.hosts = 1, .link_bytes_per_s = 1});
    EXPECT_NEAR(prediction.steps_per_s, exact.Rate({n}), 1e-9) << n;
  }
}

TEST(QueueModel, UnequalWorkersAreWithinFourPercentOfExactAnalysis) {
  double error_max = 0;
  double error_sum = 0;
  constexpr int kFleets = 400;
  for (uint64_t seed = 0; seed < kFleets; ++seed) {
    Random random(seed);
    const StationPair stations = {.push_s = 1, .pull_s = random.Chance(0.5) ? 1 : random.Unit()};
    std::vector<WorkerClass> classes;
    std::vector<double> think_s;
    std::vector<int> counts;
    for (size_t k = 0; k < 1 + seed % 3; ++k) {
      think_s.push_back(LogUniform(random, 0.4, 28));
      classes.push_back({.name = "w", .compute_s = think_s.back(), .samples = 1});
      counts.push_back(1 + static_cast<int>(random.Below(5)));
    }
    const JobTraffic traffic = {.push_bytes = 1, .pull_bytes = stations.pull_s};
    const double predicted = QueueSpeedModel(classes, traffic, {})
                                 .Predict(counts, {.hosts = 1, .link_bytes_per_s = 1})
                                 .steps_per_s;
    const double error = std::abs(predicted / ExactQueue(think_s, stations).Rate(counts) - 1);
    error_max = std::max(error_max, error);
    error_sum += error;
  }
  EXPECT_LT(error_max, 0.045);
  EXPECT_LT(error_sum / kFleets, 0.006);
}

TEST(QueueModel, TakingTurnsFillsTheLinkBeforeAnyoneWaits) {
  const JobTraffic traffic = {.push_bytes = 1, .pull_bytes = 1};
  const WorkerClass worker = {.name = "w", .compute_s = 4, .samples = 1};
  const QueueSpeedModel model({worker}, traffic, {.wait_share = 0});
  const ServerSide servers = {.hosts = 1, .link_bytes_per_s = 1};
  EXPECT_DOUBLE_EQ(model.Predict(std::vector<int>{5}, servers).steps_per_s, 5.0 / 6);
  EXPECT_DOUBLE_EQ(model.Predict(std::vector<int>{7}, servers).steps_per_s, 1);
}

TEST(QueueModel, ASmallerWaitShareIsNeverSlower) {
  for (uint64_t seed = 0; seed < kScenarios; ++seed) {
    Scenario scenario = RandomScenario(seed);
    scenario.fit.wait_share = 0.8;
    const double more = scenario.Predict().steps_per_s;
    scenario.fit.wait_share = 0.3;
    EXPECT_GE(scenario.Predict().steps_per_s, more * (1 - 1e-9)) << seed;
  }
}

TEST(QueueModel, MoreBandwidthIsNeverSlower) {
  for (uint64_t seed = 0; seed < kScenarios; ++seed) {
    const Scenario scenario = RandomScenario(seed);
    const double before = scenario.Predict().steps_per_s * (1 - 1e-9);
    Scenario better = scenario;
    better.servers.link_bytes_per_s *= 1.05;
    EXPECT_GE(better.Predict().steps_per_s, before) << seed;
    better = scenario;
    ++better.servers.hosts;
    EXPECT_GE(better.Predict().steps_per_s, before) << seed;
    better = scenario;
    better.traffic.push_bytes *= 0.9;
    EXPECT_GE(better.Predict().steps_per_s, before) << seed;
  }
}

TEST(QueueModel, OneMoreWorkerIsNeverSlower) {
  for (uint64_t seed = 0; seed < kScenarios; ++seed) {
    Scenario scenario = RandomScenario(seed);
    scenario.traffic.overlap = 0;
    // A tenth of a percent is what equal workers in place of unequal ones may cost.
    const double before = scenario.Predict().steps_per_s * (1 - 1e-3);
    for (size_t k = 0; k < scenario.counts.size(); ++k) {
      ++scenario.counts[k];
      EXPECT_GE(scenario.Predict().steps_per_s, before) << seed << " class " << k;
      --scenario.counts[k];
    }
  }
}

TEST(QueueModel, LinksAreNeverMoreThanBusyAndStepsAddUp) {
  for (uint64_t seed = 0; seed < kScenarios; ++seed) {
    const Scenario scenario = RandomScenario(seed);
    const SpeedPrediction prediction = scenario.Predict();
    EXPECT_LE(prediction.server_busy, 1);
    const double bytes_per_s =
        prediction.steps_per_s / scenario.traffic.local_steps * scenario.traffic.push_bytes;
    EXPECT_LE(bytes_per_s, scenario.servers.hosts * scenario.servers.link_bytes_per_s * (1 + 1e-9));
    const std::vector<double> step_s =
        scenario.Model().StepSeconds(scenario.counts, scenario.servers);
    double steps_per_s = 0;
    double samples_per_s = 0;
    for (size_t k = 0; k < step_s.size(); ++k) {
      steps_per_s += scenario.counts[k] / step_s[k];
      samples_per_s += scenario.counts[k] * scenario.classes[k].samples / step_s[k];
    }
    EXPECT_NEAR(steps_per_s, prediction.steps_per_s, 1e-9 * steps_per_s);
    EXPECT_NEAR(samples_per_s, prediction.samples_per_s, 1e-9 * samples_per_s);
  }
}

TEST(QueueModel, FullOverlapHidesCommunicationThatIsShorterThanComputation) {
  const WorkerClass worker = {.name = "w", .compute_s = 4, .samples = 1};
  const JobTraffic traffic = {.push_bytes = 1, .pull_bytes = 1, .overlap = 1};
  const QueueSpeedModel model({worker}, traffic, {});
  const auto step_s = [&](int workers, double link) {
    return model.StepSeconds(std::vector<int>{workers}, {.hosts = 1, .link_bytes_per_s = link})[0];
  };
  EXPECT_DOUBLE_EQ(step_s(1, 1), 4);
  EXPECT_DOUBLE_EQ(step_s(1, 0.25), 8);
  EXPECT_NEAR(step_s(2, 1), 4, 0.2);
  EXPECT_GE(step_s(40, 1), 40);
}

TEST(QueueModel, ExchangesAreLateWhereTheyTakeLongerThanComputing) {
  // Push and pull of 0.05 s each at 20 MB/s.
  const auto late = [](int workers, double link_bytes_per_s, double overlap) {
    const JobTraffic traffic{
        .push_bytes = 1e6, .overlap = overlap, .round_trip = overlap > 0 ? 2.0 : 1.0};
    const QueueSpeedModel model({{.name = "a", .compute_s = 0.1, .samples = 32}}, traffic, {});
    const std::vector<int> counts{workers};
    return model.Predict(counts, {1, link_bytes_per_s}).late;
  };
  EXPECT_LT(late(1, 1e9, 1), 0.001);
  EXPECT_NEAR(late(1, 2e7, 1), 0.5, 1e-9);
  EXPECT_GT(late(1, 1e7, 1), 0.95) << "a step still takes no longer than computing";
  EXPECT_EQ(late(1, 1e9, 0), 1) << "nothing hides";
  double before = 0;
  for (const int workers : {1, 2, 3, 4, 6, 8}) {
    const double now = late(workers, 4e7, 1);
    EXPECT_GE(now, before) << workers;
    before = now;
  }
  EXPECT_GT(before, 0.99) << "eight workers fill that link twice over";
}

TEST(QueueModel, WaitsThatHideMakeExchangesLateToo) {
  // A link that ten workers just fill.
  const JobTraffic traffic{.push_bytes = 1e6, .overlap = 1};
  const QueueSpeedModel model({{.name = "a", .compute_s = 1, .samples = 32}}, traffic, {});
  const ServerSide servers{1, 1e7};
  const std::vector<int> one{1};
  const std::vector<int> nine{9};
  EXPECT_LT(model.Predict(one, servers).late, 1e-5);
  const SpeedPrediction speed = model.Predict(nine, servers);
  EXPECT_GT(speed.steps_per_s, 0.85 * 9);
  EXPECT_GT(speed.late, 0.001);
}

TEST(QueueModel, TheBottleneckIsWhereTheTimeGoes) {
  WorkerClass worker = {
      .name = "w", .compute_s = 1, .samples = 1, .devices = 8, .link_bytes_per_s = 100};
  const JobTraffic traffic = {.push_bytes = 1, .pull_bytes = 1, .pcie_bytes = 2};
  const auto bottleneck = [&](int workers, double server_link) {
    return QueueSpeedModel({worker}, traffic, {})
        .Predict(std::vector<int>{workers}, {.hosts = 1, .link_bytes_per_s = server_link})
        .bottleneck;
  };
  EXPECT_EQ(bottleneck(1, 1000), Bottleneck::kCompute);
  EXPECT_EQ(bottleneck(50, 10), Bottleneck::kServerLink);
  worker.link_bytes_per_s = 0.5;
  EXPECT_EQ(bottleneck(1, 1000), Bottleneck::kWorkerLink);
  worker.link_bytes_per_s = 100;
  worker.pcie_bytes_per_s = 4;
  EXPECT_EQ(bottleneck(1, 1000), Bottleneck::kPcie);
}

TEST(QueueModel, ServersWithoutLimitNeverSlowAnyone) {
  const WorkerClass worker = {.name = "w", .compute_s = 1, .samples = 1, .link_bytes_per_s = 2};
  const QueueSpeedModel model({worker}, {.push_bytes = 1, .pull_bytes = 1}, {});
  const ServerSide servers = {
      .hosts = 1, .link_bytes_per_s = std::numeric_limits<double>::infinity()};
  EXPECT_DOUBLE_EQ(model.Predict(std::vector<int>{10}, servers).steps_per_s, 5);
}

/// Speed models of one scenario, all of which promise bounds.
std::vector<std::unique_ptr<SpeedModel>> ModelsOf(const Scenario& scenario, Random& random) {
  Scenario linked = scenario;
  for (WorkerClass& worker : linked.classes) {
    if (worker.link_bytes_per_s <= 0) {
      worker.link_bytes_per_s = 3;
    }
  }
  std::vector<std::unique_ptr<SpeedModel>> models;
  models.push_back(
      std::make_unique<QueueSpeedModel>(scenario.classes, scenario.traffic, scenario.fit));
  models.push_back(std::make_unique<IdealSpeedModel>(linked.classes, scenario.traffic, 0));
  const proto::ContentionFit fit = {.a1 = random.Unit(), .b1 = random.Unit() - 1};
  for (const SpotDnnVariant variant : {SpotDnnVariant::kPaper, SpotDnnVariant::kPrototype}) {
    models.push_back(std::make_unique<SpotDnnSpeedModel>(
        linked.classes,
        scenario.traffic,
        fit,
        SpotDnnOptions{.variant = variant, .contention_margin = 0.03}));
  }
  return models;
}

TEST(SpeedBounds, NoFleetOfThatManyWorkersIsFasterOrSlower) {
  int tight = 0;
  for (uint64_t seed = 0; seed < kScenarios; ++seed) {
    const Scenario scenario = RandomScenario(seed);
    Random random(seed);
    for (const auto& model : ModelsOf(scenario, random)) {
      const SpeedPrediction prediction = model->Predict(scenario.counts, scenario.servers);
      const SpeedBounds bounds = model->Bound(scenario.workers(), scenario.servers);
      double most = 0;
      double least = 0;
      for (size_t k = 0; k < scenario.counts.size(); ++k) {
        most += scenario.counts[k] * bounds.steps_per_s[k];
        if (!bounds.steps_per_s_min.empty()) {
          least += scenario.counts[k] * bounds.steps_per_s_min[k];
        }
      }
      const double slack = 1 + 1e-9;
      EXPECT_LE(prediction.steps_per_s, most * slack) << seed << " " << model->name();
      EXPECT_LE(prediction.steps_per_s, bounds.fleet_steps_per_s) << seed << " " << model->name();
      EXPECT_GE(prediction.steps_per_s * slack, least) << seed << " " << model->name();
      if (bounds.is_exact) {
        EXPECT_NEAR(prediction.steps_per_s, most, 1e-9 * most) << seed << " " << model->name();
      }
      tight += prediction.steps_per_s > 0.9 * std::min(most, bounds.fleet_steps_per_s) ? 1 : 0;
    }
  }
  EXPECT_GT(tight, static_cast<int>(kScenarios));
}

}  // namespace
}  // namespace ps::provisioner
