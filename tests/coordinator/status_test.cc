#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ps/proto/limits.h"
#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

using ::testing::ElementsAre;

bool HasWait(
    const proto::JobStatus& status,
    const std::string& who,
    const std::string& for_whom,
    const std::string& what) {
  return std::any_of(status.waits.begin(), status.waits.end(), [&](const proto::Wait& wait) {
    return wait.who == who && wait.for_whom.find(for_whom) != std::string::npos &&
           wait.what.find(what) != std::string::npos;
  });
}

TEST(StatusTest, AStartingJobSaysWhoIsMissing) {
  Harness harness;
  harness.core->Start(harness.now);
  harness.RegisterShard(0, 500);
  proto::JobStatus status = harness.status();
  EXPECT_EQ(status.state, proto::RunState::kStarting);
  EXPECT_NE(status.detail.find("shard 1 of server 1"), std::string::npos);
  EXPECT_TRUE(HasWait(status, "coordinator", "shard 1", "servers"));
  EXPECT_EQ(status.shards[0].state, proto::ShardRowState::kReady);
  EXPECT_EQ(status.shards[1].state, proto::ShardRowState::kMissing);
  ASSERT_EQ(status.workers.size(), 3U);
  EXPECT_EQ(status.workers[2].state, proto::WorkerRowState::kStarting);
  EXPECT_EQ(status.workers[2].incarnation, Incarnation());
  harness.RegisterShard(1, 501);
  harness.Join(1);
  status = harness.status();
  EXPECT_NE(status.detail.find("w0, w1, w2"), std::string::npos) << status.detail;
  EXPECT_EQ(status.workers.size(), 3U) << "w1 is there once";
}

TEST(StatusTest, ATrainingJobTellsItsNumbers) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  for (int i = 0; i < 2; ++i) {
    harness.Wait(std::chrono::seconds(1), workers);
    const proto::StepDone done =
        harness.MakeStep(&workers[0], grants[0], grants[0].begin + static_cast<uint64_t>(i) * 10);
    harness.Give(workers[0].peer, proto::StepReport{workers[0].incarnation, {done}});
  }
  harness.Wait(std::chrono::milliseconds(500), workers);
  const proto::JobStatus status = harness.status();
  EXPECT_EQ(status.name, "small");
  EXPECT_EQ(status.run_directory, "runs/small");
  EXPECT_EQ(status.state, proto::RunState::kTraining);
  EXPECT_EQ(status.samples_total, 200U);
  EXPECT_EQ(status.samples_counted, 20U);
  EXPECT_NEAR(status.elapsed_s, 2.5, 0.3);
  EXPECT_NEAR(status.samples_per_s, 8, 3);
  EXPECT_NEAR(status.eta_s, 180 / status.samples_per_s, 1e-6);
  EXPECT_DOUBLE_EQ(status.train_loss, 1);
  EXPECT_DOUBLE_EQ(status.train_accuracy, 0.5);
  EXPECT_NEAR(status.max_detect_s, 2.4, 1e-6);
  ASSERT_EQ(status.workers.size(), 3U);
  EXPECT_EQ(status.workers[0].samples_counted, 20U);
  EXPECT_EQ(status.workers[0].state, proto::WorkerRowState::kComputing);
  EXPECT_LT(status.workers[0].silent_s, 0.5);
  ASSERT_EQ(status.ledger.size(), 1U);
  EXPECT_EQ(status.ledger[0].samples_counted, 20U);
  EXPECT_EQ(status.ledger[0].samples_leased, 40U);
}

TEST(StatusTest, AWorkerIsAsOldAsItsProcess) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const auto age_of = [&](uint32_t seat) {
    const auto rows = harness.status().workers;
    return std::ranges::find(rows, WorkerId(seat), &proto::WorkerRow::worker)->age_s;
  };
  harness.AskAll(&workers);
  harness.Wait(std::chrono::seconds(2), workers);
  const double before = age_of(1);
  EXPECT_NEAR(before, 2, 1);
  harness.Close(workers[1].peer);
  const FakeWorker back = harness.Join(1, 1001, true);
  EXPECT_EQ(back.seat, WorkerId(1));
  EXPECT_GE(age_of(1), before) << "the same process was given up and has come back";
  harness.Exit(ProcessKind::kWorker, 2, 1002, "killed by signal 9");
  harness.Join(2, 77);
  EXPECT_LT(age_of(2), 1) << "another process";
  harness.Restart();
  EXPECT_GE(age_of(1), before) << "another coordinator knows it";
}

