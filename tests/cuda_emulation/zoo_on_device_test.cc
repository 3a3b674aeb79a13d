#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/threads.h"
#include "kernels/cuda/backend.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/worker/data/fashion.h"
#include "tests/worker/model/network_rig.h"
#include "worker/model/zoo.h"

// Every model that has a name learns by the sources of kernels/cuda, beside kernels/cpu: from
// pictures of Fashion-MNIST and from a text. tests/worker/zoo_test.cc has them at full size.

namespace ps::worker::test {
namespace {

constexpr char kLicence[] = "/usr/share/common-licenses/GPL-3";  // in every Debian
constexpr int64_t kContext = 12;
constexpr int64_t kBytes = 256;

struct ZooCase {
  const char* model;
  int64_t n;
  float lr;
  double tolerance;    // of a loss; later ones of deep models differ by more
  int64_t shrink = 4;  // of pictures
  int32_t narrow = 1;  // of the channels a part: the same layers
  kernels::Precision precision = kernels::Precision::kF32;
  bool is_text = false;
  bool has_norms = false;
  uint64_t steps = 3;
};

/// A convolution has so many times fewer channels.
void Narrow(int32_t by, Layers* layers) {
  for (proto::LayerConfig& layer : *layers) {
    if (layer.kind == proto::LayerKind::kConv2d) {
      layer.out /= by;
    }
    Narrow(by, &layer.layers);
    Narrow(by, &layer.shortcut);
  }
}

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

class ZooOnDeviceTest : public testing::TestWithParam<ZooCase> {
 protected:
  static proto::ModelConfig Config(const Shape& input, int64_t classes) {
    proto::ModelConfig config;
    config.name = GetParam().model;
    config.depth = 1;
    config.heads = 2;
    config.width = 8;
    if (GetParam().narrow > 1) {
      config.layers = ZooLayers(config, input, classes).value();
      Narrow(GetParam().narrow, &config.layers);
    }
    return config;
  }

  /// Real samples instead of the rig's noise.
  static void TakePictures(NetworkRig* rig) {
    const LabeledImages real = ShrunkFashion(GetParam().shrink, rig->labels.size());
    for (size_t i = 0; i < rig->images.size(); ++i) {
      rig->images[i] = static_cast<float>(real.pixels[i]) / 64 - 1;
    }
    std::ranges::copy(real.labels, rig->labels.begin());
  }

  static void TakeText(NetworkRig* rig) {
    std::ifstream file(kLicence, std::ios::binary);
    for (size_t i = 0; i < rig->images.size(); ++i) {
      rig->images[i] = static_cast<float>(file.get());
      rig->labels[i] = static_cast<uint32_t>(file.peek());
    }
    ASSERT_TRUE(file.good()) << kLicence;
  }

  static void ExpectGradientsOfCpu(const NetworkRig& expected, const NetworkRig& found) {
    // A batch norm over few values makes much of the last bits, more so in each layer before.
    EXPECT_LT(Distance(expected.gradients.back(), found.gradients.back()), 1e-2);
    for (size_t i = 0; i < expected.gradients.size(); ++i) {
      EXPECT_LT(Distance(expected.gradients[i], found.gradients[i]), 0.2)
          << expected.model.tensors[i].name;
    }
  }
};

TEST_P(ZooOnDeviceTest, LearnsWithTheLossesOfTheCpu) {
  const ZooCase& c = GetParam();
  if (!c.is_text && !HasFashion()) {
    GTEST_SKIP() << "no dataset at " << kFashion << "; apt-get install dataset-fashion-mnist";
  }
  kernels::SetComputeThreads(1);
  const Shape input = c.is_text ? Shape{1, kContext, 1, ShapeKind::kTokens, kBytes}
                                : Shape{1, 32 / c.shrink, 32 / c.shrink};
  const int64_t classes = c.is_text ? kBytes : 10;
  const auto cpu = kernels::MakeCpuBackend();
  const auto cuda = kernels::MakeCudaBackend(0, kernels::GemmKind::kOwn).value();
  NetworkRig expected(cpu.get(), Config(input, classes), input, c.n, classes, c.precision);
  NetworkRig found(cuda.get(), Config(input, classes), input, c.n, classes, c.precision);
  c.is_text ? TakeText(&expected) : TakePictures(&expected);
  found.TakeSamples(expected.images, expected.labels);
  double first = 0;
  double last = 0;
  for (uint64_t step = 1; step <= c.steps; ++step) {
    const double a = expected.Step({.step = step}).value().loss_sum;
    last = found.Step({.step = step}).value().loss_sum;
    EXPECT_NEAR(a, last, (step == 1 ? std::min(c.tolerance, 2e-3) : c.tolerance) * a) << step;
    if (step == 1) {
      first = last;
      ExpectGradientsOfCpu(expected, found);
    }
    expected.Descend(c.lr);
    found.Descend(c.lr);
  }
  EXPECT_LT(last, first);
  if (!c.has_norms) {
    const double evaluated = expected.Evaluate().value().loss_sum;
    EXPECT_NEAR(evaluated, found.Evaluate().value().loss_sum, 10 * c.tolerance * evaluated);
  }
  EXPECT_EQ(cuda_emulation::TakeFailure(), "");
}

/// With batch norms, which make much of the last bits, and whose running statistics say nothing
/// yet.
ZooCase Deep(const char* model, float lr, int64_t shrink = 4, int32_t narrow = 1) {
  return {
      .model = model,
      .n = narrow > 1 ? 4 : 2,
      .lr = lr,
      .tolerance = 2e-2,
      .shrink = shrink,
      .narrow = narrow,
      .has_norms = true,
      .steps = 2};
}

constexpr kernels::Precision kBf16 = kernels::Precision::kBf16;

INSTANTIATE_TEST_SUITE_P(
    All,
    ZooOnDeviceTest,
    testing::Values(
        ZooCase{"mlp", 5, 0.02F, 1e-4},
        ZooCase{"cnn", 3, 0.01F, 1e-4},
        Deep("resnet20", 0.01F),
        Deep("resnet32", 0.01F),
        Deep("resnet56", 0.004F),
        Deep("resnet110", 0.001F),
        Deep("resnet50", 0.0001F, 2, 16),
        Deep("vgg16", 0.003F, 1, 16),
        Deep("vgg19", 0.002F, 1, 16),
        ZooCase{.model = "gpt", .n = 2, .lr = 1, .tolerance = 1e-4, .is_text = true},
        ZooCase{.model = "bert", .n = 2, .lr = 1, .tolerance = 1e-4, .is_text = true},
        // What differs in the last bit may be rounded to another neighbour in bf16.
        ZooCase{.model = "mlp", .n = 5, .lr = 0.02F, .tolerance = 2e-3, .precision = kBf16},
        ZooCase{.model = "cnn", .n = 3, .lr = 0.01F, .tolerance = 2e-3, .precision = kBf16},
        ZooCase{
            .model = "gpt",
            .n = 2,
            .lr = 1,
            .tolerance = 2e-3,
            .precision = kBf16,
            .is_text = true}),
    [](const auto& info) {
      const bool is_bf16 = info.param.precision == kBf16;
      return std::string(info.param.model) + (is_bf16 ? "_bf16" : "");
    });

}  // namespace
}  // namespace ps::worker::test
