// Faults that are made on purpose, so that it is seen that the oracle finds them.

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/sim/cluster.h"
#include "tests/sim/expect_ok.h"

namespace ps::sim {
namespace {

/// A run that loses servers often.
Scenario Rough(uint64_t seed) {
  Scenario scenario = Quiet(proto::Mode::kAsync);
  scenario.seed = seed;
  scenario.workers = 5;
  scenario.train_samples = 400;
  scenario.checkpoint_every = std::chrono::milliseconds(150);
  scenario.checkpoint_keep = 3;
  scenario.server_kills = 3;
  scenario.disturbed_for = std::chrono::seconds(2);
  return scenario;
}

/// One whose mode changes often.
Scenario Switching(uint64_t seed) {
  Scenario scenario = Quiet(proto::Mode::kAsync);
  scenario.seed = seed;
  scenario.train_samples = 400;
  scenario.mode_switches = 5;
  scenario.disturbed_for = std::chrono::seconds(1);
  scenario.time_limit = std::chrono::seconds(20);
  return scenario;
}

/// One whose chunks move often.
Scenario Moving(uint64_t seed) {
  Scenario scenario = Rough(seed);
  scenario.server_kills = 0;
  scenario.chunk_moves = 5;
  scenario.server_scales = 3;
  return scenario;
}

/// One that more workers join than its job lists.
Scenario Growing(uint64_t seed) {
  Scenario scenario = Quiet(proto::Mode::kAsync);
  scenario.seed = seed;
  scenario.train_samples = 400;
  scenario.is_listed = true;
  scenario.extra_joins = 4;
  return scenario;
}

/// The same with a momentum that moves when as many have pushed as there are.
Scenario GrowingWithMomentum(uint64_t seed) {
  Scenario scenario = Growing(seed);
  scenario.local_steps = 2;
  scenario.overlap = false;
  scenario.optimizer = 2;
  return scenario;
}

/// One whose servers are cut off, in one direction or in both, and are given up.
Scenario Cut(uint64_t seed) {
  Scenario scenario = Rough(seed);
  scenario.server_kills = 0;
  scenario.train_samples = 800;
  scenario.server_detect = std::chrono::milliseconds(1300);
  scenario.server_cuts = seed % 2;
  scenario.server_one_way_cuts = 4;
  scenario.one_way_cuts = 2;
  return scenario;
}

/// One whose chunks move all the time between two servers, which are cut off from each other.
Scenario CutAndMoving(uint64_t seed) {
  Scenario scenario = Moving(seed);
  scenario.server_scales = 0;
  scenario.chunk_moves = 30;
  scenario.server_detect = std::chrono::milliseconds(2400);
  scenario.train_samples = 1000;
  scenario.server_cuts = 4;
  return scenario;
}

/// One whose servers hear no more of each other and are still heard, or the other way round.
Scenario HalfCutAndMoving(uint64_t seed) {
  Scenario scenario = CutAndMoving(seed);
  scenario.server_cuts = 0;
  scenario.server_one_way_cuts = 8;
  return scenario;
}

/// One some of whose gradients are not finite.
Scenario NotFinite(uint64_t seed) {
  Scenario scenario = Quiet(proto::Mode::kAsync);
  scenario.seed = seed;
  scenario.train_samples = 400;
  scenario.not_finite_every = 8;
  scenario.kills = seed % 3;
  scenario.disturbed_for = std::chrono::seconds(1);
  scenario.time_limit = std::chrono::seconds(60);
  return scenario;
}

Scenario NotFiniteInRounds(uint64_t seed) {
  Scenario scenario = NotFinite(seed);
  scenario.mode = proto::Mode::kBsp;
  return scenario;
}

/// One of long steps whose workers are told to leave.
Scenario Local(uint64_t seed) {
  Scenario scenario = Quiet(proto::Mode::kAsync);
  scenario.seed = seed;
  scenario.local_steps = 4;
  scenario.overlap = false;
  scenario.train_samples = 600;
  scenario.several_notices = 6;
  scenario.disturbed_for = std::chrono::seconds(2);
  scenario.time_limit = std::chrono::seconds(60);
  return scenario;
}

/// One whose steps people change, to other numbers of local steps above all.
Scenario SetLocal(uint64_t seed) {
  Scenario scenario = Local(seed);
  scenario.several_notices = 0;
  scenario.sets = 6;
  return scenario;
}

/// One with optimizer state and a schedule, both of which survive servers and move with chunks.
Scenario Stateful(uint64_t seed) {
  Scenario scenario = Rough(seed);
  scenario.optimizer = 1 + seed % 4;
  scenario.has_bf16_slots = seed % 3 == 0;
  scenario.has_schedule = seed % 2 == 0;
  return scenario;
}

Scenario StatefulAndMoving(uint64_t seed) {
  Scenario scenario = Moving(seed);
  scenario.optimizer = 1 + seed % 4;
  scenario.has_schedule = true;
  return scenario;
}

/// One whose servers have two shards each, which die together.
Scenario Paired(uint64_t seed) {
  Scenario scenario = Rough(seed);
  scenario.shards_per_server = 2;
  return scenario;
}

/// One whose stores lose what is not flushed, and can't be opened for a while.
Scenario Failing(uint64_t seed) {
  Scenario scenario = Rough(seed);
  scenario.server_kills = 0;
  scenario.workers = 1;
  scenario.straggles = 1;  // so that some chunks are as they were in the checkpoint before
  scenario.train_samples = 100;
  scenario.epochs = 1;
  scenario.checkpoint_every = std::chrono::milliseconds(20);
  scenario.disk_delay_max = std::chrono::milliseconds(10);
  scenario.store_losses = 20;
  return scenario;
}

/// One whose gradients travel in fewer bits, with error feedback.
Scenario HeldBackRun(uint64_t seed) {
  Scenario scenario = Rough(seed);
  scenario.is_held_back = true;
  return scenario;
}

/// One whose workers are told to leave then.
Scenario HandingOver(uint64_t seed) {
  Scenario scenario = Local(seed);
  scenario.is_held_back = true;
  scenario.local_steps = seed % 2 == 0 ? 4 : 1;
  return scenario;
}

/// One whose pulls are differences, some of which are lost.
Scenario Differing(uint64_t seed) {
  Scenario scenario = Quiet(proto::Mode::kAsync);
  scenario.seed = seed;
  scenario.train_samples = 400;
  scenario.difference_bits = seed % 2 == 0 ? 8 : 4;
  scenario.network.loss = 0.02;
  scenario.disturbed_for = std::chrono::seconds(2);
  scenario.time_limit = std::chrono::seconds(60);
  return scenario;
}

/// One whose pulls begin as they are, and are differences when people say so.
Scenario SetPulls(uint64_t seed) {
  Scenario scenario = Differing(seed);
  scenario.difference_bits = 0;
  scenario.sets = 6;
  scenario.sets_pulls = true;
  return scenario;
}

/// One whose servers and workers stand still for ever.
Scenario Frozen(uint64_t seed) {
  Scenario scenario = Rough(seed);
  scenario.server_kills = 0;
  scenario.server_detect = std::chrono::milliseconds(2400);
  scenario.server_freezes = 1;
  scenario.freezes = 2;
  scenario.time_limit = std::chrono::seconds(120);
  return scenario;
}

/// One of whose workers one stands still for ever, and the rest wait for it.
Scenario Standing(uint64_t seed) {
  Scenario scenario = Quiet(proto::Mode::kBsp);
  scenario.seed = seed;
  scenario.train_samples = 2000;
  scenario.is_replacing = true;
  scenario.freezes = 1;
  scenario.disturbed_for = std::chrono::seconds(1);
  scenario.time_limit = std::chrono::seconds(120);
  return scenario;
}

/// One whose coordinator's disk is full now and then.
Scenario Full(uint64_t seed) {
  Scenario scenario = Quiet(proto::Mode::kAsync);
  scenario.seed = seed;
  scenario.train_samples = 400;
  scenario.journal_faults = 3;
  scenario.disturbed_for = std::chrono::seconds(2);
  return scenario;
}

/// One whose processes agree on no time.
Scenario Skewed(uint64_t seed) {
  Scenario scenario = Quiet(proto::Mode::kAsync);
  scenario.seed = seed;
  scenario.clock_skew = std::chrono::hours(1);
  scenario.kills = 3;
  scenario.restarts = 2;
  scenario.disturbed_for = std::chrono::seconds(1);
  scenario.time_limit = std::chrono::seconds(60);
  return scenario;
}

/// One that is resumed, in whatever mode.
Scenario Resumed(uint64_t seed) {
  Scenario scenario = Rough(seed);
  scenario.mode = static_cast<proto::Mode>(seed % 3);
  scenario.server_kills = 0;
  scenario.train_samples = 800;
  scenario.resumes = 2;
  return scenario;
}

/// One whose coordinator stands still until it is killed.
Scenario Still(uint64_t seed) {
  Scenario scenario = Quiet(proto::Mode::kAsync);
  scenario.seed = seed;
  scenario.train_samples = 400;
  scenario.coordinator_freezes = 2;
  scenario.disturbed_for = std::chrono::seconds(2);
  return scenario;
}

/// Whether the oracle has something with `text` against one of some runs, or it ends so.
bool Finds(
    Sabotage sabotage,
    const std::string& text,
    const std::function<Scenario(uint64_t seed)>& run = Rough) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Scenario scenario = run(seed);
    scenario.sabotage = sabotage;
    scenario.log_detail = LogDetail::kNone;
    const Outcome outcome = Simulate(scenario);
    std::string found = outcome.is_finished ? outcome.status.ToString() : "not finished";
    for (const std::string& violation : outcome.violations) {
      found += "\n" + violation;
    }
    if (found.find(text) != std::string::npos) {
      return true;
    }
  }
  return false;
}

