#include "tests/provisioner/rental/rental_simulation.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace ps::provisioner {
namespace {

using Sabotage = RentalScenario::Sabotage;

uint64_t Number(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::stoull(text) : otherwise;
}

/// SPOTPS_RENTAL_SEEDS and SPOTPS_RENTAL_FROM make a campaign of it.
TEST(RentalSimulationTest, NothingIsRentedTwiceOrLeftBehind) {
  const uint64_t from = Number("SPOTPS_RENTAL_FROM", 1);
  const uint64_t count = Number("SPOTPS_RENTAL_SEEDS", 300);
  uint64_t machines = 0;
  uint64_t crashes = 0;
  uint64_t ready = 0;
  for (uint64_t seed = from; seed < from + count; seed++) {
    const RentalOutcome outcome = SimulateRentals({seed});
    ASSERT_EQ(outcome.violation, "") << "seed " << seed;
    machines += outcome.machines;
    crashes += outcome.crashes;
    ready += outcome.ready;
  }
  EXPECT_GT(machines, count);
  EXPECT_GT(crashes, count / 4);
  EXPECT_GT(ready, count);
  RecordProperty("machines", std::to_string(machines));
}

/// Lists of before a machine was known lacked it, which counted against it: the first one after the
/// grace that left it out made it lost, and another one was rented beside it.
TEST(RentalSimulationTest, AMachineIsNotMissingByListsOfBeforeItWasKnown) {
  EXPECT_EQ(SimulateRentals({.seed = 3057375, .has_later_faults = false}).violation, "");
}

/// A list of the first minute, when it need not tell of a machine, counted as the first of the two
/// that make one lost: a bill was closed before the provider had told when its machine ended.
TEST(RentalSimulationTest, AMachineIsNotMissingByAListOfItsFirstMinute) {
  EXPECT_EQ(SimulateRentals({.seed = 5070988, .has_later_faults = false}).violation, "");
}

class RentalSabotageTest : public testing::TestWithParam<Sabotage> {};

TEST_P(RentalSabotageTest, IsFound) {
  for (uint64_t seed = 1; seed <= 300; seed++) {
    if (!SimulateRentals({seed, GetParam()}).violation.empty()) {
      return;
    }
  }
  FAIL() << "300 seeds have not found it";
}

INSTANTIATE_TEST_SUITE_P(
    All,
    RentalSabotageTest,
    testing::Values(
        Sabotage::kTokensDiffer,
        Sabotage::kNoNotes,
        Sabotage::kNothingReleased,
        Sabotage::kStraysStay,
        Sabotage::kProcessesForgotten,
        Sabotage::kSeenAtOnce,
        Sabotage::kOverTooSoon,
        Sabotage::kPricesStand,
        Sabotage::kBudgetIgnored));

}  // namespace
}  // namespace ps::provisioner
