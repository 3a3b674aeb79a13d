#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "checkpoint/job_store.h"
#include "ps/proto/state/shard_state.h"
#include "tests/server/shard_rig.h"

namespace ps::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// All earlier ones exist.
proto::CheckpointRequest Request(uint64_t checkpoint, uint64_t round = 0) {
  std::vector<uint64_t> kept;
  for (uint64_t earlier = 1; earlier < checkpoint; ++earlier) {
    kept.push_back(earlier);
  }
  return {checkpoint, round, kept};
}

/// A rig with a disk and one member.
class CheckpointRig : public ShardRig {
 public:
  explicit CheckpointRig(proto::Mode first = proto::Mode::kAsync) : ShardRig(first) {
    settings.checkpoints.path = "path";
    settings.optimizer.momentum = 0.5F;
  }

  void Begin() {
    SetUp();
    Deliver(kCoordinator, MembersUpTo(1));
    sent.all.clear();
  }

  proto::CheckpointReport OnlyReport() {
    const auto reports = Take<proto::CheckpointReport>();
    EXPECT_EQ(reports.size(), 1U);
    return reports.empty() ? proto::CheckpointReport() : reports[0].message;
  }

  /// A newer life that begins from a checkpoint.
  proto::ShardSetup Later(uint64_t life, uint64_t checkpoint) {
    proto::ShardSetup later = setup;
    later.life = life;
    later.restore = {checkpoint, kShard.value + 1};
    later.membership = MembersUpTo(1);
    return later;
  }
};

TEST(CheckpointTest, ARequestThatWasOvertakenBeginsNothing) {
  CheckpointRig rig;
  rig.Begin();
  rig.Deliver(kCoordinator, Request(2));
  rig.Push(rig.WholeStep(1, 1, 0.25F));
  rig.Deliver(kCoordinator, Request(3));
  rig.Push(rig.WholeStep(1, 2, 0.25F));
  rig.Deliver(kCoordinator, Request(2));
  rig.RunDisk();
  const proto::CheckpointReport report = rig.OnlyReport();
  EXPECT_EQ(report.code, StatusCode::kOk) << report.message;
  EXPECT_EQ(report.checkpoint, 3U);
}

TEST(CheckpointTest, HasTheParametersOfTheMomentItWasAskedFor) {
  CheckpointRig rig;
  rig.Begin();
  rig.Push(rig.WholeStep(1, 1, 0.25F));
  rig.Deliver(kCoordinator, Request(5));
  rig.Push(rig.WholeStep(1, 2, 0.25F));
  EXPECT_THAT(rig.Take<proto::CheckpointReport>(), testing::IsEmpty());
  rig.RunDisk();
  const proto::CheckpointReport report = rig.OnlyReport();
  EXPECT_EQ(report.code, StatusCode::kOk) << report.message;
  EXPECT_EQ(report.checkpoint, 5U);
  EXPECT_EQ(report.shard, kShard);
  EXPECT_EQ(report.sizes.chunks_written, 3U);
  const auto store =
      checkpoint::ShardStore::Open(rig.storage, "path", kShard, checkpoint::OpenMode::kRead);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto part = (*store)->ReadPart(5);
  ASSERT_TRUE(part.ok()) << part.status();
  const auto state = proto::DecodeShardState(part->state);
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_EQ(state->members.size(), 1U);
  EXPECT_EQ(state->members[0].last_step, 1U) << "the step that came later is not in it";

  const std::vector<float> now = rig.Values();
  rig.Deliver(kCoordinator, rig.Later(2, 5));
  rig.RunDisk();
  EXPECT_THAT(rig.Values(), ElementsAre(0.75F, 0.75F, 0.75F));
  EXPECT_THAT(rig.Versions(), ElementsAre(1, 1, 1));
  EXPECT_NE(now, rig.Values());
}

