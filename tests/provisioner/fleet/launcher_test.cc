// Processes of this machine.

#include <fcntl.h>

#include "provisioner/fleet/local_process.h"
#include "ps/base/unique_fd.h"
#include "tests/provisioner/fleet/launcher_conformance.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;

std::string ReadAll(const std::string& path) {
  return ReadFile(path).ok() ? ReadFile(path).value() : "";
}

std::unique_ptr<Place> MakeHere() {
  return std::make_unique<Place>();
}

INSTANTIATE_TEST_SUITE_P(Local, LauncherConformance, ::testing::Values(&MakeHere));

class LocalLauncherTest : public LauncherConformance {
 protected:
  void AwaitLog(const std::string& text) const {
    while (ReadAll(log_path()) != text) {
      ::poll(nullptr, 0, 1);
    }
  }

  /// Whether a process has the file open.
  static bool HasOpener(const std::string& path) {
    std::error_code error;
    for (const auto& process : std::filesystem::directory_iterator("/proc", error)) {
      for (std::filesystem::directory_iterator fd(process.path() / "fd", error), end;
           !error && fd != end;
           fd.increment(error)) {
        if (std::filesystem::read_symlink(fd->path(), error) == path) {
          return true;
        }
      }
    }
    return false;
  }
};

TEST_P(LocalLauncherTest, AProgramWithoutAFolderIsLookedForInThePath) {
  LaunchSpec spec = Shell("exit 3");
  spec.program = "sh";
  EXPECT_THAT(ExitOf(spec).description, HasSubstr("code 3"));
  spec.program = "no-such-program-here";
  const ProcessExit exit = ExitOf(spec);
  EXPECT_FALSE(exit.has_run);
  EXPECT_EQ(exit.description, "cannot run no-such-program-here: No such file or directory");
}

TEST_P(LocalLauncherTest, CredentialsStayWithTheProcessThatHasThem) {
  ::setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  LaunchSpec spec = Shell("echo \"[$AWS_SECRET_ACCESS_KEY]\"; test -n \"$PATH\"");
  EXPECT_TRUE(ExitOf(spec).is_clean);
  EXPECT_EQ(ReadAll(log_path()), "[]\n");
  spec.gets_credentials = true;
  EXPECT_TRUE(ExitOf(spec).is_clean);
  EXPECT_EQ(ReadAll(log_path()), "[]\n[secret]\n");
  ::unsetenv("AWS_SECRET_ACCESS_KEY");
}

/// As on a file system that does not answer: who opens the program waits for its lease.
class HungProgram {
 public:
  explicit HungProgram(const std::string& path) {
    WriteFileAtomically(path, "#!/bin/sh\necho ran\n", 0755).Ignore("it then hangs nobody");
    ::signal(SIGIO, SIG_IGN);  // says that somebody waits
    program_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    is_hung_ = ::fcntl(program_.get(), F_SETLEASE, F_WRLCK) == 0;
  }

  HungProgram(const HungProgram&) = delete;
  HungProgram& operator=(const HungProgram&) = delete;

  ~HungProgram() {
    GoOn();
    ::signal(SIGIO, SIG_DFL);
  }

  bool is_hung() const { return is_hung_; }

  void GoOn() const { ::fcntl(program_.get(), F_SETLEASE, F_UNLCK); }

 private:
  UniqueFd program_;
  bool is_hung_ = false;
};

