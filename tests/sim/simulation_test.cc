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

TEST(FoundTest, SlowerWorkersBecomeActiveWhileAnAnswerIsOnItsWay) {
  Scenario s;
  s.seed = 30000838;
  s.mode = proto::Mode::kSsp;
  s.staleness_max = 0;
  s.overlap = false;
  s.shards = 1;
  s.epochs = 1;
  s.train_samples = 57;
  s.chunk_kib = 2;
  s.network.stall_max = Duration(62500000);
  s.kills = 3;
  s.multi_kills = 1;
  s.disturbed_for = Duration(2154000000);
  ExpectOk(s);
}

TEST(FoundTest, AWorkerThatCameBackJoinsOnce) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Scenario s;
    s.seed = seed;
    s.overlap = false;
    s.shards = 1;
    s.workers = 1;
    s.epochs = 1;
    s.train_samples = 400;
    s.hangs = 1;
    s.disturbed_for = std::chrono::seconds(1);
    const Outcome outcome = Simulate(s);
    EXPECT_TRUE(outcome.ok()) << seed;
    EXPECT_LE(outcome.job.joins, 2U) << seed << ": it threw a fresh incarnation away";
  }
}

/// A server that had stalled was given up, and ended after the job was done.
TEST(FoundTest, TheEndOfAReplacedServerCostsNoModel) {
  Scenario s;
  s.seed = 5286;
  s.staleness_max = 3;
  s.overlap = false;
  s.shards = 1;
  s.workers = 2;
  s.epochs = 1;
  s.train_samples = 198;
  s.notices = 3;
  s.partitions = 1;
  s.faults_at_join = 4;
  s.checkpoint_every = Duration(492000000);
  s.disk_delay_max = Duration(200000000);
  s.server_detect = Duration(2400000000);
  s.server_stalls = 2;
  s.disturbed_for = Duration(831000000);
  ExpectOk(s);
}

TEST(FoundTest, ServersStayThroughALossyNetwork) {
  Scenario s;
  s.shards = 3;
  s.workers = 2;
  s.epochs = 1;
  s.network.loss = 0.1;
  ExpectOk(s);
}

/// A server came back, took a worker's next step and lacked those before it; the worker died before
/// it had reported them.
TEST(FoundTest, StepsThatAreCountedForOneWhoIsGoneAndThatAServerLostAreUndone) {
  Scenario s;
  s.seed = 530001814;
  s.staleness_max = 0;
  s.shards = 3;
  s.workers = 2;
  s.train_samples = 419;
  s.chunk_kib = 3;
  s.network.loss = 0.018126087897799587;
  s.network.duplication = 0.027580002236394022;
  s.network.reorder = 0.12162976797100877;
  s.network.stall = 0.0094218450120378168;
  s.network.stall_max = Duration(250000000);
  s.network.break_connection = 0.00058948583160274961;
  s.kills = 1;
  s.kills_at_message = 3;
  s.notices = 2;
  s.partitions = 2;
  s.extra_joins = 2;
  s.checkpoint_every = Duration(564000000);
  s.checkpoint_keep = 3;
  s.disk_delay_max = Duration(9000000);
  s.server_detect = Duration(2400000000);
  s.server_kills = 1;
  s.server_kills_at_checkpoint = 1;
  s.server_multi_kills = 1;
  s.disturbed_for = Duration(3134000000);
  ExpectOk(s);
}

/// A worker that got no lease while the job was in ssp computed the first step of bsp with what the
/// last round before had left.
TEST(FoundTest, WhoGotNoLeaseInAnotherModeComputesWithTheParametersOfNow) {
  Scenario s;
  s.seed = 2600001239;
  s.mode = proto::Mode::kBsp;
  s.staleness_max = 3;
  s.overlap = false;
  s.shards = 3;
  s.workers = 5;
  s.epochs = 1;
  s.train_samples = 235;
  s.chunk_kib = 3;
  s.partitions = 2;
  s.hangs = 1;
  s.pauses = 3;
  s.extra_joins = 3;
  s.restarts = 3;
  s.is_replacing = true;
  s.scales = 2;
  s.mode_switches = 3;
  s.disturbed_for = Duration(3044000000);
  ExpectOk(s);
}

/// What a cancelled worker had asked came when somebody else had its seat, who was displaced.
TEST(FoundTest, WhatACancelledWorkerAskedDisplacesNobody) {
  Scenario s;
  s.seed = 2600013198;
  s.mode = proto::Mode::kBsp;
  s.staleness_max = 0;
  s.overlap = false;
  s.workers = 2;
  s.train_samples = 108;
  s.epochs = 1;
  s.has_values = true;
  s.network.duplication = 0.029283201974475183;
  s.network.reorder = 0.064099155651652709;
  s.network.stall = 0.02031453737371381;
  s.network.stall_max = Duration(250000000);
  s.extra_joins = 4;
  s.restarts = 1;
  s.is_replacing = true;
  s.scales = 3;
  s.mode_switches = 3;
  s.job_pauses = 3;
  s.disturbed_for = Duration(1885000000);
  ExpectOk(s);
}

