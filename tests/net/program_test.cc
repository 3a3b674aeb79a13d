#include "ps/net/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "ps/crypto/certificates.h"
#include "tests/base/temporary_folder.h"

namespace ps::net {
namespace {

using ::testing::HasSubstr;

class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() { std::ofstream(token_) << "secret\n"; }

  /// Runs a program with a flag --id of its own, whose work comes to `status`.
  int Run(std::vector<const char*> words, const Status& status = Status::Ok()) {
    words.insert(words.begin(), "ps_test");
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = RunProgram(
        static_cast<int>(words.size()),
        words.data(),
        {"ps_test", "a test", " --id N", "Tests.", {{"--id", "N", "Its number."}}, "ps_test", "0"},
        "1.2",
        [&](const Flags& flags, const RunFlags& run) -> Result<ProgramWork> {
          PS_TRY(flags.Number("id", 0, 9).status());
          run_ = run;
          return ProgramWork([status](LogSink* /*sink*/) { return status; });
        });
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    return code;
  }

  TemporaryFolder folder_;
  std::string token_ = folder_ / "token";
  RunFlags run_;
  std::string out_;
  std::string err_;
};

TEST_F(ProgramTest, WhatEveryProgramOfARunIsToldIsRead) {
  ASSERT_EQ(
      Run(
          {"--coordinator",
           "[::1]:80",
           "--token-file",
           token_.c_str(),
           "--id",
           "3",
           "--run-start-us=5",
           "--emulate-link-bytes-per-s=1000"}),
      0)
      << err_;
  EXPECT_EQ(run_.coordinator_host, "::1");
  EXPECT_EQ(run_.coordinator_port, 80U);
  EXPECT_EQ(run_.token, "secret");
  EXPECT_EQ(run_.run_start_us, 5);
  EXPECT_EQ(run_.link_bytes_per_s, 1000);
}

TEST_F(ProgramTest, ATokenFileMayHaveACertificate) {
  const std::vector<const char*> run = {
      "--coordinator", "a:1", "--token-file", token_.c_str(), "--id", "3"};
  EXPECT_EQ(Run(run), 0) << err_;
  EXPECT_EQ(run_.tls, nullptr);
  const std::string pem = crypto::Authority::Make().Issue("worker1", {crypto::kWorkerRole});
  std::ofstream(token_) << "secret\n" << pem;
  EXPECT_EQ(Run(run), 0) << err_;
  EXPECT_EQ(run_.token, "secret");
  EXPECT_NE(run_.tls, nullptr);
  std::ofstream(token_) << "secret\n" << pem.substr(0, 900);
  EXPECT_EQ(Run(run), 2);
  EXPECT_THAT(err_, HasSubstr(token_ + " has no certificate, key and authority"));
  EXPECT_THAT(err_, HasSubstr("copy the run's token file whole"));
  std::ofstream(token_) << "\n";
  EXPECT_EQ(Run(run), 2);
  EXPECT_THAT(err_, HasSubstr("has no token"));
}

TEST_F(ProgramTest, MisuseIsToldFromFailureByTheExitCode) {
  EXPECT_EQ(Run({"--id", "3"}), 2);
  EXPECT_THAT(err_, HasSubstr("ps_test: flag --coordinator is missing"));
  const std::vector<const char*> run = {"--coordinator", "a:1", "--token-file", token_.c_str()};
  EXPECT_EQ(Run(run), 2);
  EXPECT_THAT(err_, HasSubstr("ps_test: flag --id is missing"));
  std::vector<const char*> whole = run;
  whole.insert(whole.end(), {"--id", "3"});
  EXPECT_EQ(Run(whole, Status::Unavailable("nobody there")), 1);
  EXPECT_THAT(err_, HasSubstr("nobody there"));
  whole.push_back("--log-file=/nowhere/log");
  EXPECT_EQ(Run(whole), 1);
  EXPECT_THAT(err_, HasSubstr("/nowhere/log"));
}

TEST_F(ProgramTest, HelpHasItsOwnFlagsAmongThoseOfAll) {
  EXPECT_EQ(Run({"--help"}), 0);
  for (const char* text : {"--coordinator HOST:PORT", "--id N [FLAGS]", "Its number.", "--man"}) {
    EXPECT_THAT(out_, HasSubstr(text));
  }
}

}  // namespace
}  // namespace ps::net
