// Policies on virtual time: by hand, by properties, and on the counts of p3.csv.

#include "provisioner/simulator/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "provisioner/simulator/spot_bound.h"
#include "ps/base/random.h"
#include "tests/provisioner/simulator/simulated_jobs.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;

SimulationResult RunPolicy(
    std::string_view name,
    const SimulatedJob& job,
    const std::vector<CapacityStep>& steps,
    double end_s,
    uint64_t seed = 1) {
  const std::vector<SpotMachine> machines = MachinesOf(steps, end_s, seed);
  if (name == kSpotBound) {
    const auto bound = SpotBound(job, machines, end_s);
    EXPECT_TRUE(bound.ok()) << bound.status();
    return *bound;
  }
  const auto policy = MakeFleetPolicy(name, job);
  EXPECT_TRUE(policy.ok()) << policy.status();
  const auto result = Simulate(job, machines, end_s, policy->get());
  EXPECT_TRUE(result.ok()) << result.status();
  return *result;
}

TEST(SimulationTest, WithoutEventsSamplesAreRateTimesTime) {
  for (const std::string_view name : {"reactive", "hold", "parcae", "standby", "oracle"}) {
    const SimulationResult result = RunPolicy(name, JobOfWorkers(4), {{0, 4}}, 3600);
    EXPECT_NEAR(result.samples, (3600 - 120) * 40, 1e-6) << name;
    EXPECT_NEAR(result.samples_ideal, 3600 * 40, 1e-6) << name;
    EXPECT_NEAR(result.usd, 4, 1e-9) << name;
    EXPECT_NEAR(result.idle_node_s, 4 * 120, 1e-6) << name;
    EXPECT_EQ(result.revocations, 0U) << name;
    EXPECT_FALSE(result.is_reached) << name;
  }
}

TEST(SimulationTest, ARevocationCostsAStepOfOneWorker) {
  const std::vector<CapacityStep> steps = {{0, 2}, {600, 1}, {900, 2}};
  const SimulationResult result = RunPolicy("reactive", JobOfWorkers(2), steps, 1800);
  // 480 s of two, 300 + 120 s of one, 780 s of two; 2 s of one are done again.
  EXPECT_NEAR(result.samples, 480 * 20 + 420 * 10 + 780 * 20 - 2 * 10, 1e-6);
  EXPECT_NEAR(result.usd, (1800.0 + 600 + 900) / 3600, 1e-9);
  EXPECT_NEAR(result.idle_node_s, 3 * 120, 1e-6);
  EXPECT_NEAR(result.lost_node_s, 2, 1e-9);
  EXPECT_EQ(result.revocations, 1U);
  EXPECT_EQ(result.starts, 3U);
  // The oracle leaves in time.
  const SimulationResult oracle = RunPolicy("oracle", JobOfWorkers(2), steps, 1800);
  EXPECT_NEAR(oracle.samples, result.samples + 2 * 10, 1e-6);
}

TEST(SimulationTest, AMachineThatGoesBeforeItWorksIsPaidForNothing) {
  const std::vector<CapacityStep> steps = {{0, 1}, {60, 0}};
  const SimulationResult reactive = RunPolicy("reactive", JobOfWorkers(1), steps, 600);
  EXPECT_EQ(reactive.samples, 0);
  EXPECT_NEAR(reactive.idle_node_s, 60, 1e-9);
  EXPECT_EQ(RunPolicy("oracle", JobOfWorkers(1), steps, 600).usd, 0);
}

TEST(SimulationTest, SparesTakeThePlaceOfTheLostAtOnce) {
  const std::vector<CapacityStep> steps = {{0, 3}, {600, 2}};
  const SimulationResult reactive = RunPolicy("reactive", JobOfWorkers(2), steps, 1800, 2);
  const SimulationResult standby = RunPolicy("standby", JobOfWorkers(2), steps, 1800, 2);
  EXPECT_NEAR(standby.samples, (1800 - 120) * 20, 2 * 10 + 1e-6);
  EXPECT_GT(standby.usd, reactive.usd);
}

