#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/threads.h"
#include "kernels/cuda/backend.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/worker/model/network_rig.h"

namespace ps::worker::test {
namespace {

/// How far b is from a, as a part of a.
double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - b[i], 2);
    norm += double{a[i]} * a[i];
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-6);
}

// network_on_device_test.cc trains the others for some steps. Not here: resnet50 and VGG, whose
// last layers have single pixels of pictures that are small enough to be emulated, and so nothing
// to normalise. Their kinds of layers are all in the others.
class ZooOnDeviceTest : public testing::TestWithParam<const char*> {};

TEST_P(ZooOnDeviceTest, AStepHasTheLossAndTheGradientsOfTheCpu) {
  kernels::SetComputeThreads(1);
  proto::ModelConfig config;
  config.name = GetParam();
  const auto cpu = kernels::MakeCpuBackend();
  const auto cuda = kernels::MakeCudaBackend(0, kernels::GemmKind::kOwn).value();
  constexpr int64_t kSamples = 2;
  const Shape input{1, 8, 8};
  NetworkRig expected(cpu.get(), config, input, kSamples, 3);
  NetworkRig found(cuda.get(), config, input, kSamples, 3);
  const double loss = expected.Step().value().loss_sum;
  EXPECT_NEAR(found.Step().value().loss_sum, loss, 1e-3 * loss);
  // A batch norm over few values makes much of the last bits, more so in each layer before.
  EXPECT_LT(Distance(expected.gradients.back(), found.gradients.back()), 1e-2);
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    EXPECT_LT(Distance(expected.gradients[i], found.gradients[i]), 0.2)
        << expected.model.tensors[i].name;
  }
  EXPECT_EQ(cuda_emulation::TakeFailure(), "");
}

INSTANTIATE_TEST_SUITE_P(
    Deep,
    ZooOnDeviceTest,
    testing::Values("resnet32", "resnet56", "resnet110"),
    [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace ps::worker::test
