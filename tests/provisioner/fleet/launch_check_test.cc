#include "provisioner/fleet/launch_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "ps/base/file.h"
#include "tests/base/temporary_folder.h"

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LaunchCheckTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(LaunchCheckTest, MissingProgramsAreNamedBeforeAnythingStarts) {
  EXPECT_THAT(std::string(CheckPrograms(folder_.path(), {}).message()), HasSubstr("/ps_server"));
  for (const char* name : {"/ps_server", "/ps_worker"}) {
    ASSERT_TRUE(WriteFileAtomically(folder_.path() + name, "", 0755).ok());
  }
  EXPECT_TRUE(CheckPrograms(folder_.path(), {}).ok());
}

TEST_F(LaunchCheckTest, WhatALauncherNeedsHasToBeThere) {
  for (const char* name : {"/ps_server", "/ps_worker"}) {
    ASSERT_TRUE(WriteFileAtomically(folder_.path() + name, "", 0755).ok());
  }
  proto::JobConfig config;
  proto::LaunchConfig& launch = config.launch;
  launch.launcher = proto::LauncherKind::kSsh;
  launch.ssh_config = folder_ / "no_config";
  const auto error = [&] { return std::string(CheckPrograms(folder_.path(), config).message()); };
  EXPECT_THAT(error(), HasSubstr("there is no program " + folder_ / "ps_agent"));
  ASSERT_TRUE(WriteFileAtomically(folder_ / "ps_agent", "", 0755).ok());

  const std::string path = std::getenv("PATH");
  ::setenv("PATH", folder_.path().c_str(), 1);
  EXPECT_EQ(
      error(),
      "launch.launcher is ssh, and no folder of PATH has the program ssh; install openssh-client");
  ASSERT_TRUE(WriteFileAtomically(folder_ / "ssh", "", 0755).ok());
  EXPECT_THAT(error(), HasSubstr("no_config is no file; allowed: a configuration file of ssh"));
  launch.ssh_config.clear();
  EXPECT_EQ(error(), "");
  launch.launcher = proto::LauncherKind::kSlurm;
  EXPECT_THAT(error(), HasSubstr("has the program sbatch; install slurm-client"));
  launch.launcher = proto::LauncherKind::kKubernetes;
  EXPECT_THAT(error(), HasSubstr("has the program kubectl; install kubectl (Debian's package "));
  launch.launcher = proto::LauncherKind::kLocal;
  EXPECT_EQ(error(), "");
  config.servers.launcher = proto::LauncherKind::kSlurm;
  EXPECT_THAT(
      error(), HasSubstr("servers.launcher is slurm, and no folder of PATH has the program"));
  ::setenv("PATH", path.c_str(), 1);
}

TEST_F(LaunchCheckTest, TheProgramOfAPrefixHasToBeThere) {
  for (const char* name : {"/ps_server", "/ps_worker", "/before_worker"}) {
    ASSERT_TRUE(WriteFileAtomically(folder_.path() + name, "", 0755).ok());
  }
  ASSERT_TRUE(WriteFileAtomically(folder_ / "text", "", 0644).ok());
  const auto error = [this](const std::string& prefix) {
    proto::JobConfig config;
    config.launch.prefix = prefix;
    return std::string(CheckPrograms(folder_.path(), config).message());
  };
  EXPECT_EQ(error("env -u HOME"), "");
  EXPECT_EQ(error(folder_ / "ps_server --name {name}"), "");
  EXPECT_THAT(
      error("no-such-program-anywhere {name}"),
      HasSubstr("launch.prefix begins with 'no-such-program-anywhere', which no folder of PATH"));
  EXPECT_THAT(error(folder_ / "text"), HasSubstr("/text', which is not a program"));
  EXPECT_THAT(error(folder_.path()), HasSubstr("which is not a program"));
  EXPECT_THAT(error(folder_ / "before_{role}"), HasSubstr("/before_server', which is not"))
      << "both kinds are looked at";
}

TEST(LaunchTextTest, PlaceholdersAreFilledInAndOtherBracesStay) {
  EXPECT_EQ(FillLaunchText("{name} {role} {index}{index}", "worker", 12), "worker12 worker 1212");
  EXPECT_EQ(FillLaunchText("{nam} {} {", "worker", 1), "{nam} {} {");
  EXPECT_EQ(FillLaunchText("", "server", 0), "");
}

TEST(LaunchTextTest, APrefixIsCutAtSpaces) {
  EXPECT_THAT(
      LaunchWords("  ip netns\texec {name} ", "server", 0),
      ElementsAre("ip", "netns", "exec", "server0"));
  EXPECT_THAT(LaunchWords(" ", "server", 0), IsEmpty());
}

}  // namespace
}  // namespace ps::provisioner
