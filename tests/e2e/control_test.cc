// The control socket in the run directory: who reaches which run by it, and when not any more.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/e2e/support/socket.h"
#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class ControlTest : public E2eTest {
 protected:
  ControlTest() {
    job_.Set("train", R"({"epochs": 10000, "minibatch": 32, "evaluate_every_epochs": 0})")
        .Set("workers", R"([{"count": 1, "slowdown": 4}])")
        .Set("servers", R"({"count": 1})");
  }

  Output Psctl(const std::vector<std::string>& arguments) const {
    return RunToEnd(
        {.program = "psctl",
         .arguments = arguments,
         .directory = folder_.path(),
         .output_stem = folder_ / "command"},
        kRunPatience);
  }

  /// Run directories below a folder, sorted.
  static std::vector<std::string> RunsIn(const std::string& folder) {
    std::vector<std::string> runs;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
      runs.push_back(it->path().string());
    }
    std::sort(runs.begin(), runs.end());
    return runs;
  }
};

TEST_F(ControlTest, TheSocketIsTheOwnersAloneAndGoesWithTheRun) {
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(64).has_value());
  const std::string socket = run.ControlSocket();

  struct stat info {};

  ASSERT_EQ(::lstat(socket.c_str(), &info), 0);
  EXPECT_TRUE(S_ISSOCK(info.st_mode));
  EXPECT_EQ(info.st_mode & 07777U, 0600U);
  EXPECT_EQ(Psctl({"stop", run.Root()}).end, ProcessEnd{});
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  EXPECT_FALSE(fs::exists(socket));
}

TEST_F(ControlTest, NeitherTokenNorAddressAreNeeded) {
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(64).has_value());
  EXPECT_TRUE(fs::remove(run.Root() + "/token"));
  EXPECT_TRUE(fs::remove(run.Root() + "/coordinator.addr"));
  EXPECT_THAT(Psctl({"status", job_.name()}).out, ContainsRegex("state +training"));
  EXPECT_THAT(Psctl({"why", run.Root()}).out, HasSubstr("membership generation 1"));
  EXPECT_EQ(Psctl({"stop", job_.path()}).end, ProcessEnd{});
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
}

TEST_F(ControlTest, OfSeveralRunsTheNamedOneIsMeant) {
  const std::string folder = folder_ / "other";
  fs::create_directory(folder);
  TrainRun first(job_);
  ASSERT_TRUE(first.WaitForSamples(64).has_value());
  TrainRun second(job_.CopyIn(folder));  // of the same name
  ASSERT_TRUE(second.WaitForSamples(64).has_value());
  // Runs of other tests are listed, too. As long as one of them does not listen yet, it is 1.
  EXPECT_TRUE(WaitUntil([&] { return Psctl({"status"}).end == ProcessEnd{}; }));
  const std::string both = Psctl({"status", "--json"}).out;
  EXPECT_THAT(both, AllOf(HasSubstr(first.Root()), HasSubstr(second.Root())));
  const Output ambiguous = Psctl({"stop", job_.name()});
  EXPECT_EQ(ambiguous.end, ProcessEnd{1});
  EXPECT_THAT(ambiguous.err, HasSubstr("several runs of '" + job_.name() + "' are running"));

  EXPECT_EQ(Psctl({"stop", second.Root()}).end, ProcessEnd{});
  EXPECT_EQ(second.WaitForEnd(), ProcessEnd{});
  EXPECT_TRUE(first.psctl().IsRunning());
  EXPECT_THAT(Psctl({"status", job_.name()}).out, HasSubstr(first.Root()));
  EXPECT_EQ(Psctl({"stop", job_.name()}).end, ProcessEnd{});
  EXPECT_EQ(first.WaitForEnd(), ProcessEnd{});
}

TEST_F(ControlTest, AKilledRunIsNotTakenForARunningOne) {
  std::string root;
  {
    TrainRun run(job_);
    ASSERT_TRUE(run.WaitForSamples(64).has_value());
    root = run.Root();
    run.KillCoordinator();
    EXPECT_EQ(run.WaitForEnd(), (ProcessEnd{0, SIGKILL}));
    EXPECT_TRUE(fs::exists(run.ControlSocket())) << "nobody was left to remove it";
  }
  EXPECT_THAT(Psctl({"status"}).out, Not(HasSubstr(job_.name())));
  const Output status = Psctl({"status", root});
  EXPECT_EQ(status.end, ProcessEnd{1});
  EXPECT_THAT(status.err, AllOf(HasSubstr("has ended and left no summary"), HasSubstr("/logs")));
  const Output why = Psctl({"why", root});
  EXPECT_EQ(why.end, ProcessEnd{1});
  EXPECT_THAT(why.err, HasSubstr("has ended"));
  const Output stop = Psctl({"stop", root});
  EXPECT_EQ(stop.end, ProcessEnd{1});
  EXPECT_THAT(stop.err, HasSubstr("has ended already"));
  EXPECT_THAT(Psctl({"stop", job_.name()}).err, HasSubstr("no running job"));

  // The next run of the job has a directory of its own, and is the one that the name means.
  TrainRun again(job_);
  ASSERT_TRUE(WaitUntil([&] { return RunsIn(job_.runs()).size() == 2; }));
  ASSERT_TRUE(WaitUntil([&] { return Psctl({"status", job_.name()}).end == ProcessEnd{}; }));
  EXPECT_THAT(Psctl({"status", job_.name()}).out, Not(HasSubstr(root + "\n")));
  EXPECT_EQ(Psctl({"stop", job_.name()}).end, ProcessEnd{});
  EXPECT_EQ(again.WaitForEnd(), ProcessEnd{});
}

TEST_F(ControlTest, ARunDirectoryMayLieDeep) {
  const std::string deep = folder_ / std::string(120, 'a') + "/" + std::string(120, 'b');
  job_.Set("run", R"({"directory": ")" + deep + R"("})");
  TrainRun run(job_);
  ASSERT_TRUE(WaitUntil([&] { return !RunsIn(deep).empty(); }));
  const std::string root = RunsIn(deep).front();
  Output status;
  ASSERT_TRUE(WaitUntil([&] {
    status = Psctl({"status", root});
    return status.end == ProcessEnd{};
  })) << status.err;
  EXPECT_THAT(status.out, HasSubstr(job_.name()));
  EXPECT_EQ(Psctl({"why", job_.name()}).end, ProcessEnd{});
  EXPECT_EQ(Psctl({"stop", job_.name()}).end, ProcessEnd{});
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
  EXPECT_FALSE(fs::exists(root + "/control.sock"));
}

TEST_F(ControlTest, AConnectionThatStaysIsClosed) {
  TrainRun run(job_);
  ASSERT_TRUE(run.WaitForSamples(64).has_value());
  proto::Hello hello;
  hello.role = proto::Role::kControl;
  hello.node = "stranger";
  const RawConnection quiet(run.ControlSocket());
  quiet.Send(hello);
  const RawConnection deaf(run.ControlSocket());
  deaf.Send(hello);
  for (int i = 0; i < 1000; ++i) {
    deaf.Send(proto::StatusRequest{});  // and reads no answer
  }
  const auto answer = quiet.Receive();
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(std::holds_alternative<proto::HelloReply>(*answer));
  EXPECT_TRUE(quiet.WaitForEnd());
  EXPECT_TRUE(deaf.WaitForEnd());
  EXPECT_EQ(Psctl({"stop", run.Root()}).end, ProcessEnd{});
  EXPECT_EQ(run.WaitForEnd(), ProcessEnd{});
}

}  // namespace
}  // namespace ps::e2e
