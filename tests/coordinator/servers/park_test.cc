// A job without workers ends its servers, and starts them again with the first worker.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/rollback_fixture.h"

namespace ps::coordinator {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ParkTest : public CheckpointTest {
 protected:
  explicit ParkTest(proto::Mode mode = proto::Mode::kAsync)
      : CheckpointTest(
            [](CoordinatorOptions* options) {
              options->config.checkpoint.every_s = 3600;
              options->config.fleet.park_servers_after_s = 60;
              options->config.servers.usd_per_hour = 0.5;
            },
            mode) {}

  /// All workers do a part of the job and are gone; the servers end a minute later.
  void LoseWorkers() {
    Begin();
    for (size_t i = 0; i < workers_.size(); ++i) {
      harness_.Work(&workers_[i], grants_[i]);
    }
    counted_ = harness_.status().samples_counted;
    ASSERT_GT(counted_, 0U);
    harness_.Wait(harness_.timing.detect * 2);
    for (int i = 0; i < 12; ++i) {
      harness_.Wait(seconds(1));
      WriteAll();
    }
    ASSERT_GE(checkpoints().newest, 1U);
    ASSERT_EQ(harness_.status().shards[0].state, proto::ShardRowState::kReady);
    harness_.fleet.servers.clear();
  }

  void WriteAll() {
    for (; written_ < disk_.writes.size(); ++written_) {
      harness_.core->OnManifestWritten(
          disk_.writes[written_].checkpoint, Status::Ok(), harness_.now, harness_.out());
    }
  }

  void Park() {
    LoseWorkers();
    harness_.Wait(minutes(1));
    ASSERT_EQ(harness_.status().shards[0].state, proto::ShardRowState::kParked);
  }

  /// The processes that are started register, as others than those before.
  void ServersCome() {
    ASSERT_THAT(harness_.fleet.servers, ElementsAre(0, 1));
    for (uint32_t i = 0; i < harness_.shards.size(); ++i) {
      harness_.shards[i].is_told = false;
      harness_.shards[i].membership = proto::Membership();
      harness_.RegisterShard(i, harness_.shards[i].pid + 1000);
      EXPECT_EQ(harness_.shards[i].setups.back().restore.checkpoint, checkpoints().newest);
      EXPECT_EQ(harness_.shards[i].setups.back().life, 2U);
    }
  }

  /// A worker comes, and trains to the end with the servers that come for it.
  void FinishWithAnother() {
    const proto::PeerId peer = harness_.AskToJoin(0, 2000);
    harness_.Wait(harness_.timing.tick * 2);
    ServersCome();
    const auto joined = harness_.Take<proto::JoinReply>(peer);
    ASSERT_TRUE(joined.has_value());
    FakeWorker worker;
    worker.peer = peer;
    worker.incarnation = joined->incarnation;
    worker.seat = joined->worker;
    worker.minibatch = joined->minibatch;
    workers_ = {worker};
    EXPECT_EQ(harness_.status().samples_counted, counted_);
    RunToTheEnd(&harness_, &workers_);
    EXPECT_EQ(harness_.status().samples_counted, harness_.status().samples_total);
    EXPECT_EQ(checkpoints().steps_undone, 0U);
    EXPECT_EQ(checkpoints().rollbacks, 0U);
  }

