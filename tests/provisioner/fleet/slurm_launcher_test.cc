// Processes as jobs of Slurm, with a real cluster on this machine.

#include <fmt/core.h>

#include "provisioner/fleet/agent_exit.h"
#include "provisioner/fleet/agent_process.h"
#include "provisioner/fleet/launch_check.h"
#include "tests/provisioner/fleet/agent_place.h"

namespace ps::provisioner {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class SlurmPlace final : public AgentPlace {
 public:
  std::string Open(const std::string& directory) override {
    ::setenv("SLURM_CONF", (directory + "/slurm.conf").c_str(), 1);
    return script_.Start("slurm.sh", directory);
  }

  LaunchSpec Of(LaunchSpec spec) const override { return With("--partition=spot", spec); }

  static LaunchSpec With(const std::string& words, LaunchSpec spec) {
    const std::string log_path = spec.log_path;
    return Agent(
        std::move(spec),
        PS_BIN_DIR "/ps_agent",
        {"--launcher", "slurm", "--poll-ms", "100", "--log-file", log_path, "--sbatch", words});
  }
};

std::unique_ptr<Place> MakeSlurmPlace() {
  return std::make_unique<SlurmPlace>();
}

INSTANTIATE_TEST_SUITE_P(Slurm, LauncherConformance, ::testing::Values(&MakeSlurmPlace));

class SlurmLauncherTest : public LauncherConformance {
 protected:
  LaunchSpec With(const std::string& words, const std::string& script) const {
    LaunchSpec spec;
    spec.program = "/bin/sh";
    spec.arguments = {"-c", script};
    spec.log_path = log_path();
    return SlurmPlace::With(words, spec);
  }

  static std::string Ask(const std::vector<std::string>& words) {
    return RunCommand(words, "", std::chrono::seconds(30)).value();
  }

  /// "STATE NAME", of each job that waits or runs.
  static std::string Queue() { return Ask({"squeue", "--noheader", "--format=%T %j"}); }

  /// The number that Slurm gave the newest job.
  std::string AwaitJob() const {
    constexpr std::string_view kSaid = "ps_agent: Slurm job ";
    while (true) {
      const Result<std::string> log = ReadFile(log_path());
      const size_t at = log.ok() ? log->rfind(kSaid) : std::string::npos;
      if (at != std::string::npos && log->find(' ', at + kSaid.size()) != std::string::npos) {
        return log->substr(
            at + kSaid.size(), log->find(' ', at + kSaid.size()) - at - kSaid.size());
      }
      Nap();
    }
  }

  /// A job that does not end, with a program of this text instead of sbatch, which does not answer
  /// within `seconds`.
  void StartBySbatch(const std::string& text, int seconds) {
    const std::string path = std::getenv("PATH");
    ASSERT_TRUE(WriteFileAtomically(directory_ / "sbatch", "#!/bin/sh\n" + text, 0755).ok());
    LaunchSpec spec = With("--partition=spot", "exec sleep 100");
    spec.arguments.insert(spec.arguments.begin(), {"--answer-s", std::to_string(seconds)});
    ::setenv("PATH", (directory_.path() + ":" + path).c_str(), 1);
    EXPECT_EQ(ExitOf(spec).code, kNotStartedExit);
    ::setenv("PATH", path.c_str(), 1);
  }