TEST(SabotageTest, NothingIsFoundWhereNothingIsBroken) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    ExpectOk(Rough(seed));
    ExpectOk(Switching(seed));
    ExpectOk(Cut(seed));
    ExpectOk(CutAndMoving(seed));
    ExpectOk(HalfCutAndMoving(seed));
    ExpectOk(NotFinite(seed));
    ExpectOk(Local(seed));
    ExpectOk(SetLocal(seed));
    ExpectOk(NotFiniteInRounds(seed));
    ExpectOk(Stateful(seed));
    ExpectOk(StatefulAndMoving(seed));
    ExpectOk(Paired(seed));
    ExpectOk(Failing(seed));
    ExpectOk(HeldBackRun(seed));
    ExpectOk(HandingOver(seed));
    ExpectOk(Differing(seed));
    ExpectOk(SetPulls(seed));
    ExpectOk(Frozen(seed));
    ExpectOk(Standing(seed));
    ExpectOk(Full(seed));
    ExpectOk(Skewed(seed));
    ExpectOk(Resumed(seed));
    ExpectOk(Still(seed));
  }
}

TEST(SabotageTest, AJobThatIsResumedAsItWasBeforeItsCheckpointIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kOlderState, "count twice", Resumed));
}

TEST(SabotageTest, IncarnationsThatAResumedJobGivesAgainAreFound) {
  EXPECT_TRUE(Finds(Sabotage::kUsedNumbers, "was applied twice to a chunk", Resumed));
}

