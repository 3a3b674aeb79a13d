#include <gtest/gtest.h>

#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "ps/base/crc32c.h"
#include "ps/base/random.h"
#include "tests/sim/cluster.h"
#include "tests/sim/expect_ok.h"

namespace ps::sim {
namespace {

TEST(SimulationTest, AQuietAsyncRunCountsEverySampleOnce) {
  ExpectOk(Quiet(proto::Mode::kAsync));
}

TEST(SimulationTest, AQuietSspRunKeepsTheBound) {
  ExpectOk(Quiet(proto::Mode::kSsp));
}

TEST(SimulationTest, AQuietBspRunEqualsSequentialSgd) {
  ExpectOk(Quiet(proto::Mode::kBsp));
}

TEST(SimulationTest, RoundedGradientsAreAppliedAsWhatTheyStandFor) {
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kSsp, proto::Mode::kBsp}) {
    Scenario scenario = Quiet(mode);
    scenario.is_rounded = true;
    scenario.chunk_kib = 3;  // in parts
    ExpectOk(scenario);
  }
  for (uint64_t seed = 700; seed < 730; ++seed) {
    Scenario scenario = RandomScenario(seed);
    scenario.is_rounded = true;
    ExpectOk(scenario);
  }
}

TEST(SimulationTest, StepsOfSeveralMinibatchesCountOnceThoughSomeEndEarly) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    ExpectOk(RandomScenario(seed, Only::kLocal));
  }
}

TEST(SimulationTest, EncodedGradientsAreAppliedAsWhatTheyStandFor) {
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kSsp, proto::Mode::kBsp}) {
    Scenario scenario = Quiet(mode);
    scenario.is_encoded = true;
    scenario.chunk_kib = 3;  // in parts
    ExpectOk(scenario);
  }
  for (uint64_t seed = 730; seed < 760; ++seed) {
    Scenario scenario = RandomScenario(seed);
    scenario.is_encoded = true;
    ExpectOk(scenario);
  }
}

TEST(SimulationTest, WorkersHoldWhatDifferencesMakeOfIt) {
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kSsp, proto::Mode::kBsp}) {
    for (const uint32_t bits : {4U, 8U}) {
      Scenario scenario = Quiet(mode);
      scenario.difference_bits = bits;
      scenario.chunk_kib = 3;  // in parts
      ExpectOk(scenario);
      scenario.held_kib = 4;
      ExpectOk(scenario);
    }
  }
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    ExpectOk(RandomScenario(seed, Only::kDifferences));
  }
}

TEST(SimulationTest, WhatIsHeldBackArrivesWithLaterSteps) {
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kSsp, proto::Mode::kBsp}) {
    Scenario scenario = Quiet(mode);
    scenario.is_held_back = true;
    scenario.chunk_kib = 3;  // in parts
    ExpectOk(scenario);
  }
  for (uint64_t seed = 760; seed < 800; ++seed) {
    Scenario scenario = RandomScenario(seed);
    scenario.is_held_back = true;
    scenario.model_kib = 0;
    ExpectOk(scenario);
  }
}

/// Workers are told to leave, and people change what steps have, while workers and servers die.
TEST(SimulationTest, WhatIsHeldBackGoesWithTheLastPushOfWhoLeaves) {
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kSsp, proto::Mode::kBsp}) {
    uint64_t hand_overs = 0;
    for (uint64_t seed = 1; seed <= 12; ++seed) {
      Scenario scenario = Quiet(mode);
      scenario.seed = seed;
      scenario.is_held_back = true;
      scenario.chunk_kib = 3;  // in parts
      scenario.local_steps = seed % 3 == 0 ? 4 : 1;
      scenario.overlap = scenario.local_steps == 1 && seed % 2 == 0;
      scenario.train_samples = 400 * scenario.local_steps;
      scenario.several_notices = 4;
      scenario.disturbed_for = std::chrono::seconds(1);
      hand_overs += Simulate(scenario).hand_overs;
      ExpectOk(scenario);
      scenario.network.loss = 0.02;
      scenario.network.break_connection = 0.01;
      scenario.not_finite_every = seed % 4 == 0 ? 20 : 0;
      scenario.checkpoint_every = std::chrono::milliseconds(200);
      scenario.server_detect = std::chrono::milliseconds(2400);
      scenario.server_kills = seed % 2;
      scenario.chunk_moves = seed % 3;
      scenario.sets = seed % 3;
      scenario.resumes = seed % 2;  // numbers of who has left are given again
      ExpectOk(scenario);
    }
    EXPECT_GE(hand_overs, mode == proto::Mode::kBsp ? 5U : 10U)
        << "mode " << static_cast<int>(mode);
  }
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

