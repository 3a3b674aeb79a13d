// Plans with revocations, against every fleet that there is.

#include "provisioner/strategies/revocable_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/planner/fleet_judge.h"
#include "ps/base/random.h"
#include "tests/provisioner/planner/planning_samples.h"
#include "tests/provisioner/strategies/revocable_samples.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;

/// The least costs with revocations of the fleets that meet the goal, of every fleet on offer.
std::vector<double> LeastCosts(const PlanProblem& problem, const FleetLives& lives) {
  std::vector<double> costs;
  ForEachGoodFleet(problem, lives, [&](const ExpectedFleet& fleet) { costs.push_back(fleet.usd); });
  std::ranges::sort(costs);
  costs.resize(std::min(costs.size(), static_cast<size_t>(problem.answers_max)));
  return costs;
}

double CostOf(const PlanProblem& problem, const FleetChoice& choice, const FleetLives& lives) {
  const auto run = ExpectChoice(problem, choice, lives, true);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? run->usd + choice.usd - run->usd_without : 0;
}

struct Comparison {
  int feasible = 0;
  int other = 0;  // than without revocations
};

Comparison Compare(uint64_t begin, int problems, const SampleShape& shape, LifeShape life) {
  Comparison out;
  const auto exact = MakeStrategy("exact");
  for (uint64_t seed = begin; seed < begin + static_cast<uint64_t>(problems); ++seed) {
    const PlanningSample sample = RandomSample(seed, shape);
    const FleetLives lives = RandomLives(seed, sample.problem, life);
    const std::vector<double> costs = LeastCosts(sample.problem, lives);
    const auto answer = SolveWithRevocations(*exact, sample.problem, lives);
    EXPECT_TRUE(answer.ok()) << answer.status();
    EXPECT_NE(answer->certainty, proto::Certainty::kBestFound) << "seed " << seed;
    EXPECT_EQ(answer->best.size(), costs.size()) << "seed " << seed;
    EXPECT_EQ(answer->best.empty(), !answer->infeasible.reason.empty()) << "seed " << seed;
    for (size_t i = 0; i < std::min(answer->best.size(), costs.size()); ++i) {
      EXPECT_NEAR(CostOf(sample.problem, answer->best[i], lives), costs[i], 1e-9 * costs[i])
          << "seed " << seed << ", answer " << i;
    }
    const PlanAnswer without = Solve("exact", sample.problem);
    out.feasible += costs.empty() ? 0 : 1;
    out.other += !answer->best.empty() && !without.best.empty() &&
                         answer->best.front().counts != without.best.front().counts
                     ? 1
                     : 0;
    if (::testing::Test::HasFailure()) {
      break;
    }
  }
  return out;
}

TEST(RevocablePlanTest, EqualsTheBestOfAllFleetsWhereEachTypeLivesByItsOwnLaw) {
  const Comparison some = Compare(1, 60, {.classes = 3, .quota_max = 3}, LifeShape::kOwnLaws);
  EXPECT_GT(some.feasible, 10);
  EXPECT_GT(some.other, 3) << "revocations change hardly any choice: the test tests nothing";
}

