#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class NoticeTest : public ::testing::Test {
 protected:
  NoticeTest() : workers_(harness_.StartWithWorkers()), grants_(harness_.AskAll(&workers_)) {}

  void Notify(uint32_t worker, uint32_t grace_ms) {
    harness_.Give(control_, proto::NoticeRequest{WorkerId(worker), grace_ms});
  }

  void ExpectRefused(uint32_t worker, uint32_t grace_ms, StatusCode code, const char* text) {
    Notify(worker, grace_ms);
    const auto refusal = harness_.Take<proto::Refusal>(control_);
    ASSERT_TRUE(refusal.has_value());
    EXPECT_EQ(refusal->code, code);
    EXPECT_THAT(refusal->message, HasSubstr(text));
    EXPECT_FALSE(harness_.Take<proto::NoticeReply>(control_).has_value());
  }

  /// As a worker does that has heard of its notice.
  void Leave(size_t worker) {
    harness_.Give(
        workers_[worker].peer, proto::Goodbye{workers_[worker].incarnation, "notice", {}});
  }

  Harness harness_;
  std::vector<FakeWorker> workers_;
  std::vector<proto::LeaseGrant> grants_;
  const proto::PeerId control_ = harness_.Connect(proto::Role::kControl);
};

TEST_F(NoticeTest, TheWorkerAloneIsToldAndLeavesWithNotice) {
  Notify(1, 10'000);
  const auto reply = harness_.Take<proto::NoticeReply>(control_);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->grace_ms, 10'000U);
  const auto drain = harness_.Take<proto::Drain>(workers_[1].peer);
  ASSERT_TRUE(drain.has_value());
  EXPECT_EQ(drain->grace_ms, 10'000U);
  EXPECT_FALSE(harness_.Take<proto::Drain>(workers_[0].peer).has_value());
  Leave(1);
  EXPECT_EQ(harness_.status().revocations_noticed, 1U);
  harness_.Wait(std::chrono::seconds(11), {workers_[0], workers_[2]});
  EXPECT_TRUE(harness_.fleet.kills.empty()) << "it left in time";
}

TEST_F(NoticeTest, AWorkerThatStaysIsKilledWhenTheGraceIsOver) {
  Notify(1, 1500);
  harness_.Wait(milliseconds(1400), workers_);
  EXPECT_TRUE(harness_.fleet.kills.empty());
  harness_.Wait(milliseconds(200), workers_);
  EXPECT_EQ(harness_.fleet.kills, std::vector<WorkerId>{WorkerId(1)});
}

TEST_F(NoticeTest, AWorkerIsToldAgainUntilItDrains) {
  Notify(2, 10'000);
  ASSERT_TRUE(harness_.Take<proto::Drain>(workers_[2].peer).has_value());
  harness_.Wait(std::chrono::seconds(1), workers_);  // its heartbeats say that it computes
  const auto again = harness_.Take<proto::Drain>(workers_[2].peer);
  ASSERT_TRUE(again.has_value());
  EXPECT_LT(again->grace_ms, 10'000U) << "the time goes on";

  proto::WorkerHeartbeat beat;
  beat.incarnation = workers_[2].incarnation;
  beat.state = proto::WorkerState::kDraining;
  harness_.Give(workers_[2].peer, beat);
  while (harness_.Take<proto::Drain>(workers_[2].peer).has_value()) {
  }
  harness_.Wait(std::chrono::seconds(3), workers_);
  EXPECT_FALSE(harness_.Take<proto::Drain>(workers_[2].peer).has_value());
}

TEST_F(NoticeTest, AWorkerThatWasAwayIsToldOnItsNewConnection) {
  harness_.core->OnPeerClosed(workers_[0].peer, harness_.now, harness_.out());
  Notify(0, 10'000);
  EXPECT_TRUE(harness_.Take<proto::NoticeReply>(control_).has_value());
  harness_.Reconnect(&workers_[0]);
  harness_.Wait(std::chrono::seconds(2), workers_);
  EXPECT_TRUE(harness_.Take<proto::Drain>(workers_[0].peer).has_value());
}

TEST_F(NoticeTest, ASecondNoticeCanOnlyShortenTheGrace) {
  Notify(0, 5000);
  ASSERT_TRUE(harness_.Take<proto::NoticeReply>(control_).has_value());
  Notify(0, 60'000);
  EXPECT_EQ(harness_.Take<proto::NoticeReply>(control_)->grace_ms, 5000U);
  Notify(0, 1000);
  EXPECT_EQ(harness_.Take<proto::NoticeReply>(control_)->grace_ms, 1000U);
  harness_.Wait(milliseconds(1200), workers_);
  EXPECT_EQ(harness_.fleet.kills, std::vector<WorkerId>{WorkerId(0)});
}

TEST_F(NoticeTest, WhoIsNotThereIsNamedWithThoseWhoAre) {
  ExpectRefused(7, 1000, StatusCode::kNotFound, "there is no worker 7; these take part: 0, 1, 2");
  Notify(1, 5000);
  Leave(1);
  ASSERT_TRUE(harness_.Take<proto::NoticeReply>(control_).has_value());
  ExpectRefused(
      1,
      1000,
      StatusCode::kNotFound,
      "worker 1 takes part no more (notice); these take part: 0, 2");
}

TEST_F(NoticeTest, AGraceOverAnHourIsRefused) {
  ExpectRefused(1, 3'600'001, StatusCode::kInvalidArgument, "at most one hour");
  EXPECT_FALSE(harness_.Take<proto::Drain>(workers_[1].peer).has_value());
}

TEST_F(NoticeTest, ARunThatIsEndingTakesNone) {
  harness_.core->RequestStop(false, "enough", harness_.now, harness_.out());
  ExpectRefused(1, 1000, StatusCode::kInvalidArgument, "the run is ending");
}

TEST_F(NoticeTest, AWorkerCanNotGiveOne) {
  harness_.Give(workers_[0].peer, proto::NoticeRequest{WorkerId(1), 1000});
  EXPECT_TRUE(harness_.Take<proto::Refusal>(workers_[0].peer).has_value());
  EXPECT_FALSE(harness_.Take<proto::Drain>(workers_[1].peer).has_value());
}

TEST(PlannedNoticeTest, AWorkerThatHasNotJoinedIsToldWhenItHas) {
  CoordinatorOptions options = SmallJob();
  options.config.faults.resize(2);
  options.config.faults[0] = {0.05F, proto::FaultKind::kAdd, 0, 0, {1, 0, 1, 1}};
  options.config.faults[1] = {0.05F, proto::FaultKind::kNotice, 3, 5, {}};
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.Work(&workers[0], harness.AskAll(&workers)[0]);
  ASSERT_EQ(harness.fleet.workers.size(), 4U);
  harness.Wait(std::chrono::seconds(1), workers);
  workers.push_back(harness.Join(3, 4321));
  harness.Wait(std::chrono::seconds(1), workers);
  const auto drain = harness.Take<proto::Drain>(workers[3].peer);
  ASSERT_TRUE(drain.has_value());
  EXPECT_LE(drain->grace_ms, 4000U);
}

}  // namespace
}  // namespace ps::coordinator
