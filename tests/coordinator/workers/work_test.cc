#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

CoordinatorOptions OneWorker(proto::Mode mode = proto::Mode::kAsync) {
  CoordinatorOptions options = SmallJob(mode);
  options.config.workers = {{1, 0, 1, 1}};
  return options;
}

TEST(WorkTest, LeasesAreSomeMinibatchesAndGetSmallTowardsTheEnd) {
  Harness harness(OneWorker());
  FakeWorker worker = harness.StartWithWorkers()[0];
  std::vector<uint64_t> sizes;
  for (auto grant = harness.Ask(&worker); grant; grant = harness.Ask(&worker)) {
    sizes.push_back(grant->end - grant->begin);
    harness.Work(&worker, *grant);
  }
  EXPECT_EQ(sizes.front(), 20U);
  EXPECT_EQ(sizes.back(), 10U);
  EXPECT_EQ(harness.status().samples_counted, 200U);
}

/// Steps of three minibatches of 10.
CoordinatorOptions LocalSteps(proto::Mode mode = proto::Mode::kAsync) {
  CoordinatorOptions options = OneWorker(mode);
  options.config.train.local_steps = 3;
  options.config.train.lease_steps = 8;
  return options;
}

TEST(WorkTest, StepsHaveAllTheirLocalMinibatches) {
  Harness harness(LocalSteps());
  FakeWorker worker = harness.StartWithWorkers()[0];
  const auto grant = harness.Ask(&worker);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->minibatch, 10U);
  EXPECT_EQ(grant->local_steps, 3U);
  EXPECT_EQ(grant->end - grant->begin, 60U) << "two steps: 8 minibatches are not three";
  harness.Work(&worker, *grant);
  EXPECT_EQ(harness.status().steps_counted, 2U);
  EXPECT_EQ(harness.Ask(&worker)->samples_done, 60U);
}

/// 2^24 samples and 256 local steps would be 2^32 of them, which a step can't name.
TEST(WorkTest, AStepOfAWorkerWithAHugeMinibatchOfItsOwnIsAsLargeAsAStepMayBe) {
  for (const bool is_by_speed : {false, true}) {
    CoordinatorOptions options = LocalSteps();
    options.config.train.local_steps = 256;
    options.config.train.local_steps_by_speed = is_by_speed;
    options.config.workers = {{0, 0, 1, 1}};
    Harness harness(options);
    harness.StartWithShards();
    proto::JoinRequest request;
    request.pid = 1;
    request.minibatch = proto::kStepSamplesMax;
    FakeWorker worker;
    worker.peer = harness.Connect(proto::Role::kWorker);
    harness.Give(worker.peer, request);
    worker.incarnation = harness.Take<proto::JoinReply>(worker.peer)->incarnation;
    const auto grant = harness.Ask(&worker);
    ASSERT_TRUE(grant.has_value());
    EXPECT_LE(grant->step_samples(), proto::kStepSamplesMax);
    harness.Work(&worker, *grant);
    EXPECT_EQ(harness.status().samples_counted, 200U);
  }
}

TEST(WorkTest, AStepThatEndsEarlyIsCountedAsFarAsItHasCome) {
  Harness harness(LocalSteps());
  FakeWorker worker = harness.StartWithWorkers()[0];
  proto::LeaseGrant grant = *harness.Ask(&worker);
  harness.Give(worker.peer, proto::CutLease{worker.incarnation, grant.lease, grant.begin + 20});
  ASSERT_TRUE(harness.Take<proto::LeaseCut>(worker.peer).has_value());
  grant.end = grant.begin + 20;
  harness.Work(&worker, grant);
  EXPECT_EQ(harness.status().samples_counted, 20U);
  harness.Give(worker.peer, proto::CutLease{worker.incarnation, grant.lease, grant.begin + 20});
  EXPECT_TRUE(harness.Take<proto::LeaseCut>(worker.peer).has_value()) << "a late repetition";
  EXPECT_EQ(harness.Ask(&worker)->begin, 20U) << "the rest is handed out again";
}

