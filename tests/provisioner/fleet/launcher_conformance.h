#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "provisioner/fleet/local_launcher.h"
#include "ps/base/file.h"
#include "tests/base/temporary_folder.h"

// What holds of every launcher. A test file brings a Place and instantiates the suite for it.

namespace ps::provisioner {

/// Where processes run. One for all tests of a suite.
class Place {
 public:
  virtual ~Place() = default;

  /// Empty when it is there; else why its tests are skipped.
  virtual std::string Open(const std::string& /*directory*/) { return ""; }

  /// As the fleet starts it there.
  virtual LaunchSpec Of(LaunchSpec spec) const { return spec; }
};

using PlaceFactory = std::unique_ptr<Place> (*)();

inline void Nap() {
  ::poll(nullptr, 0, 2);  // real processes take real time
}

inline constexpr LaunchId kLaunch(12);

class LauncherConformance : public ::testing::TestWithParam<PlaceFactory> {
 protected:
  static void TearDownTestSuite() {
    place_.reset();
    place_folder_.reset();
  }

  void SetUp() override {
    if (place_ == nullptr) {
      place_ = GetParam()();
      place_folder_ = std::make_unique<TemporaryFolder>();
      why_not_ = place_->Open(place_folder_->path());
    }
    if (!why_not_.empty()) {
      GTEST_SKIP() << why_not_;
    }
    launcher_ = MakeLocalLauncher();
  }

  LaunchSpec Shell(const std::string& script) const {
    LaunchSpec spec;
    spec.kind = proto::ProcessKind::kWorker;
    spec.index = 7;
    spec.launch = kLaunch;
    spec.program = "/bin/sh";
    spec.arguments = {"-c", script};
    spec.log_path = log_path();
    return place_->Of(std::move(spec));
  }

  /// Says that it runs, which process it is, and does not end.
  LaunchSpec Endless() const { return Shell("echo $$ > " + PidPath() + "; exec sleep 100"); }

  ProcessExit AwaitExit() {
    while (true) {
      std::vector<ProcessExit> exits = launcher_->PollExits();
      if (!exits.empty()) {
        EXPECT_EQ(exits.size(), 1U);
        return exits.front();
      }
      Nap();
    }
  }

  ProcessExit ExitOf(const LaunchSpec& spec) {
    const auto handle = launcher_->Start(spec);
    EXPECT_TRUE(handle.ok()) << handle.status();
    return AwaitExit();
  }

  /// The number that the process itself has, wherever it is: here that is always this machine.
  pid_t AwaitPid() const {
    while (true) {
      const Result<std::string> text = ReadFile(PidPath());
      if (text.ok() && text->ends_with('\n')) {
        std::filesystem::remove(PidPath());
        return static_cast<pid_t>(std::stol(*text));
      }
      Nap();
    }
  }

  static bool IsAlive(pid_t pid) {
    const Result<std::string> stat = ReadFile("/proc/" + std::to_string(pid) + "/stat");
    return stat.ok() && stat->find(") Z ") == std::string::npos;
  }

  static void AwaitEndOf(pid_t pid) {
    while (IsAlive(pid)) {
      Nap();
    }
  }

  std::string Log() const { return ReadFile(log_path()).value(); }

  /// A noted process whose parent was killed.
  proto::LaunchRecord MakeOrphan(LaunchSpec spec) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t parent = ::fork();
    if (parent == 0) {
      spec.note = [&ends](const proto::LaunchRecord& launch) {
        [[maybe_unused]] const ssize_t n = ::write(ends[1], &launch, sizeof(launch));
      };
      launcher_->Start(spec).status().Ignore("the read below then fails");
      ::kill(::getpid(), SIGKILL);
    }
    proto::LaunchRecord orphan;
    EXPECT_EQ(::read(ends[0], &orphan, sizeof(orphan)), static_cast<ssize_t>(sizeof(orphan)));
    ::waitpid(parent, nullptr, 0);
    ::close(ends[0]);
    ::close(ends[1]);
    return orphan;
  }

  std::string log_path() const { return directory_ / "w7.log"; }

  std::string PidPath() const { return directory_ / "pid"; }

  inline static std::unique_ptr<Place> place_;
  inline static std::unique_ptr<TemporaryFolder> place_folder_;
  inline static std::string why_not_;
  TemporaryFolder directory_;
  std::unique_ptr<Launcher> launcher_;
};

TEST_P(LauncherConformance, ACleanExitIsReportedOnceWithItsRoleAndIndex) {
  const auto handle = launcher_->Start(Shell("exit 0"));
  ASSERT_TRUE(handle.ok()) << handle.status();
  const ProcessExit exit = AwaitExit();
  EXPECT_EQ(exit.handle, *handle);
  EXPECT_EQ(exit.kind, proto::ProcessKind::kWorker);
  EXPECT_EQ(exit.index, 7U);
  EXPECT_TRUE(exit.is_clean);
  EXPECT_EQ(exit.description, "exited with code 0");
  EXPECT_TRUE(launcher_->PollExits().empty());
}

TEST_P(LauncherConformance, AFailureNamesItsExitCode) {
  const ProcessExit exit = ExitOf(Shell("exit 3"));
  EXPECT_FALSE(exit.is_clean);
  EXPECT_TRUE(exit.is_failure);
  EXPECT_EQ(exit.code, 3);
  EXPECT_EQ(exit.description, "exited with code 3");
}

TEST_P(LauncherConformance, AProcessThatCrashesHasFailedByItself) {
  const ProcessExit exit = ExitOf(Shell("kill -SEGV $$"));
  EXPECT_TRUE(exit.is_failure);
  EXPECT_EQ(exit.code, -1);
  EXPECT_THAT(exit.description, ::testing::HasSubstr("killed by signal 11"));
}

