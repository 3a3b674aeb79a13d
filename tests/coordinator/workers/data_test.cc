#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
