// ChunkGiver and ChunkTaker, each with the tables of its own shard, and the messages between them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/server/chunks/chunk_giver.h"
#include "ps/server/chunks/chunk_taker.h"
#include "tests/server/shard_tables.h"

namespace ps::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ChunkExchangeTest : public ::testing::Test {
 protected:
  explicit ChunkExchangeTest(proto::Mode mode = proto::Mode::kAsync) : from_(mode), to_(mode) {
    proto::ShardSetup setup = RigSetup();
    for (proto::ChunkAssignment& chunk : setup.placement.chunks) {
      chunk.shard = chunk.key == kForeign ? kShard : kOther;
    }
    to_.store = ChunkStore::Make(kShard, to_.life.settings, setup).value();
  }

  void Push(ShardTables* tables, const std::vector<ChunkKey>& chunks) {
    proto::PushRequest push = tables->Frame(1, 1, chunks, 0.25F);
    tables->pushes.OnPush(tables->From(PeerOf(0)), push);
    tables->sent.all.clear();
  }

  void Give(std::vector<ChunkKey> keys) {
    const proto::GiveChunks order{2, {kOther, "other", 4712}, 1, std::move(keys)};
    giver_.OnGiveChunks(from_.From(kCoordinator), order);
    giver_.OnDialed(kOther, kOtherPeer, from_.now, &from_.sent);
  }

  /// Delivers what the giver has sent. Returns whether all of an offer has come.
  bool Deliver() {
    bool is_all = false;
    for (SentMessages::Sent& s : std::exchange(from_.sent.all, {})) {
      const Call call = to_.From(kGiver, s.request_id);
      if (auto* const offer = std::get_if<proto::ChunksOffer>(&s.message)) {
        taker_.OnOffer(call, *offer);
      } else if (auto* const part = std::get_if<proto::ChunkPart>(&s.message)) {
        is_all = taker_.OnPart(call, *part) || is_all;
      }
    }
    return is_all;
  }

  void Finish() {
    to_.steps.Reindex(taker_.Insert());
    taker_.Finish(&to_.sent);
    giver_.OnReceiver(from_.From(kOtherPeer), to_.Take<proto::ChunksTaken>().at(0));
  }

  ShardTables from_;
  ShardTables to_;
  RigDialer dialer_;
  ChunkGiver giver_{
      from_.life,
      from_.store,
      from_.roster,
      from_.staging,
      from_.rounds,
      from_.schedule,
      from_.steps,
      from_.pulls,
      from_.counters,
      &dialer_,
      NullLogger()};
  ChunkTaker taker_{
      to_.life,
      to_.store,
      to_.roster,
      to_.staging,
      to_.rounds,
      to_.schedule,
      to_.steps,
      to_.counters,
      NullLogger()};
};

TEST_F(ChunkExchangeTest, TheGiverForgetsAChunkWhenTheTakerHasIt) {
  Push(&from_, {kFirst, kSecond});
  Give({kSecond});
  EXPECT_FALSE(giver_.TakeAway(from_.now).has_value());
  Push(&to_, {kForeign});
  ASSERT_TRUE(Deliver());
  Finish();
  EXPECT_EQ(to_.FirstOf(kSecond), 0.75F);
  EXPECT_EQ(to_.store.placement(), 2U);
  EXPECT_TRUE(to_.steps.HasStep(Incarnation(1), 1, kSecond));
  const std::optional<Reindexing> chunks = giver_.TakeAway(from_.now);
  ASSERT_TRUE(chunks.has_value());
  EXPECT_THAT(chunks->later(), ElementsAre(0U, std::nullopt, 1U));
  EXPECT_FALSE(from_.store.IndexOf(kSecond).has_value());
  EXPECT_FALSE(giver_.is_giving());
  EXPECT_TRUE(giver_.IsReceiver(kOtherPeer)) << "more may follow";
}

TEST_F(ChunkExchangeTest, NothingChangesBeforeAllPartsOfAnOfferHaveCome) {
  Give({kFirst, kThird});
  from_.sent.all.pop_back();
  EXPECT_FALSE(Deliver());
  EXPECT_EQ(to_.store.size(), 1U);
  taker_.OnPeerClosed(kGiver);
  giver_.OnPeerClosed(kOtherPeer, from_.now);
  EXPECT_FALSE(giver_.IsReceiver(kOtherPeer));
  from_.now += std::chrono::seconds(1);
  giver_.OnTick(from_.now, &from_.sent);
  EXPECT_THAT(dialer_.dialled, SizeIs(2));
  giver_.OnDialed(kOther, kOtherPeer, from_.now, &from_.sent);
  EXPECT_TRUE(Deliver());
}

TEST_F(ChunkExchangeTest, AChunkThatIsLeavingStaysSoWhenAnotherOneComes) {
  proto::ShardSetup setup = RigSetup();
  setup.placement.chunks[0].shard = kOther;
  from_.store = ChunkStore::Make(kShard, from_.life.settings, setup).value();
  Give({kSecond});
  std::vector<Chunk> come;
  come.push_back(from_.store.MakeChunk(kFirst, 0).value());
  from_.store.Insert(std::move(come), 3);
  EXPECT_FALSE(from_.store.chunks()[0].is_leaving);
  EXPECT_TRUE(from_.store.chunks()[1].is_leaving);
  EXPECT_FALSE(from_.store.chunks()[2].is_leaving);
}

class BspChunkExchangeTest : public ChunkExchangeTest {
 protected:
  BspChunkExchangeTest() : ChunkExchangeTest(proto::Mode::kBsp) {}
};

TEST_F(BspChunkExchangeTest, AGradientThatWaitsForItsRoundComesWithItsChunk) {
  Push(&from_, {kFirst, kSecond, kThird});
  Give({kThird});
  ASSERT_TRUE(Deliver());
  Finish();
  const Staging::Contribution* const staged = to_.staging.Find({Incarnation(1), 1});
  ASSERT_NE(staged, nullptr);
  EXPECT_EQ(staged->round, 1U);
  EXPECT_EQ(staged->bytes, 3 * sizeof(float));
  EXPECT_FALSE(staged->is_complete) << "the other chunk's is still to come";
}

TEST_F(BspChunkExchangeTest, AnswersWaitForChunksThatAreBeingSent) {
  giver_.OnRound(from_.now);
  from_.now += std::chrono::milliseconds(400);
  giver_.OnRound(from_.now);
  from_.sent.slow = kOtherPeer;
  from_.sent.has_frame = true;
  Give({kFirst, kThird});
  proto::PullRequest pull;
  pull.incarnation = Incarnation(1);
  from_.pulls.OnPull(from_.From(PeerOf(0)), pull);
  EXPECT_THAT(from_.Take<proto::PullReply>(), IsEmpty());
  from_.sent.has_frame = false;
  giver_.OnDrained(kOtherPeer, &from_.sent);
  EXPECT_THAT(from_.Take<proto::PullReply>(), SizeIs(1)) << "all chunks are sent";
}

}  // namespace
}  // namespace ps::server
