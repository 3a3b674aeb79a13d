// Machines of a trace as a launcher sees them, in virtual time.

#include "provisioner/simulator/simulated_launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "provisioner/fleet/agent_exit.h"
#include "tests/provisioner/simulator/simulated_jobs.h"

namespace ps::provisioner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class SimulatedLauncherTest : public ::testing::Test {
 protected:
  SimulatedLauncherTest() {
    job_.start_s = 100;
    job_.detect_s = 30;
  }

  ProcessHandle Start(uint32_t seat, std::string_view partition = kSpotPartition) {
    LaunchSpec spec;
    spec.index = seat;
    spec.arguments = {"--sbatch", std::string(partition)};
    const Result<ProcessHandle> handle = launcher_.Start(spec);
    EXPECT_TRUE(handle.ok()) << handle.status();
    return *handle;
  }

  std::vector<uint32_t> ReadyAt(double now_s) {
    clock_.Set(now_s);
    std::vector<uint32_t> seats;
    for (const auto& ready : launcher_.TakeReady()) {
      seats.push_back(ready.index);
    }
    return seats;
  }

  std::vector<std::string> Ends() {
    std::vector<std::string> ends;
    for (const ProcessExit& exit : launcher_.PollExits()) {
      ends.push_back(std::to_string(exit.index) + " " + exit.description);
    }
    return ends;
  }

  SimulatedJob job_ = JobOfWorkers(4);
  VirtualTime clock_;
  SimulatedLauncher launcher_{job_, 3, &clock_};
};

TEST_F(SimulatedLauncherTest, AProcessRunsOnTheFirstFreeMachineWhenItHasStarted) {
  launcher_.Offer(1);
  launcher_.Offer(2);
  const ProcessHandle first = Start(7);
  EXPECT_EQ(launcher_.On(1), first);
  EXPECT_EQ(launcher_.held(Market::kSpot), 1U);
  EXPECT_EQ(launcher_.next_at_s(), 100);
  EXPECT_THAT(ReadyAt(99), IsEmpty());
  EXPECT_THAT(ReadyAt(100), ElementsAre(7));
  EXPECT_THAT(Ends(), IsEmpty());
}

TEST_F(SimulatedLauncherTest, WithoutAFreeMachineAStartComesToNothing) {
  Start(0);
  EXPECT_THAT(ReadyAt(0), IsEmpty());
  const std::vector<ProcessExit> exits = launcher_.PollExits();
  ASSERT_THAT(exits, SizeIs(1));
  EXPECT_EQ(exits[0].code, kNotStartedExit);
  EXPECT_EQ(launcher_.failed_starts(), 1U);
  EXPECT_EQ(launcher_.held(Market::kSpot), 0U);
}

TEST_F(SimulatedLauncherTest, OnDemandThereIsAlwaysAMachine) {
  Start(3, kOnDemandPartition);
  EXPECT_EQ(launcher_.held(Market::kOnDemand), 1U);
  EXPECT_THAT(ReadyAt(100), ElementsAre(3));
}

TEST_F(SimulatedLauncherTest, AnEndByRevocationIsToldLater) {
  launcher_.Offer(0);
  const ProcessHandle process = Start(5);
  EXPECT_THAT(ReadyAt(100), ElementsAre(5));
  clock_.Set(200);
  EXPECT_EQ(launcher_.Revoke(0), process);
  EXPECT_EQ(launcher_.held(Market::kSpot), 0U) << "it is not paid for";
  EXPECT_EQ(launcher_.untold(), 1U);
  EXPECT_EQ(launcher_.untold_running(), 1U);
  EXPECT_THAT(ReadyAt(229), IsEmpty());
  EXPECT_THAT(Ends(), IsEmpty());
  EXPECT_THAT(ReadyAt(230), IsEmpty());
  EXPECT_THAT(Ends(), ElementsAre("5 killed by signal 9 (Killed)"));
  EXPECT_EQ(launcher_.untold(), 0U);
  EXPECT_EQ(launcher_.untold_running(), 0U);
}

TEST_F(SimulatedLauncherTest, AMachineThatGoesDuringTheStartIsNotToldBeforeTime) {
  launcher_.Offer(0);
  Start(5);
  clock_.Set(90);
  launcher_.Revoke(0);
  EXPECT_THAT(ReadyAt(100), IsEmpty());
  EXPECT_THAT(Ends(), IsEmpty());
  EXPECT_THAT(ReadyAt(120), IsEmpty());
  EXPECT_THAT(Ends(), SizeIs(1));
}

TEST_F(SimulatedLauncherTest, WhoIsKilledOrDoneGivesTheMachineBack) {
  launcher_.Offer(0);
  const ProcessHandle first = Start(0);
  EXPECT_TRUE(launcher_.Kill(first).ok());
  EXPECT_EQ(launcher_.Kill(first).code(), StatusCode::kNotFound);
  EXPECT_THAT(launcher_.TakeKilled(), ElementsAre(first));
  const ProcessHandle second = Start(1);
  EXPECT_EQ(launcher_.On(0), second);
  EXPECT_THAT(ReadyAt(100), ElementsAre(1));
  launcher_.Withdraw(0);
  launcher_.End(second);
  EXPECT_THAT(Ends(), ElementsAre("0 killed by signal 9 (Killed)", "1 exited with code 0"));
  const ProcessHandle third = Start(2);
  EXPECT_EQ(launcher_.On(0), ProcessHandle()) << "it was withdrawn";
  EXPECT_NE(third, second);
}

}  // namespace
}  // namespace ps::provisioner
