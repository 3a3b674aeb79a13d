#include "worker/model/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/cpu/threads.h"
#include "tests/worker/model/model_builder.h"

namespace ps::worker::test {
namespace {

using testing::HasSubstr;

/// A network with parameters, gradients and one minibatch of normal noise.
struct Rig {
  Rig(Layers layers, const Shape& input, int64_t n, int64_t classes) {
    kernels::SetComputeThreads(1);
    proto::ModelConfig config;
    config.layers = std::move(layers);
    Result<Model> made = MakeModel(config, input, classes);
    PS_CHECK(made.ok()) << made.status();
    model = std::move(made).value();
    for (uint32_t i = 0; i < model.tensors.size(); ++i) {
      const int64_t size = model.tensors[i].element_count();
      parameters.emplace_back(static_cast<size_t>(size));
      gradients.emplace_back(static_cast<size_t>(size), std::numeric_limits<float>::quiet_NaN());
      InitializeTensor(model.tensors[i], i, 1, 0, parameters.back().data(), size);
    }
    TensorSpec noise;
    noise.init = InitKind::kNormal;
    noise.init_scale = 1;
    images.resize(static_cast<size_t>(n * input.element_count()));
    InitializeTensor(noise, 99, 1, 0, images.data(), static_cast<int64_t>(images.size()));
    for (int64_t i = 0; i < n; ++i) {
      labels.push_back(static_cast<uint32_t>(i * 7 % classes));
    }
    network = Network::Make(model, 5);
  }

  Result<BatchLoss> Step(const Network::GradientReady& ready = {}, uint64_t step = 1) {
    const std::vector<std::span<const float>> p(parameters.begin(), parameters.end());
    const std::vector<std::span<float>> g(gradients.begin(), gradients.end());
    return network->TrainStep(p, {images, labels}, step, g, ready);
  }

  Result<BatchLoss> Evaluate() {
    const std::vector<std::span<const float>> p(parameters.begin(), parameters.end());
    return network->Evaluate(p, {images, labels});
  }

  double MeanLoss() {
    const Result<BatchLoss> loss = Step();
    PS_CHECK(loss.ok()) << loss.status();
    return loss->loss_sum / static_cast<double>(loss->samples);
  }

