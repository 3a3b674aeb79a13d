#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using proto::PushOutcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class BspTest : public ::testing::Test {
 protected:
  BspTest() : rig_(proto::Mode::kBsp) {}

  void SetUp() override { rig_.SetUp(); }

  proto::PushRequest Contribution(
      uint64_t incarnation, Step step, uint64_t round, float gradient, uint32_t samples = 1) {
    proto::PushRequest push = rig_.WholeStep(incarnation, step, gradient);
    push.round = round;
    push.samples = samples;
    return push;
  }

  void Stage(const proto::PushRequest& push) {
    rig_.Push(push);
    EXPECT_EQ(rig_.OnlyPushReply().outcome, PushOutcome::kStaged);
  }

  static proto::CommitRound Commit(
      uint64_t round, const std::vector<proto::CommitRound::Contribution>& contributions) {
    return {round, contributions};
  }

  static proto::CommitRound::Contribution Of(
      uint64_t incarnation, Step step, uint32_t samples = 1) {
    return {
        WorkerId(static_cast<uint32_t>(incarnation - 1)), Incarnation(incarnation), step, samples};
  }

  void ExpectCommitRefused(const proto::CommitRound& commit) {
    rig_.Deliver(kCoordinator, commit);
    EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kInvalidArgument);
    EXPECT_TRUE(rig_.Take<proto::CommitAck>().empty());
  }

  void ExpectCommitted(const proto::CommitRound& commit) {
    rig_.Deliver(kCoordinator, commit);
    const auto acks = rig_.Take<proto::CommitAck>();
    ASSERT_EQ(acks.size(), 1U);
    EXPECT_EQ(acks[0].message.round, commit.round);
    EXPECT_EQ(acks[0].message.shard, kShard);
  }

  ShardRig rig_;
};

TEST_F(BspTest, ContributionsAreStagedAndAppliedByTheCommit) {
  Stage(Contribution(1, 1, 1, 0.5F, 3));
  Stage(Contribution(2, 1, 1, 0.25F, 1));
  EXPECT_THAT(rig_.Versions(), ElementsAre(0, 0, 0));
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 56U);
  ExpectCommitted(Commit(1, {Of(1, 1, 3), Of(2, 1, 1)}));
  const float mean = (3 * 0.5F + 0.25F) / 4;
  EXPECT_THAT(rig_.Values(), ElementsAre(1 - mean, 1 - mean, 1 - mean));
  EXPECT_THAT(rig_.Versions(), ElementsAre(1, 1, 1));
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 0U);
  EXPECT_EQ(rig_.core.Stats().round, 1U);
  EXPECT_EQ(rig_.core.Stats().steps_applied, 2U);
  EXPECT_EQ(rig_.core.Stats().samples_applied, 4U);
}

TEST_F(BspTest, TheWeightOfARoundDoesNotDependOnItsSamples) {
  Stage(Contribution(1, 1, 1, 0.5F, 100));
  ExpectCommitted(Commit(1, {Of(1, 1, 100)}));
  EXPECT_THAT(rig_.Values(), ElementsAre(0.5F, 0.5F, 0.5F));
}

TEST_F(BspTest, OneWorkerIsPlainSgdBitForBit) {
  ShardRig rig(proto::Mode::kBsp);
  rig.settings.optimizer.lr = 0.037F;
  rig.SetUp();
  float w = 1;
  for (uint64_t round = 1; round <= 50; ++round) {
    const float gradient = std::sin(static_cast<float>(round));
    proto::PushRequest push = rig.WholeStep(1, round, gradient);
    push.round = round;
    push.samples = 7;
    rig.Push(push);
    rig.Deliver(kCoordinator, Commit(round, {Of(1, round, 7)}));
    const volatile float product = 0.037F * gradient;  // rounded before it is subtracted
    w -= product;
    ASSERT_THAT(rig.Values(), ElementsAre(w, w, w)) << round;
  }
}

TEST_F(BspTest, WhoIsNotInTheCommitIsLeftOut) {
  Stage(Contribution(1, 1, 1, 0.5F));
  Stage(Contribution(2, 1, 1, 100));
  ExpectCommitted(Commit(1, {Of(1, 1)}));
  EXPECT_THAT(rig_.Values(), ElementsAre(0.5F, 0.5F, 0.5F));
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 0U);
}

