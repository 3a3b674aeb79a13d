#include "ps/proto/job/step_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/proto/exchange.h"

namespace ps::proto {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

JobConfig Job(const std::string& train, const std::string& exchange = "") {
  const Result<JobConfig> job = ParsePrintedJobConfig(
      R"({"name": "j", "model": {"name": "mlp"}, "data": {"directory": "/none"}, "train": {)" +
      train + R"(}, "exchange": {)" + exchange + R"(}, "workers": [{"count": 2}]})");
  EXPECT_TRUE(job.ok()) << job.status();
  return job.value();
}

StepChoice First(const JobConfig& job) {
  return {StepSettingsOf(job), AutoSettingsOf(job)};
}

std::string ErrorOf(const JobConfig& job, const std::vector<ConfigOverride>& changes) {
  const Result<StepChoice> next = ChangeSteps(job, First(job), changes);
  return next.ok() ? "none" : std::string(next.status().message());
}

TEST(StepSettingsTest, EveryKeyChangesItsOwnField) {
  const JobConfig job = Job(R"("local_steps": 8)");
  const Result<StepChoice> next = ChangeSteps(
      job,
      First(job),
      {{"exchange.push", "topk:0.02"},
       {"exchange.pull", "bf16"},
       {"exchange.error_feedback", "false"},
       {"train.local_steps", "20"},
       {"train.local_steps_by_speed", "true"}});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->settings.push.ToText(), "topk:0.02");
  EXPECT_EQ(next->settings.pull.ToText(), "bf16");
  EXPECT_FALSE(next->settings.has_feedback);
  EXPECT_EQ(next->settings.local_steps, 20U);
  EXPECT_TRUE(next->settings.is_by_speed);
  EXPECT_EQ(
      StepSettingsText(next->settings, StepSettingsOf(job)),
      "exchange.push=topk:0.02, exchange.pull=bf16, exchange.error_feedback=false, "
      "train.local_steps=20, train.local_steps_by_speed=true");
  EXPECT_EQ(StepSettingsText(next->settings, next->settings), "");
}

TEST(StepSettingsTest, WhatIsNotNamedStaysAsItIsNowNotAsTheJobBegan) {
  const JobConfig job = Job(R"("local_steps": 8)");
  StepChoice now = First(job);
  now.settings.push = {codec::EncodingKind::kInt8};
  now.settings.local_steps = 30;
  const Result<StepChoice> next = ChangeSteps(job, now, {{"exchange.pull", "bf16"}});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->settings.push, now.settings.push);
  EXPECT_EQ(next->settings.local_steps, 30U);
}

TEST(StepSettingsTest, AutoBeginsWithWhatIsInForceAndAValueEndsIt) {
  const JobConfig job = Job(R"("local_steps": 8)");
  StepChoice now = First(job);
  now.settings.push = {codec::EncodingKind::kInt8};
  now.settings.local_steps = 30;
  Result<StepChoice> next =
      ChangeSteps(job, now, {{"exchange.push", "auto"}, {"train.local_steps", "auto"}});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->chosen, (AutoSettings{true, true}));
  EXPECT_EQ(next->settings, now.settings);
  next = ChangeSteps(job, *next, {{"exchange.push", "bf16"}});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->chosen, (AutoSettings{false, true}));
  EXPECT_EQ(next->settings.push.ToText(), "bf16");
  EXPECT_EQ(next->settings.local_steps, 30U);
}

TEST(StepSettingsTest, AJobFileMayLeaveBothToTheLinks) {
  const JobConfig job = Job(R"("local_steps": "auto")", R"("push": "auto")");
  EXPECT_EQ(AutoSettingsOf(job), (AutoSettings{true, true}));
  EXPECT_EQ(StepSettingsOf(job).local_steps, kAutoLocalSteps);
  EXPECT_FALSE(StepSettingsOf(job).push.is_lossy());
  const Result<JobConfig> again = ParsePrintedJobConfig(PrintJobConfig(job));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, job);
}

TEST(StepSettingsTest, WhatCanNotChangeIsRefusedWithWhatToDoInstead) {
  const JobConfig job = Job(R"("local_steps": 8)");
  EXPECT_THAT(
      ErrorOf(job, {{"optimizer.lr", "0.5"}}),
      AllOf(
          HasSubstr("optimizer.lr can't change while the job trains, and these can: exchange.push"),
          HasSubstr("psctl stop, then psctl resume --set optimizer.lr=0.5")));
  EXPECT_THAT(ErrorOf(job, {{"train.mode", "bsp"}}), HasSubstr("psctl mode"));
  EXPECT_THAT(ErrorOf(job, {{"servers.count", "2"}}), HasSubstr("psctl scale"));
  EXPECT_THAT(ErrorOf(job, {{"exchange.psuh", "int8"}}), HasSubstr("did you mean \"push\"?"));
  EXPECT_THAT(ErrorOf(job, {{"exchange.push", "topk:0.9"}}), HasSubstr("no share"));
  EXPECT_THAT(ErrorOf(job, {{"exchange.pull", "topk:0.1"}}), HasSubstr("one of f32, bf16"));
  EXPECT_THAT(ErrorOf(job, {{"train.local_steps", "0"}}), HasSubstr("or \"auto\""));
  EXPECT_THAT(ErrorOf(job, {{"train.local_steps", "10001"}}), HasSubstr("allowed"));
  EXPECT_THAT(ErrorOf(job, {{"train.local_steps", "1"}}), HasSubstr("allowed: 2 or more"));
  EXPECT_THAT(ErrorOf(job, {{"train.local_steps", "many"}}), HasSubstr("or \"auto\""));
  EXPECT_THAT(ErrorOf(job, {}), HasSubstr("nothing is to change"));
}

TEST(StepSettingsTest, AStepHasNoMoreSamplesThanItCanNameAfterAChange) {
  const JobConfig job = Job(R"("local_steps": 8, "minibatch": 8192)");
  EXPECT_THAT(ErrorOf(job, {{"train.local_steps", "4096"}}), HasSubstr("samples a step"));
}

TEST(StepSettingsTest, LocalStepsNeitherBeginNorEndWithinARun) {
  EXPECT_THAT(
      ErrorOf(Job(""), {{"train.local_steps", "8"}}),
      HasSubstr("in a job that began with train.local_steps 1"));
  EXPECT_THAT(
      ErrorOf(Job(""), {{"train.local_steps_by_speed", "true"}}),
      HasSubstr("in a job that began with train.local_steps 1"));
}

TEST(StepSettingsTest, WhatADeviceRoundsCanNotBeEncodedOtherwise) {
  const JobConfig job = Job(R"("gradient_dtype": "bf16")");
  for (const char* push : {"int8", "f32", "auto"}) {
    EXPECT_THAT(
        ErrorOf(job, {{"exchange.push", push}}),
        AllOf(HasSubstr("train.gradient_dtype has devices round"), HasSubstr(push)));
  }
  EXPECT_EQ(ErrorOf(job, {{"exchange.pull", "bf16"}}), "none");
}

}  // namespace
}  // namespace ps::proto
