#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/coordinator/checkpoint_fixture.h"

namespace ps::coordinator {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(CheckpointTest, ExistsWhenEveryShardHasReportedAndTheManifestIsWritten) {
  Begin();
  harness_.shards[1].checkpoint_code.reset();
  Wait(kEvery);
  EXPECT_THAT(disk_.opened, ElementsAre(1));
  EXPECT_THAT(disk_.writes, IsEmpty()) << "shard 1 has not reported";
  EXPECT_EQ(checkpoints().open, 1U);
  proto::CheckpointReport report;
  report.shard = ShardId(1);
  report.checkpoint = 1;
  harness_.Give(harness_.shards[1].peer, report);
  ASSERT_EQ(disk_.writes.size(), 1U);
  EXPECT_EQ(disk_.writes[0].manifest.id, 1U);
  EXPECT_EQ(disk_.writes[0].manifest.parts.size(), 2U);
  EXPECT_EQ(checkpoints().newest, 0U);
  Written();
  EXPECT_EQ(checkpoints().newest, 1U);
  EXPECT_EQ(checkpoints().committed, 1U);
}

TEST_F(CheckpointTest, HasWhatWasCountedWhenItWasOpened) {
  Begin();
  harness_.Work(&workers_[0], grants_[0]);
  const uint64_t counted = harness_.status().samples_counted;
  harness_.shards[1].checkpoint_code.reset();
  Wait(kEvery);
  harness_.Work(&workers_[1], grants_[1]);
  harness_.shards[1].checkpoint_code = StatusCode::kOk;
  Wait(kEvery);
  ASSERT_FALSE(disk_.writes.empty());
  const Result<JobState> state = proto::DecodeJobState(disk_.writes[0].manifest.job_state);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->ledger.epochs[0].counted.size(), counted);
  EXPECT_GT(harness_.status().samples_counted, counted);
}

/// One that ticks seldom, so that a test can wait for long.
class PatientCheckpointTest : public CheckpointTest {
 protected:
  PatientCheckpointTest()
      : CheckpointTest(
            [](CoordinatorOptions* options) { options->config.fleet.max_detect_s = 60; }) {}
};

TEST_F(
    PatientCheckpointTest, OneThatTakesVeryLongMakesWayForAChangeThatHasWaitedForItAndElseDoesNot) {
  Begin();
  harness_.shards[1].checkpoint_code.reset();
  Wait(std::chrono::minutes(11));
  ASSERT_EQ(checkpoints().open, 1U) << "a slow disk";
  const proto::PeerId control = harness_.Connect(proto::Role::kControl);
  harness_.Give(control, proto::ModeRequest{{proto::Mode::kSsp, 2}});
  Wait(std::chrono::minutes(9));
  EXPECT_EQ(checkpoints().open, 1U);
  Wait(std::chrono::minutes(2));
  EXPECT_THAT(checkpoints().trouble, HasSubstr("has waited for it for 600 s"));
  EXPECT_EQ(harness_.core->state().modes.in_force.mode, proto::Mode::kSsp);
}

/// One whose checkpoints are far apart.
class RareCheckpointTest : public CheckpointTest {
 protected:
  RareCheckpointTest()
      : CheckpointTest(
            [](CoordinatorOptions* options) { options->config.checkpoint.every_s = 8; }) {}
};

TEST_F(RareCheckpointTest, TheFirstComesSoonAfterTrainingBegan) {
  Begin();
  Wait(std::chrono::milliseconds(1900));
  EXPECT_THAT(disk_.opened, IsEmpty());
  Wait(std::chrono::milliseconds(200));
  EXPECT_THAT(disk_.opened, ElementsAre(1));
  Written();
  Wait(std::chrono::seconds(7));
  EXPECT_THAT(disk_.opened, ElementsAre(1)) << "the others are as far apart as the job says";
  Wait(std::chrono::seconds(2));
  EXPECT_THAT(disk_.opened, ElementsAre(1, 2));
}

TEST_F(RareCheckpointTest, ACoordinatorThatComesBackToOneWaitsForTheNext) {
  Begin();
  Wait(std::chrono::milliseconds(2100));
  Written();
  harness_.Restart();
  for (FakeWorker& worker : workers_) {
    harness_.Reconnect(&worker);
  }
  Wait(std::chrono::seconds(5));
  EXPECT_THAT(disk_.opened, ElementsAre(1));
}