// Scenarios that once broke a promise, as `sim_replay --minimise` found them.

/// From the first connection to the last goodbye: what a coordinator has saved is enough for the
/// next one.
TEST(SimulationTest, AnotherCoordinatorGoesOnFromWhatWasSavedAtAnyMoment) {
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kSsp, proto::Mode::kBsp}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      Scenario scenario = Quiet(mode);
      scenario.seed = seed;
      scenario.workers = 4;
      scenario.restarts = 4;
      scenario.notices = 1;
      scenario.kills = 1;
      scenario.extra_joins = 2;
      scenario.disturbed_for = std::chrono::seconds(6);
      ExpectOk(scenario);
    }
  }
}

/// People ask for more workers, for fewer and for none, while workers and coordinators die, and the
/// coordinator starts and releases them.
TEST(SimulationTest, TheFleetBecomesWhatIsWantedWhateverDies) {
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kSsp, proto::Mode::kBsp}) {
    for (uint32_t seed = 1; seed <= 6; ++seed) {
      Scenario scenario = Quiet(mode);
      scenario.seed = seed;
      scenario.is_replacing = true;
      scenario.scales = 4;
      scenario.kills = seed % 3;
      scenario.multi_kills = seed % 2;
      scenario.faults_at_join = seed % 2;
      scenario.restarts = seed % 4;
      scenario.disturbed_for = std::chrono::seconds(2);
      ExpectOk(scenario);
    }
  }
}

/// People ask for more servers and for fewer, while workers, servers, old and new, and coordinators
/// die. Where nothing else happens, nothing is undone.
TEST(SimulationTest, ChunksMoveToAnotherNumberOfServersWhateverDies) {
  uint64_t moves = 0;
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kSsp, proto::Mode::kBsp}) {
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      Scenario scenario = Quiet(mode);
      scenario.seed = seed;
      scenario.train_samples = 400;
      scenario.is_consistent = mode == proto::Mode::kAsync && seed % 3 == 1;
      scenario.checkpoint_every = std::chrono::milliseconds(200);
      scenario.server_scales = 3;
      scenario.disturbed_for = std::chrono::seconds(1);
      const Outcome quiet = Simulate(scenario);
      moves += quiet.job.servers.moves;
      EXPECT_EQ(quiet.job.checkpoints.steps_undone, 0U) << seed;
      EXPECT_EQ(quiet.job.checkpoints.rollbacks, 0U) << seed;
      ExpectOk(scenario);
      scenario.server_detect = std::chrono::milliseconds(2400);
      scenario.server_kills = seed % 2;
      scenario.server_kills_at_checkpoint = seed % 3 == 0 ? 1 : 0;
      scenario.server_kills_with_coordinator = seed % 4 == 0 ? 1 : 0;
      scenario.kills = seed % 3;
      scenario.restarts = seed % 3;
      ExpectOk(scenario);
    }
  }
  EXPECT_GE(moves, 12U);
}

/// People change the mode and pause the job, while workers, servers and coordinators die. Where
/// nothing else happens, nothing is lost.
TEST(SimulationTest, TheModeChangesAndTheJobIsPausedWhateverDies) {
  size_t switches = 0;
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kSsp, proto::Mode::kBsp}) {
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      Scenario scenario = Quiet(mode);
      scenario.seed = seed;
      scenario.train_samples = 400;
      scenario.mode_switches = 4;
      scenario.job_pauses = seed % 2;
      scenario.is_consistent = seed % 3 == 0;
      scenario.disturbed_for = std::chrono::seconds(1);
      const Outcome quiet = Simulate(scenario);
      switches += quiet.job.modes.switches.size();
      EXPECT_EQ(quiet.job.steps_lost, 0U) << seed;
      ExpectOk(scenario);
      scenario.checkpoint_every = std::chrono::milliseconds(200);
      scenario.server_detect = std::chrono::milliseconds(2400);
      scenario.server_kills = seed % 2;
      scenario.server_kills_at_checkpoint = seed % 3 == 0 ? 1 : 0;
      scenario.kills = seed % 3;
      scenario.notices = seed % 2;
      scenario.restarts = seed % 4;
      ExpectOk(scenario);
    }
  }
  EXPECT_GE(switches, 20U);
}

