#include "ps/coordinator/meters/trend_watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "ps/base/random.h"

namespace ps::coordinator {
namespace {

using std::chrono::seconds;

class TrendWatchTest : public ::testing::Test {
 protected:
  /// A step a second later.
  std::optional<TrendWatch::LossTurn> Step(std::optional<double> loss) {
    now_ += seconds(1);
    return watch_.OnStep(loss, now_);
  }

  /// So many steps of about this loss. Returns the last turn that was found.
  std::optional<TrendWatch::LossTurn> Steps(int count, double loss, double noise = 0.1) {
    std::optional<TrendWatch::LossTurn> found;
    for (int i = 0; i < count; ++i) {
      if (const auto turn = Step(loss * (1 + noise * (2 * random_.Unit() - 1)))) {
        EXPECT_FALSE(found) << "told twice";
        found = turn;
      }
    }
    return found;
  }

  TrendWatch watch_;
  Random random_{7};
  TimePoint now_ = TimePoint(seconds(1000));
};

TEST_F(TrendWatchTest, ALossThatTriplesForAWhileIsToldOfTwice) {
  EXPECT_FALSE(Steps(200, 0.5));
  const auto spike = Steps(40, 1.5);
  ASSERT_TRUE(spike);
  EXPECT_TRUE(spike->is_spike);
  EXPECT_GT(spike->loss, 0.75);
  EXPECT_NEAR(spike->usual, 0.5, 0.05);
  const auto back = Steps(40, 0.5);
  ASSERT_TRUE(back);
  EXPECT_FALSE(back->is_spike);
  EXPECT_GE(back->steps, 30U);
  EXPECT_NEAR(back->loss, 0.55, 0.1);
}

TEST_F(TrendWatchTest, ALossThatFallsOrIsNoisyIsNoSpike) {
  for (int i = 0; i < 2000; ++i) {
    EXPECT_FALSE(Step(2.5 * std::exp(-i / 300.0) * (1 + 0.8 * (random_.Unit() - 0.5)))) << i;
  }
}

TEST_F(TrendWatchTest, OneOddMinibatchIsNoSpikeAndSmallNumbersAtTheEndAreNone) {
  EXPECT_FALSE(Steps(100, 2.0));
  EXPECT_FALSE(Step(6.0));
  EXPECT_FALSE(Steps(500, 0.01));
  EXPECT_FALSE(Steps(100, 0.03)) << "a hundredth of where it began";
}

TEST_F(TrendWatchTest, WhatLastsIsUsualInTheEndAndStepsWithoutALossSayNothing) {
  EXPECT_FALSE(Steps(100, 1.0));
  EXPECT_TRUE(Steps(1100, 3.0));
  EXPECT_FALSE(Steps(200, 3.0));
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(Step(std::nullopt));
    EXPECT_FALSE(Step(std::nan("")));
  }
  EXPECT_TRUE(Steps(60, 9.0));
}

TEST_F(TrendWatchTest, StepsThatStayAwayAreAStallUnlessNobodyExpectsThem) {
  Steps(20, 1.0);
  const auto look = [&](bool is_expected, int later_s) {
    now_ += seconds(later_s);
    return watch_.OnTick(is_expected, now_);
  };
  EXPECT_FALSE(look(true, 29));
  const auto stall = look(true, 2);
  ASSERT_TRUE(stall);
  EXPECT_NEAR(stall->waited_s, 31, 0.01);
  EXPECT_NEAR(stall->usual_s, 1, 0.01);
  EXPECT_FALSE(look(true, 100)) << "told once";
  Step(1.0);
  EXPECT_FALSE(look(false, 1000)) << "paused";
  EXPECT_FALSE(look(true, 20));
  EXPECT_TRUE(look(true, 200)) << "twenty times what a step takes now";
}

TEST_F(TrendWatchTest, SlowStepsHaveTheirTime) {
  for (int i = 0; i < 20; ++i) {
    now_ += seconds(59);
    Step(1.0);
  }
  now_ += seconds(19 * 60);
  EXPECT_FALSE(watch_.OnTick(true, now_));
  now_ += seconds(2 * 60);
  EXPECT_TRUE(watch_.OnTick(true, now_));
}

TEST_F(TrendWatchTest, GradientsThatGrowOldAreToldOfForTheSameNumberOfWorkers) {
  const auto look = [&](double staleness, size_t workers) {
    now_ += seconds(60);
    EXPECT_TRUE(watch_.WantsStaleness(now_));
    const auto ageing = watch_.OnStaleness(staleness, workers, now_);
    EXPECT_FALSE(watch_.WantsStaleness(now_ + seconds(59)));
    return ageing;
  };
  EXPECT_FALSE(look(3, 4));
  EXPECT_FALSE(look(3, 4));
  EXPECT_FALSE(look(7.9, 4));
  const auto ageing = look(8.1, 4);
  ASSERT_TRUE(ageing);
  EXPECT_EQ(ageing->usual, 3);
  EXPECT_FALSE(look(8.1, 4)) << "told once";
  EXPECT_FALSE(look(30, 16)) << "more workers are more steps between";
  EXPECT_FALSE(look(30, 16));
  EXPECT_FALSE(look(4, 16));
  EXPECT_TRUE(look(11, 16));
}

}  // namespace
}  // namespace ps::coordinator
