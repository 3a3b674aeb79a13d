#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

class ModeTest : public ::testing::TestWithParam<proto::Mode> {};

TEST_P(ModeTest, AJobEndsWithEverySampleCountedAndEverybodyGone) {
  CoordinatorOptions options = SmallJob(GetParam());
  options.config.train.epochs = 3;
  options.train_samples = 217;
  options.test_samples = 900;
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  RunToTheEnd(&harness, &workers);
  EXPECT_EQ(harness.status().state, proto::RunState::kDone);
  EXPECT_EQ(harness.status().samples_counted, 651U);
  EXPECT_EQ(harness.status().evaluations.size(), 3U);
  EXPECT_FALSE(harness.core->is_finished()) << "nobody has left yet";
  for (const FakeWorker& worker : workers) {
    EXPECT_TRUE(harness.Take<proto::Shutdown>(worker.peer).has_value());
  }
  CloseAll(&harness, workers);
  EXPECT_FALSE(harness.core->is_finished()) << "shards leave after the workers";
  for (const FakeShard& shard : harness.shards) {
    harness.core->OnPeerClosed(shard.peer, harness.now, harness.out());
  }
  EXPECT_TRUE(harness.core->is_finished());
  EXPECT_TRUE(harness.core->outcome().ok());
  EXPECT_EQ(harness.core->exit_code(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    ModeTest,
    ::testing::Values(proto::Mode::kAsync, proto::Mode::kSsp, proto::Mode::kBsp),
    [](const auto& entry) {
      return std::string(
          entry.param == proto::Mode::kAsync ? "Async"
                                             : (entry.param == proto::Mode::kSsp ? "Ssp" : "Bsp"));
    });

TEST(EndTest, ShutdownIsRepeatedAndNobodyIsWaitedForForEver) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  RunToTheEnd(&harness, &workers);
  harness.Wait(harness.timing.detect / 2);
  int told = 0;
  while (harness.Take<proto::Shutdown>(workers[0].peer)) {
    ++told;
  }
  EXPECT_GE(told, 2);
  harness.Give(workers[1].peer, proto::LeaseRequest{workers[1].incarnation, workers[1].newest});
  EXPECT_TRUE(harness.Take<proto::Shutdown>(workers[1].peer).has_value());
  harness.Wait(harness.timing.detect * 2);
  EXPECT_TRUE(harness.core->is_finished());
}

TEST(EndTest, TheSummaryHasWhatWorkersSayAsTheyLeave) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  RunToTheEnd(&harness, &workers);
  proto::WorkerHeartbeat last;
  last.incarnation = workers[0].incarnation;
  last.stats.bytes_pushed = 700;
  harness.Give(workers[1].peer, last);
  EXPECT_NE(harness.status().workers[0].stats.bytes_pushed, 700U) << "that was somebody else";
  harness.Give(workers[0].peer, last);
  EXPECT_EQ(harness.status().workers[0].stats.bytes_pushed, 700U);
}

TEST(EndTest, AWorkerThatComesAfterTheEndIsSentAway) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  RunToTheEnd(&harness, &workers);
  const proto::PeerId late = harness.AskToJoin(std::nullopt);
  EXPECT_TRUE(harness.Take<proto::Shutdown>(late).has_value());
}

TEST(EndTest, ALostServerProcessFailsTheJobWithAClearMessage) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  harness.Exit(ProcessKind::kServer, 1, 501, "killed by signal 9 (Killed)");
  const proto::JobStatus status = harness.status();
  EXPECT_EQ(status.state, proto::RunState::kFailed);
  EXPECT_NE(
      status.detail.find("server 1 (pid 501) was lost: killed by signal 9"), std::string::npos)
      << status.detail;
  EXPECT_NE(status.detail.find("checkpoint"), std::string::npos);
  EXPECT_TRUE(harness.Take<proto::Shutdown>(workers[0].peer).has_value());
  harness.Wait(harness.timing.detect * 2);
  EXPECT_TRUE(harness.core->is_finished());
  EXPECT_EQ(harness.core->exit_code(), 1);
  EXPECT_EQ(harness.core->outcome().code(), StatusCode::kUnavailable);
}

/// Its launcher may do better the next time.
TEST(EndTest, AServerThatDoesNotStartIsStartedAgainFourTimesAtMost) {
  Harness harness;
  harness.core->Start(harness.now);
  harness.fleet.servers.clear();
  const TimePoint begin = harness.now;
  for (int64_t pid = 600; pid < 604; ++pid) {
    harness.Exit(ProcessKind::kServer, 1, pid, "exited with code 1");
    EXPECT_EQ(harness.status().state, proto::RunState::kStarting);
    while (harness.core->outcome().ok() &&
           harness.fleet.servers.size() < static_cast<size_t>(pid - 599)) {
      harness.Wait(harness.timing.tick);
    }
  }
  EXPECT_EQ(harness.fleet.servers, std::vector<uint32_t>(4, 1));
  EXPECT_GT(harness.now - begin, std::chrono::seconds(5)) << "what ends it may pass";
  harness.Exit(ProcessKind::kServer, 1, 604, "exited with code 1");
  EXPECT_EQ(harness.status().state, proto::RunState::kFailed);
  EXPECT_THAT(harness.status().detail, ::testing::HasSubstr("server 1 was lost: exited"));
}

