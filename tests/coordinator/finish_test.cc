#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/coordinator/rollback_fixture.h"

namespace ps::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kTests = 40;
constexpr uint64_t kValidation = 30;

/// What is done between the last step and the end, with a disk. Epochs of two rounds.
class FinishTest : public RollbackTest {
 protected:
  explicit FinishTest(proto::Mode mode = proto::Mode::kBsp) : FinishTest(mode, {}) {}

  FinishTest(proto::Mode mode, const std::function<void(CoordinatorOptions*)>& change)
      : RollbackTest(
            [&](CoordinatorOptions* options) {
              options->train_samples = 60;
              options->test_samples = kTests;
              options->config.train.epochs = 4;
              options->config.checkpoint.every_s = 10000;
              if (change) {
                change(options);
              }
            },
            mode) {}

  /// Does all that was granted and asks for more, until somebody is to evaluate.
  proto::LeaseGrant TrainUntilEvaluation() {
    for (int turn = 0; turn < 50; ++turn) {
      for (size_t i = 0; i < workers_.size(); ++i) {
        if (grants_[i].lease == LeaseId()) {
          grants_[i] = harness_.TakeGrant(&workers_[i]).value_or(proto::LeaseGrant{});
        }
        if (grants_[i].lease == LeaseId()) {
          continue;
        }
        const proto::LeaseGrant grant = grants_[i];
        if (grant.kind == proto::LeaseKind::kEvaluate) {
          evaluator_ = i;
          return grant;
        }
        harness_.Work(&workers_[i], grant);
        grants_[i] = harness_.Ask(&workers_[i]).value_or(proto::LeaseGrant{});
      }
      harness_.Wait(harness_.timing.tick, workers_);
    }
    ADD_FAILURE() << "nothing is evaluated: " << harness_.status().detail;
    return {};
  }

  /// So many of the samples are right.
  void Evaluate(const proto::LeaseGrant& grant, uint64_t correct) {
    const proto::EvaluateReport report{
        workers_[evaluator_].incarnation,
        grant.lease,
        grant.end - grant.begin,
        static_cast<double>(grant.end - grant.begin - correct),
        correct,
        {}};
    harness_.Give(workers_[evaluator_].peer, report);
    grants_[evaluator_] = harness_.Ask(&workers_[evaluator_]).value_or(proto::LeaseGrant{});
  }

  /// An epoch whose checkpoint, if any, is written, and then judged.
  void Epoch(uint64_t correct) {
    const proto::LeaseGrant grant = TrainUntilEvaluation();
    WriteAll();
    Evaluate(grant, correct);
  }

  void WriteAll() {
    harness_.Wait(harness_.timing.tick, workers_);
    for (; written_ < disk_.writes.size(); ++written_) {
      harness_.core->OnManifestWritten(
          disk_.writes[written_].checkpoint, Status::Ok(), harness_.now, harness_.out());
    }
  }

  void Stop() { harness_.core->RequestStop(false, "enough", harness_.now, harness_.out()); }

  bool IsDrained() { return harness_.Take<proto::Drain>(workers_[0].peer).has_value(); }

  std::vector<std::string> EventsNow() const {
    std::vector<std::string> names;
    for (const proto::EventRow& row : harness_.core->state().events.last) {
      names.emplace_back(proto::EventCodeName(row.code));
    }
    return names;
  }

  size_t evaluator_ = 0;
  size_t written_ = 0;
};

TEST_F(FinishTest, AStoppedModelIsEvaluatedBeforeWorkersLeave) {
  Begin();
  Epoch(10);
  Stop();
  EXPECT_FALSE(IsDrained()) << "they are needed";
  EXPECT_THAT(harness_.status().detail, HasSubstr("the steps in hand"));
  const proto::LeaseGrant grant = TrainUntilEvaluation();
  EXPECT_EQ(grant.begin, 0U);
  EXPECT_EQ(grant.end, kTests);
  const uint64_t counted = harness_.status().samples_counted;
  Evaluate(grant, 20);
  harness_.Wait(harness_.timing.tick, workers_);
  EXPECT_TRUE(IsDrained());
  const proto::JobStatus status = harness_.status();
  ASSERT_EQ(status.evaluations.size(), 2U);
  EXPECT_TRUE(status.has_last_evaluation);
  EXPECT_EQ(status.evaluations.back().accuracy, 0.5);
  EXPECT_EQ(status.evaluations.back().epoch, 1U);
  EXPECT_EQ(status.samples_counted, counted) << "nobody has trained since";
  CloseAll(&harness_, workers_);
  harness_.Wait(harness_.timing.detect * 3);
  EXPECT_EQ(harness_.core->outcome().message(), "enough");
}

