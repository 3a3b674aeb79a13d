// Plans choose zones with their traffic, and count quotas as providers do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ps/proto/files/catalog.h"
#include "ps/proto/files/plan.h"
#include "tests/psctl/plan_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class PlanZonesTest : public PlanFixture {
 protected:
  void SetUp() override {
    PlanFixture::SetUp();
    catalog_ = proto::ParseCatalog(ReadAll(kCatalogPath), kCatalogPath).value();
    // g3.8xlarge is cheapest in one zone, p3.2xlarge is sold in another alone.
    Type("g3.8xlarge").spot = {
        {catalog_.region + "a", 0.684, "2023-01-01"}, {catalog_.region + "b", 0.75, "2023-01-01"}};
    Type("p3.2xlarge").spot = {{catalog_.region + "b", 0.918, "2023-01-01"}};
  }

  int RunPlanWith(const std::vector<std::string>& more, const std::string& command = "plan") {
    const std::string path = root_ / "catalog.json";
    EXPECT_TRUE(WriteFileAtomically(path, proto::PrintCatalog(catalog_)).ok());
    std::vector<std::string> all = {command, "--profile", kProfilePath, "--catalog", path};
    all.insert(all.end(), more.begin(), more.end());
    return Run(all);
  }

  proto::Plan PlanOf(std::vector<std::string> more, const std::string& command = "plan") {
    more.emplace_back("--json");
    EXPECT_EQ(RunPlanWith(more, command), 0) << err_;
    const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
    EXPECT_TRUE(plan.ok()) << plan.status() << out_;
    return plan.ok() ? *plan : proto::Plan();
  }

  proto::InstanceType& Type(const std::string& name) {
    return *std::ranges::find(catalog_.types, name, &proto::InstanceType::name);
  }

  const std::vector<std::string> mixed_ = {
      "--loss", "0.8", "--fleet", "g3.8xlarge=3,p3.2xlarge=2", "--ps", "m5.xlarge=1"};
  const std::vector<std::string> flags_ = {
      "--loss",
      "0.8",
      "--within",
      "2h",
      "--types",
      "g3.8xlarge,p3.2xlarge",
      "--servers",
      "m5.xlarge=1"};
  proto::Catalog catalog_;
};

// Before, workers of a fleet were wherever each type was cheapest, and what crossed was free.
TEST_F(PlanZonesTest, WhatCrossesZonesIsPaidForOrAvoided) {
  const proto::Plan free = PlanOf(mixed_, "predict");
  EXPECT_EQ(free.workers[0].zone, catalog_.region + "a");
  EXPECT_THAT(free.notes, Contains(HasSubstr("what goes from zone to zone counts as free")));
  EXPECT_GT(free.traffic.bytes, 1e9);
  EXPECT_EQ(free.traffic.usd, 0);

  catalog_.traffic = {.zone_usd_per_gb = 0.02, .as_of = "2026-01-01"};
  const proto::Plan paid = PlanOf(mixed_, "predict");
  for (const proto::PlanWorkers& workers : paid.workers) {
    EXPECT_EQ(workers.zone, catalog_.region + "b") << "a dearer g3.8xlarge is cheaper at hand";
  }
  EXPECT_EQ(paid.servers.zone, catalog_.region + "b");
  EXPECT_EQ(paid.traffic.bytes_across_zones, 0);
  EXPECT_EQ(paid.traffic.bytes, free.traffic.bytes);
  EXPECT_GT(paid.usd.value, free.usd.value);
  EXPECT_EQ(paid.traffic.zone_usd_per_gb, 0.02) << "for a run of the plan";

  Type("g3.8xlarge").spot.pop_back();  // it is sold in the other zone alone
  const proto::Plan apart = PlanOf(mixed_, "predict");
  EXPECT_GT(apart.traffic.bytes_across_zones, 0);
  EXPECT_LT(apart.traffic.bytes_across_zones, apart.traffic.bytes);
  EXPECT_NEAR(
      apart.traffic.usd, apart.traffic.bytes_across_zones * 0.02e-9, apart.traffic.usd * 1e-6);
  EXPECT_NEAR(apart.usd.value, free.usd.value + apart.traffic.usd, 1e-6);
}

