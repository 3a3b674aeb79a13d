#include <gtest/gtest.h>

#include <cmath>

#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

class RefusalTest : public ::testing::Test {
 protected:
  RefusalTest() {
    workers_ = harness_.StartWithWorkers();
    grants_ = harness_.AskAll(&workers_);
  }

  void ExpectRefused(proto::PeerId from, proto::Message message, StatusCode code) {
    harness_.Give(from, std::move(message));
    const auto refusal = harness_.Take<proto::Refusal>(from);
    ASSERT_TRUE(refusal.has_value());
    EXPECT_EQ(refusal->code, code) << refusal->message;
    EXPECT_FALSE(refusal->message.empty());
  }

  Harness harness_;
  std::vector<FakeWorker> workers_;
  std::vector<proto::LeaseGrant> grants_;
};

TEST_F(RefusalTest, MessagesThatACoordinatorDoesNotTake) {
  const proto::PeerId peer = harness_.Connect(proto::Role::kWorker);
  for (const proto::Message& message :
       {proto::Message(proto::Hello{}),
        proto::Message(proto::PushRequest{}),
        proto::Message(proto::JoinReply{}),
        proto::Message(proto::LeaseGrant{}),
        proto::Message(proto::Shutdown{})}) {
    ExpectRefused(peer, message, StatusCode::kInvalidArgument);
  }
}

TEST_F(RefusalTest, MessagesOfAnotherRole) {
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  const proto::PeerId worker = workers_[0].peer;
  const Incarnation me = workers_[0].incarnation;
  ExpectRefused(control, proto::JoinRequest{}, StatusCode::kInvalidArgument);
  ExpectRefused(control, proto::LeaseRequest{me, {}}, StatusCode::kInvalidArgument);
  ExpectRefused(control, proto::Goodbye{me, "", {}}, StatusCode::kInvalidArgument);
  ExpectRefused(control, proto::RegisterShard{}, StatusCode::kInvalidArgument);
  ExpectRefused(worker, proto::StatusRequest{}, StatusCode::kInvalidArgument);
  ExpectRefused(worker, proto::StopRequest{}, StatusCode::kInvalidArgument);
  ExpectRefused(worker, proto::CommitAck{}, StatusCode::kInvalidArgument);
  ExpectRefused(worker, proto::ShardHeartbeat{}, StatusCode::kInvalidArgument);
  EXPECT_EQ(harness_.status().state, proto::RunState::kTraining);
}

/// A worker could end the run with it.
TEST_F(RefusalTest, ATermIsBelievedFromServersAlone) {
  const auto say = [&](proto::Role role) {
    const proto::Hello hello{role, "", "liar", Incarnation(), 1'000'000};
    harness_.core->OnPeerConnected(proto::PeerId(9999), hello, harness_.now, harness_.out());
    return harness_.core->is_outranked();
  };
  EXPECT_FALSE(say(proto::Role::kWorker));
  EXPECT_FALSE(say(proto::Role::kControl));
  EXPECT_TRUE(say(proto::Role::kShard));
}

TEST_F(RefusalTest, AnIncarnationIsBelievedFromWorkersAlone) {
  const Incarnation me = workers_[0].incarnation;
  for (const proto::Role role : {proto::Role::kShard, proto::Role::kControl}) {
    const proto::PeerId peer = harness_.Connect(role, me);
    harness_.core->OnPeerClosed(peer, harness_.now, harness_.out());
  }
  EXPECT_FALSE(harness_.is_closed(workers_[0].peer));
  const std::optional<proto::LeaseGrant> grant = harness_.Ask(&workers_[0]);
  EXPECT_TRUE(grant.has_value());
}

TEST_F(RefusalTest, SomebodyElsesIncarnation) {
  const Incarnation victim = workers_[0].incarnation;
  for (const proto::Message& message :
       {proto::Message(proto::LeaseRequest{victim, {}}),
        proto::Message(proto::Goodbye{victim, "", {}}),
        proto::Message(proto::StepReport{victim, {}})}) {
    const proto::PeerId stranger = harness_.Connect(proto::Role::kWorker);
    ExpectRefused(stranger, message, StatusCode::kUnavailable);
    EXPECT_TRUE(harness_.is_closed(stranger));
  }
  const proto::PeerId stranger = harness_.Connect(proto::Role::kWorker);
  ExpectRefused(stranger, proto::Goodbye{Incarnation(12345), "", {}}, StatusCode::kStale);
  proto::WorkerHeartbeat beat;
  beat.incarnation = Incarnation(12345);
  ExpectRefused(stranger, beat, StatusCode::kStale);
  EXPECT_EQ(harness_.status().revocations_noticed, 0U);
}

TEST_F(RefusalTest, ALeaseThatWasNeverGranted) {
  ExpectRefused(
      workers_[0].peer,
      proto::LeaseRequest{workers_[0].incarnation, LeaseId(1000)},
      StatusCode::kInvalidArgument);
}

