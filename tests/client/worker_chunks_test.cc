// What goes between a worker's core and its host: values of chunks as they come, gradients on loan.

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "tests/client/worker_core_fixture.h"

namespace ps::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr ChunkKey kFirst = MakeChunkKey(0, 0);
constexpr ChunkKey kSecond = MakeChunkKey(1, 0);

/// Two tensors, each of one chunk.
class WorkerChunksTest : public WorkerCoreTest {
 protected:
  void BeginOn(ShardId of_first, ShardId of_second, bool overlap) {
    tensor_shards_ = {of_first, of_second};
    Begin(proto::Mode::kAsync, overlap);
    FromCoordinator(Grant(1, 0, 80));
    host_.on_compute = [this] { taken_by_task_.push_back(host_.taken.size()); };
  }

  void Acknowledge(ShardId shard, uint64_t request_id, Step step) {
    const proto::PushReply reply{step, proto::PushOutcome::kApplied, 0};
    core_->OnMessage(PeerOf(shard), request_id, reply, now_, &out_);
  }

  /// All frames sent so far have left, and the shard, which has all, answers.
  void AnswerStep(Step step) {
    const uint64_t request_id = LastToShard();
    out_.sent.clear();
    Acknowledge(ShardId(0), request_id, step);
    SendValues(ShardId(0), request_id, {0, 1}, step, 2);
  }

  std::vector<size_t> taken_by_task_;  // chunks handed over when each task began
};

TEST_F(WorkerChunksTest, AChunkIsHandedOverTheMomentItHasComeAndTheTaskBeginsWithTheLast) {
  BeginOn(ShardId(0), ShardId(0), false);
  const uint64_t pull = LastToShard();
  SendValues(ShardId(0), pull, {1}, 1, 2);
  EXPECT_THAT(host_.taken, ElementsAre(kSecond));
  EXPECT_TRUE(host_.tasks.empty());
  SendValues(ShardId(0), pull, {0}, 1, 2);
  EXPECT_THAT(host_.taken, ElementsAre(kSecond, kFirst));
  EXPECT_THAT(taken_by_task_, ElementsAre(2U));
}

TEST_F(WorkerChunksTest, AChunkOfOneShardIsHandedOverWhileAnotherShardsIsOnItsWay) {
  BeginOn(ShardId(0), ShardId(1), false);
  SendValues(ShardId(1), LastToShard(ShardId(1)), {1}, 1, 1);
  EXPECT_THAT(host_.taken, ElementsAre(kSecond));
  EXPECT_TRUE(host_.tasks.empty());
  SendValues(ShardId(0), LastToShard(ShardId(0)), {0}, 1, 1);
  EXPECT_THAT(host_.taken, ElementsAre(kSecond, kFirst));
  EXPECT_THAT(taken_by_task_, ElementsAre(2U));
}

/// What is said of chunks that have moved names the shard that they are on, not all others.
TEST_F(WorkerChunksTest, AShardWithoutChunksIsForgottenWhenAllOthersAreNamed) {
  BeginOn(ShardId(0), ShardId(1), false);
  proto::ShardAddresses moved;
  moved.shards = {{ShardId(0), "127.0.0.1", 1}};
  moved.base = 1;
  moved.version = 2;
  moved.places = {{kSecond, ShardId(0)}};
  FromCoordinator(moved);
  EXPECT_THAT(out_.closed, IsEmpty());
  moved.base = 0;
  moved.version = 3;
  moved.places = {{kFirst, ShardId(0)}, {kSecond, ShardId(0)}};
  FromCoordinator(moved);
  EXPECT_THAT(out_.closed, ElementsAre(PeerOf(ShardId(1))));
}

/// The coordinator adds up what a worker has moved, and what that costs.
TEST_F(WorkerChunksTest, WhatAForgottenShardHasMovedStaysCounted) {
  BeginOn(ShardId(0), ShardId(1), false);
  SendValues(ShardId(1), LastToShard(ShardId(1)), {1}, 1, 1);
  const uint64_t pulled = core_->Stats(now_).bytes_pulled;
  EXPECT_GT(pulled, 0U);
  proto::ShardAddresses moved;
  moved.shards = {{ShardId(0), "127.0.0.1", 1}};
  moved.version = 2;
  moved.places = {{kFirst, ShardId(0)}, {kSecond, ShardId(0)}};
  FromCoordinator(moved);
  ASSERT_THAT(out_.closed, ElementsAre(PeerOf(ShardId(1))));
  EXPECT_EQ(core_->Stats(now_).bytes_pulled, pulled);
}

TEST_F(WorkerChunksTest, AChunkThatComesTwiceIsHandedOverOnce) {
  BeginOn(ShardId(0), ShardId(0), false);
  const uint64_t pull = LastToShard();
  SendValues(ShardId(0), pull, {1}, 1, 2);
  SendValues(ShardId(0), pull, {1}, 1, 2);
  SendValues(ShardId(0), pull, {1, 0}, 1, 2);
  EXPECT_THAT(host_.taken, ElementsAre(kSecond, kFirst));
}

TEST_F(WorkerChunksTest, NothingIsHandedOverDuringATaskAndAllOfItBeforeTheNext) {
  BeginOn(ShardId(0), ShardId(0), true);
  SendValues(ShardId(0), LastToShard(), {0, 1}, 1, 2);
  Compute();
  ASSERT_EQ(host_.tasks.size(), 2U);
  const uint64_t fused = LastToShard();
  Acknowledge(ShardId(0), fused, 1);
  SendValues(ShardId(0), fused, {0}, 2, 2);
  SendValues(ShardId(0), fused, {1}, 2, 2);
  EXPECT_EQ(host_.taken.size(), 2U) << "arithmetic reads the parameters";
  EXPECT_EQ(host_.FirstParameter(), 1.0F);
  Compute();
  EXPECT_EQ(host_.FirstParameter(), 2.0F);
  EXPECT_THAT(taken_by_task_, ElementsAre(2U, 2U, 4U));
  Compute();
  EXPECT_EQ(host_.taken.size(), 4U) << "each once";
}

