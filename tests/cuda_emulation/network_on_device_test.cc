#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cuda/backend.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/worker/model/network_rig.h"

// Whole models by the sources of kernels/cuda, against kernels/cpu.

namespace ps::worker::test {
namespace {

using cuda_emulation::Issue;
using cuda_emulation::IssueKind;
using testing::HasSubstr;
using testing::StartsWith;

std::unique_ptr<kernels::Backend> MakeEmulated() {
  return kernels::MakeCudaBackend(0, kernels::GemmKind::kOwn).value();
}

proto::ModelConfig ConfigOf(Layers layers) {
  proto::ModelConfig config;
  config.layers = std::move(layers);
  return config;
}

TEST(NetworkOnDeviceTest, EveryGradientIsAnnouncedOnceWhenItIsHere) {
  const auto cuda = MakeEmulated();
  NetworkRig rig(
      cuda.get(),
      ConfigOf({Conv2d(4, 3), BatchNorm(), Relu(), Flatten(), Linear(3)}),
      {1, 5, 5},
      2,
      3);
  std::vector<uint32_t> order;
  ASSERT_TRUE(rig.Step([&](uint32_t tensor) {
                   order.push_back(tensor);
                   for (const float g : rig.gradients[tensor]) {
                     EXPECT_FALSE(std::isnan(g)) << tensor << ": new device memory is all NaN";
                   }
                 })
                  .ok());
  std::vector<uint32_t> expected(rig.gradients.size());
  std::iota(expected.rbegin(), expected.rend(), 0U);
  EXPECT_EQ(order, expected);
}

TEST(NetworkOnDeviceTest, TheNormIsClippedOnTheDevice) {
  const auto cpu = kernels::MakeCpuBackend();
  const auto cuda = MakeEmulated();
  const proto::ModelConfig config = ConfigOf({BatchNorm(), Flatten(), Linear(2)});
  NetworkRig expected(cpu.get(), config, {1, 2, 2}, 3, 2);
  NetworkRig found(cuda.get(), config, {1, 2, 2}, 3, 2);
  ASSERT_TRUE(expected.Step({.step = 1, .clip_norm = 0.01F}).ok());
  ASSERT_TRUE(found.Step({.step = 1, .clip_norm = 0.01F}).ok());
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    EXPECT_THAT(
        found.gradients[i], testing::Pointwise(testing::FloatNear(1e-5F), expected.gradients[i]));
  }
}

TEST(NetworkOnDeviceTest, PiecesAreAddedUpOnTheDevice) {
  const auto cpu = kernels::MakeCpuBackend();
  const auto cuda = MakeEmulated();
  const proto::ModelConfig config = ConfigOf({Conv2d(3, 3), Relu(), Flatten(), Linear(2)});
  NetworkRig expected(cpu.get(), config, {1, 4, 4}, 5, 2);
  NetworkRig found(cuda.get(), config, {1, 4, 4}, 5, 2);
  ASSERT_TRUE(expected.Step().ok());
  ASSERT_TRUE(found.Step({.step = 1, .micro_batch = 2}).ok());
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    EXPECT_THAT(
        found.gradients[i], testing::Pointwise(testing::FloatNear(1e-5F), expected.gradients[i]));
  }
}

