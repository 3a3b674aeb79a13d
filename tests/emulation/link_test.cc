#include "ps/emulation/link.h"

#include <gtest/gtest.h>

namespace ps::emulation {
namespace {

constexpr double kRate = 1 << 20;  // so that 64 KiB take 1/16 s

TimePoint At(double seconds) {
  return TimePoint() + std::chrono::hours(1) + FromSeconds(seconds);
}

TEST(LinkRateTest, AfterARestABurstMovesAtOnceAndTheRestAtTheRate) {
  LinkRate limit(kRate);
  EXPECT_EQ(limit.Book(LinkRate::kBurstBytes, At(0)), At(0));
  EXPECT_NEAR(Seconds(limit.Book(1 << 19, At(0)) - At(0)), 0.5, 1e-6);
  EXPECT_NEAR(Seconds(limit.Book(1 << 19, At(0.2)) - At(0)), 1.0, 1e-6);
  // A long rest saves no more than a burst.
  EXPECT_EQ(limit.Book(LinkRate::kBurstBytes, At(100)), At(100));
  EXPECT_NEAR(Seconds(limit.Book(1 << 20, At(100)) - At(100)), 1.0, 1e-6);
}

TEST(LinkRateTest, OverAnyStretchNoMoreThanRateTimesTimeAndABurst) {
  LinkRate limit(kRate);
  TimePoint now = At(0);
  double bytes = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t turn = 1 + (static_cast<uint64_t>(i) * 7919) % LinkRate::kTurnBytes;
    now = limit.Book(turn, now);
    bytes += static_cast<double>(turn);
    EXPECT_LE(bytes, kRate * Seconds(now - At(0)) + LinkRate::kBurstBytes + 1);
  }
  EXPECT_GE(bytes, 0.999 * kRate * Seconds(now - At(0)));
}

}  // namespace
}  // namespace ps::emulation