/// As when a launcher starts a server twice, and the one that it knows comes second.
TEST(EndTest, TheEndOfAServerProcessThatNeverHadAPlaceEndsNothing) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  ASSERT_EQ(harness.status().state, proto::RunState::kTraining);
  harness.Exit(ProcessKind::kServer, 1, 4711, "exited with code 1");
  EXPECT_EQ(harness.status().state, proto::RunState::kTraining);
}

TEST(EndTest, ASilentShardFailsTheJob) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.core->OnPeerClosed(harness.shards[0].peer, harness.now, harness.out());
  harness.shards[0].peer = proto::PeerId();
  harness.Wait(harness.timing.server_detect - harness.timing.detect, workers);
  EXPECT_EQ(harness.status().shards[0].state, proto::ShardRowState::kSilent);
  EXPECT_NE(harness.status().state, proto::RunState::kFailed);
  harness.Wait(harness.timing.detect * 2, workers);
  EXPECT_EQ(harness.status().state, proto::RunState::kFailed);
  EXPECT_NE(
      harness.status().detail.find("server 0 (pid 500) does not answer: no connection for 24."),
      std::string::npos)
      << harness.status().detail;
  EXPECT_NE(harness.status().detail.find("servers.max_detect_s"), std::string::npos);
  EXPECT_EQ(harness.status().detail.find("gone"), std::string::npos) << "nobody knows that";
}

TEST(EndTest, WhileAServerIsSilentNobodyIsBlamedForStandingStill) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  for (size_t i = 0; i < workers.size(); ++i) {
    harness.Work(&workers[i], grants[i]);  // from here on lease times follow from the steps
  }
  harness.AskAll(&workers);
  const proto::PeerId lost = std::exchange(harness.shards[0].peer, proto::PeerId());
  harness.core->OnPeerClosed(lost, harness.now, harness.out());
  harness.Wait(harness.timing.lease * 2, workers);
  EXPECT_EQ(harness.status().state, proto::RunState::kWaiting);
  EXPECT_EQ(
      harness.status().detail,
      "server 0 does not answer; after 24.0 s of silence (servers.max_detect_s) it counts as lost");
  EXPECT_EQ(harness.status().waits[0].for_whom, "shard 0");
  harness.RegisterShard(0, 500);
  harness.Wait(harness.timing.lease / 2, workers);
  EXPECT_EQ(harness.status().state, proto::RunState::kTraining);
  EXPECT_EQ(harness.status().revocations_unnoticed, 0U);
  harness.Wait(harness.timing.lease, workers);
  EXPECT_EQ(harness.status().revocations_unnoticed, 3U) << "now they had the time";
}

TEST(EndTest, HeartbeatsOfAServerThatAreLostNowAndThenExcuseNobodyForEver) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  for (size_t i = 0; i < workers.size(); ++i) {
    harness.Work(&workers[i], grants[i]);
  }
  harness.AskAll(&workers);
  for (int i = 0; i < 10; ++i) {
    harness.shards[0].is_silent = true;
    harness.Wait(harness.timing.heartbeat * 4, workers);
    harness.shards[0].is_silent = false;
    harness.Wait(harness.timing.heartbeat, workers);
  }
  EXPECT_EQ(harness.status().revocations_unnoticed, 3U);
}

TEST(EndTest, AShardThatComesBackInTimeIsBroughtUpToDate) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.core->OnPeerClosed(harness.shards[0].peer, harness.now, harness.out());
  harness.shards[0].peer = proto::PeerId();
  const proto::PeerId late = harness.AskToJoin(7);
  EXPECT_FALSE(harness.Take<proto::JoinReply>(late).has_value());
  harness.RegisterShard(0, 500);
  EXPECT_TRUE(harness.Take<proto::JoinReply>(late).has_value());
}

TEST(EndTest, ServersThatDoNotComeUpAreNamed) {
  Harness harness;
  harness.core->Start(harness.now);
  harness.RegisterShard(0, 500);
  harness.Wait(std::chrono::seconds(31));
  EXPECT_EQ(harness.status().state, proto::RunState::kFailed);
  EXPECT_NE(harness.status().detail.find("shard 1 of server 1 (not registered)"), std::string::npos)
      << harness.status().detail;
}

