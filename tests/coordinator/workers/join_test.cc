#include <gtest/gtest.h>

#include <set>

#include "ps/crypto/worker_token.h"
#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

TEST(JoinTest, TheCoreAsksForTheServersAndWorkersOfTheConfig) {
  CoordinatorOptions options = SmallJob();
  options.config.workers = {{1, 0, 1, 1}, {2, 5, 3, 2}};
  Harness harness(options);
  harness.core->Start(harness.now);
  EXPECT_EQ(harness.fleet.servers, (std::vector<uint32_t>{0, 1}));
  ASSERT_EQ(harness.fleet.workers.size(), 3U);
  EXPECT_EQ(harness.fleet.workers[0].second.minibatch, 10U);
  EXPECT_EQ(harness.fleet.workers[2].first, WorkerId(2));
  EXPECT_EQ(harness.fleet.workers[2].second.minibatch, 5U);
  EXPECT_EQ(harness.fleet.workers[2].second.slowdown, 3);
}

TEST(JoinTest, ServersAndWorkersMayAllBeStartedByHand) {
  CoordinatorOptions options = SmallJob();
  options.config.workers.clear();
  options.config.servers.launch = false;
  Harness harness(options);
  harness.StartWithShards();
  EXPECT_TRUE(harness.fleet.servers.empty());
  EXPECT_TRUE(harness.fleet.workers.empty());
  EXPECT_EQ(harness.status().state, proto::RunState::kStarting);
  FakeWorker worker = harness.Join();
  EXPECT_EQ(worker.seat, WorkerId(0));
  EXPECT_TRUE(harness.Ask(&worker).has_value()) << "training begins with the first who joins";
}

TEST(JoinTest, AJobThatNobodyJoinsSaysThatItStartsNoWorkers) {
  CoordinatorOptions options = SmallJob();
  options.config.workers.clear();
  Harness harness(options);
  harness.StartWithShards();
  harness.Wait(std::chrono::seconds(31));
  const proto::JobStatus status = harness.status();
  EXPECT_EQ(status.state, proto::RunState::kFailed);
  EXPECT_EQ(
      status.detail,
      "no worker joined within 30 s (fleet.join_timeout_s); the job has none that psctl "
      "starts, so start some by hand");
}

TEST(JoinTest, AWorkersTokenIsForItsSeatAlone) {
  Harness harness;
  harness.StartWithShards();
  const std::string token = crypto::MakeWorkerToken("the run's", WorkerId(1));
  const auto ask = [&](proto::JoinRequest request) {
    const proto::PeerId peer = harness.Connect(proto::Role::kWorker, {}, token);
    harness.Give(peer, request);
    return peer;
  };
  proto::JoinRequest other;
  other.seat = WorkerId(2);
  other.has_seat = true;
  proto::JoinRequest any;
  any.seat = WorkerId(1);
  proto::JoinRequest returning;
  returning.seat = WorkerId(2);
  returning.is_returning = true;
  for (const proto::JoinRequest& request : {other, any, returning}) {
    const auto refusal = harness.Take<proto::Refusal>(ask(request));
    ASSERT_TRUE(refusal.has_value());
    EXPECT_EQ(refusal->code, StatusCode::kInvalidArgument);
    EXPECT_EQ(refusal->message, "this token is worker 1's and lets nobody in as another one");
  }
  proto::JoinRequest own = other;
  own.seat = WorkerId(1);
  EXPECT_EQ(harness.Take<proto::JoinReply>(ask(own))->worker, WorkerId(1));
}

TEST(JoinTest, AWorkersTokenIsNoWayIntoAnotherOnesPlace) {
  Harness harness;
  harness.StartWithShards();
  const FakeWorker victim = harness.Join(2);
  const std::string token = crypto::MakeWorkerToken("the run's", WorkerId(1));
  const proto::PeerId thief = harness.Connect(proto::Role::kWorker, victim.incarnation, token);
  const auto refusal = harness.Take<proto::Refusal>(thief);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, StatusCode::kInvalidArgument);
  EXPECT_TRUE(harness.is_closed(thief));
  EXPECT_FALSE(harness.is_closed(victim.peer));
}

