#include "psctl/traces/forecast_command.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "provisioner/strategies/forecast.h"
#include "ps/base/file.h"
#include "psctl/traces/replay_trace.h"
#include "tests/provisioner/strategies/trace_counts.h"
#include "tests/psctl/command_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using ForecastCommandTest = CommandFixture;

TEST_F(ForecastCommandTest, PredictorsAreComparedOnATrace) {
  ASSERT_EQ(Run({"forecast", "tests/data/parcae/p3.csv", "--horizon", "2,12"}), run::kExitOk)
      << err_;
  EXPECT_THAT(out_, HasSubstr("p3.csv: 683 intervals of 60 s, 24.03 machines in the mean"));
  EXPECT_THAT(out_, HasSubstr("predictor     in 2  in 12  band width  in band, %\n"));
  EXPECT_THAT(out_, HasSubstr("the best at 12: current, which has next: "));
  EXPECT_THAT(out_, ContainsRegex(R"(next: [0-9]+ \([0-9]+ to [0-9]+\) in 2, [0-9]+ \()"));
  ASSERT_EQ(Run({"forecast", "tests/data/parcae/p3.csv", "--json"}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr(R"("name": "parcae-arima")"));
}

TEST_F(ForecastCommandTest, WhereNoBandWasLearnedNoShareIsTold) {
  const std::string path = root_ / "short.csv";
  ASSERT_TRUE(WriteFileAtomically(path, "0,4\n600000,5\n1800000,4\n").ok());
  ASSERT_EQ(Run({"forecast", path, "--horizon", "12"}), run::kExitOk) << err_;
  EXPECT_THAT(out_, ContainsRegex("current +[0-9.]+ +- +-\n"));
  EXPECT_THAT(out_, ContainsRegex("which has next: [0-9]+ in 12\n"));
  ASSERT_EQ(Run({"forecast", path, "--horizon", "12", "--json"}), run::kExitOk) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("band_coverage")));
}

TEST_F(ForecastCommandTest, WhatIsWrongIsNamed) {
  const auto error = [&](const std::string& text, std::vector<std::string> more) {
    const std::string path = root_ / "t.csv";
    EXPECT_TRUE(WriteFileAtomically(path, text).ok());
    more.insert(more.begin(), {"forecast", path});
    EXPECT_EQ(Run(more), run::kExitMisused);
    return err_;
  };
  EXPECT_THAT(error("0,4\n60000,5\n", {}), HasSubstr("t.csv: the trace has 2 intervals"));
  EXPECT_THAT(error("0,4\n60000,-5\n", {}), HasSubstr("t.csv:2: expected a count"));
  EXPECT_THAT(error("60000,4\n0,5\n", {}), HasSubstr("t.csv:2: the time is before"));
  EXPECT_THAT(error("0,add,a\n0,add,a\n", {}), HasSubstr("node 'a' is there already"));
  EXPECT_THAT(error("0,4\n", {"--interval", "0.5s"}), HasSubstr("--interval wants"));
  EXPECT_THAT(error("0,4\n", {"--band", "1"}), HasSubstr("--band wants"));
  EXPECT_THAT(error("0,4\n", {"--horizon", "6,2"}), HasSubstr("--horizon wants"));
  EXPECT_THAT(error("0,4\n", {"--unit", "d"}), HasSubstr("--unit wants"));
  EXPECT_THAT(
      error("0,1\n999999999,2\n", {"--unit", "s", "--interval", "1s"}), HasSubstr("longer"));
  EXPECT_EQ(Run({"forecast", root_ / "none.csv"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("none.csv"));
}

/// Counts of a whole trace beside this tree's tests, by the minute or slower.
std::vector<uint32_t> CountsIn(const char* path, double unit_s, double interval_s) {
  const auto text = ReadFile(path);
  EXPECT_TRUE(text.ok()) << text.status();
  const auto trace = ParseTrace(text.ok() ? *text : "0,1\n", path, unit_s, GapRule::kHold);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return trace.ok() ? CountsOf(*trace, interval_s).value() : std::vector<uint32_t>{};
}

/// Within 3 points of what was asked for, on every trace here. Bands are whole machines, so that
/// some have to hold more: then those without their lowest, or their highest, count hold no more
/// than 3 points too much, and a randomised edge between the two holds what was asked for.
TEST(ForecastBandTraceTest, BandsHoldWhatTheyPromiseOnEveryTrace) {
  const struct {
    const char* path;
    double unit_s;
    double interval_s;
  } traces[] = {
      {"tests/data/parcae/p3.csv", 0.001, 60},
      {"tests/data/bamboo/g4dn_us-east-1c.csv", 1, 60},
      {"tests/data/bamboo/g4dn_us-east-1d.csv", 1, 60},
      {"tests/data/bamboo/p2_hours.csv", 3600, 60},
      {"tests/data/bamboo/p2_hours.csv", 3600, 600},
      {"tests/data/bamboo/a100_us-east1-b_whole.txt", 1, 60}};

  for (const auto& trace : traces) {
    const std::vector<uint32_t> counts = CountsIn(trace.path, trace.unit_s, trace.interval_s);
    const auto highest = static_cast<int>(std::ranges::max(counts));
    for (const std::string_view name : provisioner::PredictorNames()) {
      for (const double band : {0.8, 0.9}) {
        const auto predictor =
            provisioner::MakePredictor(name, 12, {.low = highest / 4, .high = highest});
        const auto scores = provisioner::ScorePredictor(
            predictor.get(),
            counts,
            {.horizons = {1, 6, 12}, .band = band, .stride = counts.size() / 2000 + 1});
        ASSERT_TRUE(scores.ok()) << scores.status();
        for (const provisioner::ForecastScore& score : *scores) {
          const std::string what = fmt::format(
              "{} by {:g} s, {}, {} ahead, {:g}",
              trace.path,
              trace.interval_s,
              name,
              score.horizon,
              band);
          EXPECT_GE(score.band_coverage, band - 0.03) << what;
          EXPECT_LE(score.coverage_without_low, band + 0.03) << what;
          EXPECT_LE(score.coverage_without_high, band + 0.03) << what;
        }
      }
    }
  }
}

TEST(ForecastCountsTest, AreThoseAtTheBeginOfEachInterval) {
  const AvailabilityTrace trace = {.steps = {{0, 2}, {60, 3}, {61, 5}, {130, 1}}, .end_s = 185};
  const auto counts = CountsOf(trace, 60);
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_THAT(*counts, ElementsAre(2, 3, 5, 1));
}

TEST(ForecastCountsTest, AreThoseThatTheTestsOfForecastsAndDeadlinesTake) {
  const std::pair<const char*, double> files[] = {
      {"tests/data/parcae/p3.csv", 0.001},
      {"tests/data/bamboo/g4dn_us-east-1c.csv", 1},
      {"tests/data/bamboo/p2_hours.csv", 3600}};
  for (const auto& [path, unit_s] : files) {
    const auto text = ReadFile(path);
    ASSERT_TRUE(text.ok()) << text.status();
    const auto trace = ParseTrace(*text, path, unit_s);
    ASSERT_TRUE(trace.ok()) << trace.status();
    EXPECT_EQ(CountsOf(*trace, 60).value(), provisioner::MinutesOfTrace(path, unit_s)) << path;
  }
}

}  // namespace
}  // namespace ps::psctl
