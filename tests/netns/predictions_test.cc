#include "tests/netns/predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/netns/loss_check.h"

namespace ps::netns {
namespace {

using ::testing::HasSubstr;

Comparison WithError(double error, double contention_share) {
  Comparison comparison;
  comparison.cell.workers.resize(2);
  comparison.measured_samples_per_s = 100;
  comparison.predicted.samples_per_s = 100 * (1 + error);
  comparison.contention_share = contention_share;
  return comparison;
}

/// One and two workers that compute 0.1 s and share a link on which a step's bytes take 0.1 s.
proto::JobProfile OverlappedProfile() {
  proto::JobProfile profile;
  profile.parameter_bytes = 1e6;
  profile.push_bytes = 1e6;
  profile.pull_bytes = 1e6;
  profile.overlap = 1;
  profile.workers = {{"step100", 32, 0.1, 0, 50, 0}};
  profile.fleets = {
      {{"step100"}, 1, 0, 10, 320, 10},
      {{"step100"}, 1, 10e6, 10, 320, 10},
      {{"step100", "step100"}, 1, 10e6, 10, 320, 10}};
  return profile;
}

TEST(NetnsPredictionsTest, OverlappedWorkersShareTheLinkAndNoMore) {
  const auto predictor = Predictor::Make(OverlappedProfile());
  ASSERT_TRUE(predictor.ok()) << predictor.status();
  Cell cell;
  cell.workers.resize(4);
  cell.server_mbit_per_s = 80 / kPayloadShare;
  EXPECT_NEAR(predictor->Predict(cell).steps_per_s, 10, 0.1);
  cell.server_mbit_per_s *= 8;
  EXPECT_NEAR(predictor->Predict(cell).steps_per_s, 40, 2);
}

TEST(NetnsPredictionsTest, TheSummaryHasTheMedianTheWorstAndTheContended) {
  const ErrorSummary summary =
      Summarise({WithError(0.02, 0.6), WithError(-0.05, 0.4), WithError(0.01, 0.5)});
  EXPECT_NEAR(summary.median, 0.02, 1e-12);
  EXPECT_NEAR(summary.max, 0.05, 1e-12);
  EXPECT_EQ(summary.cells, 3);
  EXPECT_EQ(summary.contended, 2);
  EXPECT_EQ(Summarise({}).cells, 0);
  EXPECT_THAT(RenderTable({WithError(-0.05, 0.4)}), HasSubstr("| -5.0 % |"));
}

TEST(NetnsPredictionsTest, ACurveIsReadBetweenItsPoints) {
  std::vector<proto::LossSample> curve(3);
  curve[0] = {.steps = 10, .loss = 2};
  curve[1] = {.steps = 20, .loss = 1};
  curve[2] = {.steps = 30, .loss = 0.5};
  EXPECT_NEAR(StepsOfCurve(curve, 1.5), 15, 1e-9);
  EXPECT_NEAR(StepsOfCurve(curve, 0.5), 30, 1e-9);
  EXPECT_EQ(StepsOfCurve(curve, 0.1), 0);
}

}  // namespace
}  // namespace ps::netns