/// The coordinator is heard meanwhile.
void PassMinutes(CheckpointRig* rig, int minutes) {
  for (int second = 0; second < minutes * 60; ++second) {
    rig->Deliver(kCoordinator, proto::HeartbeatReply{Generation(1)});
    rig->Wait(std::chrono::seconds(1));
  }
}

/// While a checkpoint is open no mode changes, no chunk moves and no server hands over.
TEST(CheckpointTest, ADiskThatFinishesNothingIsGivenUpAndOneThatIsSlowIsNot) {
  CheckpointRig rig;
  rig.Begin();
  rig.Deliver(kCoordinator, Request(1));
  for (int i = 0; i < 4; ++i) {
    PassMinutes(&rig, 4);
    rig.RunDisk(1);
  }
  EXPECT_EQ(rig.OnlyReport().code, StatusCode::kOk) << "three chunks and the part in 16 minutes";
  rig.Push(rig.WholeStep(1, 1, 1));
  rig.Deliver(kCoordinator, Request(2));
  rig.RunDisk(1);
  PassMinutes(&rig, 4);
  EXPECT_THAT(rig.Take<proto::CheckpointReport>(), testing::IsEmpty());
  PassMinutes(&rig, 2);
  proto::CheckpointReport report = rig.OnlyReport();
  EXPECT_EQ(report.checkpoint, 2U);
  EXPECT_EQ(report.code, StatusCode::kDeadlineExceeded);
  EXPECT_THAT(report.message, HasSubstr("has finished nothing for 300 s"));
  const size_t waiting = rig.disk.requests.size();
  rig.Push(rig.WholeStep(1, 2, 1));
  rig.Deliver(kCoordinator, Request(3));
  EXPECT_EQ(rig.OnlyReport().code, StatusCode::kUnavailable) << "it has not answered yet";
  EXPECT_EQ(rig.disk.requests.size(), waiting) << "nothing more waits in memory";
  rig.RunDisk();
  rig.Deliver(kCoordinator, Request(4));
  rig.RunDisk();
  report = rig.OnlyReport();
  EXPECT_EQ(report.checkpoint, 4U);
  EXPECT_EQ(report.code, StatusCode::kOk) << report.message;
}

TEST(CheckpointTest, AnUnchangedChunkIsSharedWithTheOneBefore) {
  CheckpointRig rig;
  rig.Begin();
  rig.Deliver(kCoordinator, Request(1));
  rig.RunDisk();
  EXPECT_EQ(rig.OnlyReport().sizes.chunks_written, 3U);
  proto::PushRequest push = rig.Frame(1, 1, {kSecond}, 1);
  push.chunk_count = 1;
  rig.Push(push);
  rig.Deliver(kCoordinator, Request(2));
  rig.RunDisk();
  const proto::CheckpointReport report = rig.OnlyReport();
  EXPECT_EQ(report.sizes.chunks_written, 1U);
  EXPECT_EQ(report.sizes.chunks_shared, 2U);
}

TEST(CheckpointTest, TheReportIsRepeatedWhenItIsAskedForAgain) {
  CheckpointRig rig;
  rig.Begin();
  rig.Deliver(kCoordinator, Request(1));
  rig.RunDisk(1);
  rig.Deliver(kCoordinator, Request(1));
  rig.RunDisk();
  EXPECT_EQ(rig.OnlyReport().code, StatusCode::kOk) << "one, and nothing was begun anew";
  rig.Deliver(kCoordinator, Request(1));
  EXPECT_EQ(rig.OnlyReport().code, StatusCode::kOk);
  EXPECT_TRUE(rig.disk.requests.empty());
}

