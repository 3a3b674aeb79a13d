#include "provisioner/profile/plan_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "provisioner/profile/fingerprint.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;

proto::Plan MakePlan() {
  proto::Plan plan;
  plan.job = "job";
  plan.model_fingerprint = "0000abcd";
  plan.loss_target = 0.5;
  plan.workers = {
      {"fast", proto::Market::kSpot, 2, 64, 0.1, 0, 0.5},
      {"none", proto::Market::kSpot, 0, 64, 0.1, 0, 0.5},
      {"slow", proto::Market::kOnDemand, 1, 32, 0.25, 12.5e6, 0.2}};
  plan.servers = {"host", 2, 25e6, 0};
  plan.samples_per_s = {800, 700, 900};
  plan.seconds = {60, 50, 70};
  plan.steps = {1000, 900, 1100};
  return plan;
}

proto::JobConfig JobOf(const std::string& name) {
  proto::JobConfig config;
  config.name = name;
  return config;
}

TEST(PlanRunTest, APlanBecomesGroupsWithItsSpeedsAndLinks) {
  proto::JobConfig config = JobOf("job");
  config.workers.resize(1);
  config.faults.resize(1);
  config.servers.launch = false;
  const auto planned = ApplyPlan(config, MakePlan(), "0000abcd");
  ASSERT_TRUE(planned.ok()) << planned.status();
  ASSERT_EQ(planned->workers.size(), 2U);
  EXPECT_EQ(planned->workers[0].count, 2U);
  EXPECT_EQ(planned->workers[0].minibatch, 64U);
  EXPECT_EQ(planned->workers[0].step_ms, 100);
  EXPECT_EQ(planned->workers[0].link_mbit_per_s, 0);
  EXPECT_EQ(planned->workers[1].type, "slow");
  EXPECT_EQ(planned->workers[1].link_mbit_per_s, 100);
  EXPECT_EQ(planned->servers.count, 2U);
  EXPECT_TRUE(planned->servers.launch) << "it runs here";
  EXPECT_EQ(planned->servers.link_mbit_per_s, 200);
  EXPECT_EQ(planned->run.stop_at_loss, 0.5F);
  EXPECT_TRUE(planned->faults.empty());
}

TEST(PlanRunTest, AJobThatRentsGetsThePlansTypesAndZonesInsteadOfTheirSpeeds) {
  proto::JobConfig config = JobOf("job");
  config.launch.launcher = proto::LauncherKind::kEc2;
  config.launch.rent.types = {"fast"};
  config.launch.rent.zones = {"zone-a"};
  config.workers.resize(1);
  config.workers[0].threads = 8;
  proto::Plan plan = MakePlan();
  EXPECT_THAT(
      ApplyPlan(config, plan, "0000abcd").status().message(),
      HasSubstr("the plan has on-demand machines of slow, and launch.rent.spot is true"));
  plan.workers[2].market = proto::Market::kSpot;
  plan.workers[2].zone = "zone-b";
  const auto planned = ApplyPlan(config, plan, "0000abcd");
  ASSERT_TRUE(planned.ok()) << planned.status();
  ASSERT_EQ(planned->workers.size(), 2U);
  EXPECT_EQ(planned->workers[0].count, 2U);
  EXPECT_EQ(planned->workers[0].type, "fast");
  EXPECT_EQ(planned->workers[0].step_ms, 0);
  EXPECT_EQ(planned->workers[0].threads, 8U) << "as the job has it";
  EXPECT_THAT(planned->workers[0].zones, testing::IsEmpty());
  EXPECT_THAT(planned->workers[1].zones, testing::ElementsAre("zone-b"));
  EXPECT_THAT(planned->launch.rent.types, testing::ElementsAre("fast", "slow"));
  EXPECT_THAT(planned->launch.rent.zones, testing::ElementsAre("zone-a", "zone-b"));
  EXPECT_EQ(planned->servers.count, 2U);
  EXPECT_EQ(planned->servers.link_mbit_per_s, 0);
}

