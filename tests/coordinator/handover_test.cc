// A server that is told to leave: a checkpoint, then another process comes back from it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/rollback_fixture.h"

namespace ps::coordinator {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using HandoverTest = RollbackTest;
using PartialHandoverTest = PartialFallbackTest;

TEST_F(HandoverTest, AServersNoticeCostsNothingWhereAllGoBackTogether) {
  Begin();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{WorkerId(1), 10'000, true});
  EXPECT_TRUE(harness_.Take<proto::NoticeReply>(control).has_value());
  Wait(harness_.timing.tick * 2);
  EXPECT_THAT(disk_.opened, IsEmpty()) << "a round is under way";
  Round();
  EXPECT_EQ(grants_[0].lease, LeaseId()) << "no new step is begun";
  Wait(harness_.timing.tick * 2);
  ASSERT_THAT(disk_.opened, ElementsAre(1));
  EXPECT_FALSE(harness_.shards[1].is_told);
  Written();
  Wait(harness_.timing.tick * 2);
  EXPECT_TRUE(harness_.shards[1].is_told);
  EXPECT_FALSE(harness_.shards[0].is_told);
  harness_.core->OnPeerClosed(harness_.shards[1].peer, harness_.now, harness_.out());
  harness_.shards[1].peer = proto::PeerId();
  const size_t started = harness_.fleet.servers.size();
  Wait(harness_.timing.tick * 2);
  EXPECT_EQ(harness_.fleet.servers.size(), started + 1);
  Read();
  EXPECT_EQ(checkpoints().steps_undone, 0U);
  ShardsReturn(1);
  WorkersReturn();
  FinishRun();
}

TEST_F(HandoverTest, AServersNoticeThatIsOverChangesNothing) {
  Begin();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{WorkerId(1), 100, true});
  Wait(milliseconds(300));
  EXPECT_THAT(disk_.opened, IsEmpty());
  Round();
  EXPECT_NE(grants_[0].lease, LeaseId());
  Round();
  EXPECT_EQ(harness_.status().samples_counted, 60U);
}

TEST_F(HandoverTest, ANoticeForAServerThatIsNotThereIsRefused) {
  Begin();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{WorkerId(2), 1000, true});
  const auto refusal = harness_.Take<proto::Refusal>(control);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, StatusCode::kNotFound);
  EXPECT_THAT(refusal->message, HasSubstr("there are 0 to 1"));
}

TEST_F(PartialHandoverTest, AServersNoticeLosesWhatCameAfterTheCheckpoint) {
  Begin();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{WorkerId(1), 10'000, true});
  Wait(harness_.timing.tick * 2);
  ASSERT_THAT(disk_.opened, ElementsAre(1));
  harness_.Work(&workers_[0], grants_[0]);
  Written();
  Wait(harness_.timing.tick * 2);
  EXPECT_TRUE(harness_.shards[1].is_told);
  harness_.core->OnPeerClosed(harness_.shards[1].peer, harness_.now, harness_.out());
  harness_.shards[1].peer = proto::PeerId();
  Wait(harness_.timing.tick * 2);
  EXPECT_EQ(checkpoints().steps_undone, 2U);
  harness_.shards[1].membership = proto::Membership();
  harness_.RegisterShard(1, 777);
  EXPECT_EQ(NewestSetup(1).restore.checkpoint, 1U);
  EXPECT_EQ(harness_.status().state, "training");
}

TEST_F(PartialHandoverTest, AServerThatHandsOverIsStartedOnce) {
  Begin();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{WorkerId(1), 10'000, true});
  Wait(harness_.timing.tick * 2);
  Written();
  Wait(harness_.timing.tick * 2);
  ASSERT_TRUE(harness_.shards[1].is_told);
  const size_t started = harness_.fleet.servers.size();
  Lose(1);  // its end is known before that of its connection
  harness_.shards[1].peer = proto::PeerId();
  Wait(harness_.timing.tick * 3);
  EXPECT_EQ(harness_.fleet.servers.size(), started + 1);
}

TEST_F(PartialHandoverTest, AServersNoticeOutlivesTheCoordinator) {
  Begin();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{WorkerId(1), 10'000, true});
  EXPECT_EQ(harness_.status().shards[1].state, "leaving");
  Wait(harness_.timing.tick * 2);
  ASSERT_THAT(disk_.opened, ElementsAre(1));
  const auto restart = [&] {
    harness_.Restart();
    for (FakeWorker& worker : workers_) {
      harness_.Reconnect(&worker);
    }
  };
  restart();
  Wait(harness_.timing.tick * 2);
  ASSERT_THAT(disk_.opened, ElementsAre(1, 2)) << "the one under way is lost";
  Written();
  restart();
  Wait(harness_.timing.tick * 2);
  EXPECT_THAT(disk_.opened, ElementsAre(1, 2)) << "that one exists";
  EXPECT_TRUE(harness_.shards[1].is_told);
  EXPECT_FALSE(harness_.shards[0].is_told);
  harness_.core->OnPeerClosed(harness_.shards[1].peer, harness_.now, harness_.out());
  harness_.shards[1].peer = proto::PeerId();
  Wait(harness_.timing.tick * 2);
  harness_.shards[1].membership = proto::Membership();
  harness_.RegisterShard(1, 777);
  EXPECT_EQ(NewestSetup(1).restore.checkpoint, 2U);
}

}  // namespace
}  // namespace ps::coordinator
