// Both objectives against every fleet of small random problems, one after the other.

#include "provisioner/planner/objective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "provisioner/planner/fleet_judge.h"
#include "tests/provisioner/planner/planning_samples.h"

namespace ps::provisioner {
namespace {

constexpr double kEndless = std::numeric_limits<double>::infinity();

/// Every fleet that quotas allow, dearer offers of a class after cheaper ones.
template <typename See>
void ForEachLadder(const PlanProblem& problem, const FleetJudge& judge, const See& see) {
  ForEachFleet(problem, judge, [&](const std::vector<int>& counts, int server, int hosts) {
    if (judge.ClimbsLadders(counts, server)) {
      see(counts, server, hosts);
    }
  });
}

double SecondsOf(const FleetJudge& judge, const FleetChoice& choice) {
  return judge.SecondsAtConfidence(
      TraitsOf(choice.speed, WorkersOf(choice.counts)),
      choice.server_hosts,
      choice.seconds,
      choice.start_s);
}

struct ObjectiveCase {
  uint64_t seed = 0;
  int problems = 0;
  SampleShape shape;
};

const ObjectiveCase kObjectiveCases[] = {
    {1, 60, {.classes = 4, .quota_max = 3}},
    {20'000, 25, {.classes = 3, .quota_max = 3, .server_offers = 3, .hosts_max = 3}},
    {40'000, 25, {.classes = 3, .quota_max = 3, .has_two_markets = true}},
    {50'000, 25, {.classes = 4, .quota_max = 4, .has_held = true}},
    {60'000, 25, {.classes = 4, .quota_max = 3, .server_offers = 2, .has_pools = true}},
    {70'000, 25, {.classes = 3, .quota_max = 3, .is_queue = true, .has_curves = true}},
    {80'000, 25, {.classes = 3, .quota_max = 3, .server_offers = 2, .has_memory = true}},
    {90'000, 25, {.classes = 3, .quota_max = 3, .has_start_up = true, .has_vcpus = true}},
    {100'000, 25, {.classes = 3, .quota_max = 3, .has_memory = true, .has_zones = true}}};

TEST(ObjectiveTest, TheFastestFleetIsTheOneOfAllFleets) {
  int feasible = 0;
  for (const ObjectiveCase& some : kObjectiveCases) {
    for (int i = 0; i < some.problems; ++i) {
      const uint64_t seed = some.seed + static_cast<uint64_t>(i);
      const PlanningSample sample = RandomSample(seed, some.shape);
      FleetJudge judge(sample.problem);
      double best_s = kEndless;
      double best_usd = kEndless;
      ForEachLadder(sample.problem, judge, [&](const auto& counts, int server, int hosts) {
        const Verdict verdict = judge.Judge(counts, server, hosts);
        if (!judge.MeetsGoal(verdict)) {
          return;
        }
        const double seconds = SecondsOf(judge, judge.Choose(counts, server, hosts));
        if (seconds < best_s * (1 - 1e-9)) {
          best_usd = kEndless;
        }
        if (seconds < best_s * (1 + 1e-9)) {
          best_usd = std::min(best_usd, verdict.usd);
        }
        best_s = std::min(best_s, seconds);
      });
      const Result<PlanAnswer> answer = SolveForTime(sample.problem);
      ASSERT_TRUE(answer.ok()) << answer.status();
      ASSERT_EQ(answer->best.empty(), best_s == kEndless) << "seed " << seed;
      if (answer->best.empty()) {
        EXPECT_FALSE(answer->infeasible.reason.empty());
        continue;
      }
      if (best_s == 0) {
        continue;  // the loss is met at once
      }
      ++feasible;
      EXPECT_NE(answer->certainty, proto::Certainty::kBestFound) << "seed " << seed;
      EXPECT_NEAR(SecondsOf(judge, answer->best.front()) / best_s, 1, 3e-9) << "seed " << seed;
      EXPECT_NEAR(answer->best.front().usd / best_usd, 1, 1e-6) << "seed " << seed;
    }
  }
  EXPECT_GT(feasible, 60);
}

TEST(ObjectiveTest, TheMostSamplesForAPriceOfAnHourAreThoseOfAllFleets) {
  int feasible = 0;
  for (const ObjectiveCase& some : kObjectiveCases) {
    for (int i = 0; i < some.problems; ++i) {
      const uint64_t seed = some.seed + static_cast<uint64_t>(i);
      PlanningSample sample = RandomSample(seed, some.shape);
      PlanProblem& problem = sample.problem;
      FleetJudge judge(problem);
      problem.goal.usd_per_hour_max = 1e9;  // any, as it is no part of a price
      const Result<PlanProblem> samples = SamplesProblem(problem);
      ASSERT_TRUE(samples.ok()) << samples.status();
      FleetJudge hour(*samples);
      std::vector<double> prices;
      // With the traffic of an hour.
      const auto price_of = [&](const std::vector<int>& counts, int server, int hosts) {
        const FleetChoice choice = hour.Choose(counts, server, hosts);
        return choice.usd / choice.seconds * 3600;
      };
      ForEachLadder(problem, judge, [&](const auto& counts, int server, int hosts) {
        prices.push_back(price_of(counts, server, hosts));
      });
      ASSERT_FALSE(prices.empty());
      std::ranges::sort(prices);
      // From below the cheapest to some dear ones.
      problem.goal.usd_per_hour_max =
          i % 5 == 0 ? prices.front() * 0.99 : prices[seed % prices.size()] * 1.0001;
      double most = 0;
      ForEachLadder(problem, judge, [&](const auto& counts, int server, int hosts) {
        if (price_of(counts, server, hosts) <= problem.goal.usd_per_hour_max) {
          most = std::max(most, judge.Judge(counts, server, hosts).speed.samples_per_s);
        }
      });
      const Result<PlanAnswer> answer = SolveForThroughput(problem);
      ASSERT_TRUE(answer.ok()) << answer.status();
      ASSERT_EQ(answer->best.empty(), most == 0) << "seed " << seed;
      if (answer->best.empty()) {
        EXPECT_GT(answer->infeasible.usd_per_hour_min, problem.goal.usd_per_hour_max);
        continue;
      }
      ++feasible;
      EXPECT_NE(answer->certainty, proto::Certainty::kBestFound) << "seed " << seed;
      EXPECT_NEAR(answer->best.front().speed.samples_per_s / most, 1, 3e-9) << "seed " << seed;
    }
  }
  EXPECT_GT(feasible, 100);
}

TEST(ObjectiveTest, ALimitOfThePriceOfAnHourHoldsForTheCheapestToo) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    PlanningSample sample = RandomSample(seed, {.classes = 4, .quota_max = 3});
    PlanProblem& problem = sample.problem;
    const PlanAnswer free = Solve("exact", problem);
    if (free.best.empty() || free.best.front().seconds == 0) {
      continue;
    }
    const FleetChoice& best = free.best.front();
    problem.goal.usd_per_hour_max = best.usd / best.seconds * 3600 * 0.9;
    const PlanAnswer exact = Solve("exact", problem);
    const PlanAnswer oracle = Solve("exhaustive", problem);
    ASSERT_EQ(exact.best.size(), oracle.best.size()) << "seed " << seed;
    for (size_t k = 0; k < exact.best.size(); ++k) {
      EXPECT_EQ(exact.best[k].counts, oracle.best[k].counts) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace ps::provisioner
