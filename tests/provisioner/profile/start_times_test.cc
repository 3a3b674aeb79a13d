#include "provisioner/profile/start_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ps::provisioner {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

proto::StartSample Start(
    const std::string& type, double step_s, const std::string& launcher = "ec2") {
  return {.instance_type = type, .launcher = launcher, .join_s = step_s / 2, .step_s = step_s};
}

TEST(StartTimesTest, ATypeHasItsMedianAndWhatNineInTenKeep) {
  std::vector<proto::StartSample> starts = {Start("other", 7)};
  for (int i = 1; i <= 10; ++i) {
    starts.push_back(Start("g4dn.xlarge", 10 * i));
  }
  starts.push_back(Start("g4dn.xlarge", 0));  // no step of it counted
  const auto times = StartTimesByType(starts);
  ASSERT_THAT(times, SizeIs(2));
  EXPECT_EQ(times.at("g4dn.xlarge").count, 10);
  EXPECT_DOUBLE_EQ(times.at("g4dn.xlarge").median_s, 55);
  EXPECT_DOUBLE_EQ(times.at("g4dn.xlarge").high_s, 90);
  EXPECT_DOUBLE_EQ(times.at("other").median_s, 7);
  EXPECT_DOUBLE_EQ(times.at("other").high_s, 7);
  EXPECT_THAT(StartTimesByType(std::vector{Start("a", 0)}), IsEmpty());
}

TEST(StartTimesTest, APlanOfNoJobCountsMachinesThatWereRentedBeforeThoseOfAQueue) {
  const std::vector<proto::StartSample> starts = {
      Start("a", 90),
      Start("a", 5, "ssh"),
      Start("a", 20, "slurm"),
      Start("b", 30, "kubernetes"),
      Start("b", 1, "local"),
      Start("b", 0, "gce"),
      Start("c", 2, "ssh")};
  for (const char* const launcher : {"", "local"}) {
    const auto times = StartTimesByType(StartsFor(starts, launcher));
    ASSERT_THAT(times, SizeIs(2)) << launcher;
    EXPECT_EQ(times.at("a").median_s, 90);
    EXPECT_EQ(times.at("b").median_s, 30);
  }
}

TEST(StartTimesTest, APlanOfAJobCountsTheStartsOfItsLauncher) {
  const std::vector<proto::StartSample> starts = {
      Start("a", 90), Start("a", 5, "ssh"), Start("b", 70, "gce")};
  const auto times = StartTimesByType(StartsFor(starts, "ssh"));
  ASSERT_THAT(times, SizeIs(1));
  EXPECT_EQ(times.at("a").median_s, 5);
  EXPECT_THAT(StartsFor(starts, "slurm"), IsEmpty());
  EXPECT_THAT(StartsElsewhere(std::vector{Start("a", 1, "local"), Start("a", 2)}), SizeIs(1));
}

}  // namespace
}  // namespace ps::provisioner
