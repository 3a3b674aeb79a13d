#include "provisioner/model/curve_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "provisioner/model/listed_rate_loss.h"
#include "provisioner/model/profile_fit.h"
#include "provisioner/planner/fleet_judge.h"
#include "ps/base/random.h"
#include "tests/provisioner/planner/planning_samples.h"

namespace ps::provisioner {
namespace {

TEST(CurveModel, WhereCurvesDoNotTellOfBatchesSmallerOnesSaveNoSamples) {
  proto::CurveFit fit;
  fit.steps = 1000;
  fit.minibatch = 64;
  fit.fleets = {{1, 1}};
  const CurveLossModel model(fit);
  const auto steps = [&](double batch) {
    return model.StepsTo(0.5, {.workers = 1, .batch_mean = batch});
  };
  EXPECT_EQ(steps(64), steps(60));  // as good as the same
  EXPECT_EQ(steps(64), steps(256));
  EXPECT_GE(steps(16) * 16, steps(64) * 64 * 0.899);
  EXPECT_GT(steps(16), 3 * steps(64));
  for (double batch = 16; batch < 128; batch += 4) {
    EXPECT_GE(steps(batch), steps(batch + 4));
  }
}

using ::testing::HasSubstr;

/// Steps grow as f(n) = 1 + 0.12 (n - 1)^1.2.
proto::CurveFit Truth() {
  proto::CurveFit fit = {.steps = 70, .power = 0.8, .floor = 0.3, .minibatch = 32, .samples = 1};
  for (const int n : {1, 2, 3, 4, 6, 8, 12}) {
    fit.fleets.push_back({n, 1 + 0.12 * std::pow(n - 1, 1.2)});
  }
  return fit;
}

struct Run {
  int workers = 1;
  int steps = 800;
  double batch = 32;
  double noise = 0.02;  // of the loss above its floor
  double late = 1;
};

/// A curve as runs leave it: from step 50 on, points 2 % apart.
void Train(const CurveLossModel& truth, const Run& run, std::vector<proto::LossSample>* samples) {
  Random random(static_cast<uint64_t>(run.workers));
  const double spread = std::sqrt(1 - 1.0 / run.workers);
  for (double steps = 50; steps < run.steps; steps *= 1.02) {
    double low = truth.floor() + 1e-6;
    double high = 100;
    for (int i = 0; i < 60; ++i) {
      const double middle = (low + high) / 2;
      (truth.StepsTo(middle, {run.workers, run.batch, spread, run.late}) > steps ? low : high) =
          middle;
    }
    const double noise = run.noise * (2 * random.Unit() - 1);
    samples->push_back(
        {.steps = steps,
         .loss = low + noise * (low - truth.floor()),
         .batch_mean = run.batch,
         .heterogeneity = spread,
         .workers = run.workers,
         .late = run.late});
  }
}

double StepsTo(
    const CurveLossModel& model, double loss, int workers, double batch = 32, double late = 1) {
  return model.StepsTo(loss, {workers, batch, std::sqrt(1 - 1.0 / workers), late});
}

TEST(CurveModel, IsAPowerLawOfStalenessAndGoesOnBothWays) {
  proto::CurveFit fit = Truth();
  fit.fleets = {{4, 1.5}, {1, 1}, {8, 2.5}};  // any order; 11, 2 and 23 updates are missed
  const CurveLossModel model(fit);
  EXPECT_NEAR(model.Factor(0.7, 1, 1), 1, 1e-12);
  EXPECT_NEAR(model.Factor(0.7, 4, 1), 1.5, 1e-12);
  const double slope = std::log(1.5) / std::log(11.0 / 2);
  EXPECT_NEAR(model.Factor(0.7, 2, 1), std::pow(5.0 / 2, slope), 1e-9);
  EXPECT_NEAR(model.Factor(0.7, 3, 0), model.Factor(0.7, 2, 1), 1e-9) << "as stale";
  EXPECT_NEAR(model.Factor(0.7, 1, 0), std::pow(1.0 / 2, slope), 1e-9);
  const double slope_last = std::log(2.5 / 1.5) / std::log(23.0 / 11);
  EXPECT_NEAR(model.Factor(0.7, 16, 1), 2.5 * std::pow(47.0 / 23, slope_last), 1e-9);
  EXPECT_EQ(model.StepsTo(0.3, {1, 32, 0}), INFINITY);
}

TEST(CurveModel, WorkersBeyondTheListedOnesAreThoseInSlowMotion) {
  const auto whole = [] { return std::make_unique<CurveLossModel>(Truth()); };
  const ListedRateLossModel model(whole(), 4);
  const auto steps = [](const LossModel& some, int workers, double late) {
    return some.StepsTo(0.6, {.workers = workers, .batch_mean = 32, .late = late});
  };
  for (const double late : {0.0, 0.4, 1.0}) {
    for (const int workers : {1, 3, 4}) {
      EXPECT_DOUBLE_EQ(steps(model, workers, late), steps(*whole(), workers, late)) << workers;
    }
    for (const int workers : {5, 8, 100}) {
      EXPECT_NEAR(
          steps(model, workers, late), workers / 4.0 * steps(*whole(), 4, late), 1e-9 * workers);
    }
  }
  // Bounds hold, and are tight where the ranges are points.
  for (const int workers : {2, 4, 9}) {
    const FleetFamily wide = {
        .workers = workers, .batch_mean = {16, 64}, .heterogeneity = {0, 0}, .late = {0.2, 0.9}};
    const double least = model.StepsAtLeast(0.6, wide);
    for (const double late : {0.2, 0.5, 0.9}) {
      for (const double batch : {16.0, 32.0, 64.0}) {
        EXPECT_LE(
            least,
            model.StepsTo(0.6, {.workers = workers, .batch_mean = batch, .late = late}) *
                (1 + 1e-12));
      }
    }
    const FleetFamily point = {
        .workers = workers, .batch_mean = {32, 32}, .heterogeneity = {0, 0}, .late = {0.3, 0.3}};
    EXPECT_NEAR(model.StepsAtLeast(0.6, point) / steps(model, workers, 0.3), 1, 1e-12);
  }
  EXPECT_DOUBLE_EQ(
      model.ResidualAt(0.6, {.workers = 100, .batch_mean = 32}),
      whole()->ResidualAt(0.6, {.workers = 4, .batch_mean = 32}))
      << "fleets of four were measured";
  EXPECT_EQ(model.floor(), whole()->floor());
}

TEST(CurveModel, OfARunOnItsWayWhatIsLeftIsTheWholeLessWhatIsDone) {
  proto::CurveFit fit = Truth();
  fit.losses = {2, 1, 0.6};
  for (proto::FleetFactor& fleet : fit.fleets) {
    const double late = 0.02 * fleet.workers;
    fleet.by_loss = {1 + late, 1, 1 - late};  // as if workers cost most at first
  }
  const CurveLossModel whole(fit);
  const CurveLossModel left(fit, {.loss = 1.2});
  for (const int workers : {1, 4, 12}) {
    const FleetTraits fleet{.workers = workers, .batch_mean = 32};
    const double steps = whole.StepsTo(0.6, fleet) - whole.StepsTo(1.2, fleet);
    EXPECT_NEAR(left.StepsTo(0.6, fleet), steps, steps * 1e-9) << workers;
    EXPECT_LT(left.StepsTo(1.19, fleet), 0.05 * steps);
    EXPECT_EQ(left.StepsTo(1.2, fleet), 0);
    const CurveLossModel slow(fit, {.loss = 1.2, .pace = 1.5});
    EXPECT_NEAR(slow.StepsTo(0.6, fleet), 1.5 * steps, steps * 1e-9);
  }
}

TEST(CurveModel, DoubtOfWhatIsLeftIsThatOfTheWholeAndNeverEndless) {
  proto::CurveFit fit = Truth();
  fit.loss_min = 0.7;
  const FleetTraits fleet{.workers = 4, .batch_mean = 32};
  const double whole = CurveLossModel(fit).ResidualAt(0.5, fleet);
  const double near = CurveLossModel(fit, {.loss = 0.75}).ResidualAt(0.5, fleet);
  EXPECT_GT(near, whole) << "all that is not known is still to come";
  const double past = CurveLossModel(fit, {.loss = 0.5001}).ResidualAt(0.5, fleet);
  EXPECT_LT(past, 0.5);
}

TEST(RunPace, IsBelievedAsFarAsItIsMoreThanDoubt) {
  proto::CurveFit fit = Truth();
  const FleetTraits fleet{.workers = 4, .batch_mean = 32};
  for (const double residual : {0.01, 0.1, 1.0}) {
    fit.residual = residual;
    const CurveLossModel model(fit);
    const double steps = model.StepsTo(0.9, fleet);
    EXPECT_EQ(PaceOf(model, fleet, 0.9, steps).pace, 1);
    const MeasuredPace pace = PaceOf(model, fleet, 0.9, 1.5 * steps);
    EXPECT_NEAR(pace.ratio, 1.5, 1e-9);
    const double share = residual * residual / (residual * residual + 0.01);
    EXPECT_NEAR(pace.pace, std::pow(1.5, share), 1e-9);
  }
  EXPECT_EQ(PaceOf(CurveLossModel(fit), fleet, 0.9, 1e9).pace, 2) << "more is another job";
  EXPECT_EQ(PaceOf(CurveLossModel(fit), fleet, 0.1, 100).pace, 1) << "below the floor";
}

TEST(CurveModel, NeverFalls) {
  proto::CurveFit fit = Truth();
  fit.fleets = {{1, 2, 1, {1, 1, 2}}, {2, 1, 1, {1, 3, 1}}, {4, 3, 1, {0.5, 0.6, 0.7}}};
  fit.losses = {1, 0.7, 0.5};
  const CurveLossModel model(fit);
  for (const double loss : {1.2, 0.8, 0.7, 0.6, 0.4}) {
    for (int n = 1; n < 20; ++n) {
      EXPECT_GE(model.Factor(loss, n + 1, 1), model.Factor(loss, n, 1)) << n;
      EXPECT_GE(model.Factor(loss, n, 0.5), model.Factor(loss, n, 0)) << n;
      EXPECT_GE(model.Factor(loss, n, 1), model.Factor(loss, n, 0.5)) << n;
    }
  }
}

TEST(CurveModel, FleetsDifferFromTheEquationByLoss) {
  proto::CurveFit fit = Truth();
  fit.fleets = {{4, 1.5, 1, {0.8, 1.2}}, {1, 1, 1, {1, 1.1}}};
  fit.losses = {1, 0.6};
  const CurveLossModel model(fit);
  EXPECT_NEAR(model.Factor(1, 4, 1), 1.2, 1e-12);
  EXPECT_NEAR(model.Factor(0.6, 4, 1), 1.8, 1e-12);
  EXPECT_NEAR(model.Factor(0.8, 4, 1), std::sqrt(1.2 * 1.8), 1e-12) << "between the two";
  EXPECT_EQ(model.Factor(2, 4, 1), model.Factor(1, 4, 1)) << "beyond them, the nearest";
  EXPECT_EQ(model.Factor(0.4, 4, 1), model.Factor(0.6, 4, 1));
  EXPECT_NEAR(model.StepsTo(0.6, {4}), 1.8 * 70 * std::pow(0.3, -0.8), 1e-6);
}

TEST(CurveModel, DoubtGrowsBeyondTheFleetsAndLossesThatWereMeasured) {
  proto::CurveFit fit = Truth();
  fit.residual = 0.04;
  fit.loss_min = 0.6;
  const CurveLossModel model(fit);
  EXPECT_EQ(model.ResidualAt(0.7, {1}), 0.04);
  EXPECT_EQ(model.ResidualAt(0.6, {12}), 0.04);
  EXPECT_GT(model.ResidualAt(0.7, {24}), 0.15);
  EXPECT_GT(model.ResidualAt(0.7, {48}), model.ResidualAt(0.7, {24}));
  EXPECT_GT(model.ResidualAt(0.4, {2}), 0.1);
  fit.fleets = {{1, 1}};
  EXPECT_GT(CurveLossModel(fit).ResidualAt(0.7, {2}), 0.15) << "one size tells nothing of others";
}

TEST(CurveModel, DoubtMakesGoalsHarderNeverEasier) {
  PlanningSample sample = RandomSample(1, {.has_curves = true});
  sample.problem.goal.loss = 1.2;  // as deep as the curves at least
  sample.problem.measured = {4, 2};
  sample.problem.goal.confidence = 0.9;
  const FleetJudge sure(sample.problem);
  EXPECT_EQ(sure.QuantileFactor({4}, 2), sure.quantile_factor());
  EXPECT_GT(sure.QuantileFactor({8}, 2), 1.15 * sure.quantile_factor());
  EXPECT_GT(sure.QuantileFactor({4}, 4), 1.05 * sure.quantile_factor());
  sample.problem.goal.confidence = 0.3;
  const FleetJudge bold(sample.problem);
  EXPECT_EQ(bold.QuantileFactor({8}, 4), bold.quantile_factor());
}

TEST(FitCurves, PredictsFleetsThatItHasNotSeenAndLossesToo) {
  const CurveLossModel truth(Truth());
  std::vector<proto::LossSample> samples;
  for (const int n : {4, 1, 8, 2}) {
    Train(truth, {.workers = n}, &samples);
  }
  const Result<proto::CurveFit> fit = FitCurves(samples);
  ASSERT_TRUE(fit.ok()) << fit.status();
  const CurveLossModel model(*fit);
  for (const int n : {1, 2, 3, 4, 6, 8}) {
    for (const double loss : {0.8, 0.6, 0.5}) {
      const double expected = StepsTo(truth, loss, n);
      EXPECT_NEAR(StepsTo(model, loss, n), expected, 0.05 * expected) << n << " to " << loss;
    }
  }
  EXPECT_LT(fit->residual, 0.06);
  EXPECT_EQ(fit->batch_power, 0);
}

TEST(FitCurves, LearnsWhatLateExchangesCostAndWhatLiesBetween) {
  proto::CurveFit shape = Truth();
  shape.fleets = {{1, 0.7, 0}, {1, 1, 1}, {2, 1.1, 0}, {4, 1.4, 0}, {4, 1.8, 1}, {8, 2.5, 1}};
  const CurveLossModel truth(shape);
  std::vector<proto::LossSample> samples;
  for (const proto::FleetFactor& fleet : shape.fleets) {
    Train(truth, {.workers = fleet.workers, .late = fleet.late}, &samples);
  }
  const Result<proto::CurveFit> fit = FitCurves(samples);
  ASSERT_TRUE(fit.ok()) << fit.status();
  const CurveLossModel model(*fit);
  for (const int n : {1, 2, 3, 4, 6, 8}) {
    for (const double late : {0.0, 0.3, 1.0}) {
      const double expected = StepsTo(truth, 0.6, n, 32, late);
      EXPECT_NEAR(StepsTo(model, 0.6, n, 32, late), expected, 0.05 * expected)
          << n << " workers, late " << late;
    }
  }
}

TEST(FitCurves, FollowsCurvesWhereTheyAllDepartFromTheEquation) {
  const CurveLossModel truth(Truth());
  std::vector<proto::LossSample> samples;
  for (const int n : {1, 2, 4, 8}) {
    Train(truth, {.workers = n, .noise = 0}, &samples);
  }
  // A plateau: every fleet stays at 0.8 for a third longer than it took to get there.
  const auto late = [](double steps, double at) { return steps < at ? steps : steps + at / 3; };
  for (proto::LossSample& sample : samples) {
    sample.steps = late(sample.steps, StepsTo(truth, 0.8, sample.workers));
  }
  const Result<proto::CurveFit> fit = FitCurves(samples);
  ASSERT_TRUE(fit.ok()) << fit.status();
  const CurveLossModel model(*fit);
  proto::CurveFit bare = *fit;
  bare.losses.clear();
  const CurveLossModel equation(bare);
  double error = 0;
  double equation_error = 0;
  for (const double loss : {1.0, 0.9, 0.7, 0.6, 0.5}) {
    for (const int n : {1, 2, 3, 4, 6, 8}) {
      const double steps = StepsTo(truth, loss, n);
      const double expected = late(steps, StepsTo(truth, 0.8, n));
      error += std::abs(std::log(StepsTo(model, loss, n) / expected));
      equation_error += std::abs(std::log(StepsTo(equation, loss, n) / expected));
    }
  }
  EXPECT_LT(error, 0.5 * equation_error);
  EXPECT_LT(error / 30, 0.05);
}

TEST(FitCurves, SeveralRunsOfOneFleetAndWildPointsDoNotMoveIt) {
  const CurveLossModel truth(Truth());
  std::vector<proto::LossSample> samples;
  for (const int n : {1, 1, 2, 4, 4}) {
    Train(truth, {.workers = n}, &samples);
    samples.back().loss = 0.31;
  }
  const Result<proto::CurveFit> fit = FitCurves(samples);
  ASSERT_TRUE(fit.ok()) << fit.status();
  ASSERT_EQ(fit->fleets.size(), 3U);
  const CurveLossModel model(*fit);
  EXPECT_NEAR(StepsTo(model, 0.7, 3), StepsTo(truth, 0.7, 3), 0.05 * StepsTo(truth, 0.7, 3));
}

TEST(FitCurves, EachRunOfAFleetCountsAsMuchAsTheOthers) {
  const CurveLossModel truth(Truth());
  std::vector<proto::LossSample> samples;
  for (const int n : {1, 2, 4, 8}) {
    Train(truth, {.workers = n, .noise = 0}, &samples);
  }
  std::vector<proto::LossSample> overshooting;
  Train(truth, {.workers = 4, .noise = 0}, &overshooting);
  for (proto::LossSample& sample : overshooting) {
    sample.steps *= sample.loss < 0.75 ? 1.3 : 1;
  }
  const double steps = StepsTo(truth, 0.6, 4);
  std::vector<double> predicted;
  for (const double share : {0.5, 2.0 / 3, 3.0 / 4}) {
    samples.insert(samples.end(), overshooting.begin(), overshooting.end());
    const Result<proto::CurveFit> fit = FitCurves(samples);
    ASSERT_TRUE(fit.ok()) << fit.status();
    predicted.push_back(StepsTo(CurveLossModel(*fit), 0.6, 4));
    EXPECT_NEAR(std::log(predicted.back() / steps), share * std::log(1.3), 0.03) << share;
  }
  EXPECT_TRUE(std::ranges::is_sorted(predicted));
}

TEST(FitCurves, ACurveThatOvershootsCountsByItsFirstArrivals) {
  const CurveLossModel truth(Truth());
  std::vector<proto::LossSample> samples;
  Train(truth, {.workers = 1, .noise = 0}, &samples);
  Train(truth, {.workers = 4, .noise = 0}, &samples);
  std::vector<proto::LossSample> bumped = samples;
  for (proto::LossSample& sample : bumped) {
    if (sample.steps > 200 && sample.steps < 300) {
      sample.loss += 0.5;
    }
  }
  const Result<proto::CurveFit> fit = FitCurves(bumped);
  ASSERT_TRUE(fit.ok()) << fit.status();
  const double expected = StepsTo(truth, 0.6, 4);
  EXPECT_NEAR(StepsTo(CurveLossModel(*fit), 0.6, 4), expected, 0.05 * expected);
}

TEST(FitCurves, LeavesOutWhatIsTooShortOrDoesNotFall) {
  const CurveLossModel truth(Truth());
  std::vector<proto::LossSample> samples;
  Train(truth, {.workers = 2, .steps = 70}, &samples);
  const Result<proto::CurveFit> few = FitCurves(samples);
  ASSERT_FALSE(few.ok());
  EXPECT_THAT(std::string(few.status().message()), HasSubstr("20 points"));
  for (int i = 0; i < 100; ++i) {
    samples.push_back({.steps = 50.0 + i, .loss = 2 + 0.01 * i, .batch_mean = 32, .workers = 8});
  }
  EXPECT_FALSE(FitCurves(samples).ok());
  Train(truth, {.workers = 1}, &samples);
  const Result<proto::CurveFit> one = FitCurves(samples);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->fleets.size(), 1U);
}

TEST(FitCurves, SizesThatContradictEachOtherShareTheirMean) {
  proto::CurveFit odd = Truth();
  std::vector<proto::LossSample> samples;
  for (const auto& [workers, factor] : {std::pair(1, 1.0), {2, 1.6}, {4, 1.4}, {8, 2.0}}) {
    odd.fleets = {{1, factor}, {8, factor}};
    Train(CurveLossModel(odd), {.workers = workers}, &samples);
  }
  const Result<proto::CurveFit> fit = FitCurves(samples);
  ASSERT_TRUE(fit.ok()) << fit.status();
  ASSERT_EQ(fit->fleets.size(), 4U);
  EXPECT_EQ(fit->fleets[1].factor, fit->fleets[2].factor);
  EXPECT_NEAR(fit->fleets[1].factor, 1.5, 0.05);
  EXPECT_NEAR(fit->fleets[3].factor, 2.0, 0.06);
}

TEST(FitCurves, LearnsWhatLargerBatchesSaveOnlyFromCurvesThatDiffer) {
  proto::CurveFit shape = Truth();
  shape.batch_power = 0.6;
  const CurveLossModel truth(shape);
  std::vector<proto::LossSample> samples;
  for (const auto& [workers, batch] : {std::pair(1, 32.0), {1, 64.0}, {2, 32.0}, {4, 128.0}}) {
    Train(truth, {.workers = workers, .batch = batch}, &samples);
  }
  const Result<proto::CurveFit> fit = FitCurves(samples);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_NEAR(fit->batch_power, 0.6, 0.06);
  const double expected = StepsTo(truth, 0.6, 2, 64);
  EXPECT_NEAR(StepsTo(CurveLossModel(*fit), 0.6, 2, 64), expected, 0.07 * expected);
}

}  // namespace
}  // namespace ps::provisioner