TEST_F(CheckpointTest, TheOldestGoWhenThereAreMoreThanAreKept) {
  Begin();
  for (int i = 0; i < 3; ++i) {
    Wait(kEvery);
    Written();
  }
  EXPECT_THAT(disk_.writes[1].dropped, IsEmpty());
  EXPECT_THAT(disk_.writes[2].dropped, ElementsAre(1));
  EXPECT_THAT(harness_.shards[0].checkpoints.back().kept, ElementsAre(1, 2));
  Wait(kEvery);
  EXPECT_THAT(harness_.shards[0].checkpoints.back().kept, ElementsAre(2, 3));
}

TEST_F(CheckpointTest, AShardThatCannotWriteCostsTheCheckpointAndNothingElse) {
  Begin();
  harness_.shards[0].checkpoint_code = StatusCode::kIo;
  Wait(kEvery);
  EXPECT_THAT(disk_.writes, IsEmpty());
  EXPECT_EQ(checkpoints().failed, 1U);
  EXPECT_THAT(checkpoints().trouble, HasSubstr("shard 0: no space left"));
  EXPECT_EQ(harness_.status().state, proto::RunState::kTraining);
  harness_.shards[0].checkpoint_code = StatusCode::kOk;
  Wait(kEvery);
  Written();
  EXPECT_EQ(checkpoints().newest, 2U) << "a number is used once";
  EXPECT_EQ(checkpoints().trouble, "");
}

TEST_F(CheckpointTest, AManifestThatCannotBeWrittenIsNoCheckpoint) {
  Begin();
  Wait(kEvery);
  Written(Status::Io("read-only file system"));
  EXPECT_EQ(checkpoints().newest, 0U);
  EXPECT_THAT(checkpoints().trouble, HasSubstr("read-only"));
}

TEST_F(CheckpointTest, OneThatIsDueWhileAnotherIsWrittenIsSkipped) {
  Begin();
  harness_.shards[0].checkpoint_code.reset();
  Wait(kEvery * 3);
  EXPECT_THAT(disk_.opened, ElementsAre(1));
  EXPECT_GE(checkpoints().skipped, 1U);
  EXPECT_GE(harness_.shards[0].checkpoints.size(), 2U) << "asked again";
}

TEST_F(CheckpointTest, ACoordinatorThatComesBackUsesNoNumberTwice) {
  Begin();
  harness_.shards[0].checkpoint_code.reset();
  Wait(kEvery);
  harness_.Restart();
  harness_.shards[0].checkpoint_code = StatusCode::kOk;
  for (FakeWorker& worker : workers_) {
    harness_.Reconnect(&worker);
  }
  Wait(kEvery * 2);
  EXPECT_THAT(disk_.opened, ElementsAre(1, 2));
}

TEST_F(CheckpointTest, ACoordinatorThatComesBackKnowsWhenTheNextOneIsDue) {
  Begin();
  Wait(kEvery);
  Written();
  Wait(std::chrono::milliseconds(800));
  harness_.Restart();
  for (FakeWorker& worker : workers_) {
    harness_.Reconnect(&worker);
  }
  EXPECT_NEAR(checkpoints().age_s, 0.8, 0.15);
  Wait(std::chrono::milliseconds(400));
  EXPECT_THAT(disk_.opened, ElementsAre(1, 2));
}

TEST_F(CheckpointTest, TheLastOneIsWrittenBeforeTheShardsLeave) {
  Begin();
  harness_.core->RequestStop(false, "enough", harness_.now, harness_.out());
  harness_.Wait(harness_.timing.detect * 4);
  CloseAll(&harness_, workers_);
  harness_.Wait(harness_.timing.detect);
  ASSERT_EQ(disk_.writes.size(), 1U);
  EXPECT_FALSE(harness_.shards[0].is_told);
  Written();
  harness_.Wait(harness_.timing.detect);
  EXPECT_TRUE(harness_.shards[0].is_told);
}

/// Its disk hangs. Until then nothing could change mode, move or hand over.
TEST_F(
    CheckpointTest, AManifestThatIsNotWrittenIsWaitedForNoLongerAndCountsWhenItIsThereAllTheSame) {
  Begin();
  Wait(kEvery);
  ASSERT_EQ(disk_.writes.size(), 1U);
  Wait(std::chrono::minutes(4));
  EXPECT_EQ(checkpoints().open, 1U);
  Wait(std::chrono::minutes(1));
  EXPECT_EQ(checkpoints().open, 0U);
  EXPECT_EQ(checkpoints().failed, 1U);
  EXPECT_THAT(checkpoints().trouble, HasSubstr("was not written within 300 s"));
  Wait(kEvery * 3);
  EXPECT_THAT(disk_.opened, ElementsAre(1)) << "the disk would not write the next one either";
  Written();
  EXPECT_EQ(checkpoints().newest, 1U);
  Wait(kEvery);
  EXPECT_THAT(disk_.opened, ElementsAre(1, 2));
}

