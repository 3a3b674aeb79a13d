// Chunks that a shard gives to another one, and gets, while pushes and pulls come in.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "ps/proto/move_limits.h"
#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class GiveTest : public ::testing::Test {
 protected:
  GiveTest() {
    rig_.SetUp();
    rig_.Deliver(kCoordinator, rig_.MembersUpTo(2));
    rig_.sent.all.clear();
  }

  proto::GiveChunks Order(std::vector<ChunkKey> keys) {
    return {2, {kOther, "other", 4712}, 1, std::move(keys)};
  }

  void Give(std::vector<ChunkKey> keys) {
    rig_.Deliver(kCoordinator, Order(std::move(keys)));
    rig_.core.OnDialed(kOther, kOtherPeer, rig_.now, &rig_.sent);
  }

  proto::ChunksOffer OnlyOffer() {
    const auto offers = rig_.Take<proto::ChunksOffer>();
    EXPECT_EQ(offers.size(), 1U);
    return offers.empty() ? proto::ChunksOffer() : offers.back().message;
  }

  void Taken(uint64_t generation = 1) {
    rig_.Deliver(kOtherPeer, proto::ChunksTaken{2, Generation(generation)});
  }

  ShardRig rig_;
};

TEST_F(GiveTest, AChunkIsSentAsItIsAndForgottenWhenTheOtherShardHasIt) {
  rig_.Push(rig_.WholeStep(1, 1, 0.5F));
  Give({kFirst});
  ASSERT_EQ(rig_.dialer.dialled.size(), 1U);
  EXPECT_EQ(rig_.dialer.dialled[0].host, "other");
  const proto::ChunksOffer offer = OnlyOffer();
  ASSERT_EQ(offer.chunks.size(), 1U);
  EXPECT_EQ(offer.chunks[0].key, kFirst);
  EXPECT_EQ(offer.chunks[0].version, 1U);
  ASSERT_EQ(offer.members.size(), 2U);
  EXPECT_EQ(offer.members[0].last_step, 1U);
  EXPECT_EQ(offer.members[1].last_step, 0U);
  EXPECT_EQ(rig_.Take<proto::ChunkPart>().size(), 1U);
  EXPECT_TRUE(rig_.core.HasChunk(kFirst)) << "until the other one has it";
  Taken();
  EXPECT_FALSE(rig_.core.HasChunk(kFirst));
  EXPECT_EQ(rig_.Take<proto::ChunksGiven>().back().message.version, 2U);
}

TEST_F(GiveTest, AConnectionIsKeptForMoreChunksAndClosedWhenNoneFollow) {
  Give({kFirst});
  Taken();
  EXPECT_FALSE(rig_.sent.closed.contains(kOtherPeer));
  rig_.sent.all.clear();
  proto::GiveChunks more = Order({kSecond});
  more.version = 3;
  rig_.Deliver(kCoordinator, more);
  EXPECT_EQ(rig_.dialer.dialled.size(), 1U);
  EXPECT_EQ(OnlyOffer().version, 3U);
  Taken();
  EXPECT_TRUE(rig_.core.HasChunk(kSecond)) << "that was said of the chunks before";
  rig_.Deliver(kOtherPeer, proto::ChunksTaken{3, Generation(1)});
  EXPECT_FALSE(rig_.core.HasChunk(kSecond));
  rig_.Deliver(kOtherPeer, proto::ChunksTaken{3, Generation(1)});
  rig_.Wait(rig_.core.timing().retry_limit * 2);
  EXPECT_TRUE(rig_.sent.closed.contains(kOtherPeer));
}

TEST_F(GiveTest, AConnectionThatBrokeMeanwhileIsMadeAgain) {
  Give({kFirst});
  Taken();
  rig_.core.OnPeerClosed(kOtherPeer, rig_.now, &rig_.sent);
  proto::GiveChunks more = Order({kSecond});
  more.version = 3;
  rig_.Deliver(kCoordinator, more);
  EXPECT_EQ(rig_.dialer.dialled.size(), 2U);
}