TEST(SimulationTest, ASpareMachineIsTakenOnceTheLossIsNoticed) {
  const std::vector<CapacityStep> steps = {{0, 3}, {610, 2}};
  SimulatedJob job = JobOfWorkers(2);
  // The seed decides whether one that is held goes.
  uint64_t seed = 1;
  while (RunPolicy("reactive", job, steps, 1800, seed).revocations == 0) {
    ++seed;
  }
  const SimulationResult at_once = RunPolicy("reactive", job, steps, 1800, seed);
  job.detect_s = 30;
  const SimulationResult noticed = RunPolicy("reactive", job, steps, 1800, seed);
  EXPECT_NEAR(noticed.samples, at_once.samples - 30 * 10, 1e-6);
  EXPECT_NEAR(noticed.usd, at_once.usd - 30.0 / 3600, 1e-9);
}

TEST(SimulationTest, MachinesThatAddNothingAreNotTakenByPoliciesThatLookAhead) {
  SimulatedJob job = JobOfWorkers(8);
  for (size_t n = 4; n <= 8; ++n) {
    job.samples_per_s[n] = 40;  // the servers' link is full
  }
  const SimulationResult reactive = RunPolicy("reactive", job, {{0, 8}}, 3600);
  const SimulationResult hold = RunPolicy("hold", job, {{0, 8}}, 3600);
  EXPECT_NEAR(hold.samples, reactive.samples, 1e-6);
  EXPECT_NEAR(hold.usd, reactive.usd / 2, 1e-9);
}

/// As long as a machine that stays is worth its start, how long that takes changes nothing.
TEST(SimulationTest, PoliciesThatLookAheadLookBeyondTheStart) {
  for (const std::string_view name : {"hold", "parcae"}) {
    for (const double start_s : {0.0, 120.0, 720.0, 3600.0, 6 * 3600.0}) {
      SimulatedJob job = JobOfWorkers(4);
      job.start_s = start_s;
      const double end_s = 12 * 3600;
      const SimulationResult result = RunPolicy(name, job, {{0, 4}}, end_s);
      EXPECT_NEAR(result.samples, (end_s - start_s) * 40, 1e-6) << name << " " << start_s;
    }
    SimulatedJob job = JobOfWorkers(4);
    job.interval_s = 5;  // a start of 24 intervals
    EXPECT_NEAR(RunPolicy(name, job, {{0, 4}}, 3600).samples, (3600 - 120) * 40, 1e-6) << name;
  }
}

/// Spot machines come when progress on demand is far enough ahead for a change. All through it four
/// workers make steps.
TEST(SimulationTest, ADeadlinesMachinesOnDemandStayUntilSpotOnesWork) {
  SimulatedJob job = JobOfWorkers(4);
  job.samples_wanted = 40 * 7200;
  job.deadline_s = 3 * 3600;
  const SimulationResult result = RunPolicy("deadline", job, {{0, 0}, {3000, 4}}, job.deadline_s);
  EXPECT_TRUE(result.is_reached);
  uint32_t most = 0;
  for (const SimulationPoint& point : result.points) {
    EXPECT_GE(point.working, most) << "at " << point.at_s << " s";
    most = std::max(most, point.working);
  }
  EXPECT_EQ(most, 4U);
  // Eight are paid for as long as the change lasts.
  EXPECT_NEAR(result.seconds, 60 + 120 + 7200, 1e-6) << "from the first interval on";
  EXPECT_LT(result.usd, 4 * job.on_demand_usd_per_hour * result.seconds / 3600 * 0.65);
}

TEST(SimulationTest, PricesAndEgressArePaidAsTheyAreThen) {
  SimulatedJob job = JobOfWorkers(2);
  job.spot_prices = {{0, 1}, {1200, 4}, {1800, 2}};
  job.egress_usd_per_sample = 1e-5;
  const SimulationResult result = RunPolicy("reactive", job, {{0, 2}}, 3600);
  EXPECT_NEAR(result.egress_usd, (3600 - 120) * 20 * 1e-5, 1e-9);
  EXPECT_NEAR(result.usd, 2 * (1200 + 600 * 4 + 1800 * 2) / 3600.0 + result.egress_usd, 1e-9);
}

