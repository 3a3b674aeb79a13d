#include "provisioner/strategies/forecast_band.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ps/base/random.h"

namespace ps::provisioner {
namespace {

constexpr uint32_t kMost = 100;

/// Forecasts of 50, `horizon` ahead, whose errors are even within -`reach`(interval) and as much.
/// Returns whether the bands held, those that there were.
template <typename Reach>
std::vector<bool> Watch(ForecastBand* band, size_t horizon, size_t intervals, const Reach& reach) {
  Random random(7);
  std::vector<bool> held;
  for (size_t now = 0; now < intervals; ++now) {
    band->Learn(now);
    const double wide = reach(now);
    const auto actual = static_cast<uint32_t>(std::llround(50 + wide * (2 * random.Unit() - 1)));
    if (band->IsReady()) {
      held.push_back(band->At(50, kMost).Holds(actual));
    }
    band->Expect(now + horizon, 50, actual, kMost);
  }
  return held;
}

double ShareOf(const std::vector<bool>& held, size_t from) {
  const auto begin = held.begin() + static_cast<std::ptrdiff_t>(from);
  return static_cast<double>(std::count(begin, held.end(), true)) /
         static_cast<double>(held.end() - begin);
}

TEST(ForecastBandTest, HoldsTheShareOfErrorsThatStayAsTheyAre) {
  for (const double share : {0.5, 0.8, 0.9}) {
    ForecastBand band(share);
    EXPECT_NEAR(ShareOf(Watch(&band, 1, 3000, [](size_t) { return 20.0; }), 0), share, 0.02);
    const CountBand last = band.At(50, kMost);
    EXPECT_NEAR(last.high - last.low, 40 * share, 6) << share;
  }
}

/// Quantiles of all errors so far would hold 52 % of 80 after the change.
TEST(ForecastBandTest, FollowsAMarketThatChangesItsWays) {
  ForecastBand band(0.8);
  const auto held = Watch(&band, 12, 2000, [](size_t now) { return now < 1000 ? 10.0 : 40.0; });
  EXPECT_NEAR(ShareOf(held, 1000), 0.8, 0.03);
}

TEST(ForecastBandTest, IsNeverLessThanOneCountNorMoreThanThereCanBe) {
  ForecastBand band(0.8);
  Watch(&band, 1, 500, [](size_t) { return 0.0; });
  EXPECT_EQ(band.At(50, kMost), (CountBand{50, 50})) << "nothing ever changed";
  EXPECT_EQ(band.At(0, kMost), (CountBand{0, 0}));
  ForecastBand wild(0.8);
  Watch(&wild, 1, 500, [](size_t now) { return now < 30 ? 1.0 : 49.0; });
  EXPECT_EQ(wild.At(1, 4).low, 0U);
  EXPECT_EQ(wild.At(3, 4).high, 4U);
}

TEST(ForecastBandTest, LearnsNothingBeforeItIsSeen) {
  ForecastBand band(0.8);
  for (uint64_t now = 0; now < 60; ++now) {
    band.Learn(now);
    EXPECT_EQ(band.IsReady(), now >= 39) << now << ": 20 errors of forecasts 20 ahead";
    band.Expect(now + 20, 50, 50, kMost);
  }
}

}  // namespace
}  // namespace ps::provisioner
