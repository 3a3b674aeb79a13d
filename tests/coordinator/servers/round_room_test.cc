// bsp: a shard keeps a gradient of everybody until the round is committed. Whatever is asked for,
// no shard gets more chunks than it has room for then.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/move_fixture.h"

namespace ps::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Each of the two servers has room for the gradients of six workers; one that had all chunks would
/// have room for three. Three train.
class RoundRoomTest : public MovingTest {
 protected:
  explicit RoundRoomTest(proto::Mode mode = proto::Mode::kBsp, float max_detect_s = 0)
      : MovingTest(
            [max_detect_s](CoordinatorOptions* options) {
              if (max_detect_s > 0) {
                options->config.fleet.max_detect_s = max_detect_s;
                options->train_samples = 4000;
              }
              options->config.servers.queue_mib = 1;
              options->config.servers.chunk_kib = 64;
              options->tensors = {{"w", {80000}}};
            },
            mode) {}

  void Begin() {
    MovingTest::Begin();
    control_ = harness_.Connect(proto::Role::kControl);
  }

  /// A person wants all chunks on server 1.
  void AskForOneServer() {
    proto::ScaleChange change;
    change.tensor = "w";
    change.count = 1;
    harness_.Give(control_, proto::ScaleRequest{{change}});
  }

  void JoinByHand() { workers_.push_back(harness_.Join()); }

  /// A worker joins while all chunks are to go to one server: not all have room there.
  void MoveUntilStuck() {
    Begin();
    harness_.Work(&workers_[0], grants_[0]);
    AskForOneServer();
    JoinByHand();
    harness_.Work(&workers_[1], grants_[1]);
    harness_.Work(&workers_[2], grants_[2]);
    for (int i = 0; i < 10; ++i) {
      Tick();
      if (move()) {
        Given();
      }
    }
  }

  std::string RefusalText() {
    const auto refusal = harness_.Take<proto::Refusal>(control_);
    return refusal ? refusal->message : "";
  }

  uint64_t BytesOf(uint32_t shard) const {
    uint64_t bytes = 0;
    for (const auto& chunk : harness_.core->StateAt(harness_.now).placement.chunks) {
      bytes += chunk.shard == ShardId(shard) ? chunk.element_count * sizeof(float) : 0;
    }
    return bytes;
  }
};

/// One that ticks seldom, so that a test can wait for long.
class PatientRoomTest : public RoundRoomTest {
 protected:
  PatientRoomTest() : RoundRoomTest(proto::Mode::kBsp, 60) {}

  /// A round a minute.
  void Train(int minutes) {
    for (int i = 0; i < minutes; ++i) {
      Wait(std::chrono::minutes(1));
      Round();
    }
  }
};

class RoundRoomOfAsyncTest : public RoundRoomTest {
 protected:
  RoundRoomOfAsyncTest() : RoundRoomTest(proto::Mode::kAsync) {}
};

TEST_F(RoundRoomTest, AMoveCountsWorkersThatNobodyAskedFor) {
  Begin();
  JoinByHand();
  AskForOneServer();
  const std::string why = RefusalText();
  EXPECT_THAT(why, HasSubstr("server 1 would have 0.31 MiB of parameters"));
  EXPECT_THAT(why, HasSubstr("room for the gradients of 3 workers (servers.queue_mib)"));
  EXPECT_THAT(why, HasSubstr("4 are wanted or there; put less on it"));
  Tick();
  EXPECT_FALSE(status().is_moving);
}

TEST_F(RoundRoomTest, WorkersAreCountedWhereTheChunksAreToBe) {
  Begin();
  harness_.Work(&workers_[0], grants_[0]);  // so that nothing sets off yet
  AskForOneServer();
  ASSERT_TRUE(harness_.Take<proto::ScaleReply>(control_).has_value());
  ASSERT_TRUE(status().is_moving);
  harness_.Give(control_, proto::ScaleRequest{{{"", 4, false}}});
  EXPECT_THAT(RefusalText(), HasSubstr("room for the gradients of 3 workers, and that would be 4"));
}

TEST_F(RoundRoomTest, NobodyJoinsWhomTheChunksOnTheirWayLeaveNoRoomFor) {
  Begin();
  AskForOneServer();
  Tick();
  ASSERT_TRUE(move().has_value());
  const proto::PeerId fourth = harness_.AskToJoin(std::nullopt);
  const auto refusal = harness_.Take<proto::Refusal>(fourth);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_THAT(refusal->message, HasSubstr("room for the gradients of 3 workers"));
}

TEST_F(RoundRoomTest, ChunksWaitForTheRoomOfWorkersThatHaveJoinedMeanwhile) {
  MoveUntilStuck();
  EXPECT_TRUE(status().is_moving);
  EXPECT_FALSE(move().has_value());
  EXPECT_EQ(BytesOf(1), 4U << 16U) << "for four workers a shard may have so much";
  EXPECT_THAT(status().trouble, HasSubstr("server 1 has no room for more"));
  const FakeWorker& fourth = workers_.back();
  harness_.Give(fourth.peer, proto::Goodbye{fourth.incarnation, "notice", {}});
  for (int i = 0; i < 10 && status().is_moving; ++i) {
    Tick();
    if (move()) {
      Given();
    }
  }
  EXPECT_FALSE(status().is_moving);
  EXPECT_EQ(BytesOf(1), 80000 * sizeof(float));
  EXPECT_THAT(status().trouble, IsEmpty());
}

/// What keeps the change from happening is something else, and goes on without checkpoints else.
TEST_F(PatientRoomTest, OneSlowCheckpointMakesWayForChunksThatAreStuckAndTheNextDoesNot) {
  MoveUntilStuck();
  ASSERT_THAT(status().trouble, HasSubstr("server 1 has no room for more"));
  harness_.shards[1].checkpoint_code.reset();  // a slow disk
  grants_ = harness_.AskAll(&workers_);
  Train(1);
  ASSERT_EQ(checkpoints().open, 1U);
  Train(11);
  EXPECT_THAT(checkpoints().trouble, HasSubstr("has waited for it for 600 s"));
  EXPECT_TRUE(status().is_moving);
  Train(2);
  ASSERT_EQ(checkpoints().open, 2U);
  Train(20);
  EXPECT_EQ(checkpoints().open, 2U);
}

TEST_F(RoundRoomOfAsyncTest, BspIsRefusedWhereChunksAreOnTheirWayToTooLittleRoom) {
  Begin();
  JoinByHand();
  AskForOneServer();
  ASSERT_TRUE(harness_.Take<proto::ScaleReply>(control_).has_value()) << "async needs no room";
  harness_.Give(control_, proto::ModeRequest{{proto::Mode::kBsp}});
  EXPECT_THAT(RefusalText(), HasSubstr("gradients of 3 workers, and 4 are wanted or there"));
}

}  // namespace
}  // namespace ps::coordinator