/// A worker that nobody had launched was started a second time by the next coordinator while it
/// came back from a move of the servers, and was displaced.
TEST(FoundTest, AWorkerThatComesBackFromAMoveIsNotStartedASecondTime) {
  Scenario s;
  s.seed = 2600002374;
  s.staleness_max = 0;
  s.overlap = false;
  s.shards = 1;
  s.workers = 1;
  s.epochs = 1;
  s.train_samples = 179;
  s.chunk_kib = 3;
  s.network.stall_max = Duration(62500000);
  s.extra_joins = 3;
  s.restarts = 1;
  s.checkpoint_every = Duration(59875000);
  s.checkpoint_keep = 1;
  s.has_few_seats = true;
  s.server_scales = 1;
  s.mode_switches = 1;
  s.disturbed_for = Duration(1650000000);
  ExpectOk(s);
}

/// The servers moved while it left; it came back, and its release was taken for a revocation.
TEST(FoundTest, AReleasedWorkerThatComesBackFromAMoveIsNoRevocation) {
  Scenario s;
  s.seed = 2600017898;
  s.mode = proto::Mode::kBsp;
  s.staleness_max = 0;
  s.overlap = false;
  s.shards = 3;
  s.workers = 1;
  s.epochs = 1;
  s.train_samples = 53;
  s.chunk_kib = 3;
  s.network.stall_max = Duration(62500000);
  s.network.break_connection = 0.0049659653938470228;
  s.extra_joins = 2;
  s.checkpoint_every = Duration(210000000);
  s.is_compressed = true;
  s.disk_delay_max = Duration(200000000);
  s.is_replacing = true;
  s.scales = 3;
  s.server_scales = 2;
  s.disturbed_for = Duration(1284000000);
  ExpectOk(s);
}

/// A server lost steps of a worker that died before it had reported them, and the coordinator was
/// another one by then: it did not know which lives the worker had found.
TEST(FoundTest, StepsOfOneWhoDiesAfterACoordinatorThatAServerLostAreUndone) {
  Scenario s;
  s.seed = 2700021072;
  s.staleness_max = 1;
  s.shards = 3;
  s.workers = 2;
  s.train_samples = 393;
  s.chunk_kib = 2;
  s.network.loss = 0.013586242252285115;
  s.network.duplication = 0.057790775215627893;
  s.network.reorder = 0.050482486516358747;
  s.network.stall = 0.0012823212126778839;
  s.network.stall_max = Duration(250000000);
  s.network.break_connection = 0.0048834319907468679;
  s.kills_at_message = 3;
  s.partitions = 2;
  s.pauses = 1;
  s.restarts = 1;
  s.checkpoint_every = Duration(142000000);
  s.checkpoint_keep = 3;
  s.is_compressed = true;
  s.disk_delay_max = Duration(8000000);
  s.server_detect = Duration(2400000000);
  s.server_kills_at_checkpoint = 1;
  s.disk_faults = 2;
  s.is_replacing = true;
  s.scales = 2;
  s.server_scales = 1;
  s.mode_switches = 2;
  s.disturbed_for = Duration(1215000000);
  ExpectOk(s);
}

/// A manifest could not be read any more, so another coordinator did not know how many steps its
/// checkpoint had, and reported fewer as undone.
TEST(FoundTest, AnotherCoordinatorKnowsWhatADamagedCheckpointCounted) {
  Scenario s;
  s.seed = 2700090971;
  s.staleness_max = 3;
  s.overlap = false;
  s.shards = 1;
  s.train_samples = 324;
  s.faults_at_join = 4;
  s.checkpoint_every = Duration(571000000);
  s.is_compressed = true;
  s.disk_delay_max = Duration(7000000);
  s.server_detect = Duration(2400000000);
  s.server_kills = 1;
  s.server_kills_with_coordinator = 1;
  s.server_kills_with_damage = 1;
  s.server_scales = 3;
  s.disturbed_for = Duration(2440000000);
  ExpectOk(s);
}

/// Two switches to bsp and back came so near to each other that a shard saw bsp only, and did not
/// take the number of the rounds.
TEST(FoundTest, AShardMissesNoModeThatIsInForceForAMoment) {
  Scenario s;
  s.seed = 2700007708;
  s.mode = proto::Mode::kSsp;
  s.staleness_max = 3;
  s.shards = 1;
  s.workers = 1;
  s.train_samples = 200;
  s.chunk_kib = 2;
  s.network.loss = 0.0011709568477550069;
  s.network.duplication = 0.022257474197836847;
  s.network.reorder = 0.22861826110128078;
  s.network.stall = 0.044575692106508406;
  s.network.stall_max = Duration(250000000);
  s.network.break_connection = 0.0086622865617235843;
  s.kills_at_message = 4;
  s.hangs = 1;
  s.faults_at_join = 3;
  s.extra_joins = 1;
  s.mode_switches = 4;
  s.job_pauses = 2;
  s.disturbed_for = Duration(1065000000);
  ExpectOk(s);
}