TEST(WorkTest, AWorkerThatIsLostAfterItsPushCountsWhatItHasCut) {
  Harness harness(LocalSteps());
  FakeWorker worker = harness.StartWithWorkers()[0];
  const proto::LeaseGrant grant = *harness.Ask(&worker);
  harness.Give(worker.peer, proto::CutLease{worker.incarnation, grant.lease, grant.begin + 20});
  harness.Complete(worker, 1);  // at the shards, and nobody is told
  harness.Close(worker.peer);
  harness.Wait(seconds(10));
  EXPECT_EQ(harness.status().samples_counted, 20U);
}

TEST(WorkTest, ACutOfWhatIsNotOnesOwnIsRefused) {
  Harness harness(LocalSteps());
  FakeWorker worker = harness.StartWithWorkers()[0];
  const proto::LeaseGrant grant = *harness.Ask(&worker);
  harness.Give(worker.peer, proto::CutLease{worker.incarnation, grant.lease, grant.end + 1});
  EXPECT_THAT(harness.Take<proto::Refusal>(worker.peer)->message, HasSubstr("can't end at sample"));
  harness.Give(worker.peer, proto::CutLease{worker.incarnation, LeaseId(77), 5});
  EXPECT_THAT(harness.Take<proto::Refusal>(worker.peer)->message, HasSubstr("not yours"));
}

TEST(WorkTest, MinibatchesOfALongStepAreProgress) {
  Harness harness(LocalSteps());
  FakeWorker worker = harness.StartWithWorkers()[0];
  harness.Work(&worker, *harness.Ask(&worker));  // its speed is known
  ASSERT_TRUE(harness.Ask(&worker).has_value());
  proto::WorkerHeartbeat beat;
  beat.incarnation = worker.incarnation;
  beat.state = proto::WorkerState::kComputing;
  for (int minibatch = 1; minibatch < 40; ++minibatch) {
    harness.Wait(seconds(10), {worker});
    beat.minibatches = static_cast<uint64_t>(minibatch);
    harness.Give(worker.peer, beat);
  }
  EXPECT_EQ(harness.status().workers.size(), 1U);
  harness.Wait(seconds(400), {worker});
  EXPECT_THAT(harness.status().workers[0].reason, HasSubstr("no progress"));
}

TEST(WorkTest, ARepeatedLeaseRequestGetsTheSameGrant) {
  Harness harness(OneWorker());
  FakeWorker worker = harness.StartWithWorkers()[0];
  const auto grant = harness.Ask(&worker);
  ASSERT_TRUE(grant.has_value());
  harness.Give(worker.peer, proto::LeaseRequest{worker.incarnation, {}});
  const auto again = harness.Take<proto::LeaseGrant>(worker.peer);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->lease, grant->lease);
  EXPECT_EQ(again->begin, grant->begin);
}

TEST(WorkTest, AWorkerMayHoldTheNextLeaseWhileTheLastOneTravels) {
  Harness harness(OneWorker());
  FakeWorker worker = harness.StartWithWorkers()[0];
  const auto first = harness.Ask(&worker);
  const auto second = harness.Ask(&worker);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->begin, first->end);
  int more = 0;
  while (harness.Ask(&worker)) {
    ++more;
  }
  EXPECT_EQ(more, 2) << "but not any number of them";
  harness.Work(&worker, *first);
  EXPECT_TRUE(harness.TakeGrant(&worker).has_value()) << "the request was kept";
}

TEST(WorkTest, ReportsAreCumulativeAndCountOnce) {
  Harness harness(OneWorker());
  FakeWorker worker = harness.StartWithWorkers()[0];
  const auto grant = harness.Ask(&worker);
  const proto::StepDone one = harness.MakeStep(&worker, *grant, grant->begin);
  const proto::StepDone two = harness.MakeStep(&worker, *grant, one.end);
  harness.Give(worker.peer, proto::StepReport{worker.incarnation, {one}});
  harness.Give(worker.peer, proto::StepReport{worker.incarnation, {one, two}});
  harness.Give(worker.peer, proto::StepReport{worker.incarnation, {one}});
  EXPECT_EQ(harness.status().samples_counted, 20U);
  EXPECT_EQ(harness.status().steps_counted, 2U);
  EXPECT_EQ(harness.Take<proto::StepAck>(worker.peer)->last_step, 1U);
  EXPECT_EQ(harness.Take<proto::StepAck>(worker.peer)->last_step, 2U);
  EXPECT_EQ(harness.Take<proto::StepAck>(worker.peer)->last_step, 2U);
}

