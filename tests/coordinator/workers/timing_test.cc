#include "ps/proto/timing.h"

#include <gtest/gtest.h>

#include "ps/base/random.h"

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

}  // namespace
}  // namespace ps::coordinator
