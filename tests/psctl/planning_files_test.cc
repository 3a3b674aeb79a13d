#include "run/planning/planning_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "ps/base/file.h"
#include "tests/psctl/command_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(CheckSameJobTest, OnlyWhatIsKnownToDifferIsRefused) {
  proto::JobProfile older;
  older.model_fingerprint = "0000000a";
  proto::JobProfile newer = older;
  newer.training_fingerprint = "0000000b";
  EXPECT_TRUE(run::CheckSameJob("p", older, newer).ok()) << "an old profile has no such mark";
  older.training_fingerprint = "0000000c";
  EXPECT_THAT(
      std::string(run::CheckSameJob("p", older, newer).message()),
      StartsWith("p is of a job that trains otherwise"));
  newer.model_fingerprint = "0000000d";
  EXPECT_THAT(
      std::string(run::CheckSameJob("p", older, newer).message()), HasSubstr("of another model"));
}

TEST(CheckSameJobTest, AnotherExchangeIsAnotherProfile) {
  const proto::JobProfile older;
  proto::JobProfile newer;
  newer.push = "int8";
  EXPECT_THAT(
      std::string(run::CheckSameJob("p", older, newer).message()),
      HasSubstr("train.local_steps 1, exchange.push f32 and exchange.pull f32, this job has "
                "train.local_steps 1, exchange.push int8 and"));
  newer = older;
  newer.local_steps = 8;
  EXPECT_FALSE(run::CheckSameJob("p", older, newer).ok());
}

class ProfileFileTest : public CommandFixture {};

TEST_F(ProfileFileTest, RunsThatEndAtOnceAllLeaveWhatTheyTold) {
  const std::string path = root_ / "profile.json";
  constexpr int kRuns = 8;
  std::vector<std::thread> runs;
  for (int i = 0; i < kRuns; ++i) {
    runs.emplace_back([&path, i] {
      const auto update = run::UpdateProfileFile(path, [i](const proto::JobProfile* older) {
        proto::JobProfile profile = older == nullptr ? proto::JobProfile() : *older;
        profile.job = "job";
        profile.parameter_bytes = 1;
        profile.fleets.push_back({.workers = {"w" + std::to_string(i)}, .steps_per_s = 1});
        return Result<proto::JobProfile>(profile);
      });
      EXPECT_TRUE(update.ok()) << update.status();
    });
  }
  for (std::thread& run : runs) {
    run.join();
  }
  const auto text = ReadFile(path);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto profile = proto::ParseProfile(*text, path);
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->fleets.size(), static_cast<size_t>(kRuns));
}

TEST_F(ProfileFileTest, WhatIsNoProfileIsLeftAsItIs) {
  const std::string path = root_ / "profile.json";
  ASSERT_TRUE(WriteFileAtomically(path, "{\"jobs\": 1}").ok());
  const auto update = run::UpdateProfileFile(path, [](const proto::JobProfile*) {
    return Result<proto::JobProfile>(proto::JobProfile());
  });
  EXPECT_THAT(std::string(update.status().message()), HasSubstr("profile.json:1:"));
  EXPECT_EQ(*ReadFile(path), "{\"jobs\": 1}");
}

TEST_F(ProfileFileTest, AFolderThatIsNotThereIsNamed) {
  const auto update = run::UpdateProfileFile(
      root_ / "none/profile.json",
      [](const proto::JobProfile*) { return Result<proto::JobProfile>(proto::JobProfile()); });
  EXPECT_THAT(std::string(update.status().message()), HasSubstr("/none/profile.json"));
}

}  // namespace
}  // namespace ps::psctl
