#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/coordinator/held_output.h"
#include "ps/coordinator/job_journal.h"
#include "tests/checkpoint/memory_storage.h"
#include "tests/coordinator/harness.h"
#include "tests/coordinator/journal_check.h"

namespace ps::coordinator {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr proto::LaunchRecord kServer = {ProcessKind::kServer, 0, LaunchId(1), 4711, 99};
constexpr proto::LaunchRecord kWorker = {ProcessKind::kWorker, 12, LaunchId(2), 4712, 100};
constexpr proto::LaunchRecord kAnother = {ProcessKind::kWorker, 12, LaunchId(3), 4713, 101};

std::unique_ptr<JobJournal> OpenJournal(checkpoint::MemoryStorage* storage) {
  auto journal = JobJournal::Open(*storage, "journal", "boot", &NullLogger());
  EXPECT_TRUE(journal.ok()) << journal.status();
  return std::move(journal).value();
}

TEST(JobJournalTest, OneOfAnotherBootIsRefusedWithTheRemedy) {
  checkpoint::MemoryStorage storage;
  OpenJournal(&storage);
  OpenJournal(&storage);
  const auto other = JobJournal::Open(storage, "journal", "boot-2", &NullLogger());
  ASSERT_EQ(other.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("psctl resume"));
}

/// A journal with a job in it whose disk takes no more.
void FillTheDisk(Harness* harness) {
  harness->StartWithWorkers();
  harness->journal->NoteStarted(kServer);
  harness->storage.SetFull("journal", true);
  harness->journal->NoteStarted(kWorker);
  EXPECT_THAT(harness->journal->trouble(), HasSubstr("the disk is full"));
}

TEST(JobJournalTest, OneThatFellBehindIsRefusedWithTheRemedy) {
  Harness harness;
  FillTheDisk(&harness);
  harness.journal.reset();
  harness.storage.SetFull("journal", false);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto again = JobJournal::Open(harness.storage, "journal", "boot", &NullLogger());
    ASSERT_EQ(again.status().code(), StatusCode::kInvalidArgument) << again.status();
    EXPECT_THAT(
        std::string(again.status().message()),
        AllOf(HasSubstr("it fell behind"), HasSubstr("psctl resume")));
  }
  EXPECT_THAT(JobJournal::ReadLaunches(harness.storage, "journal", "boot"), ElementsAre(kServer));
  EXPECT_THAT(JobJournal::ReadLaunches(harness.storage, "journal", "boot-2"), ElementsAre());
}

TEST(JobJournalTest, WhereTheDiskRefusesTheMarkTooAnotherProcessKnowsThatItFellBehind) {
  Harness harness;
  harness.storage.RefuseMarks(true);
  std::atomic<bool> is_behind = true;
  harness.journal->TellOf(&is_behind);
  EXPECT_FALSE(is_behind) << "nobody has been told of anything";
  FillTheDisk(&harness);
  EXPECT_TRUE(is_behind);
  harness.storage.SetFull("journal", false);
  harness.now += std::chrono::seconds(1);
  JobJournal* const journal = harness.journal.get();
  journal->Write(harness.core->TakeRows(harness.now, journal->WantsAll(harness.now)), harness.now);
  EXPECT_FALSE(is_behind) << "all rows are there, whatever the mark says";
}

TEST(JobJournalTest, OneThatHasCaughtUpIsGoneOnFrom) {
  Harness harness;
  FillTheDisk(&harness);
  harness.storage.SetFull("journal", false);
  harness.now += std::chrono::seconds(1);
  JobJournal* const journal = harness.journal.get();
  journal->Write(harness.core->TakeRows(harness.now, journal->WantsAll(harness.now)), harness.now);
  EXPECT_EQ(journal->trouble(), "");
  harness.journal.reset();
  const auto recovered = OpenJournal(&harness.storage)->Recover();
  ASSERT_TRUE(recovered.ok() && *recovered) << recovered.status();
  EXPECT_THAT((*recovered)->launches, ElementsAre(kServer, kWorker));
}

/// As a flipped byte in a log does: what comes after it is gone, and nobody says so.
TEST(JobJournalTest, OneThatHasLostItsNewestRowsIsRefused) {
  checkpoint::MemoryStorage storage;
  OpenJournal(&storage)->Write({.is_all = true, .changes = {}}, TimePoint());
  storage.LoseMachine("journal");
  const auto again = JobJournal::Open(storage, "journal", "boot", &NullLogger());
  ASSERT_EQ(again.status().code(), StatusCode::kCorruption) << again.status();
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("1 of its 1 writes are lost"));
}

/// Its predecessor was killed after it had written its rows, and before it could say so.
TEST(JobJournalTest, OneOfAWriteMoreThanItsMarkIsWhole) {
  checkpoint::MemoryStorage storage;
  const auto write = [](JobJournal* journal) {
    journal->Write({.is_all = true, .changes = {}}, TimePoint());
  };
  const auto mark = storage.OpenMark("journal").value();
  write(OpenJournal(&storage).get());
  ASSERT_TRUE(mark->Write("").ok());
  write(OpenJournal(&storage).get());
  const std::string before = mark->Read().value();
  EXPECT_NE(before, "");
  write(OpenJournal(&storage).get());
  ASSERT_TRUE(mark->Write(before).ok());
  OpenJournal(&storage);
}

