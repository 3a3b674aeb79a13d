#include "kernels/cpu/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ps::kernels {
namespace {

LossResult SoftmaxCrossEntropy(
    const float* logits, const std::vector<uint32_t>& labels, int64_t classes, float* dz) {
  LossResult result;
  ComputeLoss(
      {.n = static_cast<int64_t>(labels.size()),
       .classes = classes,
       .logits = logits,
       .labels = labels.data(),
       .dz = dz,
       .result = &result});
  return result;
}

/// The definition, in double.
double ReferenceLoss(const std::vector<double>& z, const std::vector<uint32_t>& labels) {
  const size_t classes = z.size() / labels.size();
  double loss = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    double sum = 0;
    for (size_t j = 0; j < classes; ++j) {
      sum += std::exp(z[i * classes + j]);
    }
    loss += std::log(sum) - z[i * classes + labels[i]];
  }
  return loss;
}

const std::vector<float> kLogits = {0.5F, -1.25F, 2, 0, 0, 0, 3, -3, 1.5F, -0.75F, 0.25F, 0.125F};
const std::vector<uint32_t> kLabels = {2, 1, 0, 2};

TEST(SoftmaxCrossEntropyTest, EqualsTheDefinition) {
  const LossResult result = SoftmaxCrossEntropy(kLogits.data(), kLabels, 3, nullptr);
  EXPECT_NEAR(result.loss_sum, ReferenceLoss({kLogits.begin(), kLogits.end()}, kLabels), 1e-6);
  EXPECT_EQ(result.correct, 2);
}

TEST(SoftmaxCrossEntropyTest, GradientEqualsFiniteDifferencesOfTheMean) {
  std::vector<float> dz(kLogits.size());
  SoftmaxCrossEntropy(kLogits.data(), kLabels, 3, dz.data());
  std::vector<double> z(kLogits.begin(), kLogits.end());
  for (size_t i = 0; i < z.size(); ++i) {
    constexpr double kStep = 1e-5;
    const double before = z[i];
    z[i] = before + kStep;
    const double above = ReferenceLoss(z, kLabels);
    z[i] = before - kStep;
    const double below = ReferenceLoss(z, kLabels);
    z[i] = before;
    EXPECT_NEAR(dz[i], (above - below) / (2 * kStep) / 4, 1e-6) << i;
  }
}

TEST(SoftmaxCrossEntropyTest, GradientMayReplaceTheLogits) {
  std::vector<float> separate(kLogits.size());
  SoftmaxCrossEntropy(kLogits.data(), kLabels, 3, separate.data());
  std::vector<float> shared = kLogits;
  const LossResult result = SoftmaxCrossEntropy(shared.data(), kLabels, 3, shared.data());
  EXPECT_EQ(shared, separate);
  EXPECT_EQ(result.correct, 2);
}

TEST(SoftmaxCrossEntropyTest, LargeLogitsDoNotOverflow) {
  const std::vector<float> z = {1e30F, 0, -1e30F, 500, 499, 0};
  const LossResult result = SoftmaxCrossEntropy(z.data(), std::vector<uint32_t>{0, 1}, 3, nullptr);
  EXPECT_NEAR(result.loss_sum, std::log(1 + std::exp(1.0)), 1e-6);
}

TEST(SoftmaxCrossEntropyTest, NanMakesTheLossNanAndNoHit) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (size_t position = 0; position < 3; ++position) {
    std::vector<float> z = {1, 2, 3};
    z[position] = kNan;
    std::vector<float> dz(3);
    const LossResult result = SoftmaxCrossEntropy(z.data(), std::vector<uint32_t>{2}, 3, dz.data());
    EXPECT_TRUE(std::isnan(result.loss_sum));
    EXPECT_TRUE(std::isnan(dz[0]));
    EXPECT_EQ(result.correct, 0);
  }
}

}  // namespace
}  // namespace ps::kernels
