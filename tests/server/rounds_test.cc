#include "ps/server/rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/shard_tables.h"

namespace ps::server {
namespace {

using ::testing::HasSubstr;

class RoundsTest : public ::testing::Test {
 protected:
  RoundsTest() {
    for (const uint64_t incarnation : {1U, 2U}) {
      proto::PushRequest push = tables_.Frame(
          incarnation, 1, {kFirst, kSecond, kThird}, 0.5F * static_cast<float>(incarnation));
      tables_.pushes.OnPush(tables_.From(PeerOf(0)), push);
    }
    tables_.sent.all.clear();
  }

  static proto::CommitRound Commit(uint64_t round) {
    proto::CommitRound commit;
    commit.round = round;
    commit.contributions = {
        {WorkerId(0), Incarnation(1), 1, 1}, {WorkerId(1), Incarnation(2), 1, 1}};
    return commit;
  }

  Rounds::Admission Admit(const proto::CommitRound& commit, bool are_chunks_leaving = false) {
    return rounds_.Admit(tables_.From(kCoordinator, 9), commit, are_chunks_leaving);
  }

  ShardTables tables_{proto::Mode::kBsp};
  Rounds& rounds_ = tables_.rounds;
};

TEST_F(RoundsTest, ARoundIsInTheParametersAfterItsLastSliceAndNotBefore) {
  tables_.life.settings.commit_slice_bytes = 8;  // a part of one of seven elements, twice
  ASSERT_EQ(Admit(Commit(1)), Rounds::Admission::kBegins);
  rounds_.Begin(Commit(1));
  EXPECT_EQ(rounds_.newest(), 1U);
  int slices = 1;
  for (; !rounds_.Continue(); ++slices) {
    EXPECT_TRUE(rounds_.is_committing());
    EXPECT_EQ(rounds_.committed(), 0U);
    EXPECT_GT(rounds_.staged_bytes(), 0U);
    EXPECT_EQ(tables_.schedule.samples_done(), 0U);
  }
  EXPECT_GT(slices, 1);
  EXPECT_EQ(rounds_.committed(), 1U);
  EXPECT_EQ(rounds_.staged_bytes(), 0U);
  EXPECT_EQ(tables_.FirstOf(kThird), 1 - 0.75F);
  EXPECT_EQ(tables_.schedule.samples_done(), 2U);
  EXPECT_TRUE(tables_.sent.all.empty());
  rounds_.Acknowledge(&tables_.sent);
  ASSERT_EQ(tables_.sent.all.size(), 1U);
  EXPECT_EQ(tables_.sent.all[0].to, kCoordinator);
  EXPECT_EQ(tables_.sent.all[0].request_id, 9U);
}

TEST_F(RoundsTest, ACommitThatComesAgainIsAnsweredOnceItIsOver) {
  Admit(Commit(1));
  rounds_.Begin(Commit(1));
  EXPECT_EQ(Admit(Commit(1)), Rounds::Admission::kUnderWay);
  EXPECT_EQ(Admit(Commit(2)), Rounds::Admission::kAnswered);
  EXPECT_THAT(tables_.Take<proto::Refusal>().at(0).message, HasSubstr("round 1 is under way"));
  while (!rounds_.Continue()) {
  }
  EXPECT_EQ(Admit(Commit(1)), Rounds::Admission::kAnswered);
  EXPECT_EQ(tables_.Take<proto::CommitAck>().at(0).round, 1U);
}

TEST_F(RoundsTest, NoneBeginsWhileChunksLeaveOrWithWhatIsNotStaged) {
  EXPECT_EQ(Admit(Commit(1), true), Rounds::Admission::kAnswered);
  EXPECT_EQ(tables_.Take<proto::Refusal>().at(0).code, StatusCode::kUnavailable);
  proto::CommitRound commit = Commit(1);
  commit.contributions[1].samples = 2;
  EXPECT_EQ(Admit(commit), Rounds::Admission::kAnswered);
  EXPECT_EQ(tables_.Take<proto::Refusal>().at(0).code, StatusCode::kInvalidArgument);
  EXPECT_EQ(Admit(Commit(2)), Rounds::Admission::kAnswered);
  EXPECT_THAT(tables_.Take<proto::Refusal>().at(0).message, HasSubstr("the last one was 0"));
}

TEST_F(RoundsTest, WhatIsStagedGoesWithTheModeAndTheRoundComesWithIt) {
  proto::Membership membership = tables_.membership;
  EXPECT_FALSE(rounds_.TakeMode(membership, 1));
  EXPECT_GT(rounds_.staged_bytes(), 0U);
  membership.mode.mode = proto::Mode::kAsync;
  EXPECT_TRUE(rounds_.TakeMode(membership, 1));
  EXPECT_EQ(rounds_.staged_bytes(), 0U);
  membership.mode.mode = proto::Mode::kBsp;
  membership.round = 40;
  EXPECT_TRUE(rounds_.TakeMode(membership, 1));
  EXPECT_EQ(rounds_.newest(), 40U);
}

}  // namespace
}  // namespace ps::server
