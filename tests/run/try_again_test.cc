#include "run/try_again.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

namespace ps::run {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

/// The time, by hand.
class ManualTime final : public TimeSource {
 public:
  TimePoint Now() const override { return now; }

  int64_t UnixMicros() const override { return 0; }

  TimePoint now{seconds(100)};
};

class TryAgainTest : public ::testing::Test {
 protected:
  Status Try(const std::function<TryOutcome()>& attempt) {
    const TryAgainWorld world{
        &time_,
        [this](Duration duration) {
          time_.now += duration;
          return time_.now < stopped_at_;
        },
        [this](const std::string& line) { said_.push_back(line); }};
    return TryAgain(
        [&] {
          ++attempts_;
          return attempt();
        },
        [] { return seconds(60); },
        world);
  }

  ManualTime time_;
  TimePoint stopped_at_ = TimePoint::max();
  int attempts_ = 0;
  std::vector<std::string> said_;
};

TEST_F(TryAgainTest, APortThatIsInUseForASecondEndsNothing) {
  const Status status = Try([&] {
    return TryOutcome{attempts_ < 3 ? Status::Unavailable("the port is in use") : Status::Ok()};
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(attempts_, 3);
  ASSERT_EQ(said_.size(), 1U) << "once for each reason";
  EXPECT_EQ(said_[0], "the run can't go on yet: the port is in use; trying again for 1m 00s\n");
}

TEST_F(TryAgainTest, ItGivesUpWhenNobodyWaitsAnyMore) {
  const TimePoint begin = time_.now;
  const Status status = Try([&] { return TryOutcome{Status::Io("cannot read the data")}; });
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot read the data"));
  EXPECT_EQ(time_.now - begin, seconds(60));
}

TEST_F(TryAgainTest, WhatIsFinalIsTriedOnce) {
  const Status status = Try([] { return TryOutcome{Status::Corruption("a damaged row"), true}; });
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_EQ(attempts_, 1);
  EXPECT_TRUE(said_.empty());
}

TEST_F(TryAgainTest, ARequestToStopEndsTheWait) {
  stopped_at_ = time_.now + seconds(2);
  const Status status = Try([] { return TryOutcome{Status::Unavailable("in use")}; });
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_LT(attempts_, 10);
}

TEST(WaitUnlessStoppedTest, HearsARequestThatIsBlocked) {
  sigset_t blocked;
  sigset_t before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &blocked, &before);
  EXPECT_TRUE(WaitUnlessStopped(std::chrono::milliseconds(1)));
  ::raise(SIGTERM);
  EXPECT_FALSE(WaitUnlessStopped(seconds(60)));
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace ps::run
