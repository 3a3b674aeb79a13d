#include "ps/base/durable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "ps/base/file.h"
#include "tests/base/sync_record.h"
#include "tests/base/temporary_folder.h"

namespace ps {
namespace {

using ::testing::ElementsAre;

class DurableFileTest : public ::testing::Test {
 protected:
  DurableFileTest() { ForgetSynced(); }

  TemporaryFolder folder_;
};

TEST_F(DurableFileTest, TheDirectoriesAboveNewOnesAreSynced) {
  ASSERT_TRUE(CreateDirectories(folder_ / "a/b").ok());
  EXPECT_THAT(Synced(), ElementsAre(folder_.path(), folder_ / "a"));
  ForgetSynced();
  ASSERT_TRUE(CreateDirectories(folder_ / "a/b").ok());
  EXPECT_THAT(Synced(), ElementsAre());
  std::ofstream(folder_ / "file") << "text";
  EXPECT_EQ(CreateDirectories(folder_ / "file/a").code(), StatusCode::kIo);
}

TEST_F(DurableFileTest, ANewNameIsSynced) {
  std::ofstream(folder_ / "draft") << "text";
  ASSERT_TRUE(MoveIntoPlace(folder_ / "draft", folder_ / "file").ok());
  EXPECT_EQ(*ReadFile(folder_ / "file"), "text");
  EXPECT_THAT(Synced(), ElementsAre(folder_.path()));
  EXPECT_EQ(MoveIntoPlace(folder_ / "draft", folder_ / "file").code(), StatusCode::kIo);
}

TEST_F(DurableFileTest, ADirectoryTakesThePlaceOfAnEmptyOne) {
  ASSERT_TRUE(CreateDirectories(folder_ / "draft").ok());
  std::ofstream(folder_ / "draft/file") << "text";
  ASSERT_TRUE(CreateDirectories(folder_ / "there").ok());
  ASSERT_TRUE(MoveIntoPlace(folder_ / "draft", folder_ / "there").ok());
  EXPECT_EQ(*ReadFile(folder_ / "there/file"), "text");
  std::ofstream(folder_ / "draft") << "text";
  EXPECT_EQ(MoveIntoPlace(folder_ / "draft", folder_ / "there").code(), StatusCode::kIo);
}

TEST_F(DurableFileTest, WhatIsNoFileStaysWhatItIs) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/full", folder_ / "link");
  for (const char* const name : {"pipe", "link"}) {
    EXPECT_EQ(WriteFileAtomically(folder_ / name, "text").code(), StatusCode::kInvalidArgument);
    EXPECT_FALSE(std::filesystem::exists(folder_ / (std::string(name) + ".draft")));
  }
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ / "link"));
  // A link under the draft's name may be somebody else's.
  std::ofstream(folder_ / "theirs") << "theirs";
  std::filesystem::create_symlink(folder_ / "theirs", folder_ / "file.draft");
  EXPECT_EQ(WriteFileAtomically(folder_ / "file", "text").code(), StatusCode::kIo);
  EXPECT_EQ(*ReadFile(folder_ / "theirs"), "theirs");
}

TEST_F(DurableFileTest, AFileThatIsWrittenAtomicallyIsSyncedBeforeItsName) {
  ASSERT_TRUE(WriteFileAtomically(folder_ / "file", "text").ok());
  EXPECT_THAT(Synced(), ElementsAre(folder_ / "file.draft", folder_.path()));
}

}  // namespace
}  // namespace ps
