#include "provisioner/model/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "provisioner/model/job_models.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;

proto::JobProfile Profile() {
  proto::JobProfile profile;
  profile.job = "job";
  profile.parameter_bytes = 4e6;
  profile.push_bytes = 4.1e6;
  profile.pull_bytes = 4.2e6;
  profile.overlap = 1;
  profile.workers = {{.instance_type = "w", .minibatch = 8, .compute_s = 0.1}};
  profile.curves = {
      .steps = 1000,
      .power = 1,
      .floor = 0,
      .minibatch = 8,
      .fleets = {{1, 1, 0}, {2, 1.2, 0}, {4, 2, 0}, {1, 1.5, 1}, {4, 4, 1}},
      .loss_min = 0.5,
      .residual = 0.05,
      .samples = 100};
  return profile;
}

proto::Catalog Catalog() {
  proto::Catalog catalog;
  proto::InstanceType& type = catalog.types.emplace_back();
  type.name = "w";
  type.devices = 1;
  type.network_gbit_per_s = 100;
  return catalog;
}

TEST(ExchangeTest, EncodingsHaveTheirBytes) {
  proto::JobProfile profile = Profile();
  profile.parameter_bytes = 4096 * 4;
  EXPECT_EQ(PushBytes(profile, "f32").value(), 4096 * 4);
  EXPECT_EQ(PullBytes(profile, "bf16").value(), 4096 * 2);
  EXPECT_EQ(PushBytes(profile, "int8").value(), 4096 + 4096 / 256 * 4);
  EXPECT_EQ(PushBytes(profile, "int4").value(), 4096 / 2 + 4096 / 128 * 4);
  EXPECT_EQ(PushBytes(profile, "topk:0.01").value(), 41 * 4);
}

TEST(ExchangeTest, OneInAHundredPullsOfDifferencesBringsValues) {
  proto::JobProfile profile = Profile();
  profile.parameter_bytes = 4096 * 4;
  EXPECT_DOUBLE_EQ(PullBytes(profile, "int8").value(), 0.99 * (4096 + 16 * 4) + 0.01 * 4096 * 2);
  EXPECT_DOUBLE_EQ(PullBytes(profile, "int4").value(), 0.99 * (2048 + 32 * 4) + 0.01 * 4096 * 2);
}

TEST(ExchangeTest, EncodingsThatAreNotThereAreRefusedWithThoseThatAre) {
  EXPECT_THAT(
      PushBytes(Profile(), "int2").status().message(),
      HasSubstr("f32, bf16, int8, int4, topk:0.01"));
  EXPECT_THAT(
      PullBytes(Profile(), "topk:0.1").status().message(),
      HasSubstr("allowed: f32, bf16, int8 or int4"));
  for (const char* const share : {"topk:0", "topk:0.6", "topk:", "topk:x"}) {
    EXPECT_THAT(PushBytes(Profile(), share).status().message(), HasSubstr("0.5")) << share;
  }
}

TEST(ExchangeTest, RoundsOfSeveralMinibatchesHideNothing) {
  const JobTraffic single = TrafficOf(Profile());
  EXPECT_EQ(single.overlap, 1);
  EXPECT_EQ(single.push_bytes, 0) << "it hides behind the pull";
  const JobTraffic several = TrafficOf(Profile(), {.local_steps = 8});
  EXPECT_EQ(several.local_steps, 8);
  EXPECT_EQ(several.overlap, 0);
  EXPECT_EQ(several.push_bytes, 4.1e6);
  EXPECT_EQ(several.pull_bytes, 4.2e6);
  EXPECT_EQ(several.pcie_bytes, 8 * 8e6) << "each minibatch is copied";
}

TEST(ExchangeTest, AProfileOfRoundsTellsOfOthers) {
  proto::JobProfile profile = Profile();
  profile.local_steps = 8;
  profile.overlap = 0;
  EXPECT_EQ(TrafficOf(profile).local_steps, 8);
  EXPECT_EQ(TrafficOf(profile, {.local_steps = 50}).push_bytes, 4.1e6);
  EXPECT_EQ(TrafficOf(profile, {.local_steps = 1}).overlap, 0) << "nothing tells what would hide";
}

TEST(ExchangeTest, AnotherEncodingMovesItsBytesAndNoMoreTime) {
  proto::JobProfile profile = Profile();
  profile.overlap = 0;
  const ServerSide side = {.hosts = 1, .link_bytes_per_s = 2.5e6};
  const auto step_s = [&](const ExchangeChange& change) {
    JobModelOptions options;
    options.exchange = change;
    return 1 / BuildJobModels(Catalog(), profile, options)
                   ->speed->Predict(std::vector<int>{1}, side)
                   .steps_per_s;
  };
  const double int8 = PushBytes(profile, "int8").value();
  EXPECT_NEAR(int8, 1e6 * (1 + 4.0 / 256), 4);
  EXPECT_NEAR(step_s({}), 0.1 + 8.3e6 / 2.5e6, 1e-9);
  EXPECT_NEAR(step_s({.push_bytes = int8}), 0.1 + (4.2e6 + int8) / 2.5e6, 1e-9);
  EXPECT_NEAR(step_s({.local_steps = 50}), 0.1 + 8.3e6 / 2.5e6 / 50, 1e-9);
}

TEST(ExchangeTest, StepsToALossAreThoseOfTheCurvesTimesThePenalty) {
  JobModelOptions options;
  const FleetTraits fleet = {.workers = 2, .batch_mean = 8, .late = 0};
  const Result<JobModels> single = BuildJobModels(Catalog(), Profile(), options);
  options.exchange = {.local_steps = 8, .samples = 1.25};
  const Result<JobModels> several = BuildJobModels(Catalog(), Profile(), options);
  ASSERT_TRUE(single.ok() && several.ok());
  const double hidden = single->loss->StepsTo(0.6, fleet);
  FleetTraits waiting = fleet;
  waiting.late = 1;  // as all exchanges of rounds are
  EXPECT_NEAR(several->loss->StepsTo(0.6, waiting), 1.25 * hidden, 1e-9 * hidden);
  const FleetFamily family = {
      .workers = 2, .batch_mean = {8, 8}, .heterogeneity = {0, 0}, .late = {0, 1}};
  EXPECT_NEAR(several->loss->StepsAtLeast(0.6, family), 1.25 * hidden, 1e-6 * hidden);
  EXPECT_EQ(several->loss->floor(), single->loss->floor());
}

TEST(ExchangeTest, SpotDnnIsRefusedWhereItsContentionIsOfOtherSteps) {
  proto::JobProfile profile = Profile();
  profile.contention = {.a1 = 0.1, .b1 = 0.1, .residual = 0.05, .samples = 5};
  profile.request_bytes_per_s = 1e7;
  JobModelOptions options;
  options.speed_model = "spotdnn";
  EXPECT_TRUE(BuildJobModels(Catalog(), profile, options).ok());
  options.exchange.local_steps = 8;
  EXPECT_THAT(
      BuildJobModels(Catalog(), profile, options).status().message(),
      HasSubstr("from fleets with 1 local steps and can't tell that of 8"));
  profile.local_steps = 8;
  EXPECT_TRUE(BuildJobModels(Catalog(), profile, options).ok());
  options.speed_model = "spotdnn-prototype";
  EXPECT_THAT(
      BuildJobModels(Catalog(), profile, options).status().message(),
      HasSubstr("knows no local steps"));
}

}  // namespace
}  // namespace ps::provisioner
