// A server that is told to leave: a checkpoint, then another process comes back from it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "tests/coordinator/rollback_fixture.h"

namespace ps::coordinator {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// What these tests do to a server that is told to leave.
template <typename Base>
class Handover : public Base {
 protected:
  void Notice(uint32_t server, Duration grace = std::chrono::seconds(10)) {
    const auto grace_ms = std::chrono::duration_cast<milliseconds>(grace).count();
    this->harness_.Give(
        control_, proto::NoticeRequest{WorkerId(server), static_cast<uint32_t>(grace_ms), true});
  }

  void BeginWithControl() {
    this->Begin();
    control_ = this->harness_.Connect(proto::Role::kControl);
  }

  void Ticks(int count = 2) { this->Wait(this->harness_.timing.tick * count); }

  /// The process of server 1 comes to its end.
  void Leave() {
    this->harness_.core->OnPeerClosed(
        this->harness_.shards[1].peer, this->harness_.now, this->harness_.out());
    this->harness_.shards[1].peer = proto::PeerId();
    Ticks();
  }

  size_t started() const { return this->harness_.fleet.servers.size(); }

  /// A process that is server 1 asks to be let in, as `pid`. Returns the answer, if it was refused.
  std::optional<StatusCode> Refusal(int64_t pid) {
    const proto::PeerId peer = this->harness_.Connect(proto::Role::kShard);
    const LaunchId launch = this->harness_.LaunchOf(ProcessKind::kServer, 1, pid);
    this->harness_.Give(peer, proto::RegisterShard{ShardId(1), "host", 7100, pid, 0, launch});
    const auto refusal = this->harness_.template Take<proto::Refusal>(peer);
    return refusal ? std::optional(refusal->code) : std::nullopt;
  }

  /// The next process of server 1 comes.
  void Return(int64_t pid) {
    this->harness_.shards[1].membership = proto::Membership();
    this->harness_.RegisterShard(1, pid);
  }

  proto::PeerId control_;
};

using HandoverTest = Handover<RollbackTest>;
using PartialHandoverTest = Handover<PartialFallbackTest>;

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
  Leave();
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

TEST_F(PartialHandoverTest, AServersNoticeCostsNothingWhereTheStepsEndInTime) {
  BeginWithControl();
  Notice(1);
  Ticks();
  EXPECT_THAT(disk_.opened, IsEmpty()) << "steps are under way";
  Round();
  EXPECT_EQ(grants_[0].lease, LeaseId()) << "no new step is begun";
  Ticks();
  ASSERT_THAT(disk_.opened, ElementsAre(1));
  Written();
  Ticks();
  EXPECT_TRUE(harness_.shards[1].is_told);
  EXPECT_FALSE(harness_.shards[0].is_told);
  Leave();
  Return(777);
  EXPECT_EQ(NewestSetup(1).restore.checkpoint, 1U);
  EXPECT_EQ(checkpoints().steps_undone, 0U);
  for (FakeWorker& worker : workers_) {
    const auto grant = harness_.TakeGrant(&worker);
    ASSERT_TRUE(grant.has_value()) << "training goes on";
    harness_.Work(&worker, *grant);
  }
  FinishRun();
}

TEST_F(PartialHandoverTest, WhereStepsTakeTooLongWhatComesAfterTheCheckpointIsLost) {
  BeginWithControl();
  Notice(1);
  Wait(milliseconds(4900));
  harness_.Work(&workers_[1], grants_[1]);
  EXPECT_FALSE(harness_.Ask(&workers_[1]).has_value()) << "others have steps under way";
  Wait(milliseconds(300));
  EXPECT_TRUE(harness_.TakeGrant(&workers_[1]).has_value()) << "half of the grace is over";
  for (int i = 0; i < 3 && !harness_.shards[1].is_told; ++i) {
    Written();  // one that was due, and the one for the notice
    Ticks();
  }
  ASSERT_TRUE(harness_.shards[1].is_told);
  harness_.Work(&workers_[0], grants_[0]);
  Leave();
  EXPECT_EQ(checkpoints().steps_undone, 2U);
  Return(777);
  EXPECT_EQ(NewestSetup(1).restore.checkpoint, disk_.opened.back());
  EXPECT_EQ(harness_.status().state, proto::RunState::kTraining);
}

/// Its parameters are read for the model in a moment, and no process that takes its place could be
/// there in time.
TEST_F(PartialHandoverTest, AServerIsNotToldToLeaveWhenNothingIsLeftToLease) {
  BeginWithControl();
  for (size_t i = 1; i < workers_.size(); ++i) {
    for (std::optional<proto::LeaseGrant> grant = grants_[i]; grant;) {
      harness_.Work(&workers_[i], *grant);
      grant = harness_.Ask(&workers_[i]);
    }
  }
  Notice(1);
  for (int i = 0; i < 4; ++i) {  // more than half of the grace: the last steps are not waited for
    Wait(std::chrono::seconds(2));
    if (!disk_.writes.empty()) {
      Written();
    }
  }
  ASSERT_GE(checkpoints().newest, 1U);
  EXPECT_FALSE(harness_.shards[1].is_told);
  harness_.Work(&workers_[0], grants_[0]);
  EXPECT_EQ(harness_.status().state, proto::RunState::kDone);
}

/// The word may be lost with its connection.
TEST_F(PartialHandoverTest, AServerIsToldToLeaveUntilItDoes) {
  BeginWithControl();
  Notice(1);
  Round();
  Ticks();
  Written();
  Ticks();
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(std::exchange(harness_.shards[1].is_told, false)) << i;
    Ticks();
  }
}

