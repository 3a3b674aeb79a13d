#include "ps/crypto/worker_token.h"

#include <gtest/gtest.h>

#include <string>

namespace ps::crypto {
namespace {

constexpr const char* kRunToken = "0123456789abcdef";

TEST(WorkerTokenTest, OneIsOfItsSeatAndItsRun) {
  const std::string token = MakeWorkerToken(kRunToken, WorkerId(31));
  EXPECT_EQ(CheckWorkerToken(kRunToken, token), WorkerId(31));
  EXPECT_EQ(SeatOfToken(token), WorkerId(31));
  EXPECT_EQ(CheckWorkerToken("another run's", token), std::nullopt);
  EXPECT_EQ(CheckWorkerToken("", token), std::nullopt);
}

TEST(WorkerTokenTest, NoTwoLaunchesHaveTheSame) {
  EXPECT_NE(MakeWorkerToken(kRunToken, WorkerId(0)), MakeWorkerToken(kRunToken, WorkerId(0)));
}

TEST(WorkerTokenTest, NoByteOfItCanBeAnother) {
  const std::string token = MakeWorkerToken(kRunToken, WorkerId(3));
  for (size_t i = 0; i < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == '1' ? '2' : '1';
    EXPECT_EQ(CheckWorkerToken(kRunToken, changed), std::nullopt) << changed;
    EXPECT_EQ(CheckWorkerToken(kRunToken, token.substr(0, i)), std::nullopt) << i;
  }
  EXPECT_EQ(CheckWorkerToken(kRunToken, token + "0"), std::nullopt);
}

TEST(WorkerTokenTest, TheRunsOwnIsForNoSeat) {
  EXPECT_EQ(SeatOfToken(kRunToken), std::nullopt);
  EXPECT_EQ(CheckWorkerToken(kRunToken, kRunToken), std::nullopt);
  for (const std::string text : {"", "w", "w.", "w1", "w-1.a", "w4294967296.a", ".", "w1x.a.b"}) {
    EXPECT_EQ(SeatOfToken(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace ps::crypto
