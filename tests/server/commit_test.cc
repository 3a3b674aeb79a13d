// A round's update in slices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

#include "ps/base/random.h"
#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint32_t kElements = 5000;

/// Two chunks of 5,000 elements, contributions of two of three members, and slices of 1,024
/// elements, the fewest that there are: ten slices.
class CommitTest : public ::testing::Test {
 protected:
  CommitTest() { Prepare(&rig_, 1); }

  static void Prepare(
      ShardRig* rig, uint64_t slice_bytes, proto::OptimizerKind kind = proto::OptimizerKind::kSgd) {
    rig->setup.tensors[0].shape = {2 * kElements};
    rig->setup.placement.chunks = {
        {kFirst, kElements, 0, kShard}, {kSecond, kElements, kElements, kShard}};
    rig->settings.frame_bytes = 3000 * sizeof(float);
    rig->settings.commit_slice_bytes = slice_bytes;
    rig->settings.checkpoints.path = "path";
    rig->settings.optimizer.kind = kind;
    rig->settings.optimizer.momentum = 0.9F;
    rig->SetUp();
    rig->Push(Contribution(1, 3));
    rig->Push(Contribution(2, 1));
    EXPECT_THAT(rig->Take<proto::PushReply>(), SizeIs(2));
  }

  /// Random gradients, those of an incarnation always the same.
  static proto::PushRequest Contribution(
      uint64_t incarnation, uint32_t samples, uint64_t round = 1, float factor = 1) {
    proto::PushRequest push;
    push.worker = WorkerId(static_cast<uint32_t>(incarnation - 1));
    push.incarnation = Incarnation(incarnation);
    push.step = round;
    push.round = round;
    push.samples = samples;
    push.chunk_count = 2;
    push.chunks = {
        {kFirst, 3000, 0}, {kFirst, 2000, 3000}, {kSecond, 3000, 0}, {kSecond, 2000, 3000}};
    auto buffer = std::make_shared<Buffer>(2 * kElements * sizeof(float));
    Random random(incarnation);
    for (float& value : buffer->floats()) {
      value = factor * static_cast<float>(random.Unit());
    }
    push.payload = proto::Payload::Own(buffer, buffer->size());
    return push;
  }

  static proto::CommitRound Commit(uint64_t round = 1, Step step = 1) {
    return {
        round, {{WorkerId(0), Incarnation(1), step, 3}, {WorkerId(1), Incarnation(2), step, 1}}};
  }

  /// Returns how many slices that took.
  static int ContinueToTheEnd(ShardRig* rig) {
    int slices = 0;
    while (rig->core.HasWork()) {
      rig->core.Continue(&rig->sent);
      ++slices;
    }
    return slices;
  }

  ShardRig rig_{proto::Mode::kBsp};
};

TEST_F(CommitTest, SlicesGiveTheBitsOfOneUpdate) {
  ShardRig whole(proto::Mode::kBsp);
  Prepare(&whole, uint64_t{1} << 30);
  whole.Deliver(kCoordinator, Commit());
  EXPECT_FALSE(whole.core.HasWork());
  EXPECT_THAT(whole.Take<proto::CommitAck>(), SizeIs(1));
  rig_.Deliver(kCoordinator, Commit());
  EXPECT_THAT(rig_.Take<proto::CommitAck>(), IsEmpty());
  EXPECT_GE(ContinueToTheEnd(&rig_), 9);
  EXPECT_THAT(rig_.Take<proto::CommitAck>(), SizeIs(1));
  for (const ChunkKey key : {kFirst, kSecond}) {
    const auto sliced = rig_.core.ValuesOf(key);
    EXPECT_EQ(rig_.core.VersionOf(key), 1U);
    EXPECT_EQ(std::memcmp(sliced.data(), whole.core.ValuesOf(key).data(), sliced.size_bytes()), 0);
  }
  EXPECT_EQ(rig_.core.Stats().samples_applied, 4U);
  EXPECT_EQ(rig_.core.Stats().chunks_applied, 2U);
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 0U);
}

