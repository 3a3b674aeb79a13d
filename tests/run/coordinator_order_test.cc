#include "run/directory/coordinator_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ps::run {
namespace {

using ::testing::HasSubstr;

Result<CoordinatorOrder> Parse(const std::vector<std::string>& words) {
  std::vector<const char*> arguments = {"ps_coordinator"};
  for (const std::string& word : words) {
    arguments.push_back(word.c_str());
  }
  return ParseOrder(static_cast<int>(arguments.size()), arguments.data());
}

TEST(CoordinatorOrderTest, AJobArrivesAsItWasOrdered) {
  TrainOrder order;
  order.job_path = "--odd name.json";
  order.overrides = {{"train.epochs", "2"}, {"name", ""}, {"launch.prefix", "a=b --json"}};
  order.plan_path = "plan.json";
  order.profile_path = "p.json";
  order.no_refine = true;
  order.is_json = true;
  order.is_detached = true;
  const Result<CoordinatorOrder> parsed = Parse(WordsOf(order));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const auto& train = std::get<TrainOrder>(*parsed);
  EXPECT_EQ(train.job_path, order.job_path);
  ASSERT_EQ(train.overrides.size(), 3U);
  EXPECT_EQ(train.overrides[1].key, "name");
  EXPECT_EQ(train.overrides[1].value, "");
  EXPECT_EQ(train.overrides[2].value, "a=b --json");
  EXPECT_EQ(train.plan_path, "plan.json");
  EXPECT_EQ(train.profile_path, "p.json");
  EXPECT_TRUE(train.no_refine && train.is_json && train.is_detached);
}

TEST(CoordinatorOrderTest, WhatIsNotOrderedIsNotDone) {
  TrainOrder order;
  order.job_path = "job.json";
  const Result<CoordinatorOrder> parsed = Parse(WordsOf(order));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const auto& train = std::get<TrainOrder>(*parsed);
  EXPECT_FALSE(train.no_refine || train.is_json || train.is_detached);
  EXPECT_TRUE(train.overrides.empty());
  EXPECT_EQ(train.plan_path + train.profile_path, "");
}

TEST(CoordinatorOrderTest, ARunToGoOnWithArrivesAsItWasOrdered) {
  ResumeOrder order;
  order.from = "runs/a";
  order.overrides = {{"workers.0.count", "3"}};
  order.is_trusted = true;
  order.is_json = true;
  const Result<CoordinatorOrder> parsed = Parse(WordsOf(order));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const auto& resume = std::get<ResumeOrder>(*parsed);
  EXPECT_EQ(resume.from, "runs/a");
  ASSERT_EQ(resume.overrides.size(), 1U);
  EXPECT_EQ(resume.overrides[0].value, "3");
  EXPECT_TRUE(resume.is_trusted && resume.is_json);
  EXPECT_FALSE(resume.is_detached);
}

TEST(CoordinatorOrderTest, WordsThatMakeNoOrderAreMisuse) {
  EXPECT_THAT(Parse({}).status().message(), HasSubstr("one of --job and --resume"));
  EXPECT_THAT(
      Parse({"--job", "a", "--resume", "b"}).status().message(),
      HasSubstr("one of --job and --resume"));
  EXPECT_THAT(Parse({"--job", "a", "--json", "no"}).status().message(), HasSubstr("takes yes"));
  EXPECT_THAT(Parse({"--job", "a", "--", "b"}).status().message(), HasSubstr("not KEY=VALUE"));
  EXPECT_THAT(Parse({"--jbo", "a"}).status().message(), HasSubstr("did you mean --job?"));
}

}  // namespace
}  // namespace ps::run
