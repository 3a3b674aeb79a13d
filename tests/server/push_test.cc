#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using proto::PushOutcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PushTest : public ::testing::Test {
 protected:
  void SetUp() override { rig_.SetUp(); }

  void ExpectRefused(const proto::PushRequest& push, StatusCode code, const std::string& text) {
    rig_.Push(push);
    const proto::Refusal refusal = rig_.OnlyRefusal();
    EXPECT_EQ(refusal.code, code) << refusal.message;
    EXPECT_THAT(refusal.message, HasSubstr(text));
    EXPECT_EQ(refusal.step, push.step);
    EXPECT_THAT(rig_.Versions(), ElementsAre(0, 0, 0));
  }

  ShardRig rig_;
};

TEST_F(PushTest, AStepIsAppliedAndAcknowledgedOnce) {
  rig_.Push(rig_.WholeStep(1, 1, 0.25F), 42);
  EXPECT_THAT(rig_.Values(), ElementsAre(0.75F, 0.75F, 0.75F));
  EXPECT_THAT(rig_.Versions(), ElementsAre(1, 1, 1));
  const auto replies = rig_.Take<proto::PushReply>();
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].to, PeerOf(0));
  EXPECT_EQ(replies[0].request_id, 42U);
  EXPECT_EQ(replies[0].message.step, 1U);
  EXPECT_EQ(replies[0].message.outcome, PushOutcome::kApplied);
  EXPECT_TRUE(rig_.sent.all.empty());
}

TEST_F(PushTest, ChunksAreAppliedAsTheyArriveAndTheAnswerComesWithTheLast) {
  rig_.Push(rig_.Frame(1, 1, {kThird}, 1));
  EXPECT_THAT(rig_.Values(), ElementsAre(1, 1, 0));
  rig_.Push(rig_.Frame(1, 1, {kFirst}, 1));
  EXPECT_THAT(rig_.Values(), ElementsAre(0, 1, 0));
  EXPECT_TRUE(rig_.sent.all.empty());
  rig_.Push(rig_.Frame(1, 1, {kSecond}, 1));
  EXPECT_EQ(rig_.OnlyPushReply().step, 1U);
}

TEST_F(PushTest, APushCountsInProportionToItsSamples) {
  ShardRig rig;
  rig.settings.reference_samples = 4;
  rig.SetUp();
  proto::PushRequest push = rig.WholeStep(1, 1, 0.5F);
  push.samples = 2;
  rig.Push(push);
  EXPECT_THAT(rig.Values(), ElementsAre(0.75F, 0.75F, 0.75F));
}

