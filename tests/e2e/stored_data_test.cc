// Data that no machine has: they are in a bucket, for which a small server stands
// (tests/store/object_server.py).

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/e2e/support/poll.h"
#include "tests/e2e/support/train_run.h"
#include "tests/store/s3_under_test.h"

namespace ps::e2e {
namespace {

namespace fs = std::filesystem;
using store::TestServer;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr const char* kFashion = "/usr/share/datasets/fashion-mnist";

class StoredDataE2eTest : public E2eTest {
 protected:
  void SetUp() override {
    E2eTest::SetUp();
    if (TestServer().port() == 0) {
      GTEST_SKIP() << "no server: " << TestServer().why() << "; is python3 installed?";
    }
    for (const auto& [name, value] : TestServer().KeyVariables()) {
      ::setenv(name.c_str(), value.c_str(), 1);  // a test has a process of its own
    }
  }

  static void PutFile(const std::string& bucket, const std::string& key, const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const Status put = TestServer().Put(bucket, key, bytes);
    ASSERT_TRUE(put.ok()) << put;
  }

  /// Many small tables, in a bucket that takes its time.
  void PutTables(int count) {
    for (int i = 0; i < count; ++i) {
      std::string rows = "a,b,label\n";
      for (int j = 0; j < 20; ++j) {
        rows += std::to_string(i + j) + "," + std::to_string(i * j % 17) + "," +
                std::to_string((i + j) % 2) + "\n";
      }
      const std::string name = (i % 10 == 0 ? "test_" : "train_") + std::to_string(1000 + i);
      ASSERT_TRUE(TestServer().Put("slow", "tables/" + name + ".csv", rows).ok());
    }
    job_.Set(
            "data",
            R"({"format": "csv", "directory": ")" + TestServer().PlaceOf("slow", "tables") +
                R"(", "cache": ")" + folder_.path() + R"(/cache"})")
        .Set(
            "model",
            R"({"layers": [{"kind": "linear", "out": 2}, {"kind": "softmax_cross_entropy"}]})");
  }
};

TEST_F(StoredDataE2eTest, ARunTrainsOnABucketsObjectsAndFetchesThemOnce) {
  int ranges = 0;
  for (const auto& entry : fs::directory_iterator(kFashion)) {
    if (entry.path().filename().string().find("-ubyte") != std::string::npos) {
      PutFile("good", "fashion/" + entry.path().filename().string(), entry.path());
      ranges += static_cast<int>((entry.file_size() + (8U << 20) - 1) / (8U << 20));
    }
  }
  const std::string data = R"("format": "idx", "train_samples": 2000, "test_samples": 1000, )";
  job_.Set(
          "data",
          "{" + data + R"("directory": ")" + TestServer().PlaceOf("good", "fashion") +
              R"(", "cache": ")" + folder_.path() + R"(/cache"})")
      .Set("model", R"({"name": "cnn"})")
      .Set("optimizer", R"({"kind": "adam", "lr": 0.001})")
      .Set("workers", R"([{"count": 2}])")
      .Set("train", R"({"epochs": 1, "minibatch": 50})");
  std::string root;
  {
    TrainRun run(job_);
    ASSERT_EQ(run.WaitForEnd(), ProcessEnd{});
    EXPECT_THAT(run.psctl().Out(), ContainsRegex("test accuracy +[0-9.]+ %"));
    EXPECT_GT(run.Summary()["test_accuracy"].number(), 0.25)
        << "of 10 classes it has learned something";
    run.ExpectExactLedger();
    EXPECT_EQ(TestServer().RequestsWith("GET /good/fashion/"), ranges)
        << "psctl, coordinator and two workers of one machine";
    root = run.Root();
  }
  const Output evaluated = Psctl({"evaluate", root, "--json"});
  ASSERT_EQ(evaluated.end, ProcessEnd{}) << evaluated.err;
  EXPECT_EQ(Json::Parse(evaluated.out).value()["samples"].number(), 1000);
  const Output typed = Psctl({"evaluate", root, TestServer().PlaceOf("good", "fashion"), "--json"});
  EXPECT_EQ(typed.end, ProcessEnd{}) << typed.err;
  EXPECT_EQ(TestServer().RequestsWith("GET /good/fashion/"), ranges) << "the cache has them";
}

TEST_F(StoredDataE2eTest, AFetchThatIsKilledGoesOn) {
  constexpr int kTables = 160;
  PutTables(kTables);
  job_.Write();
  {
    Process check(
        {.program = "psctl",
         .arguments = {"check", job_.path()},
         .output_stem = folder_ / "killed"});
    ASSERT_TRUE(WaitUntil([] { return TestServer().RequestsWith("GET /slow/tables/") >= 24; }));
    check.Signal(SIGKILL);
    ASSERT_TRUE(check.Wait().has_value());
  }
  const int before = TestServer().RequestsWith("GET /slow/tables/");
  ASSERT_LT(before, kTables) << "it was killed too late to tell anything";
  const Output check = Psctl({"check", job_.path()});
  EXPECT_EQ(check.end, ProcessEnd{}) << check.err;
  EXPECT_THAT(check.out, HasSubstr("2,880"));
  const int all = TestServer().RequestsWith("GET /slow/tables/");
  EXPECT_LE(all, kTables + 8) << "what was on its way when it was killed comes twice";
  EXPECT_GE(all, kTables);
}

TEST_F(StoredDataE2eTest, WhatIsWrongIsSaidAtItsPlaceInTheJob) {
  job_.Set(
      "data",
      R"({"format": "idx", "directory": ")" + TestServer().PlaceOf("denying", "x") + R"("})");
  job_.Write();
  const Output check = Psctl({"check", job_.path()});
  EXPECT_NE(check.end, ProcessEnd{});
  EXPECT_THAT(
      check.err,
      AllOf(
          ContainsRegex(job_.name() + ".json:[0-9]+:[0-9]+: data.directory: s3://denying/x: "),
          HasSubstr("it needs s3:ListBucket and s3:GetObject")));
}

}  // namespace
}  // namespace ps::e2e