TEST(CheckpointTest, ALaterOneEndsTheOneUnderWay) {
  CheckpointRig rig;
  rig.Begin();
  rig.Deliver(kCoordinator, Request(1));
  rig.RunDisk(1);
  rig.Push(rig.WholeStep(1, 1, 1));
  rig.Deliver(kCoordinator, Request(2));
  rig.RunDisk();
  const proto::CheckpointReport report = rig.OnlyReport();
  EXPECT_EQ(report.checkpoint, 2U);
  EXPECT_EQ(report.code, StatusCode::kOk) << report.message;
  rig.Deliver(kCoordinator, rig.Later(2, 2));
  rig.RunDisk();
  EXPECT_THAT(rig.Values(), ElementsAre(0, 0, 0));
}

/// The second record of one version is on no part's way, and goes when old parts go.
TEST(CheckpointTest, AChunkThatWasWrittenTwiceIsSharedFromWhereAPartHasIt) {
  CheckpointRig rig;
  rig.Begin();
  for (uint64_t checkpoint = 1; checkpoint <= 2; ++checkpoint) {
    rig.Deliver(kCoordinator, Request(checkpoint));
    rig.RunDisk();
  }
  rig.Push(rig.WholeStep(1, 1, 1));
  const std::vector<float> values = rig.Values();
  rig.Deliver(kCoordinator, Request(3));
  rig.Deliver(kCoordinator, Request(4));  // two records of each chunk are on their way
  rig.RunDisk(3);
  rig.Deliver(kCoordinator, proto::CheckpointRequest{5, 0, {2}});  // shares the first ones
  rig.RunDisk();
  rig.Deliver(kCoordinator, Request(6));
  rig.RunDisk();
  rig.Push(rig.WholeStep(1, 2, 1));
  rig.Deliver(kCoordinator, rig.Later(2, 6));
  rig.RunDisk();
  EXPECT_EQ(rig.Values(), values);
}

TEST(CheckpointTest, AFullDiskIsReportedAndTrainingGoesOn) {
  CheckpointRig rig;
  rig.Begin();
  rig.storage.SetFaultHook([](checkpoint::Operation operation, const std::string&) {
    return operation == checkpoint::Operation::kWrite ? Status::Io("no space left on device")
                                                      : Status::Ok();
  });
  rig.Deliver(kCoordinator, Request(1));
  rig.RunDisk();
  const proto::CheckpointReport report = rig.OnlyReport();
  EXPECT_EQ(report.code, StatusCode::kIo);
  EXPECT_THAT(report.message, HasSubstr("no space"));
  rig.Push(rig.WholeStep(1, 1, 1));
  EXPECT_EQ(rig.OnlyPushReply().outcome, proto::PushOutcome::kApplied);

  rig.storage.SetFaultHook([](checkpoint::Operation, const std::string&) { return Status::Ok(); });
  rig.Deliver(kCoordinator, Request(2));
  rig.RunDisk();
  EXPECT_EQ(rig.OnlyReport().code, StatusCode::kOk);
}

TEST(CheckpointTest, ADamagedOldPartDoesNotKeepNewOnesFromBeingWritten) {
  CheckpointRig rig;
  rig.Begin();
  rig.Deliver(kCoordinator, Request(1));
  rig.RunDisk();
  rig.OnlyReport();
  rig.storage.SetFaultHook([](checkpoint::Operation operation, const std::string&) {
    return operation == checkpoint::Operation::kScan ? Status::Corruption("a block is damaged")
                                                     : Status::Ok();
  });
  rig.Push(rig.WholeStep(1, 1, 1));
  rig.Deliver(kCoordinator, proto::CheckpointRequest{2, 0, {1}});
  rig.RunDisk();
  EXPECT_EQ(rig.OnlyReport().code, StatusCode::kOk);
}