TEST(JoinTest, AStartedWorkerThatReturnsWaitsForItsSeatAndTakesNoOther) {
  Harness harness;
  harness.StartWithShards();
  harness.Join(1, 77);  // by hand, meanwhile
  const std::string token = crypto::MakeWorkerToken("the run's", WorkerId(1));
  const proto::PeerId peer = harness.Connect(proto::Role::kWorker, {}, token);
  proto::JoinRequest returning;
  returning.seat = WorkerId(1);
  returning.is_returning = true;
  returning.pid = 78;
  returning.host = "host";
  harness.Give(peer, returning);
  const auto refusal = harness.Take<proto::Refusal>(peer);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, StatusCode::kOverloaded) << "to be tried again";
}

TEST(JoinTest, AWorkerLearnsItsIncarnationWhenEveryShardKnowsIt) {
  Harness harness;
  harness.StartWithShards();
  harness.shards[1].is_mute = true;
  const proto::PeerId peer = harness.AskToJoin(0);
  EXPECT_FALSE(harness.Take<proto::JoinReply>(peer).has_value());
  harness.Unmute(1);
  const auto reply = harness.Take<proto::JoinReply>(peer);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->worker, WorkerId(0));
  EXPECT_EQ(reply->incarnation, Incarnation(1));
  EXPECT_EQ(reply->shards.size(), 2U);
  EXPECT_EQ(reply->shards[1].port, 7001U);
  EXPECT_FALSE(reply->placement.chunks.empty());
  EXPECT_EQ(reply->minibatch, 10U);
  const auto config = proto::ParseJobConfig(reply->config_json, "reply");
  EXPECT_TRUE(config.ok() || config.status().code() != StatusCode::kCorruption);
  ASSERT_EQ(harness.shards[0].membership.members.size(), 1U);
  EXPECT_EQ(harness.shards[0].membership.members[0].incarnation, Incarnation(1));
}

TEST(JoinTest, WorkersThatComeBeforeTheShardsWaitForThem) {
  Harness harness;
  harness.core->Start(harness.now);
  const proto::PeerId early = harness.AskToJoin(1);
  harness.RegisterShard(0, 500);
  EXPECT_FALSE(harness.Take<proto::JoinReply>(early).has_value());
  harness.RegisterShard(1, 501);
  EXPECT_TRUE(harness.Take<proto::JoinReply>(early).has_value());
}

TEST(JoinTest, ARepeatedRequestGetsTheSameAnswer) {
  Harness harness;
  harness.StartWithShards();
  const FakeWorker worker = harness.Join(0);
  proto::JoinRequest request;
  request.has_seat = true;
  request.host = "host";
  request.launch = harness.fleet.NewestOf(ProcessKind::kWorker, 0);
  harness.Give(worker.peer, request);
  const auto again = harness.Take<proto::JoinReply>(worker.peer);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->incarnation, worker.incarnation);
  EXPECT_EQ(harness.status().joins, 1U);
}

TEST(JoinTest, ATakenSeatGoesToTheNewcomerAndFencesItsHolder) {
  Harness harness;
  harness.StartWithShards();
  const FakeWorker old = harness.Join(0, 11);
  const FakeWorker fresh = harness.Join(0, 12);
  EXPECT_GT(fresh.incarnation, old.incarnation);
  EXPECT_EQ(fresh.seat, WorkerId(0));
  EXPECT_TRUE(harness.is_closed(old.peer));
  const proto::PeerId back = harness.Connect(proto::Role::kWorker, old.incarnation);
  harness.Give(back, proto::LeaseRequest{old.incarnation, {}});
  EXPECT_EQ(harness.Take<proto::Refusal>(back)->code, StatusCode::kStale);
}

TEST(JoinTest, AWorkerWithoutASeatGetsTheLowestFreeOne) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  for (FakeWorker& worker : workers) {
    harness.Ask(&worker);
  }
  EXPECT_EQ(harness.Join().seat, WorkerId(3)) << "a fresh one";
  harness.Exit(ProcessKind::kWorker, 1, 1001, "killed by signal 9");
  EXPECT_EQ(harness.Join().seat, WorkerId(1)) << "the lost one's";
}

