#include "ps/server/pull_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/shard_tables.h"

namespace ps::server {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class PullQueueTest : public ::testing::Test {
 protected:
  explicit PullQueueTest(proto::Mode mode = proto::Mode::kAsync) : tables_(mode) {}

  void Pull(uint64_t incarnation, uint64_t request_id) {
    proto::PullRequest pull;
    pull.incarnation = Incarnation(incarnation);
    pull.worker = WorkerId(static_cast<uint32_t>(incarnation - 1));
    const proto::PeerId peer = PeerOf(pull.worker.value);
    pulls_.OnPull(tables_.From(peer, request_id), pull);
  }

  ShardTables tables_;
  PullQueue& pulls_ = tables_.pulls;
};

TEST_F(PullQueueTest, WhatIsHeldGoesOnAfterwards) {
  pulls_.Hold(true);
  Pull(1, 1);
  pulls_.Continue(&tables_.sent);
  pulls_.OnDrained(PeerOf(0), &tables_.sent);
  EXPECT_THAT(tables_.Take<proto::PullReply>(), IsEmpty());
  pulls_.Hold(false);
  pulls_.Continue(&tables_.sent);
  EXPECT_THAT(tables_.Take<proto::PullReply>(), SizeIs(1));
  pulls_.Hold(true);
  Pull(2, 1);
  pulls_.FinishAnswers(&tables_.sent);
  EXPECT_THAT(tables_.Take<proto::PullReply>(), SizeIs(1)) << "a round does not wait";
}

TEST_F(PullQueueTest, AnOlderPullIsOvertakenByOneThatIsExpected) {
  EXPECT_TRUE(pulls_.Expect(Incarnation(1), 5));
  EXPECT_FALSE(pulls_.Expect(Incarnation(1), 4));
  Pull(1, 4);
  EXPECT_THAT(tables_.sent.all, IsEmpty());
  Pull(1, 5);
  EXPECT_THAT(tables_.Take<proto::PullReply>(), SizeIs(1));
}

TEST_F(PullQueueTest, StepsSinceTheParametersWereReadAreMissed) {
  EXPECT_EQ(pulls_.MissedSteps(Incarnation(1), 0), 0U) << "it has read none";
  tables_.counters.steps_applied = 10;
  Pull(1, 1);
  tables_.counters.steps_applied = 13;
  EXPECT_EQ(pulls_.MissedSteps(Incarnation(1), 0), 3U);
  EXPECT_EQ(pulls_.MissedSteps(Incarnation(1), 1), 0U);
  Pull(1, 2);
  tables_.counters.steps_applied = 15;
  EXPECT_EQ(pulls_.MissedSteps(Incarnation(1), 0), 2U);
  EXPECT_EQ(pulls_.MissedSteps(Incarnation(1), 1), 5U);
}

class SspPullQueueTest : public PullQueueTest {
 protected:
  SspPullQueueTest() : PullQueueTest(proto::Mode::kSsp) {
    tables_.roster.Advance(&tables_.MemberOf(1));  // the bound is 0
    Pull(1, 1);
  }
};

TEST_F(SspPullQueueTest, APullWaitsUntilTheSlowestHasCaughtUp) {
  tables_.now += std::chrono::seconds(2);
  const std::vector<proto::Wait> waits = pulls_.Waits(tables_.now);
  ASSERT_THAT(waits, SizeIs(1));
  EXPECT_EQ(waits[0].who, "w0");
  EXPECT_EQ(waits[0].for_whom, "w1 (clock 0), w2 (clock 0)");
  EXPECT_EQ(waits[0].since_s, 2);
  tables_.roster.Advance(&tables_.MemberOf(2));
  pulls_.Release(&tables_.sent);
  EXPECT_THAT(tables_.sent.all, IsEmpty());
  tables_.roster.Advance(&tables_.MemberOf(3));
  pulls_.Release(&tables_.sent);
  EXPECT_THAT(tables_.Take<proto::PullReply>(), SizeIs(1));
  EXPECT_THAT(pulls_.Waits(tables_.now), IsEmpty());
}

TEST_F(SspPullQueueTest, ForgettingAMemberReturnsThePullThatWaited) {
  const std::optional<server::Pull> waiting = pulls_.Forget(Incarnation(1));
  ASSERT_TRUE(waiting.has_value());
  EXPECT_EQ(waiting->request_id, 1U);
  EXPECT_FALSE(pulls_.Forget(Incarnation(1)).has_value());
  EXPECT_THAT(pulls_.Waits(tables_.now), IsEmpty());
}

}  // namespace
}  // namespace ps::server
