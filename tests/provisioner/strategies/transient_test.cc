// The laws of training on transient servers against what its authors measured.

#include "provisioner/strategies/transient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/model/least_squares.h"
#include "tests/provisioner/model/csv_data.h"

namespace ps::provisioner {
namespace {

/// Measured runs of 2, 4 and 8 K80 that lost workers: "Transient Servers", data of its Table 3.
TEST(TransientTest, WorkerSecondsAreConservedOverRevocations) {
  const struct {
    int workers;
    double seconds_alone;
    std::vector<double> revoked_at_s;
    double predicted_s;
    double measured_s;
  } runs[] = {
      {2, 7062, {4311}, 9813, 9651},
      {2, 7062, {1101}, 13022, 12979},
      {2, 7062, {264}, 13860, 13887},
      {2, 7062, {2486}, 11637, 11344},
      {4, 3513, {1178}, 4291, 4323},
      {4, 3513, {2913}, 3713, 3661},
      {4, 3513, {310}, 4581, 4565},
      {4, 3513, {3081, 3046}, 3963, 3963},
      {4, 3513, {455, 383}, 6607, 6505},
      {8, 1825, {1247}, 1908, 1901},
      {8, 1825, {132}, 2067, 2016},
      {8, 1825, {1387, 649}, 2094, 1958}};

  for (const auto& run : runs) {
    const double seconds = SecondsWithRevocations(run.workers, run.seconds_alone, run.revoked_at_s);
    EXPECT_NEAR(seconds, run.predicted_s, 1.5);
    EXPECT_NEAR(seconds / run.measured_s, 1, run.workers == 8 ? 0.07 : 0.03) << seconds;
  }
}

TEST(TransientTest, WorkersThatComeAndGoAddUp) {
  EXPECT_DOUBLE_EQ(SecondsWithRevocations(4, 100, std::vector<double>{500}), 100) << "too late";
  EXPECT_TRUE(std::isinf(SecondsWithRevocations(1, 100, std::vector<double>{50})));
  const double never = INFINITY;
  EXPECT_DOUBLE_EQ(
      SecondsToSteps(100, std::vector<WorkerSpan>{{0, 10, 2}, {20, never, 4}, {5, 10, 2}}), 37.5);
  EXPECT_TRUE(std::isinf(SecondsToSteps(1, std::vector<WorkerSpan>{})));
}

/// Eight K80 and a server, one worker revoked: the repository's own figure is 1.141368 USD.
TEST(TransientTest, CostIsUptimeTimesPrice) {
  std::vector<MachineUse> machines(7, {1901, 0.000071});
  machines.push_back({1705.658, 0.000071});
  machines.push_back({1901, 0.0000397});
  EXPECT_NEAR(UsdOf(machines), 1.14137, 1e-5);
}

/// 7.65 times as fast as one K80 on demand and 60 to 63 % cheaper; at two decimals of a dollar.
TEST(TransientTest, EightTransientWorkersAreSevenTimesAsFastForLess) {
  const double alone_s = 14081;
  const double alone_usd = alone_s * 0.00020083;
  EXPECT_NEAR(alone_usd, 2.828, 0.001);
  std::vector<MachineUse> machines(8, {1840, 0.000071});
  machines.push_back({1840, 0.0000397});
  EXPECT_NEAR(alone_s / 1840, 7.65, 0.01);
  EXPECT_NEAR(1 - UsdOf(machines) / alone_usd, 0.606, 0.003);
}

TEST(TransientTest, SpeedsOfWorkersAddUpUntilTheServerIsFull) {
  const double k80 = 4.545;
  for (const auto& [workers, measured] : std::map<int, double>{{2, 9.06}, {4, 18.2}, {8, 35.1}}) {
    const std::vector<double> speeds(static_cast<size_t>(workers), k80);
    EXPECT_NEAR(ClusterStepsPerSecond(speeds, 45) / measured, 1, 0.04) << workers;
  }
  EXPECT_DOUBLE_EQ(ClusterStepsPerSecond(std::vector<double>(4, 14.43), 41), 41);
}

/// Below seven tenths of the best speed that a series reaches. With fewer servers' room left, the
/// queue model is to be asked: tests/provisioner/model/contention_check_test.cc.
TEST(TransientTest, SpeedsOfTwelveSeriesAddUpBelowSaturation) {
  std::map<std::string, std::map<int, double>> series;
  for (const auto& row : LoadCsv("tests/data/ps_scaling/cmdare_cluster_speed.csv")) {
    series[row.at("gpu") + row.at("ps_count") + row.at("model")][std::stoi(row.at("workers"))] =
        std::stod(row.at("median_steps_per_s"));
  }
  ASSERT_EQ(series.size(), 12U);
  int checked = 0;
  int within = 0;
  for (const auto& [name, speeds] : series) {
    const double best =
        std::ranges::max_element(speeds, {}, [](const auto& at) { return at.second; })->second;
    for (const auto& [workers, speed] : speeds) {
      const std::vector<double> alone(static_cast<size_t>(workers), speeds.at(1));
      const double sum = ClusterStepsPerSecond(alone, INFINITY);
      if (workers > 1 && sum <= 0.7 * best) {
        ++checked;
        within += std::abs(sum / speed - 1) <= 0.05 ? 1 : 0;
        EXPECT_NEAR(sum / speed, 1, 0.12) << name << " " << workers;
      }
    }
  }
  EXPECT_GE(checked, 25);
  EXPECT_GE(within, checked * 3 / 4) << "of " << checked;
}

TEST(TransientTest, StepTimesOfTwentyModelsAreFitted) {
  const auto rows = LoadCsv("tests/data/cmdare/step_times.csv");
  ASSERT_EQ(rows.size(), 20U);

  const struct {
    const char* device;
    const char* column;
    double error;
  } devices[] = {{"K80", "k80_step_s", 0.031}, {"P100", "p100_step_s", 0.063}};

  for (const auto& device : devices) {
    const StepTimeFit& fit = *StepTimeOf(device.device);
    const auto residuals = [&](std::span<const double> c, std::span<double> out) {
      for (size_t i = 0; i < rows.size(); ++i) {
        const double seconds = StepSecondsOf(
            {c[0], c[1], c[2]}, std::stod(rows[i].at("gflops")), std::stod(rows[i].at("tensors")));
        out[i] = seconds - std::stod(rows[i].at(device.column));
      }
    };
    const std::vector<double> best =
        MinimiseSquares(residuals, 20, {0.1, 0.1, 0.001}, 100).parameters;
    EXPECT_NEAR(best[0], fit.constant_s, 1e-5);
    EXPECT_NEAR(best[1], fit.s_per_gflop, 1e-5);
    EXPECT_NEAR(best[2], fit.s_per_tensor, 1e-6);
    double error = 0;
    for (const auto& row : rows) {
      const double measured = std::stod(row.at(device.column));
      const double seconds =
          StepSecondsOf(fit, std::stod(row.at("gflops")), std::stod(row.at("tensors")));
      error += std::abs(seconds / measured - 1) / 20;
    }
    EXPECT_NEAR(error, device.error, 0.001) << device.device;
  }
  EXPECT_EQ(StepTimeOf("T4"), nullptr);
}

TEST(TransientTest, CheckpointTimesFollowTheirSize) {
  EXPECT_NEAR(CheckpointSecondsOf(19.21), 4.14, 0.01);
  EXPECT_NEAR(CheckpointSecondsOf(40.41), 4.56, 0.01);
  EXPECT_NEAR(CheckpointSecondsOf(33.18), 4.42, 0.01);
  EXPECT_NEAR(CheckpointSecondsOf(117.61), 6.10, 0.01);
  double error = 0;
  const auto rows = LoadCsv("tests/data/cmdare/checkpoint_runs.csv");
  ASSERT_GE(rows.size(), 99U);
  for (const auto& row : rows) {
    const double measured = std::stod(row.at("Duration"));
    error +=
        std::abs(CheckpointSecondsOf(std::stod(row.at("Checkpoint Size (MB)"))) / measured - 1);
  }
  EXPECT_LT(error / static_cast<double>(rows.size()), 0.08);
}

/// The published line is of the means of 16 models, of which four others were held out. Those of
/// the checkpoints that were published give it back within half a percent: they are not digit for
/// digit the means of the paper's own table (3.434, not 3.45 s for 19.21 MB).
TEST(TransientTest, TheLineOfCheckpointTimesIsFittedToSixteenModels) {
  struct Sum {
    double mb = 0;
    double seconds = 0;
    double checkpoints = 0;
  };

  std::map<std::string, Sum> models;
  for (const auto& row : LoadCsv("tests/data/cmdare/checkpoint_runs.csv")) {
    Sum& model = models[row.at("Model")];
    model.mb = std::stod(row.at("Checkpoint Size (MB)"));
    model.seconds += std::stod(row.at("Duration"));
    ++model.checkpoints;
  }
  ASSERT_EQ(models.size(), 20U);
  std::vector<std::pair<double, double>> fitted;    // MB, s
  std::vector<std::pair<double, double>> held_out;  // the same
  for (const auto& [name, sum] : models) {
    const bool is_held_out =
        name == "Custom ResNet 9" || name == "Custom ResNet 10" || name.ends_with("32d");
    (is_held_out ? held_out : fitted).emplace_back(sum.mb, sum.seconds / sum.checkpoints);
  }
  ASSERT_EQ(fitted.size(), 16U);
  const auto residuals = [&](std::span<const double> c, std::span<double> out) {
    for (size_t i = 0; i < fitted.size(); ++i) {
      out[i] = c[0] + c[1] * fitted[i].first - fitted[i].second;
    }
  };
  const std::vector<double> line =
      MinimiseSquares(residuals, fitted.size(), {1, 0.1}, 100).parameters;
  EXPECT_NEAR(line[0] / 3.7512, 1, 0.006);
  EXPECT_NEAR(line[1] / 0.020006, 1, 0.004);
  double error_s = 0;
  for (const auto& [mb, seconds] : held_out) {
    EXPECT_NEAR((line[0] + line[1] * mb) / CheckpointSecondsOf(mb), 1, 0.006) << mb;
    error_s += std::abs(CheckpointSecondsOf(mb) - seconds) / 4;
  }
  EXPECT_NEAR(error_s, 0.434, 0.01) << "as published for models that were held out";
}

/// ResNet-32 on 4 K80; "Transient Servers" measured 3513 s.
TEST(TransientTest, ARunIsTrainingCheckpointsAndReplacements) {
  ComposedRun run = {
      .steps = 64000,
      .worker_steps_per_s = {4.589, 4.589, 4.589, 4.589},
      .checkpoint_interval_steps = 4000,
      .checkpoint_s = CheckpointSecondsOf(15.99)};
  EXPECT_NEAR(ComposedSeconds(run), 3552, 0.5);
  run.revocations = 0.5;
  run.replacement_s = 86 + 78.7;
  EXPECT_NEAR(ComposedSeconds(run), 3552 + 82.35, 0.5);
  EXPECT_TRUE(std::isinf(ComposedSeconds(ComposedRun())));
}

}  // namespace
}  // namespace ps::provisioner
