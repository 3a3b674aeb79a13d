#include <gtest/gtest.h>

#include <algorithm>

#include "tests/coordinator/harness.h"

namespace ps::coordinator {
namespace {

class BspTest : public ::testing::Test {
 protected:
  explicit BspTest(const CoordinatorOptions& options = Options()) : harness_(options) {
    workers_ = harness_.StartWithWorkers();
    grants_ = harness_.AskAll(&workers_);
  }

  static CoordinatorOptions Options() { return SmallJob(proto::Mode::kBsp); }

  /// Stages worker `i`'s step on all shards and reports it.
  void Report(size_t i, bool is_rejected = false) {
    proto::StepDone done = harness_.MakeStep(&workers_[i], grants_[i], grants_[i].begin);
    done.is_rejected = is_rejected;
    harness_.Complete(workers_[i], done.step);
    harness_.Give(workers_[i].peer, proto::StepReport{workers_[i].incarnation, {done}});
  }

  bool AskNext(size_t i) {
    const auto grant = harness_.Ask(&workers_[i]);
    grants_[i] = grant.value_or(proto::LeaseGrant{});
    return grant.has_value();
  }

  void Kill(size_t i) {
    const auto seat = static_cast<uint32_t>(i);
    harness_.Exit(ProcessKind::kWorker, seat, 1000 + seat, "killed by signal 9");
  }

  const std::vector<proto::CommitRound>& Commits() const { return harness_.shards[0].commits; }

  Harness harness_;
  std::vector<FakeWorker> workers_;
  std::vector<proto::LeaseGrant> grants_;
};

TEST_F(BspTest, EveryMemberGetsOneMinibatchOfTheRound) {
  for (const proto::LeaseGrant& grant : grants_) {
    EXPECT_EQ(grant.round, 1U);
    EXPECT_EQ(grant.end - grant.begin, 10U);
  }
}

TEST_F(BspTest, ARoundIsCommittedWhenAllHaveReported) {
  Report(2);
  Report(0);
  EXPECT_FALSE(AskNext(0)) << "the round is open";
  EXPECT_TRUE(Commits().empty());
  Report(1);
  ASSERT_EQ(Commits().size(), 1U);
  EXPECT_EQ(Commits()[0].round, 1U);
  ASSERT_EQ(Commits()[0].contributions.size(), 3U);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(Commits()[0].contributions[i].worker, WorkerId(i)) << "by worker";
    EXPECT_EQ(Commits()[0].contributions[i].samples, 10U);
    EXPECT_EQ(Commits()[0].contributions[i].step, 1U);
  }
  const auto next = harness_.TakeGrant(&workers_[0]);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->round, 2U);
}

TEST_F(BspTest, ARoundWaitsForThoseWhoHaveNotAskedYet) {
  for (size_t i = 0; i < 3; ++i) {
    Report(i);
  }
  ASSERT_TRUE(AskNext(0));
  Report(0);
  EXPECT_EQ(Commits().size(), 1U) << "workers 1 and 2 are on their way";
  ASSERT_TRUE(AskNext(1));
  Report(1);
  EXPECT_EQ(Commits().size(), 1U);
  Kill(2);
  ASSERT_EQ(Commits().size(), 2U) << "worker 2 never comes";
  EXPECT_EQ(Commits()[1].contributions.size(), 2U);
}

TEST_F(BspTest, TheNextCommitWaitsForTheLastOnesAcknowledgements) {
  harness_.shards[1].is_mute = true;
  for (size_t i = 0; i < 3; ++i) {
    Report(i);
  }
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(AskNext(i)) << "leases of the next round are out already";
    EXPECT_EQ(grants_[i].round, 2U);
    Report(i);
  }
  EXPECT_EQ(Commits().size(), 1U);
  harness_.Wait(harness_.timing.detect / 2, workers_);
  EXPECT_GE(harness_.shards[1].unanswered.size(), 2U) << "sent again";
  harness_.Unmute(1);
  EXPECT_EQ(Commits().size(), 2U);
  EXPECT_EQ(harness_.shards[1].commits.size(), 2U);
}

