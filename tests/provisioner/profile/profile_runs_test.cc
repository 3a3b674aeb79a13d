#include "provisioner/profile/profile_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

proto::JobConfig TwoGroupJob() {
  proto::JobConfig job;
  job.name = "job";
  job.train.minibatch = 64;
  job.faults.resize(1);
  proto::WorkerGroup small;
  small.minibatch = 16;
  small.threads = 2;
  job.workers = {small, proto::WorkerGroup{}};
  return job;
}

ProfileRun RunThatTells(bool tells_bandwidth, bool tells_fleet) {
  ProfileRun run;
  run.tells_bandwidth = tells_bandwidth;
  run.tells_fleet = tells_fleet;
  return run;
}

std::vector<int> MinibatchesOf(const std::vector<ProfileRun>& runs) {
  std::vector<int> sizes;
  for (const ProfileRun& run : runs) {
    sizes.push_back(static_cast<int>(run.config.workers.front().minibatch));
  }
  return sizes;
}

TEST(ProfileRunsTest, RunsOneAndTwoWorkersAndEachMinibatchUpToTheLargest) {
  const std::vector<ProfileRun> runs = PlanProfileRuns(TwoGroupJob(), "local", 10, 300);
  EXPECT_THAT(MinibatchesOf(runs), ElementsAre(64, 64, 64, 64, 16, 128, 256));
  EXPECT_TRUE(runs[0].tells_bandwidth);
  EXPECT_FALSE(runs[0].config.train.overlap);
  EXPECT_EQ(runs[2].config.workers.front().count, 2U);
  EXPECT_TRUE(runs[2].tells_fleet);
  EXPECT_EQ(runs[3].config.workers.at(1).slowdown, 2);
  for (const ProfileRun& run : runs) {
    EXPECT_TRUE(run.config.faults.empty());
    EXPECT_GT(run.config.run.seconds_max, 0);
    EXPECT_EQ(run.config.workers.front().type, "local");
    EXPECT_EQ(run.config.workers.front().threads, 2U);
  }
}

TEST(ProfileRunsTest, ALinkIsTimedWithSingleMinibatchesAndAllElseAsTheJobIs) {
  proto::JobConfig job = TwoGroupJob();
  job.train.local_steps = 8;
  job.train.overlap = false;
  job.outer.momentum = 0.5F;
  const std::vector<ProfileRun> runs = PlanProfileRuns(job, "local", 10, 64);
  EXPECT_EQ(runs[0].config.train.local_steps, 1U);
  EXPECT_EQ(runs[0].config.outer, proto::OuterConfig{}) << "it would be refused";
  for (size_t i = 1; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].config.train.local_steps, 8U) << runs[i].label;
  }
}

TEST(ProfileRunsTest, PenaltiesAreMeasuredByRunsThatDifferInTheirExchangeAlone) {
  proto::JobConfig job = TwoGroupJob();
  const auto runs = PlanPenaltyRuns(
      job,
      "local",
      {.compute_s = 0.1, .processors = 1, .seconds = 20},
      {{1, "f32", "f32"}, {8, "f32", "f32"}, {50, "int8", "bf16"}});
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_EQ(runs->size(), 3U);
  EXPECT_THAT((*runs)[1].label, HasSubstr("2 workers, 8 local steps"));
  EXPECT_THAT((*runs)[2].label, HasSubstr("2 workers, 50 local steps, push int8, pull bf16"));
  for (const ProfileRun& run : *runs) {
    EXPECT_EQ(run.config.train.seed, job.train.seed);
    EXPECT_EQ(run.config.run.seconds_max, runs->front().config.run.seconds_max);
    EXPECT_EQ(run.config.workers, runs->front().config.workers);
  }
  EXPECT_EQ(runs->back().config.train.local_steps, 50U);
  EXPECT_EQ(runs->back().config.exchange.push, "int8");
  EXPECT_EQ(runs->back().config.exchange.pull, "bf16");
  EXPECT_FALSE(runs->back().config.train.overlap);
  proto::JobProfile told;
  told.losses = {{.steps = 10, .loss = 2, .batch_mean = 64}};
  ASSERT_EQ(LossesBySamples(told).size(), 1U);
  EXPECT_EQ(LossesBySamples(told)[0].samples, 640);
}

