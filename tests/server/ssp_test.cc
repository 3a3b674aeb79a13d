#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/server/roster.h"
#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using ::testing::HasSubstr;

/// Worker 0 (incarnation 1) is two steps ahead of the others; the bound is one.
class SspTest : public ::testing::Test {
 protected:
  SspTest() : rig_(proto::Mode::kSsp) {}

  void SetUp() override {
    rig_.mode.staleness_max = 1;
    rig_.setup.membership = rig_.MembersUpTo(3);
    rig_.SetUp();
    Step(1, 1);
    Step(1, 2);
  }

  void Step(uint64_t incarnation, ps::Step step) {
    rig_.Push(rig_.WholeStep(incarnation, step, 0));
    rig_.Take<proto::PushReply>();
  }

  size_t Answered() { return rig_.Take<proto::PullReply>().size(); }

  void HoldBackTheFirst() {
    rig_.Pull(rig_.PullAll(1));
    ASSERT_EQ(Answered(), 0U);
    ASSERT_EQ(rig_.core.Waits(rig_.now).size(), 1U);
  }

  /// The same members, those in `inactive` without work.
  proto::Membership WithInactive(const std::vector<uint64_t>& inactive) {
    proto::Membership membership = rig_.MembersUpTo(3);
    for (const uint64_t incarnation : inactive) {
      membership.members[incarnation - 1].is_active = false;
    }
    return membership;
  }

  ShardRig rig_;
};

TEST_F(SspTest, WithinTheBoundPullsAreAnswered) {
  rig_.Pull(rig_.PullAll(2));
  EXPECT_EQ(Answered(), 1U);
  Step(2, 1);
  rig_.Pull(rig_.PullAll(2), 9);
  EXPECT_EQ(Answered(), 1U);
}

TEST_F(SspTest, TheSlowestWorkersPushReleasesWhoIsAhead) {
  HoldBackTheFirst();
  Step(2, 1);
  EXPECT_EQ(Answered(), 0U);  // the third is still at 0
  Step(3, 1);
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_EQ(pulls[0].to, PeerOf(0));
  EXPECT_EQ(pulls[0].request_id, 8U);
  EXPECT_EQ(pulls[0].message.staleness_steps, 1U);
  EXPECT_TRUE(rig_.core.Waits(rig_.now).empty());
}

TEST_F(SspTest, AnIncompleteStepReleasesNobody) {
  Step(2, 1);
  HoldBackTheFirst();
  rig_.Push(rig_.Frame(3, 1, {kFirst, kSecond}, 0));
  EXPECT_EQ(Answered(), 0U);
  rig_.Push(rig_.Frame(3, 1, {kThird}, 0));
  EXPECT_EQ(Answered(), 1U);
}

TEST_F(SspTest, ARepeatedStepDoesNotMoveTheClock) {
  Step(2, 1);
  Step(2, 1);
  EXPECT_EQ(rig_.core.Stats().workers[1].clock, 1U);
}

TEST_F(SspTest, WhoLeavesHoldsNobodyBack) {
  Step(2, 1);
  HoldBackTheFirst();
  rig_.Deliver(kCoordinator, rig_.MembersUpTo(2));
  EXPECT_EQ(Answered(), 1U);
}

TEST_F(SspTest, WhoIsInactiveHoldsNobodyBack) {
  Step(2, 1);
  HoldBackTheFirst();
  rig_.Deliver(kCoordinator, WithInactive({3}));
  EXPECT_EQ(Answered(), 1U);
}

TEST_F(SspTest, WhoBecomesActiveStartsLevelWithTheSlowest) {
  rig_.Deliver(kCoordinator, WithInactive({3}));
  Step(2, 1);
  Step(2, 2);
  rig_.Deliver(kCoordinator, WithInactive({}));
  EXPECT_EQ(rig_.core.Stats().workers[2].clock, 2U);
  rig_.Pull(rig_.PullAll(1));
  EXPECT_EQ(Answered(), 1U);
}

TEST_F(SspTest, WhoWasAheadKeepsItsClockWhenItBecomesActive) {
  rig_.Deliver(kCoordinator, WithInactive({1}));
  rig_.Deliver(kCoordinator, WithInactive({}));
  EXPECT_EQ(rig_.core.Stats().workers[0].clock, 2U);
  HoldBackTheFirst();
}

TEST_F(SspTest, WhoJoinsStartsLevelWithTheSlowest) {
  Step(2, 1);
  Step(3, 1);
  rig_.Deliver(kCoordinator, rig_.MembersUpTo(4));
  EXPECT_EQ(rig_.core.Stats().workers[3].clock, 1U);
}

TEST_F(SspTest, WhoJoinsWhileNobodyIsActiveStartsWhereTheSlowestWas) {
  rig_.Deliver(kCoordinator, WithInactive({2, 3}));
  rig_.Deliver(kCoordinator, WithInactive({1, 2, 3}));
  proto::Membership joined = WithInactive({1, 2, 3});
  joined.members.push_back({WorkerId(5), Incarnation(9), true});
  rig_.Deliver(kCoordinator, joined);
  EXPECT_EQ(rig_.core.Stats().workers[3].clock, 2U);
}

TEST_F(SspTest, WhoWasAheadIsHeldBackWhileNobodyIsActive) {
  HoldBackTheFirst();
  rig_.Deliver(kCoordinator, WithInactive({1, 2, 3}));
  EXPECT_EQ(Answered(), 0U);  // the others may be the next to work, and have made no step
  rig_.Deliver(kCoordinator, WithInactive({2, 3}));
  EXPECT_EQ(Answered(), 1U);
}

