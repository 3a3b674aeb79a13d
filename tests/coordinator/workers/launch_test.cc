// Processes are known by their launches. Those on other machines have pids that say nothing here,
// and their ends may be told when others have long taken their places.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/coordinator/checkpoint_fixture.h"

namespace ps::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kKilled = "killed by signal 9 (Killed)";

/// A fleet elsewhere, whose lost workers are replaced, and whose processes have all one pid.
class LaunchTest : public CheckpointTest {
 protected:
  LaunchTest()
      : CheckpointTest([](CoordinatorOptions* options) {
          options->config.fleet.replace = true;
          options->train_samples = 2000;
        }) {}

  LaunchId Newest(ProcessKind kind, uint32_t index) { return harness_.fleet.NewestOf(kind, index); }

  /// A worker that was started asks for its seat.
  proto::PeerId Ask(uint32_t seat, LaunchId launch, bool is_returning = false) {
    const proto::PeerId peer = harness_.Connect(proto::Role::kWorker);
    proto::JoinRequest request;
    request.seat = WorkerId(seat);
    request.has_seat = true;
    request.is_returning = is_returning;
    request.host = "container";
    request.pid = 1;
    request.launch = launch;
    harness_.Give(peer, request);
    return peer;
  }

  std::optional<StatusCode> RefusalOf(proto::PeerId peer) {
    const auto refusal = harness_.Take<proto::Refusal>(peer);
    return refusal ? std::optional(refusal->code) : std::nullopt;
  }

  /// A server's process asks for its place.
  proto::PeerId Register(uint32_t server, LaunchId launch, int64_t pid = 1, uint64_t life = 0) {
    const proto::PeerId peer = harness_.Connect(proto::Role::kShard);
    harness_.Give(
        peer, proto::RegisterShard{ShardId(server), "container", 7100, pid, life, launch});
    return peer;
  }

  /// The machine of worker 0 says nothing any more, and another worker is started in its seat.
  void ReplaceSilent() {
    Begin();
    first_ = Newest(ProcessKind::kWorker, 0);
    harness_.fleet.workers.clear();
    harness_.Wait(harness_.timing.detect * 2, {workers_[1], workers_[2]});
    ASSERT_THAT(harness_.fleet.TakeStarted(), ElementsAre(0));
    second_ = Newest(ProcessKind::kWorker, 0);
    ASSERT_EQ(harness_.status().revocations_unnoticed, 1U);
  }

  void EndOfWorker(LaunchId launch) { harness_.Exit(ProcessKind::kWorker, 0, launch, kKilled); }

  size_t members() const { return harness_.core->StateAt(harness_.now).membership.members.size(); }

  LaunchId first_;
  LaunchId second_;
};

TEST_F(LaunchTest, TheLateEndOfAWorkersPredecessorIsNoLossOfIts) {
  ReplaceSilent();
  const proto::PeerId peer = Ask(0, second_);
  ASSERT_TRUE(harness_.Take<proto::JoinReply>(peer).has_value());
  EndOfWorker(first_);
  EXPECT_EQ(members(), 3U);
  EXPECT_EQ(harness_.status().revocations_unnoticed, 1U);
  EndOfWorker(second_);
  EXPECT_EQ(members(), 2U);
  EXPECT_EQ(harness_.status().revocations_unnoticed, 2U) << "its own end is one";
}

TEST_F(LaunchTest, AWorkerThatHasNotJoinedYetIsExpectedAfterTheEndOfItsPredecessor) {
  ReplaceSilent();
  EndOfWorker(first_);
  harness_.Wait(harness_.timing.tick * 2, {workers_[1], workers_[2]});
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty()) << "one is on its way";
  EXPECT_TRUE(harness_.Take<proto::JoinReply>(Ask(0, second_)).has_value());
}

TEST_F(LaunchTest, WhatAPredecessorAskedBeforeItWasReplacedTakesNoSeat) {
  ReplaceSilent();
  EXPECT_EQ(RefusalOf(Ask(0, first_)), StatusCode::kCancelled) << "before the other one is there";
  const proto::PeerId peer = Ask(0, second_);
  ASSERT_TRUE(harness_.Take<proto::JoinReply>(peer).has_value());
  EXPECT_EQ(RefusalOf(Ask(0, first_)), StatusCode::kCancelled);
  EXPECT_FALSE(harness_.is_closed(peer));
}

TEST_F(LaunchTest, AWorkerThatWasStartedByHandDoesNotEndWithTheFleets) {
  ReplaceSilent();
  const proto::PeerId by_hand = Ask(0, LaunchId());
  ASSERT_TRUE(harness_.Take<proto::JoinReply>(by_hand).has_value());
  EndOfWorker(first_);
  EndOfWorker(second_);
  EXPECT_EQ(members(), 3U);
  EXPECT_FALSE(harness_.is_closed(by_hand));
}

