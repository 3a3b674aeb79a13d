#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cuda/backend.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/worker/model/network_rig.h"

// Networks on several devices of one worker.

namespace ps::worker::test {
namespace {

using cuda_emulation::Issue;
using cuda_emulation::IssueKind;
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

TEST_F(SeveralDevicesTest, OutputsAreThoseOfOneDevice) {
  for (const int64_t n : {5, 1}) {
    NetworkRig one(Devices(1), EveryKindOfTensor(), kImages, n, 3);
    NetworkRig two(Devices(2), EveryKindOfTensor(), kImages, n, 3);
    const std::vector<float> outputs = one.Apply();
    EXPECT_EQ(outputs.size(), static_cast<size_t>(3 * n));
    EXPECT_EQ(two.Apply(), outputs);
  }
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

struct StepOfRig {
  std::vector<std::vector<float>> parameters;
  std::vector<float> images;
  std::vector<uint32_t> labels;
  double loss_sum = 0;
  std::vector<std::vector<float>> gradients = {};
};

/// Three steps of a network, each of another minibatch and from other parameters; from the
/// `compared_from`-th on against those of networks whose first steps they are, which are not
/// recorded. Returns the graphs of the last one.
int ExpectStepsOfFreshNetworks(
    const std::function<NetworkRig()>& make,
    Network::StepOptions options,
    size_t compared_from = 0) {
  NetworkRig rig = make();
  std::vector<StepOfRig> steps;
  int graphs = 0;
  for (uint64_t step = 0; step < 3; ++step) {
    std::ranges::rotate(rig.images, rig.images.begin() + 7);
    std::ranges::rotate(rig.labels, rig.labels.begin() + 1);
    options.step = 100 * step;
    steps.push_back({rig.parameters, rig.images, rig.labels});
    cuda_emulation::TakeGraphLaunches();
    const int kernels = cuda_emulation::LaunchCount();
    std::vector<uint32_t> ready;
    const auto note = [&](uint32_t tensor) { ready.push_back(tensor); };
    steps.back().loss_sum = rig.Step(options, note).value().loss_sum;
    steps.back().gradients = rig.gradients;
    graphs = cuda_emulation::TakeGraphLaunches();
    EXPECT_EQ(cuda_emulation::LaunchCount() == kernels, step == 2) << "all are in graphs: " << step;
    EXPECT_EQ(ready.size(), rig.gradients.size());
    EXPECT_TRUE(std::ranges::is_sorted(ready, std::greater<>())) << "the last first";
    rig.Descend(0.1F);
  }
  // Not in between: no graph is launched again once memory has been freed.
  for (size_t step = compared_from; step < steps.size(); ++step) {
    NetworkRig fresh = make();
    fresh.parameters = steps[step].parameters;
    fresh.TakeSamples(steps[step].images, steps[step].labels);
    options.step = 100 * step;
    EXPECT_EQ(fresh.Step(options).value().loss_sum, steps[step].loss_sum) << step;
    EXPECT_EQ(cuda_emulation::TakeGraphLaunches(), 0);
    EXPECT_EQ(fresh.gradients, steps[step].gradients) << step;
  }
  return graphs;
}

TEST_F(SeveralDevicesTest, RepeatedStepsHaveTheBitsOfStepsThatAreNotRecorded) {
  struct Case {
    size_t devices;
    int64_t micro_batch;  // a device's pieces are a first, one between and a last
    int graphs;           // of them, and behind each device but the last one for the sums
  };

  for (const Case c : {Case{1, 0, 1}, {1, 4, 3}, {2, 0, 3}, {2, 2, 7}, {3, 0, 5}, {3, 2, 8}}) {
    for (const Network::StepOptions& options :
         {Network::StepOptions{},
          Network::StepOptions{.clip_norm = 0.01F},
          Network::StepOptions{.bf16_gradients = true}}) {
      SCOPED_TRACE(testing::Message() << c.devices << " by " << c.micro_batch);
      const auto make = [&] {
        return NetworkRig(Devices(c.devices), EveryKindOfTensor(), kImages, 11, 3);
      };
      Network::StepOptions now = options;
      now.micro_batch = c.micro_batch;
      EXPECT_EQ(ExpectStepsOfFreshNetworks(make, now), c.graphs);
    }
  }
}

TEST_F(SeveralDevicesTest, ALargeModelIsRepeatedInPartsBetweenWhichSumsTravel) {
  size_t devices = 3;
  const auto make = [&] {
    return NetworkRig(
        Devices(devices),
        Config({Flatten(), Linear(512), Linear(512), Linear(3)}),
        kImages,
        static_cast<int64_t>(devices),
        3);
  };
  // The last device has two parts, one for each time that sums leave; the others have one more for
  // each time that sums come.
  EXPECT_EQ(ExpectStepsOfFreshNetworks(make, {}, 2), 2 + 4 + 4);
  devices = 2;
  EXPECT_EQ(ExpectStepsOfFreshNetworks(make, {.clip_norm = 0.01F}, 2), 2 + 3)
      << "from the first device all leave at its end";
}

TEST_F(SeveralDevicesTest, PiecesAreRepeatedWithinAStep) {
  NetworkRig rig(Devices(1), EveryKindOfTensor(), kImages, 11, 3);
  const Network::StepOptions options{.step = 1, .micro_batch = 2};
  cuda_emulation::TakeGraphLaunches();
  ASSERT_TRUE(rig.Step(options).ok());
  EXPECT_EQ(cuda_emulation::TakeGraphLaunches(), 3) << "the pieces between but one";
  const std::vector<std::vector<float>> expected = rig.gradients;
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(rig.Step(options).ok());
    EXPECT_EQ(cuda_emulation::TakeGraphLaunches(), 6);
    EXPECT_EQ(rig.gradients, expected);
  }
}

bool IsArithmetic(const Issue& issue) {
  return issue.kind == IssueKind::kKernel || issue.kind == IssueKind::kGraph;
}

/// Downloads by streams that compute.
int64_t LossesIn(const std::vector<Issue>& issued) {
  std::set<cudaStream_t> computing;
  for (const Issue& issue : issued) {
    if (IsArithmetic(issue)) {
      computing.insert(issue.stream);
    }
  }
  return std::ranges::count_if(issued, [&](const Issue& issue) {
    return issue.kind == IssueKind::kDownload && computing.contains(issue.stream);
  });
}

// The first of these steps is not recorded, the second is, and the third is repeated.
TEST_F(SeveralDevicesTest, TheHostWaitsForNoPieceBeforeAllHaveBegun) {
  for (const size_t devices : {1U, 2U}) {
    for (const float clip_norm : {0.0F, 0.05F}) {
      NetworkRig rig(Devices(devices), EveryKindOfTensor(), kImages, 11, 3);
      for (uint64_t step = 1; step <= 3; ++step) {
        SCOPED_TRACE(testing::Message() << devices << " devices, step " << step);
        cuda_emulation::IssueLog log;
        ASSERT_TRUE(rig.Step({.step = step, .clip_norm = clip_norm, .micro_batch = 2}).ok());
        const std::vector<Issue> issued = log.Take();
        EXPECT_EQ(LossesIn(issued), 6) << "of each piece";
        const auto wait = std::ranges::find(issued, IssueKind::kHostWait, &Issue::kind);
        EXPECT_NE(wait, issued.end());
        EXPECT_EQ(
            std::find_if(wait, issued.end(), IsArithmetic) - issued.begin(), std::ssize(issued))
            << "work goes into a stream behind a wait of the host";
      }
    }
  }
}

// Whenever the second device goes, no gradient is told of that lacks its part.
// The first step puts kernels into the streams, the fourth graphs.
TEST_F(SeveralDevicesTest, AStepWithoutTheSecondDeviceIsUnavailable) {
  const proto::ModelConfig config = Config({Flatten(), Linear(9), Relu(), Linear(3)});
  NetworkRig whole(Devices(2), config, kImages, 4, 3);
  ASSERT_TRUE(whole.Step().ok());
  for (const int steps_before : {0, 3}) {
    int failures = 0;
    int announced = 0;
    for (bool has_failed = true; has_failed; failures += has_failed ? 1 : 0) {
      ASSERT_LT(failures, 100);
      NetworkRig rig(Devices(2), config, kImages, 4, 3);
      for (int i = 0; i < steps_before; ++i) {
        ASSERT_TRUE(rig.Step().ok());
      }
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
    EXPECT_GE(announced, steps_before == 0 ? 5 : 4)
        << "all of the last step, and of failed ones those whose parts had come";
  }
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
