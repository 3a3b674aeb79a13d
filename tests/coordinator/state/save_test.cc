#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "ps/base/crc32c.h"
#include "ps/base/random.h"
#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

using testing::HasSubstr;

Status LoadStatus(const proto::JobState& state, const CoordinatorOptions& options) {
  FakeFleet fleet;
  return CoordinatorCore::Load(state, options, &fleet, &NullLogger(), TimePoint{}).status();
}

/// What the state is when `change` has been at it.
template <typename F>
Status StatusOfChanged(const Harness& harness, F change) {
  proto::JobState state = harness.core->StateAt(harness.now);
  change(&state);
  return LoadStatus(state, harness.options);
}

/// The checksum of the saved form stands at byte 8, over what follows byte 16.
void FixChecksum(std::vector<std::byte>* saved) {
  const uint32_t crc = Crc32c(std::span<const std::byte>(*saved).subspan(16));
  std::memcpy(saved->data() + 8, &crc, sizeof(crc));
}

TEST(SaveTest, ALoadedJobStartsNoProcessAndCountsOn) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  harness.Work(&workers[0], grants[0]);
  const proto::JobStatus before = harness.status();
  const size_t started = harness.fleet.workers.size();
  harness.Restart(std::chrono::milliseconds(300));
  EXPECT_EQ(harness.fleet.workers.size(), started);
  EXPECT_EQ(harness.fleet.servers.size(), 2U);
  const proto::JobStatus after = harness.status();
  EXPECT_EQ(after.state, proto::RunState::kTraining);
  EXPECT_EQ(after.samples_counted, before.samples_counted);
  EXPECT_EQ(after.steps_counted, before.steps_counted);
  EXPECT_EQ(after.joins, before.joins);
  EXPECT_EQ(after.generation, before.generation);
  EXPECT_DOUBLE_EQ(after.elapsed_s, before.elapsed_s) << "nobody trained meanwhile";
  EXPECT_DOUBLE_EQ(after.train_loss, before.train_loss);
  EXPECT_EQ(after.shards[1].state, proto::ShardRowState::kReady);
}

TEST(SaveTest, AWorkerComesBackToItsLease) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  harness.Restart();
  harness.Reconnect(&workers[0]);
  workers[0].newest = LeaseId();  // the grant was lost with the connection
  const auto again = harness.Ask(&workers[0]);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->lease, grants[0].lease);
  harness.Work(&workers[0], *again);
  EXPECT_EQ(harness.status().samples_counted, 20U);
}

TEST(SaveTest, WhoDoesNotComeBackIsLostAndItsSamplesAreLeasedAgain) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  harness.Restart();
  harness.Reconnect(&workers[0]);
  harness.Reconnect(&workers[1]);
  harness.Wait(harness.timing.detect + harness.timing.heartbeat, {workers[0], workers[1]});
  EXPECT_EQ(harness.status().revocations_unnoticed, 1U);
  EXPECT_EQ(harness.status().ledger[0].samples_returned, 20U);
}

TEST(SaveTest, AShardThatDoesNotComeBackFailsTheJob) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.core->OnPeerClosed(harness.shards[1].peer, harness.now, harness.out());
  harness.shards[1].peer = proto::PeerId();
  harness.Restart();
  harness.Wait(harness.timing.server_detect + harness.timing.heartbeat);
  EXPECT_EQ(harness.status().state, proto::RunState::kFailed);
  EXPECT_THAT(harness.status().detail, HasSubstr("server 1"));
}

TEST(SaveTest, AShardThatMissedAMembershipGetsItWhenItIsBack) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  harness.shards[0].is_mute = true;
  harness.Exit(ProcessKind::kWorker, 2, 1002, "killed by signal 9");
  harness.shards[0].unanswered.clear();  // lost with the connection
  harness.shards[0].is_mute = false;
  EXPECT_EQ(harness.status().ledger[0].samples_returned, 0U);
  harness.Restart();
  EXPECT_EQ(harness.status().ledger[0].samples_returned, 20U);
}