TEST_F(BspTest, ACommitWithoutContributionsChangesNothingButTheRound) {
  ExpectCommitted(Commit(1, {}));
  EXPECT_THAT(rig_.Versions(), ElementsAre(0, 0, 0));
  EXPECT_EQ(rig_.core.Stats().round, 1U);
}

TEST_F(BspTest, ARepeatedCommitIsAcknowledgedAndNotApplied) {
  Stage(Contribution(1, 1, 1, 0.5F));
  ExpectCommitted(Commit(1, {Of(1, 1)}));
  ExpectCommitted(Commit(1, {Of(1, 1)}));
  EXPECT_THAT(rig_.Versions(), ElementsAre(1, 1, 1));
}

TEST_F(BspTest, ACommitOfWhatIsNotStagedIsAnErrorAndChangesNothing) {
  Stage(Contribution(1, 1, 1, 0.5F));
  rig_.Push([&] {
    proto::PushRequest push = rig_.Frame(2, 1, {kFirst}, 1);
    push.round = 1;
    return push;
  }());
  ExpectCommitRefused(Commit(1, {Of(1, 1), Of(2, 1)}));  // incomplete
  ExpectCommitRefused(Commit(1, {Of(1, 1), Of(3, 1)}));  // never came
  ExpectCommitRefused(Commit(1, {Of(1, 2)}));            // another step
  ExpectCommitRefused(Commit(1, {Of(1, 1, 2)}));         // other samples
  ExpectCommitRefused(Commit(1, {Of(1, 1), Of(1, 1)}));  // twice
  EXPECT_THAT(rig_.Versions(), ElementsAre(0, 0, 0));
  ExpectCommitted(Commit(1, {Of(1, 1)}));
}

TEST_F(BspTest, ACommitThatSkipsARoundIsRefused) {
  ExpectCommitRefused(Commit(2, {}));
  EXPECT_EQ(rig_.core.Stats().round, 0U);
}

TEST_F(BspTest, OtherModesHaveNoRounds) {
  ShardRig rig;
  rig.SetUp();
  rig.Deliver(kCoordinator, Commit(1, {}));
  EXPECT_EQ(rig.OnlyRefusal().code, StatusCode::kInvalidArgument);
}

TEST_F(BspTest, APushForACommittedRoundIsStale) {
  ExpectCommitted(Commit(1, {}));
  rig_.Push(Contribution(1, 1, 1, 0.5F));
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kStale);
}

TEST_F(BspTest, APushForAFutureRoundIsRefused) {
  rig_.Push(Contribution(1, 1, 2, 0.5F));
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kInvalidArgument);
  rig_.Push(Contribution(1, 1, 0, 0.5F));
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kStale);
}

TEST_F(BspTest, AWorkerContributesOnceToARound) {
  Stage(Contribution(1, 1, 1, 0.5F));
  rig_.Push(Contribution(1, 2, 1, 0.5F));
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kInvalidArgument);
}

TEST_F(BspTest, AContributionIsOfTheWholeShard) {
  proto::PushRequest push = rig_.Frame(1, 1, {kFirst}, 1);
  push.round = 1;
  push.chunk_count = 1;
  rig_.Push(push);
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kInvalidArgument);
}

TEST_F(BspTest, AnAcknowledgedStepIsAcknowledgedAgainAlsoAfterTheCommit) {
  Stage(Contribution(1, 1, 1, 0.5F));
  Stage(Contribution(1, 1, 1, 0.5F));
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 28U);
  ExpectCommitted(Commit(1, {Of(1, 1)}));
  Stage(Contribution(1, 1, 1, 0.5F));
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 0U);
  EXPECT_THAT(rig_.Versions(), ElementsAre(1, 1, 1));
}

TEST_F(BspTest, WhatAGoneMemberStagedIsKeptAsLongAsItIsAskedFor) {
  Stage(Contribution(2, 1, 1, 0.5F));
  proto::Membership without = rig_.MembersUpTo(1);
  without.resolve = {Incarnation(2)};
  rig_.Deliver(kCoordinator, without);
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 28U);
  rig_.Deliver(kCoordinator, rig_.MembersUpTo(1));
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 0U) << "its room is free for a replacement";
}

