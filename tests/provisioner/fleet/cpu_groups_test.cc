#include "provisioner/fleet/cpu_groups.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "provisioner/fleet/local_launcher.h"
#include "ps/base/file.h"
#include "tests/base/temporary_folder.h"

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;

CpuGroupParent V1(const std::string& path) {
  return {path, false};
}

CpuGroupParent V2(const std::string& path) {
  return {path, true};
}

TEST(CpuGroupsTest, ItsOwnGroupComesFirstAndThenThoseAboveIt) {
  EXPECT_THAT(
      CpuGroupParents(
          "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n",
          "0::/user.slice/user-0.slice/session-1.scope\n"),
      ElementsAre(
          V2("/sys/fs/cgroup/user.slice/user-0.slice/session-1.scope"),
          V2("/sys/fs/cgroup/user.slice/user-0.slice"),
          V2("/sys/fs/cgroup/user.slice"),
          V2("/sys/fs/cgroup")));
  EXPECT_THAT(
      CpuGroupParents(
          "cgroup /cg/cpuset cgroup rw,cpuset 0 0\ncgroup /cg/cpu cgroup rw,cpu,cpuacct 0 0\n"
          "cgroup2 /cg/unified cgroup2 rw 0 0\n",
          "3:cpuset:/x\n2:cpu,cpuacct:/docker\n0::/\n"),
      ElementsAre(V1("/cg/cpu/docker"), V1("/cg/cpu"), V2("/cg/unified")));
}

TEST(CpuGroupsTest, WhatIsNoLineOfTheseFilesSaysNothing) {
  EXPECT_TRUE(CpuGroupParents("", "").empty());
  EXPECT_TRUE(CpuGroupParents("cgroup2 /cg\n\n  \n", "0:\n::\nx").empty());
  EXPECT_TRUE(CpuGroupParents("cgroup /cg cgroup rw,cpuacct 0 0", "2:cpu:/").empty());
}

/// The kernel counts how often it has held the group back.
bool IsThrottled(const std::string& group) {
  const Result<std::string> text = ReadFile(group + "/cpu.stat");
  const size_t at = text.ok() ? text->find("nr_throttled ") : std::string::npos;
  return at != std::string::npos && (*text)[at + 13] != '0';
}

TEST(CpuGroupsTest, ABusyProcessIsHeldBackAndItsGroupGoesWithIt) {
  const Result<CpuGroups> groups = CpuGroups::Find();
  if (!groups.ok()) {
    GTEST_SKIP() << groups.status().message();
  }
  const TemporaryFolder folder;
  const std::string name = fmt::format("spotps-test-{}", ::getpid());
  const std::string group = groups->parent().path + "/" + name;
  const auto words = groups->Limit(name, 0.05);
  ASSERT_TRUE(words.ok()) << words.status();
  LaunchSpec spec;
  spec.program = words->front();
  spec.arguments.assign(words->begin() + 1, words->end());
  spec.arguments.insert(spec.arguments.end(), {"/bin/sh", "-c", "while :; do :; done"});
  spec.log_path = folder / "log";
  const std::unique_ptr<Launcher> launcher = MakeLocalLauncher();
  const auto handle = launcher->Start(spec);
  ASSERT_TRUE(handle.ok()) << handle.status();
  while (!IsThrottled(group)) {
    ASSERT_TRUE(launcher->PollExits().empty()) << ReadFile(spec.log_path).value();
    ::poll(nullptr, 0, 10);
  }
  EXPECT_EQ(ReadFile(group + "/cgroup.procs").value(), fmt::format("{}\n", launcher->pid(*handle)));
  groups->Remove(name);
  EXPECT_TRUE(std::filesystem::exists(group)) << "a process is in it";
  ASSERT_TRUE(launcher->Kill(*handle).ok());
  while (launcher->PollExits().empty()) {
    ::poll(nullptr, 0, 1);
  }
  groups->Remove(name);
  EXPECT_FALSE(std::filesystem::exists(group));
}

}  // namespace
}  // namespace ps::provisioner
