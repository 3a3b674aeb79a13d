#include "provisioner/profile/run_profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/run/sample_status.h"

namespace ps::provisioner {
namespace {

using run::MakeStatus;
using run::MakeWorkerRow;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<TensorSpec> TensorsOfRun() {
  TensorSpec weight;
  weight.name = "w";
  weight.shape = {10, 25};
  return {weight};
}

/// Two workers, of 4 and 2 steps a second, seen 20 times a second.
class RunProfileTest : public ::testing::Test {
 protected:
  static RunProfiler Make() {
    proto::WorkerGroup slow;
    slow.type = "slow";
    return {"job", TensorsOfRun(), {proto::WorkerGroup{}, slow}};
  }

  static proto::WorkerRow Row(uint32_t seat, double elapsed_s, double steps_per_s) {
    proto::WorkerRow row = MakeWorkerRow(seat, seat + 1, proto::WorkerRowState::kComputing);
    const auto steps = static_cast<uint64_t>(elapsed_s * steps_per_s + 1e-9);
    row.minibatch = 32;
    row.samples_counted = steps * 32;
    row.stats = {};
    row.stats.steps = steps;
    row.stats.compute_s = static_cast<double>(steps) * 0.2;
    row.stats.wait_s = static_cast<double>(steps) * 0.01;
    row.stats.bytes_pushed = steps * 1000;
    row.stats.bytes_pulled = steps * 900;
    row.stats.steps_late = seat == 0 ? steps / 4 : steps;
    return row;
  }

  static proto::JobStatus At(double elapsed_s, int workers = 2) {
    proto::JobStatus status = MakeStatus();
    status.workers = {Row(0, elapsed_s, 4)};
    if (workers == 2) {
      status.workers.push_back(Row(1, elapsed_s, 2));
    }
    status.steps_counted = 0;
    status.samples_counted = 0;
    for (const proto::WorkerRow& row : status.workers) {
      status.steps_counted += row.stats.steps;
      status.samples_counted += row.samples_counted;
    }
    status.elapsed_s = elapsed_s;
    status.train_loss = 2 / (1 + elapsed_s);
    return status;
  }

