#include "ps/proto/timing.h"

#include <gtest/gtest.h>

#include "ps/base/random.h"
#include "ps/coordinator/resend.h"

namespace ps::coordinator {
namespace {

TEST(TimingTest, EveryTimeFollowsFromMaxDetectInTheRightOrder) {
  Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const Duration max_detect = FromSeconds(0.05 + random.Unit() * random.Unit() * 3600);
    const proto::Timing timing = proto::Timing::FromMaxDetect(max_detect);
    EXPECT_EQ(timing.detect, max_detect);
    EXPECT_GT(timing.tick, Duration::zero());
    EXPECT_LT(timing.tick, timing.retry_first);
    EXPECT_LT(timing.connect_timeout, timing.heartbeat);
    EXPECT_LT(timing.retry_first, timing.heartbeat);
    EXPECT_LT(timing.retry_first, timing.retry_limit);
    EXPECT_LT(timing.retry_limit, timing.detect);
    EXPECT_LT(timing.heartbeat * 3, timing.detect) << "some heartbeats may get lost";
    EXPECT_LT(timing.detect, timing.lease);
  }
}

TEST(ResendTimerTest, WaitsDoubleUpToTheLimitWithinTheJitter) {
  Random random(5);
  ResendTimer timer;
  TimePoint now{};
  timer.Start(std::chrono::milliseconds(100), now, &random);
  double expected_s = 0.1;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(timer.IsDue(now + FromSeconds(expected_s * 0.74)));
    EXPECT_TRUE(timer.IsDue(now + FromSeconds(expected_s * 1.26)));
    now += FromSeconds(expected_s);
    timer.Again(std::chrono::milliseconds(500), now, &random);
    expected_s = std::min(expected_s * 2, 0.5);
  }
  timer.Stop();
  EXPECT_FALSE(timer.IsDue(now + std::chrono::hours(1)));
}

TEST(ResendTimerTest, WaitsAreSpreadOverTheJitter) {
  Random random(5);
  ResendTimer timer;
  int early = 0;
  int late = 0;
  for (int i = 0; i < 100; ++i) {
    timer.Start(std::chrono::milliseconds(100), TimePoint{}, &random);
    early += timer.IsDue(TimePoint{std::chrono::milliseconds(90)}) ? 1 : 0;
    late += timer.IsDue(TimePoint{std::chrono::milliseconds(110)}) ? 0 : 1;
  }
  EXPECT_GT(early, 15);  // a third of them
  EXPECT_GT(late, 15);
}

}  // namespace
}  // namespace ps::coordinator
