// What ps_agent makes of texts; its processes are tested with real ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "provisioner/fleet/agent_process.h"
#include "provisioner/fleet/environment.h"
#include "provisioner/fleet/slurm_agent.h"
#include "provisioner/fleet/slurm_queue.h"
#include "provisioner/fleet/ssh_agent.h"
#include "provisioner/fleet/ssh_turn.h"
#include "ps/base/file.h"
#include "tests/base/temporary_folder.h"

namespace ps::provisioner {
namespace {

TEST(AgentTextTest, SlurmSaysHowAJobEnded) {
  const SlurmState failed = ParseSlurmState(
      "JobId=3 JobName=a-worker0-12 UserId=root(0) JobState=FAILED Reason=None Requeue=0 "
      "ExitCode=3:0 DerivedExitCode=0:0\n");
  EXPECT_EQ(failed.state, "FAILED");
  EXPECT_EQ(failed.code, 3);
  EXPECT_EQ(failed.signal, 0);
  const SlurmState killed = ParseSlurmState("JobId=3 JobState=CANCELLED ExitCode=0:15");
  EXPECT_EQ(killed.state, "CANCELLED");
  EXPECT_EQ(killed.signal, 15);
  for (const char* const text : {"", "garbage", "JobId=3 JobState= ExitCode=", " ExitCode=x:y"}) {
    const SlurmState none = ParseSlurmState(text);
    EXPECT_EQ(none.state, "") << text;
    EXPECT_EQ(none.code, 0);
    EXPECT_EQ(none.signal, 0);
  }
}

/// Every state in which a job of Slurm is over, with the exit codes that are seen in it.
TEST(AgentTextTest, AnEndOfAJobIsNeverReadAsABetterOne) {
  constexpr int kSuccess = 0;
  constexpr int kFailure = 1;

  struct Case {
    const char* state;
    const char* exit;
    AgentEnd running;  // what the end of a job means that was seen to run
    AgentEnd waiting;  // of one that was not
  };

  const AgentEnd lost{kLostExit, 0};
  const AgentEnd not_started{kNotStartedExit, 0};
  for (const Case& c : {
           Case{"COMPLETED", "0:0", {kSuccess, 0}, {kSuccess, 0}},
           Case{"COMPLETED", "0:53", not_started, not_started},
           Case{"FAILED", "3:0", {3, 0}, {3, 0}},
           Case{"FAILED", "0:0", lost, not_started},
           Case{"FAILED", "0:9", {0, 9}, {0, 9}},
           Case{"FAILED", "0:11", {0, 11}, {0, 11}},
           Case{"FAILED", "0:53", not_started, not_started},
           Case{"FAILED", "0:125", {kFailure, 0}, {kFailure, 0}},
           Case{"FAILED", "0:200", lost, not_started},
           Case{"FAILED", "0:19", lost, not_started},
           Case{"FAILED", "256:0", {kFailure, 0}, {kFailure, 0}},
           Case{"FAILED", "-1:0", {kFailure, 0}, {kFailure, 0}},
           Case{"COMPLETED", "512:0", {kFailure, 0}, {kFailure, 0}},
           Case{"FAILED", "125:0", not_started, not_started},
           Case{"FAILED", "126:0", not_started, not_started},
           Case{"FAILED", "127:0", not_started, not_started},
           Case{"OUT_OF_MEMORY", "0:125", {kFailure, 0}, {kFailure, 0}},
           Case{"OUT_OF_MEMORY", "0:0", {kFailure, 0}, {kFailure, 0}},
           Case{"OUT_OF_MEMORY", "0:9", {kFailure, 0}, {kFailure, 0}},
           Case{"CANCELLED", "0:15", {0, 15}, {0, 15}},
           Case{"CANCELLED", "0:0", lost, not_started},
           Case{"TIMEOUT", "0:15", lost, not_started},
           Case{"TIMEOUT", "0:0", lost, not_started},
           Case{"PREEMPTED", "0:15", lost, not_started},
           Case{"PREEMPTED", "0:0", lost, not_started},
           Case{"NODE_FAIL", "0:0", lost, not_started},
           Case{"NODE_FAIL", "1:0", lost, not_started},
           Case{"BOOT_FAIL", "0:0", lost, not_started},
           Case{"LAUNCH_FAILED", "0:0", lost, not_started},
           Case{"RECONFIG_FAIL", "0:0", lost, not_started},
           Case{"DEADLINE", "0:0", lost, not_started},
           Case{"REVOKED", "0:0", lost, not_started},
           Case{"SPECIAL_EXIT", "0:0", lost, not_started},
       }) {
    const SlurmState state =
        ParseSlurmState(std::string("JobId=3 JobState=") + c.state + " ExitCode=" + c.exit);
    ASSERT_TRUE(IsSlurmEnd(state.state)) << c.state;
    for (const bool has_run : {true, false}) {
      const SlurmEnd end = MeaningOf(state, has_run, "/needed");
      const AgentEnd& meant = has_run ? c.running : c.waiting;
      EXPECT_EQ(end.end.code, meant.code) << c.state << " " << c.exit << " " << has_run;
      EXPECT_EQ(end.end.signal, meant.signal) << c.state << " " << c.exit;
      const bool is_our_word = meant.code >= kNotStartedExit || c.exit == std::string("0:125");
      EXPECT_TRUE(!is_our_word || !end.why.empty()) << c.state << " " << c.exit;
    }
  }
}

TEST(AgentTextTest, TheQueueOfSlurmIsReadLineByLine) {
  const auto states = ParseSlurmQueue("123\n12 RUNNING\n7 PENDING   \n garbage\n\n");
  EXPECT_EQ(states.size(), 2U);
  EXPECT_EQ(states.find("12")->second, "RUNNING");
  EXPECT_EQ(states.find("7")->second, "PENDING");
}

/// A folder with programs that stand for those of this machine; first in PATH.
class FakePrograms {
 public:
  FakePrograms() { ::setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1); }