TEST_P(LauncherConformance, ArgumentsArriveAsTheyAre) {
  LaunchSpec spec;
  spec.kind = proto::ProcessKind::kWorker;
  spec.program = "/bin/sh";
  spec.arguments = {"-c", "printf '<%s>' \"$@\"; echo", "sh", "a b", "it's", "$HOME;`x`\"", ""};
  spec.log_path = log_path();
  ASSERT_TRUE(ExitOf(place_->Of(spec)).is_clean);
  EXPECT_THAT(Log(), ::testing::HasSubstr("<a b><it's><$HOME;`x`\"><>"));
}

TEST_P(LauncherConformance, BothOutputsAreAppendedToTheLog) {
  ExitOf(Shell("echo first; echo second >&2"));
  ExitOf(Shell("echo third"));
  EXPECT_THAT(Log(), ::testing::ContainsRegex("first\nsecond\n(.*\n)*third\n"));
}

TEST_P(LauncherConformance, AProgramThatIsNotThereNeverRuns) {
  LaunchSpec spec;
  spec.kind = proto::ProcessKind::kWorker;
  spec.program = directory_ / "no_such_program";
  spec.log_path = log_path();
  const ProcessExit exit = ExitOf(place_->Of(spec));
  EXPECT_TRUE(exit.is_failure);
  EXPECT_THAT(exit.has_run ? Log() : exit.description, ::testing::HasSubstr("no_such_program"));
  EXPECT_TRUE(launcher_->PollExits().empty());
}

TEST_P(LauncherConformance, SigtermReachesTheProcessWhichEndsAsItLikes) {
  const auto handle = launcher_->Start(
      Shell("trap 'exit 7' TERM; echo $$ > " + PidPath() + "; while :; do sleep 0.02; done"));
  ASSERT_TRUE(handle.ok()) << handle.status();
  AwaitPid();
  ASSERT_EQ(::kill(static_cast<pid_t>(launcher_->pid(*handle)), SIGTERM), 0);
  EXPECT_EQ(AwaitExit().description, "exited with code 7");
}

TEST_P(LauncherConformance, AKilledProcessIsGoneWhereverItRan) {
  const auto handle = launcher_->Start(Endless());
  ASSERT_TRUE(handle.ok()) << handle.status();
  const pid_t pid = AwaitPid();
  EXPECT_TRUE(launcher_->PollExits().empty());
  EXPECT_TRUE(launcher_->Kill(*handle).ok());
  const ProcessExit exit = AwaitExit();
  EXPECT_FALSE(exit.is_clean);
  EXPECT_FALSE(exit.is_failure);
  EXPECT_THAT(exit.description, ::testing::HasSubstr("killed by signal 9"));
  EXPECT_EQ(launcher_->Kill(*handle).code(), StatusCode::kNotFound);
  AwaitEndOf(pid);
}

TEST_P(LauncherConformance, TwoOfTheSameKindAreTwo) {
  const auto first = launcher_->Start(Endless());
  ASSERT_TRUE(first.ok()) << first.status();
  const pid_t first_pid = AwaitPid();
  const auto second = launcher_->Start(Endless());
  ASSERT_TRUE(second.ok()) << second.status();
  const pid_t second_pid = AwaitPid();
  EXPECT_NE(*first, *second);
  ASSERT_TRUE(launcher_->Kill(*first).ok());
  EXPECT_EQ(AwaitExit().handle, *first);
  AwaitEndOf(first_pid);
  EXPECT_TRUE(IsAlive(second_pid));
  launcher_.reset();
  AwaitEndOf(second_pid);
}

/// A seat whose second process is there before the first one is gone.
TEST_P(LauncherConformance, EachStartIsNotedWithItsOwnLaunch) {
  std::vector<proto::LaunchRecord> noted;
  std::vector<ProcessHandle> handles;
  for (const LaunchId launch : {LaunchId(3), LaunchId(4)}) {
    LaunchSpec spec = Endless();
    spec.launch = launch;
    spec.note = [&](const proto::LaunchRecord& record) { noted.push_back(record); };
    const auto handle = launcher_->Start(spec);
    ASSERT_TRUE(handle.ok()) << handle.status();
    handles.push_back(*handle);
    AwaitPid();
  }
  ASSERT_EQ(noted.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(noted[i].launch, LaunchId(3 + i));
    EXPECT_EQ(noted[i].index, 7U);
    EXPECT_EQ(noted[i].pid, launcher_->pid(handles[i]));
  }
}

TEST_P(LauncherConformance, ANotedProcessOutlivesItsParentAndIsAdopted) {
  const proto::LaunchRecord orphan = MakeOrphan(Endless());
  EXPECT_EQ(orphan.launch, kLaunch);
  const pid_t pid = AwaitPid();
  const auto handle = launcher_->Adopt(orphan);
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_EQ(launcher_->pid(*handle), orphan.pid);
  EXPECT_TRUE(launcher_->PollExits().empty());
  EXPECT_TRUE(IsAlive(pid));
  EXPECT_TRUE(launcher_->Kill(*handle).ok());
  const ProcessExit exit = AwaitExit();
  EXPECT_EQ(exit.handle, *handle);
  EXPECT_EQ(exit.index, 7U);
  EXPECT_FALSE(exit.is_clean);
  EXPECT_FALSE(exit.is_failure);
  EXPECT_THAT(exit.description, ::testing::HasSubstr("exit code is not known"));
  AwaitEndOf(pid);
}

}  // namespace ps::provisioner