TEST_P(LocalLauncherTest, AProgramOnAFileSystemThatHangsHoldsNobodyUp) {
  LaunchSpec spec = Shell("");
  spec.program = directory_ / "program";
  spec.arguments = {};
  const HungProgram program(spec.program);
  if (!program.is_hung()) {
    GTEST_SKIP() << "this file system has no leases";
  }
  std::vector<ProcessHandle> hung;
  for (int i = 0; i < 2; ++i) {
    const auto handle = launcher_->Start(spec);
    ASSERT_TRUE(handle.ok()) << handle.status();
    hung.push_back(*handle);
  }
  EXPECT_THAT(ExitOf(Shell("exit 3")).description, HasSubstr("code 3"));
  EXPECT_EQ(Log(), "");
  ASSERT_TRUE(launcher_->Kill(hung[0]).ok());
  const ProcessExit killed = AwaitExit();
  EXPECT_EQ(killed.handle, hung[0]);
  EXPECT_TRUE(killed.has_run) << "nobody knows better";
  program.GoOn();
  const ProcessExit ended = AwaitExit();
  EXPECT_EQ(ended.handle, hung[1]);
  EXPECT_TRUE(ended.is_clean) << ended.description;
  EXPECT_EQ(Log(), "ran\n");
}

TEST_P(LocalLauncherTest, ASignalBeforeTheProgramRunsIsNotLost) {
  LaunchSpec spec = Shell("echo ran");
  spec.note = [](const proto::LaunchRecord& launch) {
    EXPECT_EQ(::kill(static_cast<pid_t>(launch.pid), SIGTERM), 0);
  };
  const auto before = ::signal(SIGTERM, SIG_IGN);
  const ProcessExit exit = ExitOf(spec);
  ::signal(SIGTERM, before);
  EXPECT_THAT(exit.description, HasSubstr("signal 15"));
}

TEST_P(LocalLauncherTest, KillingAProcessThatIsGoneIsNotFound) {
  const auto handle = launcher_->Start(Shell("exit 0"));
  ASSERT_TRUE(handle.ok());
  AwaitExit();
  EXPECT_EQ(launcher_->Kill(*handle).code(), StatusCode::kNotFound);
  EXPECT_EQ(launcher_->Kill(ProcessHandle(99)).code(), StatusCode::kNotFound);
}

TEST_P(LocalLauncherTest, AnUnwritableLogIsAnErrorWithItsPath) {
  LaunchSpec spec = Shell("exit 0");
  spec.log_path = directory_ / "missing/w7.log";
  const auto handle = launcher_->Start(spec);
  EXPECT_EQ(handle.status().code(), StatusCode::kIo);
  EXPECT_THAT(std::string(handle.status().message()), HasSubstr("missing/w7.log"));
}

TEST_P(LocalLauncherTest, AChildLeadsItsOwnProcessGroup) {
  const auto handle = launcher_->Start(Shell("exec sleep 100"));
  ASSERT_TRUE(handle.ok());
  const auto pid = static_cast<pid_t>(launcher_->pid(*handle));
  EXPECT_EQ(::getpgid(pid), pid);
}

TEST_P(LocalLauncherTest, AChildInheritsNoDescriptorOfTheParent) {
  const int leak = ::open("/dev/null", O_RDONLY);  // on purpose without O_CLOEXEC
  ASSERT_TRUE(
      launcher_->Start(Shell("readlink /proc/$$/fd/" + std::to_string(leak) + " || echo none"))
          .ok());
  AwaitExit();
  ::close(leak);
  EXPECT_EQ(ReadAll(log_path()), "none\n");
}

TEST_P(LocalLauncherTest, AnIgnoredSignalOfTheParentIsNotIgnoredInTheChild) {
  const auto before = ::signal(SIGTERM, SIG_IGN);
  const auto handle = launcher_->Start(Shell("exec sleep 100"));
  ::signal(SIGTERM, before);
  ASSERT_TRUE(handle.ok());
  ASSERT_EQ(::kill(static_cast<pid_t>(launcher_->pid(*handle)), SIGTERM), 0);
  EXPECT_THAT(AwaitExit().description, HasSubstr("signal 15"));
}