TEST(NetworkOnDeviceTest, PicturesMadeOnTheDeviceTrainWithTheBitsOfTheirValues) {
  const auto cuda = MakeEmulated();
  const proto::ModelConfig config =
      ConfigOf({Conv2d(3, 3), Relu(), MaxPool(2), Flatten(), Linear(2)});
  const Shape shape{3, 4, 4};
  constexpr int64_t kPictures = 5;
  NetworkRig expected(cuda.get(), config, shape, kPictures, 2);
  NetworkRig found(cuda.get(), config, shape, kPictures, 2);
  PictureFormat format{3, 4, 4};
  format.values.resize(3);
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < expected.images.size(); ++i) {
    const auto byte = static_cast<uint8_t>(i * 37 % 256);
    std::array<float, 256>& values = format.values[i / 16 % 3];
    values[byte] = static_cast<float>(byte) / 64 - static_cast<float>(i / 16 % 3);
    expected.images[i] = values[byte];
    bytes.push_back(byte);
  }
  ASSERT_TRUE(found.network->TakePictures(format).ok());
  found.bytes = bytes;
  for (const int64_t micro_batch : {0, 2}) {
    const Network::StepOptions options{.step = 1, .micro_batch = micro_batch};
    EXPECT_EQ(found.Step(options).value().loss_sum, expected.Step(options).value().loss_sum);
    EXPECT_EQ(found.gradients, expected.gradients);
  }
  EXPECT_EQ(found.Evaluate().value().loss_sum, expected.Evaluate().value().loss_sum);
  found.bytes.pop_back();
  EXPECT_EQ(found.Evaluate().status().code(), StatusCode::kInvalidArgument);
  format.pad = 1;
  EXPECT_EQ(expected.network->TakePictures(format).code(), StatusCode::kInvalidArgument);
}

TEST(NetworkOnDeviceTest, Bf16GradientsTravelInHalfTheBytesAndAreTheRoundedOnes) {
  const auto cuda = MakeEmulated();
  NetworkRig rig(
      cuda.get(),
      ConfigOf({Conv2d(4, 3), BatchNorm(), Relu(), Flatten(), Linear(3)}),
      {1, 5, 5},
      2,
      3);
  cuda_emulation::TakeTraffic();
  ASSERT_TRUE(rig.Step().ok());
  const uint64_t whole = cuda_emulation::TakeTraffic().downloaded;
  const std::vector<std::vector<float>> expected = rig.RoundedGradients();
  EXPECT_NE(expected, rig.gradients);
  uint64_t rounded = 0;
  for (const TensorSpec& tensor : rig.model.tensors) {
    rounded +=
        tensor.rule == UpdateRule::kOptimizer ? static_cast<uint64_t>(tensor.element_count()) : 0;
  }
  for (int step = 0; step < 2; ++step) {  // the second finds the memory
    int ready = 0;
    ASSERT_TRUE(rig.Step(
                       {.step = 1, .bf16_gradients = true},
                       [&](uint32_t tensor) {
                         EXPECT_EQ(rig.gradients[tensor], expected[tensor]) << tensor;
                         ++ready;
                       })
                    .ok());
    EXPECT_EQ(ready, static_cast<int>(expected.size()));
    EXPECT_EQ(cuda_emulation::TakeTraffic().downloaded, whole - 2 * rounded);
  }
  EXPECT_EQ(cuda_emulation::TakeFailure(), "");
}

/// One model with dropout; each step is of other samples.
NetworkRig MakeRigToRepeat(kernels::Backend* backend, int64_t n) {
  return NetworkRig(
      backend,
      ConfigOf({Conv2d(4, 3), BatchNorm(), Relu(), Flatten(), Dropout(0.5F), Linear(3)}),
      {2, 5, 5},
      n,
      3);
}

bool IsKernel(const Issue& issue) {
  return issue.kind == IssueKind::kKernel;
}