TEST_F(WorkerChunksTest, NothingIsHandedOverDuringAnEvaluation) {
  tensor_shards_ = {ShardId(0), ShardId(0)};
  Begin(proto::Mode::kAsync, true);
  FromCoordinator(
      proto::LeaseGrant{Incarnation(4), LeaseId(1), proto::LeaseKind::kEvaluate, 0, 10, 20, 0});
  const uint64_t pull = LastToShard();
  SendValues(ShardId(0), pull, {0, 1}, 1, 2);
  ASSERT_EQ(host_.tasks.size(), 1U);
  SendValues(ShardId(0), pull, {0, 1}, 2, 2);
  EXPECT_EQ(host_.taken.size(), 2U);
  core_->OnEvaluated(host_.tasks[0].session, {4.0, 7, 0.1}, now_, &out_);
  EXPECT_EQ(host_.taken.size(), 4U);
}

TEST_F(WorkerChunksTest, AGradientIsLentUntilTheLastShardHasAcknowledgedIt) {
  BeginOn(ShardId(0), ShardId(1), false);
  SendValues(ShardId(0), LastToShard(ShardId(0)), {0}, 1, 1);
  SendValues(ShardId(1), LastToShard(ShardId(1)), {1}, 1, 1);
  ASSERT_EQ(host_.tasks.size(), 1U);
  Compute();
  const uint64_t to_first = LastToShard(ShardId(0));
  const uint64_t to_second = LastToShard(ShardId(1));
  out_.sent.clear();
  Acknowledge(ShardId(1), to_second, 1);
  EXPECT_TRUE(host_.IsHeld(0));
  Acknowledge(ShardId(0), to_first, 1);
  EXPECT_FALSE(host_.IsHeld(0));
}

TEST_F(WorkerChunksTest, AWorkerThatIsFencedGivesItsGradientsBack) {
  BeginOn(ShardId(0), ShardId(0), true);
  SendValues(ShardId(0), LastToShard(), {0, 1}, 1, 2);
  Compute();
  ASSERT_EQ(host_.gradients.size(), 2U);
  out_.sent.clear();
  core_->OnMessage(kShard, 1, proto::Refusal{StatusCode::kStale, "fenced", 0, 1}, now_, &out_);
  EXPECT_TRUE(host_.IsHeld(1)) << "it is computed";
  Compute();
  EXPECT_FALSE(host_.IsHeld(0));
  EXPECT_FALSE(host_.IsHeld(1));
}

TEST_F(WorkerChunksTest, GradientsGoInTurnsAsLongAsFramesLeaveInTime) {
  for (const bool overlap : {false, true}) {
    host_ = FakeHost();
    out_.sent.clear();
    BeginOn(ShardId(0), ShardId(0), overlap);
    SendValues(ShardId(0), LastToShard(), {0, 1}, 0, 2);
    for (Step step = 1; step <= 5; ++step) {
      Compute();
      AnswerStep(step);
    }
    EXPECT_EQ(host_.tasks.size(), 6U);
    EXPECT_EQ(host_.tensors->gradient_count(), overlap ? 2U : 1U);
  }
}

TEST_F(WorkerChunksTest, ARepeatedPushHasTheSameBytesWhateverIsComputedMeanwhile) {
  BeginOn(ShardId(0), ShardId(0), true);
  SendValues(ShardId(0), LastToShard(), {0, 1}, 0, 2);
  host_.SetGradient(1);
  Compute();
  host_.SetGradient(2);
  ASSERT_EQ(out_.All<proto::PushRequest>().size(), 1U);
  core_->OnTick(now_ + seconds(60), &out_);
  const auto is_push = [](const RecordingOutbox::Sent& sent) {
    return std::holds_alternative<proto::PushRequest>(sent.message);
  };
  std::vector<RecordingOutbox::Sent> pushes;
  std::ranges::copy_if(out_.sent, std::back_inserter(pushes), is_push);
  ASSERT_EQ(pushes.size(), 2U);
  EXPECT_EQ(pushes[1].values, std::vector<float>(8, 1.0F));
  EXPECT_EQ(pushes[1].values, pushes[0].values);
}

/// A slow link: the first sending is answered while the repetition is still in a transport's queue.
TEST_F(WorkerChunksTest, WhatATransportStillHasToSendIsNotWritten) {
  BeginOn(ShardId(0), ShardId(0), true);
  SendValues(ShardId(0), LastToShard(), {0, 1}, 0, 2);
  host_.SetGradient(1);
  Compute();
  host_.SetGradient(2);
  core_->OnTick(now_ + seconds(60), &out_);
  Acknowledge(ShardId(0), LastToShard(), 1);
  Compute();
  ASSERT_EQ(host_.tasks.size(), 3U);
  host_.SetGradient(3);
  size_t pushes = 0;
  for (const RecordingOutbox::Sent& sent : out_.sent) {
    const auto* const push = std::get_if<proto::PushRequest>(&sent.message);
    if (push == nullptr) {
      continue;
    }
    ++pushes;
    const auto* place = reinterpret_cast<const std::byte*>(sent.values.data());
    for (const auto& part : push->payload.parts) {
      EXPECT_EQ(std::memcmp(part.data(), place, part.size()), 0) << "of step " << push->step;
      place += part.size();
    }
  }
  EXPECT_EQ(pushes, 3U);
}

}  // namespace
}  // namespace ps::client
