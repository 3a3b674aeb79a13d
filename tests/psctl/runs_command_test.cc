#include "psctl/runs/runs_command.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>

#include "ps/base/file.h"
#include "ps/proto/job/job_config.h"
#include "run/report/summary.h"
#include "tests/psctl/command_fixture.h"
#include "tests/run/dates.h"
#include "tests/run/sample_status.h"

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
  run::RunDirectory Begin(const std::string& name) const {
    auto run = run::RunDirectory::Create(root_ / "runs", name, run::kNoonMicros);
    EXPECT_TRUE(run.ok()) << run.status();
    return std::move(run).value();
  }

  run::RunPaths MakeEnded(const std::string& name, proto::RunState state) const {
    const run::RunPaths paths = Begin(name).paths();
    proto::JobStatus status = run::MakeStatus();
    status.state = state;
    EXPECT_TRUE(WriteFileAtomically(paths.summary_json(), run::SummaryToJson(status, "")).ok());
    return paths;
  }
};

TEST_F(RunsCommandTest, WithoutRunsThePlaceIsNamed) {
  EXPECT_EQ(Run({"runs"}), run::kExitOk);
  EXPECT_THAT(out_, IsEmpty());
  EXPECT_EQ(err_, "there are no runs in " + root_ / "runs\n");
  EXPECT_EQ(Run({"runs", "--json"}), run::kExitOk);
  EXPECT_EQ(out_, "[]\n");
}

TEST_F(RunsCommandTest, RunsAreListedWithStateStartSamplesLossAndPlace) {
  MakeEnded("mnist", proto::RunState::kDone);
  const run::RunPaths killed = Begin("cifar").paths();
  const run::RunDirectory running = Begin("other");
  std::filesystem::create_directory(root_ / "runs/notes");
  EXPECT_EQ(Run({"runs"}), run::kExitOk);
  EXPECT_THAT(
      out_,
      AllOf(
          ContainsRegex("mnist-20240131-120000 +done +2024-01-31 12:00:00 +[0-9,]+ +[0-9,]+ +0\\."),
          ContainsRegex("cifar-20240131-120000 +killed .* - .*" + killed.root),
          ContainsRegex("other-20240131-120000 +does not answer"),
          Not(HasSubstr("notes"))));
  EXPECT_EQ(Run({"runs", "--json"}), run::kExitOk);
  EXPECT_THAT(
      out_,
      AllOf(
          HasSubstr(R"("run":"mnist-20240131-120000","job":"mnist","state":"done")"),
          HasSubstr(R"("train_loss":null)")));
  EXPECT_EQ(Run({"runs", "--names"}), run::kExitOk);
  EXPECT_EQ(out_, "cifar-20240131-120000\nmnist-20240131-120000\nother-20240131-120000\n");
}

TEST_F(RunsCommandTest, PruneRemovesEndedRunsAloneAndSaysWhich) {
  const run::RunPaths done = MakeEnded("mnist", proto::RunState::kDone);
  const run::RunPaths killed = Begin("cifar").paths();
  const run::RunDirectory running = Begin("other");
  std::filesystem::create_directory(root_ / "runs/notes");
  EXPECT_EQ(Run({"runs", "--prune", "--yes"}), run::kExitOk);
  EXPECT_THAT(out_, AllOf(HasSubstr(done.root), HasSubstr(killed.root), Not(HasSubstr("other-"))));
  EXPECT_THAT(err_, HasSubstr("removing 2 runs, "));
  EXPECT_FALSE(std::filesystem::exists(done.root));
  EXPECT_FALSE(std::filesystem::exists(killed.root));
  EXPECT_TRUE(std::filesystem::exists(running.paths().root));
  EXPECT_TRUE(std::filesystem::exists(root_ / "runs/notes"));
  EXPECT_EQ(Run({"runs", "--prune", "--yes"}), run::kExitOk);
  EXPECT_THAT(err_, HasSubstr("no ended run"));
}

