#include "tests/netns/predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

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

/// What the experiment measured without overlap, steps/s of the first 1 to 6 workers: the mean of
/// the long runs where there were some (docs/measurements/provisioner.md).
constexpr std::array<double, 3> kRates = {100, 200, 400};  // Mbit/s
constexpr std::array<std::array<double, 6>, 3> kMeasured = {
    {{2.31, 3.77, 5.60, 5.29, 4.92, 5.45},
     {3.75, 6.08, 9.01, 9.20, 9.78, 10.18},
     {5.44, 9.02, 13.42, 15.09, 16.96, 18.60}}};
constexpr std::array<double, 6> kStepMillis = {100, 140, 120, 170, 200, 150};

Cell MeasuredCell(size_t rate, size_t workers) {
  Cell cell;
  cell.server_mbit_per_s = kRates[rate];
  for (size_t i = 0; i < workers; ++i) {
    cell.workers.push_back({.step_ms = kStepMillis[i]});
  }
  return cell;
}

/// A profile of every worker alone, and the cells of one and two workers.
proto::JobProfile MeasuredProfile() {
  proto::JobProfile profile;
  profile.parameter_bytes = 2.14e6;
  profile.overlap = 0;
  for (const double step_ms : kStepMillis) {
    profile.workers.push_back(
        {WorkerSpec{.step_ms = step_ms}.type(), 32, step_ms / 1000, 0, 50, 0});
  }
  return profile;
}

void AddMeasured(size_t rate, size_t workers, proto::JobProfile* profile) {
  proto::FleetSample fleet;
  for (const WorkerSpec& worker : MeasuredCell(rate, workers).workers) {
    fleet.workers.push_back(worker.type());
  }
  fleet.server_bytes_per_s = PayloadBytesPerS(kRates[rate]);
  fleet.steps_per_s = kMeasured[rate][workers - 1];
  profile->fleets.push_back(fleet);
}

/// Errors for the fleets of three to five workers.
ErrorSummary ErrorsOf(const Predictor& predictor) {
  std::vector<Comparison> comparisons;
  for (size_t rate = 0; rate < kRates.size(); ++rate) {
    for (size_t workers = 3; workers <= 5; ++workers) {
      Comparison comparison;
      comparison.cell = MeasuredCell(rate, workers);
      comparison.measured_samples_per_s = 32 * kMeasured[rate][workers - 1];
      comparison.predicted = predictor.Predict(comparison.cell);
      comparisons.push_back(comparison);
    }
  }
  return Summarise(comparisons);
}

// Whether workers fall into step is the links' affair; one larger fleet tells most of it.
TEST(NetnsPredictionsTest, OneLargeFleetLowersTheErrorWithoutOverlapByAThird) {
  proto::JobProfile small = MeasuredProfile();
  for (size_t rate = 0; rate < kRates.size(); ++rate) {
    AddMeasured(rate, 1, &small);
    AddMeasured(rate, 2, &small);
  }
  const auto before = Predictor::Make(small);
  ASSERT_TRUE(before.ok()) << before.status();
  for (size_t rate = 0; rate < kRates.size(); ++rate) {
    proto::JobProfile larger = small;
    AddMeasured(rate, 6, &larger);
    const auto after = Predictor::Make(larger);
    ASSERT_TRUE(after.ok()) << after.status();
    EXPECT_LT(ErrorsOf(*after).median, 0.67 * ErrorsOf(*before).median) << kRates[rate];
    EXPECT_LT(ErrorsOf(*after).max, ErrorsOf(*before).max) << kRates[rate];
  }
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

TEST(LossComparison, TakesTheMedianOfItsRuns) {
  LossComparison comparison;
  comparison.measured_seconds = {30, 20, 90};
  comparison.steps_per_s = 10;
  comparison.curve_steps = 330;
  comparison.spotdnn_steps = 150;
  EXPECT_NEAR(comparison.CurveError(), 0.1, 1e-9);
  EXPECT_NEAR(comparison.SpotDnnError(), -0.5, 1e-9);
  EXPECT_THAT(RenderLosses({comparison}), HasSubstr("30.0, 20.0, 90.0 | 30.0"));
}

}  // namespace
}  // namespace ps::netns
