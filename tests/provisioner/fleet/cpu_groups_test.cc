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
using ::testing::HasSubstr;
using ::testing::StartsWith;

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

/// Those of this machine, of one version.
std::vector<CpuGroupParent> ParentsHere(bool is_v2) {
  std::vector<CpuGroupParent> parents =
      CpuGroupParents(ReadFile("/proc/self/mounts").value(), ReadFile("/proc/self/cgroup").value());
  std::erase_if(parents, [is_v2](const CpuGroupParent& parent) { return parent.is_v2 != is_v2; });
  return parents;
}

class CpuGroupsOfThisMachine : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(V1, CpuGroupsOfThisMachine, ::testing::Values(false));
INSTANTIATE_TEST_SUITE_P(V2, CpuGroupsOfThisMachine, ::testing::Values(true));

TEST_P(CpuGroupsOfThisMachine, ABusyProcessIsHeldBackAndItsGroupGoesWithIt) {
  const Result<CpuGroups> groups = CpuGroups::FindIn(ParentsHere(GetParam()));
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

/// The kernel's own answers, where the other version has the controller.
TEST_P(CpuGroupsOfThisMachine, OneWithoutTheControllerIsLeftAsItWas) {
  const std::vector<CpuGroupParent> parents = ParentsHere(GetParam());
  const Result<CpuGroups> groups = CpuGroups::FindIn(parents);
  if (groups.ok() || parents.empty()) {
    GTEST_SKIP() << "it has the controller, or is not mounted";
  }
  EXPECT_THAT(std::string(groups.status().message()), HasSubstr(parents.back().path));
  for (const CpuGroupParent& parent : parents) {
    const std::string probe = fmt::format("{}/spotps-probe-{}", parent.path, ::getpid());
    EXPECT_FALSE(std::filesystem::exists(probe));
  }
}

/// A folder with the files of cgroup v2. The kernel makes those of a group when that is made; here
/// they are there before.
class CpuGroupsV2Test : public ::testing::Test {
 protected:
  /// A group with these lines; none: without the file.
  CpuGroupParent Parent(const std::string& name, const char* controllers, const char* handed_on) {
    const std::string path = folder_ / name;
    std::filesystem::create_directories(path);
    Write(path + "/cgroup.controllers", controllers);
    Write(path + "/cgroup.subtree_control", handed_on);
    return {path, true};
  }

  /// What the kernel makes in a group whose parent hands the controller on.
  static void MakeFiles(const CpuGroupParent& parent, const std::string& group) {
    std::filesystem::create_directories(parent.path + "/" + group);
    Write(parent.path + "/" + group + "/cpu.max", "max 100000\n");
  }

  static std::string Probe() { return fmt::format("spotps-probe-{}", ::getpid()); }

  static void Write(const std::string& path, const char* text) {
    if (text != nullptr) {
      ASSERT_TRUE(WriteFileAtomically(path, text).ok()) << path;
    }
  }

  static std::string WhyNot(const std::vector<CpuGroupParent>& parents) {
    return std::string(CpuGroups::FindIn(parents).status().message());
  }

  TemporaryFolder folder_;
};

TEST_F(CpuGroupsV2Test, AShareIsAQuotaAndAPeriodInCpuMax) {
  const CpuGroupParent parent = Parent("slice", "cpuset cpu io memory pids\n", "cpu memory\n");
  for (const std::string& group : {Probe(), std::string("half"), std::string("little")}) {
    MakeFiles(parent, group);
  }
  const Result<CpuGroups> groups = CpuGroups::FindIn({parent});
  ASSERT_TRUE(groups.ok()) << groups.status();
  const auto words = groups->Limit("half", 0.5);
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ(words->back(), parent.path + "/half/cgroup.procs");
  EXPECT_EQ(ReadFile(parent.path + "/half/cpu.max").value(), "50000 100000");
  ASSERT_TRUE(groups->Limit("little", 0.0001).ok());
  EXPECT_EQ(ReadFile(parent.path + "/little/cpu.max").value(), "1000 100000") << "no less is taken";
}

/// systemd hands cpu on as far as a unit asks for it, and no group with processes can.
TEST_F(CpuGroupsV2Test, OneThatCannotHandItOnIsPassedOver) {
  const CpuGroupParent without = Parent("scope", "memory pids\n", "\n");
  const CpuGroupParent looks_like_it = Parent("slice", "cpuset memory\n", "cpuset\n");
  const CpuGroupParent good = Parent("root", "cpuset cpu\n", "cpu\n");
  MakeFiles(good, Probe());
  const Result<CpuGroups> groups = CpuGroups::FindIn({without, looks_like_it, good});
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_EQ(groups->parent(), good);
  EXPECT_FALSE(std::filesystem::exists(without.path + "/" + Probe()));
}

TEST_F(CpuGroupsV2Test, ARefusalSaysWhichFileRefusesAndWhy) {
  const CpuGroupParent without = Parent("a", "memory\n", "\n");
  EXPECT_THAT(WhyNot({without}), HasSubstr(without.path + "/cgroup.controllers does not have cpu"));

  // A folder refuses to be written, as the file does where the group has processes.
  const CpuGroupParent busy = Parent("b", "cpu memory\n", nullptr);
  std::filesystem::create_directories(busy.path + "/cgroup.subtree_control");
  EXPECT_THAT(
      WhyNot({busy}), HasSubstr("cannot write " + busy.path + "/cgroup.subtree_control: Is a dir"));

  const CpuGroupParent deaf = Parent("c", "cpu\n", "\n");
  EXPECT_THAT(WhyNot({deaf}), HasSubstr(deaf.path + "/cgroup.subtree_control has no cpu"));
  EXPECT_THAT(ReadFile(deaf.path + "/cgroup.subtree_control").value(), StartsWith("+cpu"));

  // In a container the file system may be there for reading alone, and no group has files.
  const CpuGroupParent bare = Parent("d", "cpu\n", "cpu\n");
  EXPECT_THAT(WhyNot({bare}), HasSubstr(Probe() + "/cpu.max: No such file"));
  EXPECT_FALSE(std::filesystem::exists(bare.path + "/" + Probe())) << "it was made, and is removed";
  EXPECT_THAT(WhyNot({V2(folder_ / "none")}), HasSubstr("none/cgroup.controllers does not"));
}

}  // namespace
}  // namespace ps::provisioner
