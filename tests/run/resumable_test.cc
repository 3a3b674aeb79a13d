#include "run/directory/resumable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/job_index.h"
#include "run/directory/run_directory.h"
#include "tests/base/temporary_folder.h"
#include "tests/run/dates.h"

namespace ps::run {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr int64_t kDayMicros = int64_t{24} * 3600 * 1'000'000;

class ResumableTest : public ::testing::Test {
 protected:
  /// One that has ended. Returns its folder.
  RunPaths End(const std::string& name, int day, bool has_checkpoints) const {
    auto run = RunDirectory::Create(root_ / "runs", name, kNoonMicros + day * kDayMicros);
    EXPECT_TRUE(run.ok()) << run.status();
    if (has_checkpoints) {
      std::filesystem::create_directories(checkpoint::JobDirectory(run->paths().checkpoints()));
    }
    return run->paths();
  }

  Result<RunPaths> Resolve(const std::string& name) const {
    return ResolveToResume(name, RunRegistry(root_ / "links", {root_ / "runs"}));
  }

  TemporaryFolder root_;
};

TEST_F(ResumableTest, AJobsNameMeansItsNewestRunThatCanBeResumed) {
  End("mnist", 0, true);
  const RunPaths newest = End("mnist", 1, true);
  End("mnist", 2, false);
  End("other", 3, true);
  ASSERT_TRUE(Resolve("mnist").ok()) << Resolve("mnist").status();
  EXPECT_EQ(Resolve("mnist")->root, newest.root);
  EXPECT_TRUE(Resolve("mnist-20240131-120000").ok()) << "a run's own name means that run";
}

TEST_F(ResumableTest, WhoIsNotFoundIsToldWhatCanBeResumedAndNothingElse) {
  EXPECT_THAT(
      std::string(Resolve("mnist").status().message()),
      EndsWith("no run 'mnist' that can be resumed"));
  End("mnist", 0, false);
  End("other", 1, true);
  End("third", 2, true);
  EXPECT_THAT(
      std::string(Resolve("mnist").status().message()),
      HasSubstr("these can be resumed: third-20240202-120000, other-20240201-120000"));
}

TEST_F(ResumableTest, ARunThatGoesOnIsFoundSoThatWhoResumesItIsToldSo) {
  End("mnist", 0, true);
  const auto running = RunDirectory::Create(root_ / "runs", "mnist", kNoonMicros + kDayMicros);
  ASSERT_TRUE(running.ok());
  EXPECT_EQ(Resolve("mnist")->root, running->paths().root);
}

}  // namespace
}  // namespace ps::run