TEST(NetworkOnDeviceTest, ALargeModelIsRecordedInPartsSoThatGradientsLeaveBetweenThem) {
  const auto cuda = MakeEmulated();
  const proto::ModelConfig config =
      ConfigOf({Flatten(), Linear(520), Relu(), Linear(600), Relu(), Linear(2)});
  NetworkRig rig(cuda.get(), config, {1, 4, 4}, 2, 2);
  cuda_emulation::IssueLog log;
  ASSERT_TRUE(rig.Step().ok());
  const std::vector<Issue> first = log.Take();
  const auto first_download = std::ranges::find(first, IssueKind::kDownload, &Issue::kind);
  ASSERT_NE(first_download, first.end());
  EXPECT_EQ(first_download->size_bytes, 600 * 2 * sizeof(float)) << "of the last layer";
  EXPECT_NE(std::find_if(first_download, first.end(), IsKernel), first.end())
      << "backward goes on meanwhile";
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(rig.Step().ok());
    std::vector<Issue> issued = log.Take();
    std::erase_if(issued, [](const Issue& issue) {
      return issue.kind == IssueKind::kUpload || issue.kind == IssueKind::kHostWait;
    });
    const auto second_graph =
        std::find_if(issued.begin() + 1, issued.end(), [](const Issue& issue) {
          return issue.kind == IssueKind::kGraph;
        });
    const auto large = std::ranges::find(issued, 520 * 600 * sizeof(float), &Issue::size_bytes);
    EXPECT_LT(large, second_graph) << "it leaves while the first layer's gradient is computed";
    const auto twins = std::ranges::unique(issued, {}, &Issue::kind);
    issued.erase(twins.begin(), twins.end());
    std::vector<IssueKind> kinds;
    std::ranges::transform(issued, std::back_inserter(kinds), &Issue::kind);
    EXPECT_THAT(
        kinds,
        testing::ElementsAre(
            IssueKind::kGraph, IssueKind::kDownload, IssueKind::kGraph, IssueKind::kDownload));
  }
  const std::vector<std::vector<float>> repeated = rig.gradients;
  NetworkRig fresh(cuda.get(), config, {1, 4, 4}, 2, 2);
  ASSERT_TRUE(fresh.Step().ok());
  EXPECT_EQ(repeated, fresh.gradients);
}

TEST(NetworkOnDeviceTest, ARecordingIsMadeAnewWhenMemoryHasMovedSince) {
  const auto cuda = MakeEmulated();
  NetworkRig rig = MakeRigToRepeat(cuda.get(), 3);
  NetworkRig large = MakeRigToRepeat(cuda.get(), 11);
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(rig.Step().ok());
  }
  const std::vector<std::vector<float>> expected = rig.gradients;
  const NetworkRig::Samples small = rig.TakeSamples(large.images, large.labels);
  ASSERT_TRUE(rig.Step().ok());
  EXPECT_NE(rig.gradients, expected);
  ASSERT_TRUE(rig.Evaluate().ok());
  rig.TakeSamples(small.images, small.labels);
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(rig.Step().ok());
    EXPECT_EQ(rig.gradients, expected) << step;
  }
  EXPECT_EQ(cuda_emulation::TakeFailure(), "");
}

TEST(NetworkOnDeviceTest, APartOfTheParametersCanBeUploadedAlone) {
  const auto cuda = MakeEmulated();
  NetworkRig rig(cuda.get(), ConfigOf({Flatten(), Linear(3)}), {1, 2, 2}, 2, 3);
  const double before = rig.Evaluate().value().loss_sum;
  const PinnedValues<float> weight(cuda.get(), rig.parameters[0]);
  const PinnedValues<float> bias(cuda.get(), rig.parameters[1]);
  const PinnedValues<float> images(cuda.get(), rig.images);
  const PinnedValues<uint32_t> labels(cuda.get(), rig.labels);
  const std::vector<std::span<const float>> spans = {weight.span(), bias.span()};
  const Batch batch{images.span(), labels.span()};
  bias.span()[1] = 3;
  bias.span()[2] = 5;
  EXPECT_EQ(rig.network->Evaluate(spans, batch).value().loss_sum, before) << "not told of it";
  rig.network->Upload(1, 2, spans[1].subspan(2));
  rig.network->TakeUploads();
  const double after = rig.network->Evaluate(spans, batch).value().loss_sum;
  rig.parameters[1][2] = 5;
  EXPECT_EQ(rig.Evaluate().value().loss_sum, after) << "of the element that was told of alone";
  EXPECT_NE(after, before);
}

