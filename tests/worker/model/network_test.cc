#include "worker/model/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/cpu/backend.h"
#include "kernels/cpu/threads.h"
#include "tests/worker/model/network_rig.h"

namespace ps::worker::test {
namespace {

using testing::HasSubstr;

kernels::Backend* Cpu() {
  static const std::unique_ptr<kernels::Backend> backend = kernels::MakeCpuBackend();
  kernels::SetComputeThreads(1);
  return backend.get();
}

proto::ModelConfig ConfigOf(Layers layers) {
  proto::ModelConfig config;
  config.layers = std::move(layers);
  return config;
}

struct Rig : NetworkRig {
  Rig(Layers layers, const Shape& input, int64_t n, int64_t classes)
      : NetworkRig(Cpu(), ConfigOf(std::move(layers)), input, n, classes) {}
};

/// Every kind of layer, ops in place behind ones that are not and behind residuals, both kinds of
/// shortcut, nested.
Layers EveryLayer() {
  return {
      Conv2d(6, 3),
      BatchNorm(),
      Gelu(),
      Residual(
          {GroupNorm(3), Conv2d(6, 3), Dropout(0.2F), Residual({Gelu(), Conv2d(6, 1)}, {})}, {}),
      Gelu(),
      AvgPool(2),
      Residual({Grouped(3, Conv2d(9, 3, 2)), BatchNorm()}, {Conv2d(9, 1, 2)}),
      Dropout(0.3F),
      Residual({Sigmoid()}, {}),
      Flatten(),
      Linear(11),
      Tanh(),
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

TEST(NetworkTest, FrozenLayersBelowTheFirstThatLearnsHaveNoBackwardPass) {
  Rig rig(EveryLayer(), {3, 8, 8}, 5, 3);
  ASSERT_TRUE(rig.Step().ok());
  proto::JobConfig job;
  job.parameters = {{.match = {"0.*", "1.*", "3.*", "14.linear.bias"}, .frozen = true}};
  Model model = rig.model;
  ASSERT_TRUE(TreatTensors(job, &model).ok());
  const auto network = Network::Make(model, {Cpu()}, 5).value();
  std::vector<std::vector<float>> gradients;
  for (const std::vector<float>& gradient : rig.gradients) {
    gradients.emplace_back(gradient.size(), std::numeric_limits<float>::quiet_NaN());
  }
  const std::vector<std::span<const float>> parameters(
      rig.parameters.begin(), rig.parameters.end());
  const std::vector<std::span<float>> spans(gradients.begin(), gradients.end());
  std::vector<int> ready(gradients.size(), 0);
  ASSERT_TRUE(network
                  ->TrainStep(
                      parameters,
                      Batch{rig.images, rig.labels},
                      {.step = 1},
                      spans,
                      [&](uint32_t tensor) { ++ready[tensor]; })
                  .ok());
  EXPECT_THAT(ready, testing::Each(1));
  for (size_t i = 0; i < gradients.size(); ++i) {
    const std::string& name = model.tensors[i].name;
    const bool is_skipped = name[1] == '.' && name[0] < '6';
    EXPECT_EQ(gradients[i], is_skipped ? std::vector<float>(gradients[i].size()) : rig.gradients[i])
        << name;
  }
}

TEST(NetworkTest, AFrozenShortcutBesideABodyThatLearnsIsSkipped) {
  Rig rig(
      {Residual({Conv2d(4, 3), Relu()}, {Conv2d(4, 1)}), Flatten(), Linear(3)}, {2, 4, 4}, 3, 3);
  ASSERT_TRUE(rig.Step().ok());
  proto::JobConfig job;
  job.parameters = {{.match = {"0.residual.shortcut.*"}, .frozen = true}};
  Model model = rig.model;
  ASSERT_TRUE(TreatTensors(job, &model).ok());
  const auto network = Network::Make(model, {Cpu()}, 5).value();
  std::vector<std::vector<float>> gradients = rig.gradients;
  const std::vector<std::span<const float>> parameters(
      rig.parameters.begin(), rig.parameters.end());
  const std::vector<std::span<float>> spans(gradients.begin(), gradients.end());
  int ready = 0;
  ASSERT_TRUE(network
                  ->TrainStep(
                      parameters,
                      Batch{rig.images, rig.labels},
                      {.step = 1},
                      spans,
                      [&](uint32_t) { ++ready; })
                  .ok());
  EXPECT_EQ(ready, static_cast<int>(gradients.size()));
  for (size_t i = 0; i < gradients.size(); ++i) {
    const bool is_skipped = model.tensors[i].name.find("shortcut") != std::string::npos;
    EXPECT_EQ(gradients[i], is_skipped ? std::vector<float>(gradients[i].size()) : rig.gradients[i])
        << model.tensors[i].name;
  }
}

/// Each loss, with three outputs.
std::vector<proto::LayerConfig> AllLosses() {
  return {
      Simple(proto::LayerKind::kMse),
      Simple(proto::LayerKind::kMae),
      Huber(0.4F),
      Simple(proto::LayerKind::kBce),
      CrossEntropy(0.1F, {}),
      CrossEntropy(0, {0.5F, 2, 1}),
      CrossEntropy(0.2F, {0, 2, 1})};
}

TEST(NetworkTest, GradientsAreTheSlopeOfEveryLoss) {
  for (const proto::LayerConfig& loss : AllLosses()) {
    Rig rig({Flatten(), Linear(6), Tanh(), Linear(3), loss}, {1, 3, 3}, 7, 3);
    for (size_t i = 0; i < rig.model.tensors.size(); ++i) {
      ExpectGradientIsTheSlope(&rig, i);
    }
  }
}

TEST(NetworkTest, PiecesOfEveryLossMakeTheWhole) {
  for (const proto::LayerConfig& loss : AllLosses()) {
    const Layers layers = {Flatten(), Linear(6), Tanh(), Linear(3), loss};
    Rig whole(layers, {1, 3, 3}, 7, 3);
    Rig pieces(layers, {1, 3, 3}, 7, 3);
    const BatchLoss a = whole.Step({.step = 1}).value();
    const BatchLoss b = pieces.Step({.step = 1, .micro_batch = 2}).value();
    EXPECT_NEAR(a.loss_sum, b.loss_sum, 1e-5);
    EXPECT_EQ(a.correct, b.correct);
    for (size_t i = 0; i < whole.gradients.size(); ++i) {
      for (size_t k = 0; k < whole.gradients[i].size(); ++k) {
        EXPECT_NEAR(whole.gradients[i][k], pieces.gradients[i][k], 1e-6)
            << static_cast<int>(loss.kind) << " " << i;
      }
    }
  }
}

TEST(NetworkTest, ALossOfNumbersIsTheMeanOverOutputsOfEachSample) {
  Rig rig({Flatten(), Linear(3), Simple(proto::LayerKind::kMse)}, {1, 3, 3}, 5, 3);
  const BatchLoss loss = rig.Evaluate().value();
  EXPECT_EQ(loss.samples, 5);
  EXPECT_EQ(loss.correct, 0);
  EXPECT_NEAR(loss.loss_sum, loss.squared_error, 1e-9);
  EXPECT_GT(loss.absolute_error, 0);
  rig.labels[4] = std::bit_cast<uint32_t>(std::numeric_limits<float>::infinity());
  EXPECT_EQ(rig.Evaluate().status().code(), StatusCode::kInvalidArgument);
}

TEST(NetworkTest, OfManyClassesTheFiveLargestCountAsNear) {
  Rig rig({Flatten(), Linear(11)}, {1, 3, 3}, 64, 11);
  const BatchLoss loss = rig.Evaluate().value();
  EXPECT_GT(loss.near, loss.correct);
  EXPECT_LT(loss.near, 64);
  Rig few({Flatten(), Linear(10)}, {1, 3, 3}, 64, 10);
  EXPECT_EQ(few.Evaluate()->near, 0) << "nobody asks";
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

/// The loss's gradient takes the place of outputs, unless the last layer reads them again.
TEST(NetworkTest, OutputsThatTheLastLayerReadsAgainAreKept) {
  for (const proto::LayerConfig& last :
       {Relu(), Gelu(), Tanh(), Sigmoid(), Dropout(0.2F), Residual({Linear(3), Tanh()}, {})}) {
    Rig rig({Flatten(), Linear(7), Gelu(), Linear(3), last}, {1, 4, 4}, 5, 3);
    for (size_t i = 0; i < rig.model.tensors.size(); ++i) {
      ExpectGradientIsTheSlope(&rig, i);
    }
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

TEST(NetworkTest, OutputsAreThoseWhoseLossIsEvaluated) {
  Rig rig(EveryLayer(), {2, 12, 8}, 5, 3);
  const std::vector<float> outputs = rig.Apply();
  ASSERT_EQ(outputs.size(), 15U);
  double loss = 0;
  int64_t correct = 0;
  for (size_t i = 0; i < 5; ++i) {
    const auto row = std::span(outputs).subspan(3 * i, 3);
    double sum = 0;
    for (const float output : row) {
      sum += std::exp(output);
    }
    loss += std::log(sum) - row[rig.labels[i]];
    correct += std::ranges::max_element(row) - row.begin() == rig.labels[i] ? 1 : 0;
  }
  const BatchLoss evaluated = rig.Evaluate().value();
  EXPECT_NEAR(loss, evaluated.loss_sum, 1e-4);
  EXPECT_EQ(correct, evaluated.correct);
  rig.labels.assign(5, 0);
  EXPECT_EQ(rig.Apply(), outputs) << "labels change nothing";
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

double NormOf(const Rig& rig) {
  double sum = 0;
  for (size_t i = 0; i < rig.gradients.size(); ++i) {
    for (const float g : rig.gradients[i]) {
      sum += rig.model.tensors[i].rule == UpdateRule::kOptimizer ? double{g} * g : 0;
    }
  }
  return std::sqrt(sum);
}

TEST(NetworkTest, ClippingScalesOnlyWhatIsTooLongAndOnlyGradients) {
  Rig rig({BatchNorm(), Flatten(), Linear(2)}, {1, 2, 2}, 2, 2);
  ASSERT_TRUE(rig.Step().ok());
  const std::vector<std::vector<float>> whole = rig.gradients;
  const double norm = NormOf(rig);
  ASSERT_TRUE(rig.Step({.step = 1, .clip_norm = static_cast<float>(2 * norm)}).ok());
  EXPECT_EQ(rig.gradients, whole);
  ASSERT_TRUE(rig.Step({.step = 1, .clip_norm = static_cast<float>(norm / 4)}).ok());
  EXPECT_NEAR(NormOf(rig), norm / 4, 1e-6 * norm);
  EXPECT_NEAR(rig.gradients[4][0], whole[4][0] / 4, 1e-6);
  EXPECT_EQ(rig.gradients[2], whole[2]);  // the observed mean
}

/// Layers that see a sample at a time, so that pieces make no difference.
Layers WithoutBatchNorm() {
  return {
      Conv2d(4, 3), Gelu(), Residual({Conv2d(4, 3), Relu()}, {}), MaxPool(2), Flatten(), Linear(3)};
}

void ExpectNear(const NetworkRig& found, const NetworkRig& expected, float off) {
  for (size_t i = 0; i < expected.gradients.size(); ++i) {
    EXPECT_THAT(
        found.gradients[i], testing::Pointwise(testing::FloatNear(off), expected.gradients[i]))
        << expected.model.tensors[i].name;
  }
}

TEST(NetworkTest, PiecesOfAMinibatchMakeItsGradient) {
  Rig whole(WithoutBatchNorm(), {2, 6, 6}, 7, 3);
  const BatchLoss loss = whole.Step().value();
  for (const int64_t micro : {1, 2, 3, 6, 7, 100}) {
    Rig rig(WithoutBatchNorm(), {2, 6, 6}, 7, 3);
    std::vector<uint32_t> order;
    const Result<BatchLoss> found = rig.Step(
        {.step = 1, .micro_batch = micro}, [&](uint32_t tensor) { order.push_back(tensor); });
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_NEAR(found->loss_sum, loss.loss_sum, 1e-5) << micro;
    EXPECT_EQ(found->correct, loss.correct) << micro;
    EXPECT_EQ(found->samples, 7) << micro;
    ExpectNear(rig, whole, 1e-6F);
    EXPECT_EQ(order.size(), rig.gradients.size());
    EXPECT_TRUE(std::ranges::is_sorted(order, std::greater<>())) << "each once, the last first";
    // The next step is another size, and the same again.
    ASSERT_TRUE(rig.Step().ok());
    EXPECT_EQ(rig.gradients, whole.gradients);
    ASSERT_TRUE(rig.Step({.step = 1, .clip_norm = 1e-3F, .micro_batch = micro}).ok());
    EXPECT_NEAR(NormOf(rig), 1e-3, 1e-8) << "the whole is clipped, not each piece";
  }
}

// An op keeps eight sizes: the oldest of these is the pieces', and their last one's is new.
TEST(NetworkTest, PiecesOfTwoSizesAreComputedWhateverSizesCameBefore) {
  Rig whole(WithoutBatchNorm(), {2, 6, 6}, 3, 3);
  ASSERT_TRUE(whole.Step().ok());
  Rig rig(WithoutBatchNorm(), {2, 6, 6}, 9, 3);
  const NetworkRig::Samples all = rig.TakeSamples({}, {});
  for (const std::ptrdiff_t n : {2, 3, 4, 5, 6, 7, 8, 9}) {
    rig.TakeSamples(
        {all.images.begin(), all.images.begin() + n * 2 * 6 * 6},
        {all.labels.begin(), all.labels.begin() + n});
    ASSERT_TRUE(rig.Step().ok());
  }
  rig.TakeSamples(whole.images, whole.labels);
  ASSERT_TRUE(rig.Step({.step = 1, .micro_batch = 2}).ok());
  ExpectNear(rig, whole, 1e-6F);
}

// Two equal samples with equal masks would have the gradient of one.
TEST(NetworkTest, EveryPieceHasDropoutMasksOfItsOwn) {
  Rig one({Flatten(), Dropout(0.5F), Linear(2)}, {1, 8, 8}, 1, 2);
  Rig two({Flatten(), Dropout(0.5F), Linear(2)}, {1, 8, 8}, 2, 2);
  two.images = one.images;
  two.images.insert(two.images.end(), one.images.begin(), one.images.end());
  two.labels = {one.labels[0], one.labels[0]};
  ASSERT_TRUE(one.Step().ok());
  ASSERT_TRUE(two.Step({.step = 1, .micro_batch = 1}).ok());
  EXPECT_NE(two.gradients[0], one.gradients[0]);
}

TEST(NetworkTest, BackendsThatShareAMinibatchHaveTheBitsOfItsPieces) {
  const auto other = kernels::MakeCpuBackend();
  for (const int64_t n : {6, 5, 1}) {
    Rig pieces(WithoutBatchNorm(), {2, 6, 6}, n, 3);
    NetworkRig shared({pieces.backend, other.get()}, ConfigOf(WithoutBatchNorm()), {2, 6, 6}, n, 3);
    for (const float clip_norm : {0.0F, 1e-3F}) {
      const Result<BatchLoss> expected =
          pieces.Step({.step = 1, .clip_norm = clip_norm, .micro_batch = (n + 1) / 2});
      const Result<BatchLoss> found = shared.Step({.step = 1, .clip_norm = clip_norm});
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(found->loss_sum, expected->loss_sum) << n;
      EXPECT_EQ(shared.gradients, pieces.gradients) << n;
    }
    EXPECT_NEAR(
        shared.Evaluate()->loss_sum, pieces.Evaluate()->loss_sum, 1e-6 * static_cast<double>(n));
  }
}

/// Normalised by itself, observed as a mean; dropout's masks are those of other samples.
TEST(NetworkTest, BatchNormSeesAPieceAtATime) {
  Rig rig({BatchNorm(), Flatten(), Dropout(0.5F), Linear(2)}, {1, 2, 2}, 4, 2);
  ASSERT_TRUE(rig.Step({.step = 1, .micro_batch = 2}).ok());
  const double sum = std::accumulate(rig.images.begin(), rig.images.end(), 0.0);
  EXPECT_NEAR(rig.gradients[2][0], sum / 16, 1e-6);  // the observed mean
}

TEST(NetworkTest, Bf16GradientsAreRoundedOnceTheyAreFinalAndObservationsAreNot) {
  Rig rig({Conv2d(4, 3), BatchNorm(), Relu(), Flatten(), Linear(3)}, {2, 6, 6}, 7, 3);
  for (const float clip_norm : {0.0F, 1e-3F}) {
    for (const int64_t micro : {0, 3}) {
      const Network::StepOptions options{.step = 1, .clip_norm = clip_norm, .micro_batch = micro};
      ASSERT_TRUE(rig.Step(options).ok());
      const std::vector<std::vector<float>> expected = rig.RoundedGradients();
      EXPECT_NE(expected, rig.gradients);
      Network::StepOptions rounding = options;
      rounding.bf16_gradients = true;
      ASSERT_TRUE(rig.Step(rounding).ok());
      EXPECT_EQ(rig.gradients, expected) << clip_norm << " " << micro;
    }
  }
}

TEST(NetworkTest, ANormThatIsNotFiniteIsLeftToTheServer) {
  Rig rig({Flatten(), Linear(2)}, {1, 2, 2}, 2, 2);
  rig.images[0] = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(rig.Step().ok());
  const std::vector<float> bias = rig.gradients[1];
  ASSERT_TRUE(rig.Step({.step = 1, .clip_norm = 1e-3F}).ok());
  EXPECT_EQ(std::isnan(rig.gradients[1][0]), std::isnan(bias[0]));
  EXPECT_FALSE(std::isfinite(NormOf(rig)));
}

}  // namespace
}  // namespace ps::worker::test
