#include "provisioner/model/job_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "provisioner/model/prediction_interval.h"

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

proto::Catalog SomeCatalog() {
  proto::Catalog catalog;
  catalog.provider = "aws";
  catalog.types = {
      {.name = "g4dn.4xlarge",
       .device = "T4",
       .devices = 1,
       .network_gbit_per_s = 20,
       .pcie_gbyte_per_s = 8,
       .spot = {},
       .quota = 5},
      {.name = "g3.8xlarge",
       .device = "M60",
       .devices = 2,
       .network_gbit_per_s = 10,
       .spot = {},
       .quota = 5},
      {.name = "m5.xlarge",
       .device = "cpu",
       .network_gbit_per_s = 1.25,
       .spot = {},
       .is_server_host = true}};
  return catalog;
}

proto::JobProfile SomeProfile() {
  proto::JobProfile profile;
  profile.job = "resnet";
  profile.parameter_bytes = 11.5e6;
  profile.request_bytes_per_s = 142e6;
  profile.workers = {{.instance_type = "g4dn.4xlarge", .minibatch = 1024, .compute_s = 1.2}};
  return profile;
}

TEST(JobModels, EveryProfiledTypeBecomesAWorker) {
  proto::JobProfile profile = SomeProfile();
  profile.workers[0].excludes_pcie = true;
  const Result<JobModels> models = BuildJobModels(SomeCatalog(), profile, {});
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_EQ(models->speed->classes().size(), 1U);
  const WorkerClass& worker = models->speed->classes()[0];
  EXPECT_EQ(worker.name, "g4dn.4xlarge");
  EXPECT_EQ(worker.samples, 1024);
  EXPECT_EQ(worker.pcie_bytes_per_s, 8e9);
  EXPECT_EQ(worker.link_bytes_per_s, 142e6);  // less than its network
  EXPECT_EQ(models->traffic.push_bytes, 11.5e6);
  EXPECT_EQ(models->speed->name(), "queue");
  EXPECT_GT(models->speed->residual(), 0);  // nothing measured is not nothing wrong
  EXPECT_EQ(models->loss, nullptr);
  EXPECT_THAT(models->not_profiled, ElementsAre("g3.8xlarge"));
}

// A step that was timed has its copies; one that was published without them gets them.
TEST(JobModels, PcieIsCountedOnce) {
  proto::JobProfile profile = SomeProfile();
  const ServerSide servers{.hosts = 1, .link_bytes_per_s = 1e12};
  const auto step_s = [&] {
    JobModelOptions options;
    options.speed_model = "ideal";
    const Result<JobModels> models = BuildJobModels(SomeCatalog(), profile, options);
    PS_CHECK(models.ok()) << models.status();
    return 1 / models->speed->Predict(std::vector<int>{1}, servers).steps_per_s;
  };
  const double timed_s = step_s();
  EXPECT_NEAR(timed_s, 1.2 + 2 * 11.5e6 / 142e6, 1e-9);
  profile.workers[0].excludes_pcie = true;
  EXPECT_NEAR(step_s() - timed_s, 2 * 11.5e6 / 8e9, 1e-9);
}

// A job of rounded gradients was measured to push half of what it pulls.
TEST(JobModels, RoundedGradientsAreHalfTheBytesOnTheWireAndOverPcie) {
  proto::JobProfile profile = SomeProfile();
  const JobTraffic exact = TrafficOf(profile);
  EXPECT_EQ(exact.pcie_bytes, 2 * 11.5e6);
  profile.push_bytes = 11.5e6 / 2;
  profile.pull_bytes = 11.5e6;
  const JobTraffic rounded = TrafficOf(profile);
  EXPECT_EQ(rounded.push_bytes, exact.push_bytes / 2);
  EXPECT_EQ(rounded.pull_bytes, exact.pull_bytes);
  EXPECT_EQ(rounded.pcie_bytes, 1.5 * 11.5e6);
}

TEST(JobModels, EveryMinibatchOfATypeIsAClass) {
  proto::JobProfile profile = SomeProfile();
  profile.workers.push_back({.instance_type = "g4dn.4xlarge", .minibatch = 256, .compute_s = 0.4});
  const Result<JobModels> models = BuildJobModels(SomeCatalog(), profile, {});
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_EQ(models->speed->classes().size(), 2U);
  EXPECT_EQ(models->speed->classes()[0].samples, 1024);
  EXPECT_EQ(models->speed->classes()[1].samples, 256);
  EXPECT_EQ(models->speed->classes()[1].name, "g4dn.4xlarge");
  EXPECT_EQ(models->speed->classes()[1].compute_s, 0.4);
}

