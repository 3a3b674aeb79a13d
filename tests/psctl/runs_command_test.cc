#include "psctl/runs_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ps/base/file.h"
#include "psctl/summary.h"
#include "tests/psctl/command_fixture.h"
#include "tests/psctl/dates.h"
#include "tests/psctl/sample_status.h"

namespace ps::psctl {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class RunsCommandTest : public CommandFixture {
 protected:
  /// A run directory whose run goes on as long as the object lives.
  RunDirectory Begin(const std::string& name) const {
    auto run = RunDirectory::Create(root_ / "runs", name, kNoonMicros);
    EXPECT_TRUE(run.ok()) << run.status();
    return std::move(run).value();
  }

  RunPaths MakeEnded(const std::string& name, const std::string& state) const {
    const RunPaths paths = Begin(name).paths();
    proto::JobStatus status = MakeStatus();
    status.state = state;
    EXPECT_TRUE(WriteFileAtomically(paths.summary_json(), SummaryToJson(status, "")).ok());
    return paths;
  }
};

TEST_F(RunsCommandTest, WithoutRunsThePlaceIsNamed) {
  EXPECT_EQ(Run({"runs"}), kExitOk);
  EXPECT_THAT(out_, IsEmpty());
  EXPECT_EQ(err_, "there are no runs in " + root_ / "runs\n");
  EXPECT_EQ(Run({"runs", "--json"}), kExitOk);
  EXPECT_EQ(out_, "[]\n");
}

TEST_F(RunsCommandTest, RunsAreListedWithStateStartSamplesLossAndPlace) {
  MakeEnded("mnist", "done");
  const RunPaths killed = Begin("cifar").paths();
  const RunDirectory running = Begin("other");
  std::filesystem::create_directory(root_ / "runs/notes");
  EXPECT_EQ(Run({"runs"}), kExitOk);
  EXPECT_THAT(
      out_,
      AllOf(
          ContainsRegex("mnist-20240131-120000 +done +2024-01-31 12:00:00 +[0-9,]+ +[0-9,]+ +0\\."),
          ContainsRegex("cifar-20240131-120000 +killed .* - .*" + killed.root),
          ContainsRegex("other-20240131-120000 +does not answer"),
          Not(HasSubstr("notes"))));
  EXPECT_EQ(Run({"runs", "--json"}), kExitOk);
  EXPECT_THAT(
      out_,
      AllOf(
          HasSubstr(R"("run":"mnist-20240131-120000","job":"mnist","state":"done")"),
          HasSubstr(R"("train_loss":null)")));
  EXPECT_EQ(Run({"runs", "--names"}), kExitOk);
  EXPECT_EQ(out_, "cifar-20240131-120000\nmnist-20240131-120000\nother-20240131-120000\n");
}

TEST_F(RunsCommandTest, PruneRemovesEndedRunsAloneAndSaysWhich) {
  const RunPaths done = MakeEnded("mnist", "done");
  const RunPaths killed = Begin("cifar").paths();
  const RunDirectory running = Begin("other");
  std::filesystem::create_directory(root_ / "runs/notes");
  EXPECT_EQ(Run({"runs", "--prune"}), kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr(done.root), HasSubstr(killed.root), Not(HasSubstr("other-"))));
  EXPECT_THAT(err_, HasSubstr("removing 2 runs, "));
  EXPECT_FALSE(std::filesystem::exists(done.root));
  EXPECT_FALSE(std::filesystem::exists(killed.root));
  EXPECT_TRUE(std::filesystem::exists(running.paths().root));
  EXPECT_TRUE(std::filesystem::exists(root_ / "runs/notes"));
  EXPECT_EQ(Run({"runs", "--prune"}), kExitOk);
  EXPECT_THAT(err_, HasSubstr("no ended run"));
}

TEST_F(RunsCommandTest, PruneKeepsCheckpointsOfARunThatDidNotEndWell) {
  const RunPaths failed = MakeEnded("mnist", "failed");
  const RunPaths done = MakeEnded("cifar", "done");
  for (const RunPaths& run : {failed, done}) {
    std::filesystem::create_directories(run.root + "/checkpoints/1");
  }
  EXPECT_EQ(Run({"runs", "--prune"}), kExitOk);
  EXPECT_THAT(err_, AllOf(HasSubstr("is kept"), HasSubstr(failed.root)));
  EXPECT_TRUE(std::filesystem::exists(failed.root));
  EXPECT_FALSE(std::filesystem::exists(done.root));
}

TEST_F(RunsCommandTest, ASummaryThatIsBrokenIsSaidToBe) {
  const RunPaths run = Begin("mnist").paths();
  for (const char* text : {"{", "[]", "{}", "{\"state\": 3, \"samples_counted\": -1}"}) {
    ASSERT_TRUE(WriteFileAtomically(run.summary_json(), text).ok());
    const RunRow row = EndedRun(run);
    EXPECT_FALSE(row.samples_counted.has_value()) << text;
    EXPECT_FALSE(row.loss.has_value()) << text;
  }
}

}  // namespace
}  // namespace ps::psctl
