#include "run/directory/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ps/base/file.h"
#include "run/directory/rental_name.h"
#include "tests/base/temporary_folder.h"
#include "tests/run/dates.h"

namespace ps::run {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class RunDirectoryTest : public ::testing::Test {
 protected:
  TemporaryFolder parent_;
};

TEST_F(RunDirectoryTest, IsNamedAfterTheJobAndTheTime) {
  const auto run = RunDirectory::Create(parent_ / "a/b", "mnist", kNoonMicros);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(run->paths().root, EndsWith("/a/b/mnist-20240131-120000"));
  EXPECT_TRUE(std::filesystem::is_directory(run->paths().logs()));
}

TEST_F(RunDirectoryTest, TwoRunsOfOneSecondGetTwoDirectories) {
  const auto first = RunDirectory::Create(parent_.path(), "mnist", kNoonMicros);
  const auto second = RunDirectory::Create(parent_.path(), "mnist", kNoonMicros);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_THAT(second->paths().root, EndsWith("mnist-20240131-120000-2"));
  EXPECT_NE(first->token(), second->token());
}

/// By which its machines are found, and no other run's.
TEST_F(RunDirectoryTest, TwoRunsOfOneNameRentUnderDifferentOnes) {
  const auto first = RunDirectory::Create(parent_ / "a", "mnist", kNoonMicros);
  const auto second = RunDirectory::Create(parent_ / "b", "mnist", kNoonMicros);
  ASSERT_TRUE(first.ok() && second.ok());
  const std::string name = *RentalRunName(first->paths());
  EXPECT_THAT(name, MatchesRegex("mnist-20240131-120000-[0-9a-f]+"));
  EXPECT_NE(name, *RentalRunName(second->paths()));
  EXPECT_EQ(name, *RentalRunName(first->paths())) << "a successor's";
}

/// Its machines have the name that it had: with another one they were taken for those of a run that
/// is over.
TEST_F(RunDirectoryTest, ARunWhoseTokenCannotBeReadHasNoNameToRentUnder) {
  const auto run = RunDirectory::Create(parent_.path(), "mnist", kNoonMicros);
  ASSERT_TRUE(run.ok());
  const std::string token = run->paths().token();
  std::filesystem::remove(token);
  EXPECT_THAT(RentalRunName(run->paths()).status().message(), testing::HasSubstr(token));
  std::ofstream(token) << "";
  EXPECT_EQ(RentalRunName(run->paths()).status().code(), StatusCode::kCorruption);
}

TEST_F(RunDirectoryTest, TheTokenIsForTheOwnerAlone) {
  const mode_t before = ::umask(0);
  const auto run = RunDirectory::Create(parent_.path(), "mnist", kNoonMicros);
  ::umask(before);
  ASSERT_TRUE(run.ok());

  struct stat info {};

  ASSERT_EQ(::stat(run->paths().token().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_THAT(run->token(), MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(run->token().size(), 64U);
  EXPECT_EQ(*ReadFile(run->paths().token()), run->token() + "\n");
}

TEST_F(RunDirectoryTest, AnOddNameBecomesAPlainFileName) {
  const auto run = RunDirectory::Create(parent_.path(), "../a b/\x1b", kNoonMicros);
  ASSERT_TRUE(run.ok());
  EXPECT_THAT(run->paths().root, EndsWith("/_._a_b__-20240131-120000"));
}

TEST_F(RunDirectoryTest, APlaceThatCanNotBeWrittenSaysWhatToSet) {
  // Also root can make nothing below a file.
  ASSERT_TRUE(WriteFileAtomically(parent_ / "file", "").ok());
  const auto run = RunDirectory::Create(parent_ / "file/runs", "mnist", kNoonMicros);
  EXPECT_EQ(run.status().code(), StatusCode::kIo);
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("--set run.directory=DIR"));
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("/file/runs"));
}

TEST_F(RunDirectoryTest, AReadOnlyDirectorySaysWhatToSet) {
  constexpr uid_t kNobody = 65534;  // root may write everywhere, so it becomes somebody else here
  const bool is_root = ::geteuid() == 0;
  ASSERT_EQ(::chmod(parent_.path().c_str(), 0555), 0);
  ASSERT_TRUE(!is_root || ::seteuid(kNobody) == 0);
  const auto run = RunDirectory::Create(parent_.path(), "mnist", kNoonMicros);
  ASSERT_TRUE(!is_root || ::seteuid(0) == 0);
  ASSERT_EQ(::chmod(parent_.path().c_str(), 0755), 0);
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("--set run.directory=DIR"));
}

TEST_F(RunDirectoryTest, TheLockIsHeldAsLongAsTheRun) {
  RunPaths paths;
  {
    const auto run = RunDirectory::Create(parent_.path(), "mnist", kNoonMicros);
    ASSERT_TRUE(run.ok());
    paths = run->paths();
    EXPECT_TRUE(FileLock::IsHeld(paths.lock()));
    EXPECT_EQ(FileLock::Take(paths.lock(), "").status().code(), StatusCode::kUnavailable);
  }
  EXPECT_FALSE(FileLock::IsHeld(paths.lock()));
  EXPECT_FALSE(FileLock::IsHeld(parent_ / "nothing"));
}

TEST_F(RunDirectoryTest, ALockThatIsLetGoSoonDoesNotStayHeld) {
  const std::string path = parent_ / "lock";
  auto lock = FileLock::Take(path, "");
  ASSERT_TRUE(lock.ok()) << lock.status();
  std::thread holder([held = std::move(lock).value()] { ::poll(nullptr, 0, 50); });
  EXPECT_FALSE(FileLock::StaysHeld(path));
  holder.join();
}

TEST_F(RunDirectoryTest, OneThatWasRemovedAndMadeAnewIsNotTheRunsAnyMore) {
  const auto run = RunDirectory::Create(parent_.path(), "mnist", kNoonMicros);
  ASSERT_TRUE(run.ok());
  EXPECT_TRUE(run->IsStillThere());
  const std::string root = run->paths().root;
  std::filesystem::rename(root, parent_ / "away");
  EXPECT_FALSE(run->IsStillThere());
  std::filesystem::rename(parent_ / "away", root);
  EXPECT_TRUE(run->IsStillThere());
  std::filesystem::remove_all(root);
  EXPECT_FALSE(run->IsStillThere());
  std::filesystem::create_directory(root);
  EXPECT_FALSE(run->IsStillThere());
  std::ofstream(run->paths().lock()) << "1\n";
  EXPECT_FALSE(run->IsStillThere());
}

TEST_F(RunDirectoryTest, OfADiscardedRunNothingStays) {
  const auto run = RunDirectory::Create(parent_.path(), "mnist", kNoonMicros);
  ASSERT_TRUE(run.ok());
  ASSERT_TRUE(run->WriteConfig("{}").ok());
  run->Discard();
  EXPECT_TRUE(std::filesystem::is_empty(parent_.path()));
}

TEST_F(RunDirectoryTest, TheJobNameIsFoundInTheDirectoryName) {
  EXPECT_EQ(JobNameOf("mnist-20240131-120000"), "mnist");
  EXPECT_EQ(JobNameOf("mnist-20240131-120000-2"), "mnist");
  EXPECT_EQ(JobNameOf("mnist-7-20240131-120000"), "mnist-7");
  EXPECT_EQ(JobNameOf("mnist-7"), "mnist-7");
  EXPECT_EQ(JobNameOf("mnist"), "mnist");
}

TEST_F(RunDirectoryTest, RecordsAreAppended) {
  auto file = AppendFile::Open(parent_ / "metrics.jsonl");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->Append("{}\n"), std::nullopt);
  EXPECT_EQ(file->Append("[]\n"), std::nullopt);
  EXPECT_EQ(*ReadFile(parent_ / "metrics.jsonl"), "{}\n[]\n");
}

TEST_F(RunDirectoryTest, AFullDiskIsSaidOnce) {
  auto file = AppendFile::Open("/dev/full");
  ASSERT_TRUE(file.ok());
  const auto said = file->Append("{}");
  ASSERT_TRUE(said.has_value());
  EXPECT_THAT(*said, HasSubstr("No space left on device"));
  EXPECT_THAT(*said, HasSubstr("training goes on"));
  EXPECT_EQ(file->Append("{}"), std::nullopt);
}

TEST_F(RunDirectoryTest, ARecordThatDoesNotFitLeavesNoPartOfItself) {
  const std::string path = parent_ / "metrics.jsonl";
  auto file = AppendFile::Open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->Append("first\n"), std::nullopt);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {8, before.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto said = file->Append("second\n");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  ASSERT_TRUE(said.has_value());
  EXPECT_THAT(*said, HasSubstr("no space for a whole record"));
  EXPECT_EQ(file->Append("third\n"), std::nullopt);
  EXPECT_EQ(*ReadFile(path), "first\nthird\n");
}

}  // namespace
}  // namespace ps::run