TEST(RevocablePlanTest, EqualsTheBestOfAllFleetsWhereAllLiveAlike) {
  EXPECT_GT(Compare(1'000, 40, {.classes = 3, .quota_max = 3}, LifeShape::kOneLaw).feasible, 10);
}

TEST(RevocablePlanTest, EqualsTheBestOfAllFleetsWhereManyCostAboutTheSame) {
  EXPECT_GT(Compare(5'000, 15, {.classes = 4, .quota_max = 4}, LifeShape::kOwnLaws).feasible, 5);
}

TEST(RevocablePlanTest, EqualsTheBestOfAllFleetsInTwoMarkets) {
  const SampleShape shape{.classes = 2, .quota_max = 3, .has_two_markets = true};
  const Comparison some = Compare(2'000, 60, shape, LifeShape::kOneLaw);
  EXPECT_GT(some.feasible, 10);
  EXPECT_GT(some.other, 0);
  EXPECT_GT(Compare(2'500, 40, shape, LifeShape::kOwnLaws).other, 0);
}

TEST(RevocablePlanTest, EqualsTheBestOfAllFleetsAroundHeldOnesBehindSeveralServers) {
  SampleShape shape{.classes = 3, .quota_max = 3, .has_held = true};
  shape.server_offers = 2;
  EXPECT_GT(Compare(3'000, 30, shape, LifeShape::kOwnLaws).feasible, 5);
  shape.is_queue = true;
  shape.has_curves = true;
  EXPECT_GT(Compare(4'000, 30, shape, LifeShape::kOwnLaws).feasible, 5);
}

TEST(RevocablePlanTest, EqualsTheBestOfAllFleetsWhereWhatRunsHasAges) {
  SampleShape shape{.classes = 3, .quota_max = 4, .has_held = true};
  EXPECT_GT(Compare(6'000, 25, shape, LifeShape::kOwnLawsAndAges).feasible, 5);
  shape.may_drop_held = true;
  EXPECT_GT(Compare(7'000, 25, shape, LifeShape::kOwnLawsAndAges).feasible, 5);
  shape.classes = 2;
  shape.has_two_markets = true;
  EXPECT_GT(Compare(8'000, 25, shape, LifeShape::kOwnLawsAndAges).feasible, 5);
}

TEST(RevocablePlanTest, OfWhatRunsTheSafestAreKeptFirst) {
  const auto law = LifetimeLaw::FromPoints({{1, 0.5}, {20, 0.55}, {24, 0.99}});
  ASSERT_TRUE(law.ok());
  const OfferLife life = {&*law, 60, {0.1, 5, 5, 23}};
  const auto ages = [&](int count) {
    std::vector<std::pair<int, double>> out;
    for (const AgeGroup& group : AgesOf(life, count, 3)) {
      out.emplace_back(group.count, group.age_hours);
    }
    return out;
  };
  using Groups = std::vector<std::pair<int, double>>;
  EXPECT_EQ(ages(1), (Groups{{1, 5}}));
  EXPECT_EQ(ages(3), (Groups{{2, 5}, {1, 0.1}}));
  EXPECT_EQ(ages(6), (Groups{{2, 5}, {1, 0.1}, {1, 23}, {2, 0}}));
}

TEST(RevocablePlanTest, WithoutLawsItIsThePlanWithout) {
  const PlanningSample sample = RandomSample(7, {.classes = 4, .quota_max = 4});
  FleetLives lives;
  lives.offers.resize(sample.problem.offers.size());
  EXPECT_FALSE(lives.HasLaw());
  const PlanAnswer without = Solve("exact", sample.problem);
  const auto with = SolveWithRevocations(*MakeStrategy("exact"), sample.problem, lives);
  ASSERT_TRUE(with.ok());
  ASSERT_EQ(with->best.size(), without.best.size());
  for (size_t i = 0; i < with->best.size(); ++i) {
    EXPECT_EQ(with->best[i].counts, without.best[i].counts);
  }
}

TEST(RevocablePlanTest, AGoalThatRevocationsBreakIsExplained) {
  PlanningSample sample = RandomSample(1, {});
  for (uint64_t seed = 2; Solve("exact", sample.problem).best.empty(); ++seed) {
    sample = RandomSample(seed, {});
  }
  FleetLives lives;
  const auto law = LifetimeLaw::FromPoints({{1e-6, 0.999}});
  ASSERT_TRUE(law.ok());
  for (const Offer& offer : sample.problem.offers) {
    lives.offers.push_back({.law = offer.quota >= 0 ? &*law : nullptr, .start_up_s = 1e6});
  }
  const auto answer = SolveWithRevocations(*MakeStrategy("exact"), sample.problem, lives);
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(answer->best.empty());
  EXPECT_THAT(answer->infeasible.reason, HasSubstr("machines are revoked: none gets there"));
  EXPECT_THAT(answer->infeasible.reason, HasSubstr("--ignore-revocations"));
  sample.problem.goal.usd_max = 1e-9;
  const auto poor = SolveWithRevocations(*MakeStrategy("exact"), sample.problem, lives);
  ASSERT_TRUE(poor.ok());
  EXPECT_EQ(poor->infeasible.reason, Solve("exact", sample.problem).infeasible.reason);
}

/// What the search leaves out fleets by.
TEST(LeastCostShareTest, NoFleetCostsASmallerShareOfWhatItWouldWithout) {
  Random random(3);
  int cheaper = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const PlanningSample sample =
        RandomSample(seed, {.classes = 3, .quota_max = 3, .has_two_markets = seed % 2 == 0});
    const PlanProblem& problem = sample.problem;
    FleetLives lives = RandomLives(seed, problem, LifeShape::kOwnLaws);
    // Only until a loss is known is a seat not paid for.
    for (OfferLife& life : lives.offers) {
      lives.detect_s = std::max(lives.detect_s, std::exchange(life.start_up_s, 0));
    }
    FleetJudge judge(problem);
    std::vector<int> counts;
    for (const Offer& offer : problem.offers) {
      counts.push_back(static_cast<int>(random.Below(static_cast<uint64_t>(offer.quota) + 1)));
    }
    if (WorkersOf(counts) == 0) {
      continue;
    }
    const FleetChoice choice = judge.Choose(counts, 0, 1);
    if (!std::isfinite(choice.seconds)) {
      continue;
    }
    if (const auto run = ExpectChoice(problem, choice, lives, true); run.ok()) {
      const double share = run->usd / run->usd_without;
      EXPECT_GE(share, LeastCostShare(lives, run->seconds)) << "seed " << seed;
      cheaper += share < 0.999 ? 1 : 0;
    }
  }
  EXPECT_GT(cheaper, 5) << "a share of 1 would do";
}

TEST(LeastCostShareTest, IsOneForEqualLivesAndTheShareThatIsUpForOthers) {
  const auto law = LifetimeLaw::FromPoints({{1, 0.5}, {2, 0.9}});
  ASSERT_TRUE(law.ok());
  FleetLives lives;
  lives.offers = {{&*law, 60}, {&*law, 60}};
  EXPECT_EQ(LeastCostShare(lives, INFINITY), 1);
  lives.offers[1].start_up_s = 600;
  const double share = LeastCostShare(lives, 7200);
  EXPECT_LT(share, 1);
  EXPECT_GT(share, 0.8);
  lives.offers.push_back({nullptr, 0});
  EXPECT_LT(LeastCostShare(lives, 7200), share);
  EXPECT_EQ(LeastCostShare(lives, INFINITY), 0);
}

}  // namespace
}  // namespace ps::provisioner