TEST(SimulationTest, AStartThatFailsIsPaidForAndTriedAgain) {
  SimulatedJob job = JobOfWorkers(1);
  job.launch_failures = 0.5;
  uint64_t tries = 0;
  uint64_t failures = 0;
  for (job.failure_seed = 1; job.failure_seed <= 400; ++job.failure_seed) {
    const SimulationResult result = RunPolicy("reactive", job, {{0, 1}}, 36'000);
    const auto failed = static_cast<double>(result.failed_starts);
    ASSERT_EQ(result.starts, result.failed_starts + 1);
    ASSERT_NEAR(result.samples, (36'000 - (failed + 1) * job.start_s) * 10, 1e-6);
    ASSERT_NEAR(result.usd, 10, 1e-9);
    ASSERT_NEAR(result.idle_node_s, (failed + 1) * job.start_s, 1e-6);
    tries += result.starts;
    failures += result.failed_starts;
    // Whoever asks for the machine meets the same fate.
    ASSERT_EQ(RunPolicy("standby", job, {{0, 1}}, 36'000).failed_starts, result.failed_starts);
  }
  EXPECT_NEAR(static_cast<double>(failures) / static_cast<double>(tries), 0.5, 0.06);
}

TEST(SimulationTest, ParcaeCountsOnWhatALossLeaves) {
  // A second worker adds little, but it is what is left if the other one's machine goes.
  SimulatedJob job = JobOfWorkers(32);
  for (size_t n = 2; n <= 32; ++n) {
    job.samples_per_s[n] = 10.3;
  }
  const auto most = [&](std::string_view policy, const std::vector<CapacityStep>& steps) {
    uint32_t working = 0;
    for (const SimulationPoint& point : RunPolicy(policy, job, steps, 660 * kMinuteS).points) {
      working = std::max(working, point.working);
    }
    return working;
  };
  EXPECT_EQ(most("hold", RecordedSteps(660)), 1U);
  EXPECT_GT(most("parcae", RecordedSteps(660)), 1U);
  EXPECT_EQ(most("parcae", {{0, 24}}), 1U);
}

TEST(SimulationTest, MachinesBeyondTheWorkersAreNoLossesToComeForParcae) {
  SimulatedJob job = JobOfWorkers(8);
  for (size_t n = 2; n <= 8; ++n) {
    job.samples_per_s[n] = 10.3;
  }
  EXPECT_NEAR(RunPolicy("parcae", job, {{0, 24}}, 7200).usd, 2, 1e-9);
}

TEST(SimulationTest, TheGoalEndsIt) {
  SimulatedJob job = JobOfWorkers(2);
  job.samples_wanted = 1000;
  const SimulationResult result = RunPolicy("reactive", job, {{0, 2}}, 3600);
  EXPECT_TRUE(result.is_reached);
  EXPECT_NEAR(result.seconds, 120 + 50, 1e-9);
  EXPECT_NEAR(result.samples, 1000, 1e-9);
}

TEST(SimulationTest, NoPolicyIsAheadOfTheOracle) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const double end_s = 12 * 3600;
    const std::vector<CapacityStep> steps = RandomSteps(seed, 32, end_s);
    SimulatedJob job = JobOfWorkers(seed % 2 == 0 ? 32 : 12);
    job.launch_failures = seed % 3 == 0 ? 0.2 : 0;
    job.samples_wanted = seed % 5 == 0 ? 1e6 : 0;
    const SimulationResult oracle = RunPolicy("oracle", job, steps, end_s, seed);
    EXPECT_EQ(oracle.revocations, 0U) << seed;
    EXPECT_LE(oracle.samples, oracle.samples_ideal * (1 + 1e-12)) << seed;
    for (const std::string_view name : {"reactive", "hold", "parcae", "standby"}) {
      const SimulationResult result = RunPolicy(name, job, steps, end_s, seed);
      EXPECT_LE(result.samples, oracle.samples * (1 + 1e-12)) << name << " " << seed;
      EXPECT_GE(result.seconds, oracle.seconds * (1 - 1e-12)) << name << " " << seed;
      EXPECT_GT(result.samples, 0) << name << " " << seed;
    }
  }
}

/// Three machines that could work from 120, 420 and 720 s on, the first one until 600 s.
TEST(SimulationTest, TheBoundIsTheWorkOfAllMachinesThatCouldWork) {
  SimulatedJob job = JobOfWorkers(2);
  job.spot_prices = {{0, 1}, {600, 2}};
  const std::vector<SpotMachine> machines = {{0, 600}, {300, 1e9}, {600, 1e9}};
  const auto bound = SpotBound(job, machines, 1200);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_NEAR(bound->samples, 10 * (480 + 780 + 480), 1e-6);
  EXPECT_NEAR(bound->idle_node_s, 3 * 120, 1e-6);
  EXPECT_NEAR(bound->usd, (600 + 300 + 2 * 600 * 2) / 3600.0, 1e-9);
  EXPECT_EQ(bound->starts, 3U);
  // With a step that is finished after the first one was taken back.
  EXPECT_NEAR(SpotBound(job, machines, 1200, 30)->samples, bound->samples + 10 * 30, 1e-6);
  job.samples_wanted = 10 * 480;
  const auto reached = SpotBound(job, machines, 1200);
  EXPECT_TRUE(reached->is_reached);
  EXPECT_NEAR(reached->seconds, 420 + 90, 1e-9) << "300 s of one, 90 s of two";
  job.samples_per_s = {0, 2, 1};
  EXPECT_FALSE(SpotBound(job, machines, 1200).ok());
}

TEST(SimulationTest, TheSameSeedGivesTheSameRun) {
  const std::vector<CapacityStep> steps = RandomSteps(5, 32, 36'000);
  for (const std::string_view name : FleetPolicyNames()) {
    SimulatedJob job = JobOfWorkers(16);
    job.samples_wanted = 16 * 10 * 18'000;
    job.deadline_s = 30'000;
    const SimulationResult a = RunPolicy(name, job, steps, 36'000, 7);
    const SimulationResult b = RunPolicy(name, job, steps, 36'000, 7);
    ASSERT_EQ(a.points.size(), b.points.size()) << name;
    for (size_t i = 0; i < a.points.size(); ++i) {
      ASSERT_EQ(a.points[i].at_s, b.points[i].at_s) << name;
      ASSERT_EQ(a.points[i].working, b.points[i].working) << name;
      ASSERT_EQ(a.points[i].samples, b.points[i].samples) << name;
    }
    EXPECT_EQ(a.usd, b.usd) << name;
  }
}

TEST(SimulationTest, TheDeadlineIsMetWhateverTheTrace) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Random random(seed);
    SimulatedJob job = JobOfWorkers(12);
    job.deadline_s = 3600 + random.Unit() * 20'000;
    job.samples_wanted = (job.deadline_s - 400) * 120 * (0.3 + 0.7 * random.Unit());
    const double end_s = 50'000;
    const SimulationResult result =
        RunPolicy("deadline", job, RandomSteps(seed, 24, end_s), end_s, seed);
    EXPECT_TRUE(result.is_reached) << seed;
    EXPECT_LE(result.seconds, job.deadline_s) << seed;
  }
}

TEST(SimulationTest, OnARecordedTraceTheDeadlineSavesMoney) {
  SimulatedJob job = JobOfWorkers(20);
  job.samples_wanted = 3 * 3600 * 200;
  job.deadline_s = 3 * 3600 * 1.3;
  job.on_demand_usd_per_hour = 1 / 0.3;
  const SimulationResult result = RunPolicy("deadline", job, RecordedSteps(660), 660 * kMinuteS);
  EXPECT_TRUE(result.is_reached);
  EXPECT_LE(result.seconds, job.deadline_s);
  const double on_demand_usd = 20 * (3 + job.start_s / 3600) / 0.3;
  EXPECT_LT(result.usd, 0.5 * on_demand_usd);
}

/// Beside ParcaeTraceTest. A worker's process takes part 0.24 s after its start
/// (docs/measurements/fleet.md), 30 s are a machine that starts from nothing.
TEST(SimulationTest, OnTheWholeTraceChangesCostAParameterServerLittle) {
  const auto run = [](std::string_view policy, double start_s) {
    SimulatedJob job = JobOfWorkers(32);
    job.start_s = start_s;
    if (policy == "deadline") {
      // What the spot machines of the trace make, but for a tenth.
      job.samples_wanted = 0.9 * 24.03 * 10 * 683 * kMinuteS;
      job.deadline_s = 683 * kMinuteS;
    }
    return RunPolicy(policy, job, RecordedSteps(683), 683 * kMinuteS);
  };
  const auto below = [&](std::string_view policy, double start_s) {
    const SimulationResult result = run(policy, start_s);
    return 100 * (1 - result.samples / result.samples_ideal);
  };
  EXPECT_NEAR(below("reactive", 0.24), 0.04, 0.02);
  for (const std::string_view name : {"reactive", "hold", "parcae", "standby"}) {
    EXPECT_NEAR(below(name, 30), 0.57, 0.05) << name;
  }
  EXPECT_NEAR(below("oracle", 30), 0.53, 0.05);
  const SimulationResult deadline = run("deadline", 30);
  EXPECT_TRUE(deadline.is_reached);
  EXPECT_NEAR(below("deadline", 30), -0.15, 0.03)
      << "others are rented where spot ones are missing";
}

TEST(SimulationTest, WhatAPolicyLacksIsSaid) {
  const auto error = [](std::string_view name, const SimulatedJob& job) {
    return std::string(MakeFleetPolicy(name, job).status().message());
  };
  SimulatedJob job = JobOfWorkers(2);
  EXPECT_THAT(error("reactiv", job), HasSubstr("did you mean 'reactive'?"));
  EXPECT_THAT(error("best", job), HasSubstr("there are reactive, hold"));
  EXPECT_THAT(error("deadline", job), HasSubstr("needs a goal"));
  job.samples_wanted = 20 * 3600;
  job.deadline_s = 3600;
  EXPECT_THAT(error("deadline", job), HasSubstr("can't promise 72000 samples within 1h 00m"));
  job.on_demand_usd_per_hour = 0;
  EXPECT_THAT(error("deadline", job), HasSubstr("needs a price on demand"));
  job.samples_per_s = {0, 20, 10};
  const auto policy = MakeFleetPolicy("reactive", job);
  EXPECT_THAT(
      std::string(Simulate(job, {}, 60, policy->get()).status().message()),
      HasSubstr("never fall"));
  const auto refused = [&](SimulatedJob wrong) {
    return std::string(Simulate(wrong, {}, 60, policy->get()).status().message());
  };
  job = JobOfWorkers(2);
  job.spot_prices = {{30, 1}};
  EXPECT_THAT(refused(job), HasSubstr("begin with the trace"));
  job.spot_prices = {{0, 1}, {30, -1}};
  EXPECT_THAT(refused(job), HasSubstr("0 or more"));
  job.spot_prices = {};
  job.launch_failures = 1;
  EXPECT_THAT(refused(job), HasSubstr("below 1"));
}

TEST(SimulationTest, WhoGoesIsDrawnOnce) {
  const std::vector<CapacityStep> steps = {{0, 3}, {10, 1}, {20, 2}};
  const std::vector<SpotMachine> machines = MachinesOf(steps, 30, 4);
  ASSERT_EQ(machines.size(), 4U);
  EXPECT_EQ(std::ranges::count(machines, 10.0, &SpotMachine::end_s), 2);
  EXPECT_EQ(machines.back().begin_s, 20);
  EXPECT_EQ(MachinesOf(steps, 30, 4), machines);
}

}  // namespace
}  // namespace ps::provisioner
