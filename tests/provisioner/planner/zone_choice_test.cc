#include "provisioner/planner/zone_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/model/job_models.h"
#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/plan_setup.h"
#include "tests/provisioner/planner/planning_samples.h"

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kBytesPerGbit = 1e9 / 8;

proto::InstanceType ZonedType(
    const char* name, std::vector<std::pair<const char*, double>> zones, int vcpus = 8) {
  proto::InstanceType type;
  type.name = name;
  type.device = "cpu";
  type.vcpus = vcpus;
  type.network_gbit_per_s = 10;
  type.network_burst_gbit_per_s = 10;
  type.on_demand_usd_per_hour = 3;
  for (const auto& [zone, usd] : zones) {
    type.spot.push_back({zone, usd, "2026-01-01"});
  }
  type.quota = 4;
  return type;
}

class ZoneChoiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    catalog_.provider = "test";
    catalog_.region = "east-1";
    catalog_.traffic = {.zone_usd_per_gb = 0.02, .egress_usd_per_gb = 0.09, .as_of = "2026-01-01"};
    catalog_.types = {
        ZonedType("fast", {{"east-1a", 1}, {"east-1b", 1.2}}),
        ZonedType("slow", {{"east-1b", 0.5}}),
        ZonedType("host", {}, 2)};
    catalog_.types.back().is_server_host = true;
    profile_.job = "job";
    profile_.parameter_bytes = 1e8;
    profile_.push_bytes = 1e8;
    profile_.pull_bytes = 2e8;
    profile_.workers = {{"fast", 8, 1}, {"slow", 8, 3}};
  }

  PlanProblem Make(const PlanSetup& setup = {}) {
    Result<JobModels> models = BuildJobModels(catalog_, profile_, {});
    EXPECT_TRUE(models.ok()) << models.status();
    models_ = std::move(models).value();
    Result<PlanProblem> problem = MakePlanProblem(catalog_, models_, setup);
    EXPECT_TRUE(problem.ok()) << problem.status();
    return problem.ok() ? *std::move(problem) : PlanProblem();
  }

  /// The zones that servers are on offer in; "" for none.
  static std::vector<std::string> ServerZones(const PlanProblem& problem) {
    std::vector<std::string> zones;
    for (const ServerOffer& server : problem.servers) {
      std::string zone = server.zone < 0 ? "" : problem.zones[static_cast<size_t>(server.zone)];
      if (std::ranges::count(zones, zone) == 0) {
        zones.push_back(std::move(zone));
      }
    }
    return zones;
  }

  proto::Catalog catalog_;
  proto::JobProfile profile_;
  JobModels models_;
};

TEST_F(ZoneChoiceTest, WorkersHaveTheZonesTheyAreSoldInAndServersThoseThatMayBeBest) {
  const PlanProblem problem = Make();
  EXPECT_THAT(problem.zones, ElementsAre("east-1a", "east-1b"));
  EXPECT_THAT(ServerZones(problem), ElementsAre("east-1a", "east-1b"));
  ASSERT_EQ(problem.offers.size(), 2U);
  EXPECT_EQ(problem.offers[0].places.size(), 2U);
  EXPECT_EQ(problem.offers[1].places.size(), 1U);
  EXPECT_EQ(problem.bytes_per_step, 3e8) << "a push and a pull";
  EXPECT_DOUBLE_EQ(problem.usd_per_byte[0][1], 0.02e-9);
  EXPECT_EQ(problem.usd_per_byte[1][1], 0);
}

TEST_F(ZoneChoiceTest, AZoneInWhichNothingIsCheaperIsNoChoice) {
  catalog_.types[0].spot[0].usd_per_hour = 1.3;  // east-1a; in east-1b 1.2
  EXPECT_THAT(ServerZones(Make()), ElementsAre("east-1b"));
}

TEST_F(ZoneChoiceTest, APriceOfTheWholeRegionIsOneOfEachZone) {
  catalog_.types[0].spot = {{"east-1", 1, "2026-01-01"}};
  const PlanProblem problem = Make();
  EXPECT_THAT(problem.zones, ElementsAre("east-1b"));
  ASSERT_EQ(problem.offers[0].places.size(), 1U);
  EXPECT_EQ(problem.offers[0].places[0].zone, -1);
}

