#include "ps/coordinator/meters/epoch_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ps::coordinator {
namespace {

using proto::EpochMetric;

std::vector<proto::EvaluationRow> Rows(const std::vector<double>& accuracies) {
  std::vector<proto::EvaluationRow> rows;
  for (const double accuracy : accuracies) {
    rows.push_back({static_cast<uint32_t>(rows.size() + 1), accuracy, 1 - accuracy, 100, 0});
  }
  return rows;
}

TEST(EpochScoreTest, MoreAccuracyIsBetterAndLessLoss) {
  EXPECT_TRUE(IsBetter(0.9, 0.8, EpochMetric::kAccuracy));
  EXPECT_FALSE(IsBetter(0.9, 0.8, EpochMetric::kLoss));
  EXPECT_TRUE(IsBetter(0.8, 0.9, EpochMetric::kLoss));
  EXPECT_FALSE(IsBetter(0.9, 0.9, EpochMetric::kAccuracy)) << "the first of two equal ones stays";
  EXPECT_FALSE(IsBetter(0.84, 0.8, EpochMetric::kAccuracy, 0.05));
  EXPECT_FALSE(IsBetter(0.76, 0.8, EpochMetric::kLoss, 0.05));
}

TEST(EpochScoreTest, ALossThatIsNotFiniteIsWorseThanAny) {
  const double nan = std::nan("");
  EXPECT_TRUE(IsBetter(1e9, nan, EpochMetric::kLoss));
  EXPECT_FALSE(IsBetter(nan, 1e9, EpochMetric::kLoss));
  EXPECT_FALSE(IsBetter(nan, nan, EpochMetric::kLoss));
  EXPECT_FALSE(IsBetter(-INFINITY, 1, EpochMetric::kLoss));
}

TEST(EpochScoreTest, TrainingEndsSoManyEpochsAfterTheBest) {
  const proto::StopEarlyConfig config{2, 0, EpochMetric::kAccuracy};
  EXPECT_FALSE(WhyStopEarly({}, config, "accuracy"));
  EXPECT_FALSE(WhyStopEarly(Rows({0.5, 0.4}), config, "accuracy"));
  EXPECT_TRUE(WhyStopEarly(Rows({0.5, 0.4, 0.5}), config, "accuracy")) << "as good is no better";
  EXPECT_FALSE(WhyStopEarly(Rows({0.5, 0.4, 0.51}), config, "accuracy"));
  EXPECT_FALSE(WhyStopEarly(Rows({0.5, 0.4, 0.3}), {0, 0, EpochMetric::kAccuracy}, "accuracy"));
  EXPECT_THAT(
      *WhyStopEarly(Rows({0.5, 0.4, 0.3}), {2, 0, EpochMetric::kLoss}, "loss"),
      testing::HasSubstr("loss 0.5 of epoch 1"));
}

TEST(EpochScoreTest, SmallStepsAddUpToABetterEpoch) {
  const proto::StopEarlyConfig config{2, 0.05F, EpochMetric::kAccuracy};
  EXPECT_FALSE(WhyStopEarly(Rows({0.5, 0.53, 0.56}), config, "accuracy")) << "0.06 above the best";
  EXPECT_TRUE(WhyStopEarly(Rows({0.5, 0.52, 0.54}), config, "accuracy"));
}

}  // namespace
}  // namespace ps::coordinator