TEST_F(PushTest, FramesMayArriveInAnyOrderWithAnyRepetitions) {
  // Every order of each frame arriving twice: the step is applied once, and the answer is given
  // when it becomes complete and again for whatever comes later.
  std::vector<ChunkKey> order = {kFirst, kFirst, kSecond, kSecond, kThird, kThird};
  do {
    ShardRig rig;
    rig.SetUp();
    std::vector<ChunkKey> seen;
    for (const ChunkKey key : order) {
      rig.Push(rig.Frame(1, 1, {key}, 0.5F));
      if (std::find(seen.begin(), seen.end(), key) == seen.end()) {
        seen.push_back(key);
      }
      EXPECT_EQ(rig.Take<proto::PushReply>().size(), seen.size() == 3 ? 1U : 0U);
    }
    ASSERT_THAT(rig.Values(), ElementsAre(0.5F, 0.5F, 0.5F));
    ASSERT_THAT(rig.Versions(), ElementsAre(1, 1, 1));
    EXPECT_EQ(rig.core.Stats().chunks_duplicate, 3U);
    EXPECT_EQ(rig.core.Stats().chunks_applied, 3U);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(PushTest, AFrameThatMixesOldAndNewChunksAppliesTheNewOnes) {
  rig_.Push(rig_.Frame(1, 1, {kSecond}, 0.5F));
  rig_.Push(rig_.Frame(1, 1, {kFirst, kSecond, kThird}, 0.5F));
  EXPECT_THAT(rig_.Values(), ElementsAre(0.5F, 0.5F, 0.5F));
  EXPECT_EQ(rig_.OnlyPushReply().step, 1U);
  EXPECT_EQ(rig_.core.Stats().chunks_duplicate, 1U);
}

TEST_F(PushTest, ARepeatedStepIsAcknowledgedAgainAndNotApplied) {
  rig_.Push(rig_.WholeStep(1, 1, 0.5F), 1);
  rig_.Push(rig_.WholeStep(1, 1, 0.5F), 2);
  const auto replies = rig_.Take<proto::PushReply>();
  ASSERT_EQ(replies.size(), 2U);
  EXPECT_EQ(replies[1].request_id, 2U);
  EXPECT_THAT(rig_.Versions(), ElementsAre(1, 1, 1));
}

TEST_F(PushTest, AStepBeforeTheLastIsDroppedInSilence) {
  rig_.Push(rig_.WholeStep(1, 1, 0.5F));
  rig_.Push(rig_.WholeStep(1, 2, 0.5F));
  rig_.Take<proto::PushReply>();
  rig_.Push(rig_.WholeStep(1, 1, 0.5F));
  EXPECT_TRUE(rig_.sent.all.empty());
  EXPECT_THAT(rig_.Versions(), ElementsAre(2, 2, 2));
}

TEST_F(PushTest, AStepGoesOnOverANewConnectionWhichGetsTheAnswer) {
  rig_.Push(rig_.Frame(1, 1, {kFirst, kSecond}, 0.5F), 1);
  rig_.core.OnPeerClosed(PeerOf(0), rig_.now, &rig_.sent);
  const proto::PeerId second(200);
  rig_.Deliver(second, rig_.Frame(1, 1, {kFirst, kSecond}, 0.5F), 2);
  rig_.Deliver(second, rig_.Frame(1, 1, {kThird}, 0.5F), 2);
  const auto replies = rig_.Take<proto::PushReply>();
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].to, second);
  EXPECT_EQ(replies[0].request_id, 2U);
  EXPECT_THAT(rig_.Versions(), ElementsAre(1, 1, 1));
}

TEST_F(PushTest, IncarnationsDoNotShareTheirSteps) {
  rig_.Push(rig_.WholeStep(1, 1, 0.25F));
  rig_.Push(rig_.WholeStep(2, 1, 0.25F));
  EXPECT_THAT(rig_.Values(), ElementsAre(0.5F, 0.5F, 0.5F));
  EXPECT_EQ(rig_.Take<proto::PushReply>().size(), 2U);
}

TEST_F(PushTest, AReplacementDoesNotInheritItsPredecessorsSteps) {
  rig_.Push(rig_.WholeStep(3, 1, 0.25F));
  proto::Membership membership = rig_.MembersUpTo(2);
  membership.members.push_back({WorkerId(2), Incarnation(4), true});
  membership.incarnation_max = Incarnation(4);
  rig_.Deliver(kCoordinator, membership);
  proto::PushRequest push = rig_.WholeStep(3, 1, 0.25F);
  push.incarnation = Incarnation(4);
  rig_.Push(push);
  EXPECT_THAT(rig_.Versions(), ElementsAre(2, 2, 2));
}

TEST_F(PushTest, UnknownChunksAreRefusedByName) {
  proto::PushRequest push = rig_.Frame(1, 1, {kFirst, kSecond}, 1);
  push.chunks[1].key = kForeign;
  ExpectRefused(push, StatusCode::kInvalidArgument, "chunk 8589934592 is not on shard 3");
}

TEST_F(PushTest, AWrongElementCountIsRefused) {
  proto::PushRequest push = rig_.Frame(1, 1, {kFirst}, 1);
  push.chunks[0].element_count = 1;
  ExpectRefused(push, StatusCode::kInvalidArgument, "has 2 elements in 1 parts; none is 1 from 0");
}