TEST(JoinTest, AWorkerThatComesBackGetsItsOwnSeatAndNotTheLowest) {
  CoordinatorOptions options = SmallJob();
  options.config.workers = {{.count = 2}, {.count = 1, .minibatch = 5, .slowdown = 2}};
  Harness harness(options);
  harness.StartWithWorkers();
  harness.Exit(ProcessKind::kWorker, 0, 1000, "killed by signal 9 (Killed)");
  harness.Exit(ProcessKind::kWorker, 2, 1002, "no heartbeat");
  const FakeWorker back = harness.Join(2, 1002, true);
  EXPECT_EQ(back.seat, WorkerId(2));
  EXPECT_EQ(back.minibatch, 5U);
}

TEST(JoinTest, AWorkerWhoseSeatIsTakenComesBackAsAnotherAndDisplacesNobody) {
  CoordinatorOptions options = SmallJob();
  options.config.workers = {{.count = 2}, {.count = 1, .minibatch = 5, .slowdown = 2}};
  Harness harness(options);
  harness.StartWithWorkers();
  harness.Exit(ProcessKind::kWorker, 0, 1000, "killed by signal 9 (Killed)");
  harness.Exit(ProcessKind::kWorker, 2, 1002, "no heartbeat");
  const FakeWorker heir = harness.Join(2, 2000);
  const FakeWorker back = harness.Join(2, 1002, true);
  EXPECT_EQ(back.seat, WorkerId(3)) << "seat 0 stands for another worker";
  EXPECT_EQ(back.minibatch, 5U) << "it is the machine that it was";
  EXPECT_EQ(harness.status().workers.size(), 3U + 2U);
  EXPECT_FALSE(harness.is_closed(heir.peer));
}

TEST(JoinTest, OneThatComesBackAndLosesItsConnectionBeforeTheAnswerStartsOver) {
  Harness harness;
  harness.StartWithWorkers();
  harness.Exit(ProcessKind::kWorker, 2, 1002, "no heartbeat");
  harness.shards[0].is_mute = true;
  harness.AskToJoin(2, 1002, true);
  const proto::PeerId second = harness.AskToJoin(2, 1002, true);
  harness.Unmute(0);
  const auto reply = harness.Take<proto::JoinReply>(second);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->worker, WorkerId(2));
}

TEST(JoinTest, OneThatLosesItsConnectionBeforeTheAnswerStartsOver) {
  Harness harness;
  harness.StartWithShards();
  harness.shards[0].is_mute = true;
  const proto::PeerId peer = harness.AskToJoin(0, 77);
  harness.core->OnPeerClosed(peer, harness.now, harness.out());
  harness.Unmute(0);
  EXPECT_TRUE(harness.shards[0].membership.members.empty());
  EXPECT_EQ(harness.Join(0, 77).incarnation, Incarnation(2));
  EXPECT_EQ(harness.status().revocations_unnoticed, 0U) << "it was never there";
}

TEST(JoinTest, AMemberComesBackOnANewConnection) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.core->OnPeerClosed(workers[0].peer, harness.now, harness.out());
  harness.Wait(harness.timing.detect / 2, {workers[1], workers[2]});
  workers[0].peer = harness.Connect(proto::Role::kWorker, workers[0].incarnation);
  for (FakeWorker& worker : workers) {
    harness.Ask(&worker);
  }
  harness.Wait(harness.timing.detect * 2, workers);
  EXPECT_EQ(harness.status().revocations_unnoticed, 0U);
}

