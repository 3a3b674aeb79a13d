// What a job that comes with a copy may start, and what is asked about it.

#include "run/directory/borrowed_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/checkpoint/memory_storage.h"

namespace ps::run {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

proto::JobConfig JobWith(const std::string& prefix, const std::string& copy_to) {
  proto::JobConfig config;
  config.launch.prefix = prefix;
  config.checkpoint.copy_to = copy_to;
  return config;
}

TEST(BorrowedJobTest, WhatTheUserNamedIsNotAskedAbout) {
  const std::string place = "s3://bucket/a?endpoint=http://h:1";
  EXPECT_THAT(SettingsToConfirm(JobWith("", place), {}, place), IsEmpty());
  EXPECT_THAT(SettingsToConfirm(JobWith("", place + "&region=x"), {}, place), IsEmpty());
  for (const std::string other :
       {"s3://bucket/b?endpoint=http://h:1",
        "s3://bucket/a",
        "s3://bucket/a?endpoint=http://h:2",
        "/home/a"}) {
    EXPECT_THAT(
        SettingsToConfirm(JobWith("", other), {}, place),
        ElementsAre(proto::JobSetting{"checkpoint.copy_to", other}));
  }
  EXPECT_THAT(SettingsToConfirm(JobWith("", "/copies/a/"), {}, "file:///copies/b/../a"), IsEmpty());
  EXPECT_THAT(
      SettingsToConfirm(JobWith("sh x", place), {}, place),
      ElementsAre(proto::JobSetting{"launch.prefix", "sh x"}));
  EXPECT_THAT(
      SettingsToConfirm(JobWith("mine", place), {{"launch.prefix", "mine"}}, place), IsEmpty());
}

TEST(BorrowedJobTest, TheRunsFolderIsNotThatOfAnotherMachine) {
  proto::JobConfig config;
  config.run.directory = "/somewhere";
  EXPECT_EQ(BorrowedRunDirectory(config, {}), "runs");
  EXPECT_EQ(BorrowedRunDirectory(config, {{"run.directory", "/somewhere"}}), "/somewhere");
}

TEST(ConfirmationTest, WithoutAnAnswerItSaysWhatAndHow) {
  const std::vector<proto::JobSetting> settings = {{"launch.prefix", "sh\nx"}};
  const Status refused = Confirmation(false, nullptr).Confirm(settings, "s3://b/p");
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("  launch.prefix = \"sh?x\"\n"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the job in s3://b/p starts programs"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("--trust-launch"));
  EXPECT_TRUE(Confirmation(true, nullptr).Confirm(settings, "s3://b/p").ok());
  EXPECT_TRUE(Confirmation(false, nullptr).Confirm({}, "s3://b/p").ok());
}

TEST(ConfirmationTest, TheSameIsAskedOnceAndWhatChangedAgain) {
  std::vector<bool> answers = {false, true, true};
  Confirmation confirmation(false, [&](const std::string& question) {
    EXPECT_THAT(question, HasSubstr("Go on with it?"));
    const bool answer = answers.back();
    answers.pop_back();
    return answer;
  });
  EXPECT_TRUE(confirmation.Confirm({{"launch.prefix", "a"}}, "p").ok());
  EXPECT_TRUE(confirmation.Confirm({{"launch.prefix", "a"}}, "p").ok());
  EXPECT_EQ(answers.size(), 2U);
  EXPECT_TRUE(confirmation.Confirm({{"launch.prefix", "b"}}, "p").ok());
  EXPECT_FALSE(confirmation.Confirm({{"launch.prefix", "c"}}, "p").ok());
}

TEST(OriginTest, ItIsOfTheFetchedCheckpointsAlone) {
  checkpoint::MemoryStorage storage;
  const auto store = checkpoint::JobStore::Open(storage, "p", checkpoint::OpenMode::kWrite);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(*OriginOf(**store, 1), "");
  ASSERT_TRUE(NoteOrigin(**store, 7, "s3://b/a place").ok());
  EXPECT_EQ(*OriginOf(**store, 7), "s3://b/a place");
  EXPECT_EQ(*OriginOf(**store, 3), "s3://b/a place");
  EXPECT_EQ(*OriginOf(**store, 8), "");
}

}  // namespace
}  // namespace ps::run