TEST_F(PushTest, APayloadThatDoesNotFitItsChunksIsRefused) {
  proto::PushRequest longer = rig_.Frame(1, 1, {kFirst, kSecond}, 1);
  longer.chunks.pop_back();
  ExpectRefused(longer, StatusCode::kInvalidArgument, "16 bytes for 1 chunks");
  proto::PushRequest shorter = rig_.Frame(1, 1, {kFirst}, 1);
  shorter.chunks.push_back({kSecond, 2});
  ExpectRefused(shorter, StatusCode::kInvalidArgument, "ends within chunk 1");
  proto::PushRequest empty = rig_.Frame(1, 1, {}, 1);
  ExpectRefused(empty, StatusCode::kInvalidArgument, "0 chunks");
  proto::PushRequest pieces = rig_.Frame(1, 1, {kFirst}, 1);
  pieces.payload.parts.push_back(pieces.payload.parts.front());
  ExpectRefused(pieces, StatusCode::kInvalidArgument, "pieces");
}

TEST_F(PushTest, OneChunkTwiceInAFrameIsRefused) {
  ExpectRefused(rig_.Frame(1, 1, {kFirst, kFirst}, 1), StatusCode::kInvalidArgument, "twice");
}

TEST_F(PushTest, CountsThatMeanNothingAreRefused) {
  proto::PushRequest push = rig_.WholeStep(1, 1, 1);
  push.samples = 0;
  ExpectRefused(push, StatusCode::kInvalidArgument, "0 samples");
  push = rig_.WholeStep(1, 0, 1);
  ExpectRefused(push, StatusCode::kInvalidArgument, "step 0");
  push = rig_.WholeStep(1, 1, 1);
  push.chunk_count = 0;
  ExpectRefused(push, StatusCode::kInvalidArgument, "0 chunks; shard 3 has 3");
  push.chunk_count = 4;
  ExpectRefused(push, StatusCode::kInvalidArgument, "4 chunks; shard 3 has 3");
  push = rig_.WholeStep(1, 1, 1);
  push.round = 1;
  ExpectRefused(push, StatusCode::kInvalidArgument, "round 1");
}

TEST_F(PushTest, AStepThatSkipsOneIsRefused) {
  ExpectRefused(rig_.WholeStep(1, 2, 1), StatusCode::kInvalidArgument, "after step 0");
}

TEST_F(PushTest, FramesOfAStepThatDisagreeAreRefusedAndTheStepGoesOn) {
  rig_.Push(rig_.Frame(1, 1, {kFirst}, 0.5F));
  for (int field = 0; field < 3; ++field) {
    proto::PushRequest push = rig_.Frame(1, 1, {kSecond}, 0.5F);
    push.samples += field == 0 ? 1 : 0;
    push.chunk_count -= field == 1 ? 1 : 0;
    push.lease = field == 2 ? LeaseId(6) : push.lease;
    rig_.Push(push);
    const proto::Refusal refusal = rig_.OnlyRefusal();
    EXPECT_EQ(refusal.code, StatusCode::kInvalidArgument);
    EXPECT_THAT(refusal.message, HasSubstr("disagree"));
  }
  EXPECT_THAT(rig_.Versions(), ElementsAre(1, 0, 0));
  rig_.Push(rig_.Frame(1, 1, {kSecond, kThird}, 0.5F));
  EXPECT_EQ(rig_.OnlyPushReply().outcome, PushOutcome::kApplied);
}

TEST_F(PushTest, MoreChunksThanTheStepSaysAreRefused) {
  proto::PushRequest push = rig_.Frame(1, 1, {kFirst}, 0.5F);
  push.chunk_count = 2;
  rig_.Push(push);
  push = rig_.Frame(1, 1, {kSecond, kThird}, 0.5F);
  push.chunk_count = 2;
  rig_.Push(push);
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kInvalidArgument);
  EXPECT_THAT(rig_.Versions(), ElementsAre(1, 0, 0));
}