TEST_F(GiveTest, AStepThatComesMeanwhileIsAcknowledgedForTheChunksThatStay) {
  Give({kFirst});
  rig_.Push(rig_.WholeStep(1, 1, 0.5F));
  EXPECT_THAT(rig_.Take<proto::PushReply>(), IsEmpty());
  EXPECT_EQ(rig_.core.VersionOf(kFirst), 0U) << "nothing changes what is on its way";
  EXPECT_EQ(rig_.core.VersionOf(kSecond), 1U);
  Taken();
  const auto replies = rig_.Take<proto::PushReply>();
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].to, PeerOf(0));
  EXPECT_EQ(replies[0].message.placement, 2U) << "by which the worker sees what it holds for";
}

TEST_F(GiveTest, OfAChunkThatHadComeInPartTheOtherShardKnowsNothing) {
  rig_.Push(rig_.Frame(1, 1, {kFirst}, 0.5F));
  rig_.Push(rig_.Frame(2, 1, {kSecond}, 0.5F));
  Give({kFirst, kSecond});
  const proto::ChunksOffer offer = OnlyOffer();
  EXPECT_THAT(offer.chunks[0].ahead, ElementsAre(Incarnation(1)));
  EXPECT_THAT(offer.chunks[1].ahead, ElementsAre(Incarnation(2)));
}

TEST_F(GiveTest, AWorkerThatDoesNotKnowYetIsNotRefused) {
  Give({kFirst});
  Taken();
  rig_.Push(rig_.WholeStep(1, 1, 0.5F));
  const proto::PushReply reply = rig_.OnlyPushReply();
  EXPECT_EQ(reply.placement, 2U);
  EXPECT_EQ(rig_.core.VersionOf(kSecond), 1U);
  rig_.Pull(rig_.PullAll(1));
  const auto answers = rig_.Take<proto::PullReply>();
  ASSERT_FALSE(answers.empty());
  EXPECT_EQ(answers.back().message.chunk_total, 2U);
  EXPECT_EQ(answers.back().message.placement, 2U);
}

TEST_F(GiveTest, AWorkerThatKnowsAndAsksForItAllTheSameIsRefused) {
  Give({kFirst});
  Taken();
  proto::PushRequest push = rig_.WholeStep(1, 1, 0.5F);
  push.placement = 2;
  push.chunk_count = 2;
  rig_.Push(push);
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kInvalidArgument);
}

TEST_F(GiveTest, ItIsForgottenOnlyWhenTheNewestMembershipIsKnownHereToo) {
  Give({kFirst});
  Taken(3);
  EXPECT_TRUE(rig_.core.HasChunk(kFirst));
  rig_.Deliver(kCoordinator, rig_.MembersUpTo(1));
  EXPECT_FALSE(rig_.core.HasChunk(kFirst));
}

TEST_F(GiveTest, AnOfferThatIsLostIsMadeAgain) {
  Give({kFirst});
  OnlyOffer();
  rig_.Wait(rig_.core.timing().retry_limit * 2);
  EXPECT_GE(rig_.Take<proto::ChunksOffer>().size(), 1U);
  rig_.core.OnPeerClosed(kOtherPeer, rig_.now, &rig_.sent);
  rig_.Wait(seconds(1));
  EXPECT_GE(rig_.dialer.dialled.size(), 2U);
}

/// Over a thin link they take longer than any wait for an answer.
TEST_F(GiveTest, ChunksThatAreStillLeavingAreNotOfferedAnew) {
  rig_.sent.slow = kOtherPeer;
  rig_.sent.has_frame = true;
  Give({kFirst, kThird});
  OnlyOffer();
  rig_.Wait(rig_.core.timing().retry_limit * 5);
  EXPECT_EQ(rig_.Take<proto::ChunksOffer>().size(), 0U);
  rig_.sent.has_frame = false;
  rig_.core.OnDrained(kOtherPeer, &rig_.sent);
  EXPECT_GE(rig_.Take<proto::ChunkPart>().size(), 2U);
  rig_.sent.has_frame = false;
  rig_.Wait(rig_.core.timing().retry_limit * 2);
  EXPECT_GE(rig_.Take<proto::ChunksOffer>().size(), 1U) << "the answer does not come";
}

TEST_F(GiveTest, AnOrderThatWasDoneIsSaidAgain) {
  Give({kFirst});
  Taken();
  rig_.Take<proto::ChunksGiven>();
  rig_.Deliver(kCoordinator, Order({kFirst}));
  EXPECT_EQ(rig_.Take<proto::ChunksGiven>().size(), 1U);
  EXPECT_EQ(rig_.dialer.dialled.size(), 1U);
}

