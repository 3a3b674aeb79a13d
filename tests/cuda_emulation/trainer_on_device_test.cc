#include <gtest/gtest.h>

#include <memory>

#include "kernels/cpu/backend.h"
#include "kernels/cuda/backend.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/cuda_emulation/trainer_rig.h"

// A worker's steps from its data files on, by the sources of kernels/cuda, against kernels/cpu.

namespace ps::worker::test {
namespace {

std::shared_ptr<kernels::Backend> MakeEmulatedDevice() {
  return kernels::MakeCudaBackend(0, kernels::GemmKind::kOwn).value();
}

TEST(TrainerOnDeviceTest, PicturesTravelAsBytesAndBecomeThoseOfTheCpu) {
  const DataFolder folder;
  const proto::JobConfig config = PictureJob(folder);
  TrainerRig cpu(config, {kernels::MakeCpuBackend()});
  TrainerRig device(config, {MakeEmulatedDevice()});
  cuda_emulation::TakeTraffic();
  const double loss = device.Step(3, 11);
  // For each sample 2x3 bytes, its label and its move; for the step three numbers.
  EXPECT_EQ(cuda_emulation::TakeTraffic().uploaded, 8 * (2 * 3 + sizeof(uint32_t) + 12) + 24);
  EXPECT_NEAR(loss, cpu.Step(3, 11), 1e-4);
  for (size_t i = 0; i < cpu.gradient().size(); ++i) {
    EXPECT_NEAR(device.gradient()[i], cpu.gradient()[i], 1e-4) << i;
  }
  EXPECT_NEAR(device.Evaluate(), cpu.Evaluate(), 1e-4);
  EXPECT_EQ(cuda_emulation::TakeFailure(), "");
}

}  // namespace
}  // namespace ps::worker::test