TEST_F(CheckpointTest, AManifestThatIsGivenUpAndFailsIsNoCheckpoint) {
  Begin();
  Wait(kEvery);
  Wait(std::chrono::minutes(5));
  Written(Status::Io("the disk is gone"));
  EXPECT_EQ(checkpoints().newest, 0U);
  EXPECT_EQ(checkpoints().failed, 1U);
  Wait(kEvery);
  EXPECT_THAT(disk_.opened, ElementsAre(1, 2));
}

class BspCheckpointTest : public CheckpointTest {
 protected:
  BspCheckpointTest() : CheckpointTest(proto::Mode::kBsp) {}
};

TEST_F(BspCheckpointTest, IsOfACommittedRound) {
  Begin();
  Wait(kEvery);
  EXPECT_THAT(disk_.opened, IsEmpty()) << "in the middle of a round";
  for (size_t i = 0; i < workers_.size(); ++i) {
    harness_.Work(&workers_[i], grants_[i]);
  }
  EXPECT_THAT(disk_.opened, IsEmpty()) << "the time runs from when it was looked at first";
  grants_ = harness_.AskAll(&workers_);
  Wait(kEvery);
  for (size_t i = 0; i < workers_.size(); ++i) {
    harness_.Work(&workers_[i], grants_[i]);
  }
  grants_ = harness_.AskAll(&workers_);
  ASSERT_THAT(disk_.opened, ElementsAre(1));
  EXPECT_EQ(harness_.shards[0].checkpoints.back().round, 2U);
}

/// What counts in an open round is not in the parameters.
TEST_F(BspCheckpointTest, NoneIsWrittenAtTheEndWhileARoundIsOpen) {
  Begin();
  harness_.Work(&workers_[0], grants_[0]);
  harness_.core->RequestStop(false, "enough", harness_.now, harness_.out());
  harness_.Wait(harness_.timing.detect * 4, workers_);
  CloseAll(&harness_, workers_);
  harness_.Wait(harness_.timing.detect * 2);
  EXPECT_THAT(disk_.opened, IsEmpty());
  EXPECT_TRUE(harness_.shards[0].is_told);
  EXPECT_NE(checkpoints().trouble, "");
}

/// What a resumed run does would be lost with it until then.
TEST(ResumeTest, TheFirstCheckpointComesSoonAndTheOneBeforeIsAsOldAsTheRun) {
  FakeDisk disk;
  JobState saved;
  {
    Harness before(OptionsWith(&disk));
    std::vector<FakeWorker> workers = before.StartWithWorkers();
    before.AskAll(&workers);
    before.Wait(std::chrono::minutes(1), workers);
    saved = before.core->StateAt(before.now);
  }
  disk = FakeDisk();
  CoordinatorOptions options = OptionsWith(&disk);
  options.config.checkpoint.every_s = 30;
  options.resume = ResumeFrom{saved, 7};
  options.checkpoints = {{7, 2, 1, 10}};
  options.next_checkpoint = 8;
  Harness after(options);
  std::vector<FakeWorker> workers = after.StartWithWorkers();
  after.AskAll(&workers);
  after.Wait(std::chrono::milliseconds(1800), workers);
  EXPECT_NEAR(after.status().checkpoints.age_s, 1.8, 0.2);
  EXPECT_THAT(disk.opened, IsEmpty());
  after.Wait(std::chrono::milliseconds(400), workers);
  ASSERT_THAT(disk.opened, ElementsAre(8));
  after.core->OnManifestWritten(8, Status::Ok(), after.now, after.out());
  after.Wait(std::chrono::seconds(1), workers);
  EXPECT_NEAR(after.status().checkpoints.age_s, 1.1, 0.3);
}

