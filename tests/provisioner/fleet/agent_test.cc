// What ps_agent makes of texts; its processes are tested with real ones.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "provisioner/fleet/agent_process.h"
#include "provisioner/fleet/environment.h"
#include "provisioner/fleet/slurm_agent.h"
#include "provisioner/fleet/ssh_agent.h"
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

TEST(AgentTest, CredentialsAreKnownByTheirNames) {
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