TEST(NetworkOnDeviceTest, ABatchThatDoesNotFitIsToldTheLargestThatDoes) {
  const auto cuda = MakeEmulated();
  NetworkRig rig(
      cuda.get(), ConfigOf({Conv2d(4, 3), Relu(), Flatten(), Linear(3)}), {1, 5, 5}, 64, 3);
  cuda_emulation::SetDeviceMemory(64 << 10);
  const Result<BatchLoss> loss = rig.Step();
  ASSERT_FALSE(loss.ok());
  EXPECT_EQ(loss.status().code(), StatusCode::kInvalidArgument);
  const std::string message(loss.status().message());
  EXPECT_THAT(message, StartsWith("a minibatch of 64 does not fit into the memory of cuda:0"));
  const size_t at = message.find("one of ");
  ASSERT_NE(at, std::string::npos) << message;
  const auto fits = static_cast<size_t>(std::stoul(message.substr(at + 7)));
  const auto take = [&](size_t n) {
    rig.labels.assign(n, 0);
    rig.images.assign(n * 25, 0);
    return rig.Step().ok();
  };
  EXPECT_TRUE(take(fits)) << message;
  EXPECT_FALSE(take(fits + 1)) << message;
  cuda_emulation::SetDeviceMemory(0);
}

TEST(NetworkOnDeviceTest, PiecesThatDoNotFitAreToldTheLargestThatDo) {
  const auto cuda = MakeEmulated();
  NetworkRig rig(
      cuda.get(), ConfigOf({Conv2d(4, 3), Relu(), Flatten(), Linear(3)}), {1, 5, 5}, 64, 3);
  cuda_emulation::SetDeviceMemory(64 << 10);
  const Result<BatchLoss> loss = rig.Step({.step = 1, .micro_batch = 48});
  ASSERT_FALSE(loss.ok());
  EXPECT_EQ(loss.status().code(), StatusCode::kInvalidArgument);
  const std::string message(loss.status().message());
  EXPECT_THAT(
      message,
      StartsWith("pieces of 48, as train.micro_batch says, do not fit into the memory of cuda:0"));
  const size_t at = message.find("pieces of ", 10);
  ASSERT_NE(at, std::string::npos) << message;
  const int64_t fits = std::stol(message.substr(at + 10));
  EXPECT_TRUE(rig.Step({.step = 1, .micro_batch = fits}).ok()) << message;
  EXPECT_FALSE(rig.Step({.step = 1, .micro_batch = fits + 1}).ok()) << message;
  cuda_emulation::SetDeviceMemory(0);
}

// The gradients of a second piece are what does not fit: the minibatch at once would.
TEST(NetworkOnDeviceTest, MemoryForTheGradientsOfPiecesCountsToo) {
  const auto cuda = MakeEmulated();
  NetworkRig rig(cuda.get(), ConfigOf({Flatten(), Linear(400), Linear(3)}), {1, 8, 8}, 4, 3);
  cuda_emulation::SetDeviceMemory(300 << 10);
  EXPECT_TRUE(rig.Step().ok());
  const Result<BatchLoss> loss = rig.Step({.step = 1, .micro_batch = 2});
  ASSERT_FALSE(loss.ok());
  EXPECT_THAT(
      std::string(loss.status().message()),
      testing::AllOf(
          StartsWith("pieces of 2, as train.micro_batch says, do not fit"),
          HasSubstr("nor does a single sample: ")));
  EXPECT_TRUE(rig.Step().ok()) << "as before";
  cuda_emulation::SetDeviceMemory(0);
}

TEST(NetworkOnDeviceTest, AModelThatDoesNotFitSaysSo) {
  const auto cuda = MakeEmulated();
  const Model model =
      MakeModel(ConfigOf({Flatten(), Linear(400), Linear(3)}), {1, 8, 8}, 3, 1).value();
  cuda_emulation::SetDeviceMemory(200 << 10);
  const auto network = Network::Make(model, {cuda.get()}, 5);
  cuda_emulation::SetDeviceMemory(0);
  ASSERT_FALSE(network.ok());
  EXPECT_EQ(network.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(network.status().message()),
      testing::AllOf(
          StartsWith("the model does not fit into the memory of cuda:0"),
          HasSubstr("its parameters and gradients take 212.6 KiB there without any sample; take a "
                    "smaller model, or a device with more memory: ")));
}