TEST(SaveTest, ACommitUnderWayIsSentAgainAndAppliedOnce) {
  Harness harness(SmallJob(proto::Mode::kBsp));
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  for (size_t i = 0; i < workers.size(); ++i) {
    harness.shards[1].is_mute = i + 1 == workers.size();
    harness.Work(&workers[i], grants[i]);
    harness.Ask(&workers[i]);
  }
  harness.shards[1].unanswered.clear();
  harness.shards[1].is_mute = false;
  ASSERT_TRUE(harness.shards[1].commits.empty());
  harness.Restart();
  EXPECT_EQ(harness.shards[0].commits.size(), 1U);
  ASSERT_EQ(harness.shards[1].commits.size(), 1U);
  EXPECT_EQ(harness.shards[1].commits[0].contributions.size(), 3U);
}

TEST(SaveTest, OneWhoWasJoiningJoinsAnewAndIsThereOnce) {
  Harness harness;
  harness.StartWithWorkers();
  harness.shards[1].is_mute = true;
  harness.AskToJoin(std::nullopt, 4321);
  harness.shards[1].unanswered.clear();
  harness.shards[1].is_mute = false;
  harness.Restart();
  const FakeWorker worker = harness.Join(std::nullopt, 4321);
  EXPECT_EQ(worker.seat, WorkerId(3));
  EXPECT_EQ(harness.shards[1].membership.members.size(), 4U);
}

TEST(SaveTest, TheGraceOfANoticeGoesOn) {
  CoordinatorOptions options = SmallJob();
  options.config.faults.resize(1);
  options.config.faults[0].at = 0.05F;
  options.config.faults[0].kind = proto::FaultKind::kNotice;
  options.config.faults[0].worker = 1;
  options.config.faults[0].grace_s = 2;
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  harness.Work(&workers[0], grants[0]);
  ASSERT_TRUE(harness.Take<proto::Drain>(workers[1].peer).has_value());
  harness.Wait(std::chrono::seconds(1), workers);
  harness.Restart();
  for (FakeWorker& worker : workers) {
    harness.Reconnect(&worker);
  }
  harness.Wait(std::chrono::milliseconds(800), workers);
  const auto drain = harness.Take<proto::Drain>(workers[1].peer);
  ASSERT_TRUE(drain.has_value()) << "it may not have heard";
  EXPECT_LE(drain->grace_ms, 1000U) << "what is left of it";
  EXPECT_FALSE(harness.Take<proto::Drain>(workers[0].peer).has_value()) << "a fault is fired once";
  EXPECT_TRUE(harness.fleet.kills.empty());
  harness.Wait(std::chrono::milliseconds(400), workers);
  EXPECT_EQ(harness.fleet.kills, (std::vector<WorkerId>{WorkerId(1)}));
}

TEST(SaveTest, APlannedKillIsNotLostWithTheCoordinatorThatWasToDoIt) {
  CoordinatorOptions options = SmallJob();
  options.config.faults.resize(1);
  options.config.faults[0].at = 0.05F;
  options.config.faults[0].kind = proto::FaultKind::kKill;
  options.config.faults[0].worker = 1;
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  harness.Work(&workers[0], grants[0]);
  const std::vector<WorkerId> once = {WorkerId(1)};
  ASSERT_EQ(harness.fleet.kills, once);
  harness.fleet.kills.clear();  // it died with the kill in hand
  harness.Restart();
  for (FakeWorker& worker : workers) {
    harness.Reconnect(&worker);
  }
  harness.Wait(std::chrono::seconds(1), workers);
  EXPECT_EQ(harness.fleet.kills, once);
  EXPECT_FALSE(harness.Take<proto::Drain>(workers[1].peer).has_value()) << "nobody is told";
  harness.Restart();
  for (FakeWorker& worker : workers) {
    harness.Reconnect(&worker);
  }
  harness.Wait(std::chrono::seconds(1), workers);
  EXPECT_EQ(harness.fleet.kills, once) << "it was asked for, and is over";
}

TEST(SaveTest, AJobThatIsLeavingTellsWhoComesBack) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.core->RequestStop(true, "enough", harness.now, harness.out());
  harness.Restart();
  ASSERT_FALSE(harness.core->is_finished()) << "nobody has been told yet";
  harness.Reconnect(&workers[0]);
  EXPECT_TRUE(harness.Take<proto::Shutdown>(workers[0].peer).has_value());
  harness.core->OnPeerClosed(workers[0].peer, harness.now, harness.out());
  for (FakeShard& shard : harness.shards) {
    harness.core->OnPeerClosed(shard.peer, harness.now, harness.out());
    shard.peer = proto::PeerId();
  }
  harness.Wait(harness.timing.detect * 2 + harness.timing.heartbeat);
  EXPECT_TRUE(harness.core->is_finished());
  EXPECT_EQ(harness.core->outcome().code(), StatusCode::kCancelled);
  EXPECT_EQ(harness.core->outcome().message(), "enough");
}

