#include "tests/sim/minimise.h"

#include <gtest/gtest.h>

#include "ps/base/random.h"
#include "tests/sim/cluster.h"

namespace ps::sim {
namespace {

/// From a scenario of long steps down to one of nothing: an abort would end the search.
TEST(MinimiseTest, EveryStepOfTheWayCanBeSimulated) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Random random(seed);
    Scenario scenario = RandomScenario(seed, Only::kLocal);
    EXPECT_GT(scenario.local_steps, 1U);
    for (int step = 0; step < 40; ++step) {
      const std::vector<Scenario> smaller = SmallerScenarios(scenario);
      for (const Scenario& candidate : smaller) {
        EXPECT_GE(candidate.local_steps, 1U) << "a step has a minibatch";
      }
      if (smaller.empty()) {
        break;
      }
      scenario = smaller[random.Below(smaller.size())];
    }
    scenario.log_detail = LogDetail::kNone;
    EXPECT_TRUE(Simulate(scenario).ok()) << Describe(scenario);
  }
}

/// The lease of a step without minibatches once ended the search.
TEST(MinimiseTest, LocalStepsEndAtOne) {
  Scenario scenario;
  scenario.local_steps = 4;
  scenario.overlap = false;
  bool has_one = false;
  for (const Scenario& candidate : SmallerScenarios(scenario)) {
    has_one = has_one || candidate.local_steps == 1;
    EXPECT_NE(candidate.local_steps, 0U);
  }
  EXPECT_TRUE(has_one);
}

TEST(MinimiseTest, WhatBreaksNothingStaysAsItIs) {
  Scenario scenario;
  scenario.train_samples = 40;
  scenario.workers = 1;
  EXPECT_EQ(Describe(Minimise(scenario, 1)), Describe(scenario));
}

TEST(MinimiseTest, AFaultIsFoundInASmallerRun) {
  Scenario scenario;
  scenario.workers = 4;
  scenario.local_steps = 4;
  scenario.overlap = false;
  scenario.train_samples = 200;
  scenario.is_held_back = true;
  scenario.sabotage = Sabotage::kDoubledResidual;
  const Scenario smallest = Minimise(scenario, 1);
  EXPECT_FALSE(Simulate(smallest).ok());
  EXPECT_TRUE(smallest.is_held_back) << "else nothing breaks";
  EXPECT_LT(smallest.workers, 4U);
  EXPECT_EQ(smallest.local_steps, 1U);
}

}  // namespace
}  // namespace ps::sim
