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
          ContainsRegex("mnist-20240131-120000 +done +2024-01-31 12:00:00 +[0-9,]+ +[0-9,]+ +0\\."
                        "[0-9]+ +86.12 % +35.5 s "),
          ContainsRegex("cifar-20240131-120000 +killed .* - .*" + killed.root),
          ContainsRegex("other-20240131-120000 +does not answer"),
          Not(HasSubstr("notes"))));
  EXPECT_EQ(Run({"runs", "--json"}), run::kExitOk);
  EXPECT_THAT(
      out_,
      AllOf(
          HasSubstr(R"("run":"mnist-20240131-120000","job":"mnist","state":"done")"),
          HasSubstr(R"("train_loss":null)"),
          HasSubstr(R"("test_accuracy":0.8612,"elapsed_s":35.5,"usd_spent":0)")));
  EXPECT_EQ(Run({"runs", "--names"}), run::kExitOk);
  EXPECT_EQ(out_, "cifar-20240131-120000\nmnist-20240131-120000\nother-20240131-120000\n");
}

TEST_F(RunsCommandTest, AJobThatDoesNotRunIsItsNewestEndedRun) {
  proto::JobStatus status = run::MakeStatus();
  for (int day = 1; day <= 3; ++day) {
    const auto run = run::RunDirectory::Create(
        root_ / "runs", "mnist", run::kNoonMicros + day * int64_t{86'400'000'000});
    ASSERT_TRUE(run.ok()) << run.status();
    status.name = "mnist of day " + std::to_string(day);
    ASSERT_TRUE(WriteFileAtomically(run->paths().summary_text(), run::RenderSummary(status)).ok());
    ASSERT_TRUE(WriteFileAtomically(run->paths().events(), "").ok());
  }
  EXPECT_EQ(Run({"status", "mnist"}), run::kExitOk);
  EXPECT_THAT(out_, HasSubstr("mnist of day 3"));
  EXPECT_EQ(Run({"events", "mnist"}), run::kExitOk);
  EXPECT_EQ(Run({"status", "mnis"}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("no running job and no run directory 'mnis'"));
  // Nothing is asked of a run that has ended.
  EXPECT_EQ(Run({"stop", "mnist"}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("no running job"));
}

TEST_F(RunsCommandTest, RunsAreComparedAsATableAndAPlot) {
  const run::RunPaths first = MakeEnded("mnist", proto::RunState::kDone);
  const run::RunPaths second = MakeEnded("cifar", proto::RunState::kStopped);
  EXPECT_EQ(Run({"compare", "mnist", second.root}), run::kExitOk);
  EXPECT_THAT(
      out_,
      AllOf(
          ContainsRegex("mnist-20240131-120000 +done"),
          ContainsRegex("cifar-20240131-120000 +stopped"),
          HasSubstr("86.12 %")));
  const std::string plot = root_ / "runs.svg";
  EXPECT_EQ(Run({"compare", "mnist", "cifar", "--plot", plot}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("cannot read " + first.metrics()));
  const std::string lines =
      "{\"time_unix_s\":10,\"train_loss\":2,\"samples_per_s\":5,\"workers_alive\":1}\n"
      "{\"time_unix_s\":20,\"train_loss\":1,\"samples_per_s\":7,\"workers_alive\":2}\n";
  ASSERT_TRUE(WriteFileAtomically(first.metrics(), lines).ok());
  ASSERT_TRUE(WriteFileAtomically(second.metrics(), lines).ok());
  EXPECT_EQ(Run({"compare", "mnist", "cifar", "--plot", plot}), run::kExitOk);
  const Result<std::string> svg = ReadFile(plot);
  ASSERT_TRUE(svg.ok()) << svg.status();
  EXPECT_THAT(
      *svg, AllOf(HasSubstr("<svg"), HasSubstr("Training loss"), HasSubstr("cifar-20240131")));
  EXPECT_EQ(Run({"compare", "mnist", "nobody"}), run::kExitFailed);
  EXPECT_EQ(Run({"compare", "1", "2", "3", "4", "5", "6", "7", "8", "9"}), run::kExitMisused);
  EXPECT_EQ(Run({"compare"}), run::kExitMisused);
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

/// Its paths begin where it was started.
TEST_F(RunsCommandTest, PruneKeepsWhatARunOfAnotherFolderUses) {
  const run::RunPaths used = MakeEnded("used", proto::RunState::kDone);
  const run::RunPaths free = MakeEnded("free", proto::RunState::kDone);
  const auto there = run::RunDirectory::Create(root_ / "elsewhere/runs", "there", run::kNoonMicros);
  ASSERT_TRUE(there.ok()) << there.status();
  ASSERT_TRUE(run::RunRegistry(root_ / "links", {}).Add(there->paths()).ok());
  proto::JobConfig config;
  config.model.from = "../runs/" + std::filesystem::path(used.root).filename().string() + "/model";
  ASSERT_TRUE(there->WriteConfig(proto::PrintJobConfig(config)).ok());
  EXPECT_EQ(Run({"runs", "--prune", "--models", "--yes"}), run::kExitOk);
  EXPECT_TRUE(std::filesystem::exists(used.root)) << err_;
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