TEST(JoinTest, AMemberThatSpeaksOnAnEarlierConnectionStaysAMember) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.Exit(ProcessKind::kWorker, 0, 0, "hung, or so it seemed");
  const FakeWorker anew = harness.Join();
  ASSERT_NE(anew.incarnation, workers[0].incarnation);
  // This connection was asked for when its first incarnation was still thought to be there.
  const proto::PeerId late = harness.Connect(proto::Role::kWorker, workers[0].incarnation);
  proto::WorkerHeartbeat beat;
  beat.incarnation = anew.incarnation;
  harness.Give(late, beat);
  const auto refusal = harness.Take<proto::Refusal>(late);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, StatusCode::kUnavailable);  // kStale would make it join once more
  EXPECT_TRUE(harness.is_closed(late));

  const proto::PeerId own = harness.Connect(proto::Role::kWorker, anew.incarnation);
  harness.Give(own, beat);
  EXPECT_TRUE(harness.Take<proto::HeartbeatReply>(own).has_value());
}

TEST(JoinTest, AWorkerJoinsInTheMiddleOfTraining) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  for (FakeWorker& worker : workers) {
    harness.Ask(&worker);
  }
  FakeWorker late = harness.Join();
  EXPECT_TRUE(harness.Ask(&late).has_value());
}

TEST(JoinTest, TheFirstLeaseIsGrantedWhenAllWorkersOfTheConfigAreThere) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  EXPECT_FALSE(harness.Ask(&workers[0]).has_value());
  EXPECT_FALSE(harness.Ask(&workers[1]).has_value());
  EXPECT_EQ(harness.status().state, proto::RunState::kStarting);
  EXPECT_TRUE(harness.Ask(&workers[2]).has_value());
  EXPECT_TRUE(harness.TakeGrant(&workers[0]).has_value());
  EXPECT_EQ(harness.status().state, proto::RunState::kTraining);
}

TEST(JoinTest, AWorkerThatEndsBeforeItJoinsIsNotWaitedFor) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.Ask(&workers[0]);
  harness.Ask(&workers[1]);
  harness.Exit(ProcessKind::kWorker, 2, 1002, "exited with code 1");
  EXPECT_TRUE(harness.TakeGrant(&workers[0]).has_value());
}

TEST(JoinTest, MembershipsAreSentAgainUntilAcknowledged) {
  Harness harness;
  harness.StartWithShards();
  harness.shards[1].is_mute = true;
  const proto::PeerId peer = harness.AskToJoin(0);
  harness.Wait(harness.timing.detect / 2);
  EXPECT_GE(harness.shards[1].unanswered.size(), 3U);
  EXPECT_LE(harness.shards[1].unanswered.size(), 8U) << "with growing waits";
  harness.shards[1].unanswered.erase(
      harness.shards[1].unanswered.begin(), harness.shards[1].unanswered.end() - 1);
  harness.Unmute(1);
  EXPECT_TRUE(harness.Take<proto::JoinReply>(peer).has_value());
}

TEST(JoinTest, AShardThatIsSlowIsToldOfACrowdAtOnce) {
  Harness harness;
  harness.StartWithShards();
  harness.shards[1].is_mute = true;
  std::vector<proto::PeerId> peers;
  for (int i = 0; i < 20; ++i) {
    peers.push_back(harness.AskToJoin(std::nullopt));
  }
  ASSERT_EQ(harness.shards[1].unanswered.size(), 1U) << "not one for each, with all before it";
  harness.Unmute(1);
  for (const proto::PeerId peer : peers) {
    EXPECT_TRUE(harness.Take<proto::JoinReply>(peer).has_value()) << peer;
  }
  EXPECT_EQ(harness.shards[1].membership.members.size(), 20U) << "the newest tells of all";
}

TEST(JoinTest, OneMoreWorkerThanThereAreSeatsIsRefusedAndTakesOneThatIsLeft) {
  CoordinatorOptions options = SmallJob();
  options.config.workers = {{proto::kSeatsMax, 0, 1, 1}};
  Harness harness(options);
  harness.StartWithShards();
  const proto::PeerId last = harness.AskToJoin(std::nullopt);
  const auto refusal = harness.Take<proto::Refusal>(last);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, StatusCode::kOverloaded);
  EXPECT_EQ(refusal->message, "all 16384 seats are taken; a worker can join when one has left");
  harness.Exit(ProcessKind::kWorker, 17, 1017, "exited with code 0");
  const proto::PeerId again = harness.AskToJoin(std::nullopt);
  const auto reply = harness.Take<proto::JoinReply>(again);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->worker, WorkerId(17));
}