TEST_F(RunsCommandTest, PruneRemovesNothingUnlessItIsToldTo) {
  const run::RunPaths done = MakeEnded("mnist", proto::RunState::kDone);
  EXPECT_EQ(Run({"runs", "--prune"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("there is no terminal to ask on"));
  EXPECT_EQ(Run({"runs", "--prune", "--dry-run"}), run::kExitOk);
  EXPECT_THAT(out_, HasSubstr(done.root));
  EXPECT_THAT(err_, HasSubstr("would remove 1 run, "));
  std::string answer = "n";
  console_.read_line = [&answer] { return answer; };
  EXPECT_EQ(Run({"runs", "--prune"}), run::kExitFailed);
  EXPECT_THAT(err_, AllOf(HasSubstr("Remove this? [y/N] "), HasSubstr("nothing was removed")));
  EXPECT_TRUE(std::filesystem::exists(done.root));
  answer = "y";
  EXPECT_EQ(Run({"runs", "--prune"}), run::kExitOk);
  EXPECT_FALSE(std::filesystem::exists(done.root));
}

TEST_F(RunsCommandTest, PruneKeepsCheckpointsOfARunThatDidNotEndWell) {
  const run::RunPaths failed = MakeEnded("mnist", proto::RunState::kFailed);
  const run::RunPaths done = MakeEnded("cifar", proto::RunState::kDone);
  for (const run::RunPaths& run : {failed, done}) {
    std::filesystem::create_directories(run.root + "/checkpoints/1");
  }
  EXPECT_EQ(Run({"runs", "--prune", "--yes"}), run::kExitOk);
  EXPECT_THAT(err_, AllOf(HasSubstr("is kept"), HasSubstr(failed.root)));
  EXPECT_TRUE(std::filesystem::exists(failed.root));
  EXPECT_FALSE(std::filesystem::exists(done.root));
}

TEST_F(RunsCommandTest, PruneKeepsModelsUnlessTheyAreNamed) {
  const run::RunPaths done = MakeEnded("mnist", proto::RunState::kDone);
  ASSERT_TRUE(WriteFileAtomically(done.model(), "weights").ok());
  ASSERT_TRUE(WriteFileAtomically(done.metrics(), "{}").ok());
  EXPECT_EQ(Run({"runs", "--prune", "--yes"}), run::kExitOk);
  EXPECT_THAT(err_, HasSubstr("1 model and summaries stay, unless --models"));
  EXPECT_TRUE(std::filesystem::exists(done.model()));
  EXPECT_TRUE(std::filesystem::exists(done.summary_json()));
  EXPECT_FALSE(std::filesystem::exists(done.metrics()));
  EXPECT_FALSE(std::filesystem::exists(done.logs()));
  EXPECT_EQ(Run({"runs"}), run::kExitOk);
  EXPECT_THAT(out_, HasSubstr("mnist-20240131-120000")) << "it is still listed";
  EXPECT_EQ(Run({"runs", "--prune", "--yes"}), run::kExitOk);
  EXPECT_THAT(err_, HasSubstr("no ended run"));
  EXPECT_EQ(Run({"runs", "--prune", "--models", "--yes"}), run::kExitOk);
  EXPECT_FALSE(std::filesystem::exists(done.root));
}

TEST_F(RunsCommandTest, PruneKeepsWhatARunThatStaysUses) {
  const run::RunPaths first = MakeEnded("first", proto::RunState::kDone);
  const run::RunPaths second = MakeEnded("second", proto::RunState::kDone);
  const run::RunPaths free = MakeEnded("free", proto::RunState::kDone);
  const run::RunPaths failed = MakeEnded("failed", proto::RunState::kFailed);
  const run::RunDirectory running = Begin("running");
  std::filesystem::create_directories(failed.root + "/checkpoints/1");
  // The running one was resumed from the second, the failed one began with the first's model.
  proto::JobConfig config;
  config.checkpoint.path = second.checkpoints();
  ASSERT_TRUE(running.WriteConfig(proto::PrintJobConfig(config)).ok());
  config.checkpoint.path = "";
  config.model.from = first.model();
  ASSERT_TRUE(WriteFileAtomically(failed.config(), proto::PrintJobConfig(config)).ok());
  EXPECT_EQ(Run({"runs", "--prune", "--models", "--yes"}), run::kExitOk);
  EXPECT_THAT(
      err_,
      AllOf(
          HasSubstr("second-20240131-120000 is kept: running-20240131-120000, which goes on, uses"),
          HasSubstr("first-20240131-120000 is kept: failed-20240131-120000, which stays, uses")));
  EXPECT_TRUE(std::filesystem::exists(first.root));
  EXPECT_TRUE(std::filesystem::exists(second.root));
  EXPECT_FALSE(std::filesystem::exists(free.root));
}

TEST_F(RunsCommandTest, PruneLeavesRunsElsewhereAlone) {
  const run::RunPaths here = MakeEnded("here", proto::RunState::kDone);
  auto made = run::RunDirectory::Create(root_ / "elsewhere", "there", run::kNoonMicros);
  ASSERT_TRUE(made.ok());
  const run::RunPaths there = made->paths();
  std::filesystem::create_directory_symlink(there.root, root_ / "runs/link");
  made = Status::Cancelled("it ends");
  EXPECT_EQ(Run({"runs", "--prune", "--yes"}), run::kExitOk);
  EXPECT_FALSE(std::filesystem::exists(here.root));
  EXPECT_TRUE(std::filesystem::exists(there.root));
}

TEST_F(RunsCommandTest, PruneKeepsCheckpointsThatAProcessHasOpen) {
  const run::RunPaths done = MakeEnded("mnist", proto::RunState::kDone);
  const std::string path = done.checkpoints() + "/job";
  std::filesystem::create_directories(path);
  std::array<int, 2> ready = {};
  ASSERT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
  const pid_t holder = ::fork();
  if (holder == 0) {
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    const int fd = ::open((path + "/LOCK").c_str(), O_RDWR | O_CREAT, 0600);
    const char is_held = ::fcntl(fd, F_SETLK, &lock) == 0 ? 'y' : 'n';
    if (::write(ready[1], &is_held, 1) == 1) {
      ::pause();
    }
    ::_exit(1);
  }
  char is_held = 'n';
  ASSERT_EQ(::read(ready[0], &is_held, 1), 1);
  EXPECT_EQ(is_held, 'y');
  EXPECT_EQ(Run({"runs", "--prune", "--yes"}), run::kExitOk);
  EXPECT_THAT(err_, HasSubstr("process " + std::to_string(holder) + " has its checkpoints open"));
  EXPECT_TRUE(std::filesystem::exists(done.root));
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(RunsCommandTest, PruneOfOldRunsKeepsNewOnes) {
  const run::RunPaths done = MakeEnded("mnist", proto::RunState::kDone);
  const run::RunPaths old = MakeEnded("cifar", proto::RunState::kDone);
  const auto then = std::filesystem::file_time_type::clock::now() - std::chrono::hours(49);
  std::filesystem::last_write_time(old.summary_json(), then);
  EXPECT_EQ(Run({"runs", "--prune", "--older-than", "2d", "--yes"}), run::kExitOk);
  EXPECT_TRUE(std::filesystem::exists(done.root));
  EXPECT_FALSE(std::filesystem::exists(old.root));
}

TEST_F(RunsCommandTest, ASummaryThatIsBrokenIsSaidToBe) {
  const run::RunPaths run = Begin("mnist").paths();
  for (const char* text : {"{", "[]", "{}", "{\"state\": 3, \"samples_counted\": -1}"}) {
    ASSERT_TRUE(WriteFileAtomically(run.summary_json(), text).ok());
    const RunRow row = EndedRun(run);
    EXPECT_FALSE(row.samples_counted.has_value()) << text;
    EXPECT_FALSE(row.loss.has_value()) << text;
  }
}

}  // namespace
}  // namespace ps::psctl
