#include "provisioner/model/prediction_interval.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ps::provisioner {
namespace {

struct Measured {
  int workers;
  double predicted;  // steps/s
  double measured[3];
};

// docs/measurements/provisioner.md, without overlap: fleets larger than the two workers that the
// queue was fitted to, in three runs each.
constexpr Measured kLarger[] = {
    {3, 4.04, {5.58, 5.07, 4.58}},
    {4, 4.42, {5.23, 4.47, 5.49}},
    {5, 4.66, {5.06, 4.27, 5.44}},
    {6, 4.84, {5.26, 5.60, 5.48}},
    {3, 7.40, {8.57, 9.17, 9.30}},
    {4, 8.31, {9.34, 9.72, 10.01}},
    {5, 8.91, {9.08, 10.28, 9.60}},
    {6, 9.39, {8.98, 10.90, 10.67}},
    {3, 12.20, {13.38, 13.47, 13.40}},
    {4, 14.28, {14.97, 14.90, 15.40}},
    {5, 15.80, {16.97, 17.08, 16.84}},
    {6, 17.21, {18.64, 18.81, 18.34}}};
constexpr double kResidual = 0.066;

double CoverageAt(double confidence, int workers_measured) {
  int inside = 0;
  int runs = 0;
  for (const Measured& fleet : kLarger) {
    const double residual = SpeedResidualAt(kResidual, fleet.workers, workers_measured);
    const proto::Estimate interval = Interval(fleet.predicted, residual, confidence);
    for (const double measured : fleet.measured) {
      inside += measured >= interval.low && measured <= interval.high ? 1 : 0;
      ++runs;
    }
  }
  return static_cast<double>(inside) / runs;
}

TEST(PredictionIntervalTest, IntervalsOfLargerFleetsHoldAsOftenAsTheySay) {
  EXPECT_NEAR(CoverageAt(0.8, 2), 0.8, 0.05);
  EXPECT_LT(CoverageAt(0.8, 0), 0.5) << "as wide as those of the fleets that were measured";
}

TEST(PredictionIntervalTest, AResidualGrowsBeyondTheFleetsThatWereMeasured) {
  EXPECT_EQ(SpeedResidualAt(0.05, 2, 2), 0.05);
  EXPECT_EQ(SpeedResidualAt(0.05, 1, 4), 0.05);
  EXPECT_EQ(SpeedResidualAt(0.05, 100, 0), 0.05) << "it is not known of which fleets it is";
  double last = 0.05;
  for (int workers = 3; workers < 20; ++workers) {
    const double residual = SpeedResidualAt(0.05, workers, 2);
    EXPECT_GT(residual, last);
    last = residual;
  }
}

TEST(PredictionIntervalTest, EachEndHoldsAtItsOwnConfidence) {
  // Both ends of 80 % are one-sided bounds of 90 %.
  const proto::Estimate interval = Interval(100, 0.1, 0.8);
  EXPECT_NEAR(interval.high, UpperAt(100, 0.1, 0.9), 1e-9);
  EXPECT_NEAR(interval.low * interval.high, 100 * 100, 1e-6);
}

}  // namespace
}  // namespace ps::provisioner
