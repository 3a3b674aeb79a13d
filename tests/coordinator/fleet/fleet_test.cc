// The fleet that is wanted, and what the coordinator does to have it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Duration kTick = milliseconds(100);

/// Two fast workers in seats 0 and 1, a slow one in seat 2.
CoordinatorOptions TwoGroups(bool is_replacing) {
  CoordinatorOptions options = SmallJob();
  options.train_samples = 2000;
  options.config.fleet.replace = is_replacing;
  proto::WorkerGroup fast;
  fast.count = 2;
  fast.type = "fast";
  proto::WorkerGroup slow;
  slow.count = 1;
  slow.type = "slow";
  slow.minibatch = 5;
  options.config.workers = {fast, slow};
  return options;
}

class FleetTest : public ::testing::Test {
 protected:
  explicit FleetTest(bool is_replacing = true)
      : harness_(TwoGroups(is_replacing)), workers_(harness_.StartWithWorkers()) {
    grants_ = harness_.AskAll(&workers_);
    harness_.fleet.workers.clear();
  }

  static proto::ScaleChange Change(const std::string& type, int32_t count, bool is_relative) {
    return {type, count, is_relative};
  }

  /// What is wanted of each group after it; nothing when it was refused.
  std::vector<uint32_t> Scale(std::vector<proto::ScaleChange> changes) {
    harness_.Give(control_, proto::ScaleRequest{std::move(changes)});
    const auto reply = harness_.Take<proto::ScaleReply>(control_);
    std::vector<uint32_t> wanted;
    for (const proto::FleetRow& row : reply ? reply->fleet : std::vector<proto::FleetRow>()) {
      wanted.push_back(row.wanted);
    }
    return wanted;
  }

  void ExpectRefused(std::vector<proto::ScaleChange> changes, const char* text) {
    EXPECT_THAT(Scale(std::move(changes)), IsEmpty());
    const auto refusal = harness_.Take<proto::Refusal>(control_);
    ASSERT_TRUE(refusal.has_value());
    EXPECT_THAT(refusal->message, HasSubstr(text));
    EXPECT_EQ(harness_.status().workers_wanted, 3U);
  }

  bool IsTold(size_t worker) {
    return harness_.Take<proto::Drain>(workers_[worker].peer).has_value();
  }

  void Leave(const FakeWorker& worker) {
    harness_.Give(worker.peer, proto::Goodbye{worker.incarnation, "told to", {}});
  }

  Harness harness_;
  std::vector<FakeWorker> workers_;
  std::vector<proto::LeaseGrant> grants_;
  const proto::PeerId control_ = harness_.Connect(proto::Role::kControl);
};

class Lines final : public LogSink {
 public:
  void Write(LogLevel /*level*/, std::string_view line) override { text += line; }

  std::string text;
};

TEST(FleetLogTest, SaysWhoAskedForWorkers) {
  Lines lines;
  const Logger log("coordinator", &SystemTime(), &lines);
  Harness harness(TwoGroups(true), &log);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  const auto ask = [&](const char* node, const proto::ScaleChange& change) {
    const proto::PeerId control = harness.Connect(proto::Role::kControl, {}, "", node);
    harness.Give(control, proto::ScaleRequest{{change}});
    EXPECT_TRUE(harness.Take<proto::ScaleReply>(control).has_value());
  };
  ask("policy", {"fast", 4, false});
  EXPECT_THAT(lines.text, HasSubstr("event=scaled workers_before=3 workers=5 by=policy\n"));
  ask("plan", {"fast", 1, false});
  EXPECT_THAT(lines.text, HasSubstr("event=scaled workers_before=5 workers=2 by=plan\n"));
}

TEST_F(FleetTest, MoreWorkersGetSeatsOfTheirGroup) {
  EXPECT_THAT(Scale({Change("slow", 3, false)}), ElementsAre(2, 3));
  harness_.Wait(kTick, workers_);
  ASSERT_EQ(harness_.fleet.workers.size(), 2U);
  EXPECT_EQ(harness_.fleet.workers[0].second.minibatch, 5U);
  EXPECT_THAT(harness_.fleet.TakeStarted(), ElementsAre(3, 4));
  EXPECT_EQ(harness_.Join(3).minibatch, 5U);
  harness_.Wait(kTick, workers_);
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty()) << "each once";
  EXPECT_EQ(harness_.status().workers_wanted, 5U);
  EXPECT_EQ(harness_.status().fleet[1].present, 2U);
}