TEST(CheckpointTest, BspWritesWhatARoundHasMade) {
  CheckpointRig rig(proto::Mode::kBsp);
  rig.Begin();
  proto::PushRequest push = rig.WholeStep(1, 1, 0.5F);
  push.round = 1;
  rig.Push(push);
  rig.Deliver(kCoordinator, Request(1, 1));
  rig.RunDisk();
  EXPECT_THAT(rig.Take<proto::CheckpointReport>(), testing::IsEmpty())
      << "round 1 is not committed";
  rig.Deliver(kCoordinator, proto::CommitRound{1, {{WorkerId(0), Incarnation(1), 1, 1}}});
  rig.RunDisk();
  EXPECT_EQ(rig.OnlyReport().code, StatusCode::kOk);
  proto::ShardSetup later = rig.Later(2, 1);
  later.membership.round = 1;
  rig.Deliver(kCoordinator, later);
  rig.RunDisk();
  EXPECT_THAT(rig.Values(), ElementsAre(0.5F, 0.5F, 0.5F));
  EXPECT_EQ(rig.core.Stats().round, 1U);
}

TEST(CheckpointTest, BspRefusesARoundThatHasPassed) {
  CheckpointRig rig(proto::Mode::kBsp);
  rig.Begin();
  proto::PushRequest push = rig.WholeStep(1, 1, 0.5F);
  push.round = 1;
  rig.Push(push);
  rig.Deliver(kCoordinator, proto::CommitRound{1, {{WorkerId(0), Incarnation(1), 1, 1}}});
  rig.Deliver(kCoordinator, Request(1, 0));
  EXPECT_EQ(rig.OnlyReport().code, StatusCode::kUnavailable);
}

TEST(CheckpointTest, ANewLifeSendsEverythingAndTakesAnyLaterStep) {
  CheckpointRig rig;
  rig.Begin();
  rig.Push(rig.WholeStep(1, 1, 0.25F));
  rig.Deliver(kCoordinator, Request(1));
  rig.RunDisk();
  for (Step step = 2; step <= 6; ++step) {
    rig.Push(rig.WholeStep(1, step, 0.25F));
  }
  proto::ShardSetup later = rig.Later(2, 1);
  later.counted = {{Incarnation(1), 5}};
  rig.Deliver(kCoordinator, later);
  rig.Push(rig.WholeStep(1, 7, 0.25F));
  EXPECT_EQ(rig.Take<proto::Refusal>().back().message.code, StatusCode::kUnavailable)
      << "it is being restored";
  rig.RunDisk();
  rig.sent.all.clear();

  proto::PullRequest pull = rig.PullAll(1);
  pull.held = {{kFirst, 6}, {kSecond, 6}, {kThird, 6}};
  pull.held_life = 1;
  rig.Pull(pull);
  const auto answers = rig.Take<proto::PullReply>();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].message.chunks.size(), 3U) << "versions of another life say nothing";
  EXPECT_EQ(answers[0].message.life, 2U);

  rig.Push(rig.WholeStep(1, 5, 0.25F));
  EXPECT_EQ(rig.OnlyPushReply().step, 5U) << "counted already: acknowledged and not applied";
  EXPECT_THAT(rig.Versions(), ElementsAre(1, 1, 1));
  rig.Push(rig.WholeStep(1, 7, 0.25F));
  EXPECT_EQ(rig.OnlyPushReply().step, 7U) << "step 6 was acknowledged in the life before";
  EXPECT_THAT(rig.Versions(), ElementsAre(2, 2, 2));
  rig.Push(rig.WholeStep(1, 9, 0.25F));
  EXPECT_EQ(rig.OnlyRefusal().code, StatusCode::kInvalidArgument) << "only once";
}

