// What policies say of their decisions.

#include "provisioner/simulator/fleet_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// 10 samples/s of each worker up to `bend`, 0.1 of each one more.
SimulatedJob JobThatBends(int workers, int bend) {
  SimulatedJob job;
  job.start_s = 0;
  job.spot_usd_per_hour = 1;
  job.on_demand_usd_per_hour = 3;
  for (int n = 0; n <= workers; ++n) {
    job.samples_per_s.push_back(10.0 * std::min(n, bend) + 0.1 * std::max(0, n - bend));
  }
  return job;
}

FleetView ViewOf(double now_s, uint32_t available, double samples = 0) {
  FleetView view;
  view.now_s = now_s;
  view.available = available;
  view.samples = samples;
  return view;
}

std::unique_ptr<FleetPolicy> PolicyOf(std::string_view name, const SimulatedJob& job) {
  auto policy = MakeFleetPolicy(name, job);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return std::move(*policy);
}

TEST(FleetPolicyTest, EveryReasonHasTheWishAmongItsAlternatives) {
  SimulatedJob job = JobThatBends(6, 4);
  job.samples_wanted = 40 * 3600;
  job.deadline_s = 2 * 3600;
  for (const std::string_view name : {"reactive", "hold", "parcae", "standby", "deadline"}) {
    const auto policy = PolicyOf(name, job);
    std::vector<uint32_t> counts;
    FleetView view;
    for (int minute = 0; minute < 200; ++minute) {
      view.now_s = 60.0 * minute;
      view.available = static_cast<uint32_t>((minute * 7 / 5) % 10);
      counts.push_back(view.available);
      view.counts = counts;
      view.is_interval = true;
      const FleetWish wish = policy->Decide(view);
      view.spot = wish.spot;
      view.spot_working = wish.spot;
      view.on_demand = wish.on_demand;
      const PolicyReason reason = policy->Explain();
      EXPECT_FALSE(reason.why.empty()) << name;
      EXPECT_FALSE(reason.worth_of.empty()) << name;
      EXPECT_EQ(std::ranges::count(reason.alternatives, wish, &FleetAlternative::fleet), 1)
          << name << " in minute " << minute << ": " << reason.why;
      EXPECT_LE(reason.alternatives.size(), 5U);
    }
  }
}

TEST(FleetPolicyTest, AForecastIsNamedWithWhatEachCountIsWorth) {
  const SimulatedJob job = JobThatBends(6, 4);
  const auto policy = PolicyOf("hold", job);
  const std::vector<uint32_t> counts = {6};
  const FleetWish wish = policy->Decide({.is_interval = true, .counts = counts, .available = 6});
  EXPECT_EQ(wish, FleetWish{.spot = 4}) << "the fifth adds a hundredth of a worker";
  const PolicyReason reason = policy->Explain();
  EXPECT_EQ(reason.forecast, std::vector<double>(12, 6.0));
  EXPECT_EQ(reason.worth_of, "samples");
  const double window_s = 12 * 60;
  ASSERT_EQ(reason.alternatives.size(), 4U);
  const auto spot_of = [&](size_t i) { return reason.alternatives[i].fleet.spot; };
  EXPECT_THAT(
      (std::vector<uint32_t>{spot_of(0), spot_of(1), spot_of(2), spot_of(3)}),
      ElementsAre(3, 4, 5, 6));
  EXPECT_NEAR(reason.alternatives[0].worth, 30 * window_s, 1e-6);
  EXPECT_NEAR(reason.alternatives[1].worth, 40 * window_s, 1e-6);
  EXPECT_NEAR(reason.alternatives[3].worth, 40.2 * window_s, 1e-6);
  EXPECT_EQ(policy->Decide(ViewOf(30, 2)), FleetWish{.spot = 2});
  EXPECT_THAT(policy->Explain().why, HasSubstr("4 were worth their start when 6 could be had"));
}

TEST(FleetPolicyTest, ADeadlineSaysWhenAllHaveToBeOnDemandAndWhatThatCosts) {
  SimulatedJob job = JobThatBends(4, 4);
  job.samples_wanted = 40.0 * 3600;
  job.deadline_s = 2 * 3600;
  const auto policy = PolicyOf("deadline", job);
  EXPECT_EQ(policy->Decide(ViewOf(0, 4)), FleetWish{.spot = 4});
  PolicyReason reason = policy->Explain();
  EXPECT_THAT(reason.why, HasSubstr("have to be on demand in 59m 00s"));
  EXPECT_THAT(
      reason.alternatives,
      ElementsAre(FleetAlternative{{.spot = 4}, 4}, FleetAlternative{{.on_demand = 4}, 12}));
  EXPECT_EQ(policy->Decide(ViewOf(3541, 4)), FleetWish{.on_demand = 4});
  EXPECT_THAT(policy->Explain().why, HasSubstr("on demand alone"));
}

TEST(FleetPolicyTest, ADeadlineLetsGoOfWhatWorksOnceItsSuccessorsDo) {
  SimulatedJob job = JobThatBends(4, 4);
  job.samples_wanted = 40.0 * 3600;
  job.deadline_s = 2 * 3600;
  const auto policy = PolicyOf("deadline", job);
  FleetView view = ViewOf(60, 0);
  EXPECT_EQ(policy->Decide(view), FleetWish{.on_demand = 4}) << "behind, and there are no others";
  view = ViewOf(1800, 4, 40.0 * 1700);
  view.on_demand = view.on_demand_working = 4;
  EXPECT_EQ(policy->Decide(view), (FleetWish{.spot = 4, .on_demand = 4}));
  EXPECT_THAT(policy->Explain().why, HasSubstr("spot machines alone, once they work"));
  view.spot = 4;
  view.spot_working = 3;
  EXPECT_EQ(policy->Decide(view), (FleetWish{.spot = 4, .on_demand = 1}));
  // One goes before all work: the others are kept, and so is what stands in for them.
  view.available = view.spot = 3;
  view.spot_working = 2;
  EXPECT_EQ(policy->Decide(view), (FleetWish{.spot = 3, .on_demand = 2}));
  view.available = view.spot = view.spot_working = 4;
  EXPECT_EQ(policy->Decide(view), FleetWish{.spot = 4});
  // The other way round at the latest moment.
  view.on_demand = view.on_demand_working = 0;
  view.now_s = 7000;
  EXPECT_EQ(policy->Decide(view), (FleetWish{.spot = 4, .on_demand = 4}));
  view.on_demand = 4;
  view.on_demand_working = 3;
  EXPECT_EQ(policy->Decide(view), (FleetWish{.spot = 1, .on_demand = 4}));
}

TEST(FleetPolicyTest, TheDeadlineGoesByTheSpeedAsItIsMeasured) {
  SimulatedJob job = JobThatBends(4, 4);
  job.samples_wanted = 40.0 * 3600;
  job.deadline_s = 2 * 3600;
  const auto policy = PolicyOf("deadline", job);
  EXPECT_EQ(policy->Decide(ViewOf(600, 4, 24000)), FleetWish{.spot = 4});
  for (double& rate : job.samples_per_s) {
    rate /= 3;
  }
  EXPECT_EQ(policy->Decide(ViewOf(660, 4, 24800)), FleetWish{.on_demand = 4})
      << "what is left takes 149 minutes, and there are 109";
}

}  // namespace
}  // namespace ps::provisioner