TEST_F(PushTest, AnotherWorkersIncarnationIsRefused) {
  proto::PushRequest push = rig_.WholeStep(1, 1, 1);
  push.worker = WorkerId(2);
  ExpectRefused(push, StatusCode::kInvalidArgument, "is worker 0, not 2");
  push.incarnation = Incarnation();
  ExpectRefused(push, StatusCode::kInvalidArgument, "nobody");
}

TEST_F(PushTest, AnIncarnationOfTheFutureIsToldToTryAgain) {
  rig_.Push(rig_.WholeStep(4, 1, 1));
  const proto::Refusal refusal = rig_.OnlyRefusal();
  EXPECT_EQ(refusal.code, StatusCode::kUnavailable);
  EXPECT_GT(refusal.retry_after_ms, 0U);
  rig_.Deliver(kCoordinator, rig_.MembersUpTo(4));
  rig_.Push(rig_.WholeStep(4, 1, 1));
  EXPECT_EQ(rig_.OnlyPushReply().step, 1U);
}

TEST_F(PushTest, AFencedIncarnationIsRefusedAndCounted) {
  rig_.Deliver(kCoordinator, rig_.MembersUpTo(2));
  ExpectRefused(rig_.WholeStep(3, 1, 1), StatusCode::kStale, "fenced");
  EXPECT_EQ(rig_.core.Stats().pushes_fenced, 1U);
}

TEST_F(PushTest, BeforeTheSetUpPushesAndPullsAreToldToTryAgain) {
  ShardRig rig;
  rig.Push(rig.WholeStep(1, 1, 1));
  EXPECT_EQ(rig.OnlyRefusal().code, StatusCode::kUnavailable);
  rig.Pull(rig.PullAll(1));
  const proto::Refusal refusal = rig.OnlyRefusal();
  EXPECT_EQ(refusal.code, StatusCode::kUnavailable);
  EXPECT_GT(refusal.retry_after_ms, 0U);
}

TEST_F(PushTest, ChunksWithNaNOrInfinityAreLeftOutAndReported) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    ShardRig rig;
    rig.SetUp();
    rig.Push(rig.Frame(1, 1, {kSecond}, bad));
    rig.Push(rig.Frame(1, 1, {kFirst, kThird}, 0.5F));
    EXPECT_THAT(rig.Values(), ElementsAre(0.5F, 1, 0.5F));
    EXPECT_THAT(rig.Versions(), ElementsAre(1, 0, 1));
    proto::PushReply reply = rig.OnlyPushReply();
    EXPECT_EQ(reply.outcome, PushOutcome::kRejected);
    EXPECT_EQ(reply.rejected_chunks, 1U);
    EXPECT_EQ(rig.core.Stats().chunks_rejected, 1U);
    // A repetition is told the same.
    rig.Push(rig.WholeStep(1, 1, 0.5F));
    reply = rig.OnlyPushReply();
    EXPECT_EQ(reply.outcome, PushOutcome::kRejected);
    EXPECT_EQ(reply.rejected_chunks, 1U);
    EXPECT_THAT(rig.Versions(), ElementsAre(1, 0, 1));
  }
}

TEST_F(PushTest, AFrameWithMoreChunksThanItsStepIsRefused) {
  proto::PushRequest push = rig_.Frame(1, 1, {kFirst, kSecond}, 0.5F);
  push.chunk_count = 1;
  rig_.Push(push);
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kInvalidArgument);
  EXPECT_THAT(rig_.Versions(), ElementsAre(0, 0, 0));
}

