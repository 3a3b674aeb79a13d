#include "ps/client/retry.h"

#include <gtest/gtest.h>

namespace ps::client {
namespace {

using std::chrono::milliseconds;

TEST(RetryTest, WaitsDoubleWithinTheJitterUpToTheLimit) {
  Random random(7);
  Retry retry(milliseconds(100), milliseconds(400));
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

TEST(RetryTest, StartBeginsWithTheShortWaitAgain) {
  Random random(7);
  Retry retry(milliseconds(100), milliseconds(400));
  retry.Start(TimePoint{}, &random);
  retry.Again(TimePoint{}, &random);
  retry.Again(TimePoint{}, &random);
  retry.Start(TimePoint{}, &random);
  EXPECT_TRUE(retry.IsDue(TimePoint{milliseconds(126)}));
}

TEST(RetryTest, AStoppedOneIsNeverDue) {
  Random random(7);
  Retry retry(milliseconds(1), milliseconds(1));
  retry.Start(TimePoint{}, &random);
  retry.Stop();
  EXPECT_FALSE(retry.IsDue(TimePoint{milliseconds(1000)}));
  retry.DueAt(TimePoint{milliseconds(5)});
  EXPECT_FALSE(retry.IsDue(TimePoint{milliseconds(4)}));
  EXPECT_TRUE(retry.IsDue(TimePoint{milliseconds(5)}));
}

}  // namespace
}  // namespace ps::client
