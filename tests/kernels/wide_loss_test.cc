#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/on_device.h"
#include "tests/kernels/op_runner.h"

// Cross-entropy of many classes, as language models have: a device may cut rows into parts, by
// where they begin.

namespace ps::kernels::test {
namespace {

constexpr float kWideNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kWideInf = std::numeric_limits<float>::infinity();
constexpr float kLowest = std::numeric_limits<float>::lowest();

struct WideCase {
  int64_t n = 1;
  int64_t classes = 512;
  size_t z_begin = 0;  // floats from an aligned address
  size_t dz_begin = 0;
  float smoothing = 0;
  bool has_weights = false;
};

struct Outcome {
  LossResult result;
  std::vector<float> dz;
};

std::vector<uint32_t> LabelsOf(const WideCase& c) {
  std::vector<uint32_t> labels;
  for (int64_t row = 0; row < c.n; ++row) {
    // The first, the last, and some.
    labels.push_back(static_cast<uint32_t>(row == 1 ? c.classes - 1 : row * 577 % c.classes));
  }
  return labels;
}

std::vector<float> WeightsOf(const WideCase& c) {
  std::vector<float> weights;
  for (int64_t j = 0; j < c.classes && c.has_weights; ++j) {
    weights.push_back(0.25F * static_cast<float>(j % 5));
  }
  return weights;
}

/// The loss and its gradient; where they are in place of the outputs, too.
Outcome Compute(
    const WideCase& c, const std::vector<float>& z, const std::vector<uint32_t>& labels) {
  const auto stream = BackendUnderTest()->MakeStream().value();
  const OnDevice<float> logits(stream.get(), z, c.z_begin);
  const OnDevice<float> dz(stream.get(), std::vector<float>(z.size(), kWideNan), c.dz_begin);
  const OnDevice<uint32_t> device_labels(stream.get(), labels);
  const OnDevice<float> weights(stream.get(), WeightsOf(c));
  const OnDevice<LossResult> result(stream.get(), {{-1, -1, -1, -1, -1}});
  LossArgs args{
      .n = c.n,
      .classes = c.classes,
      .logits = logits.data(),
      .labels = device_labels.data(),
      .dz = dz.data(),
      .result = result.data(),
      .smoothing = c.smoothing,
      .class_weights = c.has_weights ? weights.data() : nullptr,
      .counts_near = true};
  stream->ComputeLoss(args);
  Outcome outcome{result.Values()[0], dz.Values()};
  args.dz = logits.data();
  stream->ComputeLoss(args);
  const std::vector<float> in_place = logits.Values();
  for (size_t i = 0; i < in_place.size(); ++i) {
    EXPECT_TRUE(in_place[i] == outcome.dz[i] || std::isnan(in_place[i])) << i;
    EXPECT_EQ(std::isnan(in_place[i]), std::isnan(outcome.dz[i])) << i;
  }
  EXPECT_EQ(result.Values()[0].correct, outcome.result.correct);
  EXPECT_EQ(result.Values()[0].near, outcome.result.near);
  return outcome;
}

void ExpectTheDefinition(const WideCase& c) {
  const std::vector<float> z = NormalValues(c.n * c.classes, 5);
  const std::vector<uint32_t> labels = LabelsOf(c);
  const std::vector<float> weights = WeightsOf(c);
  const Outcome found = Compute(c, z, labels);
  double loss = 0;
  int64_t correct = 0;
  int64_t near = 0;
  Values gradient;
  const auto classes = static_cast<size_t>(c.classes);
  for (size_t row = 0; row < labels.size(); ++row) {
    const float* of_row = z.data() + row * classes;
    double sum = 0;
    int64_t before = 0;
    double total = 0;
    const auto wanted = [&](size_t j) {
      const double weight = weights.empty() ? 1.0 : static_cast<double>(weights[j]);
      const double spread = static_cast<double>(c.smoothing) / static_cast<double>(c.classes);
      return weight * ((j == labels[row] ? 1 - static_cast<double>(c.smoothing) : 0.0) + spread);
    };
    for (size_t j = 0; j < classes; ++j) {
      sum += std::exp(static_cast<double>(of_row[j]));
      before += of_row[j] > of_row[labels[row]] ? 1 : 0;
      total += wanted(j);
    }
    for (size_t j = 0; j < classes; ++j) {
      const auto value = static_cast<double>(of_row[j]);
      loss -= wanted(j) * (value - std::log(sum));
      gradient.push_back(
          (total * std::exp(value) / sum - wanted(j)) / static_cast<double>(labels.size()));
    }
    correct += before == 0 ? 1 : 0;
    near += before < 5 ? 1 : 0;
  }
  const auto where = testing::Message() << c.n << " of " << c.classes << " from " << c.z_begin
                                        << " and " << c.dz_begin << ", " << c.smoothing;
  EXPECT_NEAR(found.result.loss_sum, loss, 1e-6 * (1 + loss)) << where;
  EXPECT_LE(NormalisedError(found.dz, gradient), 1e-11) << where;
  EXPECT_EQ(found.result.correct, correct) << where;
  EXPECT_EQ(found.result.near, near) << where;
}

TEST(WideLossTest, RowsOfAnyLengthFromAnyAddress) {
  for (const int64_t classes : {511, 512, 513, 514, 515, 2048, 2053, 4099}) {
    // Rows of an odd length begin anywhere.
    ExpectTheDefinition({.n = classes % 2 == 0 ? 1 : 4, .classes = classes});
    ExpectTheDefinition({.n = 1, .classes = classes, .z_begin = 2, .dz_begin = 2});
    ExpectTheDefinition({.n = 1, .classes = classes, .z_begin = 1, .dz_begin = 2});
  }
  ExpectTheDefinition({.n = 2, .classes = 50257});
}

TEST(WideLossTest, NoRowsAndMoreThanThereArePartsOfTheSum) {
  for (const int64_t n : {0, 1, 260}) {
    ExpectTheDefinition({.n = n, .classes = 513});
  }
}

TEST(WideLossTest, SmoothingAndWeightsOfClasses) {
  for (const float smoothing : {0.0F, 0.1F}) {
    for (const bool has_weights : {false, true}) {
      for (const int64_t classes : {515, 2053}) {
        ExpectTheDefinition(
            {.n = 3, .classes = classes, .smoothing = smoothing, .has_weights = has_weights});
      }
    }
  }
}

/// Columns that only fill up a row are minus infinity.
TEST(WideLossTest, OutputsOfMinusInfinityCountForNothing) {
  WideCase c{.n = 2, .classes = 600};
  std::vector<float> z = NormalValues(c.n * c.classes, 7);
  for (size_t row = 0; row < 2; ++row) {
    std::fill_n(z.begin() + static_cast<int64_t>(row) * 600, row == 0 ? 570 : 40, -kWideInf);
  }
  const Outcome found = Compute(c, z, {580, 599});
  EXPECT_TRUE(std::isfinite(found.result.loss_sum));
  for (size_t i = 0; i < z.size(); ++i) {
    EXPECT_EQ(found.dz[i] == 0, z[i] == -kWideInf) << i;
  }
  // The loss of a row is that of its other columns.
  double loss = 0;
  for (size_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (size_t j = 0; j < 600; ++j) {
      sum += std::exp(static_cast<double>(z[row * 600 + j]));
    }
    loss += std::log(sum) - static_cast<double>(z[row * 600 + (row == 0 ? 580 : 599)]);
  }
  EXPECT_NEAR(found.result.loss_sum, loss, 1e-6 * (1 + loss));
}

TEST(WideLossTest, FarOutputsDoNotOverflow) {
  const WideCase c{.n = 1, .classes = 1000};
  std::vector<float> z(1000, kLowest);
  z[777] = 3e38F;
  const Outcome far = Compute(c, z, {777});
  EXPECT_EQ(far.result.loss_sum, 0);
  EXPECT_EQ(far.result.correct, 1);
  std::ranges::fill(z, kLowest);  // all alike: the first is the largest
  const Outcome alike = Compute(c, z, {0});
  EXPECT_NEAR(alike.result.loss_sum, std::log(1000.0), 1e-6);
  EXPECT_EQ(alike.result.correct, 1);
  EXPECT_EQ(Compute(c, z, {4}).result.near, 1);
  EXPECT_EQ(Compute(c, z, {5}).result.near, 0);
}

TEST(WideLossTest, WhatIsNotANumberShowsAndIsNoHit) {
  const WideCase c{.n = 1, .classes = 700};
  const std::vector<float> plain = NormalValues(700, 9);
  for (const size_t at : {0U, 1U, 350U, 699U}) {
    for (const float value : {kWideNan, kWideInf}) {
      std::vector<float> z = plain;
      z[at] = value;
      for (const uint32_t label : {uint32_t{3}, static_cast<uint32_t>(at)}) {
        const Outcome found = Compute(c, z, {label});
        EXPECT_TRUE(std::isnan(found.result.loss_sum)) << at;
        EXPECT_TRUE(std::isnan(found.dz[at])) << at;
        if (std::isnan(value)) {  // the CPU takes infinity for a hit
          EXPECT_EQ(found.result.correct, 0) << at;
          EXPECT_EQ(found.result.near, 0) << at;
        }
      }
    }
  }
  const Outcome nothing = Compute(c, std::vector<float>(700, -kWideInf), {1});
  EXPECT_TRUE(std::isnan(nothing.result.loss_sum));
  EXPECT_TRUE(std::isnan(nothing.dz[0]));
}

TEST(WideLossTest, ARowWithoutALabelCountsForNothing) {
  const WideCase c{.n = 3, .classes = 777};
  std::vector<float> z = NormalValues(c.n * c.classes, 11);
  z[800] = kWideNan;
  const Outcome found = Compute(c, z, {5, kNoLabel, 6});
  EXPECT_TRUE(std::isfinite(found.result.loss_sum));
  for (size_t i = 777; i < 2 * 777; ++i) {
    EXPECT_EQ(found.dz[i], 0);
  }
  EXPECT_NE(found.dz[776], 0);
  EXPECT_NE(found.dz[2 * 777], 0);
}

}  // namespace
}  // namespace ps::kernels::test