  static void AwaitEmptyQueue() {
    constexpr int kLooks = 1200;  // a minute
    for (int look = 0; look < kLooks && !Queue().empty(); ++look) {
      ::poll(nullptr, 0, 50);
    }
    EXPECT_EQ(Queue(), "");
  }
};

TEST_P(SlurmLauncherTest, APartitionThatIsNotThereIsNamed) {
  EXPECT_EQ(ExitOf(With("--partition=nope", "exit 0")).code, kNotStartedExit);
  EXPECT_THAT(
      Log(),
      AllOf(
          HasSubstr("ps_agent: Slurm took no job: sbatch failed with code 1"),
          HasSubstr("nvalid partition")));
}

TEST_P(SlurmLauncherTest, ANodeThatLacksWhatTheProgramNeedsStartsNothing) {
  LaunchSpec spec = With("--partition=spot", "echo started");
  spec.arguments.insert(spec.arguments.begin(), {"--needs", directory_ / "not there"});
  EXPECT_EQ(ExitOf(spec).code, kNotStartedExit);
  EXPECT_THAT(
      Log(),
      AllOf(HasSubstr("there is no " + directory_ / "not there"), Not(HasSubstr("started\n"))));
}

TEST_P(SlurmLauncherTest, WhatSlurmThinksOfServersIsAskedBeforehand) {
  proto::JobConfig config;
  config.servers.launcher = proto::LauncherKind::kSlurm;
  config.servers.sbatch = "--partition=ondemand";
  EXPECT_EQ(CheckServerPlaces(config, std::chrono::seconds(30)).message(), "");
  EXPECT_EQ(Queue(), "");
  config.servers.sbatch = "--partition=nope";
  EXPECT_THAT(
      std::string(CheckServerPlaces(config, std::chrono::seconds(30)).message()),
      AllOf(HasSubstr("Slurm would take no server: "), EndsWith("; mend servers.sbatch")));
}

TEST_P(SlurmLauncherTest, AJobThatWaitsIsTakenOutOfTheQueue) {
  const auto handle = launcher_->Start(With("--partition=spot --hold", "exit 0"));
  ASSERT_TRUE(handle.ok());
  AwaitJob();
  EXPECT_THAT(Queue(), HasSubstr("PENDING spotps-"));
  EXPECT_TRUE(launcher_->PollExits().empty());
  ASSERT_TRUE(launcher_->Kill(*handle).ok());
  AwaitExit();
  AwaitEmptyQueue();
}

/// The launcher's own task, 7 for example, of an array that has no other.
TEST_P(SlurmLauncherTest, AWorkerIsTheTaskOfAnArray) {
  LaunchSpec spec = With("--partition=spot", "echo task $SLURM_ARRAY_TASK_ID; exit 3");
  spec.arguments.insert(spec.arguments.begin(), {"--task", "7"});
  EXPECT_EQ(ExitOf(spec).code, 3);
  EXPECT_THAT(AwaitJob(), EndsWith("_7"));
  EXPECT_THAT(Log(), HasSubstr("task 7"));
}

TEST_P(SlurmLauncherTest, ATaskThatWaitsIsTakenOutOfTheQueue) {
  LaunchSpec spec = With("--partition=spot --hold", "exit 0");
  spec.arguments.insert(spec.arguments.begin(), {"--task", "8"});
  const auto handle = launcher_->Start(spec);
  ASSERT_TRUE(handle.ok());
  const std::string job = AwaitJob();
  Ask({"scancel", "--state=PENDING", job});
  EXPECT_EQ(AwaitExit().code, kNotStartedExit);
  AwaitEmptyQueue();
}

/// Slurm's MaxArraySize is 1001 by default.
TEST_P(SlurmLauncherTest, AWorkerWhoseNumberIsTooLargeForAnArrayIsAJob) {
  LaunchSpec spec = With("--partition=spot", "exit 0");
  spec.arguments.insert(spec.arguments.begin(), {"--task", "1001"});
  EXPECT_EQ(ExitOf(spec).code, 0);
  EXPECT_THAT(AwaitJob(), Not(HasSubstr("_")));
}

TEST_P(SlurmLauncherTest, AJobThatSomebodyElseCancelsIsLost) {
  ASSERT_TRUE(launcher_->Start(Endless()).ok());
  const pid_t pid = AwaitPid();
  Ask({"scancel", AwaitJob()});
  const ProcessExit exit = AwaitExit();
  EXPECT_FALSE(exit.is_clean);
  EXPECT_FALSE(exit.is_failure);
  AwaitEndOf(pid);
}

TEST_P(SlurmLauncherTest, APreemptedWorkerGetsSigtermAndIsNotStartedAgainBySlurm) {
  ASSERT_TRUE(launcher_
                  ->Start(With(
                      "--partition=spot",
                      "trap 'echo noticed; exit 0' TERM; echo $$ > " + PidPath() +
                          "; while :; do sleep 0.05; done"))
                  .ok());
  const pid_t pid = AwaitPid();
  const std::string job = AwaitJob();
  const std::string urgent = Ask(
      {"sbatch",
       "--parsable",
       "--partition=ondemand",
       "--nodes=3",
       "--output=/dev/null",
       "--wrap=sleep 100"});
  AwaitExit();
  AwaitEndOf(pid);
  EXPECT_THAT(Log(), HasSubstr("noticed"));
  EXPECT_THAT(Queue(), Not(HasSubstr("spotps-")));
  EXPECT_THAT(Ask({"scontrol", "--oneliner", "show", "job", job}), HasSubstr(" Requeue=0 "));
  Ask({"scancel", urgent.substr(0, urgent.find('\n'))});
  AwaitEmptyQueue();
}

TEST_P(SlurmLauncherTest, SigtermComesAsLongBeforeTheEndOfTheTimeAsItLeavesAndAMinuteAtLeast) {
  const std::string path = std::getenv("PATH");
  ASSERT_TRUE(
      WriteFileAtomically(directory_ / "sbatch", "#!/bin/sh\necho $* >&2\nexit 1\n", 0755).ok());
  ::setenv("PATH", (directory_.path() + ":" + path).c_str(), 1);
  for (const auto& [notice_s, signal_s] :
       {std::pair("0", "@60 "), std::pair("61", "@61 "), std::pair("3600", "@3600 ")}) {
    LaunchSpec spec = With("--partition=spot", "exit 0");
    spec.arguments.insert(spec.arguments.begin(), {"--notice-s", notice_s});
    EXPECT_EQ(ExitOf(spec).code, kNotStartedExit);
    EXPECT_THAT(Log(), HasSubstr(std::string("--signal=B:TERM") + signal_s));
  }
  ::setenv("PATH", path.c_str(), 1);
}

TEST_P(SlurmLauncherTest, ASbatchThatNeverAnswersIsGivenUp) {
  StartBySbatch("sleep 100\n", 1);
  EXPECT_THAT(Log(), HasSubstr("Slurm took no job: sbatch did not answer within 1 s"));
}

TEST_P(SlurmLauncherTest, AJobThatSbatchTookWithoutSayingSoIsCancelled) {
  const std::string taken = directory_ / "taken";
  StartBySbatch("PATH=${PATH#*:} sbatch \"$@\" > " + taken + "\nsleep 100\n", 3);
  EXPECT_THAT(Log(), HasSubstr("Slurm took no job: sbatch did not answer within 3 s"));
  AwaitEmptyQueue();
  const std::string job = ReadFile(taken).value();
  EXPECT_THAT(
      Ask({"scontrol", "--oneliner", "show", "job", job.substr(0, job.find('\n'))}),
      HasSubstr(" JobState=CANCELLED "));
}

INSTANTIATE_TEST_SUITE_P(Slurm, SlurmLauncherTest, ::testing::Values(&MakeSlurmPlace));

}  // namespace
}  // namespace ps::provisioner
