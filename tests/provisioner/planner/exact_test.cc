#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "provisioner/model/queue_model.h"
#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/infeasible.h"
#include "provisioner/planner/planner.h"
#include "tests/provisioner/planner/planning_samples.h"

namespace ps::provisioner {
namespace {

/// No fleet was left unseen.
bool IsComplete(const PlanAnswer& answer) {
  return answer.certainty != proto::Certainty::kBestFound;
}

/// Compares all answers, and says how many problems had one.
int CountEqual(
    uint64_t seed_begin, int problems, const SampleShape& shape, const ExactEffort& effort = {}) {
  int feasible = 0;
  for (int i = 0; i < problems; ++i) {
    const uint64_t seed = seed_begin + static_cast<uint64_t>(i);
    const PlanningSample sample = RandomSample(seed, shape);
    const PlanAnswer exact = SolveExactly(sample.problem, effort);
    const PlanAnswer oracle = Solve("exhaustive", sample.problem);
    feasible += oracle.best.empty() ? 0 : 1;
    EXPECT_TRUE(IsComplete(exact)) << "seed " << seed;
    EXPECT_EQ(exact.best.size(), oracle.best.size()) << "seed " << seed;
    for (size_t k = 0; k < std::min(exact.best.size(), oracle.best.size()); ++k) {
      const FleetChoice& a = exact.best[k];
      const FleetChoice& b = oracle.best[k];
      EXPECT_EQ(a.counts, b.counts)
          << "seed " << seed << ", answer " << k << ": " << a.usd << " against " << b.usd;
      EXPECT_EQ(a.server_offer, b.server_offer) << "seed " << seed << ", answer " << k;
      EXPECT_EQ(a.server_hosts, b.server_hosts) << "seed " << seed << ", answer " << k;
      EXPECT_EQ(a.usd, b.usd) << "seed " << seed << ", answer " << k;
      EXPECT_EQ(a.seconds, b.seconds) << "seed " << seed << ", answer " << k;
    }
    if (::testing::Test::HasFailure()) {
      break;
    }
  }
  return feasible;
}

TEST(ExactTest, EqualsExhaustiveOnRandomClusters) {
  const int feasible = CountEqual(1, 1000, {.classes = 4, .quota_max = 4});
  EXPECT_GT(feasible, 300);
  EXPECT_LT(feasible, 950);
}

TEST(ExactTest, EqualsExhaustiveWithoutHeterogeneity) {
  EXPECT_GT(
      CountEqual(20'000, 600, {.classes = 4, .quota_max = 4, .has_heterogeneity = false}), 100);
}

TEST(ExactTest, EqualsExhaustiveWithSeveralServers) {
  EXPECT_GT(
      CountEqual(30'000, 500, {.classes = 3, .quota_max = 3, .server_offers = 3, .hosts_max = 4}),
      100);
}

TEST(ExactTest, EqualsExhaustiveWithTwoMarkets) {
  EXPECT_GT(CountEqual(40'000, 600, {.classes = 3, .quota_max = 3, .has_two_markets = true}), 100);
}

TEST(ExactTest, EqualsExhaustiveWithHeldInstances) {
  EXPECT_GT(CountEqual(50'000, 600, {.classes = 4, .quota_max = 5, .has_held = true}), 100);
}

TEST(ExactTest, EqualsExhaustiveWhereWhatRunsNeedNotBeKept) {
  SampleShape shape{.classes = 4, .quota_max = 4, .has_held = true, .may_drop_held = true};
  EXPECT_GT(CountEqual(200'000, 300, shape), 100);
  shape.classes = 3;
  shape.has_two_markets = true;
  EXPECT_GT(CountEqual(210'000, 200, shape), 50);
  shape.has_two_markets = false;
  shape.has_pools = true;
  shape.is_queue = true;
  EXPECT_GT(CountEqual(220'000, 100, shape), 30);
}

TEST(ExactTest, WhatRunsIsKeptOrDroppedAsItIsCheaper) {
  SampleShape shape{.classes = 3, .quota_max = 4, .has_held = true};
  int dropped = 0;
  int stayed = 0;
  for (uint64_t seed = 300'000; seed < 300'200; ++seed) {
    const PlanAnswer kept = Solve("exact", RandomSample(seed, shape).problem);
    SampleShape free = shape;
    free.may_drop_held = true;
    const PlanningSample sample = RandomSample(seed, free);
    const PlanAnswer any = Solve("exact", sample.problem);
    if (kept.best.empty() || any.best.empty()) {
      EXPECT_TRUE(kept.best.empty()) << "more is allowed, seed " << seed;
      continue;
    }
    EXPECT_LE(any.best.front().usd, kept.best.front().usd * (1 + 1e-12)) << "seed " << seed;
    bool is_less = false;
    for (size_t i = 0; i < sample.problem.runs.size(); ++i) {
      is_less = is_less || any.best.front().counts[i] < sample.problem.runs[i];
    }
    dropped += is_less ? 1 : 0;
    stayed += any.best.front().counts == sample.problem.runs ? 1 : 0;
  }
  EXPECT_GT(dropped, 20);
  EXPECT_GT(stayed, 0);
}

TEST(ExactTest, EqualsExhaustiveWhereMinibatchesAndServersShareQuotas) {
  SampleShape shape{.classes = 4, .quota_max = 4, .server_offers = 2, .has_pools = true};
  EXPECT_GT(CountEqual(160'000, 300, shape), 80);
  shape.has_held = true;
  EXPECT_GT(CountEqual(170'000, 200, shape), 50);
  shape.is_queue = true;
  EXPECT_GT(CountEqual(180'000, 150, shape), 40);
  shape.has_curves = true;
  shape.has_overlap = true;
  EXPECT_GT(CountEqual(190'000, 100, shape), 20);
}

/// Ends a search after so many questions.
class CountingWatch final : public SearchWatch {
 public:
  explicit CountingWatch(int questions) : left_(questions) {}

  bool GoesOn(const SearchProgress& progress) override {
    last_ = progress;
    left_ = std::max(left_ - 1, 0);
    return left_ > 0;
  }

  const SearchProgress& last() const { return last_; }

 private:
  int left_;
  SearchProgress last_;
};

TEST(ExactTest, ASearchThatIsStoppedHasTheBestSoFarAndAValidBound) {
  const SampleShape shape{.classes = 6, .quota_max = 8, .is_queue = true};
  int with_plan = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    PlanningSample sample = RandomSample(seed, shape);
    const PlanAnswer whole = Solve("exact", sample.problem);
    for (const int questions : {1, 3, 30, 60, 120}) {
      CountingWatch watch(questions);
      sample.problem.watch = &watch;
      const PlanAnswer answer = SolveExactly(sample.problem, {});
      if (!answer.is_stopped) {
        EXPECT_EQ(answer.best.size(), whole.best.size());
        continue;
      }
      EXPECT_EQ(answer.certainty, proto::Certainty::kBestFound) << seed;
      if (!whole.best.empty()) {
        EXPECT_LE(answer.usd_bound, whole.best.front().usd * (1 + 1e-9)) << seed;
      }
      if (!answer.best.empty()) {
        ++with_plan;
        EXPECT_GE(answer.best.front().usd, whole.best.front().usd * (1 - 1e-9)) << seed;
      }
    }
    sample.problem.watch = nullptr;
  }
  EXPECT_GT(with_plan, 5);
}

TEST(ExactTest, ASearchThatIsStoppedAtOnceSaysThatItFoundNothing) {
  for (const char* strategy : {"exact", "exhaustive"}) {
    PlanningSample sample = RandomSample(3, {.classes = 4, .quota_max = 4});
    CountingWatch watch(1);
    sample.problem.watch = &watch;
    const PlanAnswer answer = Solve(strategy, sample.problem);
    EXPECT_TRUE(answer.is_stopped) << strategy;
    EXPECT_EQ(answer.certainty, proto::Certainty::kBestFound) << strategy;
    if (answer.best.empty()) {
      EXPECT_NE(answer.infeasible.reason.find("before the search was stopped"), std::string::npos);
    }
  }
}

TEST(ExactTest, EqualsExhaustiveWithLooseBounds) {
  EXPECT_GT(
      CountEqual(
          60'000, 400, {.classes = 3, .quota_max = 5, .variant = SpotDnnVariant::kPrototype}),
      100);
}

TEST(ExactTest, EqualsExhaustiveWithTheQueue) {
  EXPECT_GT(CountEqual(70'000, 800, {.classes = 4, .quota_max = 4, .is_queue = true}), 200);
  EXPECT_GT(
      CountEqual(
          80'000,
          300,
          {.classes = 3,
           .quota_max = 4,
           .server_offers = 2,
           .hosts_max = 3,
           .has_held = true,
           .is_queue = true}),
      50);
}

/// Doubt of a type counts by its part of the speed, so that a slower fleet may be the surer one.
TEST(ExactTest, EqualsExhaustiveWithTypesThatNobodyMeasured) {
  EXPECT_GT(
      CountEqual(
          210'000, 800, {.classes = 4, .quota_max = 4, .is_queue = true, .has_reckoned = true}),
      100);
  EXPECT_GT(
      CountEqual(
          220'000,
          400,
          {.classes = 3,
           .quota_max = 5,
           .hosts_max = 3,
           .has_two_markets = true,
           .has_held = true,
           .has_curves = true,
           .has_reckoned = true}),
      50);
}

TEST(ExactTest, EqualsExhaustiveWithCurvesWhoseDoubtGrowsWithTheFleet) {
  EXPECT_GT(CountEqual(90'000, 600, {.classes = 4, .quota_max = 4, .has_curves = true}), 100);
  EXPECT_GT(CountEqual(91'000, 200, {.has_curves = true, .is_under_way = true}), 30);
  EXPECT_GT(CountEqual(92'000, 200, {.has_held = true, .is_under_way = true}), 30);
  EXPECT_GT(
      CountEqual(
          100'000,
          400,
          {.classes = 3,
           .quota_max = 4,
           .server_offers = 2,
           .has_held = true,
           .is_queue = true,
           .has_curves = true}),
      50);
}

TEST(ExactTest, EqualsExhaustiveWhereSomeFleetsExchangeLateAndOthersDoNot) {
  SampleShape shape{.classes = 4, .quota_max = 4, .has_curves = true, .has_overlap = true};
  EXPECT_GT(CountEqual(130'000, 400, shape), 100);
  shape.classes = 3;
  shape.server_offers = 2;
  shape.is_queue = true;
  EXPECT_GT(CountEqual(140'000, 400, shape), 100);
  shape.has_held = true;
  EXPECT_GT(CountEqual(150'000, 200, shape), 30);
}

TEST(ExactTest, EqualsExhaustiveWithRoundsOfLocalSteps) {
  SampleShape shape{.classes = 4, .quota_max = 4, .local_steps = 50};
  EXPECT_GT(CountEqual(230'000, 200, shape), 50);
  shape.is_queue = true;
  shape.has_curves = true;
  EXPECT_GT(CountEqual(240'000, 100, shape), 20);
}

TEST(ExactTest, EqualsExhaustiveWhereMoreWorkersShareTheRateOfTheListedOnes) {
  SampleShape shape{.classes = 4, .quota_max = 4, .workers_listed = 3};
  EXPECT_GT(CountEqual(250'000, 200, shape), 40);
  shape.is_queue = true;
  shape.has_curves = true;
  shape.has_held = true;
  EXPECT_GT(CountEqual(260'000, 150, shape), 20);
}

TEST(ExactTest, EqualsExhaustiveWithShortWalksAndManyCuts) {
  const ExactEffort effort{.nodes_max = 2, .nodes_max_uniform = 4, .cuts_per_doubling = 8};
  // Ran out of effort when walks were kept short for ranges that no cut can narrow.
  CountEqual(9'001'948, 1, {.classes = 5, .quota_max = 5}, effort);
  EXPECT_GT(CountEqual(110'000, 200, {.classes = 5, .quota_max = 5}, effort), 100);
  EXPECT_GT(CountEqual(120'000, 100, {.classes = 4, .quota_max = 4, .is_queue = true}, effort), 20);
}

TEST(ExactTest, MinibatchesOnWhichStepsDependTakeNoMoreEffort) {
  const SampleShape shape{
      .classes = 12,
      .quota_max = 20,
      .server_offers = 2,
      .is_queue = true,
      .has_curves = true,
      .has_overlap = true};
  int complete = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    PlanningSample sample = RandomSample(seed, shape);
    sample.problem.effort_max = 500'000;
    complete += IsComplete(SolveExactly(sample.problem, {})) ? 1 : 0;
  }
  EXPECT_GE(complete, 12);  // 4 while only cuts told batches apart
}

TEST(ExactTest, IsNeverDearerThanTheWindow) {
  int worse = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const PlanningSample sample = RandomSample(seed, {.classes = 6, .quota_max = 8});
    const PlanAnswer exact = Solve("exact", sample.problem);
    const PlanAnswer window = Solve("spotdnn", sample.problem);
    if (window.best.empty()) {
      continue;
    }
    ASSERT_FALSE(exact.best.empty()) << "seed " << seed;
    EXPECT_LE(exact.best.front().usd, window.best.front().usd * (1 + 1e-12)) << "seed " << seed;
    worse += window.best.front().usd > exact.best.front().usd * 1.001 ? 1 : 0;
  }
  EXPECT_GT(worse, 3);  // else this compares nothing
}

TEST(ExactTest, ClaimsAProofForModelsWhoseBoundsAreProved) {
  PlanningSample sample = ResNet110(SpotDnnVariant::kPaper, 0.8, 2400);
  EXPECT_EQ(Solve("exact", sample.problem).certainty, proto::Certainty::kProven);
  const QueueSpeedModel queue(sample.problem.speed->classes(), {.push_bytes = 1e6}, {});
  sample.problem.speed = &queue;
  EXPECT_EQ(Solve("exact", sample.problem).certainty, proto::Certainty::kBoundsChecked);
  sample.problem.effort_max = 1;
  EXPECT_EQ(Solve("exact", sample.problem).certainty, proto::Certainty::kBestFound);
}

TEST(ExactTest, EndsWithTheBestItHasAndABoundWhenItsEffortIsSpent) {
  PlanningSample sample = ResNet110(SpotDnnVariant::kPaper, 0.8, 2400);
  const PlanAnswer proven = Solve("exact", sample.problem);
  ASSERT_FALSE(proven.best.empty());
  EXPECT_EQ(proven.certainty, proto::Certainty::kProven);
  int unproven = 0;
  for (uint64_t effort = 1; effort < 100'000; effort *= 3) {
    sample.problem.effort_max = effort;
    const PlanAnswer answer = Solve("exact", sample.problem);
    if (IsComplete(answer)) {
      EXPECT_EQ(answer.best.front().counts, proven.best.front().counts);
      continue;
    }
    ++unproven;
    EXPECT_LE(answer.usd_bound, proven.best.front().usd * (1 + 1e-9));
    if (answer.best.empty()) {
      EXPECT_FALSE(answer.infeasible.reason.empty());
    } else {
      EXPECT_GE(answer.best.front().usd, proven.best.front().usd);
    }
  }
  EXPECT_GT(unproven, 1);
}

TEST(ExactTest, SaysWhenAnAnswerMayBeMissingAndWhatItCostsAtLeast) {
  int incomplete = 0;
  int complete = 0;
  for (uint64_t seed = 100'000; seed < 100'100; ++seed) {
    PlanningSample sample = RandomSample(seed, {.classes = 5, .quota_max = 5});
    if (seed % 2 == 0) {  // a single region, until it is cut
      sample.problem.workers_min = sample.problem.workers_max = 1 + static_cast<int>(seed % 6);
    }
    const PlanAnswer oracle = Solve("exhaustive", sample.problem);
    for (uint64_t effort = 1; effort < 20'000; effort += 1 + effort / 10) {
      sample.problem.effort_max = effort;
      const PlanAnswer answer = Solve("exact", sample.problem);
      int missed = 0;
      for (const FleetChoice& choice : oracle.best) {
        const bool is_in =
            std::any_of(answer.best.begin(), answer.best.end(), [&](const FleetChoice& other) {
              return other.counts == choice.counts && other.server_hosts == choice.server_hosts;
            });
        if (!is_in) {
          ++missed;
          EXPECT_FALSE(IsComplete(answer)) << "seed " << seed << ", effort " << effort;
          EXPECT_GE(choice.usd, answer.usd_bound * (1 - 1e-9))
              << "seed " << seed << ", effort " << effort;
        }
      }
      incomplete += missed > 0 ? 1 : 0;
      complete += missed == 0 && IsComplete(answer) ? 1 : 0;
    }
  }
  EXPECT_GT(incomplete, 50);  // else this compares nothing
  EXPECT_GT(complete, 50);
}

TEST(ExactTest, PrefersFewerWorkersThenEarlierOffersAtEqualCost) {
  PlanningSample sample = RandomSample(1, {.classes = 1, .quota_max = 4});
  // The same class at the same price twice.
  sample.problem.offers = {
      {0, proto::Market::kSpot, 1, 3, 0}, {0, proto::Market::kOnDemand, 1, 3, 0}};
  sample.problem.goal = {.loss = 0.9, .seconds_max = 1e9, .usd_max = 1e9, .takeover_s = 0};
  const PlanAnswer answer = Solve("exact", sample.problem);
  ASSERT_FALSE(answer.best.empty());
  EXPECT_EQ(answer.best.front().counts, std::vector<int>({1, 0}));
  for (const FleetChoice& choice : answer.best) {
    EXPECT_TRUE(choice.counts[1] == 0 || choice.counts[0] == 3);
  }
}

TEST(ExactTest, KeepsWhatIsHeldAndChargesTheTakeover) {
  PlanningSample sample = ResNet110(SpotDnnVariant::kPaper, 0.8, 2400);
  const PlanAnswer free_choice = Solve("exact", sample.problem);
  ASSERT_FALSE(free_choice.best.empty());
  sample.problem.offers[1].held = 3;
  sample.problem.goal.takeover_s = 30;
  const PlanAnswer answer = Solve("exact", sample.problem);
  ASSERT_FALSE(answer.best.empty());
  EXPECT_GE(answer.best.front().counts[1], 3);
  EXPECT_GE(answer.best.front().usd, free_choice.best.front().usd);
  EXPECT_LE(answer.best.front().seconds, 2400);
  const FleetChoice& best = answer.best.front();
  EXPECT_NEAR(best.seconds, best.steps / best.speed.steps_per_s + 30, 1e-6);
}

TEST(ExactTest, HigherConfidenceAsksForMoreSpeed) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    PlanningSample sample = RandomSample(seed, {.classes = 4, .quota_max = 6});
    sample.problem.goal.confidence = 0.5;
    const PlanAnswer expected = Solve("exact", sample.problem);
    sample.problem.goal.confidence = 0.95;
    const PlanAnswer safe = Solve("exact", sample.problem);
    if (safe.best.empty()) {
      continue;
    }
    ++compared;
    const double factor = std::exp(1.6448536 * std::hypot(0.03, 0.05));
    EXPECT_LE(safe.best.front().seconds * factor, sample.problem.goal.seconds_max * (1 + 1e-6));
    ASSERT_FALSE(expected.best.empty());
    EXPECT_GE(safe.best.front().usd, expected.best.front().usd * (1 - 1e-12));
  }
  EXPECT_GT(compared, 5);
}

}  // namespace
}  // namespace ps::provisioner