TEST_F(BspTest, PiecesInAnyOrderMakeOneContribution) {
  for (const ChunkKey key : {kThird, kThird, kFirst, kThird}) {
    proto::PushRequest push = rig_.Frame(1, 1, {key}, 0.5F);
    push.round = 1;
    rig_.Push(push);
  }
  EXPECT_TRUE(rig_.sent.all.empty());
  Stage(Contribution(1, 1, 1, 0.5F));  // a repetition brings the missing one
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 28U);
  ExpectCommitted(Commit(1, {Of(1, 1)}));
  EXPECT_THAT(rig_.Values(), ElementsAre(0.5F, 0.5F, 0.5F));
}

TEST_F(BspTest, BorrowedPayloadsAreCopied) {
  proto::PushRequest push = Contribution(1, 1, 1, 0.5F);
  std::vector<float> values(7, 0.5F);
  push.payload = proto::Payload();
  push.payload.parts.push_back(std::as_bytes(std::span(values)));
  Stage(push);
  values.assign(7, 99);
  ExpectCommitted(Commit(1, {Of(1, 1)}));
  EXPECT_THAT(rig_.Values(), ElementsAre(0.5F, 0.5F, 0.5F));
}

TEST_F(BspTest, ARejectedContributionIsNotKept) {
  proto::PushRequest good = rig_.Frame(1, 1, {kFirst}, 0.5F);
  proto::PushRequest bad = rig_.Frame(1, 1, {kSecond}, std::numeric_limits<float>::infinity());
  proto::PushRequest rest = rig_.Frame(1, 1, {kThird}, 0.5F);
  for (proto::PushRequest* push : {&good, &bad, &rest}) {
    push->round = 1;
    rig_.Push(*push);
  }
  const proto::PushReply reply = rig_.OnlyPushReply();
  EXPECT_EQ(reply.outcome, PushOutcome::kRejected);
  EXPECT_EQ(reply.rejected_chunks, 1U);
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 0U);
  ExpectCommitRefused(Commit(1, {Of(1, 1)}));
  ExpectCommitted(Commit(1, {}));
  // It goes on with the next round.
  Stage(Contribution(1, 2, 2, 0.5F));
}

TEST_F(BspTest, StagingHasALimit) {
  ShardRig rig(proto::Mode::kBsp);
  rig.settings.queue_bytes = 28 + 20;
  rig.SetUp();
  proto::PushRequest first = rig.WholeStep(1, 1, 0.5F);
  first.round = 1;
  rig.Push(first);
  EXPECT_EQ(rig.OnlyPushReply().outcome, PushOutcome::kStaged);
  proto::PushRequest second = rig.WholeStep(2, 1, 0.5F);
  second.round = 1;
  rig.Push(second);
  const proto::Refusal refusal = rig.OnlyRefusal();
  EXPECT_EQ(refusal.code, StatusCode::kOverloaded);
  EXPECT_GT(refusal.retry_after_ms, 0U);
  EXPECT_THAT(refusal.message, HasSubstr("servers.queue_mib"));
  EXPECT_EQ(rig.core.Stats().staged_bytes, 28U);
  // A repetition of what is there needs no room.
  proto::PushRequest part = rig.Frame(2, 1, {kFirst, kSecond}, 0.5F);
  part.round = 1;
  rig.Push(part);
  rig.Push(part);
  EXPECT_TRUE(rig.Take<proto::Refusal>().empty());
  EXPECT_EQ(rig.core.Stats().staged_bytes, 28U + 16U);
  // Room comes with the commit.
  rig.Deliver(kCoordinator, Commit(1, {Of(1, 1)}));
  second.round = 2;
  rig.Push(second);
  EXPECT_EQ(rig.OnlyPushReply().outcome, PushOutcome::kStaged);
}

TEST_F(BspTest, APullWaitsForItsRound) {
  proto::PullRequest pull = rig_.PullAll(1);
  pull.min_round = 1;
  rig_.Pull(pull);
  EXPECT_TRUE(rig_.sent.all.empty());
  Stage(Contribution(1, 1, 1, 0.5F));
  EXPECT_TRUE(rig_.Take<proto::PullReply>().empty());
  rig_.Deliver(kCoordinator, Commit(1, {Of(1, 1)}));
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_EQ(pulls[0].values, std::vector<float>(7, 0.5F));
  EXPECT_EQ(pulls[0].message.chunks[0].version, 1U);
}