TEST(EndTest, WithoutAnyWorkerTheJobFailsAndSaysWho) {
  Harness harness;
  harness.StartWithShards();
  harness.FailWorker(1, 1, "no data");
  harness.Wait(std::chrono::seconds(31));
  EXPECT_EQ(harness.status().state, proto::RunState::kFailed);
  EXPECT_NE(harness.status().detail.find("worker 0"), std::string::npos);
  EXPECT_NE(
      harness.status().detail.find("worker 1 (exited with code 1: no data)"), std::string::npos)
      << harness.status().detail;
}

TEST(EndTest, WhenEveryWorkerFailsBeforeItJoinsTheJobEndsAtOnceWithTheReason) {
  Harness harness;
  harness.StartWithShards();
  harness.FailWorker(0, 1, "no such file");
  harness.FailWorker(1, 2, "no such file");
  EXPECT_EQ(harness.status().state, proto::RunState::kStarting);
  harness.FailWorker(2, 3, "no memory");
  EXPECT_EQ(harness.status().state, proto::RunState::kFailed);
  EXPECT_EQ(
      harness.status().detail,
      "every worker failed: exited with code 1: no memory (worker 2); "
      "exited with code 1: no such file (worker 0, worker 1)");
  EXPECT_EQ(harness.core->exit_code(), 1);
}

TEST(EndTest, WhenEveryWorkerRefusesTheJobItEndsWithTheirReason) {
  Harness harness;
  const std::vector<FakeWorker> workers = harness.StartWithWorkers();
  for (const FakeWorker& worker : workers) {
    EXPECT_EQ(harness.status().state, proto::RunState::kStarting);
    harness.Give(worker.peer, proto::Refusal{StatusCode::kCorruption, "set up: cut off"});
    harness.core->OnPeerClosed(worker.peer, harness.now, harness.out());
  }
  EXPECT_EQ(harness.status().state, proto::RunState::kFailed);
  EXPECT_EQ(
      harness.status().detail,
      "every worker failed: set up: cut off (worker 0, worker 1, worker 2)");
  EXPECT_EQ(harness.status().workers[0].state, proto::WorkerRowState::kFailed);
  EXPECT_EQ(harness.status().revocations_unnoticed, 0U);
}

TEST(EndTest, AReplacementThatFailsDoesNotEndAJobWhoseOtherWorkersWereRevoked) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  harness.Exit(ProcessKind::kWorker, 0, 1000, "killed by signal 9 (Killed)");
  harness.FailWorker(1, 1001, "no data");
  const proto::StepDone done = harness.MakeStep(&workers[2], grants[2], grants[2].begin);
  harness.Complete(workers[2], done.step);
  harness.Give(workers[2].peer, proto::StepReport{workers[2].incarnation, {done}});
  harness.FailWorker(2, 1002, "out of memory");
  EXPECT_EQ(harness.status().state, proto::RunState::kWaiting);
  EXPECT_EQ(
      harness.status().detail,
      "no worker is left (worker 1 failed: exited with code 1: no data); training goes on as soon "
      "as one joins");
  EXPECT_EQ(harness.status().revocations_unnoticed, 2U) << "0, and 2, which had worked";
}

TEST(EndTest, AJobThatHasTrainedEndsWhenTheReplacementsOfAllSeatsFail) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  harness.Work(&workers[0], grants[0]);
  for (uint32_t seat = 0; seat < 3; ++seat) {
    harness.Exit(ProcessKind::kWorker, seat, 1000 + seat, "killed by signal 9 (Killed)");
  }
  EXPECT_EQ(harness.status().state, proto::RunState::kWaiting);
  for (uint32_t seat = 0; seat < 3; ++seat) {
    const FakeWorker heir = harness.Join(seat, 2000 + seat);
    EXPECT_EQ(harness.status().state, proto::RunState::kTraining);
    harness.core->OnPeerClosed(heir.peer, harness.now, harness.out());
    harness.FailWorker(seat, 2000 + seat, "no data");
  }
  EXPECT_EQ(harness.status().state, proto::RunState::kFailed);
}

TEST(EndTest, WithSomeOfTheWorkersTheJobGoesOn) {
  Harness harness;
  harness.StartWithShards();
  FakeWorker worker = harness.Join(0);
  EXPECT_FALSE(harness.Ask(&worker).has_value());
  harness.Wait(std::chrono::seconds(31), {worker});
  EXPECT_TRUE(harness.TakeGrant(&worker).has_value());
}