TEST_F(GiveTest, WhatIsNotHereCannotBeGiven) {
  rig_.Deliver(kCoordinator, Order({kForeign}));
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kInvalidArgument);
}

TEST_F(GiveTest, AShardThatHasNoChunksLeftHasEveryStepOfWhoIsGone) {
  Give({kFirst, kSecond, kThird});
  Taken();
  rig_.Push(rig_.WholeStep(1, 1, 0.5F));
  EXPECT_THAT(rig_.Take<proto::PushReply>(), IsEmpty());
  proto::Membership membership = rig_.MembersUpTo(1);
  membership.resolve = {Incarnation(2)};
  rig_.Deliver(kCoordinator, membership);
  const auto acks = rig_.Take<proto::MembershipAck>();
  ASSERT_FALSE(acks.empty());
  ASSERT_EQ(acks.back().message.resolved.size(), 1U);
  EXPECT_EQ(acks.back().message.resolved[0].last_complete_step, proto::kEveryStep);
}

/// kForeign comes from another shard.
class TakeTest : public ::testing::Test {
 protected:
  TakeTest() {
    rig_.SetUp();
    rig_.Deliver(kCoordinator, rig_.MembersUpTo(2));
    rig_.sent.all.clear();
  }

  /// The giver has so many steps of worker 1, and the step after them in the chunk or not.
  proto::ChunksOffer Offer(Step last_step, bool is_ahead) const {
    proto::ChunksOffer offer;
    offer.from = kOther;
    offer.version = 2;
    offer.to_life = rig_.setup.life;
    offer.generation = Generation(1);
    offer.members = {{Incarnation(1), last_step, last_step, false, true}};
    offer.chunks = {{kForeign, 7, {}}};
    if (is_ahead) {
      offer.chunks[0].ahead.push_back(Incarnation(1));
    }
    return offer;
  }

  proto::ChunkPart Part() const {
    proto::ChunkPart part;
    part.version = 2;
    part.chunks = {{kForeign, 5, 0}};
    auto buffer = std::make_shared<Buffer>(5 * sizeof(float));
    std::ranges::fill(buffer->floats(), 4.0F);
    part.payload = proto::Payload::Own(std::move(buffer), 5 * sizeof(float));
    return part;
  }

  void Take(const proto::ChunksOffer& offer) {
    rig_.Deliver(kGiver, offer);
    rig_.Deliver(kGiver, Part());
  }

  /// A step of worker 1 in all four chunks, or some of them.
  proto::PushRequest Step4(Step step, const std::vector<ChunkKey>& keys) const {
    proto::PushRequest push = rig_.Frame(1, step, keys, 0.5F);
    push.chunk_count = 4;
    push.placement = 2;
    return push;
  }

  ShardRig rig_;
};

TEST_F(TakeTest, AChunkIsHereWhenAllOfItHasCome) {
  rig_.Deliver(kGiver, Offer(0, false));
  EXPECT_FALSE(rig_.core.HasChunk(kForeign));
  rig_.Deliver(kGiver, Part());
  ASSERT_TRUE(rig_.core.HasChunk(kForeign));
  EXPECT_EQ(rig_.core.VersionOf(kForeign), 7U);
  EXPECT_THAT(rig_.core.ValuesOf(kForeign), ElementsAre(4, 4, 4, 4, 4));
  const auto taken = rig_.Take<proto::ChunksTaken>();
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(taken[0].to, kGiver);
  EXPECT_EQ(taken[0].message.version, 2U);
  rig_.Deliver(kGiver, Offer(0, false));
  EXPECT_EQ(rig_.Take<proto::ChunksTaken>().size(), 1U) << "the answer was lost";
}

TEST_F(TakeTest, AStepThatItHasAlreadyIsNotAppliedToItAgain) {
  Take(Offer(0, true));
  rig_.Push(Step4(1, {kFirst, kSecond, kThird, kForeign}));
  EXPECT_EQ(rig_.OnlyPushReply().step, 1U);
  EXPECT_EQ(rig_.core.VersionOf(kForeign), 7U);
  EXPECT_EQ(rig_.core.VersionOf(kFirst), 1U);
}

