#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/threads.h"
#include "ps/base/random.h"
#include "tests/worker/model/model_builder.h"
#include "worker/data/dataset.h"
#include "worker/model/network.h"

namespace ps::worker::test {
namespace {

/// A model under plain SGD in this process, with what a server does to each rule's tensors.
struct PlainTraining {
  PlainTraining(Layers layers, const Shape& input, int64_t classes) {
    kernels::SetComputeThreads(1);
    proto::ModelConfig config;
    config.layers = std::move(layers);
    Result<Model> made = MakeModel(config, input, classes);
    PS_CHECK(made.ok()) << made.status();
    model = std::move(made).value();
    for (uint32_t i = 0; i < model.tensors.size(); ++i) {
      const int64_t size = model.tensors[i].element_count();
      parameters.emplace_back(static_cast<size_t>(size));
      gradients.emplace_back(static_cast<size_t>(size));
      InitializeTensor(model.tensors[i], i, 1, 0, parameters.back().data(), size);
    }
    network = Network::Make(model, {backend.get()}, 1).value();
  }

  /// The batch's mean loss before the step.
  double Step(const Batch& batch, float lr) {
    const std::vector<std::span<const float>> p(parameters.begin(), parameters.end());
    const std::vector<std::span<float>> g(gradients.begin(), gradients.end());
    const Result<BatchLoss> loss = network->TrainStep(p, batch, {.step = ++step}, g, {});
    PS_CHECK(loss.ok()) << loss.status();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const TensorSpec& spec = model.tensors[i];
      for (size_t k = 0; k < parameters[i].size(); ++k) {
        float& w = parameters[i][k];
        const float pushed = gradients[i][k];
        w += spec.rule == UpdateRule::kAverage ? spec.average_rate * (pushed - w) : -lr * pushed;
      }
    }
    return loss->loss_sum / static_cast<double>(loss->samples);
  }

  double Accuracy(const Batch& batch) {
    const std::vector<std::span<const float>> p(parameters.begin(), parameters.end());
    const Result<BatchLoss> loss = network->Evaluate(p, batch);
    PS_CHECK(loss.ok()) << loss.status();
    return static_cast<double>(loss->correct) / static_cast<double>(loss->samples);
  }

  std::unique_ptr<kernels::Backend> backend = kernels::MakeCpuBackend();
  Model model;
  std::vector<std::vector<float>> parameters;
  std::vector<std::vector<float>> gradients;
  std::unique_ptr<Network> network;
  uint64_t step = 0;
};

Layers SmallCnn(const proto::LayerConfig& norm, int32_t classes) {
  return {
      Conv2d(8, 3),
      norm,
      Relu(),
      MaxPool(2),
      Residual({Conv2d(8, 3), Relu()}, {}),
      GlobalAvgPool(),
      Dropout(0.1F),
      Linear(classes)};
}

/// The same with depthwise convolutions, as MobileNet has them (with products of one pixel between
/// them) and, in the residual layer, ConvNeXt.
Layers SeparableCnn(int32_t classes) {
  return {
      Conv2d(8, 1),
      Grouped(8, Conv2d(8, 3)),
      BatchNorm(),
      Relu(),
      Conv2d(16, 1),
      Grouped(16, Conv2d(16, 3, 2)),
      BatchNorm(),
      Relu(),
      Residual(
          {Grouped(16, Conv2d(16, 5)), GroupNorm(1), Conv2d(32, 1), Gelu(), Conv2d(16, 1)}, {}),
      GlobalAvgPool(),
      Linear(classes)};
}

struct StripesNet {
  std::string name;
  Layers layers;
};

class StripesTest : public testing::TestWithParam<StripesNet> {};

TEST_P(StripesTest, ASmallNetworkLearnsThem) {
  // Class 0 has rows, class 1 columns, class 2 a checkerboard of light and dark, all in noise.
  constexpr size_t kPictures = 96;
  constexpr size_t kSide = 8;
  Random random(3);
  std::vector<float> images;
  std::vector<uint32_t> labels;
  for (size_t i = 0; i < kPictures; ++i) {
    const auto label = static_cast<uint32_t>(random.Below(3));
    for (size_t y = 0; y < kSide; ++y) {
      for (size_t x = 0; x < kSide; ++x) {
        const size_t phase = label == 0 ? y : label == 1 ? x : x + y;
        const double signal = phase % 2 == 0 ? 1 : -1;
        images.push_back(static_cast<float>(signal + random.Unit() - 0.5));
      }
    }
    labels.push_back(label);
  }
  PlainTraining training(GetParam().layers, {1, kSide, kSide}, 3);
  const Batch all{images, labels};
  const double first = training.Step(all, 0.1F);
  double last = first;
  for (int i = 0; i < 60; ++i) {
    last = training.Step(all, 0.1F);
  }
  EXPECT_LT(last, 0.3 * first);
  EXPECT_GT(training.Accuracy(all), 0.95);
}

INSTANTIATE_TEST_SUITE_P(
    Nets,
    StripesTest,
    testing::Values(
        StripesNet{"BatchNorm", SmallCnn(BatchNorm(), 3)},
        StripesNet{"GroupNorm", SmallCnn(GroupNorm(2), 3)},
        StripesNet{"DepthwiseSeparable", SeparableCnn(3)}),
    [](const auto& info) { return info.param.name; });

TEST(TrainingTest, LossFallsOnRealImages) {
  proto::DataConfig config;
  config.directory = "/usr/share/datasets/fashion-mnist";
  config.train_samples = 512;
  config.test_samples = 256;
  const Result<Dataset> dataset = Dataset::Load(config);
  if (!dataset.ok() && dataset.status().code() == StatusCode::kNotFound) {
    GTEST_SKIP() << dataset.status();
  }
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const EpochOrder order(1, 0, 512);
  PlainTraining training(
      {Conv2d(8, 3), Relu(), MaxPool(4), Flatten(), Linear(10)},
      dataset->info().shape,
      dataset->info().classes);
  std::vector<float> images(32 * 784);
  std::vector<uint32_t> labels(32);
  double first_epoch = 0;
  double last_epoch = 0;
  for (int epoch = 0; epoch < 4; ++epoch) {
    last_epoch = 0;
    for (uint64_t begin = 0; begin < 512; begin += 32) {
      ASSERT_TRUE(dataset->FetchTrain(order, {begin, begin + 32}, {images, labels}).ok());
      last_epoch += training.Step({images, labels}, 0.1F) / 16;
    }
    first_epoch = epoch == 0 ? last_epoch : first_epoch;
  }
  EXPECT_LT(last_epoch, 0.6 * first_epoch);
  images.resize(256 * 784);
  labels.resize(256);
  ASSERT_TRUE(dataset->FetchTest({0, 256}, {images, labels}).ok());
  EXPECT_GT(training.Accuracy({images, labels}), 0.6);
}

}  // namespace
}  // namespace ps::worker::test
