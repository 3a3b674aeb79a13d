// All servers go back to a checkpoint together when one of them is lost: in bsp, and where the job
// wants it.

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "tests/sim/expect_ok.h"

namespace ps::sim {
namespace {

using std::chrono::milliseconds;

/// A run that goes back often.
Scenario Returning(proto::Mode mode, uint64_t seed) {
  Scenario scenario = Quiet(mode);
  scenario.seed = seed;
  scenario.is_consistent = true;
  scenario.workers = 4;
  scenario.train_samples = 400;
  scenario.checkpoint_every = milliseconds(200);
  scenario.checkpoint_keep = 3;
  scenario.server_detect = milliseconds(2400);
  scenario.server_kills = 2;
  scenario.disturbed_for = std::chrono::seconds(2);
  return scenario;
}

/// Servers, workers and the coordinator die meanwhile; workers come, and are cut off.
TEST(GoingBackTest, NothingThatHappensMeanwhileCountsTwiceOrIsLost) {
  for (const proto::Mode mode : {proto::Mode::kBsp, proto::Mode::kAsync, proto::Mode::kSsp}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      Scenario scenario = Returning(mode, seed);
      scenario.disk_delay_max = milliseconds(seed % 2 == 0 ? 100 : 5);
      scenario.server_kills = 1;
      scenario.server_kills_at_checkpoint = seed % 3 == 0 ? 1 : 0;
      scenario.server_stalls = seed % 4 == 0 ? 1 : 0;
      scenario.faults_at_return = 3;
      ExpectOk(scenario);
    }
  }
}

TEST(GoingBackTest, OneWorkerInBspEndsWithTheModelOfAnUndisturbedRun) {
  uint64_t rollbacks = 0;
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    Scenario scenario = Returning(proto::Mode::kBsp, seed);
    scenario.workers = 1;
    scenario.train_samples = 101;
    scenario.disturbed_for = milliseconds(1500);
    scenario.server_kills_at_checkpoint = seed % 2;
    scenario.restarts = seed % 3;
    const Outcome disturbed = Simulate(scenario);
    scenario.server_kills = 0;
    scenario.server_kills_at_checkpoint = 0;
    scenario.restarts = 0;
    const Outcome undisturbed = Simulate(scenario);
    ASSERT_TRUE(undisturbed.ok());
    ASSERT_TRUE(disturbed.ok()) << seed << ": " << ::testing::PrintToString(disturbed.violations);
    EXPECT_EQ(disturbed.model, undisturbed.model) << seed;
    EXPECT_EQ(undisturbed.job.checkpoints.rollbacks, 0U);
    rollbacks += disturbed.job.checkpoints.rollbacks;
  }
  EXPECT_GE(rollbacks, 6U);
}

/// Whether the oracle has something with `text` against one of some runs with that fault.
bool FindsAfterReturn(Scenario scenario, Sabotage sabotage, const std::string& text) {
  scenario.sabotage = sabotage;
  scenario.log_detail = LogDetail::kNone;
  for (scenario.seed = 1; scenario.seed <= 30; ++scenario.seed) {
    for (const std::string& violation : Simulate(scenario).violations) {
      if (violation.find(text) != std::string::npos) {
        return true;
      }
    }
  }
  return false;
}

TEST(SabotageTest, AShardThatGoesBackToAnotherCheckpointIsFound) {
  for (const proto::Mode mode : {proto::Mode::kBsp, proto::Mode::kAsync}) {
    EXPECT_TRUE(FindsAfterReturn(
        Returning(mode, 1), Sabotage::kOtherCheckpoint, "is not what the applied pushes make it"));
  }
}

TEST(SabotageTest, APushOfBeforeThatIsAppliedAfterAllWentBackIsFound) {
  Scenario scenario = Returning(proto::Mode::kAsync, 1);
  scenario.partitions = 6;
  EXPECT_TRUE(FindsAfterReturn(
      scenario, Sabotage::kEarlierPush, "was applied though all servers have gone back since"));
}

/// Then steps that the parameters have are trained again.
TEST(SabotageTest, ACoordinatorThatGoesBackFurtherThanTheShardsIsFound) {
  EXPECT_TRUE(FindsAfterReturn(
      Returning(proto::Mode::kAsync, 1), Sabotage::kForgottenSteps, "are said to be undone"));
}

TEST(SabotageTest, AStepThatStillCountsAlthoughItWasUndoneIsFound) {
  for (const proto::Mode mode : {proto::Mode::kBsp, proto::Mode::kAsync}) {
    EXPECT_TRUE(
        FindsAfterReturn(Returning(mode, 1), Sabotage::kUndoneStep, "to which all went back, has"));
  }
}

}  // namespace
}  // namespace ps::sim