TEST_F(PartialHandoverTest, TheSuccessorIsStartedAtTheNoticeAndWaitsForItsPlace) {
  BeginWithControl();
  const size_t before = started();
  Notice(1);
  EXPECT_EQ(started(), before + 1);
  Notice(1, std::chrono::seconds(8));
  EXPECT_EQ(started(), before + 1) << "a second notice";
  EXPECT_EQ(Refusal(777), StatusCode::kUnavailable);
  Round();
  Ticks();
  Written();
  Ticks();
  EXPECT_EQ(Refusal(777), StatusCode::kUnavailable) << "the first one is about to leave";
  Leave();
  harness_.Exit(ProcessKind::kServer, 1, 501, "exited with code 0");
  EXPECT_EQ(started(), before + 1);
  Return(777);
  EXPECT_EQ(NewestSetup(1).restore.checkpoint, 1U);
  Ticks(20);
  Lose(1);
  EXPECT_EQ(started(), before + 2) << "its own end is another loss";
}

TEST_F(PartialHandoverTest, ASuccessorThatEndsFirstIsReplacedWhenTheServerIsGone) {
  for (const int64_t pid : {int64_t{777}, int64_t{0}}) {  // it ran, it was not started
    SCOPED_TRACE(pid);
    if (pid == 777) {
      BeginWithControl();
      Notice(1);
      Round();
    } else {
      Return(778);
      grants_ = harness_.AskAll(&workers_);
      Notice(1);
      Round();
    }
    const size_t before = started();
    harness_.Exit(ProcessKind::kServer, 1, pid, "exited with code 1");
    EXPECT_EQ(harness_.status().state, proto::RunState::kTraining);
    EXPECT_EQ(started(), before);
    Ticks();
    Written();
    Ticks();
    Leave();
    EXPECT_EQ(started(), before + 1);
  }
}

TEST_F(PartialHandoverTest, ASuccessorOutlivesTheNoticeAndTheCoordinator) {
  BeginWithControl();
  Notice(1, milliseconds(100));
  const size_t before = started();
  Ticks(10);
  harness_.Restart();
  for (FakeWorker& worker : workers_) {
    harness_.Reconnect(&worker);
  }
  EXPECT_EQ(Refusal(777), StatusCode::kUnavailable) << "the machine was not taken back";
  Lose(1);
  EXPECT_EQ(started(), before) << "it waits still";
}

TEST_F(PartialHandoverTest, ASuccessorWhoseStartWasDecidedAndNotDoneIsStartedWhenTheServerIsGone) {
  BeginWithControl();
  Notice(1);
  const size_t before = started();
  const LaunchId launch = harness_.fleet.launches[{ProcessKind::kServer, 1}][0];
  const proto::LaunchRecord first{ProcessKind::kServer, 1, launch, 501, 5};
  harness_.core->StartMissing(std::vector{first}, harness_.now);
  EXPECT_EQ(started(), before);
  Lose(1);
  EXPECT_EQ(started(), before + 1);
}

