#include "psctl/plan_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;

TEST(PlanViewTest, WhatAJobOfAFewCentsSavesCanBeRead) {
  PlanView view;
  view.plan.loss_target = 0.5;
  view.plan.seconds = {60, 50, 70};
  view.plan.usd = {0.0123, 0.0101, 0.0149};
  view.quotas = {{"small", 0.0078}};
  const std::string text = RenderPlan(view, 100);
  EXPECT_THAT(text, HasSubstr("0.012  (0.010 to 0.015)"));
  EXPECT_THAT(text, HasSubstr("the quota of small is used up; one more saves 0.0045 USD"));
}

}  // namespace
}  // namespace ps::psctl