TEST(StatusTest, EveryWaitNamesWhoIsWaitedForAndTheMembership) {
  Harness harness(SmallJob(proto::Mode::kBsp));
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  harness.Work(&workers[0], grants[0]);
  harness.Ask(&workers[0]);
  harness.shards[1].is_mute = true;
  harness.AskToJoin(8);
  harness.Exit(ProcessKind::kWorker, 1, 1001, "killed by signal 9");
  harness.Wait(harness.timing.heartbeat * 2, {workers[0], workers[2]});
  const proto::JobStatus status = harness.status();
  EXPECT_TRUE(HasWait(status, "w0", "w2", "round 1"));
  EXPECT_TRUE(HasWait(status, "w8", "shard 1", "membership"));
  EXPECT_TRUE(HasWait(status, "coordinator", "shard 1", "last step of w1"));
  for (const proto::Wait& wait : status.waits) {
    EXPECT_GT(wait.generation, Generation()) << wait.who << " " << wait.what;
    EXPECT_GT(wait.since_s, 0.5) << wait.who << " " << wait.what;
    EXPECT_FALSE(wait.for_whom.empty()) << wait.who << " " << wait.what;
  }
}

TEST(StatusTest, WaitsOfWorkersAndShardsArePassedOnAndGrowOld) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  proto::WorkerHeartbeat beat;
  beat.incarnation = workers[0].incarnation;
  beat.waits = {{"w0", "shard 1", "an answer to a pull", 2.0, Generation(3)}};
  harness.Give(workers[0].peer, beat);
  harness.now += std::chrono::seconds(1);
  const proto::JobStatus status = harness.status();
  ASSERT_TRUE(HasWait(status, "w0", "shard 1", "pull"));
  EXPECT_DOUBLE_EQ(status.waits[0].since_s, 3.0);
}

TEST(StatusTest, FiguresAreTheMeansOverTheMembersThatTellThem) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  EXPECT_TRUE(harness.status().figures.empty());
  const auto tell = [&](size_t worker, std::vector<proto::Figure> figures) {
    proto::WorkerHeartbeat beat;
    beat.incarnation = workers[worker].incarnation;
    beat.figures = std::move(figures);
    harness.Give(workers[worker].peer, beat);
  };
  tell(0, {{"norm", 1}, {"perplexity", 40}});
  tell(1, {{"norm", 2}, {"odd", std::numeric_limits<double>::quiet_NaN()}});
  EXPECT_THAT(
      harness.status().figures,
      ElementsAre(proto::Figure{"norm", 1.5}, proto::Figure{"perplexity", 40}));
  tell(1, {{"norm", 4}});
  EXPECT_EQ(harness.status().figures[0].value, 2.5) << "the newest of each";
  harness.Exit(ProcessKind::kWorker, 0, 1000, "killed by signal 9");
  EXPECT_THAT(harness.status().figures, ElementsAre(proto::Figure{"norm", 4}));
  std::vector<proto::Figure> many;
  for (size_t i = 0; i < proto::kFiguresMax + 5; ++i) {
    many.push_back({"figure " + std::to_string(i), 1});
  }
  tell(1, many);
  EXPECT_EQ(harness.status().figures.size(), proto::kFiguresMax);
}

TEST(StatusTest, AnybodyWithTheControlRoleMayAsk) {
  Harness harness;
  harness.StartWithShards();
  const proto::PeerId control = harness.Connect(proto::Role::kControl);
  harness.Give(control, proto::StatusRequest{});
  const auto reply = harness.Take<proto::StatusReply>(control);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status.name, "small");
}

TEST(StatusTest, TheGoneAreListedAfterTheMembersWithTheirEnd) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  harness.Exit(ProcessKind::kWorker, 0, 1000, "killed by signal 9");
  harness.Give(workers[1].peer, proto::Goodbye{workers[1].incarnation, "notice", {}});
  const proto::JobStatus status = harness.status();
  ASSERT_EQ(status.workers.size(), 3U);
  EXPECT_EQ(status.workers[0].worker, WorkerId(2));
  EXPECT_EQ(status.workers[1].state, proto::WorkerRowState::kLost);
  EXPECT_EQ(status.workers[2].state, proto::WorkerRowState::kDrained);
}

}  // namespace
}  // namespace ps::coordinator
