// Launchers that do not do what they are told: one that fails every other time, one that starts
// each worker twice, one that hangs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/support/train_run.h"

namespace ps::e2e {
namespace {

class LauncherTest : public E2eTest {
 protected:
  /// Shell commands that get the command of a process behind its role and its number.
  void UseLauncher(const std::string& commands) {
    const std::string script = folder_ / "launcher";
    WriteText(script, "#!/bin/sh\nrole=$1 index=$2; shift 2\n" + commands);
    std::filesystem::permissions(script, std::filesystem::perms::owner_all);
    job_.Set("launch", R"({"prefix": ")" + script + R"( {role} {index}"})")
        .SetEndless()
        .Set("workers", R"([{"count": 3, "step_ms": 20}])");
  }
};

/// The first workers and servers, all of them, and later the one that takes a lost one's place.
TEST_F(LauncherTest, OneThatFailsEveryOtherTimeBringsTheFleetUpAllTheSame) {
  UseLauncher(
      "mark=$0.$role$index\n"
      "if [ ! -e $mark ]; then : > $mark; echo no capacity >&2; exit 1; fi\n"
      "rm $mark\n"
      "exec \"$@\"\n");
  TrainRun run(job_, {.is_replacing = true});
  const auto is_whole = [](const proto::JobStatus& status) {
    return Alive(status).size() == 3 && status.samples_counted > 0;
  };
  const auto training = run.WaitFor(is_whole);
  ASSERT_TRUE(training.has_value());
  const int64_t victim = Alive(*training)[1].pid;
  ASSERT_EQ(::kill(static_cast<pid_t>(victim), SIGKILL), 0);
  EXPECT_TRUE(run.WaitFor([&](const proto::JobStatus& status) {
    const auto rows = Alive(status);
    return rows.size() == 3 && std::ranges::count(rows, victim, &proto::WorkerRow::pid) == 0;
  })) << "another one has its place";
  const Json summary = StopCleanly(&run);
  EXPECT_EQ(summary["joins"].number(), 4);
  EXPECT_EQ(summary["revocations_unnoticed"].number(), 1);
  const std::string log = ReadText(run.Root() + "/logs/coordinator.log");
  EXPECT_THAT(log, testing::HasSubstr("event=server_start_failed server=1"));
  EXPECT_THAT(log, testing::HasSubstr("event=worker_never_joined worker=2"));
  EXPECT_THAT(log, testing::Not(testing::HasSubstr("event=type_left_out"))) << "it does well";
}

/// At the first two starts of one worker: the others train all through the second of them.
TEST_F(LauncherTest, OneThatHangsHoldsNobodyUp) {
  UseLauncher(
      "pids=$0.hung\n"
      "if [ $role$index = worker2 ] && [ \"$(cat $pids 2>/dev/null | wc -l)\" -lt 2 ]; then\n"
      "  echo $$ >> $pids\n"
      "  exec sleep 1000\n"
      "fi\n"
      "exec \"$@\"\n");
  job_.Set("fleet", R"({"max_detect_s": 5, "join_timeout_s": 2})");
  TrainRun run(job_, {.is_replacing = true});
  const auto hung = [&] {
    std::istringstream text(ReadText(folder_ / "launcher.hung"));
    return std::vector<pid_t>(std::istream_iterator<pid_t>(text), {});
  };
  const auto during = run.WaitFor([&](const proto::JobStatus& status) {
    return status.samples_counted > 0 && Alive(status).size() == 2 && hung().size() == 2;
  });
  ASSERT_TRUE(during.has_value());
  EXPECT_EQ(::kill(hung().back(), 0), 0) << "it hangs while the others train";
  const Output waiting = Psctl({"scale", "workers=3", run.Root(), "--wait", "--timeout", "0.3s"});
  EXPECT_EQ(waiting.end, ProcessEnd{1});
  EXPECT_THAT(waiting.err, testing::HasSubstr("is not as wanted after 0.30 s"));
  EXPECT_TRUE(run.WaitForSamples(during->samples_counted + 512)) << "and they go on";
  EXPECT_TRUE(run.WaitFor([](const proto::JobStatus& s) { return Alive(s).size() == 3; }));
  const Json summary = StopCleanly(&run);
  for (const pid_t pid : hung()) {
    EXPECT_NE(::kill(pid, 0), 0) << pid << " is left";
  }
  EXPECT_EQ(summary["joins"].number(), 3);
  EXPECT_EQ(summary["revocations_unnoticed"].number(), 0) << "who never joined is not lost";
  EXPECT_THAT(
      ReadText(run.Root() + "/logs/coordinator.log"),
      testing::HasSubstr("event=worker_never_joined worker=2"));
}

/// Of the two in a seat one trains, and the other takes its place where it is lost.
TEST_F(LauncherTest, OneThatStartsEachWorkerTwiceHasOneOfThemTrain) {
  job_.Set("fleet", R"({"max_detect_s": 2})");  // nobody sees the end of the second process
  UseLauncher("[ $role = server ] || \"$@\" &\nexec \"$@\"\n");
  TrainRun run(job_, {.is_replacing = true});
  const auto training =
      run.WaitFor([](const proto::JobStatus& status) { return status.samples_counted > 256; });
  ASSERT_TRUE(training.has_value());
  std::set<WorkerId> seats;
  for (const proto::WorkerRow& row : Alive(*training)) {
    EXPECT_TRUE(seats.insert(row.worker).second) << "two in seat " << row.worker.value;
  }
  EXPECT_EQ(seats.size(), 3U);
  EXPECT_TRUE(WaitUntil([&] {
    for (int seat = 0; seat < 3; ++seat) {
      const std::string log = run.Root() + "/logs/worker" + std::to_string(seat) + ".log";
      // One that comes when the first has spoken already waits, until it gives up.
      const std::string text = ReadText(log);
      if (!Contains(text, "event=fenced ") && !Contains(text, "event=worker_failed ")) {
        return false;
      }
    }
    return true;
  })) << "one of the two is told that another has its seat";
  const proto::WorkerRow victim = Alive(*training).front();
  ::kill(static_cast<pid_t>(victim.pid), SIGKILL);
  EXPECT_TRUE(run.WaitFor([&](const proto::JobStatus& status) {
    const auto rows = Alive(status);
    const auto row = std::ranges::find(rows, victim.worker, &proto::WorkerRow::worker);
    return row != rows.end() && row->pid != victim.pid && row->samples_counted > 0;
  })) << "the other of the two has its place";
  StopCleanly(&run);
}

}  // namespace
}  // namespace ps::e2e
