#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cuda/backend.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/worker/model/network_rig.h"

// What a device does in one pass that layers ask for one by one, by its kernels' count and by the
// CPU's gradients.

namespace ps::worker::test {
namespace {

proto::ModelConfig ModelOf(Layers layers) {
  proto::ModelConfig config;
  config.layers = std::move(layers);
  return config;
}

std::unique_ptr<kernels::Backend> MakeDevice() {
  return kernels::MakeCudaBackend(0, kernels::GemmKind::kOwn).value();
}

proto::LayerConfig LayerNorm() {
  return Simple(proto::LayerKind::kLayerNorm);
}

enum class Does : uint8_t { kEvaluate, kTrain };

int LaunchesOf(Does what, Layers layers) {
  const auto cuda = MakeDevice();
  NetworkRig rig(cuda.get(), ModelOf(std::move(layers)), {1, 5, 5}, 2, 3);
  const int before = cuda_emulation::LaunchCount();
  EXPECT_TRUE(what == Does::kTrain ? rig.Step().ok() : rig.Evaluate().ok());
  return cuda_emulation::LaunchCount() - before;
}

TEST(FusedLayersTest, AResidualSumIsDoneByTheLayerNormBehindIt) {
  const Layers body = {LayerNorm(), Linear(8)};
  const Layers plain = {
      Flatten(), Linear(8), LayerNorm(), Linear(8), LayerNorm(), Linear(8), LayerNorm(), Linear(3)};
  const Layers residual = {
      Flatten(), Linear(8), Residual(body, {}), Residual(body, {}), LayerNorm(), Linear(3)};
  EXPECT_EQ(LaunchesOf(Does::kEvaluate, residual), LaunchesOf(Does::kEvaluate, plain));
  EXPECT_EQ(LaunchesOf(Does::kTrain, residual), LaunchesOf(Does::kTrain, plain))
      << "the gradients of both paths, too";
  const Layers nested = {
      Flatten(),
      Linear(8),
      Residual(body, {}),
      Residual({Residual(body, {}), Linear(8)}, {}),
      LayerNorm(),
      Linear(3)};
  const Layers nested_plain = {
      Flatten(),
      Linear(8),
      LayerNorm(),
      Linear(8),
      LayerNorm(),
      Linear(8),
      Linear(8),
      LayerNorm(),
      Linear(3)};
  EXPECT_EQ(LaunchesOf(Does::kEvaluate, nested), LaunchesOf(Does::kEvaluate, nested_plain) + 1)
      << "the inner layer has no norm behind it";
}

TEST(FusedLayersTest, WhatIsNoLayerNormIsGivenTheSum) {
  const Layers body = {LayerNorm(), Linear(8)};
  EXPECT_EQ(
      LaunchesOf(Does::kEvaluate, {Flatten(), Linear(8), Residual(body, {}), Linear(3)}),
      LaunchesOf(Does::kEvaluate, {Flatten(), Linear(8), LayerNorm(), Linear(8), Linear(3)}) + 1);
  // The shortcut reads the sum before the body does.
  EXPECT_EQ(
      LaunchesOf(
          Does::kEvaluate,
          {Flatten(), Linear(8), Residual(body, {}), Residual(body, {Linear(8)}), Linear(3)}),
      LaunchesOf(
          Does::kEvaluate,
          {Flatten(),
           Linear(8),
           LayerNorm(),
           Linear(8),
           LayerNorm(),
           Linear(8),
           Linear(8),
           Linear(3)}) +
          2);
}

TEST(FusedLayersTest, GeluIsPartOfALinearLayersBackwardPass) {
  // Forward it is a kernel of its own; backward it takes the place of the bias's sums, of which
  // each has two kernels.
  EXPECT_EQ(
      LaunchesOf(Does::kTrain, {Flatten(), Linear(9), Gelu(), Linear(3)}),
      LaunchesOf(Does::kTrain, {Flatten(), Linear(9), Linear(3)}) + 1);
}

void ExpectGradientsOfTheCpu(const Layers& layers, const Shape& input) {
  const auto cpu = kernels::MakeCpuBackend();
  const auto cuda = MakeDevice();
  NetworkRig expected(cpu.get(), ModelOf(layers), input, 3, 3);
  NetworkRig found(cuda.get(), ModelOf(layers), input, 3, 3);
  // Twice, because a step is recorded and then repeated.
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE(expected.Step().ok());
    ASSERT_TRUE(found.Step().ok());
    for (size_t i = 0; i < expected.gradients.size(); ++i) {
      EXPECT_THAT(
          found.gradients[i], testing::Pointwise(testing::FloatNear(1e-4F), expected.gradients[i]))
          << expected.model.tensors[i].name << " of " << layers.size() << " layers";
    }
  }
  EXPECT_NEAR(found.MeanLoss(), expected.MeanLoss(), 1e-4);
}

TEST(FusedLayersTest, SumsInLayerNormsHaveTheGradientsOfTheCpu) {
  const Layers body = {LayerNorm(), Linear(8), Gelu(), Linear(8)};
  const Layers cases[] = {
      {Flatten(), Linear(8), Residual(body, {}), Residual(body, {}), LayerNorm(), Linear(3)},
      {Flatten(),
       Linear(8),
       Residual(body, {}),
       Residual(body, {Linear(8)}),
       LayerNorm(),
       Linear(3)},
      {Flatten(), Linear(8), Residual(body, {Linear(8)}), Residual(body, {}), Linear(3)},
      {Flatten(),
       Linear(8),
       Residual(body, {}),
       Residual({Residual(body, {}), Linear(8)}, {}),
       LayerNorm(),
       Residual(body, {}),
       Dropout(0.3F),
       Linear(3)},
      {Flatten(),
       LayerNorm(),
       Residual({LayerNorm()}, {}),
       Residual({LayerNorm()}, {}),
       Linear(3)}};
  for (const Layers& layers : cases) {
    ExpectGradientsOfTheCpu(layers, {1, 5, 5});
  }
}

/// The loss's gradient takes the place of outputs, unless the last layer reads them again.
TEST(FusedLayersTest, WhateverTheLastLayerIsTheGradientsAreThoseOfTheCpu) {
  const std::vector<Layers> ends = {
      {Linear(3)},
      {Linear(3), Relu()},
      {Linear(3), Gelu()},
      {Linear(3), Tanh()},
      {Linear(3), Tanh(), Dropout(0.2F)},
      {Linear(3), Dropout(0.2F)},
      {Linear(3), LayerNorm()},
      {Linear(3), Residual({Linear(3), Tanh()}, {})},
      {Linear(3), Residual({Tanh()}, {})}};
  for (const Layers& end : ends) {
    Layers layers = {Flatten(), Linear(7), Gelu()};
    layers.insert(layers.end(), end.begin(), end.end());
    ExpectGradientsOfTheCpu(layers, {1, 5, 5});
  }
  ExpectGradientsOfTheCpu(
      {Conv2d(3, 3), Residual({Conv2d(3, 3), BatchNorm()}, {}), GlobalAvgPool()}, {2, 5, 5});
}

}  // namespace
}  // namespace ps::worker::test
