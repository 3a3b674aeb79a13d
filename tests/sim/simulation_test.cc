#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/sim/cluster.h"

namespace ps::sim {
namespace {

/// The last lines of a failed run's log.
std::string Tail(const std::string& log, size_t bytes) {
  return log.size() <= bytes ? log : log.substr(log.size() - bytes);
}

void ExpectOk(const Scenario& scenario) {
  const Outcome outcome = Simulate(scenario);
  if (!outcome.ok()) {
    std::string text = "to repeat: tests/sim_replay " + std::to_string(scenario.seed) + "\n";
    text += Describe(scenario) + "\n";
    text += outcome.is_finished ? "finished: " : "not finished: ";
    text += outcome.status.ToString() + " after " + std::to_string(Seconds(outcome.virtual_time)) +
            " virtual seconds\n";
    for (const std::string& violation : outcome.violations) {
      text += "violation: " + violation + "\n";
    }
    ADD_FAILURE() << text << Tail(outcome.log, 6000);
  }
}

Scenario Quiet(proto::Mode mode) {
  Scenario scenario;
  scenario.mode = mode;
  return scenario;
}

TEST(SimulationTest, AQuietAsyncRunCountsEverySampleOnce) {
  ExpectOk(Quiet(proto::Mode::kAsync));
}

TEST(SimulationTest, AQuietSspRunKeepsTheBound) {
  ExpectOk(Quiet(proto::Mode::kSsp));
}

TEST(SimulationTest, AQuietBspRunEqualsSequentialSgd) {
  ExpectOk(Quiet(proto::Mode::kBsp));
}

TEST(SimulationTest, TheSameSeedGivesTheSameLog) {
  for (uint64_t seed = 900; seed < 906; ++seed) {
    const Outcome first = Simulate(RandomScenario(seed));
    const Outcome second = Simulate(RandomScenario(seed));
    EXPECT_EQ(first.trace_hash, second.trace_hash) << seed;
    EXPECT_EQ(first.log, second.log) << seed;
    EXPECT_NE(first.trace_hash, Simulate(RandomScenario(seed + 1000)).trace_hash);
  }
}

TEST(SimulationTest, EveryWorkerLostAtOnceOnlyPausesTheRun) {
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kSsp, proto::Mode::kBsp}) {
    Scenario scenario = Quiet(mode);
    scenario.workers = 2;
    scenario.multi_kills = 3;
    scenario.disturbed_for = std::chrono::milliseconds(900);
    ExpectOk(scenario);
  }
}

/// A block of seeds a test, so that the blocks run in parallel.
class SeedsTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(SeedsTest, EveryInvariantHoldsThroughEveryFault) {
  for (uint64_t seed = GetParam(); seed < GetParam() + 50; ++seed) {
    ExpectOk(RandomScenario(seed));
    if (HasFailure()) {
      return;  // the first one is the one to look at
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Fixed, SeedsTest, ::testing::Range<uint64_t>(1000, 1600, 50), [](const auto& entry) {
      return "From" + std::to_string(entry.param);
    });

}  // namespace
}  // namespace ps::sim
