#include <gtest/gtest.h>

#include <algorithm>

#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

class SspTest : public ::testing::Test {
 protected:
  SspTest() : harness_(Options()) { workers_ = harness_.StartWithWorkers(); }

  static CoordinatorOptions Options() {
    CoordinatorOptions options = SmallJob(proto::Mode::kSsp);
    options.config.workers = {{2, 0, 1, 1}};
    options.train_samples = 40;
    options.test_samples = 100;
    return options;
  }

  bool IsActive(const FakeWorker& worker) const {
    const auto& members = harness_.shards[0].membership.members;
    const auto it = std::find_if(members.begin(), members.end(), [&](const auto& member) {
      return member.incarnation == worker.incarnation;
    });
    return it != members.end() && it->is_active;
  }

  Harness harness_;
  std::vector<FakeWorker> workers_;
};

TEST_F(SspTest, AMemberIsActiveFromItsFirstLeaseOn) {
  EXPECT_FALSE(IsActive(workers_[0])) << "it may be loading data";
  EXPECT_NE(harness_.AskAll(&workers_)[0].lease, LeaseId());
  EXPECT_TRUE(IsActive(workers_[0]));
  EXPECT_TRUE(IsActive(workers_[1]));
}

TEST_F(SspTest, TheLeaseWaitsUntilEveryShardKnowsThatItIsActive) {
  harness_.shards[1].is_mute = true;
  EXPECT_EQ(harness_.AskAll(&workers_)[0].lease, LeaseId());
  const proto::JobStatus status = harness_.status();
  const bool is_told = std::any_of(status.waits.begin(), status.waits.end(), [](const auto& wait) {
    return wait.who == "w0" && wait.for_whom == "shard 1";
  });
  EXPECT_TRUE(is_told);
  harness_.Unmute(1);
  EXPECT_TRUE(harness_.TakeGrant(&workers_[0]).has_value());
}

TEST_F(SspTest, AnIdleMemberHoldsNobody) {
  std::optional<proto::LeaseGrant> grant = harness_.AskAll(&workers_)[0];
  while (grant) {
    harness_.Work(&workers_[0], *grant);
    grant = harness_.Ask(&workers_[0]);
  }
  EXPECT_FALSE(IsActive(workers_[0])) << "worker 1 has the rest of the samples";
  EXPECT_TRUE(IsActive(workers_[1]));
  harness_.Exit(ProcessKind::kWorker, 1, 1001, "killed by signal 9");
  EXPECT_TRUE(IsActive(workers_[0])) << "there is work again";
  EXPECT_TRUE(harness_.TakeGrant(&workers_[0]).has_value());
}

TEST_F(SspTest, AMemberThatEvaluatesHoldsNobody) {
  std::optional<proto::LeaseGrant> grant = harness_.AskAll(&workers_)[0];
  harness_.Exit(ProcessKind::kWorker, 1, 1001, "killed by signal 9");
  while (grant && grant->kind == proto::LeaseKind::kTrain) {
    harness_.Work(&workers_[0], *grant);
    grant = harness_.Ask(&workers_[0]);
  }
  ASSERT_TRUE(grant.has_value());
  EXPECT_FALSE(IsActive(workers_[0]));
}

}  // namespace
}  // namespace ps::coordinator
