#include "provisioner/strategies/forecast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tests/provisioner/strategies/trace_counts.h"

namespace ps::provisioner {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

std::vector<double> PredictOnce(std::string_view name, std::vector<uint32_t> history) {
  return MakePredictor(name, 12, {})->Predict(history, 4);
}

TEST(ForecastTest, ArimaGoesOnWithARamp) {
  const std::vector<double> ramp = {1, 2, 3, 4, 5, 6};
  const std::vector<double> forecast = ForecastArima(ramp, 3);
  EXPECT_NEAR(forecast[0], 7, 1e-3);
  EXPECT_NEAR(forecast[2], 9, 1e-3);
  // Changes that alternate: the next one is the other way.
  const std::vector<double> teeth = {5, 7, 5, 7, 5, 7, 5};
  EXPECT_GT(ForecastArima(teeth, 1)[0], 6);
}

TEST(ForecastTest, ParcaesRulesFlattenClampAndDampen) {
  EXPECT_THAT(PredictOnce("parcae-arima", {20, 20}), Each(20)) << "too little to look back on";
  const std::vector<uint32_t> spike = {20, 20, 20, 20, 20, 20, 26, 26, 20, 20, 20, 20, 20};
  EXPECT_THAT(PredictOnce("parcae-arima", spike), Each(20)) << "a spike is noise";
  const std::vector<uint32_t> rise = {9, 9, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30};
  for (const double count : PredictOnce("parcae-arima", rise)) {
    EXPECT_LE(count, 32);
    EXPECT_GE(count, 30);
  }
}

TEST(ForecastTest, AllPredictorsHoldACountThatNeverChanges) {
  for (const std::string_view name : PredictorNames()) {
    EXPECT_THAT(PredictOnce(name, std::vector<uint32_t>(40, 16)), Each(16)) << name;
    EXPECT_THAT(PredictOnce(name, {16}), Each(16)) << name;
    EXPECT_THAT(PredictOnce(name, {0}), Each(0)) << name;
  }
  EXPECT_EQ(MakePredictor("oracle", 12, {}), nullptr);
}

/// Machines come by the dozen and go by the dozen, between none and 16.
TEST(ForecastTest, NoForecastLeavesWhatThereCanBe) {
  std::vector<uint32_t> history;
  for (uint32_t i = 0; i < 400; ++i) {
    const uint32_t phase = i % 40;
    history.push_back(phase < 16 ? phase : phase < 20 ? 16 : phase < 36 ? 36 - phase : 0);
  }
  for (const std::string_view name : PredictorNames()) {
    const auto predictor = MakePredictor(name, 12, {.low = 0, .high = 16});
    for (size_t now = 1; now <= history.size(); ++now) {
      for (const double count : predictor->Predict(std::span(history).first(now), 30)) {
        ASSERT_GE(count, 0) << name << " at " << now;
        ASSERT_FALSE(std::signbit(count)) << name << " at " << now << ": it prints -0";
        ASSERT_LE(count, 16) << name << " at " << now;
      }
    }
  }
}

TEST(ForecastTest, SurvivalKnowsThatYoungMachinesGoFirst) {
  // One machine comes and lives three intervals, again and again, beside ten that stay.
  std::vector<uint32_t> history;
  for (int i = 0; i < 30; ++i) {
    history.insert(history.end(), {11, 11, 11, 10, 10, 10});
  }
  history.insert(history.end(), {11, 11, 11});
  const std::vector<double> young = PredictOnce("survival", history);
  EXPECT_LT(young[0], 10.6) << "the young one goes";
  EXPECT_GT(young[0], 9);
}

/// Means over all intervals of the window, as Parcae's Fig. 5a; its own predictor does no better
/// than to take the current count, on the trace it was made for.
TEST(ForecastTest, OnParcaesTraceNoChangeIsNotBeaten) {
  const std::vector<uint32_t> counts = MinutesOfP3();
  const std::map<size_t, std::pair<double, double>> expected = {
      {2, {0.68, 0.93}}, {6, {1.43, 1.73}}, {12, {2.31, 2.74}}};
  for (const auto& [horizon, errors] : expected) {
    const auto score = [&](std::string_view name) {
      const auto predictor = MakePredictor(name, std::max<size_t>(horizon, 10), {});
      const auto scores =
          ScorePredictor(predictor.get(), counts, {.horizons = {horizon}, .warm_up = 1});
      EXPECT_TRUE(scores.ok()) << scores.status();
      return scores.ok() ? (*scores)[0] : ForecastScore();
    };
    const ForecastScore current = score("current");
    const ForecastScore parcae = score("parcae-arima");
    EXPECT_LT(current.window_error, score("survival").window_error);
    EXPECT_LT(current.window_error, score("quantile").window_error);
    EXPECT_NEAR(current.window_error, errors.first, 0.04) << horizon;
    EXPECT_NEAR(parcae.window_error, errors.second, 0.04) << horizon;
    EXPECT_LT(current.window_error, parcae.window_error);
  }
}

TEST(ForecastTest, BandsHoldTheShareThatTheyPromise) {
  for (const std::string_view name : PredictorNames()) {
    const auto predictor = MakePredictor(name, 12, {});
    const auto scores = ScorePredictor(predictor.get(), MinutesOfP3(), {.horizons = {1, 6, 12}});
    ASSERT_TRUE(scores.ok()) << scores.status();
    for (const ForecastScore& score : *scores) {
      // A minute ahead many bands are a single count, and hold more.
      EXPECT_GE(score.band_coverage, 0.77) << name << " " << score.horizon;
      EXPECT_LE(score.band_coverage, score.horizon == 1 ? 0.9 : 0.83) << name;
      ASSERT_TRUE(score.next_band) << name;
      EXPECT_LE(score.next_band->low, score.next_band->high) << name;
      EXPECT_LE(score.next_band->high, 32U) << name;
    }
  }
}

/// Most minutes of these 89 hours change nothing, and a band of no width holds more than is asked.
TEST(ForecastTest, BandsOfATraceThatSeldomChangesHoldMoreThanTheyPromise) {
  const std::vector<uint32_t> counts = MinutesOfTrace("tests/data/bamboo/p2_hours.csv", 3600);
  for (const std::string_view name : PredictorNames()) {
    const auto predictor = MakePredictor(name, 12, {});
    const auto scores =
        ScorePredictor(predictor.get(), counts, {.horizons = {1, 6, 12}, .stride = 16});
    ASSERT_TRUE(scores.ok()) << scores.status();
    for (const ForecastScore& score : *scores) {
      EXPECT_GE(score.band_coverage, 0.8) << name << " " << score.horizon;
      EXPECT_LT(score.band_width, 5) << name << " " << score.horizon;
    }
  }
}

TEST(ForecastTest, WhatCannotBeScoredIsSaid) {
  const auto predictor = MakePredictor("current", 12, {});
  const std::vector<uint32_t> counts(20, 1);
  const auto error = [&](const ScoreRequest& request) {
    const auto scores = ScorePredictor(predictor.get(), counts, request);
    return scores.ok() ? "" : std::string(scores.status().message());
  };
  EXPECT_THAT(error({.horizons = {12}}), HasSubstr("the trace has 20 intervals"));
  EXPECT_THAT(error({}), HasSubstr("horizons ascend"));
  EXPECT_THAT(error({.horizons = {0}}), HasSubstr("horizons ascend"));
  EXPECT_EQ(error({.horizons = {1, 4}}), "");
}

}  // namespace
}  // namespace ps::provisioner
