#include "run/report/run_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/run/sample_status.h"

namespace ps::run {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// Training with workers 0 and 1, nothing evaluated.
proto::JobStatus Quiet() {
  proto::JobStatus status = MakeStatus();
  status.workers.pop_back();
  status.evaluations.clear();
  return status;
}

RunEvents After(const proto::JobStatus& status) {
  RunEvents events;
  events.Update(status);
  return events;
}

TEST(RunEventsTest, TheStartIsOneLine) {
  RunEvents events;
  proto::JobStatus status = Quiet();
  status.state = proto::RunState::kStarting;
  EXPECT_THAT(events.Update(status), IsEmpty());
  status.state = proto::RunState::kTraining;
  EXPECT_THAT(
      events.Update(status), ElementsAre("training begins with 2 workers and 2 server shards"));
  EXPECT_THAT(events.Update(status), IsEmpty());
}

TEST(RunEventsTest, ALostWorkerIsSaidOnceWithItsSamples) {
  proto::JobStatus status = Quiet();
  RunEvents events = After(status);
  status.workers[1].state = proto::WorkerRowState::kLost;
  status.ledger[1].samples_returned = 312;
  EXPECT_THAT(
      events.Update(status),
      ElementsAre("worker 1 lost (no notice), 312 samples back in the queue"));
  EXPECT_THAT(events.Update(status), IsEmpty());
}

TEST(RunEventsTest, WhoIsGoneIsSaidBeforeWhoTakesTheSeat) {
  proto::JobStatus status = Quiet();
  RunEvents events = After(status);
  proto::WorkerRow replacement = status.workers[1];
  replacement.incarnation = Incarnation(77);
  status.workers[1].state = proto::WorkerRowState::kLost;
  status.workers.insert(status.workers.begin(), replacement);
  EXPECT_THAT(events.Update(status), ElementsAre("worker 1 lost (no notice)", "worker 1 joined"));
}

TEST(RunEventsTest, AFleetOfAnotherSizeIsSaidOnce) {
  proto::JobStatus status = Quiet();
  RunEvents events = After(status);
  status.workers_wanted = 5;
  EXPECT_THAT(events.Update(status), ElementsAre("5 workers wanted, 3 before"));
  EXPECT_THAT(events.Update(status), IsEmpty());
}

TEST(RunEventsTest, ADrainedWorkerLeftOnNotice) {
  proto::JobStatus status = Quiet();
  RunEvents events = After(status);
  status.workers[0].state = proto::WorkerRowState::kDrained;
  EXPECT_THAT(events.Update(status), ElementsAre("worker 0 left on notice"));
}

TEST(RunEventsTest, CopiesThatFailAreSaidOnceForEachReasonAndWhenTheyGoOn) {
  proto::JobStatus status = Quiet();
  status.copies.target = "s3://bucket/run";
  RunEvents events = After(status);
  status.copies.failed = 1;
  status.copies.trouble = "HTTP 403 AccessDenied";
  EXPECT_THAT(
      events.Update(status),
      ElementsAre(
          "checkpoints are not copied to s3://bucket/run: HTTP 403 AccessDenied; training goes on, "
          "and the next checkpoint tries again"));
  status.copies.failed = 2;
  EXPECT_THAT(events.Update(status), IsEmpty());
  status.copies.trouble.clear();
  status.copies.newest = 7;
  EXPECT_THAT(
      events.Update(status),
      ElementsAre("checkpoints are copied to s3://bucket/run again, up to 7"));
}

TEST(RunEventsTest, AWorkerThatFailedSaysWhy) {
  proto::JobStatus status = Quiet();
  RunEvents events = After(status);
  status.workers[0].state = proto::WorkerRowState::kFailed;
  status.workers[0].samples_counted = 0;
  status.workers[0].reason = "its data is not that of worker 1\a";
  EXPECT_THAT(
      events.Update(status),
      ElementsAre("worker 0 failed before it had done a step: its data is not that of worker 1?"));
  status.workers[1].state = proto::WorkerRowState::kFailed;
  status.workers[1].reason = "sample 3 is nan";
  status.workers[1].samples_counted = 64;
  EXPECT_THAT(
      events.Update(status), ElementsAre("worker 1 failed after 64 samples: sample 3 is nan"));
}

TEST(RunEventsTest, AReplacementInTheSameSeatJoins) {
  proto::JobStatus status = Quiet();
  RunEvents events = After(status);
  status.workers.push_back(MakeWorkerRow(1, 9, proto::WorkerRowState::kComputing));
  EXPECT_THAT(events.Update(status), ElementsAre("worker 1 joined"));
}

/// Nobody has to come again for a move, in any mode: who leaves meanwhile is said.
TEST(RunEventsTest, AMoveIsToldAndSoIsAWorkerThatIsReplacedMeanwhile) {
  proto::JobStatus status = Quiet();
  status.servers = {1, 1, false, 0, ""};
  RunEvents events = After(status);
  status.servers.wanted = 3;
  EXPECT_THAT(events.Update(status), ElementsAre("3 servers wanted, 1 before"));
  status.servers = {3, 3, false, 1, ""};
  status.workers[0].state = proto::WorkerRowState::kLeft;
  status.workers.insert(
      status.workers.begin(), MakeWorkerRow(0, 8, proto::WorkerRowState::kComputing));
  EXPECT_THAT(
      events.Update(status),
      ElementsAre("worker 0 left", "worker 0 joined", "all chunks are on 3 servers now"));
  status.servers.wanted = 4;
  EXPECT_THAT(events.Update(status), ElementsAre("4 servers wanted, 3 before"));
  status.servers.wanted = 3;
  status.servers.trouble = "3 servers, not 4: server 3 did not come within 30 s";
  EXPECT_THAT(
      events.Update(status),
      ElementsAre("WARNING: the run goes on with 3 servers, not 4: server 3 did not come within "
                  "30 s"));
}

TEST(RunEventsTest, GoingBackIsOneLineAndNothingIsSaidOfTheWorkers) {
  proto::JobStatus status = Quiet();
  status.checkpoints.newest = 7;
  status.checkpoints.steps_undone = 1;
  status.ledger[1].samples_returned = 100;
  RunEvents events = After(status);
  status.checkpoints.rollbacks = 1;
  status.checkpoints.steps_undone = 13;
  status.checkpoints.samples_undone = 384;
  status.checkpoints.seconds_undone = 3.25;
  status.ledger[1].samples_returned = 50;
  status.workers[0].state = proto::WorkerRowState::kLeft;
  status.workers[1].state = proto::WorkerRowState::kLeft;
  status.workers.insert(
      status.workers.begin(), MakeWorkerRow(0, 8, proto::WorkerRowState::kComputing));
  EXPECT_THAT(
      events.Update(status),
      ElementsAre("a server was lost, and all went back to checkpoint 7: 12 steps of 384 samples, "
                  "3.25 s of training, are done again"));
  status.workers.push_back(MakeWorkerRow(1, 9, proto::WorkerRowState::kComputing));
  EXPECT_THAT(events.Update(status), IsEmpty());
  status.workers.push_back(MakeWorkerRow(5, 10, proto::WorkerRowState::kComputing));
  EXPECT_THAT(events.Update(status), ElementsAre("worker 5 joined"));
}

TEST(RunEventsTest, ADamagedCheckpointIsAWarningThatSaysWhatIsBroken) {
  proto::JobStatus status = Quiet();
  RunEvents events = After(status);
  status.checkpoints.damaged = 1;
  status.checkpoints.damage = "checkpoint 7: shard 1: chunk 3 is damaged";
  EXPECT_THAT(
      events.Update(status),
      ElementsAre("WARNING: a checkpoint can't be restored and was given up for an older one: "
                  "checkpoint 7: shard 1: chunk 3 is damaged"));
}

TEST(RunEventsTest, WaitingAndGoingOnAreSaid) {
  proto::JobStatus status = Quiet();
  RunEvents events = After(status);
  status.state = proto::RunState::kWaiting;
  status.detail = "no workers; waiting for one to join";
  EXPECT_THAT(events.Update(status), ElementsAre("waiting: no workers; waiting for one to join"));
  EXPECT_THAT(events.Update(status), IsEmpty());
  status.detail = "no workers; the next is started in 10.2 s";
  EXPECT_THAT(events.Update(status), SizeIs(1));
  status.detail = "no workers; the next is started in 9.96 s";
  EXPECT_THAT(events.Update(status), IsEmpty()) << "a countdown is no news";
  status.state = proto::RunState::kTraining;
  status.detail = "";
  EXPECT_THAT(events.Update(status), ElementsAre("training goes on"));
}

TEST(RunEventsTest, EachEvaluationIsALine) {
  proto::JobStatus status = Quiet();
  RunEvents events = After(status);
  status.evaluations = MakeStatus().evaluations;
  EXPECT_THAT(
      events.Update(status),
      ElementsAre("epoch 1 of 3: test accuracy 86.12 %, loss 0.3811, after 24.2 s"));
}

TEST(RunEventsTest, RejectedGradientsAreSaid) {
  proto::JobStatus status = Quiet();
  RunEvents events = After(status);
  status.samples_rejected = 64;
  EXPECT_THAT(
      events.Update(status),
      ElementsAre("64 samples gave a gradient that is not finite and were left out; if it goes on, "
                  "training diverges: try a smaller optimizer.lr"));
  status.samples_rejected = 128;
  EXPECT_THAT(events.Update(status), ElementsAre()) << "a line per step would drown all others";
  status.samples_rejected = 129;
  EXPECT_THAT(
      events.Update(status),
      ElementsAre("129 samples gave a gradient that is not finite and were left out"));
}

TEST(RunEventsTest, UpdatesThatOverflowAreSaidOnceAndWhenTheyHaveDoubled) {
  proto::JobStatus status = Quiet();
  status.shards.resize(2);
  RunEvents events = After(status);
  status.shards[0].stats.chunks_overflowed = 1;
  status.shards[1].stats.chunks_overflowed = 2;
  EXPECT_THAT(
      events.Update(status),
      ElementsAre("3 updates of a chunk would have made parameters infinite and left them as they "
                  "were; training diverges: try a smaller optimizer.lr or optimizer.clip_norm"));
  status.shards[1].stats.chunks_overflowed = 5;
  EXPECT_THAT(events.Update(status), ElementsAre());
  status.shards[1].stats.chunks_overflowed = 6;
  EXPECT_THAT(events.Update(status), ElementsAre(testing::StartsWith("7 updates of a chunk")));
}

TEST(RunEventsTest, WorkersThatLeaveAtTheEndAreNoEvents) {
  proto::JobStatus status = Quiet();
  RunEvents events = After(status);
  status.state = proto::RunState::kDone;
  status.workers[0].state = proto::WorkerRowState::kLeft;
  status.workers[1].state = proto::WorkerRowState::kLeft;
  EXPECT_THAT(events.Update(status), IsEmpty());
}

TEST(RunEventsTest, ADivergenceThatIsToBeLivedWithIsSaidOnce) {
  proto::JobStatus status = Quiet();
  RunEvents events = After(status);
  status.detail = "training has diverged: 40 of the last 64 steps";
  status.has_diverged = true;
  EXPECT_THAT(events.Update(status), ElementsAre(status.detail));
  EXPECT_THAT(events.Update(status), ElementsAre());
}

TEST(RunEventsTest, WorkersAreCountedAgainstThoseThatTheConfigWants) {
  proto::JobStatus status = MakeStatus();
  EXPECT_EQ(WorkersText(status), "2/3");
  status.workers.push_back(MakeWorkerRow(3, 4, proto::WorkerRowState::kComputing));
  status.workers.push_back(MakeWorkerRow(4, 0, proto::WorkerRowState::kStarting));
  EXPECT_EQ(WorkersText(status), "3/3") << "a replacement is no one more";
  status.workers.push_back(MakeWorkerRow(5, 5, proto::WorkerRowState::kComputing));
  EXPECT_EQ(WorkersText(status), "4");
}

TEST(RunEventsTest, TheEpochNeverPassesTheLast) {
  proto::JobStatus status = MakeStatus();
  EXPECT_EQ(EpochNow(status), 2U);
  status.samples_counted = 0;
  EXPECT_EQ(EpochNow(status), 1U);
  status.samples_counted = status.samples_total;
  EXPECT_EQ(EpochNow(status), 3U);
}

TEST(RunEventsTest, AServersNoticeIsSaidOnce) {
  proto::JobStatus status = Quiet();
  status.shards.resize(2);
  status.shards[1].shard = ShardId(1);
  RunEvents events = After(status);
  status.shards[1].state = proto::ShardRowState::kLeaving;
  EXPECT_THAT(events.Update(status), ElementsAre(StartsWith("server shard 1 has a notice: ")));
  EXPECT_THAT(events.Update(status), IsEmpty());
  status.shards[1].state = proto::ShardRowState::kMissing;
  EXPECT_THAT(events.Update(status), IsEmpty());
  status.shards[1].state = proto::ShardRowState::kLeaving;
  EXPECT_THAT(events.Update(status), SizeIs(1)) << "the one that came after it";
}

TEST(RunEventsTest, AJournalThatCannotBeWrittenIsSaidAndSoIsItsReturn) {
  proto::JobStatus status = Quiet();
  RunEvents events = After(status);
  status.journal.trouble = "No space left on device";
  EXPECT_THAT(
      events.Update(status),
      ElementsAre(StartsWith("WARNING: the journal can't be written: No space left on device; ")));
  EXPECT_THAT(events.Update(status), IsEmpty());
  status.journal.trouble.clear();
  EXPECT_THAT(events.Update(status), ElementsAre("the journal is written again"));
}

TEST(RunEventsTest, WhatALostServerUndidIsSaidInStepsAndSamplesAlsoWhenItIsFoundLater) {
  proto::JobStatus status = Quiet();
  status.checkpoints.newest = 7;
  RunEvents events = After(status);
  status.checkpoints.shards_restored = 1;
  status.checkpoints.steps_undone = 353;
  status.checkpoints.samples_undone = 11'296;
  EXPECT_THAT(
      events.Update(status),
      ElementsAre("1 server shard lost; back from checkpoint 7, without the updates of 353 steps "
                  "of 11,296 samples"));
  status.checkpoints.steps_undone = 354;
  status.checkpoints.samples_undone = 11'328;
  EXPECT_THAT(
      events.Update(status),
      ElementsAre("1 step of 32 samples more was undone: a server that was lost had it"));
  EXPECT_THAT(events.Update(status), IsEmpty());
}

}  // namespace
}  // namespace ps::run
