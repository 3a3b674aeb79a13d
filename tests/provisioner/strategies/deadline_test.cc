// The deadline policy over the counts of p3.csv: machines of its first hours come and go.

#include "provisioner/strategies/deadline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "ps/base/random.h"
#include "tests/provisioner/strategies/trace_counts.h"

namespace ps::provisioner {
namespace {

constexpr double kTick = 60;

struct DeadlineReplay {
  double end_s = 0;
  double on_demand_s = 0;
  double spot_s = 0;
};

/// One gang of machines that needs all of `has_spot`; a revocation undoes a changeover's work.
DeadlineReplay ReplayDeadline(const DeadlineJob& job, const std::vector<bool>& has_spot) {
  DeadlineReplay replay;
  DeadlineState state = {.work_left_s = job.work_s};
  double ready_s = 0;
  for (size_t tick = 0; state.work_left_s > 0; ++tick) {
    state.now_s = static_cast<double>(tick) * kTick;
    state.has_spot = has_spot[tick % has_spot.size()];
    if (state.running == DeadlineChoice::kSpot && !state.has_spot) {
      state.running = DeadlineChoice::kNothing;
    }
    const DeadlineChoice choice = DecideByDeadline(job, state);
    if (choice != state.running) {
      ready_s = state.now_s + job.changeover_s;
      state.running = choice;
    }
    if (choice == DeadlineChoice::kNothing) {
      continue;
    }
    const double begin_s = std::max(state.now_s, ready_s);
    const double end_s = state.now_s + kTick;
    const double worked_s = std::min(std::max(0.0, end_s - begin_s), state.work_left_s);
    state.work_left_s -= worked_s;
    replay.end_s = begin_s + worked_s;
    (choice == DeadlineChoice::kSpot ? replay.spot_s : replay.on_demand_s) += kTick;
  }
  return replay;
}

DeadlineJob JobOf(double work_s, double deadline_s) {
  return {.deadline_s = deadline_s, .work_s = work_s, .changeover_s = 150, .interval_s = kTick};
}

TEST(DeadlineTest, IsMetWhateverBecomesOfSpotMachines) {
  Random random(3);
  for (int run = 0; run < 2000; ++run) {
    const double stay = random.Unit();
    std::vector<bool> has_spot = {random.Chance(0.5)};
    for (int tick = 1; tick < 400; ++tick) {
      has_spot.push_back(random.Chance(stay) ? has_spot.back() : random.Chance(0.5));
    }
    const double work_s = 600 + random.Unit() * 10'000;
    const DeadlineJob job = JobOf(work_s, work_s + 360 + random.Unit() * 10'000);
    ASSERT_TRUE(IsDeadlineReachable(job));
    EXPECT_LE(ReplayDeadline(job, has_spot).end_s, job.deadline_s) << run;
  }
}

TEST(DeadlineTest, AnUnreachableOneIsKnownAtTheStart) {
  EXPECT_FALSE(IsDeadlineReachable(JobOf(3600, 3600)));
  EXPECT_FALSE(IsDeadlineReachable(JobOf(3600, 3959)));
  EXPECT_TRUE(IsDeadlineReachable(JobOf(3600, 3960)));
}

TEST(DeadlineTest, WithSpotAllTheTimeNothingIsRentedOnDemand) {
  const DeadlineReplay replay = ReplayDeadline(JobOf(7200, 9000), {true});
  EXPECT_EQ(replay.on_demand_s, 0);
  EXPECT_EQ(ReplayDeadline(JobOf(7200, 9000), {false}).spot_s, 0);
}

/// Jobs of 3 hours that begin every 20 minutes and need 20, 24 or 28 machines at once, with 30 %
/// more time than they need. Spot at three tenths of the price on demand.
TEST(DeadlineTest, OnARecordedTraceItIsMetAndSaves) {
  const std::vector<uint32_t> counts = MinutesOfP3();
  ASSERT_GT(counts.size(), 600U);
  const std::map<uint32_t, double> savings = {{20, 52.6}, {24, 22.2}, {28, 4.0}};
  for (const auto& [needed, saving_percent] : savings) {
    double usd = 0;
    double usd_on_demand = 0;
    for (size_t begin = 0; begin + 240 < counts.size(); begin += 20) {
      std::vector<bool> has_spot;
      for (size_t minute = begin; minute < counts.size(); ++minute) {
        has_spot.push_back(counts[minute] >= needed);
      }
      const DeadlineJob job = JobOf(3 * 3600, 3.9 * 3600);
      const DeadlineReplay replay = ReplayDeadline(job, has_spot);
      EXPECT_LE(replay.end_s, job.deadline_s) << needed << " from minute " << begin;
      usd += replay.spot_s * 0.3 + replay.on_demand_s;
      usd_on_demand += job.work_s + job.changeover_s;
    }
    EXPECT_NEAR(100 - 100 * usd / usd_on_demand, saving_percent, 0.1) << needed;
  }
}

}  // namespace
}  // namespace ps::provisioner