/// Catalogs of providers have prices of a region. It was taken for a zone, which has no machines.
TEST(PlanRunTest, APriceOfTheRegionIsOfAllZonesThatTheJobNames) {
  proto::JobConfig config = JobOf("job");
  config.launch.launcher = proto::LauncherKind::kEc2;
  config.launch.rent.region = "us-east-1";
  config.launch.rent.types = {"fast"};
  config.launch.rent.zones = {"us-east-1a", "us-east-1c"};
  proto::Plan plan = MakePlan();
  plan.workers.pop_back();
  plan.workers[0].zone = "us-east-1";
  const auto planned = ApplyPlan(config, plan, "0000abcd");
  ASSERT_TRUE(planned.ok()) << planned.status();
  EXPECT_THAT(planned->workers.at(0).zones, testing::IsEmpty());
  EXPECT_THAT(planned->launch.rent.zones, testing::ElementsAre("us-east-1a", "us-east-1c"));

  config.launch.launcher = proto::LauncherKind::kGce;
  config.launch.rent.region.clear();
  config.launch.rent.zones = {"us-central1-a"};
  plan.workers[0].zone = "us-central1";
  const auto google = ApplyPlan(config, plan, "0000abcd");
  ASSERT_TRUE(google.ok()) << google.status();
  EXPECT_THAT(google->workers.at(0).zones, testing::IsEmpty());
  EXPECT_THAT(google->launch.rent.zones, testing::ElementsAre("us-central1-a"));
}

TEST(PlanRunTest, APlanOfAnotherRegionIsRefused) {
  proto::JobConfig config = JobOf("job");
  config.launch.launcher = proto::LauncherKind::kEc2;
  config.launch.rent.region = "us-east-1";
  config.launch.rent.zones = {"us-east-1a"};
  proto::Plan plan = MakePlan();
  plan.workers.pop_back();
  plan.workers[0].zone = "us-west-2";
  EXPECT_THAT(
      ApplyPlan(config, plan, "0000abcd").status().message(),
      HasSubstr("machines in us-west-2, which is in no region of launch.rent (us-east-1)"));
  // Compute Engine is told of zones alone.
  config.launch.launcher = proto::LauncherKind::kGce;
  config.launch.rent.region.clear();
  config.launch.rent.zones = {"europe-west4-a", "europe-west4-b"};
  EXPECT_THAT(
      ApplyPlan(config, plan, "0000abcd").status().message(),
      HasSubstr("no region of launch.rent (europe-west4-a, europe-west4-b)"));
  plan.workers[0].zone = "europe-west4";
  EXPECT_TRUE(ApplyPlan(config, plan, "0000abcd").ok());
}

/// They share one network, and have another one than was planned.
TEST(PlanRunTest, AJobThatRentsSaysThatItsServersAreOnOneMachine) {
  proto::JobConfig config = JobOf("job");
  proto::Plan plan = MakePlan();
  EXPECT_EQ(PlanNote(config, plan), "") << "it is emulated here";
  config.launch.launcher = proto::LauncherKind::kEc2;
  EXPECT_THAT(
      PlanNote(config, plan),
      HasSubstr("on 2 machines of host, and this run has them all on the machine of psctl"));
  config.launch.rent.head.type = "host";
  EXPECT_THAT(PlanNote(config, plan), HasSubstr("all on one host (launch.rent.head)"));
  plan.servers.count = 1;
  EXPECT_EQ(PlanNote(config, plan), "");
  config.launch.rent.head.type = "smaller";
  EXPECT_THAT(
      PlanNote(config, plan),
      HasSubstr("on 1 machine of host, and this run has them all on one smaller"));
  config.launch.rent.head.type.clear();
  EXPECT_EQ(PlanNote(config, plan), "") << "psctl's own machine may be one";
}

