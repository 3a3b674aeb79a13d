#include "ps/server/applied_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/server/shard_tables.h"

namespace ps::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AppliedStepsTest : public ::testing::Test {
 protected:
  void Push(Step step, const std::vector<ChunkKey>& chunks) {
    proto::PushRequest push = tables_.Frame(1, step, chunks, 0.25F);
    tables_.pushes.OnPush(tables_.From(PeerOf(0)), push);
  }

  ShardTables tables_{proto::Mode::kAsync};
};

TEST_F(AppliedStepsTest, WhatIsSavedIsRestored) {
  Push(1, {kFirst, kSecond, kThird});
  Push(2, {kSecond});
  const std::vector<proto::MemberSteps> saved = tables_.steps.Saved();
  ASSERT_EQ(saved.size(), 3U);
  EXPECT_EQ(saved[0].last_step, 1U);
  EXPECT_THAT(saved[0].applied, ElementsAre(kSecond));
  EXPECT_THAT(saved[1].applied, IsEmpty());

  ShardTables later(proto::Mode::kAsync);
  later.steps.Restore({}, saved);
  EXPECT_TRUE(later.steps.HasStep(Incarnation(1), 1, kFirst));
  EXPECT_TRUE(later.steps.HasStep(Incarnation(1), 2, kSecond));
  EXPECT_FALSE(later.steps.HasStep(Incarnation(1), 2, kFirst));
  EXPECT_THAT(later.steps.Saved()[0].applied, ElementsAre(kSecond));
}

TEST_F(AppliedStepsTest, WhatIsCountedLaterThanSavedWins) {
  tables_.steps.Restore({{Incarnation(1), 7}}, {{Incarnation(1), 6, {kFirst}}});
  EXPECT_TRUE(tables_.steps.HasStep(Incarnation(1), 7, kThird));
  EXPECT_FALSE(tables_.steps.HasStep(Incarnation(1), 8, kFirst));
  EXPECT_TRUE(tables_.MemberOf(1).may_skip);
}

TEST_F(AppliedStepsTest, AChunkThatComesWithTheStepUnderWayNeedNotBePushed) {
  proto::ShardSetup setup = RigSetup();
  for (proto::ChunkAssignment& chunk : setup.placement.chunks) {
    chunk.shard = chunk.key == kThird ? kOther : chunk.shard;
  }
  ShardTables tables(proto::Mode::kAsync, setup);
  proto::PushRequest push = tables.Frame(1, 1, {kFirst}, 0.25F);
  tables.pushes.OnPush(tables.From(PeerOf(0)), push);
  Reindexing chunks(tables.store);
  std::vector<Chunk> come;
  come.push_back(tables.store.MakeChunk(kThird, 0).value());
  tables.store.Insert(std::move(come), 2);
  chunks.SetAfter(tables.store);
  tables.steps.Reindex(chunks);
  proto::ChunksOffer offer;
  offer.chunks = {{kThird, 1, {Incarnation(1)}}};
  tables.steps.Take(OfferedSteps(offer, tables.store), false);
  EXPECT_TRUE(tables.steps.HasStep(Incarnation(1), 1, kThird));
  EXPECT_EQ(tables.MemberOf(1).intake.complete_count, 2U);
}

TEST_F(AppliedStepsTest, WhatIsNotWholeOfAChunkThatLeavesComesAnewElsewhere) {
  Push(1, {kFirst});
  tables_.steps.ForgetUnfinished(0);
  tables_.steps.ForgetUnfinished(1);
  EXPECT_TRUE(tables_.steps.HasStep(Incarnation(1), 1, kFirst)) << "it was whole";
  EXPECT_EQ(tables_.MemberOf(1).intake.begun_count, 1U);
  EXPECT_THAT(tables_.steps.AheadIn({0, 1}, tables_.MemberOf(1)), ElementsAre(true, false));
  tables_.steps.DropOpenSteps();
  EXPECT_FALSE(tables_.steps.HasStep(Incarnation(1), 1, kFirst));
}

/// What was said of an earlier step, when other chunks were here, says nothing of one that comes.
TEST_F(AppliedStepsTest, AStepThatIsCompleteByAMoveIsNotRejectedForAnEarlierOne) {
  proto::PushRequest push =
      tables_.Frame(1, 1, {kFirst, kSecond, kThird}, std::numeric_limits<float>::quiet_NaN());
  tables_.pushes.OnPush(tables_.From(PeerOf(0)), push);
  ASSERT_EQ(tables_.MemberOf(1).last_outcome, proto::PushOutcome::kRejected);
  proto::ChunksOffer offer;
  for (const ChunkKey key : {kFirst, kSecond, kThird}) {
    offer.chunks.push_back({key, 5, {Incarnation(1)}});
  }
  proto::OfferedMember member;
  member.incarnation = Incarnation(1);
  member.last_step = 4;
  offer.members = {member};
  tables_.steps.Take(OfferedSteps(offer, tables_.store), true);
  EXPECT_EQ(tables_.MemberOf(1).last_step, 5U);
  EXPECT_EQ(tables_.MemberOf(1).last_outcome, proto::PushOutcome::kApplied);
  // One that was rejected where the chunks come from still is.
  member.is_rejected = true;
  offer.members = {member};
  for (auto& chunk : offer.chunks) {
    chunk.ahead.clear();
  }
  tables_.steps.Take(OfferedSteps(offer, tables_.store), true);
  EXPECT_EQ(tables_.MemberOf(1).last_step, 4U);
  EXPECT_EQ(tables_.MemberOf(1).last_outcome, proto::PushOutcome::kRejected);
}

}  // namespace
}  // namespace ps::server