TEST_F(FleetTest, ATotalIsSharedAsTheConfigDoes) {
  EXPECT_THAT(Scale({Change("", 6, false)}), ElementsAre(4, 2));
  EXPECT_THAT(Scale({Change("", 1, true)}), ElementsAre(5, 2));
  EXPECT_THAT(Scale({Change("", -6, true)}), ElementsAre(1, 0));
  EXPECT_THAT(Scale({Change("fast", 0, false), Change("slow", 2, true)}), ElementsAre(0, 2));
}

TEST_F(FleetTest, WhatNoFleetCanHaveIsRefused) {
  ExpectRefused({Change("gpu", 1, false)}, "no group of workers has the type gpu; there are: fast");
  ExpectRefused({Change("slow", -2, true)}, "that would be -1 workers of type slow");
  ExpectRefused({Change("", 16'385, false)}, "allowed: 0 to 16384");
  ExpectRefused({Change("fast", 16'384, false), Change("slow", 1, false)}, "16385 workers");
  ExpectRefused({}, "allowed: 1 to 256 changes");
  harness_.Give(workers_[0].peer, proto::ScaleRequest{{Change("", 9, false)}});
  EXPECT_EQ(harness_.status().workers_wanted, 3U) << "a worker may not";
}

TEST_F(FleetTest, SurplusWorkersLeaveAndAreNoRevocations) {
  EXPECT_THAT(Scale({Change("fast", 1, false)}), ElementsAre(1, 1));
  harness_.Wait(kTick, workers_);
  EXPECT_FALSE(IsTold(0));
  EXPECT_TRUE(IsTold(1)) << "the last one of the group";
  EXPECT_FALSE(IsTold(2));
  Leave(workers_[1]);
  harness_.Wait(kTick, {workers_[0], workers_[2]});
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty());
  EXPECT_EQ(harness_.status().revocations_noticed, 0U);
  EXPECT_EQ(harness_.status().revocations_unnoticed, 0U);
}

TEST_F(FleetTest, OneThatStaysIsKilledAndIsNoRevocationEither) {
  harness_.Give(control_, proto::NoticeRequest{WorkerId(1), 1500, false, true});
  harness_.Wait(milliseconds(1600), workers_);
  EXPECT_THAT(harness_.fleet.kills, ElementsAre(WorkerId(1)));
  harness_.Exit(ProcessKind::kWorker, 1, 0, "killed by signal 9 (Killed)");
  EXPECT_EQ(harness_.status().revocations_noticed, 0U);
  EXPECT_EQ(harness_.status().revocations_unnoticed, 0U);
}

/// It would count as a revocation when it is killed.
TEST_F(FleetTest, WhoAsksToJoinWhileItIsKilledIsRefused) {
  Scale({Change("fast", 3, false)});
  harness_.Wait(kTick, workers_);
  Scale({Change("fast", 2, false)});
  harness_.Wait(kTick, workers_);
  const proto::PeerId late = harness_.AskToJoin(3);
  const auto refusal = harness_.Take<proto::Refusal>(late);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, StatusCode::kCancelled);
  harness_.Exit(ProcessKind::kWorker, 3, 0, "killed by signal 9 (Killed)");
  EXPECT_EQ(harness_.Join(3).minibatch, 10U) << "somebody else, by hand";
}

TEST_F(FleetTest, WhatAProcessAskedBeforeItEndedTakesNoSeatFromAnother) {
  Scale({Change("fast", 3, false)});
  harness_.Wait(kTick, workers_);
  Scale({Change("fast", 2, false)});
  harness_.Wait(kTick, workers_);
  harness_.Exit(ProcessKind::kWorker, 3, 77, "killed by signal 9 (Killed)");
  const FakeWorker other = harness_.Join(std::nullopt, 78);
  ASSERT_EQ(other.seat, WorkerId(3));
  const proto::PeerId late = harness_.AskToJoin(3, 77);
  const auto refusal = harness_.Take<proto::Refusal>(late);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, StatusCode::kCancelled);
  EXPECT_THAT(refusal->message, HasSubstr("of worker 3 has ended"));
  EXPECT_EQ(harness_.core->member_count(), 4U) << "nobody was displaced";
  EXPECT_EQ(harness_.status().revocations_unnoticed, 0U);
}

TEST_F(FleetTest, ScalesToNothingAndBack) {
  Scale({Change("", 0, false)});
  harness_.Wait(kTick, workers_);
  for (const FakeWorker& worker : workers_) {
    Leave(worker);
  }
  harness_.Wait(seconds(100));
  EXPECT_EQ(harness_.status().state, proto::RunState::kWaiting);
  Scale({Change("", 3, false)});
  harness_.Wait(kTick);
  EXPECT_THAT(harness_.fleet.TakeStarted(), ElementsAre(0, 1, 2)) << "in their own seats";
}

TEST_F(FleetTest, WhoNeverComesIsGivenUpAndStartedAgain) {
  for (uint32_t worker = 0; worker < 3; ++worker) {
    harness_.Exit(ProcessKind::kWorker, worker, 0, "killed by signal 9 (Killed)");
  }
  harness_.Wait(kTick);
  EXPECT_THAT(harness_.fleet.TakeStarted(), ElementsAre(0, 1, 2));
  harness_.Wait(seconds(29));
  EXPECT_THAT(harness_.fleet.kills, IsEmpty()) << "fleet.join_timeout_s is 30";
  harness_.Wait(seconds(2));
  EXPECT_THAT(harness_.fleet.kills, ElementsAre(WorkerId(0), WorkerId(1), WorkerId(2)));
  EXPECT_THAT(harness_.fleet.TakeStarted(), ElementsAre(0, 1, 2));
}

TEST_F(FleetTest, AWorkerIsReplacedAtItsNotice) {
  harness_.Give(control_, proto::NoticeRequest{WorkerId(2), 30'000});
  harness_.Wait(kTick, workers_);
  EXPECT_THAT(harness_.fleet.TakeStarted(), ElementsAre(3)) << "its own seat is still taken";
  Leave(workers_[2]);
  harness_.Wait(kTick, workers_);
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty());
  EXPECT_EQ(harness_.status().revocations_noticed, 1U);
}

TEST_F(FleetTest, OneThatIsReleasedIsNotReplaced) {
  harness_.Give(control_, proto::NoticeRequest{WorkerId(0), 30'000, false, true});
  EXPECT_TRUE(harness_.Take<proto::NoticeReply>(control_).has_value());
  EXPECT_EQ(harness_.status().workers_wanted, 2U);
  harness_.Give(control_, proto::NoticeRequest{WorkerId(0), 20'000, false, true});
  EXPECT_EQ(harness_.status().workers_wanted, 2U) << "once is enough";
  EXPECT_TRUE(IsTold(0));
  Leave(workers_[0]);
  harness_.Wait(kTick, {workers_[1], workers_[2]});
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty());
  EXPECT_EQ(harness_.status().revocations_noticed, 0U);
}

TEST_F(FleetTest, WhoIsLostAgainAndAgainIsReplacedLessAndLessOften) {
  size_t started = 0;
  for (int i = 0; i < 600; ++i) {  // a minute
    harness_.Wait(kTick, {workers_[0], workers_[1]});
    harness_.Exit(ProcessKind::kWorker, 2, 0, "killed by signal 9 (Killed)");
    started += harness_.fleet.TakeStarted().size();
  }
  EXPECT_GE(started, 4U);
  EXPECT_LE(started, 8U) << "after 0, 1, 3, 7, ... s";
}

TEST_F(FleetTest, OneThatFailsByItselfIsTriedThriceThenLeftOutUntilSomebodyAsks) {
  harness_.Exit(ProcessKind::kWorker, 2, 0, "killed by signal 9 (Killed)");
  for (int attempt = 0; attempt < 3; ++attempt) {
    harness_.Wait(seconds(3), {workers_[0], workers_[1]});
    EXPECT_THAT(harness_.fleet.TakeStarted(), ElementsAre(2));
    harness_.FailWorker(2, 0, "no such file");
  }
  harness_.Wait(seconds(20), {workers_[0], workers_[1]});
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty());
  EXPECT_THAT(harness_.status().fleet[1].why, HasSubstr("no such file"));
  Scale({Change("slow", 1, false)});
  harness_.Wait(kTick, {workers_[0], workers_[1]});
  EXPECT_THAT(harness_.fleet.TakeStarted(), ElementsAre(2));
}

TEST_F(FleetTest, TheRunEndsWhenAllThatAreWantedFailAgainAndAgain) {
  Scale({Change("fast", 0, false)});
  harness_.Wait(kTick, workers_);
  Leave(workers_[0]);
  Leave(workers_[1]);
  CloseAll(&harness_, workers_);
  harness_.Exit(ProcessKind::kWorker, 2, 0, "killed by signal 9 (Killed)");
  for (int attempt = 0; attempt < 3; ++attempt) {
    EXPECT_EQ(harness_.status().state, proto::RunState::kWaiting) << harness_.status().detail;
    harness_.Wait(seconds(3));
    EXPECT_THAT(harness_.fleet.TakeStarted(), ElementsAre(2));
    harness_.FailWorker(2, 0, "no such file");
  }
  EXPECT_EQ(harness_.status().state, proto::RunState::kFailed) << harness_.status().detail;
  EXPECT_THAT(harness_.status().detail, HasSubstr("no such file"));
}

/// Each one joins, and is silent then.
TEST_F(FleetTest, TheRunEndsWhenWorkersAreLostAgainAndAgainForOneReasonBeforeAStep) {
  Scale({Change("fast", 0, false)});
  harness_.Wait(kTick, workers_);
  Leave(workers_[0]);
  Leave(workers_[1]);
  CloseAll(&harness_, workers_);
  harness_.Exit(ProcessKind::kWorker, 2, 0, "killed by signal 9 (Killed)");
  int started = 0;
  for (int i = 0; i < 600 && harness_.status().state != proto::RunState::kFailed; ++i) {
    harness_.Wait(milliseconds(500));
    if (harness_.fleet.TakeStarted().empty()) {
      continue;
    }
    ++started;
    const FakeWorker silent = harness_.Join(2);
    harness_.Give(silent.peer, proto::LeaseRequest{silent.incarnation, silent.newest});
  }
  EXPECT_EQ(harness_.status().state, proto::RunState::kFailed) << harness_.status().detail;
  EXPECT_EQ(started, 5);
  EXPECT_THAT(
      harness_.status().detail,
      HasSubstr("lost 5 times in a row, each time with: no heartbeat (worker 2)"));
}

/// As one that finds no data on its machine and says no more about it.
TEST(ProgramTest, OneThatEndsWithoutAnErrorBeforeItHasJoinedIsNotStartedForEver) {
  CoordinatorOptions options = TwoGroups(true);
  options.config.worker.program = {"train.py"};
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  CloseAll(&harness, workers);
  for (uint32_t seat = 0; seat < workers.size(); ++seat) {
    harness.Exit(ProcessKind::kWorker, seat, 0, "killed by signal 9 (Killed)");
  }
  harness.fleet.TakeStarted();
  int started = 0;
  for (int i = 0; i < 600 && harness.status().state != proto::RunState::kFailed; ++i) {
    harness.Wait(milliseconds(500));
    for (const uint32_t seat : harness.fleet.TakeStarted()) {
      ++started;
      proto::ProcessEnd end;
      end.index = seat;
      end.launch = harness.fleet.NewestOf(ProcessKind::kWorker, seat);
      end.description = "exited with code 0";
      end.last_words = "no data on this machine";
      end.is_clean = true;
      harness.core->OnProcessExited(end, harness.now, harness.out());
    }
  }
  EXPECT_EQ(harness.status().state, proto::RunState::kFailed) << started << " starts";
  EXPECT_THAT(harness.status().detail, HasSubstr("no data on this machine"));
}

TEST_F(FleetTest, LossesInARowAreCountedOnByAnotherCoordinator) {
  Scale({Change("fast", 0, false)});
  harness_.Wait(kTick, workers_);
  Leave(workers_[0]);
  Leave(workers_[1]);
  CloseAll(&harness_, workers_);
  harness_.Exit(ProcessKind::kWorker, 2, 0, "killed by signal 9 (Killed)");
  int started = 0;
  for (int i = 0; i < 1200 && harness_.status().state != proto::RunState::kFailed; ++i) {
    harness_.Wait(milliseconds(500));
    if (harness_.fleet.TakeStarted().empty()) {
      continue;
    }
    ++started;
    harness_.Restart();
    const FakeWorker silent = harness_.Join(2);
    harness_.Give(silent.peer, proto::LeaseRequest{silent.incarnation, silent.newest});
  }
  EXPECT_EQ(harness_.status().state, proto::RunState::kFailed) << harness_.status().detail;
  EXPECT_EQ(started, 5);
}

TEST_F(FleetTest, AnotherReasonBeginsARowOfLossesAnew) {
  Scale({Change("fast", 0, false)});
  harness_.Wait(kTick, workers_);
  Leave(workers_[0]);
  Leave(workers_[1]);
  CloseAll(&harness_, workers_);
  for (int i = 0; i < 8; ++i) {
    harness_.Exit(
        ProcessKind::kWorker,
        2,
        harness_.fleet.NewestOf(ProcessKind::kWorker, 2),
        i % 2 == 0 ? "killed by signal 9 (Killed)" : "killed by signal 15 (Terminated)");
    std::vector<uint32_t> started;
    for (int tries = 0; tries < 150 && started.empty(); ++tries) {
      harness_.Wait(milliseconds(500));
      started = harness_.fleet.TakeStarted();
    }
    ASSERT_THAT(started, ElementsAre(2)) << "loss " << i;
    harness_.Join(2);
  }
}

TEST_F(FleetTest, AWorkerByHandIsInNoGroup) {
  const FakeWorker by_hand = harness_.Join();
  EXPECT_EQ(by_hand.seat, WorkerId(3));
  Scale({Change("", 3, false)});
  harness_.Wait(kTick, workers_);
  EXPECT_FALSE(harness_.Take<proto::Drain>(by_hand.peer).has_value());
  harness_.core->OnPeerClosed(by_hand.peer, harness_.now, harness_.out());
  harness_.Wait(seconds(20), workers_);
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty());
}

TEST_F(FleetTest, IsRememberedByTheCoordinatorsSuccessor) {
  Scale({Change("slow", 2, false), Change("fast", 1, false)});
  harness_.Wait(kTick, workers_);
  EXPECT_THAT(harness_.fleet.TakeStarted(), ElementsAre(3));
  FakeWorker added = harness_.Join(3);
  workers_.push_back(added);
  harness_.Restart();
  for (FakeWorker& worker : workers_) {
    harness_.Reconnect(&worker);
  }
  harness_.Wait(kTick, workers_);
  EXPECT_EQ(harness_.status().workers_wanted, 3U);
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty());
  harness_.Exit(ProcessKind::kWorker, 3, 0, "killed by signal 9 (Killed)");
  harness_.Wait(kTick, workers_);
  ASSERT_EQ(harness_.fleet.workers.size(), 1U);
  EXPECT_EQ(harness_.fleet.workers[0].first, WorkerId(3));
  EXPECT_EQ(harness_.fleet.workers[0].second.minibatch, 5U);
}

TEST(FleetOfOneTypeTest, ItsGroupsAreScaledAndShownTogether) {
  CoordinatorOptions options = TwoGroups(true);
  options.config.workers[1].type = "fast";
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  const proto::PeerId control = harness.Connect(proto::Role::kControl);
  harness.fleet.workers.clear();
  harness.Give(control, proto::ScaleRequest{{{"fast", 6, false}}});
  const auto reply = harness.Take<proto::ScaleReply>(control);
  ASSERT_TRUE(reply.has_value());
  ASSERT_EQ(reply->fleet.size(), 1U);
  EXPECT_EQ(reply->fleet[0].wanted, 6U);
  EXPECT_EQ(reply->fleet[0].present, 3U);
  harness.Wait(kTick, workers);
  std::vector<uint32_t> minibatches;
  for (const auto& [seat, group] : harness.fleet.workers) {
    minibatches.push_back(group.minibatch);
  }
  EXPECT_THAT(minibatches, ElementsAre(10, 10, 5)) << "four and two, as the config has them";
}

TEST(FleetAtTheEndTest, NobodyIsStartedForSamplesThatAllHaveAWorker) {
  CoordinatorOptions options = TwoGroups(true);
  options.train_samples = 50;
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  harness.fleet.workers.clear();
  for (std::optional<proto::LeaseGrant> grant = grants[2]; grant;
       grant = harness.Ask(&workers[2])) {
    harness.Work(&workers[2], *grant);
  }
  harness.Exit(ProcessKind::kWorker, 2, 0, "killed by signal 9 (Killed)");
  harness.Wait(kTick, workers);
  EXPECT_THAT(harness.fleet.workers, IsEmpty());
  harness.Exit(ProcessKind::kWorker, 1, 0, "killed by signal 9 (Killed)");
  harness.Wait(kTick, workers);
  EXPECT_EQ(harness.fleet.workers.size(), 2U) << "its samples want somebody";
}

class NoReplacementTest : public FleetTest {
 protected:
  NoReplacementTest() : FleetTest(false) {}
};

TEST_F(NoReplacementTest, WhoIsLostStaysLost) {
  harness_.Exit(ProcessKind::kWorker, 2, 0, "killed by signal 9 (Killed)");
  harness_.Wait(seconds(1), workers_);
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty());
}

TEST_F(NoReplacementTest, AskingFillsTheFleetOnce) {
  harness_.Exit(ProcessKind::kWorker, 2, 0, "killed by signal 9 (Killed)");
  Scale({Change("fast", 1, true)});
  harness_.Wait(kTick, workers_);
  EXPECT_THAT(harness_.fleet.TakeStarted(), ElementsAre(3, 2)) << "the missing one, too";
  harness_.Exit(ProcessKind::kWorker, 3, 0, "killed by signal 9 (Killed)");
  harness_.Wait(seconds(1), workers_);
  EXPECT_THAT(harness_.fleet.TakeStarted(), IsEmpty());
}

TEST(FleetAtTheStartTest, WorkersAskedForSinceTheStartAreNotWaitedFor) {
  CoordinatorOptions options = TwoGroups(true);
  options.config.workers[0].count = 0;
  Harness harness(options);
  harness.StartWithShards();
  const proto::PeerId control = harness.Connect(proto::Role::kControl);
  harness.Give(control, proto::ScaleRequest{{{"fast", 2, false}}});
  harness.Wait(kTick);
  ASSERT_EQ(harness.fleet.workers.size(), 3U) << "one of the config, two by the request";
  FakeWorker scaled = harness.Join(1);
  EXPECT_FALSE(harness.Ask(&scaled).has_value()) << "the config's worker is awaited";
  FakeWorker first = harness.Join(0);
  EXPECT_TRUE(harness.Ask(&first).has_value()) << "the other one may come later";
  EXPECT_TRUE(harness.TakeGrant(&scaled).has_value());
}

TEST(FleetOfBspTest, NoMoreThanTheShardsHaveRoomFor) {
  CoordinatorOptions options = SmallJob(proto::Mode::kBsp);
  options.config.servers.queue_mib = 1;
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  const proto::PeerId control = harness.Connect(proto::Role::kControl);
  harness.Give(control, proto::ScaleRequest{{{"", 4096, false}}});
  const auto refusal = harness.Take<proto::Refusal>(control);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_THAT(refusal->message, HasSubstr("the shards have room for the gradients of"));
  harness.Give(control, proto::ScaleRequest{{{"", 4, false}}});
  EXPECT_TRUE(harness.Take<proto::ScaleReply>(control).has_value());
}

}  // namespace
}  // namespace ps::coordinator
