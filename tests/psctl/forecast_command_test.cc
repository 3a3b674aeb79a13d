#include "psctl/plan/forecast_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "ps/base/file.h"
#include "psctl/plan/replay_trace.h"
#include "tests/provisioner/strategies/trace_counts.h"
#include "tests/psctl/command_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using ForecastCommandTest = CommandFixture;

TEST_F(ForecastCommandTest, PredictorsAreComparedOnATrace) {
  ASSERT_EQ(Run({"forecast", "tests/data/parcae/p3.csv", "--horizon", "2,12"}), run::kExitOk)
      << err_;
  EXPECT_THAT(out_, HasSubstr("p3.csv: 683 intervals of 60 s, 24.03 machines in the mean"));
  EXPECT_THAT(out_, HasSubstr("predictor     in 2  in 12  band width  in band, %\n"));
  EXPECT_THAT(out_, HasSubstr("the best at 12: current\n"));
  ASSERT_EQ(Run({"forecast", "tests/data/parcae/p3.csv", "--json"}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr(R"("name": "parcae-arima")"));
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