TEST_F(ZoneChoiceTest, WhatLeavesTheRegionPaysEgress) {
  catalog_.types[0].spot[0].zone = "west-2a";
  const PlanProblem problem = Make();
  EXPECT_THAT(problem.zones, ElementsAre("west-2a", "east-1b"));
  EXPECT_DOUBLE_EQ(problem.usd_per_byte[0][1], 0.09e-9);
}

TEST_F(ZoneChoiceTest, LocalStepsMoveLessForEachMinibatch) {
  profile_.local_steps = 4;
  EXPECT_EQ(Make().bytes_per_step, 3e8 / 4);
}

TEST_F(ZoneChoiceTest, WithoutPricesNothingIsChosenAndANoteSaysSo) {
  catalog_.traffic = {};
  const PlanProblem problem = Make();
  EXPECT_THAT(ServerZones(problem), ElementsAre(""));
  EXPECT_THAT(problem.offers[0].places, IsEmpty());
  proto::Plan plan;
  plan.workers = {{"fast"}, {"slow"}};
  plan.workers[0].zone = "east-1a";
  EXPECT_THAT(TrafficNotes(catalog_, problem, plan), IsEmpty()) << "one zone";
  plan.workers[1].zone = "east-1b";
  EXPECT_THAT(
      TrafficNotes(catalog_, problem, plan),
      ElementsAre(HasSubstr("what goes from zone to zone counts as free")));
}

TEST_F(ZoneChoiceTest, WhatRunsStaysWhereItsTypeIsCheapest) {
  PlanSetup setup;
  setup.held = {{"fast", 1}};
  const PlanProblem problem = Make(setup);
  ASSERT_EQ(problem.offers[0].places.size(), 1U);
  EXPECT_EQ(problem.zones[static_cast<size_t>(problem.offers[0].places[0].zone)], "east-1a");
}

TEST_F(ZoneChoiceTest, MachinesThatLiveOtherwiseElsewhereStayWhereTheyAreCheapest) {
  catalog_.types[0].spot[1].lifetimes = {{1, 0.5}};
  EXPECT_EQ(Make().offers[0].places.size(), 1U);
  catalog_.types[0].spot[0].lifetimes = {{1, 0.5}};
  EXPECT_EQ(Make().offers[0].places.size(), 2U);
}

TEST_F(ZoneChoiceTest, OfServersThatRunTheZoneIsNotKnown) {
  PlanSetup setup;
  setup.servers_run = true;
  const PlanProblem problem = Make(setup);
  EXPECT_THAT(ServerZones(problem), ElementsAre(""));
  proto::Plan plan;
  plan.workers = {{"fast"}};
  plan.workers[0].zone = "east-1a";
  EXPECT_THAT(
      TrafficNotes(catalog_, problem, plan),
      ElementsAre(HasSubstr("the zone of the servers is not known")));
}

TEST_F(ZoneChoiceTest, AServerIsNoFasterThanItsProcessors) {
  EXPECT_EQ(Make().servers.front().link_bytes_per_s, 10 * kBytesPerGbit);
  catalog_.server_gbit_per_vcpu = 2;
  EXPECT_EQ(Make().servers.front().link_bytes_per_s, 4 * kBytesPerGbit) << "two of them";
  catalog_.types.back().vcpus = 16;
  EXPECT_EQ(Make().servers.front().link_bytes_per_s, 10 * kBytesPerGbit);
}

TEST_F(ZoneChoiceTest, EachTypeHasItsOwnStart) {
  catalog_.types[0].start_up_s = 60;
  catalog_.types[1].start_up_s = 300;
  catalog_.types[2].start_up_s = 90;
  PlanSetup setup;
  setup.counts_start_up = true;
  PlanProblem problem = Make(setup);
  const PlanningSample sample = RandomSample(1, {});
  problem.loss = sample.loss.get();
  const FleetJudge judge(problem);
  EXPECT_EQ(judge.StartSeconds(std::vector<int>{2, 0}, 0), 90);
  EXPECT_EQ(judge.StartSeconds(std::vector<int>{2, 1}, 0), 300);
}

}  // namespace
}  // namespace ps::provisioner