/// Memory of a caller who keeps it from one step to the next, as a trainer does.
class KeptMemory {
 public:
  KeptMemory(const NetworkRig& rig, kernels::Backend* backend)
      : images_(backend, rig.images), labels_(backend, rig.labels), network_(rig.network.get()) {
    for (size_t i = 0; i < rig.parameters.size(); ++i) {
      parameters_.emplace_back(memory_.emplace_back(backend, rig.parameters[i]).span());
      gradients_.push_back(memory_.emplace_back(backend, rig.gradients[i]).span());
    }
  }

  /// A step or, without options, an evaluation of the first `count` labels and what belongs to
  /// them.
  void Run(size_t count, const Network::StepOptions* options) {
    const size_t values = images_.span().size() / labels_.span().size();
    const Batch batch{images_.span().first(count * values), labels_.span().first(count)};
    network_->UploadAll(parameters_);
    const auto loss = options == nullptr
                          ? network_->Evaluate(parameters_, batch)
                          : network_->TrainStep(parameters_, batch, *options, gradients_, {});
    EXPECT_TRUE(loss.ok()) << loss.status();
  }

 private:
  const PinnedValues<float> images_;
  const PinnedValues<uint32_t> labels_;
  Network* const network_;
  std::vector<PinnedValues<float>> memory_;
  std::vector<std::span<const float>> parameters_;
  std::vector<std::span<float>> gradients_;
};

/// How many allocations the last two of four steps made.
uint64_t AllocationsOfAlikeSteps(const NetworkRig& rig, kernels::Backend* first, int64_t micro) {
  KeptMemory memory(rig, first);
  uint64_t before = 0;
  for (uint64_t step = 1; step <= 4; ++step) {
    before = step == 3 ? cuda_emulation::AllocationCount() : before;
    const Network::StepOptions options{.step = step, .clip_norm = 0.1F, .micro_batch = micro};
    memory.Run(rig.labels.size(), &options);
  }
  return cuda_emulation::AllocationCount() - before;
}

TEST(NetworkOnDeviceTest, NothingIsAllocatedOnceStepsAreAlike) {
  cuda_emulation::SetMachine(CUDART_VERSION, 2);
  const auto first = MakeEmulated();
  const auto second = kernels::MakeCudaBackend(1, kernels::GemmKind::kOwn).value();
  proto::ModelConfig gpt;
  gpt.name = "gpt";
  gpt.depth = 1;
  gpt.heads = 2;
  gpt.width = 8;
  const proto::ModelConfig cnn = ConfigOf(
      {Conv2d(4, 3), BatchNorm(), Relu(), Dropout(0.1F), MaxPool(2), Flatten(), Linear(3)});
  const std::vector<std::vector<kernels::Backend*>> choices = {
      {first.get()}, {first.get(), second.get()}};
  for (const std::vector<kernels::Backend*>& on : choices) {
    const NetworkRig images(on, cnn, {1, 8, 8}, 5, 3);
    const NetworkRig tokens(on, gpt, {1, 7, 1, ShapeKind::kTokens, 3}, 5, 3);
    for (const int64_t micro : {0, 2}) {  // of 2, the last one is shorter
      EXPECT_EQ(AllocationsOfAlikeSteps(images, on[0], micro), 0U) << on.size() << " " << micro;
      EXPECT_EQ(AllocationsOfAlikeSteps(tokens, on[0], micro), 0U) << on.size() << " " << micro;
    }
  }
  cuda_emulation::SetMachine(CUDART_VERSION, 1);
}

