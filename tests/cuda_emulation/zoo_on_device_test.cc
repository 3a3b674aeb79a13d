#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/threads.h"
#include "kernels/cuda/backend.h"
#include "ps/proto/job/job_config.h"
#include "tests/cuda_emulation/runtime.h"
#include "tests/worker/data/fashion.h"
#include "tests/worker/model/model_server.h"
#include "tests/worker/model/network_rig.h"
#include "worker/model/zoo.h"

// Every model that has a name learns by the sources of kernels/cuda, beside kernels/cpu: from
// pictures of Fashion-MNIST and from a text. tests/worker/zoo_test.cc has them at full size.

namespace ps::worker::test {
namespace {

constexpr char kLicence[] = "/usr/share/common-licenses/GPL-3";  // in every Debian
constexpr int64_t kContext = 12;
constexpr int64_t kBytes = 256;

using Overrides = std::vector<proto::ConfigOverride>;

/// A file in configs whose model is made small, and how it learns. Optimizer, precision and type of
/// gradients are the file's.
struct ZooCase {
  const char* config;
  int64_t n;
  const char* lr;       // for so few samples and steps, of which a schedule would be the warm-up
  double tolerance;     // of a loss; later ones of deep models differ by more
  double left_max = 1;  // of the first loss
  int64_t shrink = 4;   // of pictures
  int32_t narrow = 1;   // of the channels a part: the same layers
  const char* precision = "";  // another one
  bool is_text = false;
  bool has_norms = false;
  uint64_t steps = 3;
  kernels::GemmKind gemm = kernels::GemmKind::kOwn;
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
  static proto::JobConfig Config() {
    const std::string minibatch = std::to_string(GetParam().n);
    Overrides overrides = {
        {"data.directory", "."},  // one that is there: samples are the rig's
        {"train.minibatch", minibatch},
        {"optimizer.lr", GetParam().lr},
        {"optimizer.schedule", "{}"}};
    if (GetParam().is_text) {
      const Overrides small = {{"model.depth", "1"}, {"model.heads", "2"}, {"model.width", "8"}};
      overrides.insert(overrides.end(), small.begin(), small.end());
    }
    if (*GetParam().precision != '\0') {
      overrides.push_back({"train.precision", GetParam().precision});
    }
    const std::string path = std::string("configs/") + GetParam().config + ".json";
    return proto::LoadJobConfig(path, overrides).value();
  }

