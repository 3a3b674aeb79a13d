#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

proto::DatasetFingerprint SmallData() {
  proto::DatasetFingerprint data;
  data.channels = 1;
  data.height = 28;
  data.width = 28;
  data.classes = 10;
  data.train_count = 200;
  data.test_count = 20;
  data.train_images_crc = 0x11111111;
  data.train_labels_crc = 0x22222222;
  data.test_images_crc = 0x33333333;
  data.test_labels_crc = 0x44444444;
  return data;
}

/// Three workers have joined; none has asked for work.
class DataTest : public ::testing::Test {
 protected:
  DataTest() : workers_(harness_.StartWithWorkers()) {}

  void Ask(size_t worker, const proto::DatasetFingerprint& data) {
    harness_.Give(
        workers_[worker].peer,
        proto::LeaseRequest{workers_[worker].incarnation, workers_[worker].newest, data});
  }

  /// What the worker is refused with; "" when it is not.
  std::string RefusalOf(size_t worker) {
    const auto refusal = harness_.Take<proto::Refusal>(workers_[worker].peer);
    if (refusal) {
      EXPECT_EQ(refusal->code, StatusCode::kInvalidArgument);
    }
    return refusal ? refusal->message : "";
  }

  std::string StateOf(uint32_t worker) {
    for (const proto::WorkerRow& row : harness_.status().workers) {
      if (row.worker == WorkerId(worker)) {
        return std::string(proto::StateName(row.state)) + ": " + row.reason;
      }
    }
    return "none";
  }

  Harness harness_;
  std::vector<FakeWorker> workers_;
};

TEST_F(DataTest, WorkersWithTheSameDataTakePart) {
  for (size_t i = 0; i < workers_.size(); ++i) {
    Ask(i, SmallData());
  }
  for (FakeWorker& worker : workers_) {
    EXPECT_TRUE(harness_.TakeGrant(&worker).has_value());
  }
}

TEST_F(DataTest, AWorkerSaysOnceWhatItComputesOn) {
  const auto device_of = [this](size_t worker) { return harness_.status().workers[worker].device; };
  EXPECT_EQ(device_of(1), "cpu") << "what the job says";
  proto::LeaseRequest request{workers_[1].incarnation, workers_[1].newest, SmallData(), "cuda:3"};
  harness_.Give(workers_[1].peer, request);
  EXPECT_EQ(device_of(1), "cuda:3");
  request.device.clear();
  harness_.Give(workers_[1].peer, request);
  EXPECT_EQ(device_of(1), "cuda:3");
  EXPECT_EQ(device_of(0), "cpu");
}

TEST_F(DataTest, OneWithOtherLabelsIsRefusedByANameOfBothAndTakesNoPart) {
  Ask(2, SmallData());
  proto::DatasetFingerprint other = SmallData();
  other.train_labels_crc = 0xabcdef01;
  Ask(0, other);
  EXPECT_THAT(
      RefusalOf(0),
      AllOf(
          HasSubstr("its data is not that of worker 2, the first of this run: "),
          HasSubstr("its training labels differ (CRC abcdef01 and not 22222222)"),
          HasSubstr("give worker 0 the same files in data.directory"),
          Not(HasSubstr("images"))));
  EXPECT_THAT(StateOf(0), testing::StartsWith("failed: its data is not that of worker 2"));
  EXPECT_EQ(harness_.status().revocations_unnoticed, 0U) << "nobody took it away";
  Ask(1, SmallData());
  EXPECT_TRUE(harness_.TakeGrant(&workers_[1]).has_value()) << "training begins without it";
  EXPECT_FALSE(harness_.TakeGrant(&workers_[0]).has_value());
}