  static void Watch(double from_s, double to_s, int workers, RunProfiler* profiler) {
    for (double at_s = from_s; at_s < to_s; at_s += 0.05) {
      profiler->Observe(At(at_s, workers));
    }
  }
};

TEST_F(RunProfileTest, AFleetsSpeedIsTheSumOfItsWorkersOwn) {
  RunProfiler profiler = Make();
  Watch(0, 10, 2, &profiler);
  const proto::JobProfile profile = profiler.Profile();
  ASSERT_EQ(profile.fleets.size(), 1U);
  EXPECT_THAT(profile.fleets[0].workers, ElementsAre("local", "slow"));
  EXPECT_NEAR(profile.fleets[0].steps_per_s, 6, 0.05);
  EXPECT_NEAR(profile.fleets[0].samples_per_s, 6 * 32, 2);
  EXPECT_NEAR(profile.fleets[0].seconds, 7.5, 0.2);
}

TEST_F(RunProfileTest, StepTimesAndBytesComeFromHeartbeats) {
  RunProfiler profiler = Make();
  Watch(0, 10, 2, &profiler);
  const proto::JobProfile profile = profiler.Profile();
  EXPECT_EQ(profile.parameter_bytes, 1000);
  EXPECT_NEAR(profile.push_bytes, 1000, 1e-9);
  EXPECT_NEAR(profile.pull_bytes, 900, 1e-9);
  ASSERT_EQ(profile.workers.size(), 2U);
  EXPECT_EQ(profile.workers[0].instance_type, "local");
  EXPECT_EQ(profile.workers[0].minibatch, 32);
  EXPECT_NEAR(profile.workers[0].compute_s, 0.2, 1e-9);
  EXPECT_NEAR(profile.workers[0].steps_measured, 38, 1) << "of 39, but the first";
  EXPECT_NEAR(profile.workers[1].steps_measured, 18, 1);
  EXPECT_EQ(profile.request_bytes_per_s, 0) << "two workers may have waited for each other";
}

/// Steps of 8 minibatches, each of which takes an eighth.
proto::TrainConfig WithEightLocalSteps(bool is_by_speed) {
  proto::TrainConfig train;
  train.local_steps = 8;
  train.local_steps_by_speed = is_by_speed;
  return train;
}

proto::JobStatus WithLocalSteps(proto::JobStatus status, uint64_t local_steps) {
  status.samples_counted *= local_steps;
  for (proto::WorkerRow& row : status.workers) {
    row.samples_counted *= local_steps;
    row.stats.samples = row.samples_counted;
  }
  return status;
}

TEST_F(RunProfileTest, OfStepsWithSeveralMinibatchesTheMinibatchesCount) {
  proto::WorkerGroup slow;
  slow.type = "slow";
  RunProfiler profiler(
      "job", TensorsOfRun(), {proto::WorkerGroup{}, slow}, WithEightLocalSteps(false));
  for (double at_s = 0; at_s < 10; at_s += 0.05) {
    profiler.Observe(WithLocalSteps(At(at_s), 8));
  }
  const proto::JobProfile profile = profiler.Profile();
  EXPECT_EQ(profile.local_steps, 8);
  EXPECT_NEAR(profile.push_bytes, 1000, 1e-9) << "of an exchange";
  ASSERT_EQ(profile.workers.size(), 2U);
  EXPECT_EQ(profile.workers[0].minibatch, 32);
  EXPECT_NEAR(profile.workers[0].compute_s, 0.2 / 8, 1e-9);
  EXPECT_NEAR(profile.workers[0].steps_measured, 38 * 8, 8);
  ASSERT_EQ(profile.fleets.size(), 1U);
  EXPECT_NEAR(profile.fleets[0].steps_per_s, 6 * 8, 0.5);
  ASSERT_GT(profile.losses.size(), 10U);
  EXPECT_NEAR(profile.losses.back().steps, 10 * 6 * 8, 24) << "a push of each";
  EXPECT_NEAR(profile.losses[0].batch_mean, 32, 0.5);
  EXPECT_NEAR(profile.losses[0].late, (0.25 + 1) / 2, 0.02);
}

TEST_F(RunProfileTest, WhereSlowWorkersExchangeSoonerNoFleetOfSeveralTellsItsSpeed) {
  for (const int workers : {1, 2}) {
    RunProfiler profiler("job", TensorsOfRun(), {}, WithEightLocalSteps(true));
    for (double at_s = 0; at_s < 10; at_s += 0.05) {
      profiler.Observe(WithLocalSteps(At(at_s, workers), 8));
    }
    EXPECT_EQ(profiler.Profile().fleets.size(), workers == 1 ? 1U : 0U);
  }
}

// On a thin link heartbeats come between computing and the end of the push.
TEST_F(RunProfileTest, AnExchangeOfManyHeartbeatsIsTimedWhole) {
  RunProfiler profiler = Make();
  for (double at_s = 0; at_s < 40; at_s += 0.05) {
    proto::JobStatus status = At(at_s, 1);
    proto::WorkerRow& row = status.workers[0];
    const auto steps = static_cast<uint64_t>(at_s / 2);
    const auto computed = static_cast<uint64_t>((at_s + 1.5) / 2);
    row.samples_counted = steps * 32;
    row.stats.steps = steps;
    row.stats.compute_s = static_cast<double>(computed) * 0.2;
    row.stats.bytes_pushed = static_cast<uint64_t>(at_s / 2 * 1000);
    profiler.Observe(status);
  }
  const proto::JobProfile profile = profiler.Profile();
  ASSERT_EQ(profile.workers.size(), 1U);
  EXPECT_NEAR(profile.workers[0].compute_s, 0.2, 1e-9);
  EXPECT_NEAR(profile.push_bytes, 1000, 50);
}

TEST_F(RunProfileTest, TheLastStepsOfALostWorkerTellNoTimes) {
  RunProfiler profiler = Make();
  Watch(0, 10, 2, &profiler);
  proto::JobStatus status = At(10);
  status.workers[0].state = proto::WorkerRowState::kLost;
  status.workers[0].stats.steps += 5;  // counted, while times and bytes are those of a heartbeat
  profiler.Observe(status);
  const proto::JobProfile profile = profiler.Profile();
  EXPECT_NEAR(profile.workers[0].compute_s, 0.2, 1e-9);
  EXPECT_NEAR(profile.push_bytes, 1000, 1e-9);
}

TEST_F(RunProfileTest, AWorkerThatIsSlowedOtherwiseThanItsTypeTellsNothingOfIt) {
  proto::WorkerGroup slowed;
  slowed.slowdown = 2;
  RunProfiler profiler("job", TensorsOfRun(), {proto::WorkerGroup{}, slowed});
  Watch(0, 20, 2, &profiler);
  const proto::JobProfile profile = profiler.Profile();
  ASSERT_EQ(profile.workers.size(), 1U);
  EXPECT_NEAR(profile.workers[0].steps_measured, 78, 2) << "the first one's alone";
  EXPECT_THAT(profile.fleets, IsEmpty());
  EXPECT_GT(profile.losses.size(), 10U) << "a loss does not ask how fast its fleet was";
}

TEST_F(RunProfileTest, AWorkerAloneTellsTheBandwidthItTakes) {
  RunProfiler profiler = Make();
  Watch(0, 10, 1, &profiler);
  EXPECT_NEAR(profiler.Profile().request_bytes_per_s, 1900 / 0.01, 1);
}

TEST_F(RunProfileTest, ALossCurveHasItsFleetAndNoMoreThanOne) {
  RunProfiler profiler = Make();
  Watch(0, 20, 2, &profiler);
  const proto::JobProfile profile = profiler.Profile();
  ASSERT_GT(profile.losses.size(), 10U);
  EXPECT_NEAR(profile.losses[0].steps, 50, 3);
  EXPECT_EQ(profile.losses[0].workers, 2);
  EXPECT_NEAR(profile.losses[0].batch_mean, 32, 0.5);
  EXPECT_NEAR(profile.losses[0].heterogeneity, 0.471, 0.01);  // shares 2/3 and 1/3
  EXPECT_NEAR(profile.losses[0].late, (0.25 + 1) / 2, 0.01) << "of a worker, not of a step";
  Watch(20, 30, 1, &profiler);
  EXPECT_THAT(profiler.Profile().losses, IsEmpty());
  ASSERT_EQ(profiler.Profile().fleets.size(), 1U);
  EXPECT_NEAR(profiler.Profile().fleets[0].steps_per_s, 4, 0.05);
}

TEST_F(RunProfileTest, ACurveThatAnotherRunWouldNotMakeIsLeftOut) {
  RunProfiler profiler = Make();
  Watch(0, 20, 2, &profiler);
  const proto::JobProfile whole = profiler.Profile();
  ASSERT_FALSE(whole.losses.empty());
  const auto left_of = [&](const proto::JobConfig& config, bool goes_on) {
    proto::JobProfile profile = whole;
    LeaveOutOthersCurve(config, goes_on, &profile);
    EXPECT_EQ(profile.fleets.size(), whole.fleets.size()) << "a speed is a speed";
    return profile.losses.size();
  };
  proto::JobConfig config;
  config.workers = {{.count = 2}};
  config.train.lr_policy = proto::LrPolicy::kListed;
  EXPECT_EQ(left_of(config, false), whole.losses.size());
  EXPECT_EQ(left_of(config, true), 0U) << "other workers may have made its first steps";
  config.workers[0].count = 1;
  EXPECT_EQ(left_of(config, false), 0U) << "two workers with half of the rate each";
  config.train.mode = proto::Mode::kBsp;
  EXPECT_EQ(left_of(config, false), whole.losses.size()) << "a round has the whole rate";
  config.train.mode = proto::Mode::kAsync;
  config.train.lr_policy = proto::LrPolicy::kFixed;
  EXPECT_EQ(left_of(config, false), whole.losses.size());
}

TEST_F(RunProfileTest, WhereTheExchangeWasChangedOnlyMinibatchesAreTold) {
  proto::ExchangeConfig chosen;
  chosen.push = proto::kAutoWord;
  RunProfiler profiler("job", TensorsOfRun(), {}, {}, chosen);
  Watch(0, 10, 2, &profiler);
  EXPECT_EQ(profiler.Profile().push, "f32") << "what it begins with";
  EXPECT_EQ(profiler.Profile().fleets.size(), 1U);
  proto::JobStatus changed = At(10, 2);
  changed.steps.changes = 1;
  profiler.Observe(changed);
  Watch(11, 20, 2, &profiler);
  const proto::JobProfile profile = profiler.Profile();
  EXPECT_THAT(profile.fleets, IsEmpty());
  EXPECT_THAT(profile.losses, IsEmpty());
  EXPECT_EQ(profile.push_bytes, 0);
  EXPECT_EQ(profile.workers.size(), 1U) << "they are of one type";
}

TEST_F(RunProfileTest, ALongRunIsMeasuredLikeAShortOneAndKeepsNoMore) {
  RunProfiler profiler = Make();
  Watch(0, 400, 2, &profiler);
  const size_t kept = profiler.kept();
  Watch(400, 800, 2, &profiler);
  EXPECT_LT(profiler.kept(), kept + 50) << "points of the loss curve, which thin out";
  const proto::JobProfile profile = profiler.Profile();
  ASSERT_EQ(profile.fleets.size(), 1U);
  EXPECT_NEAR(profile.fleets[0].steps_per_s, 6, 0.01);
  EXPECT_NEAR(profile.fleets[0].seconds, 797, 0.2);
  ASSERT_EQ(profile.workers.size(), 2U);
  EXPECT_NEAR(profile.workers[0].compute_s, 0.2, 1e-6);
  EXPECT_GT(profile.workers[0].steps_measured, 3000) << "all, not only the newest";
}

TEST_F(RunProfileTest, OfWorkersThatComeAndGoTheNewestAreKept) {
  RunProfiler profiler = Make();
  size_t kept = 0;
  for (uint64_t life = 1; life <= 400; ++life) {
    for (double at_s = 0; at_s < 3; at_s += 0.25) {
      proto::JobStatus status = At(3 * static_cast<double>(life) + at_s, 1);
      status.workers.push_back(Row(1, at_s, 2));
      status.workers.back().incarnation = Incarnation(100 + life);
      profiler.Observe(status);
    }
    if (life == 200) {
      kept = profiler.kept();
    }
  }
  EXPECT_LT(profiler.kept(), kept + 50);
  const proto::JobProfile profile = profiler.Profile();
  ASSERT_EQ(profile.workers.size(), 2U);
  EXPECT_EQ(profile.workers[1].instance_type, "slow");
}

TEST_F(RunProfileTest, TooShortARunTellsNoSpeed) {
  RunProfiler profiler = Make();
  Watch(0, 0.6, 2, &profiler);
  EXPECT_THAT(profiler.Profile().fleets, IsEmpty());
  EXPECT_THAT(profiler.Profile().losses, IsEmpty());
}

}  // namespace
}  // namespace ps::provisioner
