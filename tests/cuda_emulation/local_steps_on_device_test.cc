#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cuda/backend.h"
#include "kernels/optimizer_slots.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/cuda_emulation/trainer_rig.h"
#include "worker/model/model_memory.h"

// Steps of several minibatches, whose optimizer is on the device, against kernels/cpu.

namespace ps::worker::test {
namespace {

using testing::HasSubstr;

constexpr int kDriverVersion = 13000;
/// Samples of a step in three minibatches, the last of which is half a one.
constexpr uint64_t kBegin = 3;
constexpr uint64_t kEnd = 13;

std::vector<std::shared_ptr<kernels::Backend>> EmulatedDevices(int count = 1) {
  std::vector<std::shared_ptr<kernels::Backend>> devices;
  for (int i = 0; i < count; ++i) {
    devices.push_back(kernels::MakeCudaBackend(i, kernels::GemmKind::kOwn).value());
  }
  return devices;
}

class LocalStepsOnDeviceTest : public testing::Test {
 protected:
  LocalStepsOnDeviceTest() : config_(PictureJob(folder_)) {
    config_.model.layers = {Conv2d(2, 3), BatchNorm(), Relu(), Flatten(), Linear(3)};
    config_.train.minibatch = 4;
    config_.train.local_steps = 3;
    config_.optimizer.lr = 0.1F;
    config_.optimizer.momentum = 0.9F;
  }

  ~LocalStepsOnDeviceTest() override { EXPECT_EQ(cuda_emulation::TakeFailure(), ""); }

