#include "ps/proto/files/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/proto/files/planning_fields.h"
#include "tests/proto/file_checks.h"

namespace ps::proto {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// Every member away from its default.
Plan SamplePlan() {
  Plan plan;
  plan.job = "cnn";
  plan.model_fingerprint = "9d1f";
  plan.training_fingerprint = "07ab";
  plan.strategy = "exact";
  plan.objective = Objective::kTime;
  plan.speed_model = "queue";
  plan.certainty = Certainty::kProven;
  plan.loss_target = 0.8;
  plan.seconds_max = 2400;
  plan.usd_max = 5;
  plan.usd_per_hour_max = 12;
  plan.confidence = 0.95;
  plan.takeover_s = 30;
  plan.loss_now = 0.9;
  plan.steps_done = 5200;
  plan.pace = 1.1;
  plan.local_steps = 50;
  plan.workers = {
      {"g4dn.4xlarge", Market::kSpot, 2, 128, 0.5, 6e8, 0.3612, 1, "us-east-1a"},
      {"g3.8xlarge", Market::kOnDemand, 1, 64, 0.7, 1.25e9, 2.28, 1, ""}};
  plan.servers = {"m5.xlarge", 2, 1.2e9, 0.192};
  plan.samples_per_s = {800, 750, 850};
  plan.steps = {1e5, 9e4, 1.1e5};
  plan.seconds = {2000, 1800, 2300};
  plan.usd = {3.5, 3, 4};
  plan.bottleneck = "server network";
  plan.server_busy = 0.75;
  plan.computing = 0.6;
  plan.push_bytes_per_sample = 1200;
  plan.pull_bytes_per_sample = 4800;
  plan.alternatives = {
      {"next best", plan.workers, plan.servers, {700, 650, 750}, {2100, 2000, 2300}, {4, 3, 5}, 8}};
  plan.gains = {{"one more g3.8xlarge", 900, 1900, 4.5}};
  plan.quotas = {{"g4dn.4xlarge", 3.25}};
  plan.revocations = {
      0.4, 2100, 3.6, 0.3, 2400, 3.4, 0.1, 120, 5, 780, 2.9, {"a trace"}, {"g3.8xlarge"}};
  plan.if_prices_double = {
      {"the same fleet", plan.workers, plan.servers, {700, 650, 750}, {9, 8, 10}, {7, 6, 8}}};
  plan.notes = {"left out: 2 types"};
  return plan;
}

std::string ErrorOf(const Plan& plan) {
  return tests::ErrorOf(ParsePlan(PrintPlan(plan), "plan.json"));
}

TEST(PlanTest, PrintedPlansReadBackTheSame) {
  const Plan plan = SamplePlan();
  const auto again = ParsePlan(PrintPlan(plan), "plan.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, plan);
}

TEST(PlanTest, WhatIsNotSaidHasTheStructsDefault) {
  const auto parsed = ParsePlan(
      R"({"job": "a", "servers": {"instance_type": "s"},
          "workers": [{"instance_type": "w", "count": 1, "minibatch": 2, "compute_s": 3}]})",
      "plan.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  Plan expected;
  expected.job = "a";
  expected.servers.instance_type = "s";
  expected.workers.resize(1);
  expected.workers[0].instance_type = "w";
  expected.workers[0].count = 1;
  expected.workers[0].minibatch = 2;
  expected.workers[0].compute_s = 3;
  EXPECT_EQ(*parsed, expected);
}

TEST(PlanTest, EveryMemberIsAField) {
  tests::ExpectAllMembersVisited<
      PlanWorkers,
      PlanServers,
      Estimate,
      PlanAlternative,
      PlanGain,
      PlanQuota,
      Plan>();
}

TEST(PlanTest, ValuesAreInTheirIntervalsAndRanges) {
  Plan plan = SamplePlan();
  plan.seconds.high = 1999;
  EXPECT_EQ(
      ErrorOf(plan),
      "plan.json:58:14: seconds is not within its interval; allowed: low, value and high in that "
      "order");
  plan = SamplePlan();
  plan.alternatives[0].usd.low = 4.5;
  EXPECT_THAT(ErrorOf(plan), HasSubstr(": alternatives[0].usd is not within its interval"));
  plan = SamplePlan();
  plan.workers[1].count = 0;
  EXPECT_THAT(ErrorOf(plan), StartsWith("plan.json:34:16: workers[1].count is 0; allowed: a whol"));
  plan = SamplePlan();
  plan.confidence = 1;
  EXPECT_THAT(
      ErrorOf(plan), StartsWith("plan.json:13:17: confidence is 1; allowed: a number abov"));
  plan = SamplePlan();
  plan.workers.clear();
  EXPECT_THAT(ErrorOf(plan), StartsWith("plan.json:19:14: workers has 0 entries; allowed: 1 to "));
}

}  // namespace
}  // namespace ps::proto