TEST_F(TakeTest, AStepThatItLacksIsUnderWayAgainForItAlone) {
  rig_.Push(rig_.WholeStep(1, 1, 0.5F));
  rig_.Take<proto::PushReply>();
  const uint64_t steps = rig_.core.Stats().steps_applied;
  Take(Offer(0, false));
  rig_.Push(Step4(1, {kForeign}));
  EXPECT_EQ(rig_.OnlyPushReply().step, 1U);
  EXPECT_EQ(rig_.core.VersionOf(kForeign), 8U);
  EXPECT_EQ(rig_.core.VersionOf(kFirst), 1U);
  EXPECT_EQ(rig_.core.Stats().steps_applied, steps) << "one step counts once";
  rig_.Push(Step4(2, {kFirst, kSecond, kThird, kForeign}));
  EXPECT_EQ(rig_.OnlyPushReply().step, 2U);
}

TEST_F(TakeTest, AStepThatIsUnderWayAgainIsNotCountedTwiceWhereAChunkGoesNext) {
  rig_.Push(rig_.WholeStep(1, 1, 0.5F));
  Take(Offer(0, false));
  rig_.sent.all.clear();
  rig_.Deliver(kCoordinator, proto::GiveChunks{3, {kOther, "other", 4712}, 1, {kFirst}});
  rig_.core.OnDialed(kOther, kOtherPeer, rig_.now, &rig_.sent);
  const auto offers = rig_.Take<proto::ChunksOffer>();
  ASSERT_EQ(offers.size(), 1U);
  const proto::OfferedMember& member = offers[0].message.members[0];
  EXPECT_EQ(member.last_step, 0U);
  EXPECT_EQ(member.clock, 0U);
  EXPECT_THAT(offers[0].message.chunks[0].ahead, ElementsAre(Incarnation(1)));
}

TEST_F(TakeTest, AStepIsCompleteWhenTheChunksThatLackItHaveLeft) {
  Take(Offer(0, true));
  rig_.Deliver(
      kCoordinator, proto::GiveChunks{3, {kOther, "other", 4712}, 1, {kFirst, kSecond, kThird}});
  rig_.core.OnDialed(kOther, kOtherPeer, rig_.now, &rig_.sent);
  rig_.Deliver(kOtherPeer, proto::ChunksTaken{3, Generation(1)});
  ASSERT_FALSE(rig_.core.HasChunk(kFirst));
  proto::Membership membership = rig_.MembersUpTo(0);
  membership.incarnation_max = Incarnation(2);
  membership.resolve = {Incarnation(1)};
  rig_.Deliver(kCoordinator, membership);
  const auto acks = rig_.Take<proto::MembershipAck>();
  ASSERT_FALSE(acks.empty());
  EXPECT_EQ(acks.back().message.resolved[0].last_complete_step, 1U);
}

/// Both shards began a new life, from parts of one checkpoint of which one has the step.
TEST_F(TakeTest, AStepIsUnderWayAgainAlsoWhereBothShardsHaveLostALife) {
  ShardRig rig;
  rig.setup.counted = {{Incarnation(1), 1}};
  rig.SetUp();
  rig.sent.all.clear();
  proto::ChunksOffer offer = Offer(0, false);
  offer.members[0].may_skip = true;
  rig.Deliver(kGiver, offer);
  rig.Deliver(kGiver, Part());
  rig.Push(Step4(1, {kFirst, kSecond, kThird, kForeign}));
  EXPECT_EQ(rig.OnlyPushReply().step, 1U);
  EXPECT_EQ(rig.core.VersionOf(kForeign), 8U);
  EXPECT_EQ(rig.core.VersionOf(kFirst), 0U);
}

/// Two chunks come. The first one lacks, or has, the step that is under way; the second one also
/// lacks earlier steps, which its shard lost with a life.
class TakeOfLostStepsTest : public TakeTest {
 protected:
  TakeOfLostStepsTest() {
    lost_.setup.placement.chunks[2].shard = kOther;
    lost_.SetUp();
    for (Step step = 1; step <= 2; ++step) {
      Push(step, {kFirst, kSecond}, 0);
    }
    lost_.sent.all.clear();
  }

  void Push(Step step, const std::vector<ChunkKey>& keys, uint64_t placement) {
    proto::PushRequest push = lost_.Frame(1, step, keys, 0.5F);
    push.chunk_count = static_cast<uint32_t>(keys.size());
    push.placement = placement;
    lost_.Push(push);
  }