TEST(PlanRunTest, ARunCountsItsTrafficByThePlansPrices) {
  proto::JobConfig config = JobOf("job");
  config.launch.launcher = proto::LauncherKind::kEc2;
  proto::Plan plan = MakePlan();
  plan.workers.pop_back();
  plan.traffic.zone_usd_per_gb = 0.25;
  plan.traffic.egress_usd_per_gb = 0.5;
  const auto traffic_of = [&](const proto::JobConfig& job) {
    const auto planned = ApplyPlan(job, plan, "0000abcd");
    EXPECT_TRUE(planned.ok()) << planned.status();
    return planned.ok() ? planned->traffic : proto::TrafficConfig();
  };
  EXPECT_EQ(traffic_of(config), proto::TrafficConfig()) << "nobody knows where the servers are";
  plan.servers.zone = "zone-a";
  EXPECT_EQ(traffic_of(config), (proto::TrafficConfig{"zone-a", 0.25F, 0.5F}));
  config.traffic.server_zone = "zone-b";
  EXPECT_EQ(traffic_of(config), (proto::TrafficConfig{"zone-b", 0.25F, 0.5F}));
  config.traffic.egress_usd_per_gb = 2;
  EXPECT_EQ(traffic_of(config), config.traffic) << "the job's own prices";
  config.traffic = {};
  config.launch.rent.head.type = "host";
  EXPECT_EQ(traffic_of(config), (proto::TrafficConfig{"", 0.25F, 0.5F})) << "psctl knows it then";
  proto::JobConfig here = JobOf("job");
  EXPECT_EQ(traffic_of(here), proto::TrafficConfig()) << "of a fleet that is emulated";
}

TEST(PlanRunTest, ZonesOfOneTypeAreGroupsOfTheirOwn) {
  proto::Plan plan = MakePlan();
  plan.workers[0].zone = "zone-a";
  plan.workers[2] = plan.workers[0];
  plan.workers[2].zone = "zone-b";
  plan.workers[2].count = 3;
  proto::JobConfig rents = JobOf("job");
  rents.launch.launcher = proto::LauncherKind::kEc2;
  const auto rented = ApplyPlan(rents, plan, "0000abcd");
  ASSERT_TRUE(rented.ok()) << rented.status();
  ASSERT_EQ(rented->workers.size(), 2U);
  EXPECT_EQ(rented->workers[0].zones, std::vector<std::string>{"zone-a"});
  EXPECT_EQ(rented->workers[0].count, 2U);
  EXPECT_EQ(rented->workers[1].zones, std::vector<std::string>{"zone-b"});
  EXPECT_EQ(rented->workers[1].count, 3U);
  EXPECT_EQ(rented->launch.rent.zones, (std::vector<std::string>{"zone-a", "zone-b"}));

  proto::JobConfig hosts = JobOf("job");
  hosts.launch.launcher = proto::LauncherKind::kSsh;
  hosts.launch.hosts.resize(2);
  hosts.launch.hosts[1].zone = "zone-b";
  const auto placed = ApplyPlan(hosts, plan, "0000abcd");
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_TRUE(placed->workers[0].zones.empty()) << "no host is in that zone";
  EXPECT_EQ(placed->workers[1].zones, std::vector<std::string>{"zone-b"});
}

TEST(PlanRunTest, AJobRunsWithThePlansLocalSteps) {
  proto::Plan plan = MakePlan();
  plan.local_steps = 50;
  proto::JobConfig config = JobOf("job");
  plan.training_fingerprint = TrainingFingerprint(config);
  const auto several = ApplyPlan(config, plan, "0000abcd");
  ASSERT_TRUE(several.ok()) << several.status();
  EXPECT_EQ(several->train.local_steps, 50U);
  EXPECT_EQ(several->exchange, config.exchange) << "the plan names no encoding";
  EXPECT_FALSE(several->train.overlap);
  plan.local_steps = 1;
  config.train.local_steps = 8;
  config.outer.momentum = 0.5F;
  const auto single = ApplyPlan(config, plan, "0000abcd");
  ASSERT_TRUE(single.ok()) << single.status();
  EXPECT_EQ(single->train.local_steps, 1U);
  EXPECT_EQ(single->outer, proto::OuterConfig{});
  plan.local_steps = 1'000'000;
  EXPECT_THAT(
      ApplyPlan(config, plan, "0000abcd").status().message(), HasSubstr("samples a step; allowed"));
}

