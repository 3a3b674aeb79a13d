#include "run/run_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "ps/base/file.h"
#include "ps/crypto/token_file.h"
#include "ps/crypto/worker_token.h"
#include "tests/base/temporary_folder.h"
#include "tests/run/dates.h"

namespace ps::run {
namespace {

using proto::ProcessKind;
using ::testing::HasSubstr;
using ::testing::Not;

class RunKeysTest : public ::testing::Test {
 protected:
  RunDirectory Create(bool is_encrypted) {
    auto run = RunDirectory::Create(parent_.path(), "mnist", kNoonMicros, is_encrypted);
    EXPECT_TRUE(run.ok()) << run.status();
    return std::move(run).value();
  }

  static crypto::TokenFile Make(RunKeys* keys, ProcessKind kind, uint32_t index) {
    const auto path = keys->MakeTokenFile(kind, index);
    EXPECT_TRUE(path.ok()) << path.status();
    struct stat info = {};
    EXPECT_EQ(::stat(path->c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U);
    return *crypto::ReadTokenFile(*path);
  }

  static Status Admit(const RunKeys& keys, const std::string& token) {
    proto::Hello hello;
    hello.role = proto::Role::kWorker;
    hello.token = token;
    return keys.Admit(hello);
  }

  TemporaryFolder parent_;
};

TEST_F(RunKeysTest, AServerGetsTheRunsTokenAndAWorkerOneForItsSeat) {
  const RunDirectory run = Create(false);
  RunKeys keys(&run);
  EXPECT_EQ(keys.CoordinatorsTls(), nullptr);
  EXPECT_EQ(Make(&keys, ProcessKind::kServer, 1).token, run.token());
  const crypto::TokenFile worker = Make(&keys, ProcessKind::kWorker, 5);
  EXPECT_EQ(crypto::CheckWorkerToken(run.token(), worker.token), WorkerId(5));
  EXPECT_TRUE(worker.pem.empty());
  EXPECT_TRUE(Admit(keys, worker.token).ok());
  EXPECT_TRUE(Admit(keys, run.token()).ok());
}

/// On a full disk. A server that was lost meanwhile could not come back, and ended the run.
TEST_F(RunKeysTest, AFileIsOverwrittenWhereNoNewOneCanBeMade) {
  const RunDirectory run = Create(false);
  RunKeys keys(&run);
  const std::string old = Make(&keys, ProcessKind::kWorker, 5).token;
  std::filesystem::create_directory(*keys.MakeTokenFile(ProcessKind::kWorker, 5) + ".draft");
  const std::string newest = Make(&keys, ProcessKind::kWorker, 5).token;
  EXPECT_NE(newest, old);
  EXPECT_TRUE(Admit(keys, newest).ok());
  std::filesystem::create_directory(run.paths().tokens() + "/worker6.draft");
  EXPECT_EQ(keys.MakeTokenFile(ProcessKind::kWorker, 6).status().code(), StatusCode::kIo);
}

TEST_F(RunKeysTest, AReplacedWorkersTokenIsWorthlessAlsoToTheNextCoordinator) {
  RunDirectory run = Create(false);
  std::string old;
  std::string newest;
  {
    RunKeys keys(&run);
    old = Make(&keys, ProcessKind::kWorker, 5).token;
    newest = Make(&keys, ProcessKind::kWorker, 5).token;
    EXPECT_TRUE(Admit(keys, newest).ok());
    EXPECT_THAT(Admit(keys, old).message(), HasSubstr("worker 5 was replaced"));
  }
  RunKeys again(&run);
  EXPECT_TRUE(Admit(again, newest).ok());
  EXPECT_FALSE(Admit(again, old).ok());
  // Signed, and nobody knows of it: it is of a file that was removed.
  EXPECT_FALSE(Admit(again, crypto::MakeWorkerToken(run.token(), WorkerId(6))).ok());
}

TEST_F(RunKeysTest, AnEncryptedRunHasCertificatesForEverybodyAfterARestartToo) {
  const RunDirectory run = Create(true);
  ASSERT_TRUE(run.authority().has_value());
  struct stat info = {};
  ASSERT_EQ(::stat(run.paths().authority().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  RunKeys keys(&run);
  EXPECT_NE(keys.CoordinatorsTls(), nullptr);
  const std::string by_hand = *ReadFile(run.paths().token());
  EXPECT_THAT(by_hand, ::testing::StartsWith(run.token() + "\n-----BEGIN CERTIFICATE"));
  for (const ProcessKind kind : {ProcessKind::kServer, ProcessKind::kWorker}) {
    const crypto::TokenFile file = Make(&keys, kind, 0);
    const auto tls = crypto::TlsOf(file, "it");
    EXPECT_TRUE(tls.ok() && *tls != nullptr) << tls.status();
    const std::string authority = run.authority()->pem();
    const size_t key = authority.find("-----BEGIN PRIVATE KEY-----\n");
    ASSERT_NE(key, std::string::npos);
    EXPECT_THAT(file.pem, Not(HasSubstr(authority.substr(key + 28, 60))));
  }
}

TEST_F(RunKeysTest, AReopenedRunSignsForTheSameOne) {
  std::string root;
  std::string authority;
  {
    const RunDirectory run = Create(true);
    root = run.paths().root;
    authority = run.authority()->pem();
  }
  RunPaths paths{root};
  auto lock = FileLock::Take(paths.lock(), "1\n");
  ASSERT_TRUE(lock.ok()) << lock.status();
  const auto again = RunDirectory::Reopen(paths, std::move(lock).value());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->authority()->pem(), authority);
  std::filesystem::remove(paths.authority());
  auto second = FileLock::Take(paths.lock() + "2", "1\n");
  const auto lost = RunDirectory::Reopen(paths, std::move(second).value());
  EXPECT_THAT(lost.status().message(), HasSubstr("authority.pem"));
}

}  // namespace
}  // namespace ps::run