  void TakeThird(Step last_step, bool is_ahead) {
    proto::ChunksOffer offer = Offer(last_step, is_ahead);
    offer.chunks[0].key = kThird;
    offer.members[0].may_skip = true;
    proto::ChunkPart part = Part();
    part.chunks = {{kThird, 3, 0}};
    constexpr size_t kBytes = 3 * sizeof(float);
    part.payload = proto::Payload::Own(std::make_shared<Buffer>(kBytes), kBytes);
    lost_.Deliver(kGiver, offer);
    lost_.Deliver(kGiver, part);
  }

  void TakeForeign(Step last_step) {
    proto::ChunksOffer offer = Offer(last_step, false);
    offer.version = 3;
    offer.members[0].may_skip = true;
    proto::ChunkPart part = Part();
    part.version = 3;
    lost_.Deliver(kGiver, offer);
    lost_.Deliver(kGiver, part);
  }

  ShardRig lost_;
};

TEST_F(TakeOfLostStepsTest, AStepThatIsUnderWayAgainIsAppliedOnceToEachChunk) {
  TakeThird(0, false);
  TakeForeign(0);
  ASSERT_TRUE(lost_.core.HasChunk(kForeign));
  Push(2, {kFirst, kSecond, kThird, kForeign}, 3);
  EXPECT_EQ(lost_.OnlyPushReply().step, 2U);
  EXPECT_EQ(lost_.core.VersionOf(kFirst), 2U);
  EXPECT_EQ(lost_.core.VersionOf(kThird), 8U);
  EXPECT_EQ(lost_.core.VersionOf(kForeign), 8U);
}

TEST_F(TakeOfLostStepsTest, AChunkThatCameWithTheNextStepDoesNotGetItAgain) {
  TakeThird(2, true);
  TakeForeign(1);
  ASSERT_TRUE(lost_.core.HasChunk(kForeign));
  Push(3, {kFirst, kSecond, kThird, kForeign}, 3);
  EXPECT_EQ(lost_.OnlyPushReply().step, 3U);
  EXPECT_EQ(lost_.core.VersionOf(kFirst), 3U);
  EXPECT_EQ(lost_.core.VersionOf(kThird), 7U);
  EXPECT_EQ(lost_.core.VersionOf(kForeign), 8U);
}

/// Its worker never makes them again.
TEST_F(TakeOfLostStepsTest, TheStepsThatAChunkLacksLowerNoClockWhenALaterOneIsUnderWay) {
  Push(3, {kFirst}, 2);
  TakeForeign(0);
  lost_.Deliver(kCoordinator, proto::GiveChunks{4, {kOther, "other", 4712}, 1, {kForeign}});
  lost_.core.OnDialed(kOther, kOtherPeer, lost_.now, &lost_.sent);
  const auto offers = lost_.Take<proto::ChunksOffer>();
  ASSERT_EQ(offers.size(), 1U);
  EXPECT_EQ(offers[0].message.members[0].last_step, 2U);
  EXPECT_EQ(offers[0].message.members[0].clock, 2U);
}

TEST_F(TakeTest, AStepThatIsUnderWayNeedsItToo) {
  rig_.Push(rig_.Frame(1, 1, {kFirst, kSecond}, 0.5F));
  Take(Offer(0, false));
  rig_.Push(Step4(1, {kThird}));
  EXPECT_THAT(rig_.Take<proto::PushReply>(), IsEmpty());
  rig_.Push(Step4(1, {kForeign}));
  EXPECT_EQ(rig_.OnlyPushReply().step, 1U);
}

TEST_F(TakeTest, WhoHasJoinedSinceHasDoneNothingInIt) {
  rig_.Push(rig_.WholeStep(2, 1, 0.5F));
  rig_.Take<proto::PushReply>();
  Take(Offer(0, false));
  proto::PushRequest push = rig_.Frame(2, 1, {kForeign}, 0.5F);
  push.chunk_count = 4;
  push.placement = 2;
  rig_.Push(push);
  EXPECT_EQ(rig_.OnlyPushReply().step, 1U);
  EXPECT_EQ(rig_.core.VersionOf(kForeign), 8U);
}