TEST_P(LocalLauncherTest, DestroyingTheLauncherLeavesNoProcess) {
  const auto handle = launcher_->Start(Shell("exec sleep 100"));
  ASSERT_TRUE(handle.ok());
  const auto pid = static_cast<pid_t>(launcher_->pid(*handle));
  launcher_.reset();
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST_P(LocalLauncherTest, AChildDiesWithItsParent) {
  // The parent is a process that starts a child, tells its pid and is killed.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const auto handle = launcher_->Start(Shell("exec sleep 100"));
    const int64_t pid = handle.ok() ? launcher_->pid(*handle) : 0;
    [[maybe_unused]] const ssize_t n = ::write(ends[1], &pid, sizeof(pid));
    ::pause();
    ::_exit(0);
  }
  int64_t child = 0;
  ASSERT_EQ(::read(ends[0], &child, sizeof(child)), static_cast<ssize_t>(sizeof(child)));
  ASSERT_GT(child, 0);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  // Gone, or a zombie until whoever adopts orphans here reaps it.
  const std::string stat_path = "/proc/" + std::to_string(child) + "/stat";
  while (true) {
    const std::string stat = ReadAll(stat_path);
    if (stat.empty() || stat.find(") Z ") != std::string::npos) {
      break;
    }
    ::poll(nullptr, 0, 1);
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST_P(LocalLauncherTest, AProcessRunsOnlyOnceItIsNoted) {
  LaunchSpec spec = Shell("echo ran; exec sleep 100");
  proto::LaunchRecord noted;
  std::string log_when_noted = "not noted";
  spec.note = [&](const proto::LaunchRecord& launch) {
    noted = launch;
    ::poll(nullptr, 0, 20);  // the time in which it would run if it did not wait
    log_when_noted = ReadAll(log_path());
  };
  const auto handle = launcher_->Start(spec);
  ASSERT_TRUE(handle.ok()) << handle.status();
  EXPECT_EQ(log_when_noted, "");
  EXPECT_EQ(noted.pid, launcher_->pid(*handle));
  EXPECT_EQ(noted.index, 7U);
  EXPECT_EQ(StartTicksOf(noted.pid).value(), noted.start_ticks);
  AwaitLog("ran\n");
}

TEST_P(LocalLauncherTest, AProcessThatWasNotNotedNeverRuns) {
  const pid_t parent = ::fork();
  if (parent == 0) {
    LaunchSpec spec = Shell("echo ran");
    spec.note = [](const proto::LaunchRecord&) { ::kill(::getpid(), SIGKILL); };
    launcher_->Start(spec).status().Ignore("this process is killed");
    ::_exit(0);
  }
  // Its child leads a group of its own, which this one can't wait for: the log is looked at once
  // the log file has no writer any more.
  ::waitpid(parent, nullptr, 0);
  while (HasOpener(log_path())) {
    ::poll(nullptr, 0, 1);
  }
  EXPECT_EQ(ReadAll(log_path()), "");
}

TEST_P(LocalLauncherTest, AnotherProcessWithThePidIsNotAdopted) {
  const proto::LaunchRecord orphan = MakeOrphan(Shell("exec sleep 100"));
  proto::LaunchRecord other = orphan;
  --other.start_ticks;
  EXPECT_EQ(launcher_->Adopt(other).status().code(), StatusCode::kNotFound);
  other.pid = 0;
  EXPECT_EQ(launcher_->Adopt(other).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(::kill(static_cast<pid_t>(orphan.pid), SIGKILL), 0) << "it was left alone";
}

TEST_P(LocalLauncherTest, DestroyingTheLauncherKillsAdoptedProcessesToo) {
  const proto::LaunchRecord orphan = MakeOrphan(Shell("exec sleep 100"));
  ASSERT_TRUE(launcher_->Adopt(orphan).ok());
  launcher_.reset();
  EXPECT_EQ(OpenProcess(orphan.pid, orphan.start_ticks).status().code(), StatusCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Local, LocalLauncherTest, ::testing::Values(&MakeHere));

}  // namespace
}  // namespace ps::provisioner