TEST(CheckpointTest, WhatItHasOfAStepUnderWayIsNotAppliedAgain) {
  CheckpointRig rig;
  rig.Begin();
  rig.Push(rig.WholeStep(1, 1, 0.25F));
  rig.Push(rig.WholeStep(1, 2, 0.25F));
  rig.Push(rig.Frame(1, 3, {kFirst}, 0.25F));
  rig.Deliver(kCoordinator, Request(1));
  rig.RunDisk();
  proto::ShardSetup later = rig.Later(2, 1);
  later.counted = {{Incarnation(1), 1}};
  rig.Deliver(kCoordinator, later);
  rig.RunDisk();
  EXPECT_THAT(rig.Versions(), ElementsAre(3, 2, 2));
  rig.sent.all.clear();

  rig.Push(rig.WholeStep(1, 2, 0.25F));
  EXPECT_EQ(rig.OnlyPushReply().step, 2U) << "the checkpoint has it, though it was not counted";
  EXPECT_THAT(rig.Versions(), ElementsAre(3, 2, 2));
  rig.Push(rig.WholeStep(1, 3, 0.25F));
  EXPECT_EQ(rig.OnlyPushReply().step, 3U);
  EXPECT_THAT(rig.Versions(), ElementsAre(3, 3, 3)) << "one chunk of it was there";
}

/// A second checkpoint is made before the member has come back, and restored.
TEST(CheckpointTest, WhatItHadOfAStepWhenItWasRestoredIsInTheNextCheckpoint) {
  CheckpointRig rig;
  rig.Begin();
  rig.Push(rig.Frame(1, 1, {kFirst}, 0.25F));
  rig.Deliver(kCoordinator, Request(1));
  rig.RunDisk();
  rig.Deliver(kCoordinator, rig.Later(2, 1));
  rig.RunDisk();
  rig.Deliver(kCoordinator, Request(2));
  rig.RunDisk();
  rig.Deliver(kCoordinator, rig.Later(3, 2));
  rig.RunDisk();
  rig.sent.all.clear();
  rig.Push(rig.WholeStep(1, 1, 0.25F));
  EXPECT_EQ(rig.OnlyPushReply().step, 1U);
  EXPECT_THAT(rig.Versions(), ElementsAre(1, 1, 1)) << "each chunk once";
}

TEST(CheckpointTest, OnlyChunksThatHaveChangedSinceAreReadBack) {
  CheckpointRig rig;
  rig.Begin();
  rig.Push(rig.WholeStep(1, 1, 0.25F));
  rig.Deliver(kCoordinator, Request(1));
  rig.RunDisk();
  rig.Push(rig.Frame(1, 2, {kFirst}, 0.25F));
  rig.Deliver(kCoordinator, rig.Later(2, 1));
  EXPECT_THAT(rig.KeysAskedFor(), ElementsAre(kFirst));
  rig.RunDisk();
  EXPECT_THAT(rig.Values(), ElementsAre(0.75F, 0.75F, 0.75F));
  EXPECT_THAT(rig.Versions(), ElementsAre(1, 1, 1));
  rig.sent.all.clear();
  rig.Push(rig.WholeStep(1, 1, 0.25F));
  EXPECT_EQ(rig.OnlyPushReply().step, 1U) << "what was applied is known all the same";
  rig.Push(rig.WholeStep(1, 2, 0.25F));
  EXPECT_THAT(rig.Versions(), ElementsAre(2, 2, 2));

  rig.Deliver(kCoordinator, rig.Later(3, 1));
  EXPECT_THAT(rig.KeysAskedFor(), ElementsAre(kFirst, kSecond, kThird)) << "by now all have";
}

TEST(CheckpointTest, WhatAGivenUpCheckpointHasIsNotTakenForTheOneBefore) {
  CheckpointRig rig;
  rig.Begin();
  rig.Deliver(kCoordinator, Request(1));
  rig.RunDisk();
  rig.Push(rig.WholeStep(1, 1, 0.25F));
  rig.Deliver(kCoordinator, Request(2));
  rig.Deliver(kCoordinator, rig.Later(2, 1));
  EXPECT_THAT(rig.KeysAskedFor(), ElementsAre(kFirst, kSecond, kThird));
  rig.RunDisk();
  EXPECT_THAT(rig.Values(), ElementsAre(1.0F, 1.0F, 1.0F));
}