TEST_F(HandoverTest, ASuccessorIsNotTakenForTheServerWhenAllGoBack) {
  BeginWithControl();
  Notice(1, std::chrono::seconds(100));
  Lose(0);
  harness_.shards[0].peer = proto::PeerId();
  EXPECT_EQ(Refusal(777), StatusCode::kUnavailable) << "server 1 is there, and is to come back";
  ShardsReturn(0);
  EXPECT_EQ(PidOf(1), 501);
  WorkersReturn();
  EXPECT_EQ(harness_.status().shards[1].state, proto::ShardRowState::kLeaving);
  EXPECT_EQ(Refusal(777), StatusCode::kUnavailable);
}

class FixedPortTest : public CheckpointTest {
 protected:
  FixedPortTest()
      : CheckpointTest([](CoordinatorOptions* options) { options->config.servers.port = 4711; }) {}
};

TEST_F(FixedPortTest, TwoProcessesCantHaveOnePortSoTheSecondIsStartedAfterTheFirst) {
  Begin();
  const size_t before = harness_.fleet.servers.size();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{WorkerId(1), 10'000, true});
  Wait(harness_.timing.tick * 2);
  EXPECT_EQ(harness_.fleet.servers.size(), before);
  harness_.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9");
  EXPECT_EQ(harness_.fleet.servers.size(), before + 1);
}

TEST_F(PartialHandoverTest, AServersOwnNoticeIsAPersons) {
  BeginWithControl();
  const size_t before = started();
  harness_.Give(
      harness_.shards[1].peer, proto::ServerNotice{ShardId(0), 10'000, "of another shard"});
  EXPECT_FALSE(harness_.shards[1].notice_reply.has_value());
  harness_.Give(
      harness_.shards[1].peer, proto::ServerNotice{ShardId(1), 7'200'000, "Azure event (Reboot)"});
  ASSERT_TRUE(harness_.shards[1].notice_reply.has_value());
  EXPECT_EQ(harness_.shards[1].notice_reply->grace_ms, 3'600'000U) << "an hour at most";
  harness_.Give(harness_.shards[1].peer, proto::ServerNotice{ShardId(1), 10'000, "SIGTERM"});
  EXPECT_EQ(harness_.shards[1].notice_reply->grace_ms, 10'000U);
  EXPECT_EQ(started(), before + 1);
  Round();
  Ticks();
  Written();
  Ticks();
  EXPECT_TRUE(harness_.shards[1].is_told);
}

class NoCheckpointsTest : public CheckpointTest {
 protected:
  NoCheckpointsTest()
      : CheckpointTest([](CoordinatorOptions* o) { o->config.checkpoint.enabled = false; }) {}
};

TEST_F(NoCheckpointsTest, WhereNothingCanBeHandedOverTheServerIsToldSo) {
  Begin();
  const size_t before = harness_.fleet.servers.size();
  harness_.Give(harness_.shards[1].peer, proto::ServerNotice{ShardId(1), 10'000, "SIGTERM"});
  ASSERT_TRUE(harness_.shards[1].notice_reply.has_value());
  EXPECT_EQ(harness_.shards[1].notice_reply->grace_ms, 0U);
  EXPECT_EQ(harness_.fleet.servers.size(), before);
  EXPECT_FALSE(harness_.shards[1].is_told);
}

TEST_F(PartialHandoverTest, AServerThatHandsOverIsStartedOnce) {
  BeginWithControl();
  const size_t before = started();
  Notice(1);
  Round();
  Ticks();
  Written();
  Ticks();
  ASSERT_TRUE(harness_.shards[1].is_told);
  Lose(1);  // its end is known before that of its connection
  harness_.shards[1].peer = proto::PeerId();
  Ticks(3);
  EXPECT_EQ(started(), before + 1);
}

TEST_F(PartialHandoverTest, AServersNoticeOutlivesTheCoordinator) {
  Begin();
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::NoticeRequest{WorkerId(1), 10'000, true});
  EXPECT_EQ(harness_.status().shards[1].state, proto::ShardRowState::kLeaving);
  Round();
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
  Leave();
  Return(777);
  EXPECT_EQ(NewestSetup(1).restore.checkpoint, 2U);
}

}  // namespace
}  // namespace ps::coordinator