TEST_F(PushTest, AnUpdateThatWouldOverflowIsLeftOutAndCounted) {
  ShardRig rig;
  rig.settings.optimizer.lr = 10;
  rig.SetUp();
  rig.Push(rig.Frame(1, 1, {kFirst, kThird}, 3e38F));
  rig.Push(rig.Frame(1, 1, {kSecond}, 0.05F));
  EXPECT_EQ(rig.OnlyPushReply().outcome, proto::PushOutcome::kApplied);
  EXPECT_THAT(rig.Values(), ElementsAre(1, 0.5F, 1));
  EXPECT_EQ(rig.core.Stats().chunks_overflowed, 2U);
  rig.Push(rig.WholeStep(1, 2, 0.05F));
  EXPECT_EQ(rig.OnlyPushReply().outcome, proto::PushOutcome::kApplied);
  EXPECT_THAT(rig.Values(), ElementsAre(0.5F, 0, 0.5F)) << "later steps count as ever";
  EXPECT_EQ(rig.core.Stats().chunks_overflowed, 2U);
}

TEST_F(PushTest, TheLearningRateFollowsTheSamplesApplied) {
  ShardRig rig;
  rig.setup.total_samples = 4;
  rig.settings.optimizer.schedule.kind = proto::ScheduleKind::kLinear;
  rig.SetUp();
  EXPECT_EQ(rig.core.Stats().lr, 1);
  rig.Push(rig.WholeStep(1, 1, 0.125F));
  EXPECT_EQ(rig.core.Stats().lr, 0.75);
  EXPECT_EQ(rig.core.Stats().samples_applied, 1U);
  rig.Push(rig.WholeStep(1, 2, 0.5F));
  EXPECT_THAT(rig.Values(), ElementsAre(0.5F, 0.5F, 0.5F));
  EXPECT_EQ(rig.core.Stats().steps_applied, 2U);
}

TEST_F(PushTest, AStepHasOneLearningRate) {
  ShardRig rig;
  rig.setup.total_samples = 2;
  rig.settings.optimizer.schedule.kind = proto::ScheduleKind::kLinear;
  rig.SetUp();
  rig.Push(rig.Frame(1, 1, {kFirst}, 0.5F));
  rig.Push(rig.WholeStep(2, 1, 0));
  rig.Push(rig.Frame(1, 1, {kSecond, kThird}, 0.5F));
  EXPECT_THAT(rig.Values(), ElementsAre(0.5F, 0.5F, 0.5F));
}

TEST_F(PushTest, AWorkerCanNotSendWhatIsTheCoordinators) {
  rig_.Deliver(PeerOf(0), rig_.MembersUpTo(0));
  EXPECT_THAT(rig_.OnlyRefusal().message, HasSubstr("no Membership from a worker"));
  rig_.Deliver(PeerOf(0), proto::Shutdown{"mischief"});
  EXPECT_EQ(rig_.OnlyRefusal().code, StatusCode::kInvalidArgument);
  EXPECT_FALSE(rig_.core.is_shut_down());
  rig_.Push(rig_.WholeStep(1, 1, 1));
  EXPECT_EQ(rig_.OnlyPushReply().step, 1U);
}

TEST_F(PushTest, AFusedPullIsAnsweredWhenTheStepIsComplete) {
  proto::PushRequest last = rig_.Frame(1, 1, {kThird}, 0.5F);
  last.wants_pull = true;
  last.held = {{kSecond, 1}};
  rig_.Push(last, 21);  // overtook the frame before it
  EXPECT_TRUE(rig_.sent.all.empty());
  rig_.Push(rig_.Frame(1, 1, {kFirst, kSecond}, 0.5F), 21);
  EXPECT_EQ(rig_.OnlyPushReply().step, 1U);
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_EQ(pulls[0].request_id, 21U);
  EXPECT_EQ(pulls[0].message.chunk_total, 2U);
  EXPECT_EQ(pulls[0].values, std::vector<float>(5, 0.5F));
}