TEST(SaveTest, AnotherJobsStateIsRefused) {
  Harness harness;
  harness.StartWithWorkers();
  CoordinatorOptions options = harness.options;
  options.config.train.seed = 99;
  const Status status = LoadStatus(harness.core->StateAt(harness.now), options);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another config"));
}

TEST(SaveTest, WhatDoesNotFitTogetherIsCorrupt) {
  Harness harness(SmallJob(proto::Mode::kBsp));
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.AskAll(&workers);
  const auto expect_corrupt = [&](auto change) {
    EXPECT_EQ(StatusOfChanged(harness, change).code(), StatusCode::kCorruption);
  };
  EXPECT_TRUE(StatusOfChanged(harness, [](auto*) {}).ok());
  expect_corrupt([](auto* s) { s->ledger.epochs[0].fresh += 1; });
  expect_corrupt([](auto* s) { s->ledger.leases.begin()->second.epoch = 7; });
  expect_corrupt([](auto* s) { s->ledger.leases.begin()->second.holder = Incarnation(99); });
  expect_corrupt([](auto* s) { s->ledger.last_lease = LeaseId(); });
  expect_corrupt([](auto* s) { s->rounds.entries.clear(); });
  expect_corrupt([](auto* s) { s->rounds.entries.begin()->second.has_contributed = true; });
  expect_corrupt([](auto* s) { s->membership.members.begin()->second.minibatch = 0; });
  expect_corrupt([](auto* s) { s->membership.members.begin()->second.seat = WorkerId(1); });
  expect_corrupt([](auto* s) { s->membership.members.begin()->second.seat = WorkerId(5000); });
  expect_corrupt([](auto* s) { s->membership.acknowledged[ShardId(7)] = Generation(1); });
  expect_corrupt([](auto* s) { s->membership.generation = Generation(); });
  expect_corrupt([](auto* s) { s->placement.chunks.pop_back(); });
  expect_corrupt([](auto* s) { s->placement.chunks[0].shard = ShardId(9); });
  expect_corrupt([](auto* s) { s->shards.pop_back(); });
  expect_corrupt([](auto* s) { s->seats.next = 1U << 30; });
  expect_corrupt([](auto* s) { s->seats.ends[WorkerId(3)] = "of a seat that is not there"; });
  expect_corrupt([](auto* s) { s->epochs_finished = 1; });
  expect_corrupt([](auto* s) { s->faults_fired = 3; });
  expect_corrupt([](auto* s) { s->age = Duration(-5); });
}

/// Whatever is changed in a saved state: it is refused, or the job goes on soundly.
TEST(SaveTest, ADamagedStateIsRefusedOrGoesOn) {
  Harness harness(SmallJob(proto::Mode::kBsp));
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  harness.Work(&workers[0], grants[0]);
  harness.shards[1].is_mute = true;
  harness.Exit(ProcessKind::kWorker, 2, 1002, "killed by signal 9");
  const std::vector<std::byte> saved = proto::EncodeJobState(harness.core->StateAt(harness.now));
  Random random(11);
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::byte> damaged = saved;
    damaged[16 + random.Below(saved.size() - 16)] = static_cast<std::byte>(random.Below(256));
    FixChecksum(&damaged);
    FakeFleet fleet;
    auto state = proto::DecodeJobState(damaged);
    if (!state.ok()) {
      continue;
    }
    auto core = CoordinatorCore::Load(*state, harness.options, &fleet, &NullLogger(), harness.now);
    if (core.ok()) {
      (*core)->OnTick(harness.now + harness.timing.tick, harness.out());
      const Status sound = (*core)->Check();
      EXPECT_TRUE(sound.ok()) << sound;
      (*core)->StatusAt(harness.now);
    }
  }
}

}  // namespace
}  // namespace ps::coordinator
