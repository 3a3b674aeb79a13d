// What bytes between workers and servers cost: each counts once, whoever restarts or goes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "ps/coordinator/meters/traffic_meter.h"
#include "tests/coordinator/checkpoint_fixture.h"

namespace ps::coordinator {
namespace {

constexpr uint64_t kGb = 1'000'000'000;

class TrafficTest : public CheckpointTest {
 protected:
  TrafficTest()
      : CheckpointTest([](CoordinatorOptions* options) {
          options->config.checkpoint.every_s = 60;
          options->config.traffic.server_zone = "us-east-1a";
          options->config.traffic.zone_usd_per_gb = 0.25F;
          options->config.traffic.egress_usd_per_gb = 0.5F;
        }) {
    harness_.fleet.zones = {
        {WorkerId(0), "us-east-1a"}, {WorkerId(1), "us-east-1b"}, {WorkerId(2), "us-west-2a"}};
  }

  /// It has moved so much since it joined.
  void Beat(size_t worker, uint64_t pushed, uint64_t pulled) {
    proto::WorkerHeartbeat beat;
    beat.incarnation = workers_[worker].incarnation;
    beat.state = proto::WorkerState::kComputing;
    beat.stats.bytes_pushed = pushed;
    beat.stats.bytes_pulled = pulled;
    harness_.Give(workers_[worker].peer, beat);
  }

  double usd() const { return harness_.status().traffic.usd; }
};

TEST_F(TrafficTest, BytesCostByTheZonesOfBothEnds) {
  Begin();
  Beat(0, 8 * kGb, 8 * kGb);
  EXPECT_EQ(usd(), 0) << "within the servers' zone";
  EXPECT_EQ(harness_.status().traffic.bytes, 0U);
  Beat(1, 4 * kGb, 8 * kGb);
  EXPECT_DOUBLE_EQ(usd(), 3);
  Beat(2, 1 * kGb, 3 * kGb);
  EXPECT_DOUBLE_EQ(usd(), 5);
  EXPECT_EQ(harness_.status().traffic.bytes, 16 * kGb);
  EXPECT_EQ(harness_.status().usd_spent, 0) << "machines are another figure";
  Beat(2, 1 * kGb, 3 * kGb);
  EXPECT_DOUBLE_EQ(usd(), 5) << "nothing more was moved";
  proto::WorkerStats last;
  last.bytes_pushed = 2 * kGb;
  harness_.Give(workers_[2].peer, proto::Goodbye{workers_[2].incarnation, "notice", last});
  EXPECT_DOUBLE_EQ(usd(), 5.5) << "and what it did before it left";
}

TEST(TrafficMeterTest, TheRateIsThatOfTheLastMinutes) {
  TrafficMeter meter;
  TimePoint now{std::chrono::seconds(1000)};
  EXPECT_EQ(meter.UsdPerHour(now), 0);
  double usd = 5;  // of an earlier coordinator
  meter.Note(usd, now);
  EXPECT_EQ(meter.UsdPerHour(now), 0);
  const auto pass = [&](int seconds, double usd_per_s) {
    for (int i = 0; i < seconds; ++i) {
      now += std::chrono::seconds(1);
      usd += usd_per_s;
      meter.Note(usd, now);
    }
  };
  pass(3, 0.5);
  EXPECT_NEAR(meter.UsdPerHour(now), 1800, 1e-6) << "of as much as there was";
  pass(600, 0.5);
  EXPECT_NEAR(meter.UsdPerHour(now), 1800, 1e-6);
  pass(120, 0.25);
  EXPECT_NEAR(meter.UsdPerHour(now), 900, 1e-6) << "what was before is forgotten";
  now += std::chrono::seconds(600);
  EXPECT_LT(meter.UsdPerHour(now), 200) << "nothing moves";
}

TEST_F(TrafficTest, ASuccessorCountsNoByteTwiceAndMissesNone) {
  Begin();
  Beat(1, 4 * kGb, 0);
  EXPECT_DOUBLE_EQ(usd(), 1);
  harness_.fleet.zones.clear();  // a launcher may not know them any more
  harness_.Restart(std::chrono::milliseconds(500));
  EXPECT_DOUBLE_EQ(usd(), 1);
  for (FakeWorker& worker : workers_) {
    harness_.Reconnect(&worker);
  }
  EXPECT_DOUBLE_EQ(usd(), 1);
  Beat(1, 4 * kGb, 0);
  EXPECT_DOUBLE_EQ(usd(), 1) << "that was counted";
  Beat(1, 8 * kGb, 0);
  EXPECT_DOUBLE_EQ(usd(), 2) << "and this came meanwhile";
  Beat(2, 4 * kGb, 0);
  EXPECT_DOUBLE_EQ(usd(), 3) << "a zone that nobody knows is another one of the region";
}

/// As the machines that it rents do: budget.usd of the resumed run is for both.
TEST_F(TrafficTest, ACheckpointHasItAndARunThatIsResumedCountsFromZero) {
  Begin();
  Beat(1, 4 * kGb, 0);
  ASSERT_TRUE(harness_.core->CheckpointNow(harness_.now, harness_.out()).ok());
  Wait(harness_.timing.tick * 2);
  ASSERT_FALSE(disk_.writes.empty());
  const Result<JobState> saved = proto::DecodeJobState(disk_.writes.back().manifest.job_state);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->traffic, (proto::TrafficRecord{4 * kGb, 0, 1}));
  CoordinatorOptions resumed = SmallJob();
  resumed.resume = ResumeFrom{*saved, 1};
  resumed.next_checkpoint = 2;
  EXPECT_EQ(MakeJobState(resumed).traffic, proto::TrafficRecord());
}

TEST_F(TrafficTest, AWorkerThatSaysNonsenseCostsNothing) {
  Begin();
  Beat(1, std::numeric_limits<uint64_t>::max(), 0);
  EXPECT_EQ(usd(), 0);
  Beat(1, 4 * kGb, 0);
  EXPECT_DOUBLE_EQ(usd(), 1);
}

}  // namespace
}  // namespace ps::coordinator