/// Twice as many slices: the first ones of a chunk measure. The second round is against the first.
TEST_F(CommitTest, ARuleThatLooksAtAWholeChunkGetsItsMeanInWhateverSlices) {
  std::vector<std::vector<float>> values;
  for (const uint64_t slice_bytes : {uint64_t{1}, uint64_t{50'000}, uint64_t{1} << 30}) {
    ShardRig rig(proto::Mode::kBsp);
    Prepare(&rig, slice_bytes, proto::OptimizerKind::kHeloco);
    rig.Deliver(kCoordinator, Commit());
    EXPECT_GE(ContinueToTheEnd(&rig), slice_bytes == 1 ? 18 : 0);
    EXPECT_THAT(rig.Take<proto::CommitAck>(), SizeIs(1));
    rig.Push(Contribution(1, 3, 2, -1));
    rig.Push(Contribution(2, 1, 2, -1));
    EXPECT_THAT(rig.Take<proto::PushReply>(), SizeIs(2));
    rig.Deliver(kCoordinator, Commit(2, 2));
    ContinueToTheEnd(&rig);
    EXPECT_THAT(rig.Take<proto::CommitAck>(), SizeIs(1));
    EXPECT_EQ(rig.core.VersionOf(kFirst), 2U);
    const auto first = rig.core.ValuesOf(kFirst);
    values.emplace_back(first.begin(), first.end());
  }
  EXPECT_EQ(values[1], values[0]);
  EXPECT_EQ(values[2], values[0]);
  // m is a tenth of the first mean g, the second is -g: c = 1 / 1.3, b = c / 2, and c b |g| / |m|
  // of m is what it loses.
  const double turned = -1 + 0.5 / 1.3 / 1.3;
  const double m = 0.9 * 0.1 + 0.1 * turned;
  const double moved = 1 + 0.9 * 0.2 + turned + 0.9 * (2 * m - 0.1);
  const auto mean = [](size_t i) {
    return 0.75 * ToUnit(Mix64(Mix64(1) + i)) + 0.25 * ToUnit(Mix64(Mix64(2) + i));
  };
  for (const size_t i : {size_t{0}, size_t{2999}, size_t{3000}, size_t{4999}}) {
    EXPECT_NEAR(values[0][i], 1 - moved * mean(i), 1e-5) << i;
  }
}

TEST_F(CommitTest, HeartbeatsGoOnBetweenSlices) {
  rig_.Deliver(kCoordinator, Commit());
  rig_.Tick(std::chrono::seconds(1));
  const auto beats = rig_.Take<proto::ShardHeartbeat>();
  ASSERT_THAT(beats, SizeIs(1));
  EXPECT_EQ(beats[0].message.stats.round, 0U);
  EXPECT_EQ(beats[0].message.stats.staged_bytes, 4 * kElements * sizeof(float));
  ContinueToTheEnd(&rig_);
  EXPECT_EQ(rig_.core.Stats().round, 1U);
}

TEST_F(CommitTest, APullBetweenSlicesGetsTheWholeRound) {
  rig_.Deliver(kCoordinator, Commit());
  rig_.Pull(rig_.PullAll(3));
  EXPECT_THAT(rig_.Take<proto::PullReply>(), IsEmpty());
  ASSERT_THAT(rig_.core.Waits(rig_.now), SizeIs(1));
  EXPECT_THAT(rig_.core.Waits(rig_.now)[0].for_whom, HasSubstr("update of round 1"));
  ContinueToTheEnd(&rig_);
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_FALSE(pulls.empty());
  for (const auto& pull : pulls) {
    for (const auto& chunk : pull.message.chunks) {
      EXPECT_EQ(chunk.version, 1U);
    }
  }
}

TEST_F(CommitTest, AnAnswerUnderWayIsOfTheRoundBefore) {
  rig_.sent.slow = PeerOf(2);
  rig_.Pull(rig_.PullAll(3));
  rig_.Deliver(kCoordinator, Commit());
  for (const auto& pull : rig_.Take<proto::PullReply>()) {
    EXPECT_THAT(pull.values, ::testing::Each(1));
  }
  EXPECT_TRUE(rig_.core.HasWork());
}

TEST_F(CommitTest, AChunkThatTheRoundHasBegunToChangeIsReadBack) {
  rig_.Deliver(kCoordinator, proto::CheckpointRequest{1, 0, {}});
  rig_.RunDisk();
  rig_.Deliver(kCoordinator, Commit());
  rig_.core.Continue(&rig_.sent);
  proto::ShardSetup later = rig_.setup;
  later.life = 2;
  later.restore = {1, kShard.value + 1};
  rig_.Deliver(kCoordinator, later);
  EXPECT_THAT(rig_.KeysAskedFor(), ::testing::ElementsAre(kFirst));
  rig_.RunDisk();
  EXPECT_THAT(rig_.core.ValuesOf(kFirst), ::testing::Each(1));
}

TEST_F(CommitTest, APushForTheRoundThatIsBeingCommittedIsTooLate) {
  rig_.Deliver(kCoordinator, Commit());
  rig_.Push(Contribution(3, 1));
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kStale);
}

TEST_F(CommitTest, WhatWasLeftOutBeginsAnewBetweenSlices) {
  proto::PushRequest part = rig_.Part(3, 1, kFirst, 0, 3000, 0.5F);
  part.chunk_count = 2;
  part.round = 1;
  rig_.Push(part);
  rig_.Deliver(kCoordinator, Commit());
  part.round = 2;
  rig_.Push(part);
  EXPECT_THAT(rig_.Take<proto::Refusal>(), IsEmpty());
  ContinueToTheEnd(&rig_);
  EXPECT_EQ(rig_.core.Stats().staged_bytes, 3000 * sizeof(float));
}

TEST_F(CommitTest, ARepeatedCommitIsAcknowledgedOnceAndAtTheEnd) {
  rig_.Deliver(kCoordinator, Commit(), 20);
  rig_.Deliver(kCoordinator, Commit(), 21);
  EXPECT_THAT(rig_.Take<proto::CommitAck>(), IsEmpty());
  ContinueToTheEnd(&rig_);
  const auto acks = rig_.Take<proto::CommitAck>();
  ASSERT_THAT(acks, SizeIs(1));
  EXPECT_EQ(acks[0].request_id, 21U);
  EXPECT_EQ(acks[0].message.round, 1U);
}

TEST_F(CommitTest, TheNextRoundIsToldToWait) {
  rig_.Deliver(kCoordinator, Commit());
  rig_.Deliver(kCoordinator, Commit(2));
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kUnavailable);
}

