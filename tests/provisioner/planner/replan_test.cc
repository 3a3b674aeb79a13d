#include "provisioner/planner/replan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;

/// 3 fast and 1 slow worker, 100 s on, 400 samples/s.
ReplanFacts FactsAt(double now_s) {
  ReplanFacts facts;
  facts.now_s = now_s;
  facts.has_loss = true;
  facts.wanted = {{"fast", 3}, {"slow", 1}};
  facts.present = facts.wanted;
  facts.catalog = 7;
  facts.samples_per_s = 400;
  return facts;
}

/// The fleet that is wanted meets the goal, and is the best.
ReplanAnswer Content() {
  ReplanAnswer answer;
  answer.best = {{"slow", 1}, {"fast", 3}};
  answer.best_usd = 10;
  answer.wanted_meets = true;
  answer.wanted_usd = 10;
  answer.speed = {350, 450};
  return answer;
}

ReplanAnswer Better(double usd, bool wanted_meets = true) {
  ReplanAnswer answer = Content();
  answer.best = {{"fast", 4}};
  answer.best_usd = usd;
  answer.wanted_meets = wanted_meets;
  return answer;
}

/// One that was asked at the beginning, at 100 s, and is content.
Replanner Asked(const ReplanAnswer& answer = Content()) {
  Replanner replanner({});
  EXPECT_EQ(replanner.Look(FactsAt(100)), ReplanCause::kBegin);
  EXPECT_FALSE(replanner.Decide(FactsAt(101), answer).has_change);
  return replanner;
}

TEST(ReplanTest, WhatMakesItAsk) {
  struct Row {
    const char* name;
    std::function<void(ReplanFacts*)> change;
    ReplanCause cause;
  };

  const Row rows[] = {
      {"nothing", [](ReplanFacts*) {}, ReplanCause::kNone},
      {"a revocation", [](ReplanFacts* f) { f->revocations = 1; }, ReplanCause::kRevoked},
      {"another count", [](ReplanFacts* f) { f->wanted[0].count = 5; }, ReplanCause::kScaled},
      {"a type more",
       [](ReplanFacts* f) {
         f->wanted.push_back({"new", 1});
       },
       ReplanCause::kScaled},
      {"a type that nobody wants",
       [](ReplanFacts* f) {
         f->wanted.push_back({"new", 0});
       },
       ReplanCause::kNone},
      {"the same in another order",
       [](ReplanFacts* f) { std::swap(f->wanted[0], f->wanted[1]); },
       ReplanCause::kNone},
      {"other prices", [](ReplanFacts* f) { f->catalog = 8; }, ReplanCause::kPrices},
      {"another market", [](ReplanFacts* f) { f->market = 1; }, ReplanCause::kMarket},
      {"a revocation and other prices",
       [](ReplanFacts* f) { f->revocations = 3, f->catalog = 8; },
       ReplanCause::kRevoked},
      {"a slow moment", [](ReplanFacts* f) { f->samples_per_s = 100; }, ReplanCause::kNone},
  };
  for (const Row& row : rows) {
    Replanner replanner = Asked();
    ReplanFacts facts = FactsAt(200);
    row.change(&facts);
    EXPECT_EQ(replanner.Look(facts), row.cause) << row.name;
    EXPECT_EQ(replanner.Look(facts), ReplanCause::kNone) << row.name << ": asked already";
  }
}

TEST(ReplanTest, BeforeThereIsALossThereIsNothingToAsk) {
  Replanner replanner({});
  ReplanFacts facts = FactsAt(1);
  facts.has_loss = false;
  EXPECT_EQ(replanner.Look(facts), ReplanCause::kNone);
  EXPECT_EQ(replanner.Look(FactsAt(2)), ReplanCause::kBegin);
}

TEST(ReplanTest, ASpeedIsOffWhenItStaysOutsideOfWhatWasPredictedOfThisFleet) {
  const auto slow_at = [](double now_s) {
    ReplanFacts facts = FactsAt(now_s);
    facts.samples_per_s = 340;
    return facts;
  };
  Replanner replanner = Asked();
  EXPECT_EQ(replanner.Look(slow_at(200)), ReplanCause::kNone);
  EXPECT_EQ(replanner.Look(slow_at(229)), ReplanCause::kNone);
  EXPECT_EQ(replanner.Look(FactsAt(229.5)), ReplanCause::kNone) << "it is back";
  EXPECT_EQ(replanner.Look(slow_at(230)), ReplanCause::kNone);
  EXPECT_EQ(replanner.Look(slow_at(260)), ReplanCause::kSpeed);
  replanner.Decide(slow_at(261), Content());
  // A fleet that is not whole is not the one that was predicted.
  ReplanFacts partial = slow_at(300);
  partial.present[0].count = 2;
  EXPECT_EQ(replanner.Look(partial), ReplanCause::kNone);
  partial.now_s = 400;
  EXPECT_EQ(replanner.Look(partial), ReplanCause::kNone);
}

TEST(ReplanTest, TheSpeedOfAFleetThatAPlanHasChosenIsWatchedFromTheChangeOn) {
  Replanner replanner({});
  ReplanFacts facts = FactsAt(100);
  EXPECT_EQ(replanner.Look(facts), ReplanCause::kBegin);
  ReplanAnswer answer = Better(5);
  answer.best_speed = {500, 600};
  ASSERT_TRUE(replanner.Decide(facts, answer).has_change);
  const auto look_at = [&](double now_s, double samples_per_s) {
    facts.now_s = now_s;
    facts.samples_per_s = samples_per_s;
    return replanner.Look(facts);
  };
  facts.wanted = {{"fast", 4}, {"slow", 0}};
  EXPECT_EQ(look_at(110, 300), ReplanCause::kNone) << "the former fleet is there yet";
  EXPECT_EQ(look_at(230, 300), ReplanCause::kNone);
  facts.present = facts.wanted;
  EXPECT_EQ(look_at(240, 550), ReplanCause::kNone);
  EXPECT_EQ(look_at(280, 550), ReplanCause::kNone) << "as predicted";
  EXPECT_EQ(look_at(290, 400), ReplanCause::kNone);
  EXPECT_EQ(look_at(320, 400), ReplanCause::kSpeed) << "which the former fleet would have made";
}