TEST(WorkTest, AGapInTheStepsIsRefusedAndNothingOfItCounts) {
  Harness harness(OneWorker());
  FakeWorker worker = harness.StartWithWorkers()[0];
  const auto grant = harness.Ask(&worker);
  const proto::StepDone one = harness.MakeStep(&worker, *grant, grant->begin);
  const proto::StepDone two = harness.MakeStep(&worker, *grant, one.end);
  harness.Give(worker.peer, proto::StepReport{worker.incarnation, {two}});
  const auto refusal = harness.Take<proto::Refusal>(worker.peer);
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->code, StatusCode::kInvalidArgument);
  EXPECT_EQ(refusal->step, 2U);
  EXPECT_EQ(harness.status().samples_counted, 0U);
}

TEST(WorkTest, StepsMustTakeTheirSamplesInOrder) {
  Harness harness(OneWorker());
  FakeWorker worker = harness.StartWithWorkers()[0];
  const auto grant = harness.Ask(&worker);
  proto::StepDone wrong = harness.MakeStep(&worker, *grant, grant->begin);
  wrong.end -= 1;
  harness.Give(worker.peer, proto::StepReport{worker.incarnation, {wrong}});
  EXPECT_EQ(harness.Take<proto::Refusal>(worker.peer)->code, StatusCode::kInvalidArgument);
  wrong.end += 1;
  wrong.lease = LeaseId(99);
  harness.Give(worker.peer, proto::StepReport{worker.incarnation, {wrong}});
  EXPECT_EQ(harness.Take<proto::Refusal>(worker.peer)->code, StatusCode::kInvalidArgument);
  EXPECT_EQ(harness.status().samples_counted, 0U);
}

TEST(WorkTest, RejectedStepsCountAndAreTold) {
  Harness harness(OneWorker());
  FakeWorker worker = harness.StartWithWorkers()[0];
  const auto grant = harness.Ask(&worker);
  proto::StepDone done = harness.MakeStep(&worker, *grant, grant->begin);
  done.is_rejected = true;
  harness.Give(worker.peer, proto::StepReport{worker.incarnation, {done}});
  EXPECT_EQ(harness.status().samples_rejected, 10U);
  EXPECT_EQ(harness.status().samples_counted, 10U);
}

/// All samples of the job, each step with this loss; the first one may have another.
void WorkWithLoss(
    Harness* harness, double loss, bool is_rejected, std::optional<double> first_loss = {}) {
  FakeWorker worker = harness->StartWithWorkers()[0];
  for (auto grant = harness->Ask(&worker); grant; grant = harness->Ask(&worker)) {
    for (uint64_t begin = grant->begin; begin < grant->end;) {
      proto::StepDone done = harness->MakeStep(&worker, *grant, begin);
      done.loss_sum = done.step == 1 ? first_loss.value_or(loss) : loss;
      done.is_rejected = is_rejected;
      harness->Complete(worker, done.step);
      harness->Give(worker.peer, proto::StepReport{worker.incarnation, {done}});
      begin = done.end;
    }
  }
}

CoordinatorOptions LongJob() {
  CoordinatorOptions options = OneWorker();
  options.train_samples = 2000;
  options.config.optimizer.lr = 100;
  return options;
}

TEST(WorkTest, AJobThatDivergesEndsWithAMessageThatSaysWhatToDo) {
  Harness harness(LongJob());
  WorkWithLoss(&harness, 3, true);
  EXPECT_EQ(harness.status().state, proto::RunState::kFailed);
  EXPECT_EQ(
      harness.status().detail,
      "training diverged: 64 of the last 64 steps gave a gradient or a loss that is not finite; "
      "try a smaller optimizer.lr (it is 100) or optimizer.clip_norm; with "
      "train.on_divergence=continue the run would go on");
  EXPECT_EQ(harness.status().steps_counted, 64U) << "the rest is not worth its time";
  EXPECT_EQ(harness.core->exit_code(), 1);
}

TEST(WorkTest, ALossThatStaysInfiniteIsADivergenceToo) {
  Harness harness(LongJob());
  WorkWithLoss(&harness, INFINITY, false);
  EXPECT_EQ(harness.status().state, proto::RunState::kFailed);
}

