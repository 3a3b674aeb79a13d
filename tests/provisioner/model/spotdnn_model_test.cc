#include "provisioner/model/spotdnn_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "provisioner/profile/statistics.h"
#include "tests/provisioner/model/csv_data.h"

namespace ps::provisioner {
namespace {

constexpr double kMegabyte = 1e6;

/// The released program, as its parameters make it.
struct Prototype {
  std::vector<WorkerClass> classes;
  std::vector<double> usd_per_hour;
  JobTraffic traffic;
  ServerSide servers;
  proto::ContentionFit contention;
  proto::LossFit loss;
};

Prototype LoadPrototype() {
  std::map<std::string, double> scalars;
  for (const auto& row : LoadCsv("tests/data/spotdnn/prototype_scalars.csv")) {
    scalars[row.at("name")] = std::stod(row.at("value"));
  }
  Prototype prototype;
  const double parameter_bytes = scalars.at("param") * kMegabyte;
  prototype.traffic = {
      .push_bytes = parameter_bytes,
      .pull_bytes = parameter_bytes,
      .pcie_bytes = 2 * parameter_bytes};
  prototype.servers = {.hosts = 1, .link_bytes_per_s = scalars.at("bps") * kMegabyte};
  prototype.contention = {.a1 = scalars.at("a"), .b1 = -scalars.at("b")};
  prototype.loss = {
      .c1 = scalars.at("r1"),
      .c2 = scalars.at("r2"),
      .c3 = scalars.at("r3"),
      .c5 = scalars.at("r4"),
      .has_heterogeneity = false};
  for (const auto& row : LoadCsv("tests/data/spotdnn/prototype_instances.csv")) {
    WorkerClass worker;
    worker.name = row.at("instance_type_likely");
    worker.devices = std::stoi(row.at("gpus"));
    worker.samples = std::stod(row.at("batch_per_gpu")) * worker.devices;
    worker.link_bytes_per_s = scalars.at("instance_bandwith") * kMegabyte;
    worker.pcie_bytes_per_s = scalars.at("pcie") * kMegabyte;
    const double iteration_s = worker.samples / std::stod(row.at("speed_samples_per_s"));
    worker.compute_s = PrototypeComputeSeconds(iteration_s, worker, prototype.traffic);
    prototype.classes.push_back(worker);
    prototype.usd_per_hour.push_back(std::stod(row.at("spot_usd_per_hour")));
  }
  return prototype;
}

SpotDnnSpeedModel SpeedOf(const Prototype& prototype) {
  return {
      prototype.classes,
      prototype.traffic,
      prototype.contention,
      {.variant = SpotDnnVariant::kPrototype}};
}

double RoundTo(double value, double digit) {
  return std::nearbyint(value / digit) * digit;
}

struct Golden {
  double loss;
  std::vector<int> counts;
  double seconds;
  double usd;
};

TEST(SpotDnnModel, PrototypePlansComeOutToThePrintedDigits) {
  const Prototype prototype = LoadPrototype();
  const SpotDnnSpeedModel speed = SpeedOf(prototype);
  const SpotDnnLossModel loss(prototype.loss, SpotDnnVariant::kPrototype);
  const std::vector<Golden> plans = {
      {0.9, {2, 0, 2, 0, 0}, 1884.21, 1.676947},
      {0.8, {2, 0, 4, 0, 0}, 2351.08, 2.985872},
      {0.7, {2, 0, 4, 0, 0}, 3584.07, 4.551769}};
  for (const Golden& plan : plans) {
    const SpeedPrediction prediction = speed.Predict(plan.counts, prototype.servers);
    const int workers = std::accumulate(plan.counts.begin(), plan.counts.end(), 0);
    const double steps = loss.StepsTo(plan.loss, {workers, prediction.batch_mean, 0});
    const double seconds = RoundTo(steps / prediction.steps_per_s, 0.01);
    EXPECT_NEAR(seconds, plan.seconds, 1e-6);
    const double usd_per_hour = std::inner_product(
        plan.counts.begin(), plan.counts.end(), prototype.usd_per_hour.begin(), 0.0);
    EXPECT_NEAR(RoundTo(usd_per_hour * seconds / 3600, 1e-6), plan.usd, 1e-9);
  }
}

TEST(SpotDnnModel, PaperAndPrototypeDifferByThePcieTime) {
  const Prototype prototype = LoadPrototype();
  const WorkerClass& worker = prototype.classes[4];
  const double pcie_s = 8 * 2 * 11.5 / 10000;
  EXPECT_NEAR(
      PrototypeComputeSeconds(4, worker, prototype.traffic) -
          PaperComputeSeconds(4, worker, prototype.traffic),
      2 * pcie_s,
      1e-12);
  // Alone and uncontended, the paper's model gives back the iteration it was made from.
  WorkerClass paper = worker;
  paper.compute_s = PaperComputeSeconds(4, worker, prototype.traffic);
  const SpotDnnSpeedModel speed({paper}, prototype.traffic, prototype.contention, {});
  EXPECT_NEAR(1 / speed.Predict(std::vector<int>{1}, prototype.servers).steps_per_s, 4, 1e-12);
}

TEST(SpotDnnModel, TableOneCostsAreWorkersTimesSpotPriceTimesTime) {
  // The paper prints rounded prices; these make its costs.
  const std::map<std::string, double> spot = {
      {"g4dn.4xlarge", 0.3612}, {"g3.8xlarge", 0.684}, {"g3.16xlarge", 1.37}, {"p2.8xlarge", 2.16}};
  const std::map<std::string, double> on_demand = {
      {"g4dn.4xlarge", 1.204}, {"g3.8xlarge", 2.28}, {"g3.16xlarge", 4.56}, {"p2.8xlarge", 7.2}};
  int checked = 0;
  for (const auto& row : LoadCsv("tests/data/spotdnn/table1_strategies.csv")) {
    const auto& prices = row.at("pricing") == "spot" ? spot : on_demand;
    double usd_per_hour = 0;
    for (const auto& [type, price] : prices) {
      usd_per_hour += std::stod(row.at(type)) * price;
    }
    const double usd = usd_per_hour * std::stod(row.at("time_s")) / 3600;
    // The on-demand row is cut off rather than rounded: 17.758 is printed as 17.75.
    const double tolerance = row.at("pricing") == "spot" ? 0.005 : 0.01;
    EXPECT_NEAR(usd, std::stod(row.at("cost_usd")), tolerance) << row.at("strategy");
    ++checked;
  }
  EXPECT_EQ(checked, 4);
}

TEST(Heterogeneity, EqualWorkersOfTableSixFollowTheClosedForm) {
  int checked = 0;
  for (const auto& row : LoadCsv("tests/data/spotdnn/table6_homogeneous.csv")) {
    if (row.at("strategy") == "spotDNN") {
      continue;
    }
    int workers = 0;
    for (const std::string type :
         {"p3.2xlarge", "g4dn.4xlarge", "g3.8xlarge", "g3.16xlarge", "p2.8xlarge"}) {
      workers += std::stoi(row.at(type));
    }
    const double n = workers;
    const double closed_form = std::sqrt((1 - 1 / n) * (1 - 1 / n) + (n - 1) / (n * n));
    const double measured = Heterogeneity(std::vector<int>{workers}, std::vector<double>{750});
    EXPECT_NEAR(measured, closed_form, 1e-12);
    EXPECT_NEAR(measured, std::stod(row.at("cc")), 0.005) << workers;
    ++checked;
  }
  EXPECT_EQ(checked, 12);
}

TEST(Heterogeneity, OneWorkerIsZeroAndOrderDoesNotMatter) {
  EXPECT_EQ(Heterogeneity(std::vector<int>{1}, std::vector<double>{5}), 0);
  const double one = Heterogeneity(std::vector<int>{1, 2}, std::vector<double>{3, 1});
  const double other = Heterogeneity(std::vector<int>{2, 1}, std::vector<double>{1, 3});
  EXPECT_DOUBLE_EQ(one, other);
  // w = (0.6, 0.2, 0.2)
  EXPECT_NEAR(one, std::sqrt(0.4 * 0.4 + 2 * 0.2 * 0.2), 1e-12);
}

TEST(SpotDnnModel, EquationsEightAndNineHoldOnBothSidesOfContention) {
  const WorkerClass worker = {
      .name = "w", .compute_s = 1, .samples = 10, .devices = 1, .link_bytes_per_s = 100};
  const JobTraffic traffic = {.push_bytes = 50, .pull_bytes = 50};
  const proto::ContentionFit fit = {.a1 = 0.2, .b1 = 0.1};
  const SpotDnnSpeedModel speed({worker}, traffic, fit, {});
  const ServerSide servers = {.hosts = 2, .link_bytes_per_s = 200};
  EXPECT_DOUBLE_EQ(speed.Bandwidth(worker, 4, servers), 100);  // 400 / 4 is enough
  const double p = 0.2 * 3 + 0.1;
  EXPECT_DOUBLE_EQ(speed.Bandwidth(worker, 9, servers), p * 400 / 9 + (1 - p) * 100);
  EXPECT_DOUBLE_EQ(speed.Bandwidth(worker, 100, servers), 4);  // P stops at 1
  const SpeedPrediction prediction = speed.Predict(std::vector<int>{100}, servers);
  EXPECT_NEAR(prediction.steps_per_s, 100 / (1 + 100.0 / 4), 1e-9);
  EXPECT_EQ(prediction.bottleneck, Bottleneck::kServerLink);
}

TEST(SpotDnnModel, TheMarginLengthensContendedCommunicationOnly) {
  const WorkerClass worker = {
      .name = "w", .compute_s = 1, .samples = 10, .devices = 1, .link_bytes_per_s = 100};
  const JobTraffic traffic = {.push_bytes = 50, .pull_bytes = 50};
  const proto::ContentionFit fit = {.a1 = 0, .b1 = 1};
  const SpotDnnSpeedModel speed({worker}, traffic, fit, {.contention_margin = 0.05});
  const ServerSide servers = {.hosts = 1, .link_bytes_per_s = 200};
  EXPECT_DOUBLE_EQ(speed.StepSeconds(std::vector<int>{2}, servers)[0], 1 + 1);
  EXPECT_DOUBLE_EQ(speed.StepSeconds(std::vector<int>{4}, servers)[0], 1 + 1.05 * 2);
}

TEST(SpotDnnModel, LocalStepsAndOverlapShortenAStep) {
  const WorkerClass worker = {
      .name = "w", .compute_s = 1, .samples = 10, .devices = 1, .link_bytes_per_s = 100};
  const proto::ContentionFit fit = {.a1 = 0, .b1 = 1};
  const ServerSide servers = {.hosts = 1, .link_bytes_per_s = 1000};
  const auto step_s = [&](int local_steps, double overlap) {
    const JobTraffic traffic = {
        .push_bytes = 50, .pull_bytes = 50, .local_steps = local_steps, .overlap = overlap};
    const SpotDnnSpeedModel speed({worker}, traffic, fit, {});
    return speed.StepSeconds(std::vector<int>{1}, servers)[0];
  };
  EXPECT_DOUBLE_EQ(step_s(1, 0), 2);
  EXPECT_DOUBLE_EQ(step_s(4, 0), 1.25);
  EXPECT_DOUBLE_EQ(step_s(1, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(step_s(1, 1), 1);
}

TEST(IdealModel, WorkersAddUpWhateverTheServers) {
  const JobTraffic traffic = {.push_bytes = 50, .pull_bytes = 50};
  const WorkerClass worker = {
      .name = "w", .compute_s = 1, .samples = 10, .devices = 1, .link_bytes_per_s = 100};
  const IdealSpeedModel speed({worker}, traffic, 0.4);
  const ServerSide servers = {.hosts = 1, .link_bytes_per_s = 1};
  EXPECT_DOUBLE_EQ(speed.Predict(std::vector<int>{1}, servers).samples_per_s, 5);
  EXPECT_DOUBLE_EQ(speed.Predict(std::vector<int>{40}, servers).samples_per_s, 200);
  EXPECT_EQ(speed.residual(), 0.4);
}

TEST(SpotDnnLoss, StepsToALossGiveThatLoss) {
  const proto::LossFit fit = {.c1 = 800, .c2 = -0.2, .c3 = 2500, .c4 = 0.3, .c5 = 0.5};
  const SpotDnnLossModel loss(fit, SpotDnnVariant::kPaper);
  const double steps = loss.StepsTo(0.9, {5, 1024, 0.8});
  EXPECT_NEAR(loss.LossAt(steps, 1024, 0.8, 5), 0.9, 1e-12);
  EXPECT_EQ(loss.floor(), 0.5);
}

TEST(SpotDnnLoss, WithoutHeterogeneityRDoesNotMatter) {
  const proto::LossFit fit = {
      .c1 = 800, .c2 = -0.2, .c3 = 2500, .c4 = 7, .c5 = 0.5, .has_heterogeneity = false};
  const SpotDnnLossModel loss(fit, SpotDnnVariant::kPaper);
  EXPECT_EQ(loss.StepsTo(0.9, {5, 1024, 0}), loss.StepsTo(0.9, {5, 1024, 0.9}));
  EXPECT_NEAR(
      loss.StepsTo(0.9, {5, 1024, 0}), (2500 - 0.2 * 1024) * std::sqrt(5) / 0.4 - 800, 1e-9);
}

TEST(SpotDnnLoss, WhatTheCurveCannotReachTakesForEver) {
  const proto::LossFit fit = {.c1 = 800, .c2 = -0.2, .c3 = 2500, .c4 = 0.3, .c5 = 0.5};
  const SpotDnnLossModel loss(fit, SpotDnnVariant::kPaper);
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(loss.StepsTo(0.5, {5, 1024, 0.8}), infinity);
  EXPECT_EQ(loss.StepsTo(0.9, {5, 12500, 0.8}), infinity);
  EXPECT_EQ(loss.StepsTo(1e6, {5, 1024, 0.8}), 0);
}

}  // namespace
}  // namespace ps::provisioner
