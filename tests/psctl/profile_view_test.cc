#include "psctl/view/profile_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "provisioner/model/profile_fit.h"
#include "run/report/outcome_view.h"

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;

TEST(ProfileViewTest, ACurveOfOneFleetSaysThatOthersAreExtrapolated) {
  proto::JobProfile profile;
  for (int i = 0; i < 60; ++i) {
    profile.losses.push_back({50.0 + 10 * i, 2 - 0.02 * i, 32, 0.5, 2});
  }
  EXPECT_THAT(
      provisioner::FitProfile(&profile), ::testing::Contains(HasSubstr("of one size of fleet")));
  EXPECT_EQ(profile.curves.fleets.size(), 1U);
  EXPECT_THAT(RenderProfile(profile), HasSubstr("1.00 for 2, larger fleets extrapolated"));
}

TEST(ProfileViewTest, TooLittleIsNotFittedAndSaysSo) {
  proto::JobProfile profile;
  profile.job = "job";
  profile.workers = {{"local", 64, 0.1, 0.001, 9, 512}, {"local", 128, 0.2, 0.001, 9, 0}};
  EXPECT_FALSE(provisioner::FitProfile(&profile).empty());
  EXPECT_EQ(profile.queue.samples, 0);
  const std::string text = RenderProfile(profile);
  EXPECT_THAT(
      text, HasSubstr("local         64   100.00  1.00        640      9                512"));
  EXPECT_THAT(text, HasSubstr("?\n"));
}

TEST(ProfileViewTest, ALineSaysWhatWasLearnt) {
  EXPECT_EQ(
      run::RenderRefinement(
          "p.json", {.part = {}, .learnt = {"a", "b"}, .left_out = {"speeds, since c"}}),
      "p.json refined by a, b\np.json: left out speeds, since c\n");
  EXPECT_EQ(run::RenderRefinement("p.json", {}), "p.json learnt nothing\n");
}

TEST(ProfileViewTest, StartsAreShownByType) {
  proto::JobProfile profile;
  EXPECT_THAT(RenderProfile(profile), ::testing::Not(HasSubstr("start-up")));
  profile.starts = {
      {.instance_type = "g4dn.xlarge", .launcher = "ec2", .step_s = 94},
      {.instance_type = "g4dn.xlarge", .launcher = "ec2", .step_s = 90},
      {.instance_type = "g4dn.xlarge", .launcher = "ec2", .step_s = 131},
      {.instance_type = "g5.xlarge", .launcher = "ec2", .step_s = 45}};
  EXPECT_THAT(
      RenderProfile(profile),
      HasSubstr("1m 34s until the first step of g4dn.xlarge (3 starts, 9 in 10 within 2m 11s), "
                "45.0 s until the first step of g5.xlarge (1 start)\n"));
}

}  // namespace
}  // namespace ps::psctl