TEST_F(PushTest, ARepeatedPushWithAPullIsAnsweredInFullAgain) {
  proto::PushRequest push = rig_.WholeStep(1, 1, 0.5F);
  push.wants_pull = true;
  rig_.Push(push, 1);
  rig_.Push(push, 2);
  EXPECT_EQ(rig_.Take<proto::PushReply>().size(), 2U);
  const auto pulls = rig_.Take<proto::PullReply>();
  ASSERT_EQ(pulls.size(), 2U);
  EXPECT_EQ(pulls[1].request_id, 2U);
  EXPECT_EQ(pulls[1].message.chunk_total, 3U);
}

/// The same push with the values rounded to two bytes each.
proto::PushRequest Rounded(proto::PushRequest push) {
  const std::span<const std::byte> bytes = push.payload.bytes();
  const size_t count = bytes.size() / sizeof(float);
  auto halves = std::make_shared<Buffer>(count * sizeof(uint16_t));
  for (size_t i = 0; i < count; ++i) {  // the upper half of each
    std::memcpy(halves->data() + 2 * i, bytes.data() + 4 * i + 2, sizeof(uint16_t));
  }
  push.encoding = {codec::EncodingKind::kBf16};
  push.payload = proto::Payload::Own(halves, halves->size());
  return push;
}

/// A job of rounded gradients; kThird gets observations.
class RoundedPushTest : public PushTest {
 protected:
  void SetUp() override {
    rig_.setup.tensors[1].rule = UpdateRule::kAverage;
    rig_.setup.tensors[1].average_rate = 0.5F;
    PushTest::SetUp();
  }
};

TEST_F(RoundedPushTest, GradientsAreAppliedAsFloatsAndObservationsComeAsThey) {
  rig_.Push(Rounded(rig_.Frame(1, 1, {kFirst, kSecond}, 0.25F)));
  rig_.Push(rig_.Frame(1, 1, {kThird}, 3));
  EXPECT_THAT(rig_.Values(), ElementsAre(0.75F, 0.75F, 2));
  EXPECT_EQ(rig_.OnlyPushReply().outcome, PushOutcome::kApplied);
  EXPECT_EQ(rig_.core.Stats().bytes_received, 4 * 2U + 3 * 4U);
  rig_.Push(Rounded(rig_.Frame(1, 2, {kFirst}, std::numeric_limits<float>::infinity())));
  rig_.Push(Rounded(rig_.Frame(1, 2, {kSecond}, 0.5F)));
  rig_.Push(rig_.Frame(1, 2, {kThird}, 2));
  EXPECT_EQ(rig_.OnlyPushReply().outcome, PushOutcome::kRejected);
  EXPECT_THAT(rig_.Values(), ElementsAre(0.75F, 0.25F, 2));
}

/// A step that ends early has fewer minibatches than its lease, and observations behind it.
TEST(ShortStepTest, ObservationsWeighAsTheMinibatchesBehindThem) {
  for (const uint32_t minibatches : {1U, 3U}) {
    ShardRig rig;
    rig.setup.tensors[1].rule = UpdateRule::kAverage;
    rig.setup.tensors[1].average_rate = 0.5F;
    rig.settings.reference_samples = 16;
    rig.SetUp();
    proto::PushRequest push = rig.WholeStep(1, 1, 3);
    push.samples = 16 * minibatches;
    push.local_steps = 3;
    rig.Push(push);
    EXPECT_EQ(rig.OnlyPushReply().outcome, PushOutcome::kApplied);
    const float weight = minibatches == 1 ? 0.5F : 0.875F;
    EXPECT_EQ(rig.core.ValuesOf(kThird)[0], 1 + weight * (3 - 1)) << minibatches;
  }
}