TEST_F(FinishTest, WhatAnEpochsEndHasIsNotEvaluatedTwice) {
  Begin();
  const proto::LeaseGrant grant = TrainUntilEvaluation();
  Stop();
  Evaluate(grant, 20);
  harness_.Wait(harness_.timing.tick, workers_);
  EXPECT_TRUE(IsDrained()) << harness_.status().detail;
  ASSERT_EQ(harness_.status().evaluations.size(), 1U);
  EXPECT_FALSE(harness_.status().has_last_evaluation);
}

TEST_F(FinishTest, ASecondStopLeavesTheModelWithoutAnEvaluation) {
  Begin();
  Epoch(10);
  Stop();
  TrainUntilEvaluation();
  Stop();
  EXPECT_TRUE(IsDrained());
  EXPECT_FALSE(harness_.status().has_last_evaluation);
  EXPECT_THAT(EventsNow(), ::testing::Contains("not_evaluated"));
}

TEST_F(FinishTest, WithoutWorkersAStoppedModelIsLeftAsItIs) {
  Begin();
  Epoch(10);
  Stop();
  TrainUntilEvaluation();
  for (uint32_t seat = 0; seat < 3; ++seat) {
    harness_.Exit(ProcessKind::kWorker, seat, 1000 + seat, "killed by signal 9");
  }
  harness_.Wait(harness_.timing.detect * 8);
  EXPECT_EQ(harness_.status().state, proto::RunState::kStopped) << harness_.status().detail;
  EXPECT_FALSE(harness_.status().has_last_evaluation);
  EXPECT_THAT(EventsNow(), ::testing::Contains("not_evaluated"));
}

TEST_F(FinishTest, StepsThatTakeTooLongAreNotWaitedFor) {
  Begin();
  Epoch(10);
  grants_ = harness_.AskAll(&workers_);
  Stop();
  for (int i = 0; i < 70 && !IsDrained(); ++i) {
    for (FakeWorker& worker : workers_) {
      proto::WorkerHeartbeat beat;
      beat.incarnation = worker.incarnation;
      beat.minibatches = static_cast<uint64_t>(i) + 1;  // it gets on, slowly
      harness_.Give(worker.peer, beat);
    }
    harness_.Wait(std::chrono::seconds(1), workers_);
  }
  EXPECT_THAT(EventsNow(), ::testing::Contains("not_evaluated"));
}

TEST_F(FinishTest, AServerThatIsSilentIsNotWaitedFor) {
  Begin();
  Epoch(10);
  harness_.shards[1].is_silent = true;
  Stop();
  harness_.Wait(harness_.timing.detect * 2, workers_);
  EXPECT_TRUE(IsDrained()) << harness_.status().detail;
  EXPECT_THAT(EventsNow(), ::testing::Contains("not_evaluated"));
}

TEST_F(FinishTest, AnotherCoordinatorGoesOnWithTheEvaluation) {
  Begin();
  Epoch(10);
  Stop();
  const proto::LeaseGrant grant = TrainUntilEvaluation();
  harness_.Restart();
  for (FakeWorker& worker : workers_) {
    harness_.Reconnect(&worker);
  }
  Evaluate(grant, 20);
  harness_.Wait(harness_.timing.tick, workers_);
  EXPECT_TRUE(harness_.status().has_last_evaluation);
  EXPECT_TRUE(IsDrained());
}

class ValidationTest : public FinishTest {
 protected:
  ValidationTest()
      : FinishTest(proto::Mode::kBsp, [](CoordinatorOptions* options) {
          options->validation_samples = kValidation;
          options->config.train.epochs = 2;
        }) {}
};

TEST_F(ValidationTest, EpochsAreMeasuredOnItAndTheModelThatIsLeftOnTheTests) {
  Begin();
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    const proto::LeaseGrant grant = TrainUntilEvaluation();
    EXPECT_EQ(grant.begin, kTests) << "the tests are before them";
    EXPECT_EQ(grant.end, kTests + kValidation);
    Evaluate(grant, 15);
  }
  EXPECT_NE(harness_.status().state, proto::RunState::kDone);
  const proto::LeaseGrant last = TrainUntilEvaluation();
  EXPECT_EQ(last.begin, 0U);
  EXPECT_EQ(last.end, kTests);
  Evaluate(last, 30);
  harness_.Wait(harness_.timing.tick, workers_);
  const proto::JobStatus status = harness_.status();
  EXPECT_EQ(status.state, proto::RunState::kDone);
  ASSERT_EQ(status.evaluations.size(), 3U);
  EXPECT_TRUE(status.has_last_evaluation);
  EXPECT_EQ(status.validation_samples, kValidation);
  EXPECT_EQ(status.evaluations[1].samples, kValidation);
  EXPECT_EQ(status.evaluations.back().samples, kTests);
  EXPECT_EQ(status.evaluations.back().accuracy, 0.75);
}