TEST(JoinTest, AThousandJoinsAndLeavesLeaveNothingBehind) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  for (FakeWorker& worker : workers) {
    harness.Ask(&worker);
  }
  for (int i = 0; i < 1000; ++i) {
    FakeWorker guest = harness.Join(5, 2000 + i);
    harness.Ask(&guest);
    if (i % 2 == 0) {
      harness.Exit(ProcessKind::kWorker, 5, 2000 + i, "killed by signal 9");
    } else {
      harness.Give(guest.peer, proto::Goodbye{guest.incarnation, "notice", {}});
      EXPECT_TRUE(harness.Take<proto::GoodbyeReply>(guest.peer).has_value());
      harness.core->OnPeerClosed(guest.peer, harness.now, harness.out());
    }
  }
  const proto::JobStatus status = harness.status();
  EXPECT_EQ(status.joins, 1003U);
  EXPECT_LE(status.workers.size(), 3 + 64U);
  EXPECT_LE(harness.shards[0].membership.members.size(), 4U);
  EXPECT_LE(harness.shards[0].membership.resolve.size(), 1U);
  EXPECT_EQ(status.revocations_noticed, 500U);
  EXPECT_EQ(status.revocations_unnoticed, 500U);
}

TEST(JoinTest, AFreeJoinerGetsNoSeatWhoseProcessIsOnlyDisconnected) {
  Harness harness;
  harness.StartWithShards();
  harness.shards[1].is_mute = true;
  const proto::PeerId joining = harness.AskToJoin(0, 70);
  harness.core->OnPeerClosed(joining, harness.now, harness.out());
  harness.Unmute(1);
  const FakeWorker free = harness.Join(std::nullopt, 71);
  EXPECT_NE(free.seat, WorkerId(0));
  const FakeWorker same = harness.Join(0, 70);
  EXPECT_EQ(same.seat, WorkerId(0));
  EXPECT_EQ(harness.core->member_count(), 2U) << "nobody was displaced";
}

/// Its process was started by hand, and asks again as soon as it finds a coordinator.
TEST(JoinTest, WhoWasOnlyDisconnectedIsNotStartedByAnotherCoordinator) {
  Harness harness;
  const auto launched = static_cast<uint32_t>(harness.StartWithWorkers().size());
  harness.shards[1].is_mute = true;
  const proto::PeerId joining = harness.AskToJoin(std::nullopt, 70);
  harness.core->OnPeerClosed(joining, harness.now, harness.out());
  harness.fleet.workers.clear();
  harness.Restart();
  harness.core->StartMissing({}, harness.now);
  for (const auto& [seat, group] : harness.fleet.workers) {
    EXPECT_LT(seat, WorkerId(launched)) << "nobody launched it";
  }
}

TEST(JoinTest, ASeatIsNotKeptForLong) {
  Harness harness;
  harness.StartWithShards();
  harness.shards[1].is_mute = true;
  const proto::PeerId joining = harness.AskToJoin(7, 70);
  harness.core->OnPeerClosed(joining, harness.now, harness.out());
  harness.Unmute(1);
  harness.Wait(harness.timing.detect * 2);
  std::set<WorkerId> seats;
  for (int64_t pid = 71; pid < 77; ++pid) {
    seats.insert(harness.Join(std::nullopt, pid).seat);
  }
  EXPECT_TRUE(seats.contains(WorkerId(7))) << "it is free again";
}

TEST(JoinTest, AMemberWhoseAnswerWasLostWithItsConnectionIsNoRevocation) {
  Harness harness;
  harness.StartWithShards();
  harness.Join();
  harness.Restart();  // its connection ends, and it does not know that it is a member
  harness.Wait(harness.timing.detect * 2);
  EXPECT_EQ(harness.core->member_count(), 0U);
  EXPECT_EQ(harness.status().revocations_unnoticed, 0U);
}

}  // namespace
}  // namespace ps::coordinator
