// Plans with revocations, against every fleet that there is.

#include "provisioner/strategies/revocable_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "provisioner/planner/fleet_judge.h"
#include "ps/base/random.h"
#include "tests/provisioner/planner/planning_samples.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;

/// Lives of which some revoke most machines before the goal's time is over. Machines on demand
/// stay.
FleetLives RandomLives(uint64_t seed, const PlanProblem& problem, bool is_one_law) {
  Random random(seed);
  FleetLives lives;
  lives.join_s = 1;
  const double seconds = std::min(problem.goal.seconds_max, 20'000.0);
  const double hours = seconds / 3600;
  for (const Offer& offer : problem.offers) {
    OfferLife& life = lives.offers.emplace_back();
    life.start_up_s = seconds * (is_one_law ? 0.05 : 0.15 * random.Unit());
    if (offer.market != proto::Market::kSpot || (!is_one_law && random.Chance(0.2))) {
      continue;
    }
    if (lives.laws.empty() || !is_one_law) {
      const double early = 0.5 * random.Unit();
      const auto law = LifetimeLaw::FromPoints(
          {{0.3 * hours, early}, {hours, early + 0.4 * random.Unit()}, {3 * hours, 0.95}});
      EXPECT_TRUE(law.ok()) << law.status();
      lives.laws.push_back(std::make_unique<LifetimeLaw>(*law));
    }
    life.law = lives.laws.back().get();
  }
  return lives;
}

/// Whether a dearer offer is used while there is a cheaper one that lives alike: never better.
bool IsDominated(
    const PlanProblem& problem,
    const FleetJudge& judge,
    const FleetLives& lives,
    const std::vector<int>& counts) {
  for (const std::vector<int>& ladder : judge.ladders()) {
    for (size_t rung = 1; rung < ladder.size(); ++rung) {
      const auto cheaper = static_cast<size_t>(ladder[rung - 1]);
      const auto dearer = static_cast<size_t>(ladder[rung]);
      if (lives.offers[cheaper].law == lives.offers[dearer].law &&
          counts[cheaper] < problem.offers[cheaper].quota &&
          counts[dearer] > problem.offers[dearer].held) {
        return true;
      }
    }
  }
  return false;
}

/// The least costs with revocations of the fleets that meet the goal, of every fleet on offer.
std::vector<double> LeastCosts(const PlanProblem& problem, const FleetLives& lives) {
  FleetJudge judge(problem);
  std::vector<double> costs;
  for (size_t server = 0; server < problem.servers.size(); ++server) {
    const ServerOffer& side = problem.servers[server];
    for (int hosts = side.hosts_min; hosts <= side.hosts_max; ++hosts) {
      std::vector<int> counts;
      for (const Offer& offer : problem.offers) {
        counts.push_back(offer.held);
      }
      for (size_t digit = 0; digit < counts.size();) {
        const auto offer = static_cast<int>(server);
        if (judge.IsSizeAllowed(counts) && judge.FitsPools(counts, offer, hosts) &&
            !IsDominated(problem, judge, lives, counts)) {
          const FleetChoice choice = judge.Choose(counts, offer, hosts);
          const auto run = std::isfinite(choice.seconds)
                               ? ExpectChoice(problem, choice, lives, true)
                               : Result<RunExpectation>(Status::NotFound("never"));
          if (run.ok()) {
            const double expected_s = run->seconds + choice.seconds - run->seconds_without;
            const double usd = run->usd + choice.usd - run->usd_without;
            const double seconds = judge.SecondsAtConfidence(
                TraitsOf(choice.speed, WorkersOf(counts)), hosts, expected_s, judge.IsHeld(counts));
            if (seconds <= problem.goal.seconds_max &&
                usd * seconds / expected_s <= problem.goal.usd_max) {
              costs.push_back(usd);
            }
          }
        }
        for (digit = 0; digit < counts.size(); ++digit) {
          if (counts[digit] < problem.offers[digit].quota) {
            ++counts[digit];
            break;
          }
          counts[digit] = problem.offers[digit].held;
        }
      }
    }
  }
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

Comparison Compare(uint64_t begin, int problems, const SampleShape& shape, bool is_one_law) {
  Comparison out;
  const auto exact = MakeStrategy("exact");
  for (uint64_t seed = begin; seed < begin + static_cast<uint64_t>(problems); ++seed) {
    const PlanningSample sample = RandomSample(seed, shape);
    const FleetLives lives = RandomLives(seed, sample.problem, is_one_law);
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
  const Comparison some = Compare(1, 60, {.classes = 3, .quota_max = 3}, false);
  EXPECT_GT(some.feasible, 10);
  EXPECT_GT(some.other, 3) << "revocations change hardly any choice: the test tests nothing";
}

TEST(RevocablePlanTest, EqualsTheBestOfAllFleetsWhereAllLiveAlike) {
  EXPECT_GT(Compare(1'000, 40, {.classes = 3, .quota_max = 3}, true).feasible, 10);
}

TEST(RevocablePlanTest, EqualsTheBestOfAllFleetsWhereManyCostAboutTheSame) {
  EXPECT_GT(Compare(5'000, 15, {.classes = 4, .quota_max = 4}, false).feasible, 5);
}

TEST(RevocablePlanTest, EqualsTheBestOfAllFleetsInTwoMarkets) {
  const SampleShape shape{.classes = 2, .quota_max = 3, .has_two_markets = true};
  const Comparison some = Compare(2'000, 60, shape, true);
  EXPECT_GT(some.feasible, 10);
  EXPECT_GT(some.other, 0);
  EXPECT_GT(Compare(2'500, 40, shape, false).other, 0);
}

TEST(RevocablePlanTest, EqualsTheBestOfAllFleetsAroundHeldOnesBehindSeveralServers) {
  SampleShape shape{.classes = 3, .quota_max = 3, .has_held = true};
  shape.server_offers = 2;
  EXPECT_GT(Compare(3'000, 30, shape, false).feasible, 5);
  shape.is_queue = true;
  shape.has_curves = true;
  EXPECT_GT(Compare(4'000, 30, shape, false).feasible, 5);
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
    lives.offers.push_back({offer.quota >= 0 ? &*law : nullptr, 1e6});
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
    const FleetLives lives = RandomLives(seed, problem, false);
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