TEST_F(RoundedPushTest, ObservationsThatAreEncodedAndFramesThatAreCutAreRefused) {
  ExpectRefused(
      Rounded(rig_.Frame(1, 1, {kThird}, 1)),
      StatusCode::kInvalidArgument,
      "comes as bf16, and it is of observations, which travel as f32 or nothing; step 1");
  proto::PushRequest cut = Rounded(rig_.Frame(1, 1, {kFirst, kSecond}, 1));
  cut.payload.parts[0] = cut.payload.parts[0].first(6);
  ExpectRefused(cut, StatusCode::kInvalidArgument, "ends within chunk");
  cut.payload.parts[0] = cut.payload.parts[0].first(5);
  ExpectRefused(cut, StatusCode::kInvalidArgument, "ends within chunk");
  proto::PushRequest odd = Rounded(rig_.Frame(1, 1, {kFirst, kSecond}, 1));
  odd.chunks.pop_back();
  ExpectRefused(odd, StatusCode::kInvalidArgument, "has 8 bytes for 1 chunks of 4");
}

/// Workers change how their gradients travel one after the other.
TEST_F(RoundedPushTest, EveryStepOfAJobMayTravelAsItsWorkerSays) {
  ShardRig rig;
  rig.SetUp();
  rig.Push(rig.WholeStep(1, 1, 0.25F));
  rig.Push(Rounded(rig.WholeStep(1, 2, 0.25F)));
  EXPECT_THAT(rig.Values(), testing::Each(0.5F));
}

TEST_F(PushTest, LocalStepsThatNoJobHasAreRefused) {
  proto::PushRequest push = rig_.WholeStep(1, 1, 1);
  push.local_steps = 0;
  ExpectRefused(push, StatusCode::kInvalidArgument, "0 local steps; allowed: 1 to 10000");
  push.local_steps = 10'001;
  ExpectRefused(push, StatusCode::kInvalidArgument, "10001 local steps; allowed: 1 to 10000");
}

/// Frames of one step are of one lease.
TEST_F(PushTest, FramesOfAStepThatAreForOtherLocalStepsAreRefused) {
  proto::PushRequest first = rig_.Frame(1, 1, {kFirst, kSecond}, 1);
  first.local_steps = 4;
  rig_.Push(first);
  proto::PushRequest last = rig_.Frame(1, 1, {kThird}, 1);
  last.local_steps = 8;
  rig_.Push(last);
  EXPECT_THAT(rig_.OnlyRefusal().message, HasSubstr("4 local steps, 3 chunks; then lease"));
}

/// Memory of the frame before is used again, but not what a part waits in.
TEST_F(RoundedPushTest, PartsThatWaitKeepTheirValues) {
  ShardRig rig;
  rig.settings.frame_bytes = 4;
  rig.SetUp();
  rig.Push(Rounded(rig.Part(1, 1, kThird, 0, 1, 0.25F)));
  rig.Push(Rounded(rig.Part(1, 1, kThird, 1, 1, 0.5F)));
  rig.Push(Rounded(rig.Part(1, 1, kThird, 2, 1, 0.75F)));
  const std::span<const float> values = rig.core.ValuesOf(kThird);
  EXPECT_THAT(std::vector<float>(values.begin(), values.end()), ElementsAre(0.75F, 0.5F, 0.25F));
}

TEST_F(RoundedPushTest, ARoundHasTheMeanInFloats) {
  ShardRig rig(proto::Mode::kBsp);
  rig.SetUp();
  for (uint64_t incarnation = 1; incarnation <= 2; ++incarnation) {
    proto::PushRequest push =
        Rounded(rig.WholeStep(incarnation, 1, 0.25F * static_cast<float>(incarnation)));
    push.round = 1;
    rig.Push(push);
    EXPECT_EQ(rig.OnlyPushReply().outcome, PushOutcome::kStaged);
  }
  EXPECT_EQ(rig.core.Stats().staged_bytes, 2 * 7 * sizeof(float)) << "as they are kept";
  rig.Deliver(
      kCoordinator,
      proto::CommitRound{
          1, {{WorkerId(0), Incarnation(1), 1, 1}, {WorkerId(1), Incarnation(2), 1, 1}}});
  while (rig.core.HasWork()) {
    rig.core.Continue(&rig.sent);
  }
  EXPECT_THAT(rig.Values(), ElementsAre(0.625F, 0.625F, 0.625F));
}

}  // namespace
}  // namespace ps::server
