#include "provisioner/model/prediction_interval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <span>
#include <string>
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
// queue was fitted to, in three runs each; four fleets for each of three links.
constexpr Measured kWithoutOverlap[] = {
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
constexpr double kWithoutOverlapResidual = 0.066;

// The same with overlap: predicted over measured, less 1, of 3 to 6 workers on each link.
constexpr double kWithOverlap[3][4] = {
    {0.006, -0.003, -0.013, -0.012},
    {-0.003, -0.002, -0.003, -0.014},
    {0.012, 0.002, 0.007, -0.004}};
constexpr double kWithOverlapResidual = 0.021;

enum class Reach : unsigned char { kWithin, kMoreWorkers, kMoreServers };

/// A fleet that a model was asked for and not fitted to.
struct Prediction {
  std::string series;
  Reach reach;
  double error = 0;     // |log(measured / predicted)|
  double residual = 0;  // stated for it
};

Prediction PredictionOf(
    const std::string& series,
    double predicted,
    double measured,
    double residual,
    const FleetSize& size,
    const FleetSize& fitted) {
  const Reach reach = size.server_hosts > fitted.server_hosts ? Reach::kMoreServers
                      : size.workers > fitted.workers         ? Reach::kMoreWorkers
                                                              : Reach::kWithin;
  return {
      series,
      reach,
      std::abs(std::log(measured / predicted)),
      SpeedResidualAt(residual, size, fitted)};
}

/// The queue fitted to fleets of a published series: seconds of computing and of a transfer, and
/// the share of waiting.
class Fitted {
 public:
  explicit Fitted(const std::map<int, double>& steps_per_s) {
    const double step_s = steps_per_s.begin()->first / steps_per_s.begin()->second;
    const ResidualFunction residuals = [&](std::span<const double> p, std::span<double> out) {
      size_t i = 0;
      for (const auto& [workers, measured] : steps_per_s) {
        out[i++] = SoftResidual(std::log(Rate(p, workers, 1) / measured) / 0.02, 1);
      }
      out[i++] = p[2] / 2;
      out[i++] = p[1] - std::log(0.1 * step_s);
    };
    parameters_ = MinimiseSquares(
                      residuals,
                      steps_per_s.size() + 2,
                      {std::log(0.85 * step_s), std::log(0.1 * step_s), 0},
                      80)
                      .parameters;
    // As FitQueue states it: for each coefficient a fleet with the expected error in addition.
    constexpr double kExpected = 0.05;
    double squares = static_cast<double>(parameters_.size()) * kExpected * kExpected;
    for (const auto& [workers, measured] : steps_per_s) {
      squares += std::pow(std::log(RateOf(workers, 1) / measured), 2);
    }
    residual_ = std::sqrt(squares / static_cast<double>(steps_per_s.size()));
  }

  /// `times`: servers, as a multiple of the series'.
  double RateOf(int workers, int times) const { return Rate(parameters_, workers, times); }

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

/// Fitted to the fleets of up to 2, 3, ... workers, and asked for all larger ones; and fitted to
/// all but one, and asked for that.
void AddSizes(const ScalingSeries& series, std::vector<Prediction>* predictions) {
  const std::string name = series.source + " " + series.device + " " + series.model;
  const auto add = [&](const std::map<int, double>& known, int workers, double measured) {
    const Fitted fit(known);
    predictions->push_back(PredictionOf(
        name,
        fit.RateOf(workers, 1),
        measured,
        fit.residual(),
        {workers, series.servers},
        {known.rbegin()->first, series.servers}));
  };
  std::map<int, double> smaller;
  for (const auto& [next, measured_next] : series.steps_per_s) {
    for (const auto& [workers, measured] : series.steps_per_s) {
      if (smaller.size() >= 2 && workers >= next) {
        add(smaller, workers, measured);
      }
    }
    smaller.emplace(next, measured_next);
    std::map<int, double> others = series.steps_per_s;
    others.erase(next);
    add(others, next, measured_next);
  }
}

/// Fitted to all fleets of one server, and asked for those of two.
void AddServers(
    const ScalingSeries& one, const ScalingSeries& two, std::vector<Prediction>* predictions) {
  const Fitted fit(one.steps_per_s);
  for (const auto& [workers, measured] : two.steps_per_s) {
    predictions->push_back(PredictionOf(
        one.source + " " + one.device + " " + one.model,
        fit.RateOf(workers, 2),
        measured,
        fit.residual(),
        {workers, 2},
        {one.steps_per_s.rbegin()->first, 1}));
  }
}

void AddOurs(std::vector<Prediction>* predictions) {
  for (size_t i = 0; i < std::size(kWithoutOverlap); ++i) {
    const Measured& fleet = kWithoutOverlap[i];
    for (const double measured : fleet.measured) {
      predictions->push_back(PredictionOf(
          "without overlap, link " + std::to_string(i / 4),
          fleet.predicted,
          measured,
          kWithoutOverlapResidual,
          {fleet.workers, 1},
          {2, 1}));
    }
  }
  for (size_t link = 0; link < std::size(kWithOverlap); ++link) {
    for (int workers = 3; workers <= 6; ++workers) {
      predictions->push_back(PredictionOf(
          "with overlap, link " + std::to_string(link),
          1 + kWithOverlap[link][workers - 3],
          1,
          kWithOverlapResidual,
          {workers, 1},
          {2, 1}));
    }
  }
}

std::vector<Prediction> AllPredictions() {
  const Result<std::vector<ScalingSeries>> all = LoadScalingSeries("tests/data/ps_scaling");
  EXPECT_TRUE(all.ok()) << all.status();
  std::vector<Prediction> predictions;
  for (const ScalingSeries& series : all.ok() ? *all : std::vector<ScalingSeries>{}) {
    AddSizes(series, &predictions);
    ScalingSeries two = series;
    two.servers = 2;
    const auto found = std::ranges::find(*all, two.Name(), &ScalingSeries::Name);
    if (series.servers == 1 && found != all->end()) {
      AddServers(series, *found, &predictions);
    }
  }
  AddOurs(&predictions);
  return predictions;
}

/// Errors over what was stated, ascending, of the predictions of all series but one.
std::vector<double> ErrorsWithout(
    const std::vector<Prediction>& predictions, const std::string& series) {
  std::vector<double> errors;
  for (const Prediction& one : predictions) {
    if (one.series != series) {
      errors.push_back(one.error / one.residual);
    }
  }
  std::ranges::sort(errors);
  return errors;
}

/// As split conformal prediction takes it: the ceil((n + 1) inside)th of n.
double ConformalQuantile(const std::vector<double>& errors, double inside) {
  const auto count = static_cast<double>(errors.size());
  const double place = std::min(std::ceil(inside * (count + 1)), count);
  return errors[static_cast<size_t>(place) - 1];
}

TEST(PredictionIntervalTest, QuantilesAreThoseOfAllPredictionsOfMeasuredFleets) {
  const std::vector<double> errors = ErrorsWithout(AllPredictions(), "");
  ASSERT_EQ(errors.size(), 530U);
  for (const double inside :
       {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99}) {
    EXPECT_NEAR(ErrorQuantile((1 + inside) / 2), ConformalQuantile(errors, inside), 0.001)
        << inside;
  }
  EXPECT_NEAR(ErrorQuantile(0.9999), errors.back(), 0.001) << "too few are known for more";
}

/// Each series (a model of a job on a device, or a link) by the quantiles of the others' errors:
/// neighbouring fleets tell of each other, so they are left out together. Of 80 % it is 88 % within
/// the measured sizes, where few fleets state a larger residual than they show, 77 % of larger ones
/// and 78 % of more servers: the parts are small and of few series, so 3 points are asked of all.
TEST(PredictionIntervalTest, IntervalsHoldWhatTheyPromiseOfSeriesThatWereLeftOut) {
  const std::vector<Prediction> predictions = AllPredictions();
  std::map<std::string, std::vector<double>> others;
  for (const Prediction& one : predictions) {
    others.try_emplace(one.series, ErrorsWithout(predictions, one.series));
  }
  EXPECT_EQ(others.size(), 16U);
  for (const double inside : {0.8, 0.9}) {
    std::map<Reach, int> held;
    std::map<Reach, int> all;
    for (const Prediction& one : predictions) {
      const double reach = ConformalQuantile(others.at(one.series), inside) * one.residual;
      held[one.reach] += one.error <= reach ? 1 : 0;
      ++all[one.reach];
    }
    double sum = 0;
    for (const auto& [reach, count] : all) {
      const double share = static_cast<double>(held[reach]) / count;
      sum += held[reach];
      EXPECT_GE(share, inside - 0.04) << "reach " << static_cast<int>(reach);
      EXPECT_LE(share, inside + 0.1) << "reach " << static_cast<int>(reach);
    }
    EXPECT_NEAR(sum / static_cast<double>(predictions.size()), inside, 0.03);
  }
}

TEST(PredictionIntervalTest, IntervalsThatDoNotWidenHoldTooLittleBeyondWhatWasMeasured) {
  int held = 0;
  int fleets = 0;
  for (const Measured& fleet : kWithoutOverlap) {
    const proto::Estimate interval = Interval(fleet.predicted, kWithoutOverlapResidual, 0.8);
    for (const double measured : fleet.measured) {
      held += measured >= interval.low && measured <= interval.high ? 1 : 0;
      ++fleets;
    }
  }
  EXPECT_LT(held, fleets / 2);
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