TEST(ProfileRunsTest, EveryRunComputesOnTheDeviceOfTheJob) {
  proto::JobConfig job = TwoGroupJob();
  job.workers.front().device = "cuda:0,1";
  std::vector<ProfileRun> runs = PlanProfileRuns(job, "local", 10, 300);
  const std::vector<ProfileRun> curves = PlanCurveRuns(job, "local", {.compute_s = 0.1});
  runs.insert(runs.end(), curves.begin(), curves.end());
  for (const ProfileRun& run : runs) {
    for (const proto::WorkerGroup& worker : run.config.workers) {
      EXPECT_EQ(worker.device, "cuda:0,1") << run.label;
    }
  }
}

TEST(ProfileRunsTest, OnlyWorkersAloneOnTheCpuTellOfTheMemoryThatAMinibatchTakes) {
  const auto telling = [](const std::string& device) {
    proto::JobConfig job = TwoGroupJob();
    job.workers.front().device = device;
    std::vector<int> sizes;
    for (const ProfileRun& run : PlanProfileRuns(job, "local", 10, 300)) {
      if (run.tells_memory) {
        EXPECT_EQ(run.config.workers.size(), 1U) << run.label;
        EXPECT_EQ(run.config.workers.front().count, 1U) << run.label;
        sizes.push_back(static_cast<int>(run.config.workers.front().minibatch));
      }
    }
    return sizes;
  };
  EXPECT_THAT(telling("cpu"), ElementsAre(64, 64, 16, 128, 256));
  EXPECT_THAT(telling("cuda"), IsEmpty()) << "the host's memory says nothing of the device's";
  EXPECT_THAT(telling("auto"), IsEmpty());
}

TEST(ProfileRunsTest, OnlyLargerMinibatchesThanTheJobsMayFail) {
  std::vector<int> sizes;
  for (const ProfileRun& run : PlanProfileRuns(TwoGroupJob(), "local", 10, 300)) {
    if (run.may_fail) {
      sizes.push_back(static_cast<int>(run.config.workers.front().minibatch));
    }
  }
  EXPECT_THAT(sizes, ElementsAre(128, 256));
}

TEST(ProfileRunsTest, RunsAreOfThisMachineAloneWhateverTheJobSays) {
  proto::JobConfig job = TwoGroupJob();
  job.servers.launch = false;
  job.servers.port = 5000;
  for (const ProfileRun& run : PlanProfileRuns(job, "local", 10, 300)) {
    EXPECT_TRUE(run.config.servers.launch);
    EXPECT_EQ(run.config.servers.port, 0U);
  }
}

TEST(ProfileRunsTest, LossesAreThoseOfTheWholeJobsLearningRates) {
  proto::JobConfig job = TwoGroupJob();
  job.train.epochs = 7;
  job.optimizer.schedule.kind = proto::ScheduleKind::kCosine;
  job.optimizer.schedule.warmup = 0.1F;
  for (const ProfileRun& run : PlanProfileRuns(job, "local", 10, 300)) {
    EXPECT_EQ(run.config.train.epochs == 7, run.tells_fleet) << run.label;
    EXPECT_EQ(run.config.optimizer, job.optimizer);
  }
}

TEST(ProfileRunsTest, EachRunAddsWhatItIsFor) {
  proto::JobProfile told;
  told.push_bytes = 100;
  told.overlap = 1;
  told.request_bytes_per_s = 5e6;
  told.workers = {{"local", 64, 0.1, 0, 9, 0}};
  told.fleets.resize(1);
  told.fleets[0].workers = {"local"};
  told.losses.resize(3);
  proto::JobProfile profile;
  AddProfileRun(RunThatTells(true, false), told, &profile);
  EXPECT_EQ(profile.request_bytes_per_s, 5e6);
  EXPECT_TRUE(profile.fleets.empty());
  EXPECT_EQ(profile.overlap, 0) << "a worker that waits says nothing of overlap";
  told.request_bytes_per_s = 9e9;
  AddProfileRun(RunThatTells(false, true), told, &profile);
  EXPECT_EQ(profile.request_bytes_per_s, 5e6);
  EXPECT_EQ(profile.fleets.size(), 1U);
  EXPECT_TRUE(profile.losses.empty()) << "a short run's curve has not come far";
  EXPECT_EQ(profile.overlap, 1);
  EXPECT_EQ(profile.workers.size(), 1U);
  ProfileRun curve;
  curve.tells_losses = true;
  told.workers[0].compute_s = 0.7;
  AddProfileRun(curve, told, &profile);
  EXPECT_EQ(profile.losses.size(), 3U);
  EXPECT_EQ(profile.fleets.size(), 1U);
  EXPECT_EQ(profile.overlap, 1);
  EXPECT_EQ(profile.workers[0].compute_s, 0.1) << "steps of such runs may be stretched";
}