/// The shards have room for three gradients of 1,360,000 / 4 bytes.
class FullBspTest : public BspTest {
 protected:
  FullBspTest() : BspTest(LargeJob()) {}

  static CoordinatorOptions LargeJob() {
    CoordinatorOptions options = Options();
    options.config.servers.queue_mib = 1;
    options.tensors = {{"w", {170000}}};
    return options;
  }
};

TEST_F(FullBspTest, AReplacementWaitsWhileWhatTheGoneOneStagedTakesItsRoom) {
  Report(0);
  Kill(0);
  const proto::PeerId replacement = harness_.AskToJoin(0);
  EXPECT_FALSE(harness_.Take<proto::JoinReply>(replacement).has_value())
      << "its gradient would be refused, and the round would wait for it";
  EXPECT_FALSE(harness_.Take<proto::Refusal>(replacement).has_value());
  Report(1);
  EXPECT_FALSE(harness_.Take<proto::JoinReply>(replacement).has_value());
  Report(2);
  ASSERT_EQ(Commits().size(), 1U) << "the round needs nobody else";
  EXPECT_EQ(Commits()[0].contributions.size(), 3U);
  EXPECT_TRUE(harness_.Take<proto::JoinReply>(replacement).has_value());
}

TEST_F(FullBspTest, AReplacementOfOneWhoStagedNothingComesAtOnce) {
  Kill(0);
  const proto::PeerId replacement = harness_.AskToJoin(0);
  EXPECT_TRUE(harness_.Take<proto::JoinReply>(replacement).has_value());
}

TEST_F(BspTest, DeathBeforeStagingLeavesTheWorkerOut) {
  Report(0);
  Report(1);
  Kill(2);
  ASSERT_EQ(Commits().size(), 1U);
  EXPECT_EQ(Commits()[0].contributions.size(), 2U);
  EXPECT_EQ(harness_.status().ledger[0].samples_returned, 10U);
  ASSERT_TRUE(AskNext(0));
  EXPECT_EQ(grants_[0].begin, 20U) << "its samples first";
}

TEST_F(BspTest, DeathAfterStagingOnAllShardsCountsAndIsCommitted) {
  Report(0);
  Report(1);
  harness_.Complete(workers_[2], 1);
  Kill(2);
  ASSERT_EQ(Commits().size(), 1U);
  ASSERT_EQ(Commits()[0].contributions.size(), 3U);
  EXPECT_EQ(Commits()[0].contributions[2].incarnation, workers_[2].incarnation);
  EXPECT_EQ(Commits()[0].contributions[2].samples, 10U);
  EXPECT_EQ(harness_.status().samples_counted, 30U);
}

TEST_F(BspTest, DeathAfterStagingOnSomeShardsIsLeftOutEverywhere) {
  Report(0);
  Report(1);
  harness_.shards[0].complete[workers_[2].incarnation] = 1;
  Kill(2);
  ASSERT_EQ(Commits().size(), 1U);
  EXPECT_EQ(Commits()[0].contributions.size(), 2U);
  EXPECT_EQ(harness_.status().steps_partial, 1U);
  EXPECT_EQ(harness_.status().samples_counted, 20U);
}

TEST_F(BspTest, WhatTheDeadHaveStagedIsKeptUntilItsRoundIsCommitted) {
  Report(2);
  Kill(2);
  const Incarnation dead = workers_[2].incarnation;
  harness_.Join(7);
  const auto is_kept = [&] {
    const auto& resolve = harness_.shards[0].membership.resolve;
    return std::find(resolve.begin(), resolve.end(), dead) != resolve.end();
  };
  EXPECT_TRUE(is_kept());
  harness_.shards[1].is_mute = true;
  Report(0);
  Report(1);
  ASSERT_EQ(Commits().size(), 1U);
  ASSERT_EQ(Commits()[0].contributions.size(), 3U);
  harness_.AskToJoin(8);
  EXPECT_TRUE(is_kept()) << "one shard has not committed";
  harness_.Unmute(1);
  harness_.Join(9);
  EXPECT_FALSE(is_kept());
}