TEST(WorkTest, ALossThatStaysFarAboveAGuessIsADivergenceToo) {
  CoordinatorOptions options = LongJob();
  options.classes = 10;
  Harness harness(options);
  WorkWithLoss(&harness, 10 * 62.8, false, 10 * 2.3);  // of ten samples
  EXPECT_EQ(harness.status().state, proto::RunState::kFailed);
  EXPECT_THAT(harness.status().detail, HasSubstr("63 of the last 64 steps"));
  Harness high(options);
  WorkWithLoss(&high, 10 * 62.8, false);
  EXPECT_EQ(high.status().state, proto::RunState::kDone) << "it began there";
}

TEST(WorkTest, AShortJobIsJudgedAtItsEnd) {
  Harness harness(OneWorker());
  WorkWithLoss(&harness, NAN, false);
  EXPECT_EQ(harness.status().state, proto::RunState::kFailed);
  EXPECT_EQ(harness.status().samples_counted, harness.status().samples_total);
}

TEST(WorkTest, WhoWantsToGoesOnThroughADivergence) {
  CoordinatorOptions options = LongJob();
  options.config.train.on_divergence = proto::Divergence::kContinue;
  Harness harness(options);
  WorkWithLoss(&harness, NAN, true);
  EXPECT_EQ(harness.status().state, proto::RunState::kDone);
  EXPECT_EQ(harness.status().samples_rejected, 2000U);
}

TEST(WorkTest, TheNextEpochBeginsWhileStragglersFinishTheLast) {
  CoordinatorOptions options = SmallJob();
  options.config.train.epochs = 2;
  options.train_samples = 30;
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.Work(&workers[2], harness.AskAll(&workers)[2]);
  const auto grant = harness.Ask(&workers[2]);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->epoch, 1U);
}

TEST(WorkTest, EvaluationFollowsEveryFewEpochsAndTheLast) {
  CoordinatorOptions options = OneWorker();
  options.config.train.epochs = 3;
  options.config.train.evaluate_every_epochs = 2;
  options.train_samples = 20;
  options.test_samples = 100;
  Harness harness(options);
  FakeWorker worker = harness.StartWithWorkers()[0];
  std::vector<uint32_t> evaluated;
  for (auto grant = harness.Ask(&worker); grant; grant = harness.Ask(&worker)) {
    if (grant->kind == proto::LeaseKind::kEvaluate) {
      evaluated.push_back(grant->epoch + 1);
      harness.Evaluate(worker, *grant);
      EXPECT_TRUE(harness.Take<proto::EvaluateAck>(worker.peer).has_value());
    } else {
      harness.Work(&worker, *grant);
    }
  }
  EXPECT_EQ(evaluated, (std::vector<uint32_t>{2, 3}));
  const proto::JobStatus status = harness.status();
  ASSERT_EQ(status.evaluations.size(), 2U);
  EXPECT_DOUBLE_EQ(status.evaluations[1].accuracy, 0.5);
  EXPECT_EQ(status.evaluations[1].samples, 100U);
  EXPECT_EQ(status.state, proto::RunState::kDone);
}

// A straggler holds the first epoch open while others train those that follow.
TEST(WorkTest, EpochsThatEndWithOneModelAreEvaluatedOnceAsTheNewestOfThem) {
  CoordinatorOptions options = SmallJob();
  options.config.workers = {{2, 0, 1, 1}};
  options.config.train.epochs = 5;
  options.train_samples = 40;
  options.test_samples = 100;
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> first = harness.AskAll(&workers);
  harness.Work(&workers[1], first[1]);
  auto next = harness.Ask(&workers[1]);
  for (; next && next->epoch < 3; next = harness.Ask(&workers[1])) {
    ASSERT_EQ(next->kind, proto::LeaseKind::kTrain);
    harness.Work(&workers[1], *next);
  }
  ASSERT_TRUE(next.has_value());
  harness.Work(&workers[0], first[0]);
  harness.Work(&workers[1], *next);
  std::vector<uint32_t> evaluated;
  RunToTheEnd(&harness, &workers);
  for (const proto::EvaluationRow& row : harness.status().evaluations) {
    evaluated.push_back(row.epoch);
  }
  EXPECT_EQ(harness.status().state, proto::RunState::kDone);
  EXPECT_EQ(evaluated, (std::vector<uint32_t>{3, 4, 5})) << "epochs 1 to 3 have ended at once";
}