  static proto::ModelConfig SmallModel(
      const proto::JobConfig& job, const Shape& input, int64_t classes) {
    proto::ModelConfig model = job.model;
    if (GetParam().narrow > 1) {
      model.layers = ZooLayers(model, input, classes).value();
      Narrow(GetParam().narrow, &model.layers);
    }
    return model;
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

  static void Pull(const ModelServer& server, NetworkRig* rig) {
    for (size_t i = 0; i < rig->parameters.size(); ++i) {
      const std::span<const float> values = server.ValuesOf(i);
      rig->parameters[i].assign(values.begin(), values.end());
    }
  }

  static void Push(const NetworkRig& rig, ModelServer* server) {
    for (size_t i = 0; i < rig.gradients.size(); ++i) {
      server->Apply(i, rig.gradients[i], static_cast<uint64_t>(GetParam().n), 0);
    }
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
  const proto::JobConfig job = Config();
  const auto precision = job.train.precision == proto::Precision::kBf16 ? kernels::Precision::kBf16
                                                                        : kernels::Precision::kF32;
  const Shape input = c.is_text ? Shape{1, kContext, 1, ShapeKind::kTokens, kBytes}
                                : Shape{1, 32 / c.shrink, 32 / c.shrink};
  const int64_t classes = c.is_text ? kBytes : 10;
  const proto::ModelConfig model = SmallModel(job, input, classes);
  const auto cpu = kernels::MakeCpuBackend();
  cuda_emulation::SetComputeCapability(8, 0);  // whose cuBLASLt multiplies bf16
  const auto cuda = kernels::MakeCudaBackend(0, c.gemm).value();
  NetworkRig expected(cpu.get(), model, input, c.n, classes, precision);
  NetworkRig found(cuda.get(), model, input, c.n, classes, precision);
  c.is_text ? TakeText(&expected) : TakePictures(&expected);
  found.TakeSamples(expected.images, expected.labels);
  ModelServer servers[] = {{job, expected.model}, {job, found.model}};
  Network::StepOptions options;
  options.clip_norm = job.optimizer.clip_norm;
  options.bf16_gradients = job.train.gradient_dtype == proto::GradientDtype::kBf16;
  double first = 0;
  double last = 0;
  for (uint64_t step = 1; step <= c.steps; ++step) {
    Pull(servers[0], &expected);
    Pull(servers[1], &found);
    options.step = step;
    const double a = expected.Step(options).value().loss_sum;
    last = found.Step(options).value().loss_sum;
    EXPECT_NEAR(a, last, (step == 1 ? std::min(c.tolerance, 2e-3) : c.tolerance) * a) << step;
    if (step == 1) {
      first = last;
      ExpectGradientsOfCpu(expected, found);
    }
    Push(expected, &servers[0]);
    Push(found, &servers[1]);
  }
  EXPECT_LT(last, c.left_max * first);
  if (!c.has_norms) {
    Pull(servers[0], &expected);
    Pull(servers[1], &found);
    const double evaluated = expected.Evaluate().value().loss_sum;
    EXPECT_NEAR(evaluated, found.Evaluate().value().loss_sum, 10 * c.tolerance * evaluated);
  }
  cuda_emulation::SetComputeCapability(7, 5);
  EXPECT_EQ(cuda_emulation::TakeFailure(), "");
}

/// By cuBLASLt, timed.
ZooCase Timed(ZooCase c) {
  c.gemm = kernels::GemmKind::kCublasTimed;
  return c;
}

/// With batch norms, which make much of the last bits, and whose running statistics say nothing
/// yet.
ZooCase Deep(
    const char* config,
    const char* lr,
    int64_t shrink = 4,
    int32_t narrow = 1,
    const char* precision = "") {
  return {
      .config = config,
      .n = narrow > 1 ? 4 : 2,
      .lr = lr,
      .tolerance = 2e-2,
      .shrink = shrink,
      .narrow = narrow,
      .precision = precision,
      .has_norms = true,
      .steps = 2};
}

ZooCase Text(const char* config, double tolerance, const char* precision = "") {
  return {
      .config = config,
      .n = 2,
      .lr = "0.02",
      .tolerance = tolerance,
      .left_max = 0.9,
      .precision = precision,
      .is_text = true,
      .steps = 5};
}

INSTANTIATE_TEST_SUITE_P(
    All,
    ZooOnDeviceTest,
    testing::Values(
        ZooCase{"fashion_mnist_mlp_bsp", 5, "0.02", 1e-4, 0.5},
        ZooCase{"fashion_mnist_cnn", 3, "0.001", 1e-4, 0.5},
        Deep("cifar10_resnet20", "0.01"),
        Deep("fashion_mnist_resnet32", "0.01"),
        Deep("fashion_mnist_resnet56", "0.004"),
        Deep("cifar10_resnet110", "0.001"),
        // In the bf16 of its file the norms of so few values would leave nothing to compare.
        Deep("fashion_mnist_resnet50", "0.0001", 2, 16, "f32"),
        Deep("fashion_mnist_vgg16", "0.003", 1, 16),
        Deep("fashion_mnist_vgg19", "0.002", 1, 16),
        Text("gpt_text", 1e-4),
        Text("bert_text", 1e-4),
        // What differs in the last bit may be rounded to another neighbour in bf16.
        ZooCase{
            .config = "fashion_mnist_mlp_bsp",
            .n = 5,
            .lr = "0.02",
            .tolerance = 2e-3,
            .left_max = 0.5,
            .precision = "bf16"},
        ZooCase{
            .config = "fashion_mnist_cnn",
            .n = 3,
            .lr = "0.001",
            .tolerance = 2e-3,
            .left_max = 0.5,
            .precision = "bf16"},
        Text("gpt_text", 2e-3, "bf16"),
        // Its 1x1 convolutions are products.
        Timed(Deep("fashion_mnist_resnet50", "0.0001", 2, 16, "f32")),
        Timed(Text("gpt_text", 2e-3, "bf16"))),
    [](const auto& info) {
      const std::string precision = info.param.precision;
      return std::string(info.param.config) + (precision.empty() ? "" : "_" + precision) +
             (info.param.gemm == kernels::GemmKind::kOwn ? "" : "_timed");
    });

}  // namespace
}  // namespace ps::worker::test