TEST(EndTest, AStopLetsWorkersHandOver) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  const proto::PeerId control = harness.Connect(proto::Role::kControl);
  harness.Give(control, proto::StopRequest{false});
  EXPECT_TRUE(harness.Take<proto::StopReply>(control).has_value());
  const auto drain = harness.Take<proto::Drain>(workers[0].peer);
  ASSERT_TRUE(drain.has_value());
  EXPECT_GT(drain->grace_ms, 1000U);
  for (size_t i = 0; i < workers.size(); ++i) {
    const proto::StepDone done = harness.MakeStep(&workers[i], grants[i], grants[i].begin);
    harness.Complete(workers[i], 1);
    harness.Give(workers[i].peer, proto::StepReport{workers[i].incarnation, {done}});
    harness.Give(workers[i].peer, proto::Goodbye{workers[i].incarnation, "stop", {}});
    EXPECT_TRUE(harness.Take<proto::GoodbyeReply>(workers[i].peer).has_value());
  }
  CloseAll(&harness, workers);
  EXPECT_EQ(harness.status().state, proto::RunState::kStopped);
  EXPECT_EQ(harness.status().samples_counted, 30U);
  EXPECT_EQ(harness.status().revocations_noticed, 0U) << "a stop is no revocation";
  for (const FakeShard& shard : harness.shards) {
    harness.core->OnPeerClosed(shard.peer, harness.now, harness.out());
  }
  EXPECT_TRUE(harness.core->is_finished());
  EXPECT_EQ(harness.core->outcome().code(), StatusCode::kCancelled);
  EXPECT_EQ(harness.core->outcome().message(), "stopped by request");
}

TEST(EndTest, AStopDoesNotWaitForEverAndASecondOneNotAtAll) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  harness.core->RequestStop(false, "enough", harness.now, harness.out());
  harness.Wait(harness.timing.detect, workers);
  EXPECT_EQ(harness.status().state, proto::RunState::kTraining);
  EXPECT_NE(harness.status().detail.find("stopping"), std::string::npos);
  harness.Wait(harness.timing.detect * 3, workers);
  EXPECT_EQ(harness.status().state, proto::RunState::kStopped);
  EXPECT_EQ(harness.core->outcome().message(), "enough");
  harness.core->RequestStop(true, "hurry", harness.now, harness.out());
  EXPECT_TRUE(harness.core->is_finished());
  EXPECT_EQ(harness.core->outcome().message(), "enough");
}

TEST(EndTest, AnImmediateStopTellsEverybodyAtOnce) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  harness.core->RequestStop(true, "enough", harness.now, harness.out());
  EXPECT_TRUE(harness.Take<proto::Shutdown>(workers[0].peer).has_value());
  EXPECT_EQ(harness.status().state, proto::RunState::kStopped);
}

TEST(FaultsTest, PlannedDisturbancesHappenWhenTheirPartIsCounted) {
  CoordinatorOptions options = SmallJob();
  options.config.faults.resize(3);
  options.config.faults[0] = {0.1F, proto::FaultKind::kNotice, 0, 1.5F, {}};
  options.config.faults[1] = {0.2F, proto::FaultKind::kKill, 1, 0, {}};
  options.config.faults[2] = {0.2F, proto::FaultKind::kAdd, 0, 0, {2, 7, 2, 1}};
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  EXPECT_FALSE(harness.Take<proto::Drain>(workers[0].peer).has_value());
  harness.Work(&workers[0], grants[0]);
  const auto drain = harness.Take<proto::Drain>(workers[0].peer);
  ASSERT_TRUE(drain.has_value());
  EXPECT_EQ(drain->grace_ms, 1500U);
  EXPECT_TRUE(harness.fleet.kills.empty());
  harness.Work(&workers[1], grants[1]);
  EXPECT_EQ(harness.fleet.kills, (std::vector<WorkerId>{WorkerId(1)}));
  ASSERT_EQ(harness.fleet.workers.size(), 5U);
  EXPECT_EQ(harness.fleet.workers[3].first, WorkerId(3));
  EXPECT_EQ(harness.fleet.workers[4].second.minibatch, 7U);
  const FakeWorker added = harness.Join(4);
  EXPECT_EQ(added.minibatch, 7U);
  harness.Wait(std::chrono::milliseconds(1700), workers);
  EXPECT_EQ(harness.fleet.kills.back(), WorkerId(0)) << "the grace is over, the instance is gone";
}

TEST(FaultsTest, AWorkerThatLeavesOnNoticeIsNotKilled) {
  CoordinatorOptions options = SmallJob();
  options.config.faults = {{0.1F, proto::FaultKind::kNotice, 0, 1.5F, {}}};
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.Work(&workers[0], harness.AskAll(&workers)[0]);
  harness.Give(workers[0].peer, proto::Goodbye{workers[0].incarnation, "notice", {}});
  harness.Wait(std::chrono::seconds(2), {workers[1], workers[2]});
  EXPECT_TRUE(harness.fleet.kills.empty());
  EXPECT_EQ(harness.status().revocations_noticed, 1U);
}

}  // namespace
}  // namespace ps::coordinator