/// What worker.program keeps to itself: the coordinator knows a checksum of psctl's.
TEST(FrozenValuesTest, AWorkerWithOthersThanTheRunIsRefused) {
  CoordinatorOptions options = SmallJob();
  options.frozen_crc = 0x1234;
  Harness harness(options);
  const std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const auto ask = [&](size_t worker, uint32_t frozen_crc) {
    const FakeWorker& asking = workers[worker];
    harness.Give(
        asking.peer,
        proto::LeaseRequest{asking.incarnation, asking.newest, SmallData(), "", frozen_crc});
    const auto refusal = harness.Take<proto::Refusal>(asking.peer);
    return refusal ? refusal->message : "";
  };
  EXPECT_EQ(ask(0, 0x1234), "");
  EXPECT_EQ(ask(1, 0), "") << "an older library says nothing of it";
  EXPECT_THAT(
      ask(2, 0x1235),
      HasSubstr("what nobody trains are not those of the run (CRC 00001235 and not 00001234)"));
}

TEST(TokenizedDataTest, AnotherTokenizerIsRefusedByItsName) {
  CoordinatorOptions options = SmallJob();
  options.config.data.tokenizer = "tokens";
  Harness harness(options);
  const std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const auto ask = [&](size_t worker, const proto::DatasetFingerprint& data) {
    const FakeWorker& asking = workers[worker];
    harness.Give(asking.peer, proto::LeaseRequest{asking.incarnation, asking.newest, data});
    const auto refusal = harness.Take<proto::Refusal>(asking.peer);
    return refusal ? refusal->message : "";
  };
  EXPECT_EQ(ask(0, SmallData()), "");
  proto::DatasetFingerprint other = SmallData();
  other.train_images_crc = 5;  // its tokens are others, too
  other.train_labels_crc = 0xabcdef01;
  other.test_labels_crc = 0xabcdef01;
  const std::string why = ask(1, other);
  EXPECT_THAT(why, HasSubstr("its tokenizer is another one (CRC abcdef01 and not 22222222); give"));
  EXPECT_THAT(why, testing::EndsWith(", and data.tokenizer, tokens"));
}

TEST(ValidationDataTest, AnotherPartForValidationIsRefusedWithTheTestsByName) {
  CoordinatorOptions options = SmallJob();
  options.config.data.validation = "val";
  Harness harness(options);
  const std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.Give(
      workers[0].peer, proto::LeaseRequest{workers[0].incarnation, workers[0].newest, SmallData()});
  proto::DatasetFingerprint other = SmallData();
  other.test_images_crc = 0xabcdef01;
  harness.Give(
      workers[1].peer, proto::LeaseRequest{workers[1].incarnation, workers[1].newest, other});
  const auto refusal = harness.Take<proto::Refusal>(workers[1].peer);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_THAT(
      refusal->message,
      HasSubstr("its test or validation images differ (CRC abcdef01 and not 33333333); give"));
}

TEST_F(DataTest, OtherShapesAndCountsAreNamedInsteadOfTheirBytes) {
  Ask(0, SmallData());
  proto::DatasetFingerprint other = SmallData();
  other.channels = 3;
  other.height = 32;
  other.train_count = 150;
  other.train_images_crc = 5;
  Ask(1, other);
  EXPECT_THAT(
      RefusalOf(1),
      AllOf(
          HasSubstr("its images are 3 x 32 x 28 and not 1 x 28 x 28, it has 150 training samples "
                    "and not 200"),
          Not(HasSubstr("CRC"))));
}

constexpr const char* kBadValue = "inputs.npy: byte 7: value 7 of sample 3 is nan";

/// Three workers that can't compute one of the samples. Each counts a step of others first.
class BadDataTest : public ::testing::Test {
 protected:
  BadDataTest() : harness_(Options()), workers_(harness_.StartWithWorkers()) {
    grants_ = harness_.AskAll(&workers_);
  }

  static CoordinatorOptions Options() {
    CoordinatorOptions options = SmallJob();
    options.config.fleet.replace = true;
    return options;
  }

  void Step(size_t worker) {
    FakeWorker& doing = workers_[worker];
    const proto::StepDone one = harness_.MakeStep(&doing, grants_[worker], grants_[worker].begin);
    harness_.Give(doing.peer, proto::StepReport{doing.incarnation, {one}});
    harness_.Complete(doing, one.step);
  }

  void Refuse(size_t worker, StatusCode code = StatusCode::kCorruption) {
    harness_.Give(workers_[worker].peer, proto::Refusal{code, kBadValue});
    harness_.Close(workers_[worker].peer);
  }

