#include "run/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "tests/base/temporary_folder.h"

namespace ps::run {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

/// The supervisor is a process of its own here, too, because it forks.
class SupervisorTest : public ::testing::Test {
 protected:
  /// The exit code; what was said is in said_.
  int Run(
      const CoordinatorProcess& process,
      const std::function<void(std::string_view)>& on_said = [](std::string_view) {}) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t supervisor = ::fork();
    if (supervisor == 0) {
      for (const int number : {SIGINT, SIGHUP}) {
        ::signal(number, number == ignored_ ? SIG_IGN : SIG_DFL);
      }
      Console console;
      console.err = [&](std::string_view text) {
        [[maybe_unused]] const ssize_t n = ::write(ends[1], text.data(), text.size());
        on_said(text);
      };
      ::_exit(Supervise(process, false, console));
    }
    ::close(ends[1]);
    char text[4096];
    for (ssize_t n = 0; (n = ::read(ends[0], text, sizeof(text))) > 0;) {
      said_.append(text, static_cast<size_t>(n));
    }
    ::close(ends[0]);
    int wait_status = 0;
    EXPECT_EQ(::waitpid(supervisor, &wait_status, 0), supervisor);
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -WTERMSIG(wait_status);
  }

  /// A coordinator that has begun a run and is killed.
  int BeginAndDie(SupervisorLink* link) const {
    const Result<RunDirectory> directory = RunDirectory::Create(folder_.path(), "run", 0);
    if (!directory.ok() || !link->TellRun(*directory).ok()) {
      return 99;
    }
    ::kill(::getpid(), SIGKILL);
    return 98;
  }

  TemporaryFolder folder_;
  std::string said_;
  int ignored_ = 0;  // a signal, from the start
};

TEST_F(SupervisorTest, TheExitCodeIsTheCoordinators) {
  EXPECT_EQ(Run({.begin = [](const Console&, SupervisorLink*) { return 7; }, .go_on = {}}), 7);
  EXPECT_EQ(said_, "");
}

TEST_F(SupervisorTest, WhatAKilledCoordinatorSaidOfItsJournalIsKnownToTheNextOne) {
  const int code = Run(
      {.begin =
           [&](const Console&, SupervisorLink* link) {
             link->shared()->is_journal_behind = true;
             return BeginAndDie(link);
           },
       .go_on = [](const SupervisedRun& run,
                   const Console&,
                   SupervisorLink*) { return run.is_journal_behind ? 3 : 4; }});
  EXPECT_EQ(code, 3) << said_;
}

TEST_F(SupervisorTest, ACoordinatorThatStandsStillIsKilledAndAnotherOneGoesOn) {
  const int code = Run(
      {.begin =
           [&](const Console&, SupervisorLink* link) {
             const auto directory = RunDirectory::Create(folder_.path(), "run", 0);
             if (!directory.ok() || !link->TellRun(*directory).ok()) {
               return 99;
             }
             link->shared()->standstill_max_ms = 1000;
             link->shared()->beats = 1;
             ::raise(SIGSTOP);
             return 98;
           },
       .go_on = [](const SupervisedRun&,
                   const Console&,
                   SupervisorLink* link) { return link->shared()->beats == 0 ? 3 : 4; }});
  EXPECT_EQ(code, 3) << said_;
  EXPECT_THAT(said_, HasSubstr("has stood still for 1 s"));
  EXPECT_THAT(said_, HasSubstr("killed by signal 9 (Killed); another one goes on"));
}

TEST_F(SupervisorTest, AKilledCoordinatorIsFollowedByOneThatHoldsTheSameLock) {
  const int code = Run(
      {.begin = [&](const Console&, SupervisorLink* link) { return BeginAndDie(link); },
       .go_on =
           [](SupervisedRun run, const Console& console, SupervisorLink*) {
             console.err(FileLock::IsHeld(run.paths.lock()) ? "held " : "free ");
             run.lock = FileLock();
             console.err(FileLock::IsHeld(run.paths.lock()) ? "by two\n" : "by one\n");
             return 3;
           }});
  EXPECT_EQ(code, 3);
  EXPECT_THAT(said_, HasSubstr("killed by signal 9 (Killed); another one goes on\n"));
  EXPECT_THAT(said_, EndsWith("held by two\n"));
}

TEST_F(SupervisorTest, ASuccessorThatCannotBeStartedForAMomentIsTriedAgain) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {0, limit.rlim_max};
  const int code =
      Run({.begin = [&](const Console&, SupervisorLink* link) { return BeginAndDie(link); },
           .go_on = [](SupervisedRun, const Console&, SupervisorLink*) { return 3; }},
          [&](std::string_view text) {
            // In the supervisor's process.
            const bool is_killed = text.find("another one goes on") != std::string_view::npos;
            ::setrlimit(RLIMIT_NOFILE, is_killed ? &none : &limit);
          });
  EXPECT_EQ(code, 3);
  EXPECT_THAT(
      said_, HasSubstr("the run can't go on yet: socketpair: Too many open files; trying again"));
}

