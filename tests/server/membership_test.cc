#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using proto::PushOutcome;
using ::testing::ElementsAre;

class MembershipTest : public ::testing::Test {
 protected:
  void SetUp() override { rig_.SetUp(); }

  proto::MembershipAck Tell(const proto::Membership& membership) {
    rig_.Deliver(kCoordinator, membership, 66);
    const auto acks = rig_.Take<proto::MembershipAck>();
    EXPECT_EQ(acks.size(), 1U);
    return acks.empty() ? proto::MembershipAck() : acks.front().message;
  }

  /// Without incarnation 3, which is asked for.
  proto::Membership WithoutThird() {
    proto::Membership membership = rig_.MembersUpTo(2);
    membership.incarnation_max = Incarnation(3);
    membership.resolve = {Incarnation(3)};
    return membership;
  }

  ShardRig rig_;
};

TEST_F(MembershipTest, IsAcknowledgedWithTheShardsName) {
  const proto::Membership membership = rig_.MembersUpTo(4);
  const proto::MembershipAck ack = Tell(membership);
  EXPECT_EQ(ack.shard, kShard);
  EXPECT_EQ(ack.generation, membership.generation);
  EXPECT_TRUE(ack.resolved.empty());
}

TEST_F(MembershipTest, AFencedIncarnationIsResolvedToItsLastCompleteStep) {
  rig_.Push(rig_.WholeStep(3, 1, 0.25F));
  rig_.Push(rig_.WholeStep(3, 2, 0.25F));
  rig_.Push(rig_.Frame(3, 3, {kFirst, kSecond}, 0.25F));  // never finished
  const proto::MembershipAck ack = Tell(WithoutThird());
  ASSERT_EQ(ack.resolved.size(), 1U);
  EXPECT_EQ(ack.resolved[0].incarnation, Incarnation(3));
  EXPECT_EQ(ack.resolved[0].last_complete_step, 2U);
  EXPECT_EQ(ack.resolved[0].outcome, PushOutcome::kApplied);
}

TEST_F(MembershipTest, TheOutcomeOfTheLastStepIsTold) {
  rig_.Push(rig_.WholeStep(3, 1, std::numeric_limits<float>::quiet_NaN()));
  const proto::MembershipAck ack = Tell(WithoutThird());
  ASSERT_EQ(ack.resolved.size(), 1U);
  EXPECT_EQ(ack.resolved[0].last_complete_step, 1U);
  EXPECT_EQ(ack.resolved[0].outcome, PushOutcome::kRejected);
}

TEST_F(MembershipTest, NothingCanCompleteAStepAfterTheFence) {
  rig_.Push(rig_.Frame(3, 1, {kFirst, kSecond}, 0.25F));
  const proto::Membership membership = WithoutThird();
  EXPECT_EQ(Tell(membership).resolved[0].last_complete_step, 0U);
  rig_.Push(rig_.Frame(3, 1, {kThird}, 0.25F));
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kStale);
  EXPECT_THAT(rig_.Versions(), ElementsAre(1, 1, 0));
  EXPECT_EQ(Tell(membership).resolved[0].last_complete_step, 0U);
}

TEST_F(MembershipTest, WhoWasNeverHeardOfHasNoCompleteStep) {
  proto::Membership membership = rig_.MembersUpTo(3);
  membership.incarnation_max = Incarnation(5);
  membership.resolve = {Incarnation(5), Incarnation(4)};
  const proto::MembershipAck ack = Tell(membership);
  ASSERT_EQ(ack.resolved.size(), 2U);
  EXPECT_EQ(ack.resolved[0].incarnation, Incarnation(5));
  EXPECT_EQ(ack.resolved[0].last_complete_step, 0U);
}

TEST_F(MembershipTest, ARepetitionIsAcknowledgedTheSameWay) {
  rig_.Push(rig_.WholeStep(3, 1, 0.25F));
  const proto::Membership membership = WithoutThird();
  Tell(membership);
  const proto::MembershipAck ack = Tell(membership);
  EXPECT_EQ(ack.generation, membership.generation);
  ASSERT_EQ(ack.resolved.size(), 1U);
  EXPECT_EQ(ack.resolved[0].last_complete_step, 1U);
}

TEST_F(MembershipTest, AnOlderOneIsIgnoredAndAnsweredWithThePresentState) {
  const proto::Membership old = rig_.MembersUpTo(3);
  const proto::Membership newer = WithoutThird();
  Tell(newer);
  const proto::MembershipAck ack = Tell(old);
  EXPECT_EQ(ack.generation, newer.generation);
  EXPECT_EQ(ack.resolved.size(), 1U);
  rig_.Push(rig_.WholeStep(3, 1, 0.25F));
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kStale);
}