TEST(WorkTest, AnEvaluationWhoseWorkerDiesIsDoneByAnother) {
  CoordinatorOptions options = SmallJob();
  options.config.workers = {{2, 0, 1, 1}};
  options.train_samples = 10;
  options.test_samples = 100;
  Harness harness(options);
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  harness.Work(&workers[0], harness.AskAll(&workers)[0]);
  const auto lost = harness.TakeGrant(&workers[1]);
  ASSERT_TRUE(lost.has_value());
  ASSERT_EQ(lost->kind, proto::LeaseKind::kEvaluate);
  EXPECT_FALSE(harness.Ask(&workers[0]).has_value());
  harness.Exit(ProcessKind::kWorker, 1, 1001, "killed by signal 9");
  const auto redone = harness.TakeGrant(&workers[0]);
  ASSERT_TRUE(redone.has_value());
  EXPECT_EQ(redone->begin, lost->begin);
  EXPECT_GT(redone->lease, lost->lease);
  harness.Evaluate(workers[0], *redone);
  harness.Evaluate(workers[0], *redone);
  EXPECT_EQ(harness.status().evaluations.size(), 1U) << "a repetition counts once";
  EXPECT_EQ(harness.status().state, proto::RunState::kDone);
}

TEST(WorkTest, AWrongEvaluationReportIsRefused) {
  CoordinatorOptions options = OneWorker();
  options.train_samples = 10;
  options.test_samples = 100;
  Harness harness(options);
  FakeWorker worker = harness.StartWithWorkers()[0];
  harness.Work(&worker, *harness.Ask(&worker));
  const auto grant = harness.Ask(&worker);
  ASSERT_TRUE(grant.has_value());
  const Incarnation me = worker.incarnation;
  for (const auto& report :
       {proto::EvaluateReport{me, grant->lease, 99, 1, 1, {}},
        proto::EvaluateReport{me, grant->lease, 100, 1, 101, {}},
        proto::EvaluateReport{me, LeaseId(grant->lease.value + 1), 100, 1, 1, {}},
        proto::EvaluateReport{me, grant->lease, 100, 1, 1, {.near_hits = 2, .near_samples = 1}}}) {
    harness.Give(worker.peer, report);
    EXPECT_EQ(harness.Take<proto::Refusal>(worker.peer)->code, StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(harness.status().evaluations.empty());
}

TEST(WorkTest, ALeaseWithoutProgressIsTakenBack) {
  Harness harness;
  std::vector<FakeWorker> workers = harness.StartWithWorkers();
  const std::vector<proto::LeaseGrant> grants = harness.AskAll(&workers);
  for (size_t i = 0; i < workers.size(); ++i) {
    harness.now += std::chrono::milliseconds(20);
    const proto::StepDone done = harness.MakeStep(&workers[i], grants[i], grants[i].begin);
    harness.Complete(workers[i], done.step);
    harness.Give(workers[i].peer, proto::StepReport{workers[i].incarnation, {done}});
  }
  harness.Wait(harness.timing.lease + harness.timing.detect, workers);
  EXPECT_EQ(harness.status().revocations_unnoticed, 3U) << "they beat, and do nothing";
  EXPECT_EQ(harness.Take<proto::Refusal>(workers[0].peer)->code, StatusCode::kStale);
  EXPECT_EQ(harness.status().ledger[0].samples_leased, 0U);
}

TEST(WorkTest, SlowStepsAreNotMistakenForNone) {
  Harness harness(OneWorker());
  FakeWorker worker = harness.StartWithWorkers()[0];
  for (auto grant = harness.Ask(&worker); grant; grant = harness.Ask(&worker)) {
    for (uint64_t begin = grant->begin; begin < grant->end;) {
      harness.Wait(harness.timing.lease * 2, {worker});
      const proto::StepDone done = harness.MakeStep(&worker, *grant, begin);
      harness.Give(worker.peer, proto::StepReport{worker.incarnation, {done}});
      begin = done.end;
    }
  }
  EXPECT_EQ(harness.status().revocations_unnoticed, 0U);
  EXPECT_EQ(harness.status().state, proto::RunState::kDone);
}

}  // namespace
}  // namespace ps::coordinator