TEST_F(BspTest, AFusedPullIsAnsweredByTheCommit) {
  proto::PushRequest push = Contribution(1, 1, 1, 0.5F);
  push.wants_pull = true;
  rig_.Push(push, 77);
  EXPECT_EQ(rig_.OnlyPushReply().outcome, PushOutcome::kStaged);
  EXPECT_TRUE(rig_.sent.all.empty());
  rig_.Deliver(kCoordinator, Commit(1, {Of(1, 1)}));
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_EQ(pulls[0].request_id, 77U);
}

TEST_F(BspTest, AnEvaluationWaitsForTheRoundThatItIsOf) {
  proto::PullRequest pull = rig_.PullAll(1);
  pull.min_round = 1;
  pull.is_evaluation = true;
  rig_.Pull(pull);
  EXPECT_TRUE(rig_.sent.all.empty());
  ExpectCommitted(Commit(1, {}));
  EXPECT_EQ(rig_.Take<proto::PullReply>().size(), 1U);
}

TEST_F(BspTest, APullForARoundOutOfReachIsRefused) {
  proto::PullRequest pull = rig_.PullAll(1);
  pull.min_round = 2;
  rig_.Pull(pull);
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kInvalidArgument);
}

TEST_F(BspTest, AWaitNamesWhoIsMissingFromTheRound) {
  proto::PushRequest push = Contribution(1, 1, 1, 0.5F);
  push.wants_pull = true;
  Stage(push);
  Stage(Contribution(3, 1, 1, 0.5F));
  std::vector<proto::Wait> waits = rig_.core.Waits(rig_.now);
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].who, "w0");
  EXPECT_EQ(waits[0].for_whom, "w1");
  EXPECT_EQ(waits[0].what, "round 1 at shard 3");
  Stage(Contribution(2, 1, 1, 0.5F));
  waits = rig_.core.Waits(rig_.now);
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].for_whom, "coordinator");
}

TEST_F(BspTest, TheScheduleFollowsCommittedSamples) {
  ShardRig rig(proto::Mode::kBsp);
  rig.setup.total_samples = 4;
  rig.settings.optimizer.schedule.kind = proto::ScheduleKind::kLinear;
  rig.SetUp();
  proto::PushRequest push = rig.WholeStep(1, 1, 0.5F);
  push.round = 1;
  push.samples = 2;
  rig.Push(push);
  EXPECT_EQ(rig.core.Stats().lr, 1);
  rig.Deliver(kCoordinator, Commit(1, {Of(1, 1, 2)}));
  EXPECT_EQ(rig.core.Stats().lr, 0.5);
  EXPECT_THAT(rig.Values(), ElementsAre(0.5F, 0.5F, 0.5F));
}

TEST_F(BspTest, WhatADeadWorkerStagedInFullCanStillBeCommitted) {
  Stage(Contribution(1, 1, 1, 0.25F));
  Stage(Contribution(3, 1, 1, 0.75F));
  proto::Membership membership = rig_.MembersUpTo(2);
  membership.resolve = {Incarnation(3)};
  rig_.Deliver(kCoordinator, membership);
  ExpectCommitted(Commit(1, {Of(1, 1), Of(3, 1)}));
  EXPECT_THAT(rig_.Values(), ElementsAre(0.5F, 0.5F, 0.5F));
}

TEST_F(BspTest, WhatADeadWorkerLeftUnfinishedIsDropped) {
  proto::PushRequest push = rig_.Frame(3, 1, {kFirst}, 1);
  push.round = 1;
  rig_.Push(push);
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 8U);
  rig_.Deliver(kCoordinator, rig_.MembersUpTo(2));
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 0U);
}

TEST_F(BspTest, AShardWithoutChunksCommitsWhatOthersHold) {
  ShardRig rig(proto::Mode::kBsp);
  for (proto::ChunkAssignment& chunk : rig.setup.placement.chunks) {
    chunk.shard = ShardId(0);
  }
  rig.SetUp();
  rig.Deliver(kCoordinator, Commit(1, {Of(1, 1)}));
  EXPECT_EQ(rig.Take<proto::CommitAck>().size(), 1U);
  EXPECT_EQ(rig.core.Stats().round, 1U);
}

}  // namespace
}  // namespace ps::server