TEST(CheckpointTest, WhatAGivenUpCheckpointTookIsGivenBackBeforeTheNextIsWritten) {
  CheckpointRig rig;
  rig.Begin();
  rig.Deliver(kCoordinator, Request(1));
  rig.RunDisk();
  const auto parts = [&rig] {
    const auto store =
        checkpoint::ShardStore::Open(rig.storage, "path", kShard, checkpoint::OpenMode::kRead);
    return store.ok() ? (*store)->Parts().value() : std::vector<uint64_t>();
  };
  rig.Push(rig.WholeStep(1, 1, 0.25F));
  rig.Deliver(kCoordinator, Request(2));
  rig.RunDisk();
  EXPECT_THAT(parts(), ElementsAre(1, 2));
  // Another shard's disk was full, so the coordinator has given up 2 and then 3.
  for (const uint64_t checkpoint : {3U, 4U}) {
    rig.sent.all.clear();
    rig.Deliver(kCoordinator, proto::CheckpointRequest{checkpoint, 0, {1}});
    ASSERT_FALSE(rig.disk.requests.empty());
    EXPECT_NE(std::get_if<ReleaseRequest>(&rig.disk.requests.front()), nullptr);
    rig.RunDisk(1);
    EXPECT_THAT(parts(), ElementsAre(1)) << "before anything is written";
    rig.RunDisk();
    EXPECT_EQ(rig.OnlyReport().sizes.chunks_written, 3U);
    EXPECT_THAT(parts(), ElementsAre(1, checkpoint));
  }
  rig.Deliver(kCoordinator, rig.Later(2, 1));
  EXPECT_THAT(rig.KeysAskedFor(), ElementsAre(kFirst, kSecond, kThird));
  rig.RunDisk();
  EXPECT_THAT(rig.Values(), ElementsAre(1.0F, 1.0F, 1.0F));
}

TEST(CheckpointTest, AShardThatGivesAChunkAwayReadsAndWritesNothingForIt) {
  CheckpointRig rig;
  rig.Begin();
  rig.Push(rig.WholeStep(1, 1, 0.25F));
  rig.Deliver(kCoordinator, Request(1));
  rig.RunDisk();
  proto::ShardSetup moved = rig.Later(2, 1);
  moved.placement.chunks[1].shard = ShardId(0);
  rig.Deliver(kCoordinator, moved);
  EXPECT_THAT(rig.KeysAskedFor(), testing::IsEmpty());
  rig.RunDisk();
  ASSERT_TRUE(rig.core.is_set_up());
  EXPECT_EQ(rig.core.VersionOf(kThird), 1U);
  EXPECT_THAT(rig.core.ValuesOf(kThird), ElementsAre(0.75F, 0.75F, 0.75F));
  EXPECT_THAT(rig.core.ValuesOf(kSecond), testing::IsEmpty());
  rig.sent.all.clear();
  rig.Deliver(kCoordinator, Request(2));
  rig.RunDisk();
  const proto::CheckpointReport report = rig.OnlyReport();
  EXPECT_EQ(report.sizes.chunks_written, 0U) << "both are in its store already";
  EXPECT_EQ(report.sizes.chunks_shared, 2U);
}

/// It had no part in the progress that a shard with chunks remembers.
TEST(CheckpointTest, AShardThatHadNoChunksTakesTheStateOfOneThatHad) {
  CheckpointRig rig;
  rig.Begin();
  rig.Push(rig.WholeStep(1, 1, 0.25F));
  rig.Deliver(kCoordinator, Request(1));
  rig.RunDisk();
  proto::ShardSetup none = rig.Later(2, 1);
  for (proto::ChunkAssignment& chunk : none.placement.chunks) {
    chunk.shard = ShardId(0);
  }
  rig.Deliver(kCoordinator, none);
  ASSERT_TRUE(rig.core.is_set_up());
  rig.Deliver(kCoordinator, rig.Later(3, 1));
  rig.RunDisk();
  rig.sent.all.clear();
  rig.Push(rig.WholeStep(1, 1, 0.25F));
  EXPECT_EQ(rig.OnlyPushReply().step, 1U);
  EXPECT_THAT(rig.Versions(), ElementsAre(1, 1, 1)) << "the checkpoint has it";
}

