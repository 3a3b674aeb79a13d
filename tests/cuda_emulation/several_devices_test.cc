#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cuda/backend.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/worker/model/network_rig.h"

// Networks on several devices of one worker.

namespace ps::worker::test {
namespace {

using testing::FloatNear;
using testing::Pointwise;

constexpr int kNewDriver = 13000;
const Shape kImages{2, 5, 5};
const Shape kTokens{1, 7, 1, ShapeKind::kTokens, 3};

proto::ModelConfig Config(Layers layers) {
  proto::ModelConfig config;
  config.layers = std::move(layers);
  return config;
}

proto::ModelConfig EveryKindOfTensor() {
  return Config(
      {Conv2d(4, 3),
       BatchNorm(),
       Relu(),
       Residual({Conv2d(4, 3), Relu()}, {}),
       Dropout(0.3F),
       Flatten(),
       Linear(3)});
}

proto::ModelConfig Bert() {
  proto::ModelConfig config;
  config.name = "bert";
  config.depth = 1;
  config.heads = 2;
  config.width = 8;
  return config;
}

class SeveralDevicesTest : public testing::Test {
 protected:
  SeveralDevicesTest() {
    cuda_emulation::SetMachine(kNewDriver, 3);
    for (int i = 0; i < 3; ++i) {
      backends_.push_back(kernels::MakeCudaBackend(i, kernels::GemmKind::kOwn).value());
    }
  }

  ~SeveralDevicesTest() override {
    EXPECT_EQ(cuda_emulation::TakeFailure(), "");
    backends_.clear();
    cuda_emulation::SetMachine(kNewDriver, 1);
  }

  std::vector<kernels::Backend*> Devices(size_t count) const {
    std::vector<kernels::Backend*> devices;
    for (size_t i = 0; i < count; ++i) {
      devices.push_back(backends_[i].get());
    }
    return devices;
  }

  /// Some steps of a rig on one device and of one on two: the same bits.
  static void ExpectSameSteps(
      NetworkRig* one, Network::StepOptions halves, NetworkRig* two, Network::StepOptions options) {
    for (uint64_t step = 1; step <= 3; ++step) {
      halves.step = 10 * step;
      options.step = 10 * step;
      const BatchLoss expected = one->Step(halves).value();
      const BatchLoss found = two->Step(options).value();
      EXPECT_EQ(found.loss_sum, expected.loss_sum) << step;
      EXPECT_EQ(found.correct, expected.correct) << step;
      EXPECT_EQ(found.samples, expected.samples) << step;
      EXPECT_EQ(found.samples, static_cast<int64_t>(two->labels.size()) / two->model.labels);
      EXPECT_EQ(two->gradients, one->gradients) << step;
      one->Descend(0.05F);
      two->Descend(0.05F);
    }
  }