TEST_F(MembershipTest, AnAnswerIsKeptAsLongAsItIsAskedFor) {
  rig_.Push(rig_.WholeStep(3, 1, 0.25F));
  Tell(WithoutThird());
  EXPECT_EQ(Tell(WithoutThird()).resolved[0].last_complete_step, 1U);
  proto::Membership done = WithoutThird();
  done.resolve.clear();
  EXPECT_TRUE(Tell(done).resolved.empty());
}

TEST_F(MembershipTest, ChangesJoinAndFenceAsTheWholeMembershipWould) {
  rig_.Push(rig_.WholeStep(3, 1, 0.25F));
  EXPECT_EQ(rig_.OnlyPushReply().step, 1U);
  proto::Membership change;
  const proto::Membership before = rig_.MembersUpTo(3);
  Tell(before);
  change.base = before.generation;
  change.generation = Generation(before.generation.value + 2);
  change.incarnation_max = Incarnation(5);
  change.members = {{WorkerId(4), Incarnation(5), true}};
  change.resolve = {Incarnation(3)};
  const proto::MembershipAck ack = Tell(change);
  EXPECT_EQ(ack.generation, change.generation);
  ASSERT_EQ(ack.resolved.size(), 1U);
  EXPECT_EQ(ack.resolved[0].last_complete_step, 1U);
  rig_.Push(rig_.WholeStep(3, 2, 0.25F));
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kStale);
  rig_.Push(rig_.WholeStep(5, 1, 0.25F));
  EXPECT_EQ(rig_.OnlyPushReply().step, 1U);
  rig_.Push(rig_.WholeStep(1, 1, 0.25F));
  EXPECT_EQ(rig_.OnlyPushReply().step, 1U);

  proto::Membership later;
  later.base = change.generation;
  later.generation = Generation(change.generation.value + 1);
  later.incarnation_max = Incarnation(5);
  later.forgotten = {Incarnation(3)};
  EXPECT_TRUE(Tell(later).resolved.empty());
}

TEST_F(MembershipTest, ChangesOfAMembershipThatIsNotHereAreRefused) {
  proto::Membership change;
  change.base = Generation(1000);
  change.generation = Generation(1001);
  rig_.Deliver(kCoordinator, change, 66);
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kInvalidArgument);
}

TEST_F(MembershipTest, AMembershipThatSkipsGenerationsFencesAllTheSame) {
  proto::Membership membership = rig_.MembersUpTo(1);
  membership.generation = Generation(100);
  membership.incarnation_max = Incarnation(9);
  Tell(membership);
  for (uint64_t incarnation = 2; incarnation <= 9; ++incarnation) {
    rig_.Push(rig_.WholeStep(incarnation, 1, 1));
    EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kStale);
  }
  EXPECT_THAT(rig_.Versions(), ElementsAre(0, 0, 0));
}

TEST_F(MembershipTest, StepsUnderWaySurviveAMembershipThatKeepsTheirWorker) {
  rig_.Push(rig_.Frame(1, 1, {kFirst, kSecond}, 0.5F));
  Tell(rig_.MembersUpTo(4));
  rig_.Push(rig_.WholeStep(1, 1, 0.5F));
  EXPECT_EQ(rig_.OnlyPushReply().step, 1U);
  EXPECT_THAT(rig_.Versions(), ElementsAre(1, 1, 1));
}

TEST_F(MembershipTest, MemoryIsBoundedByThePresentMembers) {
  for (uint64_t incarnation = 4; incarnation < 1004; ++incarnation) {
    proto::Membership membership = rig_.MembersUpTo(0);
    membership.incarnation_max = Incarnation(incarnation);
    membership.members.push_back({WorkerId(0), Incarnation(incarnation), true});
    membership.resolve = {Incarnation(incarnation - 1)};
    const proto::MembershipAck ack = Tell(membership);
    ASSERT_EQ(ack.resolved.size(), 1U);
    ASSERT_EQ(ack.resolved[0].last_complete_step, incarnation == 4 ? 0U : 1U);
    proto::PushRequest push = rig_.WholeStep(incarnation, 1, 0);
    push.worker = WorkerId(0);
    rig_.Push(push);
    ASSERT_EQ(rig_.OnlyPushReply().step, 1U);
    ASSERT_EQ(rig_.core.remembered_incarnations(), 1U);
  }
  EXPECT_EQ(rig_.core.Stats().steps_applied, 1000U);
}

TEST_F(MembershipTest, BeforeTheSetUpItIsRefused) {
  ShardRig rig;
  rig.core.OnCoordinatorConnected(kCoordinator, 1, rig.now, &rig.sent);
  rig.Deliver(kCoordinator, rig.MembersUpTo(4));
  EXPECT_EQ(rig.OnlyRefusal().code, StatusCode::kUnavailable);
  rig.Deliver(kCoordinator, proto::CommitRound{1, {}});
  EXPECT_EQ(rig.OnlyRefusal().code, StatusCode::kUnavailable);
}

}  // namespace
}  // namespace ps::server
