// A shard whose mode changes while workers train.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using proto::Mode;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class ShardModeTest : public testing::Test {
 protected:
  /// What a membership of a later generation says, all else as before.
  void Switch(proto::ModeChoice mode, uint64_t round = 0) {
    rig_.mode = mode;
    proto::Membership membership = rig_.MembersUpTo(3);
    membership.round = round;
    rig_.Deliver(kCoordinator, membership);
    EXPECT_THAT(rig_.Take<proto::MembershipAck>(), SizeIs(1));
  }

  proto::PushReply Push(uint64_t incarnation, Step step, float gradient, uint64_t round = 0) {
    proto::PushRequest push = rig_.WholeStep(incarnation, step, gradient);
    push.round = round;
    rig_.Push(push);
    return rig_.OnlyPushReply();
  }

  void Commit(uint64_t round, uint64_t incarnation, Step step) {
    proto::CommitRound commit;
    commit.round = round;
    commit.contributions = {
        {WorkerId(static_cast<uint32_t>(incarnation - 1)), Incarnation(incarnation), step, 1}};
    rig_.Deliver(kCoordinator, commit);
    while (rig_.core.HasWork()) {
      rig_.core.Continue(&rig_.sent);
    }
  }

  ShardRig rig_;
};

TEST_F(ShardModeTest, RoundsBeginAfterTheOneThatWasCommittedLast) {
  rig_.SetUp();
  Push(1, 1, 0.5F);
  EXPECT_THAT(rig_.Values(), ElementsAre(0.5F, 0.5F, 0.5F));
  Switch({Mode::kBsp}, 6);
  EXPECT_EQ(Push(1, 2, 0.25F, 7).outcome, proto::PushOutcome::kStaged);
  EXPECT_THAT(rig_.Values(), ElementsAre(0.5F, 0.5F, 0.5F));
  Commit(7, 1, 2);
  EXPECT_THAT(rig_.Values(), ElementsAre(0.25F, 0.25F, 0.25F));
  Switch({Mode::kAsync}, 7);
  EXPECT_EQ(Push(1, 3, 0.125F).outcome, proto::PushOutcome::kApplied);
  EXPECT_THAT(rig_.Values(), ElementsAre(0.125F, 0.125F, 0.125F));
}

/// Its clock is far ahead of others' when nobody waits for anybody.
TEST_F(ShardModeTest, UnderSspAllAreLevelFromTheFirstStepOn) {
  rig_.SetUp();
  for (Step step = 1; step <= 9; ++step) {
    Push(1, step, 0);
  }
  Switch({Mode::kSsp, 1});
  rig_.Pull(rig_.PullAll(1));
  EXPECT_THAT(rig_.Take<proto::PullReply>(), SizeIs(1));
  Push(1, 10, 0);
  Push(1, 11, 0);
  rig_.Pull(rig_.PullAll(1));
  EXPECT_THAT(rig_.Take<proto::PullReply>(), IsEmpty()) << "two ahead";
  Push(2, 1, 0);
  EXPECT_THAT(rig_.Take<proto::PullReply>(), IsEmpty());
  Push(3, 1, 0);
  EXPECT_THAT(rig_.Take<proto::PullReply>(), SizeIs(1));
}

TEST_F(ShardModeTest, APullThatTheOldModeHeldBackIsAnswered) {
  rig_.mode = {Mode::kSsp, 1};
  rig_.setup.membership = rig_.MembersUpTo(3);
  rig_.SetUp();
  Push(1, 1, 0);
  Push(1, 2, 0);
  rig_.Pull(rig_.PullAll(1));
  ASSERT_THAT(rig_.Take<proto::PullReply>(), IsEmpty());
  Switch({Mode::kAsync});
  EXPECT_THAT(rig_.Take<proto::PullReply>(), SizeIs(1));
}

/// Of a shard that was given up, which never hears of it, the worker gets nothing of before.
TEST_F(ShardModeTest, APullOfARoundThatIsNotKnownYetWaitsForTheMode) {
  rig_.SetUp();
  proto::PullRequest pull = rig_.PullAll(1);
  pull.min_round = 1;
  rig_.Pull(pull);
  EXPECT_THAT(rig_.Take<proto::PullReply>(), IsEmpty());
  const std::vector<proto::Wait> waits = rig_.core.Waits(rig_.now);
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0].for_whom, "coordinator");
  EXPECT_EQ(waits[0].what, "round 1 at shard 3");
  Switch({Mode::kBsp}, 1);
  EXPECT_THAT(rig_.Take<proto::PullReply>(), SizeIs(1));
}

/// It may be of the last rounds, and asked for anew when the mode had changed already.
TEST_F(ShardModeTest, APullOfARoundThatWasIsAnsweredInTheNextMode) {
  rig_.SetUp();
  Switch({Mode::kBsp}, 6);
  Switch({Mode::kAsync}, 6);
  proto::PullRequest pull = rig_.PullAll(1);
  pull.min_round = 6;
  rig_.Pull(pull);
  EXPECT_THAT(rig_.Take<proto::PullReply>(), SizeIs(1));
}

TEST_F(ShardModeTest, RateAndMomentumFollowTheModeInForce) {
  proto::JobConfig config;
  config.workers = {{.count = 4}};
  config.train.mode = Mode::kBsp;
  config.train.switch_momentum_factor = 0.5F;
  rig_.settings.lr_policy = LrPolicy(config);
  rig_.settings.optimizer.momentum = 0.5F;
  rig_.mode = {Mode::kAsync};
  rig_.setup.membership = rig_.MembersUpTo(3);
  rig_.SetUp();
  Push(1, 1, 1);
  EXPECT_THAT(rig_.Values(), ElementsAre(0.75F, 0.75F, 0.75F)) << "a quarter of the rate";
  Push(1, 2, 0);
  EXPECT_THAT(rig_.Values(), ElementsAre(0.6875F, 0.6875F, 0.6875F)) << "momentum 0.25";
}

}  // namespace
}  // namespace ps::server
