#include <gtest/gtest.h>

#include "kernels/cuda/devices.h"

namespace ps::kernels {
namespace {

TEST(CudaDevicesTest, AreListedOrUnsupportedWithAReason) {
  const Result<std::vector<DeviceInfo>> devices = ListCudaDevices();
  if (!devices.ok()) {
    EXPECT_EQ(devices.status().code(), StatusCode::kUnsupported);
    EXPECT_FALSE(devices.status().message().empty());
    return;
  }
  ASSERT_FALSE(devices->empty());
  for (const DeviceInfo& device : *devices) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_GT(device.memory_bytes, 0);
    EXPECT_GE(device.compute_major, 5);
  }
}

}  // namespace
}  // namespace ps::kernels