  std::vector<std::unique_ptr<kernels::Backend>> backends_;
};

TEST_F(SeveralDevicesTest, TwoHaveTheBitsOfOneThatTakesHalfAtATime) {
  for (const int64_t n : {6, 5, 2}) {
    for (const float clip_norm : {0.0F, 0.05F}) {
      NetworkRig one(Devices(1), EveryKindOfTensor(), kImages, n, 3);
      NetworkRig two(Devices(2), EveryKindOfTensor(), kImages, n, 3);
      SCOPED_TRACE(testing::Message() << n << " samples, clipped to " << clip_norm);
      const int64_t half = (n + 1) / 2;
      ExpectSameSteps(
          &one, {.clip_norm = clip_norm, .micro_batch = half}, &two, {.clip_norm = clip_norm});
    }
  }
  EXPECT_TRUE(cuda_emulation::HasPeerAccess(1, 0)) << "gradients take the shortest way";
}

/// Each device makes the pictures of its own part; gradients are rounded once they are added up.
TEST_F(SeveralDevicesTest, PicturesAndRoundedGradientsAreThoseOfOneDevice) {
  NetworkRig one(Devices(1), EveryKindOfTensor(), kImages, 5, 3);
  NetworkRig two(Devices(2), EveryKindOfTensor(), kImages, 5, 3);
  PictureFormat format{kImages.channels, kImages.height, kImages.width};
  format.values.resize(static_cast<size_t>(kImages.channels));
  for (size_t byte = 0; byte < 256; ++byte) {
    format.values[0][byte] = static_cast<float>(byte) / 64 - 2;
    format.values[1][byte] = static_cast<float>(byte) / 128 - 1;
  }
  for (NetworkRig* rig : {&one, &two}) {
    ASSERT_TRUE(rig->network->TakePictures(format).ok());
    for (size_t i = 0; i < rig->images.size(); ++i) {
      rig->bytes.push_back(static_cast<uint8_t>(i * 37 % 256));
    }
  }
  ExpectSameSteps(&one, {.micro_batch = 3, .bf16_gradients = true}, &two, {.bf16_gradients = true});
}

TEST_F(SeveralDevicesTest, PartsWeighByTheirLabels) {
  NetworkRig one(Devices(1), Bert(), kTokens, 4, 3);
  NetworkRig two(Devices(2), Bert(), kTokens, 4, 3);
  for (const size_t unlabelled : {0U, 1U, 2U, 5U, 6U, 9U, 20U}) {
    one.labels[unlabelled] = kNoLabel;
    two.labels[unlabelled] = kNoLabel;
  }
  ExpectSameSteps(&one, {.micro_batch = 2}, &two, {});
}

TEST_F(SeveralDevicesTest, AMinibatchOfFewerSamplesLeavesDevicesIdle) {
  NetworkRig one(Devices(1), EveryKindOfTensor(), kImages, 1, 3);
  NetworkRig three(Devices(3), EveryKindOfTensor(), kImages, 1, 3);
  ExpectSameSteps(&one, {}, &three, {});
}

TEST_F(SeveralDevicesTest, EachTakesItsPartInPiecesAndIsAddedUp) {
  const proto::ModelConfig config =
      Config({Conv2d(4, 3), Gelu(), Residual({Conv2d(4, 3)}, {}), Flatten(), Linear(3)});
  for (const int64_t n : {7, 9, 4}) {
    NetworkRig whole(Devices(1), config, kImages, n, 3);
    const BatchLoss expected = whole.Step().value();
    for (const int64_t micro : {0, 1, 2}) {
      NetworkRig parts(Devices(3), config, kImages, n, 3);
      std::vector<uint32_t> order;
      const BatchLoss found = parts
                                  .Step(
                                      {.step = 1, .micro_batch = micro},
                                      [&](uint32_t tensor) { order.push_back(tensor); })
                                  .value();
      EXPECT_NEAR(found.loss_sum, expected.loss_sum, 1e-5);
      EXPECT_EQ(found.samples, n);
      EXPECT_EQ(order.size(), parts.gradients.size());
      EXPECT_TRUE(std::ranges::is_sorted(order, std::greater<>())) << "each once, the last first";
      for (size_t i = 0; i < whole.gradients.size(); ++i) {
        EXPECT_THAT(parts.gradients[i], Pointwise(FloatNear(1e-5F), whole.gradients[i]))
            << n << " by " << micro << ": " << whole.model.tensors[i].name;
      }
    }
  }
}

TEST_F(SeveralDevicesTest, AnEvaluationIsShared) {
  for (const int64_t n : {5, 2, 1}) {
    NetworkRig one(Devices(1), EveryKindOfTensor(), kImages, n, 3);
    NetworkRig three(Devices(3), EveryKindOfTensor(), kImages, n, 3);
    const BatchLoss expected = one.Evaluate().value();
    const BatchLoss found = three.Evaluate().value();
    EXPECT_NEAR(found.loss_sum, expected.loss_sum, 1e-6 * expected.loss_sum);
    EXPECT_EQ(found.correct, expected.correct);
    EXPECT_EQ(found.samples, n);
  }
}

// Whenever the second device goes, no gradient is told of that lacks its part.
TEST_F(SeveralDevicesTest, AStepWithoutTheSecondDeviceIsUnavailable) {
  const proto::ModelConfig config = Config({Flatten(), Linear(9), Relu(), Linear(3)});
  NetworkRig whole(Devices(2), config, kImages, 4, 3);
  ASSERT_TRUE(whole.Step().ok());
  int failures = 0;
  int announced = 0;
  for (bool has_failed = true; has_failed; failures += has_failed ? 1 : 0) {
    ASSERT_LT(failures, 100);
    NetworkRig rig(Devices(2), config, kImages, 4, 3);
    cuda_emulation::LoseDeviceAfter(failures, 1);
    const Result<BatchLoss> loss = rig.Step([&](uint32_t tensor) {
      ++announced;
      EXPECT_EQ(rig.gradients[tensor], whole.gradients[tensor]) << "after " << failures;
    });
    cuda_emulation::LoseDeviceAfter(-1, 1);
    has_failed = !loss.ok();
    EXPECT_EQ(cuda_emulation::TakeFailure(), has_failed ? "the device was lost" : "");
    if (has_failed) {
      EXPECT_EQ(loss.status().code(), StatusCode::kUnavailable);
    }
  }
  EXPECT_GT(failures, 10) << "every piece of its work was once the last";
  EXPECT_GT(announced, 4)
      << "some of a failed step, when their parts had come, and all of the last";
}

TEST_F(SeveralDevicesTest, AClippedStepWithoutTheSecondDeviceTellsOfNothing) {
  NetworkRig rig(Devices(2), EveryKindOfTensor(), kImages, 4, 3);
  cuda_emulation::LoseDeviceAfter(20, 1);
  int announced = 0;
  const Result<BatchLoss> loss =
      rig.Step({.step = 1, .clip_norm = 0.01F}, [&](uint32_t /*tensor*/) { ++announced; });
  ASSERT_FALSE(loss.ok());
  EXPECT_EQ(loss.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(announced, 0);
  EXPECT_EQ(cuda_emulation::TakeFailure(), "the device was lost");
}

// What a mixed fleet is to the arithmetic: gradients of either for the same parameters.
TEST_F(SeveralDevicesTest, ACpuAndTwoDevicesTrainOneModelInTurns) {
  const auto cpu = kernels::MakeCpuBackend();
  const proto::ModelConfig config = Config({Flatten(), Linear(12), Relu(), Linear(3)});
  NetworkRig one(cpu.get(), config, kImages, 9, 3);
  NetworkRig other(Devices(2), config, kImages, 9, 3);
  const double first = one.MeanLoss();
  for (int i = 0; i < 10; ++i) {
    NetworkRig& now = i % 2 == 0 ? one : other;
    NetworkRig& next = i % 2 == 0 ? other : one;
    ASSERT_TRUE(now.Step().ok());
    now.Descend(0.1F);
    next.parameters = now.parameters;
  }
  EXPECT_LT(one.MeanLoss(), first / 2);
  EXPECT_NEAR(one.MeanLoss(), other.MeanLoss(), 1e-4 * first);
}

TEST_F(SeveralDevicesTest, TheSmallestMemoryDecidesWhatFits) {
  NetworkRig rig(Devices(2), Config({Conv2d(4, 3), Relu(), Flatten(), Linear(3)}), kImages, 64, 3);
  cuda_emulation::SetDeviceMemory(64 << 10, 1);
  const Result<BatchLoss> loss = rig.Step();
  ASSERT_FALSE(loss.ok());
  EXPECT_EQ(loss.status().code(), StatusCode::kInvalidArgument);
  const std::string message(loss.status().message());
  EXPECT_THAT(
      message, testing::StartsWith("a minibatch of 64 does not fit into the memory of cuda:1"));
  const size_t at = message.find("one of ");
  ASSERT_NE(at, std::string::npos) << message;
  const auto fits = static_cast<size_t>(std::stoul(message.substr(at + 7)));
  const auto take = [&](size_t n) {
    rig.labels.assign(n, 0);
    rig.images.assign(n * 50, 0);
    return rig.Step().ok();
  };
  EXPECT_TRUE(take(fits)) << message;
  EXPECT_FALSE(take(fits + 1)) << message;
  cuda_emulation::SetDeviceMemory(0, 1);
}

}  // namespace
}  // namespace ps::worker::test