TEST_F(RefusalTest, JoinsThatMakeNoSense) {
  proto::JoinRequest request;
  request.has_seat = true;
  request.seat = WorkerId(UINT32_MAX);
  ExpectRefused(harness_.Connect(proto::Role::kWorker), request, StatusCode::kInvalidArgument);
  request = {};
  for (const float slowdown : {-1.0F, 0.5F, 1e30F, std::nanf("")}) {
    request.slowdown = slowdown;
    ExpectRefused(harness_.Connect(proto::Role::kWorker), request, StatusCode::kInvalidArgument);
  }
  request = {};
  request.minibatch = UINT32_MAX;
  ExpectRefused(harness_.Connect(proto::Role::kWorker), request, StatusCode::kInvalidArgument);
}

TEST_F(RefusalTest, ShardsThatAreNotOfTheJob) {
  const proto::PeerId peer = harness_.Connect(proto::Role::kShard);
  const LaunchId launch = harness_.LaunchOf(ProcessKind::kServer, 0, 500);
  for (const proto::RegisterShard& message : {
           proto::RegisterShard{ShardId(9), "host", 1, 1, 0, launch},
           proto::RegisterShard{ShardId(0), "host", 70000, 500, 0, launch},
           proto::RegisterShard{ShardId(0), "host", 1, 501, 0, LaunchId()},
       }) {
    ExpectRefused(peer, message, StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(harness_.status().shards[0].pid, 500);
}

TEST_F(RefusalTest, AcknowledgementsOfWhatIsStillToCome) {
  // The harness exchanges what goes to shards itself; what counts is that nothing changes.
  const Generation before = harness_.status().generation;
  harness_.Give(
      harness_.shards[0].peer, proto::MembershipAck{ShardId(0), Generation(before.value + 1), {}});
  harness_.Give(harness_.shards[0].peer, proto::CommitAck{ShardId(0), 5});
  harness_.Give(harness_.shards[0].peer, proto::CommitAck{ShardId(1), 0});
  EXPECT_EQ(harness_.status().generation, before);
  EXPECT_EQ(harness_.status().round, 0U);
}

TEST_F(RefusalTest, AShardThatRefusesItsPartEndsTheJobWithItsReason) {
  proto::Refusal refusal;
  refusal.code = StatusCode::kUnavailable;
  refusal.message = "not set up yet";
  harness_.Give(harness_.shards[1].peer, refusal);
  EXPECT_EQ(harness_.status().state, proto::RunState::kTraining) << "that is tried again";
  refusal.code = StatusCode::kInvalidArgument;
  refusal.message = "raise servers.queue_mib";
  harness_.Give(harness_.shards[1].peer, refusal);
  EXPECT_EQ(harness_.status().state, proto::RunState::kFailed);
  EXPECT_EQ(harness_.status().detail, "shard 1: raise servers.queue_mib");
}

TEST(RoomTest, BspTakesOnlyAsManyWorkersAsTheShardsHaveRoomFor) {
  CoordinatorOptions options = SmallJob(proto::Mode::kBsp);
  options.tensors = {{"w", {100000}}};
  options.config.servers.count = 1;
  options.config.servers.queue_mib = 1;  // two gradients of 400 kB
  options.config.workers = {{2, 0, 1, 1}};
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const proto::PeerId third = harness.AskToJoin(std::nullopt);
  EXPECT_EQ(harness.Take<proto::Refusal>(third)->code, StatusCode::kOverloaded);
  harness.Exit(ProcessKind::kWorker, 0, 1000, "killed by signal 9");
  harness.Give(third, proto::JoinRequest{});
  EXPECT_TRUE(harness.Take<proto::JoinReply>(third).has_value()) << "there is room now";
}

TEST(RoomTest, AJobWithMoreBspWorkersThanRoomFailsAndSaysWhatToDo) {
  CoordinatorOptions options = SmallJob(proto::Mode::kBsp);
  options.tensors = {{"w", {100000}}};
  options.config.servers.count = 1;
  options.config.servers.queue_mib = 1;
  Harness harness(options);
  harness.StartWithShards();
  harness.AskToJoin(0);
  EXPECT_EQ(harness.status().state, proto::RunState::kFailed);
  EXPECT_NE(harness.status().detail.find("servers.queue_mib"), std::string::npos);
}

TEST_F(RefusalTest, AShardThatClaimsStepsWithoutLeasesChangesNothingElse) {
  harness_.Complete(workers_[0], 1000);
  harness_.Exit(ProcessKind::kWorker, 0, 1000, "killed by signal 9");
  EXPECT_EQ(harness_.status().samples_counted, grants_[0].end - grants_[0].begin);
}

TEST_F(RefusalTest, MessagesOnUnknownConnectionsAreDropped) {
  harness_.Give(proto::PeerId(999), proto::LeaseRequest{workers_[0].incarnation, {}});
  EXPECT_FALSE(harness_.Take<proto::Refusal>(proto::PeerId(999)).has_value());
}

}  // namespace
}  // namespace ps::coordinator