  /// A process is started anew for the seat, gets work, and can't do it either.
  void FailAgain(size_t worker) {
    workers_[worker] = harness_.Join(workers_[worker].seat.value, ++pid_);
    grants_[worker] = harness_.Ask(&workers_[worker]).value_or(proto::LeaseGrant());
    Refuse(worker);
  }

  Harness harness_;
  std::vector<FakeWorker> workers_;
  std::vector<proto::LeaseGrant> grants_;
  int64_t pid_ = 5000;
};

TEST_F(BadDataTest, AWorkerThatCantComputeHasFailedThoughItDidSteps) {
  Step(0);
  Refuse(0);
  const proto::JobStatus status = harness_.status();
  const auto row =
      std::ranges::find(status.workers, proto::WorkerRowState::kFailed, &proto::WorkerRow::state);
  ASSERT_NE(row, status.workers.end());
  EXPECT_EQ(row->reason, kBadValue);
  EXPECT_EQ(row->samples_counted, 10U);
  EXPECT_EQ(status.revocations_unnoticed, 0U) << "nobody took it away";
  EXPECT_EQ(status.ledger[0].samples_returned, 10U) << "the rest of its lease goes to another one";
  EXPECT_EQ(status.state, proto::RunState::kTraining);
}

TEST_F(BadDataTest, TheRunEndsWhenMostWorkersEndAtOnePlaceOfTheData) {
  Step(0);
  Refuse(0);
  FailAgain(0);
  FailAgain(0);
  EXPECT_EQ(harness_.status().state, proto::RunState::kTraining) << "its copy may be damaged";
  Step(1);
  Refuse(1);
  EXPECT_EQ(harness_.status().state, proto::RunState::kFailed);
  EXPECT_THAT(
      harness_.status().detail,
      AllOf(
          HasSubstr(std::string("the data can't be trained on: ") + kBadValue + "; mend it"),
          HasSubstr("psctl check, and resume")));
  EXPECT_EQ(harness_.status().samples_counted, 20U);
}

TEST_F(BadDataTest, OneMachinesDamagedCopyEndsNoRun) {
  Refuse(0);
  for (int i = 0; i < 10; ++i) {
    FailAgain(0);
  }
  EXPECT_EQ(harness_.status().state, proto::RunState::kTraining);
}

TEST_F(BadDataTest, ADiskThatCantBeReadForAWhileEndsNoRun) {
  Refuse(0, StatusCode::kIo);
  Refuse(1, StatusCode::kIo);
  Refuse(2, StatusCode::kIo);
  EXPECT_EQ(harness_.status().state, proto::RunState::kWaiting);
}

TEST(BadDataWatchTest, ForgetsThePlacesThatWereToldOfLongAgo) {
  BadDataWatch watch;
  watch.Note(WorkerId(0), "first");
  watch.Note(WorkerId(1), "first");
  for (int i = 0; i < 100; ++i) {
    watch.Note(WorkerId(0), std::to_string(i));
  }
  watch.Note(WorkerId(2), "first");
  EXPECT_EQ(watch.FoundByMost(3), "");
  watch.Note(WorkerId(0), "first");
  watch.Note(WorkerId(1), "first");
  EXPECT_EQ(watch.FoundByMost(3), "first");
  EXPECT_EQ(watch.FoundByMost(6), "") << "three of six seats are not most";
}

TEST_F(DataTest, AReplacementIsComparedAfterARestartOfTheCoordinatorToo) {
  for (size_t i = 0; i < workers_.size(); ++i) {
    Ask(i, SmallData());
  }
  harness_.Restart();
  for (FakeWorker& worker : workers_) {
    harness_.Reconnect(&worker);
  }
  workers_.push_back(harness_.Join(std::nullopt, 4321));
  proto::DatasetFingerprint other = SmallData();
  other.test_labels_crc = 1;
  Ask(3, other);
  EXPECT_THAT(RefusalOf(3), HasSubstr("its data is not that of worker 0"));
}

}  // namespace
}  // namespace ps::coordinator