TEST(SabotageTest, WhatAFrozenCoordinatorSaysWhenItWakesAndDoesNotWriteDownIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kSpeaksInVain, "unavailable: server", Still));
}

TEST(SabotageTest, ANaNThatIsTakenForANumberIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kTakenNaN, "is not finite and changed a chunk", NotFinite));
}

TEST(SabotageTest, ARoundWithAStepThatIsNotFiniteIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kHiddenRejection, "which is not finite", NotFiniteInRounds));
}

/// Workers still reach a server that the coordinator has given up.
TEST(SabotageTest, AStepOfAServerThatIsCutOffAndCountsForItsSuccessorIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kLivesNotSeen, "was not reported as undone", Cut));
}

/// Their connections end in no other way here.
TEST(SabotageTest, ChunksThatAreTakenForGivenWhereServersAreCutOffFromEachOtherAreFound) {
  EXPECT_TRUE(Finds(Sabotage::kTakenWhenClosed, "before it was applied in full", CutAndMoving));
}

TEST(SabotageTest, ChunksThatAreTakenForGivenWhereServersAreCutOffInOneDirectionAreFound) {
  EXPECT_TRUE(Finds(Sabotage::kTakenWhenClosed, "before it was applied in full", HalfCutAndMoving));
}

TEST(SabotageTest, AWorkerThatStandsStillAndIsNeverGivenUpIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kEndlessPatience, "not finished", Standing));
}

TEST(SabotageTest, ALossThatIsNotReportedBesideAnotherIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kFirstLossAlone, "are said to be undone"));
}

TEST(SabotageTest, OptimizerStateThatIsNotRestoredIsFound) {
  for (uint32_t optimizer = 1; optimizer <= 4; ++optimizer) {
    for (const bool has_bf16_slots : {false, true}) {
      const auto run = [=](uint64_t seed) {
        Scenario scenario = Stateful(seed);
        scenario.optimizer = optimizer;
        scenario.has_bf16_slots = has_bf16_slots;
        return scenario;
      };
      EXPECT_TRUE(Finds(Sabotage::kForgottenSlots, "is not what the applied pushes make it", run))
          << optimizer << (has_bf16_slots ? ", slots as bf16" : "");
    }
  }
}

TEST(SabotageTest, AScheduleThatBeginsAnewWithALifeIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kForgottenClock, "the schedule of shard", Stateful));
}

TEST(SabotageTest, AScheduleThatBeginsAnewWhereChunksComeIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kForgottenClock, "the schedule of shard", StatefulAndMoving));
}

TEST(SabotageTest, ARateThatDoesNotFollowTheWorkersIsFound) {
  const std::string text = "is not what the applied pushes make it";
  EXPECT_TRUE(Finds(Sabotage::kFleetNotSeen, text, Growing));
  EXPECT_TRUE(Finds(Sabotage::kFleetNotSeen, text, GrowingWithMomentum));
}

