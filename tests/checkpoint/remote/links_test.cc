#include "checkpoint/remote/links.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "tests/base/temporary_folder.h"

namespace ps::checkpoint {
namespace {

namespace fs = std::filesystem;

class LinksTest : public ::testing::Test {
 protected:
  LinksTest() {
    gone_.pid = 999'999'999;  // more than Linux has
    gone_.start_ticks = 1;
  }

  /// Whether a folder of this owner is still there when the next owner has come.
  bool Stays(const std::string& name, bool is_old = false) const {
    const fs::path folder = folder_ / name;
    fs::create_directories(folder / "shard-0");
    if (is_old) {
      fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::hours(8 * 24));
    }
    EXPECT_TRUE(Links::Create(folder_.path()).ok());
    return fs::exists(folder);
  }

  bool Stays(const ProcessIdentity& owner, bool is_old = false) const {
    return Stays(Links::NameOf(owner, 1), is_old);
  }

  TemporaryFolder folder_;
  const ProcessIdentity self_ = ThisProcess();
  ProcessIdentity gone_ = self_;
};

TEST_F(LinksTest, OwnersAreKnownByTheNamesOfTheirFolders) {
  EXPECT_EQ(Links::OwnerOf(Links::NameOf(self_, 7)), self_);
  EXPECT_GT(self_.start_ticks, 0U);
  for (const char* name : {"links-12-1", "links-", "links-a-b-c-d-x-1", "shard-0"}) {
    EXPECT_EQ(Links::OwnerOf(name), std::nullopt) << name;
  }
}

TEST_F(LinksTest, WhatProcessesOfThisMachineLeftIsRemovedWhenTheyAreOver) {
  EXPECT_FALSE(Stays(gone_));
  EXPECT_TRUE(Stays(self_)) << "it lives";
  ProcessIdentity former = self_;
  former.start_ticks -= 1;
  EXPECT_FALSE(Stays(former)) << "its pid is another process's by now";
  former = self_;
  former.boot += 1;
  EXPECT_FALSE(Stays(former)) << "the machine was started again";
}

/// As the coordinator of another machine that copies at this moment.
TEST_F(LinksTest, AProcessOfAnotherMachineOrContainerIsNotJudgedByItsPid) {
  ProcessIdentity elsewhere = gone_;
  elsewhere.machine += 1;
  EXPECT_TRUE(Stays(elsewhere));
  elsewhere.boot += 1;
  EXPECT_TRUE(Stays(elsewhere));
  ProcessIdentity contained = gone_;
  contained.pid_namespace += 1;
  EXPECT_TRUE(Stays(contained));
  EXPECT_TRUE(Stays("links-999999999-1")) << "of an earlier version";
}

TEST_F(LinksTest, WhatNobodyCanJudgeIsRemovedAfterAWeek) {
  ProcessIdentity elsewhere = gone_;
  elsewhere.machine += 1;
  EXPECT_FALSE(Stays(elsewhere, true));
  EXPECT_FALSE(Stays("links-999999999-1", true));
  EXPECT_TRUE(Stays(self_, true));
}

}  // namespace
}  // namespace ps::checkpoint