TEST(JobModels, AMinibatchBelowTheUsualOneSavesNoSamples) {
  proto::JobProfile profile = SomeProfile();
  profile.workers.push_back({.instance_type = "g4dn.4xlarge", .minibatch = 64, .compute_s = 0.1});
  profile.loss = {
      .c1 = 900, .c2 = -0.2, .c3 = 2500, .c5 = 0.5, .has_heterogeneity = false, .samples = 3};
  const Result<JobModels> models = BuildJobModels(SomeCatalog(), profile, {});
  ASSERT_TRUE(models.ok()) << models.status();
  const auto steps = [&](double batch) {
    const double exact = models->loss->StepsTo(0.8, {.workers = 1, .batch_mean = batch});
    FleetFamily family;
    family.batch_mean = {batch, batch};
    EXPECT_EQ(exact, models->loss->StepsAtLeast(0.8, family));
    return exact;
  };
  EXPECT_NEAR(steps(64) * 64, steps(1024) * 1024, 1e-3);
  EXPECT_LT(steps(2048), steps(1024));
  EXPECT_DOUBLE_EQ(steps(1024), (2500 - 0.2 * 1024) / (0.8 - 0.5) - 900) << "as published";
}

TEST(JobModels, ATypeWithoutProfileIsNamedInTheError) {
  const Result<JobModels> models =
      BuildJobModels(SomeCatalog(), SomeProfile(), {.instance_types = {"g3.8xlarge"}});
  ASSERT_FALSE(models.ok());
  EXPECT_EQ(models.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(
      models.status().message(),
      "no profile for g3.8xlarge: run `psctl profile` there or leave it out");
}

TEST(JobModels, UnknownTypesAndModelsAreNamedInTheError) {
  const Result<JobModels> type =
      BuildJobModels(SomeCatalog(), SomeProfile(), {.instance_types = {"z9.huge"}});
  ASSERT_FALSE(type.ok());
  EXPECT_THAT(std::string(type.status().message()), HasSubstr("z9.huge"));
  const Result<JobModels> model =
      BuildJobModels(SomeCatalog(), SomeProfile(), {.speed_model = "magic"});
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(
      std::string(model.status().message()),
      HasSubstr("queue, spotdnn, spotdnn-prototype or ideal"));
}

TEST(JobModels, SpotDnnNeedsAFittedContention) {
  proto::JobProfile profile = SomeProfile();
  const JobModelOptions options = {.speed_model = "spotdnn"};
  const Result<JobModels> without = BuildJobModels(SomeCatalog(), profile, options);
  ASSERT_FALSE(without.ok());
  EXPECT_THAT(std::string(without.status().message()), HasSubstr("no fitted contention"));
  profile.contention = {.a1 = 0.8, .b1 = -1.92, .residual = 0.04, .samples = 12};
  const Result<JobModels> with = BuildJobModels(SomeCatalog(), profile, options);
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_EQ(with->speed->residual(), 0.04);
}

TEST(JobModels, IdealStatesTheErrorItMakesOnMeasuredFleets) {
  proto::JobProfile profile = SomeProfile();
  proto::FleetSample sample;
  sample.workers = {"g4dn.4xlarge", "g4dn.4xlarge"};
  sample.steps_per_s = 1 / (1.2 + 23.0 / 142);  // of one: twice is promised
  profile.fleets = {sample};
  const Result<JobModels> models = BuildJobModels(SomeCatalog(), profile, {.speed_model = "ideal"});
  ASSERT_TRUE(models.ok()) << models.status();
  EXPECT_NEAR(models->speed->residual(), std::log(2), 1e-9);
}

TEST(JobModels, ARateThatTheServersHeldBackSaysNothingOfTheWorker) {
  proto::JobProfile profile = SomeProfile();
  profile.request_bytes_per_s = 12e6;
  EXPECT_EQ(RequestBytesPerS(profile), 12e6);
  proto::FleetSample alone;
  alone.workers = {"g4dn.4xlarge"};
  alone.server_bytes_per_s = 12.5e6;
  alone.steps_per_s = 0.3;
  profile.fleets = {alone};
  EXPECT_EQ(RequestBytesPerS(profile), 0);
  const Result<JobModels> models = BuildJobModels(SomeCatalog(), profile, {});
  ASSERT_TRUE(models.ok()) << models.status();
  EXPECT_EQ(models->speed->classes()[0].link_bytes_per_s, 2.5e9);  // its network's
}

TEST(JobModels, AFittedLossComesAlong) {
  proto::JobProfile profile = SomeProfile();
  profile.loss = {.c1 = 10, .c3 = 100, .c5 = 0.2, .has_heterogeneity = false, .samples = 50};
  const Result<JobModels> models = BuildJobModels(SomeCatalog(), profile, {});
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_NE(models->loss, nullptr);
  EXPECT_EQ(models->loss->floor(), 0.2);
}

TEST(JobModels, CurvesComeBeforeSpotDnnsEquationUnlessItsSpeedsAreAskedFor) {
  proto::JobProfile profile = SomeProfile();
  profile.loss = {.c1 = 10, .c3 = 100, .c5 = 0.2, .has_heterogeneity = false, .samples = 50};
  profile.curves = {.steps = 100, .floor = 0.1, .fleets = {{1, 1}, {2, 1.2}}, .samples = 60};
  profile.contention = {.a1 = 0.3, .b1 = 0.1, .samples = 5};
  for (const auto& [model, floor] : {std::pair("queue", 0.1), {"ideal", 0.1}, {"spotdnn", 0.2}}) {
    const Result<JobModels> models = BuildJobModels(SomeCatalog(), profile, {.speed_model = model});
    ASSERT_TRUE(models.ok()) << models.status();
    ASSERT_NE(models->loss, nullptr);
    EXPECT_EQ(models->loss->floor(), floor) << model;
  }
}

TEST(JobModels, ACatalogWithoutAnyProfiledTypeIsRefused) {
  proto::JobProfile profile = SomeProfile();
  profile.workers.clear();
  const Result<JobModels> models = BuildJobModels(SomeCatalog(), profile, {});
  ASSERT_FALSE(models.ok());
  EXPECT_THAT(std::string(models.status().message()), HasSubstr("no type of the catalog"));
}

TEST(PredictionInterval, QuantilesAreAlikeToBothSidesAndGrow) {
  EXPECT_EQ(ErrorQuantile(0.5), 0);
  EXPECT_NEAR(ErrorQuantile(0.05), -ErrorQuantile(0.95), 1e-12);
  double last = 0;
  for (double probability = 0.51; probability < 0.999; probability += 0.01) {
    EXPECT_GT(ErrorQuantile(probability), last) << probability;
    EXPECT_NEAR(ErrorProbability(ErrorQuantile(probability)), probability, 1e-9);
    EXPECT_NEAR(ErrorProbability(-ErrorQuantile(probability)), 1 - probability, 1e-9);
    last = ErrorQuantile(probability);
  }
}

TEST(PredictionInterval, NothingIsSurerThanTheErrorsCanTell) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_NEAR(ErrorProbability(infinity), 0.999, 1e-12);
  EXPECT_NEAR(ErrorProbability(-infinity), 0.001, 1e-12);
  EXPECT_EQ(ErrorProbability(0), 0.5);
}

