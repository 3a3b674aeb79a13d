#include "psctl/plan_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;

TEST(PlanViewTest, WhatAJobOfAFewCentsSavesCanBeRead) {
  proto::Plan plan;
  plan.loss_target = 0.5;
  plan.seconds = {60, 50, 70};
  plan.usd = {0.0123, 0.0101, 0.0149};
  plan.quotas = {{"small", 0.0078}};
  const std::string text = RenderPlan(plan, /*has_held=*/false, 100);
  EXPECT_THAT(text, HasSubstr("0.012  (0.010 to 0.015)"));
  EXPECT_THAT(text, HasSubstr("the quota of small is used up; one more saves 0.0045 USD"));
}

}  // namespace
}  // namespace ps::psctl
