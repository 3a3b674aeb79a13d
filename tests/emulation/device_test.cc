#include "ps/emulation/device.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ps::emulation {
namespace {

using std::chrono::milliseconds;

TEST(DeviceTest, ASlowerDeviceWaitsBeforeEachTaskOnceItKnowsAStep) {
  Device device(3, Duration());
  EXPECT_EQ(device.WaitBefore(true), Duration::zero());
  device.OnStep(milliseconds(10));
  EXPECT_NEAR(Seconds(device.WaitBefore(true)), 0.02, 1e-9);
  EXPECT_NEAR(Seconds(device.WaitBefore(false)), 0.02, 1e-9) << "an evaluation is slower too";
  EXPECT_LE(device.WaitAfter(milliseconds(30)), Duration::zero());
}

TEST(DeviceTest, AStepLastsItsLeastWhateverItsArithmeticTakes) {
  Device device(1, milliseconds(100));
  for (const int arithmetic_ms : {10, 12, 60, 8}) {
    const Duration before = std::max(device.WaitBefore(true), Duration::zero());
    const Duration arithmetic = milliseconds(arithmetic_ms);
    device.OnStep(arithmetic);
    const Duration elapsed = before + arithmetic;
    const Duration after = std::max(device.WaitAfter(elapsed), Duration::zero());
    EXPECT_GE(elapsed + after, milliseconds(100));
    EXPECT_LE(elapsed, milliseconds(150)) << "the wait before leaves room for the usual step";
  }
  EXPECT_LE(device.WaitBefore(false), Duration::zero()) << "only steps have a least";
}

TEST(DeviceTest, TheWaitFollowsTheLastStepsSmoothly) {
  Device device(2, Duration());
  device.OnStep(milliseconds(10));
  device.OnStep(milliseconds(20));
  EXPECT_NEAR(Seconds(device.WaitBefore(true)), 0.012, 1e-9);
}

}  // namespace
}  // namespace ps::emulation