TEST(PlanRunTest, APlanOfAnotherJobModelOrWithoutWorkersIsRefused) {
  proto::Plan plan = MakePlan();
  EXPECT_THAT(
      ApplyPlan(JobOf("job"), plan, "11111111").status().message(),
      HasSubstr("its model_fingerprint is 0000abcd, this job's is 11111111"));
  const std::string other(ApplyPlan(JobOf("jab"), plan, "0000abcd").status().message());
  EXPECT_THAT(other, HasSubstr("the plan is for another job: 'job', this one is 'jab'"));
  EXPECT_THAT(other, HasSubstr("--set name=job"));
  plan.workers.clear();
  EXPECT_THAT(
      ApplyPlan(JobOf("job"), plan, "0000abcd").status().message(), HasSubstr("no workers"));
}

TEST(PlanRunTest, APlanOfAJobThatTrainsOtherwiseIsRefused) {
  proto::Plan plan = MakePlan();
  proto::JobConfig config = JobOf("job");
  plan.training_fingerprint = TrainingFingerprint(config);
  EXPECT_TRUE(ApplyPlan(config, plan, "0000abcd").ok());
  config.train.on_divergence = proto::Divergence::kContinue;
  EXPECT_TRUE(ApplyPlan(config, plan, "0000abcd").ok()) << "it changes no step";
  config.optimizer.lr *= 2;
  const Status status = ApplyPlan(config, plan, "0000abcd").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      status.message(),
      HasSubstr(
          "its training_fingerprint is " + plan.training_fingerprint + ", this job's is " +
          TrainingFingerprint(config)));
  plan.training_fingerprint.clear();
  EXPECT_TRUE(ApplyPlan(config, plan, "0000abcd").ok()) << "not known";
}

TEST(PlanRunTest, TheOutcomeHoldsWhatWasPredictedAndMeasured) {
  proto::JobProfile measured;
  measured.fleets.resize(2);
  measured.fleets[1].samples_per_s = 760;
  const PlanOutcome outcome = CompareWithPlan(MakePlan(), measured, {66, 1020}, 0.49);
  EXPECT_EQ(outcome.samples_per_s, (proto::Estimate{800, 700, 900}));
  EXPECT_EQ(outcome.measured_samples_per_s, 760) << "the last fleet's";
  EXPECT_EQ(outcome.measured_seconds, 66);
  EXPECT_EQ(outcome.measured_steps, 1020);
  EXPECT_EQ(outcome.loss_target, 0.5);
  EXPECT_EQ(outcome.measured_loss, 0.49);
}

TEST(PlanRunTest, TheStartOfMachinesIsNotOfTheTrainingThatIsMeasured) {
  proto::Plan plan = MakePlan();
  plan.takeover_s = 55;
  const PlanOutcome outcome = CompareWithPlan(plan, {}, {6, 1020}, 0.49);
  EXPECT_EQ(outcome.seconds, (proto::Estimate{5, 0, 15}));
}

TEST(PlanRunTest, ALossThatWasNotReachedHasNoTime) {
  const PlanOutcome outcome = CompareWithPlan(MakePlan(), {}, {}, 0.7);
  EXPECT_EQ(outcome.measured_seconds, 0);
  EXPECT_EQ(outcome.measured_steps, 0);
}

}  // namespace
}  // namespace ps::provisioner
