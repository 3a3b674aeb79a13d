// Plans count what comes before the first step and beside the hours: start, billing minimum, disk.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

class PlanStartTest : public PlanFixture {
 protected:
  void SetUp() override {
    PlanFixture::SetUp();
    catalog_ = proto::ParseCatalog(ReadAll(kCatalogPath), kCatalogPath).value();
  }

  int RunCommand(const std::string& command, const std::vector<std::string>& more) {
    const std::string path = root_ / "catalog.json";
    EXPECT_TRUE(WriteFileAtomically(path, proto::PrintCatalog(catalog_)).ok());
    std::vector<std::string> all = {command, "--profile", kProfilePath, "--catalog", path};
    all.insert(all.end(), more.begin(), more.end());
    return Run(all);
  }

  proto::Plan PlanOf(std::vector<std::string> more, const std::string& command = "plan") {
    more.emplace_back("--json");
    EXPECT_EQ(RunCommand(command, more), 0) << err_;
    const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
    EXPECT_TRUE(plan.ok()) << plan.status() << out_;
    return plan.ok() ? *plan : proto::Plan();
  }

  proto::InstanceType& Type(const std::string& name) {
    return *std::ranges::find(catalog_.types, name, &proto::InstanceType::name);
  }

  static double UsdPerHour(const proto::Plan& plan) {
    double usd = plan.servers.count * plan.servers.usd_per_hour;
    for (const proto::PlanWorkers& workers : plan.workers) {
      usd += workers.count * workers.usd_per_hour;
    }
    return usd;
  }

  proto::Catalog catalog_;
};

// Before, such a plan was promised for the time of its training alone.
TEST_F(PlanStartTest, ATimeThatTheStartBreaksIsNotPromised) {
  const proto::Plan soonest = PlanOf({"--loss", "0.8", "--objective", "time"});
  const std::string within = std::to_string(std::lround(soonest.seconds.high) + 60) + "s";
  EXPECT_LE(PlanOf({"--loss", "0.8", "--within", within}).seconds.high, soonest.seconds.high + 61);
  EXPECT_EQ(
      RunCommand("plan", {"--loss", "0.8", "--within", within, "--start-up", "2m"}),
      run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("no fleet meets the goal: time: the fastest fleet needs"));
  const proto::Plan counted = PlanOf({"--loss", "0.8", "--objective", "time", "--start-up", "2m"});
  EXPECT_EQ(counted.takeover_s, 120);
  EXPECT_NEAR(counted.seconds.value, soonest.seconds.value + 120, 1);
}

TEST_F(PlanStartTest, MachinesThatAreUpAtOnceMayBeSaid) {
  for (proto::InstanceType& type : catalog_.types) {
    type.start_up_s = 600;
  }
  const proto::Plan slow = PlanOf({"--loss", "0.8", "--objective", "time"});
  const proto::Plan at_once = PlanOf({"--loss", "0.8", "--objective", "time", "--start-up", "0s"});
  EXPECT_EQ(slow.takeover_s, 600);
  EXPECT_EQ(at_once.takeover_s, 0);
  EXPECT_EQ(PlanOf({"--loss", "0.8", "--within", "1h", "--start-up", "0"}).takeover_s, 0);
}