TEST_F(PlanZonesTest, ThePlanShowsItsTraffic) {
  catalog_.traffic = {.zone_usd_per_gb = 0.02, .as_of = "2026-01-01"};
  Type("g3.8xlarge").spot.pop_back();
  ASSERT_EQ(RunPlanWith(mixed_, "predict"), 0) << err_;
  EXPECT_THAT(
      out_,
      testing::ContainsRegex("\ntraffic  +[0-9.,]+ GB, [0-9.,]+ of it from zone to "
                             "zone for [0-9.]+ USD\n"));
  ASSERT_EQ(RunPlanWith(flags_), 0) << err_;
  EXPECT_THAT(out_, testing::ContainsRegex("\ntraffic  +[0-9.,]+ GB, none from zone to zone: 0"));
  EXPECT_THAT(out_, testing::ContainsRegex("\nservers  +1 m5.xlarge in us-east-1[ab]\n"));
}

TEST_F(PlanZonesTest, StrategiesCountWhatCrosses) {
  catalog_.traffic = {.zone_usd_per_gb = 100, .as_of = "2026-01-01"};
  for (const char* const strategy : {"exact", "exhaustive", "homogeneous", "spotdnn", "ideal"}) {
    std::vector<std::string> flags = flags_;
    flags.insert(flags.end(), {"--strategy", strategy});
    const proto::Plan plan = PlanOf(flags);
    EXPECT_EQ(plan.traffic.usd, 0) << strategy << ": at such a price nobody crosses";
  }
}

// The cheaper zone has too few machines: servers belong where the workers can be had.
TEST_F(PlanZonesTest, ServersMayBeInEachZoneThatATraceNames) {
  catalog_.traffic = {.zone_usd_per_gb = 100, .as_of = "2026-01-01"};
  const auto trace = [&](const char* name, const char* lines) {
    const std::string path = root_ / name;
    EXPECT_TRUE(WriteFileAtomically(path, lines).ok());
    return path;
  };
  const proto::Plan plan = PlanOf(
      {"--loss",
       "0.8",
       "--within",
       "1h",
       "--types",
       "g3.8xlarge",
       "--servers",
       "m5.xlarge=1",
       "--unit",
       "s",
       "--capacity",
       "g3.8xlarge@us-east-1a=" + trace("few.csv", "0,1\n40000,0\n"),
       "--capacity",
       "g3.8xlarge@us-east-1b=" + trace("rest.csv", "0,9\n40000,0\n")});
  EXPECT_TRUE(plan.traces.is_kept);
  EXPECT_EQ(plan.servers.zone, "us-east-1b");
  ASSERT_EQ(plan.workers.size(), 1U);
  EXPECT_EQ(plan.workers.front().zone, "us-east-1b");
  EXPECT_EQ(plan.traffic.usd, 0) << "at such a price nobody crosses";
}

TEST_F(PlanZonesTest, AFleetStartsWhenItsOwnSlowestTypeIsUp) {
  Type("g3.8xlarge").start_up_s = 1800;
  Type("p3.2xlarge").start_up_s = 100;
  Type("m5.xlarge").start_up_s = 60;
  const proto::Plan plan = PlanOf(
      {"--loss",
       "0.8",
       "--within",
       "1h",
       "--servers",
       "m5.xlarge=1",
       "--types",
       "g3.8xlarge,p3.2xlarge"});
  ASSERT_EQ(plan.workers.size(), 1U);
  EXPECT_EQ(plan.workers[0].instance_type, "p3.2xlarge") << "the other is up too late";
  EXPECT_EQ(plan.takeover_s, 100);
}

TEST_F(PlanZonesTest, QuotasOfProcessorsLimitAFamily) {
  for (const char* const name : {"g3.8xlarge", "p3.2xlarge"}) {
    Type(name).quota_family = "GP";
    Type(name).quota_is_guess = true;
    Type(name).vcpus = 8;
  }
  std::vector<std::string> flags = flags_;
  EXPECT_THAT(PlanOf(flags).notes, Contains(HasSubstr("give yours with --quota-vcpus")));
  flags.insert(flags.end(), {"--quota-vcpus", "GP=16"});
  const proto::Plan plan = PlanOf(flags);
  int workers = 0;
  for (const proto::PlanWorkers& some : plan.workers) {
    workers += some.count;
  }
  EXPECT_LE(workers, 2);
  EXPECT_THAT(plan.notes, Not(Contains(HasSubstr("--quota-vcpus"))));
  flags.back() = "XY=16";
  EXPECT_NE(RunPlanWith(flags), 0);
  EXPECT_THAT(err_, HasSubstr("a family that no type of the catalog is of"));
  flags.back() = "GP:sometimes=16";
  EXPECT_NE(RunPlanWith(flags), 0);
  EXPECT_THAT(err_, HasSubstr("FAMILY:on-demand=VCPUS"));
}

}  // namespace
}  // namespace ps::psctl