TEST_F(SspTest, NoMembershipMakesALeadLonger) {
  rig_.Deliver(kCoordinator, WithInactive({2, 3}));
  rig_.Pull(rig_.PullAll(1));
  ASSERT_EQ(Answered(), 1U);
  // The others take over, and then all work: the first has made 2 steps, and they have made none.
  rig_.Deliver(kCoordinator, WithInactive({1}));
  rig_.Deliver(kCoordinator, WithInactive({}));
  rig_.Pull(rig_.PullAll(1), 9);
  EXPECT_EQ(Answered(), 1U);
}

TEST_F(SspTest, AJoinerWithoutCompanyStartsAtZero) {
  proto::Membership alone = rig_.MembersUpTo(0);
  alone.members.push_back({WorkerId(5), Incarnation(9), true});
  rig_.Deliver(kCoordinator, alone);
  ASSERT_EQ(rig_.core.Stats().workers.size(), 1U);
  EXPECT_EQ(rig_.core.Stats().workers[0].clock, 0U);
}

TEST_F(SspTest, AnEvaluationIsNotHeldBack) {
  proto::PullRequest pull = rig_.PullAll(1);
  pull.is_evaluation = true;
  rig_.Pull(pull);
  EXPECT_EQ(Answered(), 1U);
}

TEST_F(SspTest, AFusedPullIsHeldBackLikeAnyOther) {
  proto::PushRequest push = rig_.WholeStep(1, 3, 0);
  push.wants_pull = true;
  rig_.Push(push, 30);
  EXPECT_EQ(rig_.OnlyPushReply().step, 3U);
  EXPECT_EQ(Answered(), 0U);
  for (const uint64_t slow : {2U, 3U}) {
    Step(slow, 1);
    Step(slow, 2);
  }
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_EQ(pulls[0].request_id, 30U);
}

TEST_F(SspTest, ANewerPullReplacesTheWaitingOne) {
  HoldBackTheFirst();
  rig_.now += std::chrono::seconds(2);
  rig_.Pull(rig_.PullAll(1), 9);
  ASSERT_EQ(rig_.core.Waits(rig_.now).size(), 1U);
  EXPECT_EQ(rig_.core.Waits(rig_.now)[0].since_s, 2);  // it has waited all along
  Step(2, 1);
  Step(3, 1);
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_EQ(pulls[0].request_id, 9U);
}

TEST_F(SspTest, AWaitingPullEndsWithItsConnection) {
  HoldBackTheFirst();
  rig_.core.OnPeerClosed(PeerOf(0), rig_.now, &rig_.sent);
  EXPECT_TRUE(rig_.core.Waits(rig_.now).empty());
  Step(2, 1);
  Step(3, 1);
  EXPECT_EQ(Answered(), 0U);
}

TEST_F(SspTest, TheEndOfAnOldConnectionLeavesTheNewOnesPullAlone) {
  HoldBackTheFirst();
  const proto::PeerId second(200);
  rig_.Deliver(second, rig_.PullAll(1), 9);
  rig_.core.OnPeerClosed(PeerOf(0), rig_.now, &rig_.sent);
  Step(2, 1);
  Step(3, 1);
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_EQ(pulls[0].to, second);
}

TEST_F(SspTest, AWaitingPullOfWhoIsFencedIsRefused) {
  HoldBackTheFirst();
  proto::Membership membership = rig_.MembersUpTo(3);
  membership.members.erase(membership.members.begin());
  rig_.Deliver(kCoordinator, membership);
  const auto refusals = rig_.Take<proto::Refusal>();
  ASSERT_EQ(refusals.size(), 1U);
  EXPECT_EQ(refusals[0].to, PeerOf(0));
  EXPECT_EQ(refusals[0].request_id, 8U);
  EXPECT_EQ(refusals[0].message.code, StatusCode::kStale);
}

TEST_F(SspTest, AWaitSaysWhoWaitsForWhomAndSinceWhen) {
  Step(2, 1);
  HoldBackTheFirst();
  const Generation began = rig_.setup.membership.generation;
  rig_.now += std::chrono::milliseconds(1500);
  const std::vector<proto::Wait> waits = rig_.core.Waits(rig_.now);
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].who, "w0");
  EXPECT_EQ(waits[0].for_whom, "w2 (clock 0)");
  EXPECT_EQ(waits[0].what, "staleness bound 1 at shard 3");
  EXPECT_EQ(waits[0].since_s, 1.5);
  EXPECT_EQ(waits[0].generation, began);
}

/// The shard had no chunk left, and its own clocks are of another scale.
TEST(RosterTest, ClocksThatComeWithChunksSayWhereNewWorkersStart) {
  Roster roster;
  const auto update = [&](uint64_t generation, uint64_t members) {
    proto::Membership membership;
    membership.generation = Generation(generation);
    membership.incarnation_max = Incarnation(members);
    for (uint64_t i = 1; i <= members; ++i) {
      membership.members.push_back({WorkerId(static_cast<uint32_t>(i)), Incarnation(i), true});
    }
    ASSERT_TRUE(roster.Update(membership).has_value());
  };
  update(1, 1);
  for (int step = 0; step < 12; ++step) {
    roster.Advance(roster.Find(Incarnation(1)));
  }
  update(2, 2);
  roster.SetClocks({{Incarnation(1), {2, true}}});
  EXPECT_EQ(roster.LeadOf(*roster.Find(Incarnation(2))), 0U) << "it has joined since the offer";
  update(3, 3);
  EXPECT_EQ(roster.LeadOf(*roster.Find(Incarnation(3))), 0U);
}

}  // namespace
}  // namespace ps::server