/// A lease's steps with a shorter last one, and an evaluation, with all that takes memory of its
/// own: cuBLASLt's copies in bf16, and gradients packed to it.
TEST(NetworkOnDeviceTest, NothingIsAllocatedWhenSizesThatWereThereComeAgain) {
  cuda_emulation::SetComputeCapability(8, 0);
  {
    const auto cuda = kernels::MakeCudaBackend(0, kernels::GemmKind::kCublas).value();
    proto::ModelConfig gpt;
    gpt.name = "gpt";
    gpt.depth = 1;
    gpt.heads = 2;
    gpt.width = 8;
    constexpr size_t kTokens = 7;
    const Shape input{1, kTokens, 1, ShapeKind::kTokens, 3};
    const NetworkRig rig(cuda.get(), gpt, input, 5, 3, kernels::Precision::kBf16);
    KeptMemory memory(rig, cuda.get());
    uint64_t before = 0;
    for (uint64_t round = 1; round <= 3; ++round) {
      before = cuda_emulation::AllocationCount();
      const Network::StepOptions options{.step = round, .bf16_gradients = true};
      for (const size_t n : {4U, 4U, 4U, 3U}) {
        memory.Run(n * kTokens, &options);
      }
      memory.Run(5 * kTokens, nullptr);
    }
    EXPECT_EQ(cuda_emulation::AllocationCount(), before);
  }
  cuda_emulation::SetComputeCapability(7, 5);
  EXPECT_EQ(cuda_emulation::TakeFailure(), "");
}

TEST(NetworkOnDeviceTest, ADeviceThatIsLostMidStepIsUnavailableAndNothingOfItIsReady) {
  const auto cuda = MakeEmulated();
  NetworkRig rig(cuda.get(), ConfigOf({Flatten(), Linear(9), Relu(), Linear(3)}), {1, 3, 3}, 2, 3);
  ASSERT_TRUE(rig.Step().ok());
  cuda_emulation::LoseDeviceAfter(6);
  int ready = 0;
  const Result<BatchLoss> loss = rig.Step([&](uint32_t /*tensor*/) { ++ready; });
  ASSERT_FALSE(loss.ok());
  EXPECT_EQ(loss.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(loss.status().message()), HasSubstr("the CUDA device failed"));
  EXPECT_EQ(ready, 0);
  EXPECT_EQ(cuda_emulation::TakeFailure(), "the device was lost");
}

int LaunchesOfAnEvaluation(Layers layers) {
  const auto cuda = MakeEmulated();
  NetworkRig rig(cuda.get(), ConfigOf(std::move(layers)), {1, 5, 5}, 2, 3);
  const int before = cuda_emulation::LaunchCount();
  EXPECT_TRUE(rig.Evaluate().ok());
  return cuda_emulation::LaunchCount() - before;
}

TEST(NetworkOnDeviceTest, AReluIsDoneByTheOpInFrontOfIt) {
  EXPECT_EQ(
      LaunchesOfAnEvaluation({Flatten(), Linear(9), Relu(), Linear(3)}),
      LaunchesOfAnEvaluation({Flatten(), Linear(9), Linear(3)}));
  EXPECT_EQ(
      LaunchesOfAnEvaluation({Conv2d(4, 3), BatchNorm(), Relu(), Flatten(), Linear(3)}),
      LaunchesOfAnEvaluation({Conv2d(4, 3), BatchNorm(), Flatten(), Linear(3)}));
  EXPECT_EQ(
      LaunchesOfAnEvaluation({Conv2d(4, 3), Relu(), Relu(), Flatten(), Linear(3)}),
      LaunchesOfAnEvaluation({Conv2d(4, 3), Flatten(), Linear(3)}) + 1);
}