TEST_F(CommitTest, ACommitGoesOnWithoutItsContributorsAndWithoutTheCoordinator) {
  rig_.Deliver(kCoordinator, Commit());
  proto::Membership nobody = rig_.MembersUpTo(3);
  nobody.members.clear();
  rig_.Deliver(kCoordinator, nobody);
  rig_.core.OnPeerClosed(kCoordinator, rig_.now, &rig_.sent);
  ContinueToTheEnd(&rig_);
  EXPECT_THAT(rig_.Take<proto::CommitAck>(), IsEmpty());
  EXPECT_EQ(rig_.core.VersionOf(kSecond), 1U);
  rig_.core.OnCoordinatorConnected(proto::PeerId(2), 1, rig_.now, &rig_.sent);
  rig_.Deliver(proto::PeerId(2), Commit());
  EXPECT_THAT(rig_.Take<proto::CommitAck>(), SizeIs(1));
  EXPECT_EQ(rig_.core.VersionOf(kSecond), 1U);
}

TEST_F(CommitTest, AShutdownEndsIt) {
  rig_.Deliver(kCoordinator, Commit());
  rig_.Deliver(kCoordinator, proto::Shutdown{"done"});
  EXPECT_FALSE(rig_.core.HasWork());
}

}  // namespace
}  // namespace ps::server