/// A profile that is wrong for good, of steps that a run does not measure.
TEST(ReplanTest, ASpeedThatNoAnswerBringsBackIsAskedAboutLessAndLessOften) {
  Replanner replanner = Asked();
  std::vector<double> asked;
  for (double now_s = 200; now_s < 500; ++now_s) {
    ReplanFacts facts = FactsAt(now_s);
    facts.samples_per_s = 340;
    if (replanner.Look(facts) != ReplanCause::kNone) {
      asked.push_back(now_s);
      replanner.Decide(facts, Content());
    }
  }
  EXPECT_EQ(asked, (std::vector<double>{230, 291, 412}));
}

TEST(ReplanTest, WhatIsDecided) {
  struct Row {
    const char* name;
    ReplanAnswer answer;
    bool has_change;
    const char* why;
  };

  ReplanAnswer hopeless = Content();
  hopeless.infeasible = "time: the fastest fleet needs 900 s";
  const Row rows[] = {
      {"content", Content(), false, "is still the cheapest"},
      {"a little cheaper", Better(9.5), false, "would save only 5.0 %"},
      {"much cheaper", Better(6), true, "4 fast instead of 3 fast, 1 slow meets the goal for 40 %"},
      {"dearer, and needed", Better(20, false), true, "3 fast, 1 slow does not"},
      {"a little cheaper, and needed", Better(9.9, false), true, "does not"},
      {"hopeless", hopeless, false, "no fleet meets the goal: time: the fastest"},
  };
  for (const Row& row : rows) {
    Replanner replanner = Asked();
    ReplanFacts facts = FactsAt(200);
    facts.revocations = 1;
    ASSERT_EQ(replanner.Look(facts), ReplanCause::kRevoked) << row.name;
    const ReplanWish wish = replanner.Decide(facts, row.answer);
    EXPECT_EQ(wish.has_change, row.has_change) << row.name;
    EXPECT_THAT(wish.why, HasSubstr(row.why)) << row.name;
    EXPECT_THAT(wish.why, HasSubstr("workers were revoked")) << row.name;
  }
}

TEST(ReplanTest, AChangeNamesTypesThatAreWantedNoMore) {
  Replanner replanner({});
  replanner.Look(FactsAt(100));
  const ReplanWish wish = replanner.Decide(FactsAt(100), Better(5));
  ASSERT_EQ(wish.workers.size(), 2U);
  EXPECT_EQ(wish.workers[0].instance_type, "fast");
  EXPECT_EQ(wish.workers[0].count, 4);
  EXPECT_EQ(wish.workers[1].instance_type, "slow");
  EXPECT_EQ(wish.workers[1].count, 0);
}

TEST(ReplanTest, ItsOwnChangeIsNoReasonAndTheNextOneWaits) {
  Replanner replanner({});
  replanner.Look(FactsAt(100));
  ASSERT_TRUE(replanner.Decide(FactsAt(100), Better(5)).has_change);
  ReplanFacts facts = FactsAt(115);
  facts.wanted = facts.present = {{"fast", 4}, {"slow", 0}};
  EXPECT_EQ(replanner.Look(facts), ReplanCause::kNone);
  facts.revocations = 2;
  for (double now_s = 116; now_s < 220; now_s += 1) {
    facts.now_s = now_s;
    EXPECT_EQ(replanner.Look(facts), ReplanCause::kNone) << "the fleet was changed just now";
  }
  facts.now_s = 220;
  EXPECT_EQ(replanner.Look(facts), ReplanCause::kRevoked) << "and is not forgotten";
}

TEST(ReplanTest, RevocationsInASeriesAreOneQuestionAtATime) {
  Replanner replanner = Asked();
  int questions = 0;
  for (int i = 1; i <= 100; ++i) {
    ReplanFacts facts = FactsAt(200 + i);
    facts.revocations = static_cast<uint64_t>(i);
    if (replanner.Look(facts) != ReplanCause::kNone) {
      ++questions;
      EXPECT_FALSE(replanner.Decide(facts, Content()).has_change);
    }
  }
  EXPECT_EQ(questions, 10);
}

TEST(ReplanTest, AnAnswerToAnotherFleetIsNotUsed) {
  Replanner replanner = Asked();
  ReplanFacts facts = FactsAt(200);
  facts.revocations = 1;
  ASSERT_EQ(replanner.Look(facts), ReplanCause::kRevoked);
  facts.wanted[0].count = 8;  // a person was faster
  EXPECT_FALSE(replanner.Decide(facts, Better(1)).has_change);
  facts.now_s = 211;
  EXPECT_EQ(replanner.Look(facts), ReplanCause::kRevoked);
}

TEST(ReplanTest, AQuestionWithoutAnAnswerIsAskedAgain) {
  Replanner replanner({});
  EXPECT_EQ(replanner.Look(FactsAt(100)), ReplanCause::kBegin);
  replanner.Drop();
  EXPECT_EQ(replanner.Look(FactsAt(105)), ReplanCause::kNone);
  EXPECT_EQ(replanner.Look(FactsAt(110)), ReplanCause::kBegin);
}

}  // namespace
}  // namespace ps::provisioner