TEST(NetworkOnDeviceTest, AResidualSumIsDoneByTheBatchNormInFrontOfIt) {
  const int without = LaunchesOfAnEvaluation({Conv2d(4, 3), BatchNorm(), Flatten(), Linear(3)});
  EXPECT_EQ(
      LaunchesOfAnEvaluation(
          {Residual({Conv2d(4, 3), BatchNorm()}, {Conv2d(4, 1)}), Relu(), Flatten(), Linear(3)}),
      without + 2)
      << "of the shortcut: its weights and its product";
  EXPECT_EQ(
      LaunchesOfAnEvaluation({Residual({Conv2d(1, 3), BatchNorm()}, {}), Flatten(), Linear(3)}),
      without);
  EXPECT_EQ(
      LaunchesOfAnEvaluation({Residual({Conv2d(1, 3)}, {}), Relu(), Flatten(), Linear(3)}),
      without + 1);
}

/// Residual layers in every place, and what may run in place behind them.
TEST(NetworkOnDeviceTest, ResidualSumsHaveTheGradientsOfTheCpu) {
  const auto cpu = kernels::MakeCpuBackend();
  const auto cuda = MakeEmulated();
  const Layers cases[] = {
      {Residual({Conv2d(2, 3), BatchNorm()}, {}), Relu(), Dropout(0.3F), Flatten(), Linear(3)},
      {Residual({BatchNorm()}, {}), Dropout(0.3F), Flatten(), Linear(3)},
      {Conv2d(4, 3),
       Residual({Residual({BatchNorm()}, {}), Relu(), Conv2d(5, 1), BatchNorm()}, {Conv2d(5, 1)}),
       Relu(),
       Residual({Conv2d(5, 3), BatchNorm()}, {}),
       Relu(),
       Flatten(),
       Linear(3)}};
  for (const Layers& layers : cases) {
    NetworkRig expected(cpu.get(), ConfigOf(layers), {2, 5, 5}, 3, 3);
    NetworkRig found(cuda.get(), ConfigOf(layers), {2, 5, 5}, 3, 3);
    ASSERT_TRUE(expected.Step().ok());
    ASSERT_TRUE(found.Step().ok());
    for (size_t i = 0; i < expected.gradients.size(); ++i) {
      EXPECT_THAT(
          found.gradients[i], testing::Pointwise(testing::FloatNear(1e-4F), expected.gradients[i]))
          << expected.model.tensors[i].name;
    }
  }
}

// Masks depend on the number of their layer, and a relu that has no stage still counts.
TEST(NetworkOnDeviceTest, ADropoutBehindAReluHasTheMaskOfTheCpu) {
  const auto cpu = kernels::MakeCpuBackend();
  const auto cuda = MakeEmulated();
  const proto::ModelConfig config =
      ConfigOf({Flatten(), Linear(16), Relu(), Dropout(0.5F), Linear(3)});
  NetworkRig expected(cpu.get(), config, {1, 4, 4}, 9, 3);
  NetworkRig found(cuda.get(), config, {1, 4, 4}, 9, 3);
  EXPECT_NEAR(expected.MeanLoss(), found.MeanLoss(), 1e-5);
}

// What a fleet of both kinds is to the arithmetic: gradients of either for the same parameters.
TEST(NetworkOnDeviceTest, CpuAndDeviceTrainOneModelInTurns) {
  const auto cpu = kernels::MakeCpuBackend();
  const auto cuda = MakeEmulated();
  const proto::ModelConfig config = ConfigOf({Flatten(), Linear(12), Relu(), Linear(3)});
  NetworkRig one(cpu.get(), config, {1, 4, 4}, 9, 3);
  NetworkRig other(cuda.get(), config, {1, 4, 4}, 9, 3);
  const double first = one.MeanLoss();
  for (int i = 0; i < 10; ++i) {
    NetworkRig& now = i % 2 == 0 ? one : other;
    NetworkRig& next = i % 2 == 0 ? other : one;
    ASSERT_TRUE(now.Step().ok());
    now.Descend(0.1F);
    next.parameters = now.parameters;
  }
  EXPECT_LT(one.MeanLoss(), first / 2);
}

}  // namespace
}  // namespace ps::worker::test
