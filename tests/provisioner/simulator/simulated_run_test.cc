// Policies on virtual time with the production coordinator: by hand, by properties, and beside the
// simulation by rates.

#include "provisioner/simulator/simulated_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "provisioner/simulator/simulation.h"
#include "provisioner/simulator/spot_bound.h"
#include "tests/provisioner/simulator/simulated_jobs.h"

namespace ps::provisioner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TextSink final : public LogSink {
 public:
  void Write(LogLevel /*level*/, std::string_view line) override { text += line; }

  std::string text;
};

struct Judged {
  SimulationResult cores;
  SimulationResult rates;
  std::string log;
};

/// Steps are taken together where a test would last too long.
constexpr double kStepsMax = 40'000;

Judged Judge(
    std::string_view name,
    const SimulatedJob& job,
    const std::vector<CapacityStep>& steps,
    double end_s,
    uint64_t seed = 1,
    double steps_max = kStepsMax) {
  const std::vector<SpotMachine> machines = MachinesOf(steps, end_s, seed);
  TextSink log;
  const CoresOptions options = {.steps_max = steps_max, .seed = seed, .log = &log};
  auto policy = MakeFleetPolicy(name, job);
  EXPECT_TRUE(policy.ok()) << policy.status();
  const auto cores = SimulateWithCores(job, machines, end_s, policy->get(), options);
  EXPECT_TRUE(cores.ok()) << name << " " << cores.status() << "\n" << log.text.substr(0, 20'000);
  policy = MakeFleetPolicy(name, job);
  const auto rates = Simulate(job, machines, end_s, policy->get());
  EXPECT_TRUE(rates.ok()) << rates.status();
  return {cores.ok() ? *cores : SimulationResult(), *rates, log.text};
}

size_t CountOf(const std::string& text, const std::string& word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

TEST(SimulatedRunTest, WithoutEventsSamplesAreRateTimesTime) {
  for (const std::string_view name : {"reactive", "hold", "parcae", "standby"}) {
    const Judged judged = Judge(name, JobOfWorkers(4), {{0, 4}}, 3601);
    // The steps in hand at the end are not done.
    EXPECT_EQ(judged.cores.samples, 4 * std::floor((3601 - 120) / 2.0) * 20) << name;
    EXPECT_NEAR(judged.cores.usd, judged.rates.usd, 1e-9) << name;
    EXPECT_NEAR(judged.cores.idle_node_s, 4 * 120, 1e-6) << name;
    EXPECT_NEAR(judged.cores.samples_ideal, judged.rates.samples_ideal, 1e-6) << name;
    EXPECT_EQ(judged.cores.revocations, 0U) << name;
    EXPECT_FALSE(judged.cores.is_reached) << name;
  }
}

TEST(SimulatedRunTest, ARevocationUndoesTheStepInHandAlone) {
  const std::vector<CapacityStep> steps = {{0, 2}, {601, 1}, {900, 2}};
  const Judged judged = Judge("reactive", JobOfWorkers(2), steps, 1800);
  // The worker that goes has 240 steps and a half; the coordinator had no report of most of them.
  EXPECT_NEAR(judged.cores.lost_node_s, 1, 1e-6);
  EXPECT_EQ(
      judged.cores.samples,
      20 * (240 + std::floor((1800 - 120) / 2.0) + std::floor((1800 - 1020) / 2.0)));
  EXPECT_EQ(judged.cores.revocations, 1U);
  EXPECT_EQ(judged.cores.starts, 3U);
  EXPECT_NEAR(judged.cores.usd, judged.rates.usd, 1e-9);
  EXPECT_THAT(
      judged.log,
      AllOf(
          HasSubstr("event=training_begins"),
          HasSubstr("event=worker_lost"),
          HasSubstr("event=departure_resolved"),
          HasSubstr("event=fleet_start"),
          HasSubstr("event=scaled")));
}

TEST(SimulatedRunTest, ANoticeLosesNoStep) {
  SimulatedJob job = JobOfWorkers(2);
  job.notice_s = 120;
  const std::vector<CapacityStep> steps = {{0, 2}, {601, 1}, {900, 2}};
  const Judged judged = Judge("reactive", job, steps, 1800);
  EXPECT_EQ(judged.cores.lost_node_s, 0);
  EXPECT_EQ(judged.cores.revocations, 0U) << "its worker has left before the machine went";
  // It finishes its step at 602 s and leaves.
  EXPECT_EQ(
      judged.cores.samples,
      20 * (241 + std::floor((1800 - 120) / 2.0) + std::floor((1800 - 1020) / 2.0)));
  EXPECT_THAT(judged.log, AllOf(HasSubstr("event=worker_left"), Not(HasSubstr("worker_lost"))));
}

TEST(SimulatedRunTest, InRoundsEverybodyWaitsUntilALossIsTold) {
  SimulatedJob job = JobOfWorkers(4);
  job.mode = proto::Mode::kBsp;
  EXPECT_EQ(
      Judge("reactive", job, {{0, 4}}, 3601).cores.samples,
      4 * std::floor((3601 - 120) / 2.0) * 20);
  const std::vector<CapacityStep> steps = {{0, 4}, {601, 3}, {900, 4}};
  const Judged at_once = Judge("reactive", job, steps, 3601);
  EXPECT_NEAR(at_once.cores.lost_node_s, 1, 1e-6);
  job.detect_s = 30;
  const Judged told = Judge("reactive", job, steps, 3601);
  // The other three wait, but for the half of a step that they have left.
  EXPECT_NEAR(told.cores.samples, at_once.cores.samples - 3 * 30 * 10, 3 * 2 * 20);
  EXPECT_NEAR(told.cores.idle_node_s, at_once.cores.idle_node_s + 3 * 30, 3 * 2);
  job.mode = proto::Mode::kAsync;
  EXPECT_NEAR(Judge("reactive", job, steps, 3601).cores.samples, at_once.cores.samples, 3 * 2 * 20);
}

TEST(SimulatedRunTest, ASeatIsFilledOnceTheLossIsTold) {
  SimulatedJob job = JobOfWorkers(2);
  const std::vector<CapacityStep> steps = {{0, 3}, {611, 2}};
  uint64_t seed = 1;
  while (Judge("reactive", job, steps, 1800, seed).cores.revocations == 0) {
    ++seed;
  }
  const double at_once = Judge("reactive", job, steps, 1800, seed).cores.samples;
  job.detect_s = 30;
  const Judged told = Judge("reactive", job, steps, 1800, seed);
  EXPECT_NEAR(told.cores.samples, at_once - 30 * 10, 20);
  EXPECT_NEAR(told.cores.usd, told.rates.usd, 1e-9);
}

TEST(SimulatedRunTest, BothEnginesAgreeOnARecordedTrace) {
  for (const int workers : {32, 20}) {
    const SimulatedJob job = JobOfWorkers(workers);
    for (const std::string_view name : {"reactive", "hold", "parcae", "standby"}) {
      const Judged judged = Judge(name, job, RecordedSteps(360), 360 * kMinuteS, 3, 150'000);
      EXPECT_NEAR(judged.cores.samples / judged.rates.samples, 1, 0.003) << name << " " << workers;
      EXPECT_NEAR(judged.cores.usd / judged.rates.usd, 1, 0.003) << name << " " << workers;
      EXPECT_LE(judged.cores.samples, judged.cores.samples_ideal) << name << " " << workers;
      EXPECT_NEAR(judged.cores.samples_ideal, judged.rates.samples_ideal, 1) << name;
    }
  }
}

TEST(SimulatedRunTest, RevocationsOfAReactiveFleetAreThoseOfTheTrace) {
  const Judged judged =
      Judge("reactive", JobOfWorkers(32), RecordedSteps(360), 360 * kMinuteS, 3, 150'000);
  EXPECT_EQ(judged.cores.revocations, judged.rates.revocations);
  EXPECT_EQ(judged.cores.plans, judged.rates.plans);
  EXPECT_EQ(judged.cores.starts, judged.rates.starts);
  EXPECT_GT(judged.cores.revocations, 20U);
}

TEST(SimulatedRunTest, TheSameSeedGivesTheSameLogAndAnotherSeedAnother) {
  SimulatedJob job = JobOfWorkers(16);
  job.launch_failures = 0.1;
  job.samples_wanted = 16 * 10 * 9000;
  job.deadline_s = 16'000;
  const std::vector<CapacityStep> steps = RandomSteps(5, 32, 18'000);
  for (const std::string_view name : FleetPolicyNames()) {
    const Judged a = Judge(name, job, steps, 18'000, 7);
    const Judged b = Judge(name, job, steps, 18'000, 7);
    EXPECT_GT(CountOf(a.log, "\n"), 100U) << name;
    EXPECT_EQ(a.log, b.log) << name;
    EXPECT_EQ(a.cores.samples, b.cores.samples) << name;
    EXPECT_EQ(a.cores.usd, b.cores.usd) << name;
    EXPECT_EQ(a.cores.events, b.cores.events) << name;
    EXPECT_NE(a.log, Judge(name, job, steps, 18'000, 8).log) << name;
  }
}

TEST(SimulatedRunTest, AfterStartsThatFailTheFleetControllerTriesAgain) {
  SimulatedJob job = JobOfWorkers(4);
  job.launch_failures = 0.7;
  uint64_t failures = 0;
  bool is_left_out = false;
  for (job.failure_seed = 1; job.failure_seed <= 20; ++job.failure_seed) {
    const Judged judged = Judge("reactive", job, {{0, 4}}, 20'000, job.failure_seed);
    EXPECT_EQ(judged.cores.starts, judged.cores.failed_starts + 4) << job.failure_seed;
    EXPECT_GT(judged.cores.samples, 0) << job.failure_seed;
    failures += judged.cores.failed_starts;
    is_left_out = is_left_out || CountOf(judged.log, "event=type_left_out") > 0;
  }
  EXPECT_GT(failures, 60U);
  EXPECT_TRUE(is_left_out) << "three in a row, and the place is given time";
}

TEST(SimulatedRunTest, TheGoalEndsTheJob) {
  SimulatedJob job = JobOfWorkers(2);
  job.samples_wanted = 1010;
  const Judged judged = Judge("reactive", job, {{0, 2}}, 3600);
  EXPECT_TRUE(judged.cores.is_reached);
  EXPECT_EQ(judged.cores.samples, 1010);
  EXPECT_NEAR(judged.cores.seconds, 120 + 51, 1 + 1e-6);  // the last step is a half one
  EXPECT_THAT(judged.log, HasSubstr("event=epoch_complete"));
}

TEST(SimulatedRunTest, TheDeadlineIsMetWhateverTheTrace) {
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    Random random(seed);
    SimulatedJob job = JobOfWorkers(12);
    const double end_s = 30'000;
    job.lost_s = 2 * SimulatedStepSeconds(job, end_s, {.steps_max = kStepsMax});
    job.deadline_s = 3600 + random.Unit() * 16'000;
    job.samples_wanted = std::floor((job.deadline_s - 500) * 120 * (0.3 + 0.65 * random.Unit()));
    const Judged judged = Judge("deadline", job, RandomSteps(seed, 24, end_s), end_s, seed);
    EXPECT_TRUE(judged.cores.is_reached) << seed;
    EXPECT_LE(judged.cores.seconds, job.deadline_s) << seed;
  }
}

/// Steps of two seconds up to a minute, losses with and without a word, goals, speeds that grow by
/// less and by more than the workers.
TEST(SimulatedRunTest, NoPolicyIsAheadOfTheBound) {
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    SimulatedJob job = JobOfWorkers(seed % 2 == 0 ? 24 : 12);
    const double end_s = 18'000;
    job.step_samples = seed % 3 == 0 ? 600 : 100;
    job.notice_s = seed % 4 < 2 ? 120 : 0;
    job.samples_wanted = seed % 5 < 2 ? 400'000 : 0;
    for (double& rate : job.samples_per_s) {
      rate = seed % 3 == 1 ? 100 * std::sqrt(rate) : seed % 3 == 2 ? rate * rate / 100 : rate;
    }
    const std::vector<CapacityStep> steps = RandomSteps(seed, 24, end_s);
    const std::vector<SpotMachine> machines = MachinesOf(steps, end_s, seed);
    const double beyond_s =
        std::min(job.notice_s, LongestStepSeconds(job, end_s, {.steps_max = kStepsMax}));
    const auto bound = SpotBound(job, machines, end_s, beyond_s);
    ASSERT_TRUE(bound.ok()) << bound.status();
    for (const std::string_view name : {"reactive", "hold", "parcae", "standby"}) {
      const Judged judged = Judge(name, job, steps, end_s, seed);
      EXPECT_LE(judged.cores.samples, bound->samples * (1 + 1e-9)) << name << " " << seed;
      EXPECT_GE(judged.cores.seconds, bound->seconds * (1 - 1e-9)) << name << " " << seed;
      EXPECT_GT(judged.cores.samples, 0) << name << " " << seed;
    }
  }
}

TEST(SimulatedRunTest, ADeadlinesMachinesOnDemandStayUntilSpotOnesWork) {
  SimulatedJob job = JobOfWorkers(4);
  job.samples_wanted = 40 * 7200;
  job.deadline_s = 3 * 3600;
  const Judged judged = Judge("deadline", job, {{0, 0}, {3000, 4}}, job.deadline_s);
  EXPECT_TRUE(judged.cores.is_reached);
  uint32_t most = 0;
  for (const SimulationPoint& point : judged.cores.points) {
    // The last leases do not end at the same moment.
    if (point.samples < job.samples_wanted * 0.99) {
      EXPECT_GE(point.working, most) << "at " << point.at_s << " s";
      most = std::max(most, point.working);
    }
  }
  EXPECT_EQ(most, 4U);
  EXPECT_NEAR(judged.cores.usd / judged.rates.usd, 1, 0.02);
}

TEST(SimulatedRunTest, StepsTakenTogetherChangeLittle) {
  const SimulatedJob job = JobOfWorkers(16);
  const auto samples = [&](double steps_max) {
    return Judge("reactive", job, RecordedSteps(180), 180 * kMinuteS, 2, steps_max).cores.samples;
  };
  const double alone = samples(1e6);
  EXPECT_NEAR(samples(20'000) / alone, 1, 0.002);
}

TEST(SimulatedRunTest, TenThousandWorkersAreOneJob) {
  constexpr int kWorkers = 10'000;
  SimulatedJob job = JobOfWorkers(kWorkers);
  const Judged judged = Judge("reactive", job, {{0, kWorkers}, {400, 9'990}}, 600, 1, 30'000);
  EXPECT_EQ(judged.cores.revocations, 10U);
  EXPECT_EQ(judged.cores.starts, 10'000U);
  EXPECT_NEAR(judged.cores.samples / judged.rates.samples, 1, 0.3);  // of steps of 160 s
  EXPECT_GT(judged.cores.samples, 0);
}

TEST(SimulatedRunTest, WhatItLacksIsSaid) {
  SimulatedJob job = JobOfWorkers(2);
  const auto policy = MakeFleetPolicy("reactive", job);
  const auto refused = [&](const SimulatedJob& wrong, const CoresOptions& options = {}) {
    const auto result = SimulateWithCores(wrong, {}, 60, policy->get(), options);
    return std::string(result.status().message());
  };
  job.step_samples = 0;
  EXPECT_THAT(refused(job), HasSubstr("needs the samples of a worker's step"));
  job.step_samples = std::nan("");
  EXPECT_THAT(refused(job), HasSubstr("needs the samples of a worker's step"));
  EXPECT_THAT(refused(JobOfWorkers(2), {.steps_max = 0}), HasSubstr("one step at least"));
  EXPECT_THAT(refused(JobOfWorkers(14'001)), HasSubstr("at most 14000 workers"));
  job = JobOfWorkers(2);
  job.notice_s = -1;
  EXPECT_THAT(refused(job), HasSubstr("0 or more"));
}

}  // namespace
}  // namespace ps::provisioner