/// All that a job may have of workers, and as many chunks as their offer can name. What is done for
/// each worker looks at no other one.
TEST(LargeTakeTest, TheLargestOfferIsTaken) {
  const auto keys = static_cast<uint32_t>(proto::OfferKeysMax(proto::kSeatsMax));
  ShardRig rig;
  proto::ChunksOffer offer;
  offer.from = kOther;
  offer.version = 2;
  offer.to_life = 1;
  offer.generation = Generation(1);
  std::vector<Incarnation> even;
  for (uint64_t i = 1; i <= proto::kSeatsMax; ++i) {
    offer.members.push_back({Incarnation(i), 0, 0, false, true});
    if (i % 2 == 0) {
      even.emplace_back(i);
    }
  }
  proto::Placement& placement = rig.setup.placement;
  placement.chunks.pop_back();
  rig.setup.tensors.pop_back();
  for (uint32_t i = 0; i < keys; ++i) {
    const ChunkKey key = MakeChunkKey(2 + i, 0);
    TensorSpec tensor;
    tensor.name = "t" + std::to_string(i);
    tensor.shape = {1};
    rig.setup.tensors.push_back(tensor);
    placement.chunks.push_back({key, 1, 0, ShardId(0)});
    offer.chunks.push_back({key, 7, even});
  }
  rig.setup.membership = rig.MembersUpTo(proto::kSeatsMax);
  offer.generation = rig.setup.membership.generation;
  rig.SetUp();
  rig.Deliver(kGiver, offer);
  const auto value = std::make_shared<Buffer>(sizeof(float));
  for (const proto::OfferedChunk& chunk : offer.chunks) {
    rig.Deliver(
        kGiver,
        proto::ChunkPart{2, 0, {{chunk.key, 1, 0}}, proto::Payload::Own(value, sizeof(float))});
  }
  EXPECT_EQ(rig.Take<proto::ChunksTaken>().size(), 1U);
  proto::PushRequest push = rig.WholeStep(2, 1, 0.5F);
  push.chunk_count = 3 + keys;
  push.placement = 2;
  rig.Push(push);
  EXPECT_EQ(rig.OnlyPushReply().step, 1U) << "it has the step in all that have come";
  EXPECT_EQ(rig.core.VersionOf(offer.chunks[0].key), 7U);
}

TEST_F(TakeTest, AnOfferOfAnotherLifeOrOfALaterMembershipWaits) {
  proto::ChunksOffer offer = Offer(0, false);
  offer.to_life = 9;
  Take(offer);
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kUnavailable);
  offer = Offer(0, false);
  offer.generation = Generation(5);
  Take(offer);
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kUnavailable);
  EXPECT_FALSE(rig_.core.HasChunk(kForeign));
}

TEST_F(TakeTest, WhatMakesNoSenseIsRefused) {
  proto::ChunksOffer offer = Offer(0, false);
  offer.chunks[0].key = kFirst;
  rig_.Deliver(kGiver, offer);
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kInvalidArgument) << "it is here";
  offer.chunks.clear();
  rig_.Deliver(kGiver, offer);
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kInvalidArgument);
  rig_.Deliver(kGiver, Offer(0, false));
  proto::ChunkPart part = Part();
  part.chunks[0].element_begin = 1;
  rig_.Deliver(kGiver, part);
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kInvalidArgument);
  rig_.Deliver(kGiver, Part());
  EXPECT_FALSE(rig_.core.HasChunk(kForeign)) << "the offer is void";
}

TEST_F(TakeTest, PartsGoWithTheConnectionThatBroughtThem) {
  rig_.Deliver(kGiver, Offer(0, false));
  rig_.core.OnPeerClosed(kGiver, rig_.now, &rig_.sent);
  rig_.Deliver(kGiver, Part());
  EXPECT_FALSE(rig_.core.HasChunk(kForeign));
}

TEST_F(TakeTest, ACheckpointAfterItHasTheChunk) {
  Take(Offer(0, false));
  rig_.Deliver(kCoordinator, proto::CheckpointRequest{1, 0, {}});
  rig_.RunDisk();
  const auto reports = rig_.Take<proto::CheckpointReport>();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].message.code, StatusCode::kOk) << reports[0].message.message;
  EXPECT_EQ(reports[0].message.sizes.chunks_written, 4U);
}

}  // namespace
}  // namespace ps::server