TEST(SabotageTest, RecordsThatAStoreLostAndAShardRefersToAreFound) {
  EXPECT_TRUE(Finds(Sabotage::kMissedLoss, "can't be restored", Failing));
}

TEST(SabotageTest, ACoordinatorThatGoesOnFromAJournalThatFellBehindIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kOldJournal, "from a journal that fell behind", Full));
}

TEST(SabotageTest, AJournalOfWhichNobodyRemembersThatItFellBehindIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kForgottenBehind, "from a journal that fell behind", Full));
}

TEST(SabotageTest, AClockThatIsTakenForThatOfAnotherProcessIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kSharedClock, "not finished", Skewed));
}

TEST(SabotageTest, AFrozenServerThatNobodyKillsIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kNobodyKilled, "not finished", Frozen));
}

TEST(SabotageTest, OneShardOfAProcessThatGoesBackFurtherThanTheOtherIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kOtherCheckpoint, "is not what the applied pushes make it", Paired));
}

TEST(SabotageTest, ShardsThatStayInAnEarlierModeAreFound) {
  EXPECT_TRUE(Finds(Sabotage::kEarlierMode, "steps ahead", Switching));
}

TEST(SabotageTest, ASwitchThatOneServerAloneMakesIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kModeOfOneServer, "steps ahead", Switching));
}

/// A shard takes no step of a round that it does not know, so bsp stands still.
TEST(SabotageTest, RoundsThatAreMixedUpAtASwitchAreFound) {
  EXPECT_TRUE(Finds(Sabotage::kOtherRound, "not finished", Switching));
}

TEST(SabotageTest, AnOlderCheckpointThanToldIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kOlderCheckpoint, "is not what the applied pushes make it"));
}

TEST(SabotageTest, ACheckpointThatLacksAPartIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kMissingPart, "exists without a part of shard"));
}

TEST(SabotageTest, AStepOfAnEarlierLifeThatIsAcknowledgedIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kMixedLives, "before it was applied in full"));
}

TEST(SabotageTest, AStepThatAChunkHasAndItsTakerDoesNotKnowOfIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kForgottenAhead, "was applied twice to a chunk", Moving));
}

TEST(SabotageTest, AStepThatATakerCountsAndItsChunksLackIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kStepTooMany, "before it was applied in full", Moving));
}

TEST(SabotageTest, AStepThatEndedEarlyAndIsPassedOffAsAWholeOneIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kWholeStep, "samples, and is of", Local));
}

TEST(SabotageTest, APushByTheLocalStepsOfBeforeIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kStepsOfBefore, "is not what the applied pushes make it", SetLocal));
}

TEST(SabotageTest, ALossThatIsNotReportedIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kHiddenLoss, "are lost with parameters"));
}

TEST(SabotageTest, AResidualThatIsAppliedTwiceIsFound) {
  EXPECT_TRUE(
      Finds(Sabotage::kDoubledResidual, "is not what the applied pushes make it", HeldBackRun));
}

TEST(SabotageTest, AResidualThatIsHandedOverTwiceIsFound) {
  EXPECT_TRUE(
      Finds(Sabotage::kDoubledHandOver, "is not what the applied pushes make it", HandingOver));
}

TEST(SabotageTest, ADifferenceThatIsAddedTwiceIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kDoubledDifference, "that no shard had since", Differing));
}

TEST(SabotageTest, ADifferenceThatIsAddedToAnotherValueThanItIsOfIsFound) {
  EXPECT_TRUE(Finds(Sabotage::kAnyBase, "that no shard had since", Differing));
}

TEST(SabotageTest, WhatWorkersHoldIsKnownWhereWhatPullsBringChanges) {
  EXPECT_TRUE(Finds(Sabotage::kDoubledDifference, "that no shard had since", SetPulls));
  EXPECT_TRUE(Finds(Sabotage::kAnyBase, "that no shard had since", SetPulls));
}

TEST(SabotageTest, NobodyTakesACoordinatorOfAnEarlierTermForTheRunsOwn) {
  Scenario scenario = Quiet(proto::Mode::kAsync);
  scenario.restarts = 2;
  scenario.disturbed_for = std::chrono::seconds(1);
  scenario.time_limit = std::chrono::seconds(60);
  EXPECT_TRUE(Simulate(scenario).is_finished);
  scenario.sabotage = Sabotage::kEarlierTerm;
  const Outcome outcome = Simulate(scenario);
  EXPECT_FALSE(outcome.is_finished && outcome.status.ok()) << "it trained with an earlier term";
}

}  // namespace
}  // namespace ps::sim
