// What a plan comes to by the spot machines that could be had.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ps/json/json_value.h"
#include "ps/proto/files/plan.h"
#include "tests/psctl/plan_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;

class PlanCapacityTest : public PlanFixture {
 protected:
  std::string Trace(const std::string& name, const std::string& lines) {
    const std::string path = root_ / name;
    EXPECT_TRUE(WriteFileAtomically(path, lines).ok());
    return path;
  }

  std::vector<std::string> Flags(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {
        "plan",
        "--profile",
        kProfilePath,
        "--catalog",
        kCatalogPath,
        "--loss",
        "0.8",
        "--servers",
        "m5.xlarge=1",
        "--start-up",
        "2m",
        "--within",
        within_,
        "--types",
        types_};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  proto::Plan PlanOf(std::vector<std::string> more) {
    more.emplace_back("--json");
    EXPECT_EQ(Run(Flags(more)), 0) << err_;
    const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
    EXPECT_TRUE(plan.ok()) << plan.status() << out_;
    return plan.ok() ? *plan : proto::Plan();
  }

  std::string within_ = "60m";
  std::string types_ = "g3.8xlarge";
};

/// A count that is short of `full` twice, over three hours.
std::string ShortTrace(int full) {
  const std::string all = std::to_string(full);
  const std::string less = std::to_string(full - 1);
  return "0," + less + "\n900," + all + "\n1800," + less + "\n2000," + all + "\n2600," + less +
         "\n5000," + all + "\n10800," + less + "\n";
}

TEST_F(PlanCapacityTest, AgreesWithASimulationOfTheSameTrace) {
  const proto::Plan plain = PlanOf({});
  ASSERT_EQ(plain.workers.size(), 1U) << "one type, so that simulate knows it";
  const proto::PlanWorkers& workers = plain.workers.front();
  ASSERT_GT(workers.count, 1);
  const std::string path = Trace("short.csv", ShortTrace(workers.count));
  const proto::Plan plan =
      PlanOf({"--capacity", workers.instance_type + "=" + path, "--unit", "s"});
  ASSERT_EQ(plan.capacity.size(), 1U);
  const proto::PlanCapacity& capacity = plan.capacity.front();
  EXPECT_GT(capacity.seconds, plan.seconds.value * 1.02) << "machines lack";
  EXPECT_GT(capacity.revoked, 0);

  const std::string samples =
      std::to_string(static_cast<int64_t>(plan.steps.value * workers.minibatch));
  ASSERT_EQ(
      Run(
          {"simulate",
           "--trace",
           path,
           "--unit",
           "s",
           "--profile",
           kProfilePath,
           "--catalog",
           kCatalogPath,
           "--type",
           workers.instance_type,
           "--ps",
           "m5.xlarge=1",
           "--samples",
           samples,
           "--policy",
           "reactive",
           "--engine",
           "rates",
           "--start-up",
           "2m",
           "--json"}),
      0)
      << err_;
  const Result<JsonValue> json = ParseJson(out_, "simulate");
  ASSERT_TRUE(json.ok()) << json.status();
  const double seconds = std::stod(json->Find("policies")->children.front().Find("seconds")->text);
  EXPECT_NEAR(capacity.seconds, seconds, 0.03 * seconds);
}

TEST_F(PlanCapacityTest, AFurtherTypeStandsInForWhatLacks) {
  types_ = "g3.8xlarge,p3.2xlarge";
  const proto::Plan plain = PlanOf({});
  ASSERT_EQ(plain.workers.size(), 1U);
  const proto::PlanWorkers& workers = plain.workers.front();
  const std::string other = workers.instance_type == "p3.2xlarge" ? "g3.8xlarge" : "p3.2xlarge";
  const std::string scarce = Trace("scarce.csv", "0,1\n3000,1\n4000,0\n10800,1\n");
  const std::string plenty = Trace("plenty.csv", "0,20\n10800,19\n");
  const proto::Plan plan = PlanOf(
      {"--capacity",
       workers.instance_type + "=" + scarce,
       "--capacity",
       other + "=" + plenty,
       "--unit",
       "s"});
  ASSERT_EQ(plan.capacity.size(), 2U);
  EXPECT_EQ(plan.capacity[0].spare, "");
  EXPECT_EQ(plan.capacity[1].spare, other);
  EXPECT_LT(plan.capacity[0].in_time, 0.1);
  EXPECT_GT(plan.capacity[1].in_time, plan.capacity[0].in_time);
  ASSERT_FALSE(plan.capacity[0].points.empty());
  EXPECT_EQ(plan.capacity[0].points.front().working, 0) << "it starts";
  ASSERT_EQ(Run(Flags({"--capacity", workers.instance_type + "=" + scarce, "--unit", "s"})), 0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("by the spot machines that could be had"));
}

TEST_F(PlanCapacityTest, EnoughMachinesChangeNothing) {
  const proto::Plan plain = PlanOf({});
  const std::string plenty = Trace("plenty.csv", "0,20\n40000,19\n");
  const proto::Plan plan =
      PlanOf({"--capacity", plain.workers.front().instance_type + "=" + plenty, "--unit", "s"});
  ASSERT_EQ(plan.capacity.size(), 1U);
  EXPECT_NEAR(plan.capacity[0].seconds, plan.seconds.value, 1e-3 * plan.seconds.value);
  EXPECT_NEAR(plan.capacity[0].usd, plan.usd.value, 1e-3 * plan.usd.value);
  EXPECT_GE(plan.capacity[0].in_time, plan.confidence - 1e-6) << "the goal holds at that";
  EXPECT_EQ(plan.capacity[0].revoked, 0);
}

TEST_F(PlanCapacityTest, WhatCantBeReadIsRefused) {
  EXPECT_NE(Run(Flags({"--capacity", "p3.2xlarge"})), 0);
  EXPECT_THAT(err_, HasSubstr("--capacity wants TYPE=TRACE"));
  const std::string brief = Trace("brief.csv", "0,20\n100,19\n");
  EXPECT_NE(Run(Flags({"--capacity", "nothing=" + brief, "--unit", "s"})), 0);
  EXPECT_THAT(err_, HasSubstr("--capacity is of spot machines of nothing"));
  EXPECT_NE(Run(Flags({"--capacity", "g3.8xlarge=" + brief, "--unit", "s"})), 0);
  EXPECT_THAT(err_, HasSubstr("give a longer one"));
}

}  // namespace
}  // namespace ps::psctl