/// People change what steps have: how gradients travel, how many minibatches a step has. The oracle
/// knows of each step what its lease said.
TEST(SimulationTest, WhatStepsHaveChangesWhateverDies) {
  uint64_t changes = 0;
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kSsp, proto::Mode::kBsp}) {
    for (uint32_t seed = 1; seed <= 6; ++seed) {
      Scenario scenario = Quiet(mode);
      scenario.seed = seed;
      scenario.local_steps = seed % 2 == 0 ? 4 : 1;
      scenario.overlap = scenario.local_steps == 1;
      scenario.train_samples = 400 * scenario.local_steps;
      scenario.is_held_back = seed % 3 == 0;
      scenario.sets = 5;
      scenario.disturbed_for = std::chrono::seconds(1);
      const Outcome quiet = Simulate(scenario);
      changes += quiet.job.steps.changes;
      EXPECT_EQ(quiet.job.steps_lost, 0U) << seed;
      ExpectOk(scenario);
      scenario.checkpoint_every = std::chrono::milliseconds(200);
      scenario.server_detect = std::chrono::milliseconds(2400);
      scenario.server_kills = seed % 2;
      scenario.kills = seed % 3;
      scenario.notices = seed % 2;
      scenario.restarts = seed % 4;
      scenario.resumes = seed % 5 == 0 ? 1 : 0;
      scenario.mode_switches = seed % 2;
      ExpectOk(scenario);
    }
  }
  EXPECT_GE(changes, 20U);
}

/// People change what pulls bring, and leave it to the links what pushes are, while others die.
TEST(SimulationTest, WhatPullsBringChangesWhateverDies) {
  uint64_t changes = 0;
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kSsp, proto::Mode::kBsp}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      Scenario scenario = Quiet(mode);
      scenario.seed = seed;
      scenario.difference_bits = seed % 3 == 0 ? 8 : 0;
      scenario.local_steps = seed % 2 == 0 ? 4 : 1;
      scenario.overlap = scenario.local_steps == 1;
      scenario.train_samples = 400 * scenario.local_steps;
      scenario.chunk_kib = 3;  // in parts
      scenario.sets = 6;
      scenario.sets_pulls = true;
      scenario.disturbed_for = std::chrono::seconds(1);
      changes += Simulate(scenario).job.steps.changes;
      ExpectOk(scenario);
      scenario.network.loss = 0.02;
      scenario.network.break_connection = 0.01;
      scenario.checkpoint_every = std::chrono::milliseconds(200);
      scenario.server_detect = std::chrono::milliseconds(2400);
      scenario.server_kills = seed % 2;
      scenario.chunk_moves = seed % 3;
      scenario.kills = seed % 3;
      scenario.notices = seed % 2;
      scenario.restarts = seed % 4;
      ExpectOk(scenario);
    }
  }
  EXPECT_GE(changes, 30U);
}

/// People change several things in one instant, pause the job while its mode changes, or want
/// nobody for a while, and the coordinator ends.
TEST(SimulationTest, ChangesThatComeTogetherAllHappen) {
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kSsp, proto::Mode::kBsp}) {
    for (uint32_t seed = 1; seed <= 5; ++seed) {
      Scenario scenario = Quiet(mode);
      scenario.seed = seed;
      scenario.train_samples = 400;
      scenario.checkpoint_every = std::chrono::milliseconds(200);
      scenario.joint_changes = 3;
      scenario.is_replacing = seed % 2 == 0;
      scenario.scales_to_none = scenario.is_replacing ? 1 : 0;
      scenario.disturbed_for = std::chrono::seconds(1);
      ExpectOk(scenario);
      scenario.kills = seed % 3;
      scenario.server_kills = seed % 2;
      ExpectOk(scenario);
    }
  }
}