  const DataFolder folder_;
  proto::JobConfig config_;
};

/// The device has the worker's own parameters meanwhile, and the servers' again afterwards.
TEST_F(LocalStepsOnDeviceTest, TheyAreThoseOfTheCpu) {
  for (const auto kind : {proto::OptimizerKind::kSgd, proto::OptimizerKind::kAdamw}) {
    config_.optimizer.kind = kind;
    config_.optimizer.lr = kind == proto::OptimizerKind::kSgd ? 0.1F : 0.001F;
    config_.optimizer.weight_decay = 0.01F;
    if (kind == proto::OptimizerKind::kAdamw) {
      // A bias in front of a batch norm has no gradient but rounding, which Adam makes much of.
      config_.model.layers.erase(config_.model.layers.begin() + 1);
    }
    TrainerRig cpu(config_, {kernels::MakeCpuBackend()});
    TrainerRig device(config_, EmulatedDevices());
    const double before = device.Evaluate();
    for (int round = 0; round < 2; ++round) {
      EXPECT_NEAR(device.LocalStep(kBegin, kEnd), cpu.LocalStep(kBegin, kEnd), 1e-3);
      for (size_t i = 0; i < cpu.gradient().size(); ++i) {
        EXPECT_NEAR(device.gradient()[i], cpu.gradient()[i], 3e-4) << i;
      }
    }
    EXPECT_EQ(device.Evaluate(), before);
    device.LocalStep(kBegin, kEnd);
    EXPECT_NEAR(device.Step(3, 11), cpu.Step(3, 11), 1e-4);
  }
}

TEST_F(LocalStepsOnDeviceTest, OnlyThePushComesBackAndNoParameterGoesThere) {
  TrainerRig device(config_, EmulatedDevices());
  device.LocalStep(kBegin, kEnd);
  const uint64_t model_bytes = device.TensorBytes();
  const uint64_t tensors = device.TensorCount();
  cuda_emulation::TakeTraffic();
  device.LocalStep(kBegin, kEnd);
  const cuda_emulation::Traffic traffic = cuda_emulation::TakeTraffic();
  // For each sample 2x3 bytes, its label and its move; for each minibatch three numbers.
  EXPECT_EQ(traffic.uploaded, 10 * (2 * 3 + sizeof(uint32_t) + 12) + uint64_t{3} * 24);
  const uint64_t flags = (tensors + 1) * sizeof(uint32_t);
  EXPECT_EQ(traffic.downloaded, 3 * (sizeof(kernels::LossResult) + flags) + flags + model_bytes);
}

TEST_F(LocalStepsOnDeviceTest, ThePushIsRoundedAsTheJobSays) {
  TrainerRig whole(config_, EmulatedDevices());
  config_.train.gradient_dtype = proto::GradientDtype::kBf16;
  TrainerRig device(config_, EmulatedDevices());
  TrainerRig cpu(config_, {kernels::MakeCpuBackend()});
  whole.LocalStep(kBegin, kEnd);
  device.LocalStep(kBegin, kEnd);
  cpu.LocalStep(kBegin, kEnd);
  const auto* const rounded = reinterpret_cast<const uint16_t*>(device.gradient().data());
  const auto* const by_cpu = reinterpret_cast<const uint16_t*>(cpu.gradient().data());
  for (size_t i = 0; i < 18; ++i) {  // the weights of the convolution
    const float exact = whole.gradient()[i];
    EXPECT_NEAR(std::bit_cast<float>(uint32_t{rounded[i]} << 16U), exact, std::fabs(exact) / 256);
    EXPECT_NEAR(std::bit_cast<float>(uint32_t{by_cpu[i]} << 16U), exact, std::fabs(exact) / 64);
  }
}

TEST_F(LocalStepsOnDeviceTest, WhatIsNotFiniteIsLeftOutAndTold) {
  config_.optimizer.lr = 3e38F;
  config_.optimizer.momentum = 0;
  TrainerRig device(config_, EmulatedDevices());
  EXPECT_TRUE(std::isnan(device.LocalStep(kBegin, kEnd)));
  TrainerRig cpu(config_, {kernels::MakeCpuBackend()});
  EXPECT_TRUE(std::isnan(cpu.LocalStep(kBegin, kEnd)));
}

TEST_F(LocalStepsOnDeviceTest, AStepThatIsGivenUpLeavesTheServersParameters) {
  TrainerRig device(config_, EmulatedDevices());
  const double before = device.Evaluate();
  TrainerRig other(config_, EmulatedDevices());
  int minibatches = 0;
  const auto done = device.TryLocalStep(
      kBegin, kEnd, {.on_end = [&](uint64_t /*samples*/) { return ++minibatches < 2; }});
  EXPECT_EQ(done.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(device.Evaluate(), before);
}

TEST_F(LocalStepsOnDeviceTest, TwoDevicesMakeTheBitsOfOneInHalves) {
  cuda_emulation::SetMachine(kDriverVersion, 2);
  {
    TrainerRig two(config_, EmulatedDevices(2));
    config_.train.micro_batch = 2;
    TrainerRig one(config_, EmulatedDevices());
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(two.LocalStep(3, 15), one.LocalStep(3, 15));
      EXPECT_EQ(
          std::memcmp(two.gradient().data(), one.gradient().data(), two.gradient().size_bytes()),
          0);
    }
    EXPECT_EQ(two.Step(3, 7), one.Step(3, 7)) << "the second has the servers' parameters, too";
  }
  EXPECT_EQ(cuda_emulation::TakeFailure(), "");
  cuda_emulation::SetMachine(kDriverVersion, 1);
}

TEST_F(LocalStepsOnDeviceTest, ADeviceThatIsTooSmallSaysWhatForItNeedsMore) {
  TrainerRig device(config_, EmulatedDevices());
  device.Step(3, 7);
  cuda_emulation::SetDeviceMemory(1);
  const auto done = device.TryLocalStep(kBegin, kEnd);
  cuda_emulation::SetDeviceMemory(0);
  EXPECT_EQ(done.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(done.status().message(), HasSubstr("local steps need"));
  EXPECT_TRUE(device.TryLocalStep(kBegin, kEnd).ok()) << "there is room again";
}

/// `psctl model` says so.
TEST_F(LocalStepsOnDeviceTest, TheyFitIntoWhatIsSaidAndNotIntoMuchLess) {
  config_.model.layers = {Flatten(), Linear(400), Relu(), Linear(3)};
  const Model model = MakeModel(config_.model, {1, 8, 9}, 3).value();  // 2x3 pixels and 3 around
  for (const auto kind : {proto::OptimizerKind::kSgd, proto::OptimizerKind::kAdam}) {
    config_.optimizer.kind = kind;
    const int slots = kernels::OptimizerSlotCount(config_.optimizer);
    const auto said = static_cast<double>(
        MemoryOf(model, {.samples = 4, .has_own_memory = true, .local_slots = slots}).total());
    const auto is_enough = [&](double factor) {
      cuda_emulation::SetDeviceMemory(static_cast<size_t>(factor * said));
      bool is_done = false;
      {
        TrainerRig device(config_, EmulatedDevices());
        is_done = device.TryLocalStep(3, 15).ok();
      }
      cuda_emulation::SetDeviceMemory(0);
      return is_done;
    };
    EXPECT_TRUE(is_enough(1.12)) << slots;
    EXPECT_FALSE(is_enough(0.95)) << slots;
  }
}

TEST_F(LocalStepsOnDeviceTest, ADeviceThatIsLostEndsThem) {
  TrainerRig device(config_, EmulatedDevices());
  device.LocalStep(kBegin, kEnd);
  cuda_emulation::LoseDeviceAfter(25);
  const auto done = device.TryLocalStep(kBegin, kEnd);
  EXPECT_EQ(done.status().code(), StatusCode::kUnavailable);
  cuda_emulation::TakeFailure();
}

/// Hundreds of small tensors: what a minibatch costs besides its pass is a few launches.
TEST_F(LocalStepsOnDeviceTest, ManyTensorsAreUpdatedByFewLaunches) {
  config_.model.layers = {Flatten()};
  for (int i = 0; i < 60; ++i) {
    config_.model.layers.push_back(Linear(4));
  }
  config_.model.layers.push_back(Linear(3));
  TrainerRig device(config_, EmulatedDevices());
  device.LocalStep(kBegin, kEnd);
  device.LocalStep(kBegin, kEnd);  // passes are recorded
  const int before = cuda_emulation::LaunchCount();
  device.LocalStep(0, 8);
  const int two = cuda_emulation::LaunchCount() - before;
  device.LocalStep(0, 12);
  const int three = cuda_emulation::LaunchCount() - before - two;
  EXPECT_LT(three - two, 30) << "of 122 tensors";
}

}  // namespace
}  // namespace ps::worker::test
