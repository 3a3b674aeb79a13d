#include "run/shared_state.h"

#include <gtest/gtest.h>

namespace ps::run {
namespace {

using std::chrono::seconds;

class BeatWatchTest : public ::testing::Test {
 protected:
  /// A look a second later, or after `later`.
  bool Look(uint64_t beats, Duration later = BeatWatch::kLookEvery) {
    now_ += later;
    return watch_.StandsStill(beats, seconds(5), now_);
  }

  /// So many looks find nothing.
  void LookInVain(uint64_t beats, int times) {
    for (int i = 0; i < times; ++i) {
      EXPECT_FALSE(Look(beats)) << i;
    }
  }

  BeatWatch watch_;
  TimePoint now_ = TimePoint(seconds(100));
};

TEST_F(BeatWatchTest, OneThatBeatsNoMoreStandsStillAfterTheLimitAndAgainAfterAsLong) {
  LookInVain(1, 1);
  LookInVain(2, 6);
  EXPECT_TRUE(Look(2));
  LookInVain(2, 5);
  EXPECT_TRUE(Look(2));
  LookInVain(3, 6);
  EXPECT_TRUE(Look(3));
}

TEST_F(BeatWatchTest, WhoHasNotBegunOrIsAtItsEndStandsNotStill) {
  LookInVain(0, 20);
  LookInVain(7, 3);
  LookInVain(0, 20);
}

TEST_F(BeatWatchTest, WhereTheWatchStoodStillItselfTheTimeBeginsAnew) {
  LookInVain(1, 5);
  EXPECT_FALSE(Look(1, seconds(60))) << "a closed laptop, or Ctrl-Z";
  LookInVain(1, 5);
  EXPECT_TRUE(Look(1));
}

}  // namespace
}  // namespace ps::run
