#include "ps/base/time.h"

#include <limits>

#include "gtest/gtest.h"

namespace ps {
namespace {

TEST(TimeTest, SecondsComeBack) {
  EXPECT_EQ(FromSeconds(1.5), std::chrono::milliseconds(1500));
  EXPECT_EQ(FromSeconds(-0.25), std::chrono::milliseconds(-250));
  EXPECT_DOUBLE_EQ(Seconds(FromSeconds(12.125)), 12.125);
}

TEST(TimeTest, ImpossibleSecondsBecomeTheNearestDuration) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(FromSeconds(kInfinity), Duration::max());
  EXPECT_EQ(FromSeconds(1e300), Duration::max());
  EXPECT_EQ(FromSeconds(-kInfinity), Duration::min());
  EXPECT_EQ(FromSeconds(std::numeric_limits<double>::quiet_NaN()), Duration::zero());
}

TEST(TimeTest, TheSystemsTimeNeverGoesBack) {
  TimePoint before = SystemTime().Now();
  for (int i = 0; i < 1000; ++i) {
    const TimePoint now = SystemTime().Now();
    ASSERT_GE(now, before);
    before = now;
  }
}

TEST(TimeTest, UnixMicrosIsThisCentury) {
  EXPECT_GT(SystemTime().UnixMicros(), int64_t{1'600'000'000} * 1'000'000);
  EXPECT_LT(SystemTime().UnixMicros(), int64_t{4'100'000'000} * 1'000'000);
}

}  // namespace
}  // namespace ps
