#include "ps/base/file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/base/temporary_folder.h"

namespace ps {
namespace {

class FileTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(FileTest, AnAtomicWriteReplacesTheWholeFile) {
  const std::string path = folder_ / "file";
  ASSERT_TRUE(WriteFileAtomically(path, "a long first text").ok());
  ASSERT_TRUE(WriteFileAtomically(path, "second").ok());
  EXPECT_EQ(*ReadFile(path), "second");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(FileTest, AFailedWriteNamesThePathAndLeavesNothing) {
  const Status status = WriteFileAtomically(folder_ / "none/file", "text");
  EXPECT_EQ(status.code(), StatusCode::kIo);
  EXPECT_NE(status.message().find(folder_ / "none/file"), std::string_view::npos);
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(FileTest, ReadingHasALimitAndTellsAMissingFileApart) {
  const std::string path = folder_ / "file";
  ASSERT_TRUE(WriteFileAtomically(path, "second").ok());
  EXPECT_EQ(*ReadFile(path, 6), "second");
  EXPECT_EQ(ReadFile(path, 5).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadFile(folder_ / "none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadFile(folder_.path()).status().code(), StatusCode::kIo);
}

TEST_F(FileTest, ASecretHasNoNewlineAtItsEnd) {
  const std::string path = folder_ / "secret";
  ASSERT_TRUE(WriteFileAtomically(path, "secret\r\n").ok());
  EXPECT_EQ(*ReadSmallFile(path, 8), "secret");
  EXPECT_EQ(ReadSmallFile(path, 7).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ps