TEST(CheckpointTest, ACheckpointThatCannotBeReadIsSaidAndAnotherOneTaken) {
  CheckpointRig rig;
  rig.Begin();
  rig.Deliver(kCoordinator, Request(1));
  rig.RunDisk();
  const auto job = checkpoint::JobStore::Open(rig.storage, "path", checkpoint::OpenMode::kWrite);
  ASSERT_TRUE(job.ok()) << job.status();
  rig.Deliver(kCoordinator, rig.Later(2, 9));
  rig.sent.all.clear();
  rig.RunDisk();
  const auto failed = rig.Take<proto::RestoreFailed>();
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].message.life, 2U);
  EXPECT_EQ(failed[0].message.checkpoint, 9U);
  EXPECT_EQ(failed[0].message.code, StatusCode::kNotFound);
  EXPECT_THAT(failed[0].message.message, HasSubstr("checkpoint 9"));
  rig.Deliver(kCoordinator, rig.Later(3, 1));
  rig.RunDisk();
  const auto ready = rig.Take<proto::ShardReady>();
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].message.life, 3U);
}

/// The coordinator asks again for as long as it is told kUnavailable, and gives no checkpoint up.
TEST(CheckpointTest, ARestoreThatFailsForAPassingReasonIsTriedAgainForAWhile) {
  for (const Status& why : {Status::Io("Input/output error"), Status::Unavailable("locked")}) {
    CheckpointRig rig;
    rig.Begin();
    rig.Push(rig.WholeStep(1, 1, 0.5F));
    const std::vector<float> values = rig.Values();
    rig.Deliver(kCoordinator, Request(1));
    rig.RunDisk();
    rig.Push(rig.WholeStep(1, 2, 0.5F));  // what did not change is not read
    rig.storage.SetFaultHook([&](checkpoint::Operation operation, const std::string&) {
      return operation == checkpoint::Operation::kRead ? why : Status::Ok();
    });
    const auto attempt = [&] {
      rig.sent.all.clear();
      rig.Deliver(kCoordinator, rig.Later(2, 1));
      rig.RunDisk();
      EXPECT_TRUE(rig.Take<proto::RestoreFailed>().empty()) << "an older one would be taken";
      const auto refusals = rig.Take<proto::Refusal>();
      return refusals.empty() ? StatusCode::kOk : refusals[0].message.code;
    };
    EXPECT_EQ(attempt(), StatusCode::kUnavailable);
    rig.now += std::chrono::minutes(4);
    EXPECT_EQ(attempt(), StatusCode::kUnavailable);
    rig.now += std::chrono::minutes(1);
    EXPECT_EQ(attempt(), StatusCode::kIo) << "the run ends, and says why";
    rig.storage.SetFaultHook({});
    EXPECT_EQ(attempt(), StatusCode::kOk);
    EXPECT_EQ(rig.Values(), values);
  }
}

TEST(CheckpointTest, AnswersOfAnEarlierLifeAreForgotten) {
  CheckpointRig rig;
  rig.Begin();
  rig.Deliver(kCoordinator, Request(1));
  rig.RunDisk();
  rig.Deliver(kCoordinator, Request(2));
  rig.Deliver(kCoordinator, rig.Later(2, 1));
  rig.sent.all.clear();
  rig.RunDisk();
  EXPECT_THAT(rig.Take<proto::CheckpointReport>(), testing::IsEmpty());
  rig.Deliver(kCoordinator, Request(3));
  rig.RunDisk();
  EXPECT_EQ(rig.OnlyReport().checkpoint, 3U);
}

}  // namespace
}  // namespace ps::server
