#include "psctl/traces/replay_simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ps::psctl {
namespace {

/// Four spot machines that stay, a minute a second. They need 40 s of the clock, of 60 that there
/// are.
ReplaySetting SettingWithADeadline() {
  ReplaySetting setting;
  setting.trace.steps = {{.at_s = 0, .nodes = 4}};
  setting.trace.end_s = 60;
  setting.begins_with = 4;
  setting.policy.policy = "deadline";
  setting.policy.workers_max = 4;
  setting.policy.interval_s = 1;
  setting.policy.start_s = 1;
  setting.policy.deadline_s = 60;
  setting.policy.step_samples = 20;
  setting.policy.speed_of_one = 20;
  setting.policy.spot_usd_per_hour = 1;
  setting.policy.on_demand_usd_per_hour = 3;
  return setting;
}

TEST(ReplaySimulationTest, TheTimeBeforeTheTraceTakesNothingFromADeadline) {
  const ReplaySetting setting = SettingWithADeadline();
  ReplayReport report;
  report.speedup = 60;
  report.samples_wanted = 3200;
  for (const double start_s : {1.0, 24.6}) {
    SCOPED_TRACE(start_s);
    report.start_s = start_s;
    const Result<ReplaySimulation> simulation = SimulateReplay(setting, report);
    ASSERT_TRUE(simulation.ok()) << simulation.status();
    ASSERT_FALSE(simulation->fleets.empty());
    for (const ReplayFleet& some : simulation->fleets) {
      EXPECT_EQ(some.fleet, (provisioner::FleetWish{.spot = 4})) << some.at_s;
    }
    EXPECT_NEAR(simulation->samples, 3200, 40);
  }
}

}  // namespace
}  // namespace ps::psctl
