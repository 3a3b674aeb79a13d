#include "provisioner/profile/profile_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace ps::provisioner