std::vector<ProfileRun> CurveRuns(const proto::JobConfig& job, int repeats = 1) {
  const CurveSettings settings{
      .compute_s = 0.1, .push_bytes = 1.5e6, .processors = 2, .seconds = 30, .repeats = repeats};
  return PlanCurveRuns(job, "local", settings);
}

TEST(ProfileRunsTest, CurvesAreThoseOfFleetsOfSeveralSizesThatTheMachineHolds) {
  proto::JobConfig job = TwoGroupJob();
  job.servers.link_mbit_per_s = 100;
  const std::vector<ProfileRun> runs = CurveRuns(job);
  std::vector<size_t> sizes;
  std::vector<size_t> hidden_sizes;
  for (const ProfileRun& run : runs) {
    const bool is_hidden = run.config.workers.front().link_mbit_per_s == 0;
    const size_t size = run.config.workers.size();
    (is_hidden ? hidden_sizes : sizes).push_back(size);
    EXPECT_TRUE(run.tells_losses);
    EXPECT_FALSE(run.tells_fleet);
    EXPECT_EQ(run.config.train.epochs, job.train.epochs) << "the job's learning rates";
    EXPECT_EQ(run.config.servers.link_mbit_per_s, 0);
    double load = 0;  // of the processors; two threads each
    double steps = 0;
    for (const proto::WorkerGroup& worker : run.config.workers) {
      load += 2 * 100 / worker.step_ms;
      steps += run.config.run.seconds_max * 1000 / worker.step_ms;
      EXPECT_EQ(worker.minibatch, 64U);
      // Each way in three quarters of a step.
      const double exchange_s = is_hidden ? 0 : 12 / worker.link_mbit_per_s;
      EXPECT_NEAR(exchange_s, is_hidden ? 0 : 0.00075 * worker.step_ms, 1e-6);
    }
    EXPECT_LE(load, 1.61);
    EXPECT_NEAR(steps, 300 * std::sqrt(size), 1);
  }
  EXPECT_THAT(sizes, ElementsAre(1, 2, 3, 4, 6, 8));
  EXPECT_THAT(hidden_sizes, ElementsAre(1, 2, 4));
  EXPECT_NE(runs.back().config.workers[0].step_ms, runs.back().config.workers[1].step_ms);
}

TEST(ProfileRunsTest, FleetsWhoseRunsDifferComeAgainWhenAllHaveCome) {
  const std::vector<ProfileRun> once = CurveRuns(TwoGroupJob(), 1);
  const std::vector<ProfileRun> runs = CurveRuns(TwoGroupJob(), 3);
  std::vector<size_t> sizes;
  for (const ProfileRun& run : runs) {
    sizes.push_back(run.config.workers.size());
    EXPECT_EQ(run.config.train.seed, TwoGroupJob().train.seed) << "as the run that will be planned";
  }
  EXPECT_THAT(sizes, ElementsAre(1, 1, 2, 2, 3, 4, 4, 6, 8, 2, 2, 3, 4, 4, 6, 2, 2, 3, 4, 4, 6));
  for (size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(runs[i].config, once[i].config);
  }
  EXPECT_EQ(runs.back().config, once[7].config);
}

TEST(ProfileRunsTest, TheLengthOfCurvesIsKnownBeforeAStepIs) {
  const std::vector<ProfileRun> runs = CurveRuns(TwoGroupJob(), 2);
  const std::vector<ProfileRun> unknown =
      PlanCurveRuns(TwoGroupJob(), "local", {.processors = 2, .seconds = 30, .repeats = 2});
  ASSERT_EQ(runs.size(), unknown.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].config.run.seconds_max, unknown[i].config.run.seconds_max);
  }
}

TEST(ProfileRunsTest, CurvesOfJobsThatWaitForTheirBytesHaveNoLinks) {
  proto::JobConfig job = TwoGroupJob();
  job.train.overlap = false;
  const std::vector<ProfileRun> runs = CurveRuns(job);
  EXPECT_EQ(runs.size(), 6U);
  EXPECT_EQ(CurveRuns(job, 2).size(), 10U);
  for (const ProfileRun& run : runs) {
    EXPECT_EQ(run.config.workers.front().link_mbit_per_s, 0) << run.label;
  }
}

TEST(ProfileRunsTest, CurvesKeepTheStepLengthThatTheJobGives) {
  proto::JobConfig job = TwoGroupJob();
  job.workers.front().step_ms = 100;
  EXPECT_EQ(CurveRuns(job).back().config.workers.front().step_ms, 100);
}

}  // namespace
}  // namespace ps::provisioner
