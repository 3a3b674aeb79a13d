// Lines fitted to CM-DARE's measurements of steps and checkpoints.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "provisioner/claims/transient_laws.h"
#include "provisioner/model/least_squares.h"
#include "tests/provisioner/model/csv_data.h"

namespace ps::provisioner {
namespace {

using CsvRow = std::map<std::string, std::string>;
/// What the coefficients of a line are multiplied by.
using Features = std::function<std::vector<double>(const CsvRow&)>;

double Number(const CsvRow& row, const std::string& column) {
  return std::stod(row.at(column));
}

struct MeasuredTimes {
  std::vector<std::vector<double>> features;
  std::vector<double> seconds;
};

MeasuredTimes TimesOf(
    const std::vector<CsvRow>& rows, const std::string& column, const Features& features) {
  MeasuredTimes measured;
  for (const CsvRow& row : rows) {
    measured.features.push_back(features(row));
    measured.seconds.push_back(Number(row, column));
  }
  return measured;
}

double SecondsOn(std::span<const double> line, const std::vector<double>& features) {
  return std::inner_product(line.begin(), line.end(), features.begin(), 0.0);
}

std::vector<double> FitLine(const MeasuredTimes& measured) {
  const size_t count = measured.seconds.size();
  const auto residuals = [&](std::span<const double> line, std::span<double> out) {
    for (size_t i = 0; i < count; ++i) {
      out[i] = SecondsOn(line, measured.features[i]) - measured.seconds[i];
    }
  };
  const std::vector<double> start(measured.features.front().size(), 0.01);
  return MinimiseSquares(residuals, count, start, 100).parameters;
}

/// Mean of what a line is off, in percent of what was measured.
double PercentOff(std::span<const double> line, const MeasuredTimes& measured) {
  double sum = 0;
  for (size_t i = 0; i < measured.seconds.size(); ++i) {
    sum += std::abs(SecondsOn(line, measured.features[i]) / measured.seconds[i] - 1);
  }
  return 100 * sum / static_cast<double>(measured.seconds.size());
}

/// The same of lines that are fitted to all others each time.
double PercentOffLeftOut(const MeasuredTimes& measured) {
  double sum = 0;
  for (size_t i = 0; i < measured.seconds.size(); ++i) {
    const auto at = static_cast<std::ptrdiff_t>(i);
    MeasuredTimes others = measured;
    others.features.erase(others.features.begin() + at);
    others.seconds.erase(others.seconds.begin() + at);
    sum += PercentOff(FitLine(others), {{measured.features[i]}, {measured.seconds[i]}});
  }
  return sum / static_cast<double>(measured.seconds.size());
}

/// Share of the variance that a line explains.
double Explained(std::span<const double> line, const MeasuredTimes& measured) {
  const double mean = std::accumulate(measured.seconds.begin(), measured.seconds.end(), 0.0) /
                      static_cast<double>(measured.seconds.size());
  double off = 0;
  double all = 0;
  for (size_t i = 0; i < measured.seconds.size(); ++i) {
    off += std::pow(SecondsOn(line, measured.features[i]) - measured.seconds[i], 2);
    all += std::pow(measured.seconds[i] - mean, 2);
  }
  return 1 - off / all;
}

void ExpectLine(
    const std::vector<double>& line,
    const std::vector<double>& expected,
    const char* what,
    double off = 6e-6) {
  ASSERT_EQ(line.size(), expected.size()) << what;
  for (size_t i = 0; i < line.size(); ++i) {
    EXPECT_NEAR(line[i], expected[i], off) << what << " " << i;
  }
}

/// Operations, their square, tensors of the model: the tensors say more than the square.
TEST(CmDareTest, StepTimesOfTwentyModelsAreFitted) {
  const std::vector<CsvRow> rows = LoadCsv("tests/data/cmdare/step_times.csv");
  ASSERT_EQ(rows.size(), 20U);
  const Features linear = [](const CsvRow& row) {
    return std::vector<double>{1, Number(row, "gflops")};
  };
  const Features quadratic = [](const CsvRow& row) {
    const double gflops = Number(row, "gflops");
    return std::vector<double>{1, gflops, gflops * gflops};
  };
  const Features tensors = [](const CsvRow& row) {
    return std::vector<double>{1, Number(row, "gflops"), Number(row, "tensors")};
  };

  const struct {
    const char* device;
    const char* column;
    std::vector<double> linear;
    double linear_percent;
    std::vector<double> quadratic;
    double quadratic_percent;
    double tensors_percent;
    double left_out_percent;  // with tensors
  } devices[] = {
      {"K80",
       "k80_step_s",
       {0.178476, 0.060099},
       22.67,
       {0.098214, 0.093849, -0.00163},
       13.63,
       3.1,
       3.87},
      {"P100",
       "p100_step_s",
       {0.082478, 0.02043},
       26.28,
       {0.047606, 0.035093, -0.000708},
       16.44,
       6.3,
       7.48}};

  for (const auto& device : devices) {
    const MeasuredTimes by_operations = TimesOf(rows, device.column, linear);
    const std::vector<double> line = FitLine(by_operations);
    ExpectLine(line, device.linear, device.device);
    EXPECT_NEAR(PercentOff(line, by_operations), device.linear_percent, 0.01);

    const MeasuredTimes by_square = TimesOf(rows, device.column, quadratic);
    const std::vector<double> curve = FitLine(by_square);
    ExpectLine(curve, device.quadratic, device.device);
    EXPECT_NEAR(PercentOff(curve, by_square), device.quadratic_percent, 0.01);

    const MeasuredTimes by_tensors = TimesOf(rows, device.column, tensors);
    const StepTimeFit& fit = *StepTimeOf(device.device);
    ExpectLine(
        FitLine(by_tensors),
        {fit.constant_s, fit.s_per_gflop, fit.s_per_tensor},
        device.device,
        1e-5);
    double error = 0;
    for (const CsvRow& row : rows) {
      const double seconds = StepSecondsOf(fit, Number(row, "gflops"), Number(row, "tensors"));
      error += std::abs(seconds / Number(row, device.column) - 1) / 20;
    }
    EXPECT_NEAR(100 * error, device.tensors_percent, 0.1);
    EXPECT_NEAR(PercentOffLeftOut(by_tensors), device.left_out_percent, 0.01);
  }
  EXPECT_EQ(StepTimeOf("T4"), nullptr);
}

std::vector<double> SizeOf(const CsvRow& row) {
  return {1, Number(row, "Checkpoint Size (MB)")};
}

TEST(CmDareTest, CheckpointTimesFollowTheirSize) {
  EXPECT_NEAR(CheckpointSecondsOf(19.21), 4.14, 0.01);
  EXPECT_NEAR(CheckpointSecondsOf(40.41), 4.56, 0.01);
  EXPECT_NEAR(CheckpointSecondsOf(33.18), 4.42, 0.01);
  EXPECT_NEAR(CheckpointSecondsOf(117.61), 6.10, 0.01);
  const std::vector<CsvRow> rows = LoadCsv("tests/data/cmdare/checkpoint_runs.csv");
  ASSERT_EQ(rows.size(), 100U);
  const MeasuredTimes by_size = TimesOf(rows, "Duration", SizeOf);
  EXPECT_LT(PercentOff(std::vector<double>{3.7512, 0.020006}, by_size), 8);
  const std::vector<double> line = FitLine(by_size);
  ExpectLine(line, {3.651776, 0.019907}, "all");
  EXPECT_NEAR(PercentOff(line, by_size), 7.46, 0.01);

  // What the worker does itself, before it is sent: the size alone says little of it.
  const MeasuredTimes local = TimesOf(rows, "Local duration", SizeOf);
  const std::vector<double> local_line = FitLine(local);
  ExpectLine(local_line, {0.536972, 0.003427}, "local");
  EXPECT_NEAR(PercentOff(local_line, local), 35.73, 0.01);
  const MeasuredTimes by_files = TimesOf(rows, "Local duration", [](const CsvRow& row) {
    return std::vector<double>{1, Number(row, "Weight File Size"), Number(row, "Meta File Size")};
  });
  const std::vector<double> files_line = FitLine(by_files);
  ExpectLine(files_line, {0.062279, 0.000907, 0.185748}, "local by files");
  EXPECT_NEAR(PercentOff(files_line, by_files), 7.66, 0.01);
}

/// The published line is of the means of 16 models, of which four others were held out. Those of
/// the checkpoints that were published give it back within half a percent: they are not digit for
/// digit the means of the paper's own table (3.434, not 3.45 s for 19.21 MB).
TEST(CmDareTest, TheLineOfCheckpointTimesIsFittedToSixteenModels) {
  const std::map<std::string, double> held_out_s = {
      {"Custom ResNet 9", 3.45},
      {"Custom ResNet 10", 4.20},
      {"Shake small 32d", 4.18},
      {"Shake mid 32d", 5.65}};
  std::map<std::string, MeasuredTimes> models;
  for (const CsvRow& row : LoadCsv("tests/data/cmdare/checkpoint_runs.csv")) {
    MeasuredTimes& model = models[row.at("Model")];
    model.features = {SizeOf(row)};
    model.seconds.push_back(Number(row, "Duration"));
  }
  ASSERT_EQ(models.size(), 20U);
  MeasuredTimes fitted;
  double error_s = 0;
  for (const auto& [name, model] : models) {
    const std::vector<double>& size = model.features.front();
    const double seconds = std::accumulate(model.seconds.begin(), model.seconds.end(), 0.0) /
                           static_cast<double>(model.seconds.size());
    const auto published = held_out_s.find(name);
    if (published == held_out_s.end()) {
      fitted.features.push_back(size);
      fitted.seconds.push_back(seconds);
    } else {
      EXPECT_NEAR(seconds, published->second, 0.03) << name;
      error_s += std::abs(CheckpointSecondsOf(size[1]) - seconds) / 4;
    }
  }
  ASSERT_EQ(fitted.seconds.size(), 16U);
  EXPECT_NEAR(error_s, 0.434, 0.01) << "as published for models that were held out";
  const std::vector<double> line = FitLine(fitted);
  EXPECT_NEAR(line[0] / 3.7512, 1, 0.006);
  EXPECT_NEAR(line[1] / 0.020006, 1, 0.004);
  EXPECT_NEAR(Explained(line, fitted), 0.922, 0.005);
}

}  // namespace
}  // namespace ps::provisioner