class EarlyTest : public FinishTest {
 protected:
  EarlyTest()
      : FinishTest(proto::Mode::kBsp, [](CoordinatorOptions* options) {
          options->config.train.stop_early = {2, 0.05F, proto::EpochMetric::kAccuracy};
          options->config.train.epochs = 10;
        }) {}
};

TEST_F(EarlyTest, TrainingEndsWhenNothingGetsBetter) {
  Begin();
  Epoch(20);
  Epoch(21);  // by 0.025: not enough
  EXPECT_EQ(harness_.status().stopped_early, "");
  Epoch(19);
  harness_.Wait(harness_.timing.tick, workers_);
  const proto::JobStatus status = harness_.status();
  EXPECT_EQ(status.state, proto::RunState::kDone) << status.detail;
  EXPECT_EQ(status.samples_counted, 180U);
  EXPECT_THAT(status.stopped_early, HasSubstr("accuracy 0.5 of epoch 1"));
  EXPECT_THAT(EventsNow(), ::testing::Contains("stopped_early"));
}

class BestTest : public FinishTest {
 protected:
  explicit BestTest(proto::Mode mode = proto::Mode::kBsp)
      : FinishTest(mode, [](CoordinatorOptions* options) {
          options->config.checkpoint.best.metric = proto::EpochMetric::kAccuracy;
          options->config.checkpoint.keep = 1;
        }) {}

  /// Four epochs, of which the second is the best.
  void TrainAll() {
    Begin();
    Epoch(10);
    Epoch(30);
    Epoch(20);
    Epoch(25);
    WriteAll();
  }

  /// The disk has read the manifest, and all come back.
  void TakeBest() {
    Read();
    for (uint32_t shard = 0; shard < 2; ++shard) {
      harness_.RegisterShard(shard, PidOf(shard));
    }
    WorkersReturn();
    grants_ = harness_.AskAll(&workers_);
    harness_.Wait(harness_.timing.tick, workers_);
  }

  std::vector<uint64_t> Kept() const {
    std::vector<uint64_t> kept;
    for (const proto::KeptCheckpoint& one : harness_.core->state().checkpoints.kept) {
      kept.push_back(one.checkpoint);
    }
    return kept;
  }
};

TEST_F(BestTest, TheBestEpochsModelIsLeft) {
  TrainAll();
  EXPECT_THAT(Kept(), ElementsAre(2, 4)) << "the best one, and the newest";
  EXPECT_EQ(checkpoints().best, 2U);
  EXPECT_EQ(checkpoints().best_epoch, 2U);
  EXPECT_EQ(checkpoints().best_score, 0.75);
  EXPECT_NE(harness_.status().state, proto::RunState::kDone);
  ASSERT_THAT(disk_.reads, ElementsAre(2));
  TakeBest();
  for (uint32_t shard = 0; shard < 2; ++shard) {
    EXPECT_EQ(NewestSetup(shard).restore.checkpoint, 2U);
    EXPECT_GT(NewestSetup(shard).life, 1U);
  }
  const proto::JobStatus status = harness_.status();
  EXPECT_EQ(status.state, proto::RunState::kDone) << status.detail;
  EXPECT_EQ(status.samples_counted, 240U) << "what was trained stays counted";
  EXPECT_TRUE(status.checkpoints.is_best_left);
  EXPECT_EQ(status.evaluations.back().accuracy, 0.75);
  EXPECT_EQ(status.evaluations.back().epoch, 2U);
  CloseAll(&harness_, workers_);
  harness_.Wait(harness_.timing.detect * 3);
  EXPECT_EQ(disk_.opened.size(), 4U) << "no checkpoint is made of the older model";
}

TEST_F(BestTest, TrainingWaitsUntilAnEpochsCheckpointCanBegin) {
  Begin();
  Evaluate(TrainUntilEvaluation(), 10);  // its checkpoint is not written yet
  Evaluate(TrainUntilEvaluation(), 30);
  harness_.Wait(harness_.timing.tick, workers_);
  EXPECT_THAT(disk_.opened, ElementsAre(1));
  EXPECT_EQ(harness_.status().samples_counted, 120U);
  EXPECT_FALSE(harness_.TakeGrant(&workers_[0]).has_value()) << "nobody trains on";
  WriteAll();
  harness_.Wait(harness_.timing.tick, workers_);
  EXPECT_THAT(disk_.opened, ElementsAre(1, 2));
  WriteAll();
  EXPECT_EQ(checkpoints().best_epoch, 2U);
  EXPECT_TRUE(harness_.TakeGrant(&workers_[0]).has_value());
}