  ~FakePrograms() { ::setenv("PATH", path_.c_str(), 1); }

  FakePrograms(const FakePrograms&) = delete;
  FakePrograms& operator=(const FakePrograms&) = delete;

  void Add(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(WriteFileAtomically(folder_ / name, "#!/bin/sh\n" + text, 0755).ok());
  }

  std::string operator/(const std::string& name) const { return folder_ / name; }

  std::string folder() const { return folder_.path(); }

 private:
  const std::string path_ = std::getenv("PATH");
  TemporaryFolder folder_;
};

size_t LinesOf(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  return text.ok() ? static_cast<size_t>(std::ranges::count(*text, '\n')) : 0;
}

/// An agent ignores SIGPIPE, as RunAgent has it: a program may end before it has read its input.
class AgentTest : public ::testing::Test {
 protected:
  void TearDown() override { std::signal(SIGPIPE, before_); }

 private:
  void (*const before_)(int) = std::signal(SIGPIPE, SIG_IGN);
};

TEST_F(AgentTest, SlurmIsAskedOnceForAllJobsOfARun) {
  const FakePrograms programs;
  programs.Add(
      "squeue", "echo asked >> " + (programs / "asked") + "\necho 1 RUNNING\necho 2 PENDING\n");
  const TimePoint begin = SystemTime().Now();
  for (int agent = 0; agent < 20; ++agent) {
    SlurmQueue queue(programs.folder(), std::chrono::seconds(60));
    EXPECT_EQ(queue.StateOf("1", begin, std::chrono::hours(1)), "RUNNING");
    EXPECT_EQ(queue.StateOf("2", begin, std::chrono::hours(1)), "PENDING");
    EXPECT_EQ(queue.StateOf("3", begin, std::chrono::hours(1)), "") << "it is in no queue";
  }
  EXPECT_EQ(LinesOf(programs / "asked"), 1U);
  SlurmQueue queue(programs.folder(), std::chrono::seconds(60));
  EXPECT_EQ(queue.StateOf("1", SystemTime().Now(), std::chrono::hours(1)), std::nullopt)
      << "the answer is older than the job";
  EXPECT_EQ(queue.StateOf("1", begin, Duration::zero()), "RUNNING");
  EXPECT_EQ(LinesOf(programs / "asked"), 2U);
}

TEST_F(AgentTest, ASlurmThatIsDownIsNotAskedByEveryAgent) {
  const FakePrograms programs;
  programs.Add("squeue", "echo asked >> " + (programs / "asked") + "\nexit 1\n");
  for (int agent = 0; agent < 20; ++agent) {
    SlurmQueue queue(programs.folder(), std::chrono::seconds(60));
    EXPECT_EQ(queue.StateOf("1", TimePoint(), std::chrono::hours(1)), std::nullopt);
  }
  EXPECT_EQ(LinesOf(programs / "asked"), 1U);
}

/// Wishes that nobody has.
AgentWishes NoWishes() {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  static std::vector<UniqueFd> kept;
  kept.emplace_back(ends[1]);
  return AgentWishes(UniqueFd(ends[0]));
}

/// The controller takes the job and is too busy to say so; it starts the job when its agent has
/// given up.
TEST_F(AgentTest, AJobThatStartsAfterItWasGivenUpRunsNothing) {
  const FakePrograms programs;
  programs.Add(
      "sbatch", "cat > " + (programs / "script") + "\necho 'Socket timed out' >&2\nexit 1\n");
  programs.Add("squeue", "exit 0\n");
  programs.Add("scancel", "echo \"$@\" >> " + (programs / "cancelled") + "\n");
  SlurmJob job;
  job.name = "a-worker3";
  job.log_path = programs / "worker3.log";
  job.arguments = {"/bin/sh", "-c", "echo it took part"};
  job.poll = std::chrono::milliseconds(10);
  job.answer_limit = std::chrono::seconds(60);
  EXPECT_EQ(RunBySlurm(job, NoWishes()).code, kNotStartedExit);
  EXPECT_THAT(ReadFile(programs / "cancelled").value(), ::testing::HasSubstr("--name=a-worker3-"));
  EXPECT_EQ(
      RunCommand({"/bin/sh", programs / "script"}, "", std::chrono::seconds(60)).value(),
      "ps_agent: nobody waits for this job any more\n");
}

TEST_F(AgentTest, AJobOfSlurmGetsNoSecretsOfTheEnvironment) {
  const FakePrograms programs;
  programs.Add("sbatch", "echo \"$@\" > " + (programs / "words") + "\nexit 1\n");
  programs.Add("squeue", "exit 0\n");
  programs.Add("scancel", "exit 0\n");
  SlurmJob job;
  job.name = "a";
  job.log_path = programs / "log";
  job.words = {"--export=ALL"};
  job.answer_limit = std::chrono::seconds(60);
  ASSERT_EQ(::setenv("HF_TOKEN", "t", 1), 0);
  EXPECT_EQ(RunBySlurm(job, NoWishes()).code, kNotStartedExit);
  ::unsetenv("HF_TOKEN");
  const std::string words = ReadFile(programs / "words").value();
  const size_t own = words.find("--export=");
  EXPECT_THAT(
      words.substr(own, words.find(' ', own) - own),
      ::testing::AllOf(
          ::testing::HasSubstr("PATH"), ::testing::Not(::testing::HasSubstr("HF_TOKEN"))));
  EXPECT_GT(words.find("--export=ALL"), own) << "the job's words prevail";
  const char* const variables[] = {
      "AWS_SECRET_ACCESS_KEY=s", "PATH=/bin", "HF_TOKEN=t", "HOME=/root", nullptr};
  EXPECT_EQ(SlurmExport(variables), "HOME,PATH");
  EXPECT_EQ(WithoutCredentials(variables), (std::vector<std::string>{"PATH=/bin", "HOME=/root"}));
}

TEST_F(AgentTest, CredentialsAreKnownByTheirNames) {
  for (const char* const name :
       {"AWS_ACCESS_KEY_ID",
        "AWS_PROFILE",
        "GITHUB_TOKEN",
        "db_password",
        "WANDB_API_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS"}) {
    EXPECT_TRUE(IsCredential(name)) << name;
  }
  for (const char* const name :
       {"PATH",
        "HOME",
        "LD_LIBRARY_PATH",
        "SSH_AUTH_SOCK",
        "SLURM_CONF",
        "SLURM_JWT",
        "CUDA_VISIBLE_DEVICES",
        "KUBECONFIG",
        ""}) {
    EXPECT_FALSE(IsCredential(name)) << name;
  }
}

/// The default of sshd is MaxStartups 10:30:100.
TEST_F(AgentTest, FewAgentsConnectToOneHostAtATime) {
  const TemporaryFolder folder;
  std::vector<std::unique_ptr<SshTurn>> turns;
  for (int i = 0; i < kSshOpeningMax; ++i) {
    turns.push_back(std::make_unique<SshTurn>(folder.path(), "host"));
    EXPECT_TRUE(turns.back()->Take());
  }
  SshTurn late(folder.path(), "host");
  EXPECT_FALSE(late.Take());
  EXPECT_TRUE(SshTurn(folder.path(), "another").Take());
  turns[2]->Release();
  EXPECT_TRUE(late.Take());
  EXPECT_LT(kSshOpeningMax, 10);
}

TEST_F(AgentTest, AHostThatDropsAConnectionBeforeTheLoginIsAskedAgain) {
  const FakePrograms programs;
  programs.Add(
      "ssh",
      "echo x >> " + (programs / "asked") + "\nif [ $(wc -l < " + (programs / "asked") +
          ") -lt 3 ]; then\n"
          "  echo 'kex_exchange_identification: Connection closed by remote host' >&2\n"
          "  exit 255\nfi\nfor last; do :; done\nexec /bin/sh -c \"$last\"\n");
  programs.Add("tool", "exit 7\n");
  ::setenv("XDG_CACHE_HOME", programs.folder().c_str(), 1);
  SshJob job;
  job.host = "host";
  job.program = programs / "tool";
  job.token = "token";
  job.turns = programs.folder();
  job.answer_limit = std::chrono::seconds(60);
  const AgentEnd end = RunOverSsh(job, NoWishes());
  ::unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(end.code, 7);
  EXPECT_EQ(LinesOf(programs / "asked"), 3U);
}

TEST(AgentTextTest, AJobThatMayStillRunIsNotOver) {
  for (const char* const state :
       {"PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED", ""}) {
    EXPECT_FALSE(IsSlurmEnd(state)) << state;
  }
  for (const char* const state : {"COMPLETED", "CANCELLED", "PREEMPTED", "TIMEOUT", "NODE_FAIL"}) {
    EXPECT_TRUE(IsSlurmEnd(state)) << state;
  }
}

TEST(AgentTextTest, APathIsNoPatternOfSlurms) {
  EXPECT_EQ(SlurmFilePattern("/a/b 1/worker0.log"), "/a/b 1/worker0.log");
  EXPECT_EQ(SlurmFilePattern("/50%j/%u%%/x"), "/50%%j/%%u%%%%/x");
}

TEST(AgentTextTest, WordsForAShellAreQuotedAndLastWordsAreShort) {
  EXPECT_EQ(ShellQuoted({"a b", "it's", ""}), R"('a b' 'it'\''s' '')");
  EXPECT_EQ(LastLineOf("first\nlast \r\n\n"), "last");
  EXPECT_EQ(LastLineOf(" \n"), "");
  EXPECT_EQ(LastLineOf(std::string(5000, 'x')).size(), 1000U);
}

TEST(AgentTextTest, AnotherContentHasAnotherName) {
  EXPECT_EQ(ContentName("a"), "af63dc4c8601ec8c-1");
  EXPECT_NE(ContentName("ab"), ContentName("ba"));
}

}  // namespace
}  // namespace ps::provisioner