/// The last epoch's evaluation is all that is left, and the last worker is lost.
TEST(SimulationTest, AWorkerIsStartedForAnEvaluationThatIsLeft) {
  Scenario s;
  s.seed = 2000000441;
  s.shards = 1;
  s.workers = 5;
  s.epochs = 1;
  s.train_samples = 163;
  s.kills = 1;
  s.multi_kills = 2;
  s.faults_at_leave = 1;
  s.is_replacing = true;
  s.scales = 3;
  s.disturbed_for = Duration(1171000000);
  ExpectOk(s);
}

/// In its place another process goes on from the newest checkpoint, whatever is going on.
TEST(SimulationTest, AServerThatDiesComesBackFromItsCheckpoint) {
  for (const proto::Mode mode : {proto::Mode::kAsync, proto::Mode::kSsp}) {
    for (uint32_t seed = 1; seed <= 10; ++seed) {
      Scenario scenario = Quiet(mode);
      scenario.seed = seed;
      scenario.checkpoint_every = std::chrono::milliseconds(300);
      scenario.disk_delay_max = std::chrono::milliseconds(20);
      scenario.server_detect = std::chrono::milliseconds(2400);
      scenario.server_kills = 1 + seed % 2;
      scenario.server_kills_at_checkpoint = seed % 2;
      scenario.server_kills_at_restore = seed % 3 == 0 ? 1 : 0;
      scenario.server_stalls = seed % 4 == 0 ? 1 : 0;
      scenario.kills = seed % 3;
      scenario.restarts = seed % 2;
      scenario.disturbed_for = std::chrono::seconds(2);
      ExpectOk(scenario);
    }
  }
}

/// Several at one instant, with the coordinator, and from a disk that has changed a bit: it is
/// said, and an older checkpoint taken, or the run ends when there is none.
TEST(SimulationTest, ServersThatDieTogetherOrWithTheirDiskComeBack) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Scenario scenario = Quiet(seed % 2 == 0 ? proto::Mode::kAsync : proto::Mode::kSsp);
    scenario.seed = seed;
    scenario.shards = 3;
    scenario.checkpoint_every = std::chrono::milliseconds(200);
    scenario.checkpoint_keep = 3;
    scenario.server_detect = std::chrono::milliseconds(2400);
    scenario.server_multi_kills = seed % 3 == 0 ? 1 : 0;
    scenario.server_kills_with_coordinator = seed % 3 == 1 ? 2 : 0;
    scenario.server_kills_with_damage = seed % 3 == 2 ? 2 : 1;
    scenario.disturbed_for = std::chrono::seconds(2);
    ExpectOk(scenario);
  }
}

/// A block of seeds a test, so that the blocks run in parallel.
class SeedsTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  static constexpr uint64_t kBlock = 50;

  static void ExpectBlockOk(uint64_t begin) {
    for (uint64_t seed = begin; seed < begin + kBlock; ++seed) {
      ExpectOk(RandomScenario(seed));
      if (HasFailure()) {
        return;  // the first one is the one to look at
      }
    }
  }
};

TEST_P(SeedsTest, EveryInvariantHoldsThroughEveryFault) {
  ExpectBlockOk(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Fixed, SeedsTest, ::testing::Range<uint64_t>(1000, 1400, 50), [](const auto& entry) {
      return "From" + std::to_string(entry.param);
    });

/// Seeds that nobody has run before: of the text in SPOTPS_FRESH_SEEDS (a commit, say), else of the
/// date.
class FreshSeedsTest : public SeedsTest {
 protected:
  static uint64_t First() {
    constexpr int64_t kMicrosADay = int64_t{86'400} * 1'000'000;
    const char* const text = std::getenv("SPOTPS_FRESH_SEEDS");
    const uint64_t source = text != nullptr && *text != '\0'
                                ? Crc32c(std::as_bytes(std::span(std::string_view(text))))
                                : static_cast<uint64_t>(SystemTime().UnixMicros() / kMicrosADay);
    constexpr uint64_t kSeedMin = 1'000'000'000;
    return kSeedMin + Mix64(source) % kSeedMin * 1000;
  }
};

TEST_P(FreshSeedsTest, EveryInvariantHoldsThroughEveryFault) {
  ExpectBlockOk(First() + GetParam());
}

INSTANTIATE_TEST_SUITE_P(Some, FreshSeedsTest, ::testing::Values<uint64_t>(0, 50));

}  // namespace
}  // namespace ps::sim