TEST(PredictionInterval, HoldsTheValueAndGrowsWithConfidenceAndResidual) {
  const proto::Estimate narrow = Interval(100, 0.05, 0.5);
  const proto::Estimate wide = Interval(100, 0.05, 0.95);
  EXPECT_EQ(narrow.value, 100);
  EXPECT_LT(wide.low, narrow.low);
  EXPECT_GT(wide.high, narrow.high);
  EXPECT_NEAR(wide.high, 100 * std::exp(ErrorQuantile(0.975) * 0.05), 1e-9);
  EXPECT_NEAR(wide.low * wide.high, 100 * 100, 1e-6);
  EXPECT_EQ(Interval(100, 0, 0.9).low, 100);
}

TEST(PredictionInterval, UpperAtHalfIsTheValueAndForEverStays) {
  EXPECT_NEAR(UpperAt(100, 0.1, 0.5), 100, 1e-9);
  EXPECT_NEAR(UpperAt(100, 0.1, 0.9), 100 * std::exp(ErrorQuantile(0.9) * 0.1), 1e-9);
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(UpperAt(infinity, 0.1, 0.9), infinity);
  EXPECT_DOUBLE_EQ(CombinedResidual(0.03, 0.04), 0.05);
}

}  // namespace
}  // namespace ps::provisioner
