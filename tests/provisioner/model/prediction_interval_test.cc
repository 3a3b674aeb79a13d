#include "provisioner/model/prediction_interval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "provisioner/model/least_squares.h"
#include "provisioner/model/queue_model.h"
#include "tests/provisioner/model/scaling_series.h"

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
    const double residual = SpeedResidualAt(kResidual, {fleet.workers, 1}, {workers_measured, 1});
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

/// How many of the runs lie within an interval of 80 % that grows by `growth`.
int CountInside(std::span<const Measured> fleets, double growth) {
  int inside = 0;
  for (const Measured& fleet : fleets) {
    const double residual = kResidual * (1 + growth * std::log(fleet.workers / 2.0));
    const proto::Estimate interval = Interval(fleet.predicted, residual, 0.8);
    inside += static_cast<int>(std::ranges::count_if(fleet.measured, [&](double measured) {
      return measured >= interval.low && measured <= interval.high;
    }));
  }
  return inside;
}

TEST(PredictionIntervalTest, AGrowthChosenWithoutALinkHoldsThereLessOftenThanItSays) {
  constexpr size_t kFleetsOfALink = 4;
  constexpr int kRunsOfTheOthers = 24;
  int inside = 0;
  for (size_t link = 0; link < std::size(kLarger); link += kFleetsOfALink) {
    std::vector<Measured> others(std::begin(kLarger), std::end(kLarger));
    const auto left_out = others.begin() + static_cast<std::ptrdiff_t>(link);
    others.erase(left_out, left_out + kFleetsOfALink);
    double growth = 0;
    while (CountInside(others, growth) < 0.8 * kRunsOfTheOthers) {
      growth += 0.05;
    }
    EXPECT_GT(growth, 1.1);
    EXPECT_LT(growth, 2.4);
    inside += CountInside(std::span(kLarger).subspan(link, kFleetsOfALink), growth);
  }
  EXPECT_EQ(inside, 27);  // of 36
  EXPECT_EQ(CountInside(kLarger, 1.5), 29);
  EXPECT_NEAR(CoverageAt(0.8, 2), 29 / 36.0, 1e-9) << "1.5 is the factor in use";
}

/// A model fitted to a published series of one server, and what it is then told to predict.
class Fitted {
 public:
  explicit Fitted(const ScalingSeries& one) {
    const double step_s = one.steps_per_s.begin()->first / one.steps_per_s.begin()->second;
    const ResidualFunction residuals = [&](std::span<const double> p, std::span<double> out) {
      size_t i = 0;
      for (const auto& [workers, measured] : one.steps_per_s) {
        out[i++] = SoftResidual(std::log(Rate(p, workers, 1) / measured) / 0.02, 1);
      }
      out[i++] = p[2] / 2;
      out[i++] = p[1] - std::log(0.1 * step_s);
    };
    parameters_ = MinimiseSquares(
                      residuals,
                      one.steps_per_s.size() + 2,
                      {std::log(0.85 * step_s), std::log(0.1 * step_s), 0},
                      80)
                      .parameters;
    double squares = 0;
    for (const auto& [workers, measured] : one.steps_per_s) {
      squares += std::pow(std::log(RateOf(workers, 1) / measured), 2);
    }
    residual_ = std::max(
        std::sqrt(squares / static_cast<double>(one.steps_per_s.size() - parameters_.size())),
        0.02);
  }

  double RateOf(int workers, int hosts) const { return Rate(parameters_, workers, hosts); }

  double residual() const { return residual_; }

 private:
  static double Rate(std::span<const double> p, int workers, int hosts) {
    const WorkerClass worker = {.name = "w", .compute_s = std::exp(p[0]), .samples = 1};
    const double service_s = std::exp(p[1]);
    const JobTraffic traffic = {.push_bytes = service_s, .pull_bytes = service_s};
    const QueueSpeedModel model({worker}, traffic, {.wait_share = 1 / (1 + std::exp(-p[2]))});
    return model.Predict(std::vector<int>{workers}, {.hosts = hosts, .link_bytes_per_s = 1})
        .steps_per_s;
  }

  std::vector<double> parameters_;
  double residual_ = 0;
};

/// Which share of the published fleets with two servers lies within the intervals of models that
/// were fitted to the same workers and device with one.
double CoverageOfTwoServers(const std::vector<ScalingSeries>& series, int hosts_measured) {
  int inside = 0;
  int fleets = 0;
  for (const ScalingSeries& two : series) {
    ScalingSeries name = two;
    name.servers = 1;
    const auto one = std::ranges::find(series, name.Name(), &ScalingSeries::Name);
    if (two.servers != 2 || one == series.end()) {
      continue;
    }
    const Fitted fit(*one);
    for (const auto& [workers, measured] : two.steps_per_s) {
      const double residual =
          SpeedResidualAt(fit.residual(), {workers, 2}, {workers, hosts_measured});
      const proto::Estimate interval = Interval(fit.RateOf(workers, 2), residual, 0.8);
      inside += measured >= interval.low && measured <= interval.high ? 1 : 0;
      ++fleets;
    }
  }
  EXPECT_EQ(fleets, 46);
  return static_cast<double>(inside) / fleets;
}

TEST(PredictionIntervalTest, IntervalsOfMoreServersHoldAsOftenAsTheySay) {
  const Result<std::vector<ScalingSeries>> series = LoadScalingSeries("tests/data/ps_scaling");
  ASSERT_TRUE(series.ok()) << series.status();
  EXPECT_NEAR(CoverageOfTwoServers(*series, 1), 0.8, 0.05);
  EXPECT_LT(CoverageOfTwoServers(*series, 0), 0.1) << "as wide as those of one server";
}

TEST(PredictionIntervalTest, AResidualGrowsBeyondTheFleetsThatWereMeasured) {
  const FleetSize measured = {2, 2};
  EXPECT_EQ(SpeedResidualAt(0.05, {2, 2}, measured), 0.05);
  EXPECT_EQ(SpeedResidualAt(0.05, {1, 1}, {4, 2}), 0.05);
  EXPECT_EQ(SpeedResidualAt(0.05, {100, 100}, {}), 0.05) << "it is not known of which fleets it is";
  double last = 0.05;
  for (int workers = 3; workers < 20; ++workers) {
    const double residual = SpeedResidualAt(0.05, {workers, 2}, measured);
    EXPECT_GT(residual, last);
    last = residual;
  }
  last = 0.05;
  for (int hosts = 3; hosts < 20; ++hosts) {
    const double residual = SpeedResidualAt(0.05, {2, hosts}, measured);
    EXPECT_GT(residual, last);
    EXPECT_GT(SpeedResidualAt(0.05, {3, hosts}, measured), residual) << "both count";
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
