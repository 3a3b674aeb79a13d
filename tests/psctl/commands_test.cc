#include "psctl/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ps/base/file.h"
#include "run/directory/control.h"
#include "tests/psctl/command_fixture.h"
#include "tests/run/dates.h"

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CommandsTest : public CommandFixture {
 protected:
  run::RunDirectory StartRun() const {
    auto run = run::RunDirectory::Create(root_ / "runs", "mnist", run::kNoonMicros);
    EXPECT_TRUE(run.ok()) << run.status();
    return std::move(run).value();
  }
};

TEST_F(CommandsTest, HelpGoesToStdoutAndMisuseToStderr) {
  EXPECT_EQ(Run({"--help"}), run::kExitOk);
  EXPECT_THAT(out_, HasSubstr("psctl train"));
  EXPECT_THAT(err_, IsEmpty());
  EXPECT_EQ(Run({"trian"}), run::kExitMisused);
  EXPECT_THAT(out_, IsEmpty());
  EXPECT_EQ(err_, "psctl: unknown command 'trian'; did you mean 'train'?\n");
}

TEST_F(CommandsTest, AJobFileThatIsWrongIsMisuse) {
  EXPECT_EQ(Run({"train", root_ / "none.json"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("none.json"));
  ASSERT_TRUE(WriteFileAtomically(root_ / "bad.json", "{\"epochs\": 3}\n").ok());
  EXPECT_EQ(Run({"train", root_ / "bad.json"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("bad.json:1:"));
  EXPECT_FALSE(std::filesystem::exists(root_ / "runs"));
}

TEST_F(CommandsTest, StatusOfNothingIsNoFailure) {
  EXPECT_EQ(Run({"status"}), run::kExitOk);
  EXPECT_EQ(err_, "no job is running\n");
  EXPECT_EQ(Run({"status", "--json"}), run::kExitOk);
  EXPECT_EQ(out_, "[]\n");
}

TEST_F(CommandsTest, CommandsThatNeedAJobFailWithoutOne) {
  for (const char* command : {"why", "stop"}) {
    EXPECT_EQ(Run({command}), run::kExitFailed);
    EXPECT_EQ(err_, "psctl: no job is running\n");
    EXPECT_EQ(Run({command, "mnist"}), run::kExitFailed);
    EXPECT_THAT(err_, HasSubstr("'mnist'"));
  }
  EXPECT_EQ(Run({"notice", "3"}), run::kExitFailed);
  EXPECT_EQ(err_, "psctl: no job is running\n");
}

TEST_F(CommandsTest, AnEndedRunShowsItsSummary) {
  run::RunPaths paths;
  {
    const run::RunDirectory run = StartRun();
    paths = run.paths();
  }
  EXPECT_EQ(Run({"status", paths.root}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("left no summary"));
  ASSERT_TRUE(WriteFileAtomically(paths.summary_text(), "mnist: done\n").ok());
  ASSERT_TRUE(WriteFileAtomically(paths.summary_json(), "{}\n").ok());
  EXPECT_EQ(Run({"status", paths.root}), run::kExitOk);
  EXPECT_EQ(out_, "mnist: done\n");
  EXPECT_EQ(Run({"status", "mnist-20240131-120000", "--json"}), run::kExitOk);
  EXPECT_EQ(out_, "{}\n");
  EXPECT_EQ(Run({"why", paths.root}), run::kExitFailed);
  EXPECT_EQ(Run({"stop", paths.root}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("has ended already"));
  EXPECT_EQ(Run({"notice", "3", paths.root}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("has ended; no worker is left"));
}

TEST_F(CommandsTest, ARunThatDoesNotListenYetSaysSo) {
  const run::RunDirectory run = StartRun();
  EXPECT_EQ(Run({"status"}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("does not listen yet"));
  EXPECT_EQ(Run({"stop"}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("does not listen yet"));
  EXPECT_EQ(Run({"notice", "0"}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("does not listen yet"));
}

TEST_F(CommandsTest, ARunThatNobodyHereListensForMayBeAnotherMachines) {
  const run::RunDirectory run = StartRun();
  ASSERT_TRUE(WriteFileAtomically(run.paths().control(), "").ok());  // connecting to it is refused
  for (const char* command : {"status", "why", "stop"}) {
    EXPECT_EQ(Run({command, run.paths().root}), run::kExitFailed);
    EXPECT_THAT(err_, HasSubstr("Connection refused; if the run is on another machine, ask there"));
  }
}

TEST_F(CommandsTest, ARunThatEndsWhileItIsAskedSaysSo) {
  run::RunPaths paths;
  {
    const run::RunDirectory run = StartRun();
    paths = run.paths();
  }
  EXPECT_EQ(
      run::FetchStatus(paths).status().message(), "mnist-20240131-120000 is not running any more");
  EXPECT_EQ(run::AskToStop(paths, true).message(), "mnist-20240131-120000 is not running any more");
}

TEST_F(CommandsTest, TwoRunningJobsHaveToBeToldApart) {
  const run::RunDirectory first = StartRun();
  const run::RunDirectory second = StartRun();
  EXPECT_EQ(Run({"why"}), run::kExitFailed);
  EXPECT_EQ(
      err_,
      "psctl: several jobs are running; name one: mnist-20240131-120000, "
      "mnist-20240131-120000-2\n");
}

TEST_F(CommandsTest, PrintedConfigIsAJobFileAgain) {
  std::filesystem::create_directory(root_ / "data");
  ASSERT_TRUE(WriteFileAtomically(
                  root_ / "job.json",
                  R"({"name": "mnist", "model": {"name": "mlp"}, "data": {"directory": ")" +
                      root_.path() + R"(/data"}, "workers": [{"count": 1}]})")
                  .ok());
  ASSERT_EQ(
      Run({"train", root_ / "job.json", "--set", "train.epochs=7", "--print-config"}), run::kExitOk)
      << err_;
  const std::string printed = out_;
  EXPECT_THAT(printed, HasSubstr("\"epochs\": 7"));
  ASSERT_TRUE(WriteFileAtomically(root_ / "again.json", printed).ok());
  EXPECT_EQ(Run({"train", root_ / "again.json", "--print-config"}), run::kExitOk) << err_;
  EXPECT_EQ(out_, printed);
}

}  // namespace
}  // namespace ps::psctl