TEST(JobJournalTest, TheKernelHasABootId) {
  const Result<std::string> boot = ReadBootId();
  ASSERT_TRUE(boot.ok()) << boot.status();
  EXPECT_GE(boot->size(), 32U);
}

TEST(JobJournalTest, ANewOneHasNoJob) {
  checkpoint::MemoryStorage storage;
  const auto recovered = OpenJournal(&storage)->Recover();
  ASSERT_TRUE(recovered.ok()) << recovered.status();
  EXPECT_FALSE(recovered->has_value());
}

TEST(JobJournalTest, ProcessesThatAreNotOverAndThePortAreThereAgain) {
  Harness harness;
  harness.StartWithWorkers();
  harness.journal->NotePort(7001);
  for (const proto::LaunchRecord& launch : {kServer, kWorker, kAnother}) {
    harness.journal->NoteStarted(launch);
  }
  harness.journal->NoteEnded(kWorker);
  harness.journal.reset();
  const auto recovered = OpenJournal(&harness.storage)->Recover();
  ASSERT_TRUE(recovered.ok() && *recovered) << recovered.status();
  EXPECT_EQ((*recovered)->port, 7001U);
  EXPECT_THAT((*recovered)->launches, ElementsAre(kServer, kAnother));
}

TEST(JobJournalTest, ADamagedRowIsNamed) {
  Harness harness;
  harness.StartWithWorkers();
  harness.journal.reset();
  for (const std::string key : {"job/member/0000000000000002", "job/totals/0000000000000000"}) {
    std::vector<std::byte>* const value = harness.storage.ValueOf("journal", 0, key);
    ASSERT_NE(value, nullptr) << key;
    for (size_t i = 0; i < value->size(); i += 7) {
      (*value)[i] ^= std::byte{4};
      const Status status = OpenJournal(&harness.storage)->Recover().status();
      EXPECT_EQ(status.code(), StatusCode::kCorruption) << "byte " << i;
      EXPECT_THAT(std::string(status.message()), HasSubstr(key));
      (*value)[i] ^= std::byte{4};
    }
  }
  EXPECT_TRUE(OpenJournal(&harness.storage)->Recover().ok());
}

TEST(JobJournalTest, ADiskThatWasFullGetsAllRowsWhenItHasRoom) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.journal->NoteStarted(kServer);
  bool is_full = true;
  harness.storage.SetFaultHook([&](checkpoint::Operation operation, const std::string& /*path*/) {
    return is_full && operation == checkpoint::Operation::kWrite ? Status::Io("the disk is full")
                                                                 : Status::Ok();
  });
  const auto write = [&] {
    JobJournal* const journal = harness.journal.get();
    journal->Write(
        harness.core->TakeRows(harness.now, journal->WantsAll(harness.now)), harness.now);
  };
  harness.core->OnProcessExited(
      {ProcessKind::kWorker,
       2,
       harness.fleet.NewestOf(ProcessKind::kWorker, 2),
       "killed",
       false,
       ""},
      harness.now,
      harness.out());
  write();
  EXPECT_THAT(harness.status().journal.trouble, HasSubstr("the disk is full"));
  EXPECT_EQ(harness.status().journal.failures, 1U);
  harness.journal->NoteStarted(kWorker);
  is_full = false;
  write();
  EXPECT_FALSE(CheckJournal(harness.journal.get(), *harness.core, harness.now).ok())
      << "the disk is not asked again at once";
  harness.now += std::chrono::seconds(1);
  write();
  EXPECT_EQ(harness.status().journal.trouble, "");
  const Status status = CheckJournal(harness.journal.get(), *harness.core, harness.now);
  EXPECT_TRUE(status.ok()) << status;
  const auto recovered = harness.journal->Recover();
  ASSERT_TRUE(recovered.ok() && *recovered) << recovered.status();
  EXPECT_THAT((*recovered)->launches, ElementsAre(kServer, kWorker));
}

