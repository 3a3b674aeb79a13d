#include "ps/proto/files/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/proto/files/planning_fields.h"
#include "tests/proto/file_checks.h"

namespace ps::proto {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// Every member away from its default.
JobProfile SampleProfile() {
  JobProfile profile;
  profile.job = "cnn";
  profile.model_fingerprint = "9d1f";
  profile.training_fingerprint = "07ab";
  profile.parameter_bytes = 6.9e6;
  profile.push_bytes = 1.7e6;
  profile.pull_bytes = 6.8e6;
  profile.server_bytes = 2.7e7;
  profile.server_bytes_per_worker = 6.9e6;
  profile.request_bytes_per_s = 1.1e8;
  profile.overlap = 0.25;
  profile.local_steps = 4;
  profile.workers = {
      {"local", 64, 0.1, 0.01, 30, 512}, {"local", 128, 0.19, 0.02, 30, 512, false, 4e7, 3e7}};
  profile.fleets = {{{"local", "g4dn.xlarge"}, 2, 1.25e8, 12.5, 800, 20}};
  profile.losses = {{1000, 0.5, 64, 0.7, 2, 0.1}};
  profile.contention = {0.3, -0.1, 0.02, 7};
  profile.queue = {0.6, 0.001, 0.03, 8};
  profile.loss = {1, -2, 3, 0.4, 0.05, false, 0.06, 9};
  profile.curves = {
      70, 0.8, 0.3, 64, 0.5, {{1, 1}, {2, 1.1, 0.2, {0.9, 1.2}}}, {0.8, 0.6}, 0.6, 0.04, 90};
  profile.penalties = {
      {8, "", "", "async", 1.1, 64000},
      {8, "", "", "bsp", 1.05, 64000},
      {8, "int8", "bf16", "async", 1.15, 64000}};
  profile.starts = {
      {"g4dn.xlarge", "us-east-1a", "ec2", 41.5, 80, 94}, {"local", "", "local", 0, 0.2, 0}};
  return profile;
}

std::string ErrorOf(const JobProfile& profile) {
  return tests::ErrorOf(ParseProfile(PrintProfile(profile), "p.json"));
}

TEST(ProfileTest, PrintedProfilesReadBackTheSame) {
  const JobProfile profile = SampleProfile();
  const auto again = ParseProfile(PrintProfile(profile), "p.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, profile);
}

/// What was measured with it is as good as before.
TEST(ProfileTest, OneOfAnEarlierProgramIsReadWithoutWhatNobodyUsesAnyMore) {
  const auto parsed = ParseProfile(
      R"({"job": "a", "parameter_bytes": 8, "steps": [{"instance_type": "x"}], "link": {}})",
      "p.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->parameter_bytes, 8U);
  EXPECT_FALSE(ParseProfile(R"({"job": "a", "parameter_bytes": 8, "stop": 1})", "p.json").ok());
}

TEST(ProfileTest, WhatIsNotSaidHasTheStructsDefault) {
  const auto parsed = ParseProfile(R"({"job": "a", "parameter_bytes": 8})", "p.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  JobProfile expected;
  expected.job = "a";
  expected.parameter_bytes = 8;
  EXPECT_EQ(*parsed, expected);
}

TEST(ProfileTest, EveryMemberIsAField) {
  tests::ExpectAllMembersVisited<
      WorkerProfile,
      FleetSample,
      LossSample,
      ContentionFit,
      QueueFit,
      LossFit,
      FleetFactor,
      CurveFit,
      ExchangePenalty,
      StartSample,
      JobProfile>();
}

TEST(ProfileTest, FindsTheFirstOfAType) {
  const JobProfile profile = SampleProfile();
  ASSERT_NE(profile.Find("local"), nullptr);
  EXPECT_EQ(profile.Find("local")->minibatch, 64);
  EXPECT_EQ(profile.Find("p3.2xlarge"), nullptr);
}

TEST(ProfileTest, MeasuredFiguresHaveToBePossible) {
  JobProfile profile = SampleProfile();
  profile.workers[1].minibatch = 64;
  EXPECT_THAT(ErrorOf(profile), StartsWith("p.json:24:5: workers[1] has the instance_type and "));
  profile = SampleProfile();
  profile.workers[0].minibatch = 600;
  EXPECT_THAT(
      ErrorOf(profile), StartsWith("p.json:18:20: workers[0].minibatch is 600, above minibatch_"));
  profile = SampleProfile();
  profile.workers[0].compute_s = 0;
  EXPECT_THAT(ErrorOf(profile), StartsWith("p.json:19:20: workers[0].compute_s is 0; allowed: "));
  profile = SampleProfile();
  profile.parameter_bytes = 0;
  EXPECT_THAT(ErrorOf(profile), StartsWith("p.json:5:22: parameter_bytes is 0; allowed: a number"));
  profile = SampleProfile();
  profile.queue.wait_share = 1.5;
  EXPECT_THAT(ErrorOf(profile), StartsWith("p.json:65:19: queue.wait_share is 1.5; allowed: "));
}

TEST(ProfileTest, AnExchangeHasOnePenaltyInAMode) {
  JobProfile profile = SampleProfile();
  profile.penalties[1].mode = "async";
  EXPECT_THAT(
      ErrorOf(profile),
      HasSubstr(
          "penalties[1] is of 8 local steps, push f32 and pull f32 in mode async, as one before"));
  profile.penalties[0].push = "int8";
  EXPECT_EQ(ErrorOf(profile), "no error");
  profile.penalties[0].pull = "bf16";
  EXPECT_THAT(ErrorOf(profile), HasSubstr("penalties[2] is of 8 local steps, push int8 and"));
  profile.penalties[1].mode = "sometimes";
  EXPECT_THAT(ErrorOf(profile), HasSubstr("penalties[1].mode"));
}

TEST(ProfileTest, EncodingsAreThoseThatThereAre) {
  JobProfile profile = SampleProfile();
  profile.push = "int2";
  EXPECT_THAT(ErrorOf(profile), HasSubstr("push: "));
  profile = SampleProfile();
  profile.penalties[2].pull = "int2";
  EXPECT_THAT(ErrorOf(profile), HasSubstr("penalties[2].pull: "));
}

TEST(ProfileTest, CurvesHaveAsManyFactorsAsLosses) {
  JobProfile profile = SampleProfile();
  profile.curves.losses = {0.8, 0.8};
  EXPECT_THAT(ErrorOf(profile), HasSubstr("curves.losses has to fall"));
  profile = SampleProfile();
  profile.curves.fleets[1].by_loss.pop_back();
  EXPECT_THAT(ErrorOf(profile), HasSubstr("curves.fleets[1].by_loss has 1 values; allowed: 2,"));
}

TEST(ProfileTest, StartsHaveToBePossible) {
  JobProfile profile = SampleProfile();
  profile.starts[0].step_s = -1;
  EXPECT_THAT(ErrorOf(profile), HasSubstr("starts[0].step_s is -1; allowed: "));
  profile = SampleProfile();
  profile.starts[1].launcher = "by hand";
  EXPECT_THAT(ErrorOf(profile), HasSubstr("starts[1].launcher"));
}

}  // namespace
}  // namespace ps::proto
