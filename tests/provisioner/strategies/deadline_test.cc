// The deadline policy over recorded counts of machines that come and go.

#include "provisioner/strategies/deadline.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "ps/base/random.h"
#include "tests/provisioner/strategies/deadline_replay.h"
#include "tests/provisioner/strategies/trace_counts.h"

namespace ps::provisioner {
namespace {

TEST(DeadlineTest, IsMetWhateverBecomesOfSpotMachines) {
  Random random(3);
  for (int run = 0; run < 2000; ++run) {
    const double stay = random.Unit();
    std::vector<bool> has_spot = {random.Chance(0.5)};
    for (int tick = 1; tick < 400; ++tick) {
      has_spot.push_back(random.Chance(stay) ? has_spot.back() : random.Chance(0.5));
    }
    const double work_s = 600 + random.Unit() * 10'000;
    const DeadlineJob job = ReplayedJob(work_s, work_s + 360 + random.Unit() * 10'000);
    ASSERT_TRUE(IsDeadlineReachable(job));
    EXPECT_LE(ReplayDeadline(job, has_spot).end_s, job.deadline_s) << run;
  }
}

TEST(DeadlineTest, AnUnreachableOneIsKnownAtTheStart) {
  EXPECT_FALSE(IsDeadlineReachable(ReplayedJob(3600, 3600)));
  EXPECT_FALSE(IsDeadlineReachable(ReplayedJob(3600, 3959)));
  EXPECT_TRUE(IsDeadlineReachable(ReplayedJob(3600, 3960)));
}

TEST(DeadlineTest, WithSpotAllTheTimeNothingIsRentedOnDemand) {
  const DeadlineReplay replay = ReplayDeadline(ReplayedJob(7200, 9000), {true});
  EXPECT_EQ(replay.on_demand_s, 0);
  EXPECT_EQ(ReplayDeadline(ReplayedJob(7200, 9000), {false}).spot_s, 0);
}

TEST(DeadlineTest, MachinesOnDemandThatWorkAreKeptUntilSpotIsBack) {
  const DeadlineJob job = ReplayedJob(7200, 9000);
  DeadlineState state = {.now_s = 1000, .work_left_s = 6000};  // even would be 6,400
  EXPECT_EQ(DecideByDeadline(job, state), DeadlineChoice::kNothing) << "ahead";
  state.running = DeadlineChoice::kOnDemand;
  EXPECT_EQ(DecideByDeadline(job, state), DeadlineChoice::kOnDemand);
  state.has_spot = true;
  EXPECT_EQ(DecideByDeadline(job, state), DeadlineChoice::kSpot);
}

/// Jobs of 3 hours that begin every 20 minutes and need so many machines at once, with 30 % more
/// time than they need. Spot at three tenths of the price on demand.
TEST(DeadlineTest, OnRecordedTracesItIsMetAndSaves) {
  struct Row {
    const char* trace;
    double unit_s;
    uint32_t needed;
    double saving_percent;
  };

  const Row rows[] = {
      {"tests/data/parcae/p3.csv", 0.001, 20, 54.8},
      {"tests/data/parcae/p3.csv", 0.001, 24, 31.8},
      {"tests/data/parcae/p3.csv", 0.001, 28, 16.9},
      {"tests/data/bamboo/g4dn_us-east-1c.csv", 1, 6, 48.1},
      {"tests/data/bamboo/g4dn_us-east-1d.csv", 1, 6, 1.5},
      {"tests/data/bamboo/p2_hours.csv", 3600, 16, 55.9}};
  for (const Row& row : rows) {
    const std::vector<uint32_t> counts = MinutesOfTrace(row.trace, row.unit_s);
    ASSERT_GT(counts.size(), 600U);
    const DeadlineReplays replays = ReplayDeadlines(counts, row.needed, 3, 20);
    EXPECT_GT(replays.jobs, 20);
    EXPECT_EQ(replays.met, replays.jobs) << row.trace << ", " << row.needed;
    EXPECT_NEAR(100 * replays.saving, row.saving_percent, 0.1) << row.trace << ", " << row.needed;
  }
}

}  // namespace
}  // namespace ps::provisioner
