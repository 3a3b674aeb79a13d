#include "provisioner/profile/profile_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "provisioner/profile/exchange_penalty.h"

namespace ps::provisioner {
namespace {

TEST(MergeProfilesTest, ANewerMeasurementReplacesAnEqualOneAndSpeedsAddUp) {
  proto::JobProfile older;
  older.push_bytes = 5;
  older.queue.samples = 7;
  older.workers = {{"local", 32, 0.2, 0, 10, 256}, {"local", 64, 0.4, 0, 10, 0}};
  older.fleets.resize(1);
  proto::JobProfile newer;
  newer.job = "job";
  newer.workers = {{"local", 32, 0.3, 0, 10, 0}, {"slow", 32, 0.5, 0, 10, 0}};
  newer.fleets.resize(2);
  const proto::JobProfile merged = MergeProfiles(older, newer);
  EXPECT_EQ(merged.job, "job");
  EXPECT_EQ(merged.push_bytes, 5) << "the newer one has none";
  EXPECT_EQ(merged.queue.samples, 7);
  EXPECT_EQ(merged.fleets.size(), 3U);
  ASSERT_EQ(merged.workers.size(), 3U);
  EXPECT_EQ(merged.workers[0].compute_s, 0.3);
  EXPECT_EQ(merged.workers[0].minibatch_max, 256);
}

TEST(MergeProfilesTest, FleetsAndLossesAreOfOneNumberOfLocalSteps) {
  proto::JobProfile single;
  single.workers = {{"local", 32, 0.2, 0, 10, 256}};
  proto::JobProfile several;
  several.local_steps = 8;
  several.workers = {{"local", 32, 0.3, 0, 10, 256}};
  several.fleets = {{.workers = {"local"}, .steps_per_s = 1}};
  several.losses = {{100, 2, 32, 0, 1}, {200, 1, 32, 0, 1}};
  const proto::JobProfile merged = MergeProfiles(single, several);
  EXPECT_EQ(merged.local_steps, 8) << "that of single minibatches has none of either";
  EXPECT_EQ(merged.fleets.size(), 1U);
  single.fleets.resize(2);
  const proto::JobProfile kept = MergeProfiles(several, single);
  EXPECT_EQ(kept.local_steps, 8);
  EXPECT_EQ(kept.fleets, several.fleets);
  EXPECT_EQ(kept.losses, several.losses);
  EXPECT_EQ(kept.workers[0].compute_s, 0.2) << "a minibatch is a minibatch";
}

TEST(MergeProfilesTest, ANewerPenaltyReplacesAnEqualOne) {
  proto::JobProfile older;
  older.penalties = {{8, "", "", "async", 1.1, 0}, {8, "f32", "", "bsp", 1.2, 0}};
  proto::JobProfile newer;
  newer.penalties = {
      {8, "", "f32", "bsp", 1.3, 0}, {50, "", "", "bsp", 1.4, 0}, {8, "int8", "", "bsp", 1.5, 0}};
  const proto::JobProfile merged = MergeProfiles(older, newer);
  ASSERT_EQ(merged.penalties.size(), 4U);
  EXPECT_EQ(PenaltyOf(merged, {8, "f32", "f32"}, "async"), 1.1);
  EXPECT_EQ(PenaltyOf(merged, {8, "f32", "f32"}, "bsp"), 1.3);
  EXPECT_EQ(PenaltyOf(merged, {50, "f32", "f32"}, "bsp"), 1.4);
  EXPECT_EQ(PenaltyOf(merged, {8, "int8", "f32"}, "bsp"), 1.5);
  EXPECT_EQ(PenaltyOf(merged, {50, "f32", "f32"}, "async"), std::nullopt);
}

TEST(MergeProfilesTest, ManyRunsOfOneFleetDoNotPushOutTheOthers) {
  proto::JobProfile all;
  proto::JobProfile alone;
  alone.fleets = {{.workers = {"a"}, .steps_per_s = 1}};
  alone.losses = {{100, 2, 32, 0, 1}, {200, 1, 32, 0, 1}};
  all = MergeProfiles(all, alone);
  for (int run = 0; run < 100; ++run) {
    proto::JobProfile daily;
    daily.fleets = {{.workers = {"a", "b"}, .steps_per_s = 100.0 + run}};
    daily.losses = {{100, 2, 32, 0, 2}, {200 + double{1} * run, 1, 32, 0, 2}};
    all = MergeProfiles(all, daily);
  }
  ASSERT_EQ(all.fleets.size(), 11U);
  EXPECT_EQ(all.fleets.front(), alone.fleets.front());
  EXPECT_EQ(all.fleets.back().steps_per_s, 199) << "the newest stay";
  ASSERT_EQ(all.losses.size(), 2U + 8 * 2);
  EXPECT_EQ(all.losses[0], alone.losses[0]);
  EXPECT_EQ(all.losses.back().steps, 299);
}

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kFree = 0.6;
constexpr double kCrowded = 0.97;

proto::JobProfile Known() {
  proto::JobProfile profile;
  profile.workers = {{"local", 32, 0.1, 0.01, 100, 256}, {"local", 64, 0.2, 0, 100, 0}};
  return profile;
}

/// A run of two workers whose step takes `step_s`.
proto::JobProfile Told(double step_s) {
  proto::JobProfile profile;
  profile.push_bytes = 1000;
  profile.request_bytes_per_s = 5;
  profile.workers = {{"local", 32, step_s, 0.01, 300, 0}};
  profile.fleets = {{.workers = {"local", "local"}, .steps_per_s = 2 / step_s, .seconds = 60}};
  for (int i = 0; i < 30; ++i) {
    profile.losses.push_back({100.0 + i, 2.0 - 0.01 * i, 32, 0.5, 2});
  }
  return profile;
}

TEST(RefinementTest, StepTimesAreAveragedOverTheirSteps) {
  const Refinement refinement = RefinementBy(Known(), Told(0.12), kFree);
  ASSERT_EQ(refinement.part.workers.size(), 1U);
  EXPECT_NEAR(refinement.part.workers[0].compute_s, 0.115, 1e-12);
  EXPECT_NEAR(refinement.part.workers[0].compute_stddev_s, 0.01, 1e-12);
  EXPECT_EQ(refinement.part.workers[0].steps_measured, 400);
  EXPECT_EQ(refinement.part.fleets.size(), 1U);
  EXPECT_EQ(refinement.part.losses.size(), 30U);
  EXPECT_EQ(refinement.part.request_bytes_per_s, 0) << "steps hid the bytes";
  EXPECT_THAT(
      refinement.learnt,
      ElementsAre(
          "the bytes of a step",
          "step times",
          "the speed of 2 workers",
          "a loss curve of 2 workers"));
  EXPECT_THAT(refinement.left_out, IsEmpty());
}

TEST(RefinementTest, OldStepsAreForgottenInTheEnd) {
  proto::JobProfile known = Known();
  for (int run = 0; run < 100; ++run) {
    known.workers[0] = RefinementBy(known, Told(0.12), kFree).part.workers[0];
  }
  EXPECT_EQ(known.workers[0].steps_measured, 10000);
  EXPECT_NEAR(known.workers[0].compute_s, 0.12, 0.001);
}

TEST(RefinementTest, ACrowdedMachineTellsLossesButNoSpeeds) {
  const Refinement refinement = RefinementBy(Known(), Told(0.12), kCrowded);
  EXPECT_THAT(refinement.part.workers, IsEmpty());
  EXPECT_THAT(refinement.part.fleets, IsEmpty());
  EXPECT_EQ(refinement.part.losses.size(), 30U);
  EXPECT_THAT(refinement.left_out, ElementsAre(HasSubstr("97")));
}

TEST(RefinementTest, StepsOfAnotherMachineAreLeftOut) {
  for (const double step_s : {0.07, 0.13}) {
    const Refinement refinement = RefinementBy(Known(), Told(step_s), kFree);
    EXPECT_THAT(refinement.part.workers, IsEmpty()) << step_s;
    EXPECT_THAT(refinement.part.fleets, IsEmpty()) << step_s;
    EXPECT_THAT(refinement.left_out, ElementsAre(HasSubstr("against 100.00 ms before"))) << step_s;
  }
  proto::JobProfile other = Told(0.5);
  other.workers[0].instance_type = "new";
  EXPECT_EQ(RefinementBy(Known(), other, kFree).part.workers, other.workers);
}

TEST(RefinementTest, AGlanceTellsNoSpeedAndAShortCurveNoLosses) {
  proto::JobProfile told = Told(0.1);
  told.fleets[0].seconds = 1;
  told.losses.resize(10);
  const Refinement refinement = RefinementBy(Known(), told, kFree);
  EXPECT_THAT(refinement.part.fleets, IsEmpty());
  EXPECT_THAT(refinement.part.losses, IsEmpty());
  EXPECT_THAT(refinement.left_out, ElementsAre("speeds, since watched too briefly"));
}

TEST(MergeProfilesTest, TheNewestStartsOfEachKindAreKept) {
  proto::JobProfile all;
  proto::JobProfile rare;
  rare.starts = {{.instance_type = "a", .zone = "z", .launcher = "gce", .step_s = 1}};
  all = MergeProfiles(all, rare);
  proto::JobProfile other = rare;
  other.local_steps = 8;  // a start is none of exchanges
  other.starts = {{.instance_type = "a", .launcher = "ec2", .step_s = 1}};
  for (int day = 1; day <= 80; ++day) {
    other.starts[0].step_s = day;
    all = MergeProfiles(all, other);
  }
  ASSERT_EQ(all.starts.size(), 51U);
  EXPECT_EQ(all.starts.front(), rare.starts[0]);
  EXPECT_EQ(all.starts[1].step_s, 31);
  EXPECT_EQ(all.starts.back().step_s, 80);
}

TEST(RefinementTest, StartsElsewhereAreLearntWhateverTheMachineDoes) {
  proto::JobProfile told = Told(0.12);
  told.starts = {
      {.instance_type = "a", .launcher = "ec2", .step_s = 90},
      {.instance_type = "local", .launcher = "local", .step_s = 1}};
  const Refinement refinement = RefinementBy(Known(), told, kCrowded);
  EXPECT_EQ(refinement.part.starts, std::vector{told.starts[0]});
  EXPECT_THAT(refinement.learnt, testing::Contains("the start of 1 worker"));
}

}  // namespace
}  // namespace ps::provisioner