TEST_F(BestTest, TrainingDoesNotWaitLongForADisk) {
  Begin();
  Evaluate(TrainUntilEvaluation(), 10);
  Evaluate(TrainUntilEvaluation(), 30);
  Wait(std::chrono::seconds(11));
  EXPECT_TRUE(harness_.TakeGrant(&workers_[0]).has_value()) << harness_.status().detail;
  WriteAll();
  EXPECT_EQ(checkpoints().best_epoch, 1U);
}

TEST_F(BestTest, TheNewestModelIsLeftAtOnceWhenItIsTheBest) {
  Begin();
  Epoch(10);
  Epoch(20);
  Epoch(30);
  Epoch(35);
  WriteAll();
  EXPECT_EQ(harness_.status().state, proto::RunState::kDone) << harness_.status().detail;
  EXPECT_THAT(disk_.reads, ::testing::IsEmpty());
  EXPECT_TRUE(checkpoints().is_best_left);
  EXPECT_EQ(checkpoints().best_epoch, 4U);
}

TEST_F(BestTest, AServerLostWhileItIsReadTakesAllBackToTheNewest) {
  TrainAll();
  ASSERT_THAT(disk_.reads, ElementsAre(2));
  Lose(1);
  Read();
  EXPECT_THAT(disk_.reads, ElementsAre(2, 4)) << "what was read is not what is gone back to";
  Read();
  EXPECT_EQ(harness_.status().samples_counted, 240U);
  EXPECT_FALSE(harness_.core->state().checkpoints.is_best_taken);
}

TEST_F(BestTest, AServerLostAfterwardsTakesAllBackToTheNewest) {
  TrainAll();
  Read();
  Lose(1);
  EXPECT_EQ(disk_.reads.back(), 4U) << "not to the best one";
  Read();
  ShardsReturn(1);
  WorkersReturn();
  grants_ = harness_.AskAll(&workers_);
  harness_.Wait(harness_.timing.tick, workers_);
  EXPECT_EQ(NewestSetup(0).restore.checkpoint, 4U);
  EXPECT_FALSE(harness_.core->state().checkpoints.is_best_taken);
}

TEST_F(BestTest, WhenTheBestOneIsDamagedTheNewestModelIsLeft) {
  TrainAll();
  ReadFails();
  harness_.Wait(harness_.timing.tick, workers_);
  EXPECT_EQ(harness_.status().state, proto::RunState::kDone) << harness_.status().detail;
  EXPECT_FALSE(checkpoints().is_best_left);
  EXPECT_THAT(EventsNow(), ::testing::Contains("best_lost"));
}

TEST_F(BestTest, AStoppedRunLeavesTheBestModelUnlessThePresentOneIsBetter) {
  Begin();
  Epoch(10);
  Epoch(30);
  Stop();
  const proto::LeaseGrant grant = TrainUntilEvaluation();
  Evaluate(grant, 12);
  WriteAll();
  harness_.Wait(harness_.timing.tick, workers_);
  WriteAll();
  harness_.Wait(harness_.timing.tick, workers_);
  ASSERT_THAT(disk_.reads, ElementsAre(2)) << harness_.status().detail;
  EXPECT_GT(harness_.core->state().checkpoints.newest().checkpoint, 2U)
      << "what was trained since is not lost to a resume";
  TakeBest();
  EXPECT_TRUE(IsDrained());
  EXPECT_EQ(harness_.status().evaluations.back().accuracy, 0.75);
}

TEST_F(BestTest, AnotherCoordinatorKnowsTheBest) {
  Begin();
  Epoch(10);
  Epoch(30);
  harness_.Restart();
  for (FakeWorker& worker : workers_) {
    harness_.Reconnect(&worker);
  }
  EXPECT_EQ(checkpoints().best, 2U);
  EXPECT_EQ(checkpoints().best_score, 0.75);
}

class AsyncBestTest : public BestTest {
 protected:
  AsyncBestTest() : BestTest(proto::Mode::kAsync) {}
};

TEST_F(AsyncBestTest, TheBestEpochsModelIsLeftToo) {
  TrainAll();
  EXPECT_EQ(checkpoints().best_epoch, 2U);
  WriteAll();
  harness_.Wait(harness_.timing.tick, workers_);
  WriteAll();
  harness_.Wait(harness_.timing.tick, workers_);
  ASSERT_FALSE(disk_.reads.empty()) << harness_.status().detail;
  TakeBest();
  EXPECT_TRUE(harness_.status().checkpoints.is_best_left) << harness_.status().detail;
}

}  // namespace
}  // namespace ps::coordinator
