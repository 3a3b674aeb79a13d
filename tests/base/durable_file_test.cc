#include "ps/base/durable_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ps/base/file.h"
#include "tests/base/temporary_folder.h"

namespace ps {
namespace {

using ::testing::ElementsAre;

/// What was synced since the test began.
std::vector<std::string>& Synced() {
  static std::vector<std::string> paths;
  return paths;
}

}  // namespace

/// In place of the C library's, which does the same and keeps no record.
extern "C" int fsync(int fd) {
  std::error_code error;
  Synced().push_back(
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error).string());
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace {

class DurableFileTest : public ::testing::Test {
 protected:
  DurableFileTest() { Synced().clear(); }

  TemporaryFolder folder_;
};

TEST_F(DurableFileTest, TheDirectoriesAboveNewOnesAreSynced) {
  ASSERT_TRUE(CreateDirectories(folder_ / "a/b").ok());
  EXPECT_THAT(Synced(), ElementsAre(folder_.path(), folder_ / "a"));
  Synced().clear();
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

TEST_F(DurableFileTest, AFileThatIsWrittenAtomicallyIsSyncedBeforeItsName) {
  ASSERT_TRUE(WriteFileAtomically(folder_ / "file", "text").ok());
  EXPECT_THAT(Synced(), ElementsAre(folder_ / "file.draft", folder_.path()));
}

}  // namespace
}  // namespace ps