/// A job in which rows of (nearly) every kind change.
bool IsFoundWithout(RowKind kind) {
  const bool is_of_rounds =
      kind == RowKind::kRoundEntry || kind == RowKind::kCommit || kind == RowKind::kCommitAck;
  CoordinatorOptions options = SmallJob(is_of_rounds ? proto::Mode::kBsp : proto::Mode::kAsync);
  options.test_samples = 400;
  Harness harness(options);
  harness.core->Start(harness.now);
  harness.RegisterShard(0, 500);
  harness.unmarked = kind;
  harness.RegisterShard(1, 501);
  std::vector<FakeWorker> workers;
  for (const auto& [seat, group] : harness.fleet.workers) {
    workers.push_back(harness.Join(seat.value, 1000 + seat.value));
  }
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  harness.shards[1].is_mute = true;
  for (size_t i = 0; i < workers.size(); ++i) {
    harness.Work(&workers[i], grants[i]);
  }
  harness.Unmute(1);
  const Status decided = harness.core->OnDecision(
      proto::Asker::kPolicy,
      {.memory = proto::PolicyRecord{.available = {3}}},
      harness.now,
      harness.out());
  EXPECT_TRUE(decided.ok()) << decided;
  const proto::PeerId control = harness.Connect(proto::Role::kControl);
  harness.Give(control, proto::NoticeRequest{WorkerId(1), 5000});
  harness.shards[1].is_mute = true;
  harness.Exit(ProcessKind::kWorker, 1, 1001, "killed by signal 9");
  harness.Unmute(1);
  workers.erase(workers.begin() + 1);
  RunToTheEnd(&harness, &workers);
  return harness.is_unmarked_found;
}

TEST(JobJournalTest, ATableThatMarksNothingIsFound) {
  for (size_t kind = 0; kind < proto::kRowKinds; ++kind) {
    const auto unmarked = static_cast<RowKind>(kind);
    const bool is_constant = unmarked == RowKind::kJob || unmarked == RowKind::kPlacement;
    const bool is_compared = unmarked != RowKind::kTimes;
    EXPECT_EQ(IsFoundWithout(unmarked), !is_constant && is_compared)
        << proto::RowKey({unmarked, 0});
  }
}

class NoOutbox final : public proto::Outbox {
 public:
  void Send(proto::PeerId to, uint64_t /*request_id*/, proto::Message message) override {
    sent.push_back(fmt::format("{} to {}", message.index(), to.value));
  }

  void Close(proto::PeerId peer) override { sent.push_back(fmt::format("close {}", peer.value)); }

  std::vector<std::string> sent;
};

TEST(HeldOutputTest, NothingLeavesBeforeItIsReleasedAndThenInOrder) {
  NoOutbox out;
  FakeFleet fleet;
  fleet.launches[{ProcessKind::kServer, 3}] = {LaunchId(1), LaunchId(2)};
  HeldOutput held(&out, &fleet);
  const size_t ack = proto::Message(proto::StepAck{}).index();
  held.Send(proto::PeerId(1), 0, proto::StepAck{});
  held.StartServer(2, LaunchId(5));
  held.StartWorker(WorkerId(3), LaunchId(6), {});
  held.KillWorker(WorkerId(4));
  held.KillServer(3, LaunchId(1));
  held.Close(proto::PeerId(1));
  EXPECT_THAT(out.sent, ElementsAre());
  EXPECT_TRUE(fleet.servers.empty() && fleet.workers.empty() && fleet.kills.empty());
  EXPECT_TRUE(fleet.server_kills.empty());
  EXPECT_FALSE(held.is_empty());
  held.Release();
  EXPECT_THAT(out.sent, ElementsAre(fmt::format("{} to 1", ack), "close 1"));
  EXPECT_EQ(fleet.servers.size(), 1U);
  EXPECT_EQ(fleet.workers.size(), 1U);
  EXPECT_EQ(fleet.NewestOf(ProcessKind::kServer, 2), LaunchId(5));
  EXPECT_EQ(fleet.NewestOf(ProcessKind::kWorker, 3), LaunchId(6));
  EXPECT_THAT(fleet.kills, ElementsAre(WorkerId(4)));
  EXPECT_THAT(fleet.server_kills, ElementsAre(3));
  EXPECT_TRUE(held.is_empty());
}

TEST(HeldOutputTest, ValuesOfTheModelPassAtOnce) {
  NoOutbox out;
  FakeFleet fleet;
  HeldOutput held(&out, &fleet);
  held.Send(proto::PeerId(1), 0, proto::PullReply{});
  EXPECT_EQ(out.sent.size(), 1U);
  EXPECT_TRUE(held.is_empty());
}

/// Servers and workers that were decided to be started, and nobody started them.
TEST(SaveTest, WhatTheJobWaitsForAndNobodyHasStartedIsStarted) {
  Harness harness;
  harness.StartWithShards();
  harness.Join(0, 1000);
  harness.Restart();
  harness.fleet.servers.clear();
  harness.fleet.workers.clear();
  const std::vector<proto::LaunchRecord> launches = {
      {ProcessKind::kWorker, 0, harness.fleet.NewestOf(ProcessKind::kWorker, 0), 1000, 1},
      {ProcessKind::kWorker, 2, harness.fleet.NewestOf(ProcessKind::kWorker, 2), 1002, 1}};
  harness.core->StartMissing(launches, harness.now);
  EXPECT_TRUE(harness.fleet.servers.empty()) << "both have registered";
  ASSERT_EQ(harness.fleet.workers.size(), 1U);
  EXPECT_EQ(harness.fleet.workers.begin()->first, WorkerId(1));
}

}  // namespace
}  // namespace ps::coordinator