/// Workers had come by hand while there were more servers than chunks were moved to: bsp stood
/// still for want of room for their gradients.
TEST(FoundTest, ChunksThatHaveNoRoomWait) {
  Scenario s;
  s.seed = 9710000578;
  s.mode = proto::Mode::kBsp;
  s.workers = 2;
  s.epochs = 1;
  s.train_samples = 832;
  s.chunk_kib = 64;
  s.frame_kib = 32;
  s.model_kib = 507;
  s.network.break_connection = 0.0034775404768747774;
  s.extra_joins = 3;
  s.restarts = 2;
  s.checkpoint_every = Duration(944000000);
  s.checkpoint_keep = 1;
  s.is_compressed = true;
  s.disk_delay_max = Duration(9000000);
  s.disk_faults = 3;
  s.is_replacing = true;
  s.scales = 1;
  s.server_scales = 2;
  s.mode_switches = 2;
  s.joint_changes = 3;
  s.chunk_moves = 4;
  s.sits_out = true;
  s.straggles = 1;
  s.disturbed_for = Duration(3220000000);
  ExpectOk(s);
}

/// The only checkpoint is damaged, so the run fails; a server that lacks its values was asked for
/// the model for ever.
TEST(FoundTest, ARunEndsWhenNoCheckpointCanBeRestored) {
  Scenario s;
  s.seed = 700000159;
  s.mode = proto::Mode::kBsp;
  s.staleness_max = 3;
  s.overlap = false;
  s.shards = 1;
  s.workers = 5;
  s.train_samples = 268;
  s.network.loss = 0.015148545376072166;
  s.network.duplication = 0.03437450146086303;
  s.network.reorder = 0.22266638434658589;
  s.network.stall = 0.0055169648551654689;
  s.network.stall_max = Duration(250000000);
  s.network.break_connection = 0.0087115805363454611;
  s.kills_at_message = 2;
  s.notices = 3;
  s.partitions = 2;
  s.checkpoint_every = Duration(156000000);
  s.checkpoint_keep = 1;
  s.disk_delay_max = Duration(3000000);
  s.server_kills_at_checkpoint = 1;
  s.server_stalls = 1;
  s.faults_at_return = 2;
  s.server_kills_with_damage = 1;
  s.disturbed_for = Duration(2378000000);
  ExpectOk(s);
}

/// The last worker left while chunks were on their way at the end of the run. The shard that came
/// back knew of that, the other one did not, and they waited for each other.
TEST(FoundTest, ChunksThatAreOnTheirWayAtTheEndArrive) {
  Scenario s;
  s.seed = 15000016804;
  s.staleness_max = 0;
  s.overlap = false;
  s.workers = 1;
  s.epochs = 1;
  s.train_samples = 28;
  s.network.stall = 0.0086743397329005663;
  s.network.stall_max = Duration(250000000);
  s.notices = 1;
  s.checkpoint_every = Duration(327500000);
  s.checkpoint_keep = 1;
  s.disk_delay_max = Duration(4000000);
  s.disk_faults = 3;
  s.store_losses = 1;
  s.server_cuts = 1;
  s.is_replacing = true;
  s.scales = 1;
  s.chunk_moves = 3;
  s.disturbed_for = Duration(1357000000);
  ExpectOk(s);
}

/// A gradient of bsp that was not finite came once more after the switch to ssp; the oracle took it
/// for another step.
TEST(FoundTest, WhatBspHasRejectedIsNoStepOfSsp) {
  Scenario s;
  s.seed = 15000061666;
  s.mode = proto::Mode::kBsp;
  s.staleness_max = 0;
  s.overlap = false;
  s.shards = 1;
  s.shards_per_server = 2;
  s.workers = 5;
  s.epochs = 1;
  s.train_samples = 77;
  s.chunk_kib = 3;
  s.is_held_back = true;
  s.optimizer = 2;
  s.has_schedule = true;
  s.not_finite_every = 25;
  s.network.loss = 0.022073088447080766;
  s.network.duplication = 0.012890083877008508;
  s.network.reorder = 0.13885036113817981;
  s.network.stall = 0.049253342472715921;
  s.network.stall_max = Duration(250000000);
  s.is_replacing = true;
  s.job_pauses = 2;
  s.joint_changes = 2;
  s.scales_to_none = 1;
  s.sits_out = true;
  s.straggles = 2;
  s.disturbed_for = Duration(3059000000);
  ExpectOk(s);
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
