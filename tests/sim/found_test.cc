// Scenarios that broke a promise once, each written down as the smallest one that did.

#include <gtest/gtest.h>

#include "tests/sim/expect_ok.h"

namespace ps::sim {
namespace {

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

/// A worker was told, late, of servers that had no address yet, by which it then looked for them.
TEST(FoundTest, NoWorkerLooksForServersThatHaveNoAddressYet) {
  Scenario s;
  s.seed = 15000163782;
  s.mode = proto::Mode::kSsp;
  s.staleness_max = 0;
  s.overlap = false;
  s.shards = 3;
  s.workers = 1;
  s.epochs = 1;
  s.train_samples = 24;
  s.has_values = true;
  s.network.duplication = 0.041806454933105801;
  s.network.reorder = 0.19402032409899539;
  s.network.stall = 0.046222685142070979;
  s.network.stall_max = Duration(250000000);
  s.network.break_connection = 0.0020897625027140629;
  s.restarts = 1;
  s.clock_skew = Duration(54931640);
  s.checkpoint_every = Duration(443000000);
  s.checkpoint_keep = 1;
  s.disk_delay_max = Duration(2000000);
  s.is_replacing = true;
  s.scales = 3;
  s.server_scales = 3;
  s.mode_switches = 1;
  s.job_pauses = 1;
  s.joint_changes = 2;
  s.scales_to_none = 1;
  s.chunk_moves = 2;
  s.park_after = Duration(84000000);
  s.disturbed_for = Duration(2763000000);
  ExpectOk(s);
}

/// Servers were given up and the mode changed to bsp. A worker heard late where the next ones are:
/// for its round it asked one that was given up and had not heard of bsp, which answered.
TEST(FoundTest, AServerThatWasGivenUpAnswersNoPullOfARound) {
  Scenario s;
  s.seed = 19000047237;
  s.staleness_max = 0;
  s.overlap = false;
  s.workers = 9;
  s.epochs = 1;
  s.train_samples = 214;
  s.chunk_kib = 3;
  s.optimizer = 1;
  s.has_schedule = true;
  s.has_bf16_slots = true;
  s.network.loss = 0.003284813719495253;
  s.network.duplication = 0.044886801536653288;
  s.network.reorder = 0.20594744253728792;
  s.network.stall = 0.026734935703238673;
  s.network.stall_max = Duration(250000000);
  s.kills_at_message = 1;
  s.notices = 1;
  s.hangs = 1;
  s.extra_joins = 2;
  s.clock_skew = Duration(3600000000000);
  s.checkpoint_every = Duration(239000000);
  s.checkpoint_keep = 1;
  s.is_compressed = true;
  s.disk_delay_max = Duration(7000000);
  s.server_detect = Duration(2400000000);
  s.server_stalls = 1;
  s.server_revocations = 1;
  s.server_cuts = 1;
  s.server_scales = 2;
  s.joint_changes = 3;
  s.disturbed_for = Duration(1576000000);
  ExpectOk(s);
}

}  // namespace
}  // namespace ps::sim