  uint64_t counted_ = 0;
  size_t written_ = 0;
};

class BspParkTest : public ParkTest {
 protected:
  BspParkTest() : ParkTest(proto::Mode::kBsp) {}
};

TEST_F(ParkTest, ServersEndWhenNoWorkerComesForLongAndComeBackWithOne) {
  LoseWorkers();
  harness_.Wait(seconds(30));
  EXPECT_FALSE(harness_.shards[0].is_told) << "half a minute is left";
  EXPECT_GT(harness_.status().usd_per_hour, 0);
  harness_.Wait(seconds(30));
  EXPECT_TRUE(harness_.shards[0].is_told);
  EXPECT_TRUE(harness_.shards[1].is_told);
  EXPECT_THAT(harness_.status().detail, HasSubstr("all that was done, and the servers are parked"));
  EXPECT_EQ(harness_.status().usd_per_hour, 0);
  for (uint32_t i = 0; i < 2; ++i) {
    harness_.Exit(ProcessKind::kServer, i, harness_.shards[i].pid, "exited with code 0");
  }
  const double spent = harness_.status().usd_spent;
  harness_.Wait(minutes(20));
  EXPECT_EQ(harness_.status().state, proto::RunState::kWaiting);
  EXPECT_EQ(harness_.status().usd_spent, spent);
  EXPECT_THAT(harness_.fleet.servers, IsEmpty()) << "their ends are no losses";
  FinishWithAnother();
}

TEST_F(BspParkTest, ServersThatGoBackTogetherAreParkedAsWell) {
  Park();
  FinishWithAnother();
}

TEST_F(ParkTest, ServersThatDoNotLeaveAreKilled) {
  Park();
  EXPECT_THAT(harness_.fleet.server_kills, IsEmpty());
  harness_.Wait(harness_.timing.server_detect + seconds(1));
  EXPECT_THAT(harness_.fleet.server_kills, ElementsAre(0, 1));
  harness_.Wait(minutes(10));
  EXPECT_THAT(harness_.fleet.server_kills, ElementsAre(0, 1)) << "once";
}

TEST_F(ParkTest, AnotherCoordinatorWakesThemAllTheSame) {
  Park();
  for (FakeShard& shard : harness_.shards) {
    shard.peer = proto::PeerId();
  }
  harness_.Restart();
  harness_.core->StartMissing({}, harness_.now);
  EXPECT_EQ(harness_.status().shards[0].state, proto::ShardRowState::kParked);
  harness_.Wait(minutes(10));
  EXPECT_THAT(harness_.fleet.servers, IsEmpty());
  FinishWithAnother();
}

/// The coordinator has ended before it told them.
TEST_F(ParkTest, AServerThatWasNotToldIsToldWhenItComesBack) {
  Park();
  harness_.shards[0].is_told = false;
  harness_.RegisterShard(0, harness_.shards[0].pid);
  EXPECT_TRUE(harness_.shards[0].is_told);
  EXPECT_EQ(harness_.shards[0].setups.size(), 1U);
  harness_.fleet.servers.clear();
  harness_.Exit(ProcessKind::kServer, 0, harness_.shards[0].pid, "exited with code 0");
  EXPECT_THAT(harness_.fleet.servers, IsEmpty());
}

TEST_F(ParkTest, ServersThatTheFleetHasNotStartedStay) {
  LoseWorkers();
  harness_.fleet.foreign = {1};
  harness_.Wait(minutes(5));
  EXPECT_FALSE(harness_.shards[0].is_told);
  EXPECT_FALSE(harness_.shards[1].is_told);
  EXPECT_EQ(harness_.status().shards[1].state, proto::ShardRowState::kReady);
}

TEST_F(ParkTest, AServerThatSomebodyStartsByHandWaits) {
  Park();
  harness_.fleet.foreign = {0, 1};
  const proto::PeerId peer = harness_.Connect(proto::Role::kShard);
  harness_.Give(peer, proto::RegisterShard{ShardId(0), "host", 7100, 4711, 0, LaunchId()});
  const auto refusal = harness_.Take<proto::Refusal>(peer);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, StatusCode::kUnavailable);
  EXPECT_THAT(refusal->message, HasSubstr("parked until one comes"));
}

TEST_F(ParkTest, WhoeverAsksForMoreWorkersWakesThem) {
  Park();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::ScaleRequest{{{"", 0, false}}});
  EXPECT_THAT(harness_.fleet.servers, IsEmpty());
  harness_.Give(control, proto::ScaleRequest{{{"", 2, false}}});
  ServersCome();
  EXPECT_EQ(harness_.status().shards[0].state, proto::ShardRowState::kReady);
  harness_.Wait(seconds(30));
  EXPECT_FALSE(harness_.shards[0].is_told) << "they have a minute again";
}

TEST_F(ParkTest, ANoticeToAParkedServerIsRefused) {
  Park();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{WorkerId(1), 1000, true});
  const auto refusal = harness_.Take<proto::Refusal>(control);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_THAT(refusal->message, HasSubstr("the servers are parked"));
}

TEST_F(ParkTest, AJobThatIsStoppedWhileTheyAreParkedEnds) {
  Park();
  harness_.core->RequestStop(false, "enough", harness_.now, harness_.out());
  harness_.Wait(minutes(1));
  EXPECT_EQ(harness_.status().state, proto::RunState::kStopped);
  EXPECT_TRUE(harness_.core->is_finished());
}

}  // namespace
}  // namespace ps::coordinator