TEST_F(BspTest, RejectedContributionsCountButAreNotCommitted) {
  Report(0);
  Report(1, true);
  Report(2);
  ASSERT_EQ(Commits().size(), 1U);
  ASSERT_EQ(Commits()[0].contributions.size(), 2U);
  EXPECT_EQ(Commits()[0].contributions[1].worker, WorkerId(2));
  EXPECT_EQ(harness_.status().samples_rejected, 10U);
}

TEST_F(BspTest, ARoundOfRejectedContributionsCommitsEmpty) {
  for (size_t i = 0; i < 3; ++i) {
    Report(i, true);
  }
  ASSERT_EQ(Commits().size(), 1U);
  EXPECT_TRUE(Commits()[0].contributions.empty());
}

TEST_F(BspTest, ARoundThatEverybodyLeftGoesOnUnderItsNumber) {
  for (size_t i = 0; i < 3; ++i) {
    Kill(i);
  }
  EXPECT_TRUE(Commits().empty());
  FakeWorker fresh = harness_.Join();
  const auto grant = harness_.Ask(&fresh);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->round, 1U);
  harness_.Work(&fresh, *grant);
  ASSERT_EQ(Commits().size(), 1U);
  EXPECT_EQ(Commits()[0].contributions.size(), 1U);
}

TEST_F(BspTest, ALateJoinerEntersTheOpenRound) {
  Report(0);
  FakeWorker late = harness_.Join();
  const auto grant = harness_.Ask(&late);
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->round, 1U);
  Report(1);
  Report(2);
  EXPECT_TRUE(Commits().empty());
  harness_.Work(&late, *grant);
  ASSERT_EQ(Commits().size(), 1U);
  EXPECT_EQ(Commits()[0].contributions.size(), 4U);
}

TEST_F(BspTest, AGoodbyeWithoutTheStepLetsTheRoundGoOn) {
  Report(0);
  Report(1);
  harness_.Give(workers_[2].peer, proto::Goodbye{workers_[2].incarnation, "notice", {}});
  ASSERT_EQ(Commits().size(), 1U);
  EXPECT_EQ(Commits()[0].contributions.size(), 2U);
}

CoordinatorOptions WithEvaluation() {
  CoordinatorOptions options = SmallJob(proto::Mode::kBsp);
  options.config.train.epochs = 2;
  options.train_samples = 45;
  options.test_samples = 600;
  return options;
}

class BspEpochTest : public BspTest {
 protected:
  BspEpochTest() : BspTest(WithEvaluation()) {}
};

TEST_F(BspEpochTest, EvaluationHappensBetweenTheRoundsOfTwoEpochs) {
  for (size_t i = 0; i < 3; ++i) {
    Report(i);
  }
  ASSERT_TRUE(AskNext(0));
  ASSERT_TRUE(AskNext(1));
  EXPECT_EQ(grants_[1].end - grants_[1].begin, 5U) << "the epoch's rest";
  EXPECT_FALSE(AskNext(2)) << "no sample is left for it in this round";
  Report(0);
  Report(1);
  ASSERT_EQ(Commits().size(), 2U);
  std::vector<proto::LeaseGrant> parts;
  for (size_t i = 0; i < 3; ++i) {
    const auto grant = i == 2 ? harness_.TakeGrant(&workers_[i]) : harness_.Ask(&workers_[i]);
    if (grant) {
      EXPECT_EQ(grant->kind, proto::LeaseKind::kEvaluate);
      EXPECT_EQ(grant->round, 2U) << "of the committed parameters";
      parts.push_back(*grant);
      harness_.Evaluate(workers_[i], *grant);
    }
  }
  EXPECT_EQ(parts.size(), 2U);
  EXPECT_EQ(harness_.status().evaluations.size(), 1U);
  const auto next = harness_.Ask(&workers_[2]);
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->kind, proto::LeaseKind::kTrain);
  EXPECT_EQ(next->epoch, 1U);
  EXPECT_EQ(next->round, 3U);
}

}  // namespace
}  // namespace ps::coordinator