/// As when a journal is of no use, and the newest checkpoint is gone on from.
TEST_F(SupervisorTest, OneThatGoesOnWithAnotherRunIsFollowedByOneOfThatRun) {
  const int code = Run(
      {.begin = [&](const Console&, SupervisorLink* link) { return BeginAndDie(link); },
       .go_on =
           [&](SupervisedRun run, const Console& console, SupervisorLink* link) {
             std::string root = run.paths.root;
             if (!root.ends_with("-2")) {
               return BeginAndDie(link);
             }
             root.resize(root.size() - 2);
             console.err(FileLock::IsHeld(RunPaths{root}.lock()) ? "both\n" : "another\n");
             return 3;
           }});
  EXPECT_EQ(code, 3);
  EXPECT_THAT(said_, EndsWith("another\n"));
}

TEST_F(SupervisorTest, ARunThatHadNotBegunIsOver) {
  const int code = Run(
      {.begin = [](const Console&, SupervisorLink*) { return ::kill(::getpid(), SIGKILL); },
       .go_on = {}});
  EXPECT_EQ(code, kExitFailed);
  EXPECT_THAT(said_, HasSubstr("killed by signal 9 (Killed) before the run had begun"));
}

TEST_F(SupervisorTest, ItGivesUpOnCoordinatorsThatDieAsSoonAsTheyStart) {
  const int code = Run(
      {.begin = [&](const Console&, SupervisorLink* link) { return BeginAndDie(link); },
       .go_on =
           [&](SupervisedRun, const Console&, SupervisorLink*) {
             std::ofstream(folder_ / "again", std::ios::app) << 'x';
             return ::kill(::getpid(), SIGKILL);
           }});
  EXPECT_EQ(code, kExitFailed);
  EXPECT_EQ(std::filesystem::file_size(folder_ / "again"), 5U) << "six that died, with the first";
  EXPECT_THAT(said_, HasSubstr("giving up"));
  EXPECT_THAT(said_, HasSubstr("psctl resume " + folder_.path()));
}

TEST_F(SupervisorTest, ARequestToStopIsHandedOn) {
  const int code = Run(
      {.begin =
           [](const Console&, SupervisorLink*) {
             sigset_t set;
             ::sigemptyset(&set);
             ::sigaddset(&set, SIGTERM);
             ::sigprocmask(SIG_BLOCK, &set, nullptr);
             ::kill(::getppid(), SIGTERM);
             int number = 0;
             ::sigwait(&set, &number);
             return number == SIGTERM ? 5 : 6;
           },
       .go_on = {}});
  EXPECT_EQ(code, 5);
}

/// As after `nohup psctl train`, whose terminal goes: the next request that is heard is the second.
TEST_F(SupervisorTest, ASignalThatIsIgnoredFromTheStartStopsNothing) {
  ignored_ = SIGHUP;
  const int code = Run(
      {.begin =
           [](const Console&, SupervisorLink*) {
             sigset_t set;
             ::sigemptyset(&set);
             ::sigaddset(&set, SIGTERM);
             ::sigaddset(&set, SIGHUP);
             ::sigprocmask(SIG_BLOCK, &set, nullptr);
             ::kill(::getppid(), SIGHUP);
             ::kill(::getppid(), SIGTERM);
             int number = 0;
             ::sigwait(&set, &number);
             return number == SIGTERM ? 5 : 6;
           },
       .go_on = {}});
  EXPECT_EQ(code, 5);
}

/// The next request to stop, while such signals are blocked; 0: none came.
int AwaitStop() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGTERM);
  const timespec limit = {.tv_sec = 20, .tv_nsec = 0};
  return std::max(0, ::sigtimedwait(&set, nullptr, &limit));
}

TEST_F(SupervisorTest, ARequestToStopOutlivesTheCoordinatorThatGotIt) {
  const int code = Run(
      {.begin =
           [&](const Console&, SupervisorLink* link) {
             sigset_t set;
             ::sigemptyset(&set);
             ::sigaddset(&set, SIGTERM);
             ::sigprocmask(SIG_BLOCK, &set, nullptr);
             ::kill(::getppid(), SIGTERM);
             return AwaitStop() == SIGTERM ? BeginAndDie(link) : 6;
           },
       .go_on =
           [](SupervisedRun, const Console&, SupervisorLink*) {
             return AwaitStop() == SIGTERM ? 5
                                           : 7;  // were it not blocked, this process would be gone
           }});
  EXPECT_EQ(code, 5);
}

}  // namespace
}  // namespace ps::run
