#include "psctl/view/plan_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/report/outcome_view.h"

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;

TEST(PlanViewTest, WhatAJobOfAFewCentsSavesCanBeRead) {
  proto::Plan plan;
  plan.loss_target = 0.5;
  plan.seconds = {60, 50, 70};
  plan.usd = {0.0123, 0.0101, 0.0149};
  plan.quotas = {{"small", 0.0078}};
  const std::string text = RenderPlan(plan, {.width_max = 100});
  EXPECT_THAT(text, HasSubstr("0.012  (0.010 to 0.015)"));
  EXPECT_THAT(text, HasSubstr("the quota of small is used up; one more saves 0.0045 USD"));
}

provisioner::PlanOutcome MakeOutcome() {
  provisioner::PlanOutcome outcome;
  outcome.samples_per_s = {800, 700, 900};
  outcome.measured_samples_per_s = 760;
  outcome.seconds = {60, 50, 70};
  outcome.measured_seconds = 66;
  outcome.steps = {1000, 900, 1100};
  outcome.measured_steps = 1020;
  outcome.loss_target = 0.5;
  outcome.measured_loss = 0.49;
  return outcome;
}

TEST(PlanViewTest, TheOutcomeSaysPredictedMeasuredAndTheError) {
  const provisioner::PlanOutcome outcome = MakeOutcome();
  EXPECT_EQ(
      run::RenderPlanOutcome(outcome),
      "against the plan   predicted    from      to  measured   error\n"
      "samples/s                800     700     900       760  +5.3 %\n"
      "time to the loss      1m 00s  50.0 s  1m 10s    1m 06s  -9.1 %\n"
      "steps to the loss      1,000     900   1,100     1,020  -2.0 %\n"
      "loss 0.4900, planned 0.5000\n");
  EXPECT_THAT(
      run::PlanOutcomeToJson(outcome),
      HasSubstr(R"("samples_per_s":{"predicted":800,"low":700,"high":900,"measured":760})"));
}

TEST(PlanViewTest, ALossThatWasNotReachedHasNoTime) {
  provisioner::PlanOutcome outcome = MakeOutcome();
  outcome.measured_seconds = 0;
  outcome.measured_loss = 0.7;
  EXPECT_THAT(
      run::RenderPlanOutcome(outcome), HasSubstr("loss 0.7000, planned 0.5000: not reached"));
  EXPECT_THAT(run::PlanOutcomeToJson(outcome), HasSubstr(R"("measured":null)"));
}

}  // namespace
}  // namespace ps::psctl