  Model model;
  std::vector<std::vector<float>> parameters;
  std::vector<std::vector<float>> gradients;
  std::vector<float> images;
  std::vector<uint32_t> labels;
  std::unique_ptr<Network> network;
};

/// Every kind of layer, ops in place behind ones that are not and behind residuals, both kinds of
/// shortcut, nested.
Layers EveryLayer() {
  return {
      Conv2d(6, 3),
      BatchNorm(),
      Gelu(),
      Residual({Conv2d(6, 3), Dropout(0.2F), Residual({Gelu(), Conv2d(6, 1)}, {})}, {}),
      Gelu(),
      AvgPool(2),
      Residual({Conv2d(9, 3, 2), BatchNorm()}, {Conv2d(9, 1, 2)}),
      Dropout(0.3F),
      Residual({Gelu()}, {}),
      Flatten(),
      Linear(11),
      Dropout(0.1F),
      Gelu(),
      Linear(3)};
}

/// Moves tensor `i` along its gradient by finite differences and compares the slope with the
/// gradient's norm, which is what it must be.
void ExpectGradientIsTheSlope(Rig* rig, size_t i) {
  ASSERT_TRUE(rig->Step().ok());
  const std::vector<float> gradient = rig->gradients[i];
  const double norm = std::sqrt(std::inner_product(
      gradient.begin(), gradient.end(), gradient.begin(), 0.0, std::plus<>(), [](float a, float b) {
        return static_cast<double>(a) * b;
      }));
  const std::vector<float> before = rig->parameters[i];
  if (norm < 1e-5) {
    return;  // a bias in front of a batch norm has no effect
  }
  constexpr double kStep = 3e-3;
  double losses[2];
  for (const int side : {0, 1}) {
    const double factor = (side == 0 ? -kStep : kStep) / norm;
    for (size_t k = 0; k < before.size(); ++k) {
      rig->parameters[i][k] = before[k] + static_cast<float>(factor * gradient[k]);
    }
    losses[side] = rig->MeanLoss();
  }
  rig->parameters[i] = before;
  const double slope = (losses[1] - losses[0]) / (2 * kStep);
  // Losses near 1 in float, over twice the step: about 1e-4 of rounding.
  EXPECT_NEAR(slope, norm, 0.01 * norm + 3e-4) << rig->model.tensors[i].name;
}

TEST(NetworkTest, GradientsAreTheSlopeOfTheLossForEveryTensor) {
  Rig rig(EveryLayer(), {3, 8, 8}, 5, 3);
  for (size_t i = 0; i < rig.model.tensors.size(); ++i) {
    if (rig.model.tensors[i].rule == UpdateRule::kOptimizer) {
      ExpectGradientIsTheSlope(&rig, i);
    }
  }
}

TEST(NetworkTest, ReluAndMaxPoolAreCoveredToo) {
  Rig rig(
      {Conv2d(8, 3),
       Relu(),
       Dropout(0.2F),
       MaxPool(2),
       Residual({Relu(), Conv2d(8, 3), Relu()}, {}),
       Relu(),
       Flatten(),
       Linear(4)},
      {1, 8, 8},
      7,
      4);
  for (size_t i = 0; i < rig.model.tensors.size(); ++i) {
    ExpectGradientIsTheSlope(&rig, i);
  }
}

TEST(NetworkTest, EveryGradientIsAnnouncedOnceFromLastToFirst) {
  Rig rig(EveryLayer(), {3, 8, 8}, 4, 3);
  std::vector<uint32_t> order;
  std::vector<std::vector<float>> announced(rig.gradients.size());
  ASSERT_TRUE(rig.Step([&](uint32_t tensor) {
                   order.push_back(tensor);
                   announced[tensor] = rig.gradients[tensor];
                 })
                  .ok());
  std::vector<uint32_t> expected(rig.gradients.size());
  std::iota(expected.rbegin(), expected.rend(), 0U);
  EXPECT_EQ(order, expected);
  EXPECT_EQ(announced, rig.gradients);  // final at that moment
}

TEST(NetworkTest, TheSameStepGivesTheSameBits) {
  Rig first(EveryLayer(), {3, 8, 8}, 4, 3);
  Rig second(EveryLayer(), {3, 8, 8}, 4, 3);
  ASSERT_TRUE(second.Step({}, 9).ok());  // leaves its traces in the memory
  const Result<BatchLoss> a = first.Step({}, 2);
  const Result<BatchLoss> b = second.Step({}, 2);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->loss_sum, b->loss_sum);
  EXPECT_EQ(first.gradients, second.gradients);
}

TEST(NetworkTest, TheStepDecidesTheDropout) {
  Rig rig({Flatten(), Linear(16), Dropout(0.5F), Linear(2)}, {1, 3, 3}, 3, 2);
  const double first = rig.Step({}, 1)->loss_sum;
  EXPECT_NE(rig.Step({}, 2)->loss_sum, first);
  EXPECT_EQ(rig.Step({}, 1)->loss_sum, first);
}

TEST(NetworkTest, AMinibatchsGradientIsTheMeanOfItsSamples) {
  const Layers layers = {Conv2d(4, 3), Gelu(), Flatten(), Linear(3)};
  Rig whole(layers, {2, 5, 5}, 6, 3);
  ASSERT_TRUE(whole.Step().ok());
  std::vector<double> sum(whole.gradients[0].size());
  for (size_t i = 0; i < 6; ++i) {
    Rig one(layers, {2, 5, 5}, 1, 3);
    std::copy_n(whole.images.begin() + static_cast<int64_t>(i) * 50, 50, one.images.begin());
    one.labels[0] = whole.labels[i];
    ASSERT_TRUE(one.Step().ok());
    for (size_t k = 0; k < sum.size(); ++k) {
      sum[k] += one.gradients[0][k];
    }
  }
  for (size_t k = 0; k < sum.size(); ++k) {
    EXPECT_NEAR(whole.gradients[0][k], sum[k] / 6, 1e-5);
  }
}

TEST(NetworkTest, BatchNormObservesItsBatch) {
  Rig rig({BatchNorm(), Flatten(), Linear(2)}, {1, 2, 2}, 2, 2);
  rig.images = {1, 2, 3, 4, 5, 6, 7, 8};
  ASSERT_TRUE(rig.Step().ok());
  EXPECT_FLOAT_EQ(rig.gradients[2][0], 4.5F);
  EXPECT_FLOAT_EQ(rig.gradients[3][0], 6.0F);
}

TEST(NetworkTest, EvaluationUsesRunningStatisticsAndNoDropout) {
  Rig with({BatchNorm(), Dropout(0.5F), Flatten(), Linear(2)}, {1, 2, 2}, 3, 2);
  Rig without({Flatten(), Linear(2)}, {1, 2, 2}, 3, 2);
  with.parameters[4] = without.parameters[0];  // same weight; mean 0 and variance 1 change nothing
  const Result<BatchLoss> a = with.Evaluate();
  const Result<BatchLoss> b = without.Evaluate();
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NEAR(a->loss_sum, b->loss_sum, 1e-4);
  EXPECT_EQ(a->correct, b->correct);
  EXPECT_EQ(a->samples, 3);
}

TEST(NetworkTest, BatchSizesMayChangeFromStepToStep) {
  const Layers layers = EveryLayer();
  Rig rig(layers, {3, 8, 8}, 9, 3);
  Rig small(layers, {3, 8, 8}, 2, 3);
  ASSERT_TRUE(small.Step().ok());
  const std::vector<std::vector<float>> expected = small.gradients;
  ASSERT_TRUE(rig.Step().ok());
  ASSERT_TRUE(rig.Evaluate().ok());
  rig.images.resize(small.images.size());
  rig.images = small.images;
  rig.labels = small.labels;
  ASSERT_TRUE(rig.Step().ok());
  EXPECT_EQ(rig.gradients, expected);
}

TEST(NetworkTest, NanInAParameterOfTheLastLayerShowsInLossAndGradients) {
  Rig rig({Conv2d(4, 3), Relu(), Flatten(), Linear(3)}, {1, 4, 4}, 2, 3);
  rig.parameters[3][0] = std::numeric_limits<float>::quiet_NaN();
  const Result<BatchLoss> loss = rig.Step();
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_TRUE(std::isnan(loss->loss_sum));
  EXPECT_TRUE(std::isnan(rig.gradients[2][0]));
}

TEST(NetworkErrorTest, WrongSizesAndLabelsAreRefused) {
  Rig rig({Flatten(), Linear(3)}, {1, 4, 4}, 2, 3);
  rig.labels[1] = 3;
  EXPECT_THAT(std::string(rig.Step().status().message()), HasSubstr("label 3 of 3 classes"));
  rig.labels.pop_back();
  EXPECT_THAT(
      std::string(rig.Step().status().message()),
      HasSubstr("32 image values for 1 samples of 1x4x4"));
  rig.labels.clear();
  EXPECT_THAT(std::string(rig.Evaluate().status().message()), HasSubstr("empty batch"));
  rig.parameters[1].pop_back();
  EXPECT_THAT(
      std::string(rig.Evaluate().status().message()),
      HasSubstr("parameters: 1.linear.bias has 2 elements instead of 3"));
  rig.gradients.pop_back();
  EXPECT_THAT(
      std::string(rig.Step().status().message()),
      HasSubstr("gradients: 1 tensors, the model has 2"));
}

TEST(ClipGradientNormTest, ScalesOnlyWhatIsTooLongAndOnlyGradients) {
  Rig rig({BatchNorm(), Flatten(), Linear(2)}, {1, 2, 2}, 2, 2);
  for (std::vector<float>& gradient : rig.gradients) {
    std::fill(gradient.begin(), gradient.end(), 2.0F);
  }
  // Gamma, beta, 8 weights, 2 biases: 12 elements of 2.
  const std::vector<std::span<float>> spans(rig.gradients.begin(), rig.gradients.end());
  const double norm = std::sqrt(48.0);
  EXPECT_NEAR(ClipGradientNorm(rig.model, spans, 100), norm, 1e-9);
  EXPECT_EQ(rig.gradients[0][0], 2.0F);
  EXPECT_NEAR(ClipGradientNorm(rig.model, spans, 1), norm, 1e-9);
  EXPECT_NEAR(rig.gradients[0][0], 2 / norm, 1e-6);
  EXPECT_EQ(rig.gradients[2][0], 2.0F);  // the observed mean
  EXPECT_NEAR(ClipGradientNorm(rig.model, spans, 100), 1, 1e-6);
}

TEST(ClipGradientNormTest, ANormThatIsNotFiniteIsLeftToTheServer) {
  Rig rig({Flatten(), Linear(2)}, {1, 2, 2}, 2, 2);
  for (std::vector<float>& gradient : rig.gradients) {
    std::fill(gradient.begin(), gradient.end(), 2.0F);
  }
  rig.gradients[0][3] = std::numeric_limits<float>::infinity();
  const std::vector<std::span<float>> spans(rig.gradients.begin(), rig.gradients.end());
  EXPECT_TRUE(std::isinf(ClipGradientNorm(rig.model, spans, 1)));
  EXPECT_EQ(rig.gradients[0][0], 2.0F);
}

}  // namespace
}  // namespace ps::worker::test