TEST_F(PlanStartTest, TheStartIsPaidForAndShown) {
  const std::vector<std::string> flags = {"--loss", "0.8", "--within", "1h", "--start-up", "10m"};
  const proto::Plan plan = PlanOf(flags);
  EXPECT_LE(plan.seconds.high, 3600);
  EXPECT_NEAR(plan.usd.value, UsdPerHour(plan) * plan.seconds.value / 3600, 1e-6);
  ASSERT_EQ(RunCommand("plan", flags), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\nstart         10m 00s of it, until all are up\n"));
}

TEST_F(PlanStartTest, TheSlowestTypeOfTheFleetCountsWhereTheCatalogSaysIt) {
  Type("g3.8xlarge").start_up_s = 100;
  Type("m5.xlarge").start_up_s = 200;
  const std::vector<std::string> flags = {
      "--loss", "0.8", "--types", "g3.8xlarge", "--servers", "m5.xlarge=1"};
  const proto::Plan plan = PlanOf(flags);
  EXPECT_EQ(plan.takeover_s, 200);
  EXPECT_THAT(plan.notes, Not(Contains(HasSubstr("time and cost begin when"))));
  std::vector<std::string> given = flags;
  given.insert(given.end(), {"--start-up", "50s"});
  EXPECT_EQ(PlanOf(given).takeover_s, 50) << "whatever the catalog says";
  const proto::Plan predicted =
      PlanOf({"--loss", "0.8", "--fleet", "g3.8xlarge=3", "--ps", "m5.xlarge=1"}, "predict");
  EXPECT_EQ(predicted.takeover_s, 200);
}

TEST_F(PlanStartTest, AStartThatNobodyTellsIsNamed) {
  const std::vector<std::string> flags = {
      "--loss", "0.8", "--types", "g3.8xlarge", "--servers", "m5.xlarge=1"};
  const proto::Plan plan = PlanOf(flags);
  EXPECT_EQ(plan.takeover_s, 0);
  EXPECT_THAT(
      plan.notes,
      Contains("time and cost begin when the machines are up, since the catalog has no start_up_s "
               "of g3.8xlarge, m5.xlarge; --start-up counts their boot, image and data"));
  std::vector<std::string> given = flags;
  given.insert(given.end(), {"--start-up", "50s"});
  EXPECT_THAT(PlanOf(given).notes, Not(Contains(HasSubstr("time and cost begin when"))));
}

TEST_F(PlanStartTest, AroundAFleetThatRunsTheTakeOverCounts) {
  Type("g3.8xlarge").start_up_s = 100;
  const std::vector<std::string> flags = {"--loss", "0.8", "--held", "g3.8xlarge=2"};
  EXPECT_EQ(PlanOf(flags).takeover_s, 0);
  std::vector<std::string> given = flags;
  given.insert(given.end(), {"--takeover", "30s", "--start-up", "5m"});
  EXPECT_EQ(PlanOf(given).takeover_s, 30);
}

TEST_F(PlanStartTest, DisksArePaidByTheHour) {
  const std::vector<std::string> flags = {
      "--loss", "0.8", "--types", "g3.8xlarge", "--servers", "m5.xlarge=1"};
  const proto::Plan before = PlanOf(flags);
  Type("g3.8xlarge").disk_usd_per_hour = 0.5;
  Type("m5.xlarge").disk_usd_per_hour = 0.25;
  const proto::Plan plan = PlanOf(flags);
  EXPECT_DOUBLE_EQ(plan.workers.front().usd_per_hour, before.workers.front().usd_per_hour + 0.5);
  EXPECT_DOUBLE_EQ(plan.servers.usd_per_hour, before.servers.usd_per_hour + 0.25);
  EXPECT_NEAR(plan.usd.value, UsdPerHour(plan) * plan.seconds.value / 3600, 1e-6);
}

TEST_F(PlanStartTest, AMachineIsPaidForItsMinimum) {
  const std::vector<std::string> flags = {
      "--loss", "0.8", "--fleet", "g3.8xlarge=3", "--ps", "m5.xlarge=1"};
  const proto::Plan before = PlanOf(flags, "predict");
  Type("g3.8xlarge").billing_min_s = 60;
  EXPECT_EQ(PlanOf(flags, "predict").usd.value, before.usd.value) << "it runs for longer";
  Type("g3.8xlarge").billing_min_s = 86400;
  const double more =
      (86400 - before.seconds.value) / 3600 * 3 * before.workers.front().usd_per_hour;
  EXPECT_NEAR(PlanOf(flags, "predict").usd.value, before.usd.value + more, 1e-6);
}

}  // namespace
}  // namespace ps::psctl
