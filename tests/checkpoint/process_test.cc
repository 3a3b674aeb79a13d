// Databases that other processes have open, and processes that are killed.

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <string>

#include "checkpoint/job_store.h"
#include "checkpoint/storage/rocksdb_storage.h"
#include "ps/base/check.h"
#include "ps/base/unique_fd.h"
#include "tests/checkpoint/temporary_path.h"
#include "tests/checkpoint/workload.h"

namespace ps::checkpoint {
namespace {

using ::testing::HasSubstr;

/// A process of child.cc.
class Child {
 public:
  Child(const std::string& path, const std::string& how) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    PS_CHECK(::pipe2(in.data(), O_CLOEXEC) == 0 && ::pipe2(out.data(), O_CLOEXEC) == 0);
    input_ = UniqueFd(in[1]);
    output_ = UniqueFd(out[0]);
    const UniqueFd child_input(in[0]);
    const UniqueFd child_output(out[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::string program = PS_CHECKPOINT_CHILD;
    std::string path_argument = path;
    std::string how_argument = how;
    const std::array<char*, 4> arguments = {
        program.data(), path_argument.data(), how_argument.data(), nullptr};
    PS_CHECK(
        ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ) == 0);
    ::posix_spawn_file_actions_destroy(&actions);
  }

  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      Wait();
    }
  }

  pid_t pid() const { return pid_; }

  /// Until the end of a line.
  std::string ReadLine() {
    std::string line;
    char c = 0;
    while (::read(output_.get(), &c, 1) == 1 && c != '\n') {
      line += c;
    }
    return line;
  }

  void Kill() { ::kill(pid_, SIGKILL); }

  /// As of waitpid.
  int Wait() {
    int status = 0;
    PS_CHECK(::waitpid(pid_, &status, 0) == pid_);
    pid_ = 0;
    return status;
  }

 private:
  UniqueFd input_;
  UniqueFd output_;
  pid_t pid_ = 0;
};

TEST(ProcessTest, ASecondRunIsToldWhoHasThePath) {
  const TemporaryPath path;
  const auto storage = MakeRocksDbStorage();
  Child child(path.path(), "hold");
  ASSERT_EQ(child.ReadLine(), "ok");
  const auto refused = JobStore::Open(*storage, path.path(), OpenMode::kWrite);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(
      std::string(refused.status().message()),
      HasSubstr(fmt::format("{}/job is in use by process {}", path.path(), child.pid())));
  EXPECT_TRUE(JobStore::Open(*storage, path.path(), OpenMode::kRead).ok());

  child.Kill();
  child.Wait();
  EXPECT_TRUE(JobStore::Open(*storage, path.path(), OpenMode::kWrite).ok())
      << "the kernel gives the lock back";
}

TEST(ProcessTest, AKilledProcessLosesNothingThatWasAcknowledged) {
  const TemporaryPath begin;
  const auto storage = MakeRocksDbStorage();
  Status end;
  RunWorkload(*storage, begin.path(), 3, &end);
  ASSERT_TRUE(end.ok()) << end;
  for (const int changes : {5, 40, 80, 95, 110, 125, 140}) {
    const TemporaryPath path;
    std::filesystem::copy(begin.path(), path.path(), std::filesystem::copy_options::recursive);
    Child child(path.path(), std::to_string(changes));
    const int status = child.Wait();
    ASSERT_TRUE(WIFSIGNALED(status)) << changes;
    // What it had acknowledged is not known here: at least what it began with.
    const Acknowledged done = RunWorkload(*storage, path.path(), 1, &end);
    ASSERT_TRUE(end.ok()) << end;
    EXPECT_GE(done.manifest, 4U);
    const Status checked = CheckWorkload(*storage, path.path(), done, false);
    EXPECT_TRUE(checked.ok()) << changes << ": " << checked;
  }
}

}  // namespace
}  // namespace ps::checkpoint
