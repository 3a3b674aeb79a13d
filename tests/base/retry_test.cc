#include "ps/base/retry.h"

#include <gtest/gtest.h>

namespace ps {
namespace {

using std::chrono::milliseconds;

TEST(RetryTimerTest, WaitsDoubleWithinTheJitterUpToTheLimit) {
  Random random(7);
  RetryTimer retry(milliseconds(100), milliseconds(400));
  TimePoint now{};
  EXPECT_FALSE(retry.is_armed());
  retry.Start(now, &random);
  for (const int expected_ms : {100, 200, 400, 400}) {
    EXPECT_FALSE(retry.IsDue(now + milliseconds(expected_ms * 3 / 4 - 1)));
    EXPECT_TRUE(retry.IsDue(now + milliseconds(expected_ms * 5 / 4 + 1)));
    now += milliseconds(1000);
    retry.Again(now, &random);
  }
}

TEST(RetryTimerTest, WaitsAreSpreadOverTheJitter) {
  Random random(7);
  RetryTimer retry(milliseconds(100), milliseconds(400));
  int early = 0;
  int late = 0;
  for (int i = 0; i < 100; ++i) {
    retry.Start(TimePoint{}, &random);
    early += retry.IsDue(TimePoint{milliseconds(90)}) ? 1 : 0;
    late += retry.IsDue(TimePoint{milliseconds(110)}) ? 0 : 1;
  }
  EXPECT_GT(early, 15);  // a third of them
  EXPECT_GT(late, 15);
}

TEST(RetryTimerTest, StartBeginsWithTheShortWaitAgain) {
  Random random(7);
  RetryTimer retry(milliseconds(100), milliseconds(400));
  retry.Start(TimePoint{}, &random);
  retry.Again(TimePoint{}, &random);
  retry.Again(TimePoint{}, &random);
  retry.Start(TimePoint{}, &random);
  EXPECT_TRUE(retry.IsDue(TimePoint{milliseconds(126)}));
}

TEST(RetryTimerTest, AStoppedOneIsNeverDue) {
  Random random(7);
  RetryTimer retry(milliseconds(1), milliseconds(1));
  retry.Start(TimePoint{}, &random);
  retry.Stop();
  EXPECT_FALSE(retry.IsDue(TimePoint{milliseconds(1000)}));
  retry.DueAt(TimePoint{milliseconds(5)});
  EXPECT_FALSE(retry.IsDue(TimePoint{milliseconds(4)}));
  EXPECT_TRUE(retry.IsDue(TimePoint{milliseconds(5)}));
}

}  // namespace
}  // namespace ps