TEST(ResumeTest, GoesOnFromWhatWasCountedWithTheLeasesBackInTheQueue) {
  FakeDisk disk;
  JobState saved;
  uint64_t counted = 0;
  {
    Harness before(OptionsWith(&disk));
    std::vector<FakeWorker> workers = before.StartWithWorkers();
    const auto grants = before.AskAll(&workers);
    before.Work(&workers[0], grants[0]);
    counted = before.status().samples_counted;
    saved = before.core->StateAt(before.now);
  }
  CoordinatorOptions options = OptionsWith(&disk);
  options.config.servers.count = 3;
  options.resume = ResumeFrom{saved, 7};
  options.checkpoints = {{6, 2, 0}, {7, 2, 1}};
  options.next_checkpoint = 8;
  ASSERT_TRUE(CheckJobState(MakeJobState(options), options).ok());
  Harness after(options);
  std::vector<FakeWorker> workers = after.StartWithWorkers();
  ASSERT_EQ(after.shards.size(), 3U);
  const proto::ShardSetup& setup = after.shards[2].setups.back();
  EXPECT_EQ(setup.restore.checkpoint, 7U);
  EXPECT_EQ(setup.restore.shards, 2U);
  EXPECT_EQ(setup.life, 2U);
  EXPECT_EQ(after.status().samples_counted, counted);
  EXPECT_GT(workers[0].incarnation.value, 3U) << "an incarnation is granted once";
  RunToTheEnd(&after, &workers);
  EXPECT_EQ(after.status().samples_counted, after.status().samples_total);
}

/// The state of a small job that has counted `steps` of worker 0 in its first epoch.
JobState SavedAfter(int steps, FakeDisk* disk) {
  Harness before(OptionsWith(disk));
  std::vector<FakeWorker> workers = before.StartWithWorkers();
  const auto grants = before.AskAll(&workers);
  for (int step = 0; step < steps; ++step) {
    before.Work(&workers[0], grants[0]);
  }
  return before.core->StateAt(before.now);
}

TEST(ResumeTest, EpochsAreMeasuredOnTheSameSamplesAsBefore) {
  FakeDisk disk;
  const CoordinatorOptions options = OptionsWith(&disk);
  const JobState saved = SavedAfter(1, &disk);
  const auto check = [&](const std::string& before, const std::string& now) {
    proto::JobConfig was = options.config;
    was.data.validation = before;
    proto::JobConfig is = options.config;
    is.data.validation = now;
    return std::string(CheckSameOrder(saved, was, is, options.train_samples).message());
  };
  EXPECT_EQ(check("val", "val"), "");
  EXPECT_THAT(
      check("val", "dev"),
      AllOf(
          HasSubstr("data.validation was \"val\" and has to stay: "),
          HasSubstr("resume with data.validation=val")));
  EXPECT_THAT(check("val", ""), HasSubstr("resume with data.validation=val"));
  EXPECT_THAT(check("", "val"), HasSubstr("resume without data.validation"));
}

TEST(ResumeTest, AnEpochInProgressGoesOnInTheOrderInWhichItBegan) {
  FakeDisk disk;
  CoordinatorOptions options = OptionsWith(&disk);
  JobState saved = SavedAfter(1, &disk);
  const proto::JobConfig before = options.config;
  EXPECT_TRUE(CheckSameOrder(saved, before, options.config, options.train_samples).ok());
  options.config.train.minibatch *= 2;
  EXPECT_TRUE(CheckSameOrder(saved, before, options.config, options.train_samples).ok());
  options.config.train.seed += 8;
  const Status refused = CheckSameOrder(saved, before, options.config, options.train_samples);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("resume with train.seed=1, and with"));
  for (proto::EpochRecord& epoch : saved.ledger.epochs) {
    epoch.counted = RangeSet();
    epoch.counted.Insert(0, options.train_samples);
  }
  EXPECT_TRUE(CheckSameOrder(saved, before, options.config, options.train_samples).ok())
      << "between two epochs";
}

TEST(ResumeTest, AnEpochInProgressGoesOnWithTheSameDataAlone) {
  FakeDisk disk;
  CoordinatorOptions options = OptionsWith(&disk);
  JobState saved = SavedAfter(1, &disk);
  saved.data = proto::RunData{{.train_count = 200, .train_labels_crc = 7}, WorkerId(0)};
  options.resume = ResumeFrom{saved, 7};
  options.next_checkpoint = 8;
  ASSERT_TRUE(MakeJobState(options).data.has_value());
  EXPECT_EQ(MakeJobState(options).data->fingerprint.train_labels_crc, 7U);
  options.resume->state.ledger = proto::LedgerState();
  EXPECT_FALSE(MakeJobState(options).data.has_value()) << "between two epochs";
}

}  // namespace
}  // namespace ps::coordinator
