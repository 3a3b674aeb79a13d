#include "ps/server/push_intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/shard_tables.h"

namespace ps::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(PushIntakeTest, AChunkIsAppliedOnceAndAStepAcknowledgedWhenAllOfItIsHere) {
  ShardTables tables(proto::Mode::kAsync);
  for (const ChunkKey key : {kThird, kFirst, kThird}) {
    proto::PushRequest push = tables.Frame(1, 1, {key}, 0.25F);
    tables.pushes.OnPush(tables.From(PeerOf(0)), push);
  }
  EXPECT_EQ(tables.FirstOf(kThird), 0.75F);
  EXPECT_EQ(tables.counters.chunks_duplicate, 1U);
  EXPECT_THAT(tables.sent.all, IsEmpty());
  EXPECT_TRUE(tables.steps.HasStep(Incarnation(1), 1, kThird));
  EXPECT_FALSE(tables.steps.HasStep(Incarnation(1), 1, kSecond));
  proto::PushRequest last = tables.Frame(1, 1, {kSecond}, 0.25F);
  tables.pushes.OnPush(tables.From(PeerOf(0)), last);
  EXPECT_THAT(tables.Take<proto::PushReply>(), SizeIs(1));
  EXPECT_EQ(tables.schedule.samples_done(), 1U);
  EXPECT_EQ(tables.MemberOf(1).clock, 1U);
}

TEST(PushIntakeTest, BspStagesUpToTheQueuesLimit) {
  ShardTables tables(proto::Mode::kBsp);
  tables.life.settings.queue_bytes = 7 * sizeof(float);
  proto::PushRequest first = tables.Frame(1, 1, {kFirst, kSecond, kThird}, 0.25F);
  tables.pushes.OnPush(tables.From(PeerOf(0)), first);
  EXPECT_EQ(tables.Take<proto::PushReply>().at(0).outcome, proto::PushOutcome::kStaged);
  proto::PushRequest second = tables.Frame(2, 1, {kFirst}, 0.25F);
  tables.pushes.OnPush(tables.From(PeerOf(1)), second);
  const proto::Refusal refusal = tables.Take<proto::Refusal>().at(0);
  EXPECT_EQ(refusal.code, StatusCode::kOverloaded);
  EXPECT_EQ(refusal.retry_after_ms, 20U);
  EXPECT_THAT(refusal.message, HasSubstr("holds 28 bytes"));
  EXPECT_EQ(tables.rounds.staged_bytes(), 28U);
  EXPECT_EQ(tables.FirstOf(kFirst), 1) << "parameters change by commits alone";
}

TEST(PushIntakeTest, AStepIsCompleteWhenWhatItLackedHasLeft) {
  ShardTables tables(proto::Mode::kAsync);
  proto::PushRequest push = tables.Frame(1, 1, {kFirst, kThird}, 0.25F);
  push.wants_pull = true;
  tables.pushes.OnPush(tables.From(PeerOf(0), 12), push);
  EXPECT_THAT(tables.sent.all, IsEmpty());
  Reindexing chunks(tables.store);
  const std::vector<ChunkKey> gone = {kSecond};
  tables.store.Remove(gone, 5);
  chunks.SetAfter(tables.store);
  tables.steps.Reindex(chunks);
  tables.pushes.CompleteSteps(tables.now, &tables.sent);
  ASSERT_THAT(tables.sent.all, SizeIs(2));
  const auto* const reply = std::get_if<proto::PushReply>(&tables.sent.all[0].message);
  ASSERT_NE(reply, nullptr);
  EXPECT_EQ(reply->placement, 5U);
  EXPECT_EQ(tables.sent.all[0].request_id, 12U);
  EXPECT_TRUE(std::holds_alternative<proto::PullReply>(tables.sent.all[1].message));
}

TEST(PushIntakeTest, NothingIsAnsweredOverAConnectionThatIsGone) {
  ShardTables tables(proto::Mode::kAsync);
  proto::PushRequest push = tables.Frame(1, 1, {kFirst, kThird}, 0.25F);
  push.wants_pull = true;
  tables.pushes.OnPush(tables.From(PeerOf(0)), push);
  tables.pushes.OnPeerClosed(PeerOf(0));
  proto::PushRequest rest = tables.Frame(1, 1, {kSecond}, 0.25F);
  tables.pushes.OnPush(tables.From(PeerOf(5)), rest);
  ASSERT_THAT(tables.sent.all, SizeIs(1));
  EXPECT_EQ(tables.sent.all[0].to, PeerOf(5));
}

}  // namespace
}  // namespace ps::server
