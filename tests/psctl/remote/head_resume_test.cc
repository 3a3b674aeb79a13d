#include "psctl/remote/head_resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/job_index.h"
#include "ps/base/durable_file.h"
#include "run/directory/head_file.h"
#include "tests/base/temporary_folder.h"

namespace ps::psctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HeadResumeTest : public ::testing::Test {
 protected:
  /// A run of this machine's runs, with a head as `head` says.
  void Write(const run::HeadFile& head, const std::string& copy_to) {
    proto::JobConfig config;
    config.name = "job";
    config.data.directory = "/no/such/data";
    config.model.name = "mlp";
    config.model.from = "/no/such/model";
    config.checkpoint.copy_to = copy_to;
    std::filesystem::create_directories(run_.root);
    ASSERT_TRUE(WriteFileAtomically(run_.config(), proto::PrintJobConfig(config)).ok());
    ASSERT_TRUE(run::WriteHeadFile(run_, head).ok());
    ASSERT_TRUE(WriteFileAtomically(run_.lock(), "").ok());
  }

  Result<std::optional<HeadResume>> Resume(
      const std::string& from, const std::vector<proto::ConfigOverride>& changes = {}) {
    run::ResumeOrder order;
    order.from = from;
    order.overrides = changes;
    return HeadResumeOf(order, run::RunRegistry(folder_ / "links", {folder_ / "runs"}));
  }

  const TemporaryFolder folder_;
  const run::RunPaths run_ = {folder_ / "runs/job-20261129-160000"};
};

TEST_F(HeadResumeTest, WhatWasLostWithItsHeadIsGoneOnWithFromItsCopies) {
  run::HeadFile head;
  head.is_given_back = true;
  Write(head, "s3://bucket/job");
  const auto resume = Resume(run_.root, {{"workers[0].count", "4"}});
  ASSERT_TRUE(resume.ok()) << resume.status();
  ASSERT_TRUE(resume->has_value());
  EXPECT_EQ((*resume)->beginning.from, "s3://bucket/job");
  EXPECT_THAT((*resume)->beginning.changes, ElementsAre("workers[0].count=4"));
  EXPECT_EQ((*resume)->config.workers[0].count, 4U);
  EXPECT_EQ((*resume)->config.model.from, "") << "the checkpoint has the values";
}

TEST_F(HeadResumeTest, WithoutACheckpointOrACopyThereIsNothingToGoOnFrom) {
  run::HeadFile head;
  head.is_given_back = true;
  Write(head, "");
  const auto resume = Resume(run_.root);
  EXPECT_EQ(resume.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(resume.status().message()), HasSubstr("has left no checkpoint"));
}

/// Its head was lost before it had a checkpoint of its own.
TEST_F(HeadResumeTest, ChangesOfTheResumeBeforeStay) {
  run::HeadFile head;
  head.is_given_back = true;
  head.changes = {"workers[0].count=8", "train.epochs=3"};
  Write(head, "s3://bucket/job");
  const auto resume = Resume(run_.root, {{"workers[0].count", "4"}});
  ASSERT_TRUE(resume.ok() && resume->has_value()) << resume.status();
  EXPECT_THAT(
      (*resume)->beginning.changes,
      ElementsAre("workers[0].count=8", "train.epochs=3", "workers[0].count=4"));
}

/// The rest of them went with the head.
TEST_F(HeadResumeTest, CheckpointsThatHaveNotAllArrivedDoNotHideTheCopies) {
  run::HeadFile head;
  head.is_given_back = true;
  Write(head, "s3://bucket/job");
  std::filesystem::create_directories(run_.checkpoints() + "/job");
  const auto resume = Resume(run_.root);
  ASSERT_TRUE(resume.ok() && resume->has_value()) << resume.status();
  EXPECT_EQ((*resume)->beginning.from, "s3://bucket/job");
}

TEST_F(HeadResumeTest, ARunThatIsStillOnItsHeadIsFetchedFirst) {
  Write({}, "s3://bucket/job");
  const auto resume = Resume(run_.root);
  EXPECT_EQ(resume.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(resume.status().message()), HasSubstr("psctl attach job-20261129"));
}

TEST_F(HeadResumeTest, OtherRunsAndPlacesAreGoneOnWithHere) {
  Write({}, "");
  std::filesystem::remove(run_.head());
  EXPECT_FALSE(Resume(run_.root)->has_value());
  EXPECT_FALSE(Resume("s3://bucket/job")->has_value());
  EXPECT_FALSE(Resume("no-such-run")->has_value()) << "who begins it says why it can't";
}

/// Going on with them here would wait for an address that went with the head.
TEST_F(HeadResumeTest, TheCheckpointsThatItLeftHereAreNamedInsteadOfTheRun) {
  run::HeadFile head;
  head.is_given_back = true;
  Write(head, "s3://bucket/job");
  std::filesystem::create_directories(checkpoint::JobDirectory(run_.checkpoints()));
  for (const std::string& named : {run_.checkpoints(), run_.checkpoints() + "/"}) {
    const auto resume = Resume(named);
    ASSERT_TRUE(resume.ok() && resume->has_value()) << named << resume.status();
    EXPECT_EQ((*resume)->beginning.from, "s3://bucket/job") << "they have not all arrived";
  }
  std::filesystem::remove(run_.head());
  EXPECT_FALSE(Resume(run_.checkpoints())->has_value());
}

TEST_F(HeadResumeTest, ChangesThatMakeNoSenseAreNamedBeforeAnythingIsRented) {
  run::HeadFile head;
  head.is_given_back = true;
  Write(head, "s3://bucket/job");
  const auto resume = Resume(run_.root, {{"worker.count", "4"}});
  EXPECT_EQ(resume.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(resume.status().message()), HasSubstr("unknown field \"count\" in worker"));
}

}  // namespace
}  // namespace ps::psctl