TEST_F(LaunchTest, AWorkerThatHasAnotherSeatByNowEndsThere) {
  ReplaceSilent();
  ASSERT_TRUE(harness_.Take<proto::JoinReply>(Ask(0, second_)).has_value());
  const auto moved = harness_.Take<proto::JoinReply>(Ask(0, first_, true));
  ASSERT_TRUE(moved.has_value());
  ASSERT_NE(moved->worker, WorkerId(0));
  ASSERT_EQ(members(), 4U);
  EndOfWorker(first_);
  EXPECT_EQ(members(), 3U);
  EXPECT_EQ(harness_.core->StateAt(harness_.now).membership.members.count(moved->incarnation), 0U);
}

/// A batch system that has taken one job twice.
TEST_F(LaunchTest, OfTwoWorkersOfOneLaunchTheSecondWaitsForTheFirst) {
  Begin();
  const LaunchId launch = Newest(ProcessKind::kWorker, 0);
  EXPECT_EQ(RefusalOf(Ask(0, launch)), StatusCode::kUnavailable) << "it asks again and again";
  EXPECT_FALSE(harness_.is_closed(workers_[0].peer));
  EXPECT_EQ(harness_.status().revocations_unnoticed, 0U);
  harness_.core->OnPeerClosed(workers_[0].peer, harness_.now, harness_.out());
  EXPECT_TRUE(harness_.Take<proto::JoinReply>(Ask(0, launch)).has_value());
  EXPECT_EQ(members(), 3U);
}

TEST_F(LaunchTest, TheLateEndOfAServersPredecessorIsNoLossOfIts) {
  Begin();
  const LaunchId first = Newest(ProcessKind::kServer, 1);
  Wait(kEvery);
  Written();
  harness_.shards[1].is_silent = true;
  Wait(harness_.timing.server_detect + harness_.timing.detect);
  harness_.shards[1] = {};
  const LaunchId second = Newest(ProcessKind::kServer, 1);
  ASSERT_NE(first, second);
  const size_t started = harness_.fleet.servers.size();
  harness_.Exit(ProcessKind::kServer, 1, first, kKilled);
  EXPECT_EQ(harness_.fleet.servers.size(), started) << "another one is on its way";
  const proto::PeerId peer = Register(1, second);
  const auto setup = harness_.Take<proto::ShardSetup>(peer);
  ASSERT_TRUE(setup.has_value());
  harness_.Give(peer, proto::ShardReady{ShardId(1), setup->life});
  harness_.Exit(ProcessKind::kServer, 1, first, kKilled);
  EXPECT_EQ(harness_.fleet.servers.size(), started);
  EXPECT_FALSE(harness_.is_closed(peer));
  harness_.Exit(ProcessKind::kServer, 1, second, kKilled);
  EXPECT_EQ(harness_.fleet.servers.size(), started + 1) << "its own end is one";
}

/// Without checkpoints any end of a server would be that of the job.
TEST(LaunchOfServersTest, AnEndOfAnEarlierProcessDoesNotFailTheJob) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  harness.Exit(ProcessKind::kServer, 1, LaunchId(1000), "exited with code 1");
  EXPECT_EQ(harness.status().state, proto::RunState::kTraining);
  harness.Exit(ProcessKind::kServer, 1, 501, kKilled);
  EXPECT_EQ(harness.status().state, proto::RunState::kFailed);
  EXPECT_THAT(harness.status().detail, HasSubstr("server 1 (pid 501) was lost"));
}

TEST_F(LaunchTest, OfTwoServersOfOneLaunchTheFirstHasThePlace) {
  harness_.core->Start(harness_.now);
  const LaunchId launch = Newest(ProcessKind::kServer, 0);
  const proto::PeerId first = Register(0, launch, 11);
  ASSERT_TRUE(harness_.Take<proto::ShardSetup>(first).has_value());
  EXPECT_EQ(RefusalOf(Register(0, launch, 12)), StatusCode::kInvalidArgument);
  EXPECT_FALSE(harness_.is_closed(first));
}

/// In containers the pids are all 1.
TEST_F(LaunchTest, ServersWithOnePidAreToldApart) {
  harness_.core->Start(harness_.now);
  const proto::PeerId first = Register(0, Newest(ProcessKind::kServer, 0));
  ASSERT_TRUE(harness_.Take<proto::ShardSetup>(first).has_value());
  EXPECT_TRUE(RefusalOf(Register(0, Newest(ProcessKind::kServer, 1))).has_value());
  EXPECT_FALSE(harness_.is_closed(first));
}

TEST_F(LaunchTest, LaunchesGrowAcrossRestartsOfTheCoordinator) {
  Begin();
  const auto all = [this] {
    std::vector<LaunchId> launches;
    for (const auto& [place, started] : harness_.fleet.launches) {
      launches.insert(launches.end(), started.begin(), started.end());
    }
    return launches;
  };
  const std::vector<LaunchId> before = all();
  EXPECT_THAT(before, SizeIs(5U));
  EXPECT_EQ(std::ranges::count(before, LaunchId()), 0);
  harness_.Restart();
  for (FakeWorker& worker : workers_) {
    harness_.Reconnect(&worker);
  }
  harness_.Exit(ProcessKind::kWorker, 0, 1000, kKilled);
  harness_.Wait(harness_.timing.tick * 2, {workers_[1], workers_[2]});
  EXPECT_GT(Newest(ProcessKind::kWorker, 0), *std::ranges::max_element(before));
}

}  // namespace
}  // namespace ps::coordinator
