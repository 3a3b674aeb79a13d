// The other objectives with revocations, against every fleet that there is.

#include "provisioner/strategies/revocable_objective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "provisioner/planner/objective.h"
#include "tests/provisioner/strategies/revocable_samples.h"

namespace ps::provisioner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct RevocableCase {
  uint64_t seed = 0;
  int problems = 0;
  SampleShape shape;
  LifeShape life = LifeShape::kOwnLaws;
};

const RevocableCase kRevocableCases[] = {
    {1, 30, {.classes = 3, .quota_max = 3}, LifeShape::kOwnLaws},
    {1'000, 15, {.classes = 4, .quota_max = 3}, LifeShape::kOneLaw},
    {2'000, 20, {.classes = 2, .quota_max = 3, .has_two_markets = true}, LifeShape::kOwnLaws},
    {3'000,
     20,
     {.classes = 3, .quota_max = 3, .server_offers = 2, .has_held = true},
     LifeShape::kOwnLawsAndAges},
    {4'000,
     20,
     {.classes = 3, .quota_max = 3, .has_held = true, .may_drop_held = true},
     LifeShape::kOwnLawsAndAges},
    {5'000, 15, {.classes = 3, .quota_max = 3, .is_queue = true, .has_curves = true}},
    {6'000, 15, {.classes = 3, .quota_max = 3, .is_queue = true, .local_steps = 50}}};

TEST(RevocableObjectiveTest, TheFastestFleetWithRevocationsIsTheOneOfAllFleets) {
  int feasible = 0;
  int other = 0;  // than without revocations
  for (const RevocableCase& some : kRevocableCases) {
    for (int i = 0; i < some.problems; ++i) {
      const uint64_t seed = some.seed + static_cast<uint64_t>(i);
      const PlanningSample sample = RandomSample(seed, some.shape);
      const PlanProblem& problem = sample.problem;
      const FleetLives lives = RandomLives(seed, problem, some.life);
      double best_s = kNever;
      double best_usd = kNever;
      ForEachGoodFleet(problem, lives, [&](const ExpectedFleet& fleet) {
        best_usd = fleet.seconds_sure < best_s * (1 - 1e-9) ? kNever : best_usd;
        best_s = std::min(best_s, fleet.seconds_sure);
        if (fleet.seconds_sure <= best_s * (1 + 1e-9)) {
          best_usd = std::min(best_usd, fleet.usd);
        }
      });
      const Result<PlanAnswer> answer = SolveForTimeWithRevocations(problem, lives);
      ASSERT_TRUE(answer.ok()) << answer.status();
      if (!answer->best.empty() && answer->best.front().steps == 0) {
        continue;  // the loss is met at once
      }
      ASSERT_EQ(answer->best.empty(), best_s == kNever) << "seed " << seed;
      if (answer->best.empty()) {
        EXPECT_FALSE(answer->infeasible.reason.empty()) << "seed " << seed;
        continue;
      }
      ++feasible;
      EXPECT_NE(answer->certainty, proto::Certainty::kBestFound) << "seed " << seed;
      const FleetChoice& best = answer->best.front();
      const auto fleet = ExpectFleet(problem, lives, FleetJudge(problem), best);
      ASSERT_TRUE(fleet.has_value()) << "seed " << seed;
      EXPECT_NEAR(fleet->seconds_sure / best_s, 1, 3e-9) << "seed " << seed;
      EXPECT_NEAR(fleet->usd / best_usd, 1, 1e-6) << "seed " << seed;
      const Result<PlanAnswer> without = SolveForTime(problem);
      other += without.ok() && !without->best.empty() && without->best.front().counts != best.counts
                   ? 1
                   : 0;
    }
  }
  EXPECT_GT(feasible, 40);
  EXPECT_GT(other, 3) << "revocations change hardly any choice: the test tests nothing";
}

TEST(RevocableObjectiveTest, TheMostSamplesWithRevocationsAreThoseOfAllFleets) {
  int feasible = 0;
  int other = 0;
  for (const RevocableCase& some : kRevocableCases) {
    for (int i = 0; i < some.problems; ++i) {
      const uint64_t seed = some.seed + static_cast<uint64_t>(i);
      PlanningSample sample = RandomSample(seed, some.shape);
      PlanProblem& problem = sample.problem;
      FleetLives lives = RandomLives(seed, problem, some.life);
      for (OfferLife& life : lives.offers) {
        life.start_up_s *= 6;  // hours matter here, not the goal's time
      }
      const FleetHours hours_of(problem, lives);
      FleetJudge judge(problem);
      std::vector<double> prices;
      ForEachFleet(problem, judge, [&](const auto& counts, int server, int hosts) {
        prices.push_back(judge.UsdPerSecond(counts, server, hosts) * 3600);
      });
      ASSERT_FALSE(prices.empty());
      std::ranges::sort(prices);
      problem.goal.usd_per_hour_max =
          i % 5 == 0 ? prices.front() * 0.99 : prices[seed % prices.size()] * 1.0001;
      double most = 0;
      ForEachFleet(problem, judge, [&](const auto& counts, int server, int hosts) {
        if (judge.UsdPerSecond(counts, server, hosts) * 3600 <= problem.goal.usd_per_hour_max &&
            !IsDominated(problem, judge, lives, counts)) {
          const FleetChoice choice = judge.Choose(counts, server, hosts);
          most = std::max(most, hours_of.Expect(choice).samples_per_s);
        }
      });
      const Result<PlanAnswer> answer = SolveForThroughputWithRevocations(problem, lives);
      ASSERT_TRUE(answer.ok()) << answer.status();
      ASSERT_EQ(answer->best.empty(), most == 0) << "seed " << seed;
      if (answer->best.empty()) {
        EXPECT_GT(answer->infeasible.usd_per_hour_min, problem.goal.usd_per_hour_max);
        continue;
      }
      ++feasible;
      EXPECT_NE(answer->certainty, proto::Certainty::kBestFound) << "seed " << seed;
      const FleetChoice& best = answer->best.front();
      EXPECT_NEAR(hours_of.Expect(best).samples_per_s / most, 1, 3e-9) << "seed " << seed;
      const Result<PlanAnswer> without = SolveForThroughput(problem);
      other += without.ok() && without->best.front().counts != best.counts ? 1 : 0;
    }
  }
  EXPECT_GT(feasible, 60);
  EXPECT_GT(other, 5) << "revocations change hardly any choice: the test tests nothing";
}

/// Revocations crowd in the first hours. Machines that have lived through those are kept, beside
/// faster ones that are new.
TEST(RevocableObjectiveTest, MachinesThatSurvivedTheFirstHoursArePreferred) {
  PlanningSample sample = ResNet110(SpotDnnVariant::kPaper, 0.8, kNever);
  PlanProblem& problem = sample.problem;
  problem.offers = {problem.offers[1], problem.offers[2]};  // g4dn.4xlarge, g3.8xlarge
  problem.offers[0].quota = problem.offers[1].quota = 2;
  problem.runs = {2, 2};
  problem.workers_min = problem.workers_max = 2;
  std::vector<double> per_day;
  const auto front_loaded = LifetimeLaw::FromPoints({{1, 0.6}, {2, 0.7}, {6, 0.72}, {24, 0.75}});
  ASSERT_TRUE(front_loaded.ok());
  for (const std::vector<double>& ages : {std::vector<double>{}, {7, 7}}) {
    FleetLives lives;
    lives.offers = {
        {.law = &*front_loaded, .start_up_s = 7200, .ages_hours = ages},
        {.law = &*front_loaded, .start_up_s = 7200}};
    const std::vector<int> expected = ages.empty() ? std::vector<int>{0, 2} : std::vector{2, 0};
    const auto soonest = SolveForTimeWithRevocations(problem, lives);
    ASSERT_TRUE(soonest.ok() && !soonest->best.empty());
    EXPECT_EQ(soonest->best.front().counts, expected);
    // Over a day successors of both matter, and what has lived through the first hours less.
    FleetJudge judge(problem);
    const FleetChoice old = judge.Choose(std::vector<int>{2, 0}, 0, 1);
    per_day.push_back(FleetHours(problem, lives).Expect(old).samples_per_s);
  }
  EXPECT_GT(per_day[1], 1.2 * per_day[0]);
}

/// A seat that is gone for b of every L + b hours, by a law whose hazard is even.
TEST(RevocableObjectiveTest, OverHoursASeatWorksAsARenewalProcessSays) {
  std::vector<LifetimePoint> points;
  for (int i = 1; i <= 200; ++i) {
    points.push_back({0.1 * i, 1 - std::exp(-0.1 * i / 2)});  // two hours in the mean
  }
  const auto law = LifetimeLaw::FromPoints(points);
  ASSERT_TRUE(law.ok());
  const RevocableWorkers worker = {.count = 1, .lifetimes = &*law, .start_up_s = 1800};
  const SeatExpectation seat = ExpectSeat(worker, {.join_s = 0}, 24 * 3600);
  const double rate = 1 / 2.0 + 1 / 0.5;  // of the way to the even share
  const double even = 2 / 2.5;
  const double first = (1 - even) * (1 - std::exp(-rate * 24)) / rate / 24;
  // A fixed time instead of a random one until the successor works: nearly the same over a day.
  EXPECT_NEAR(seat.works, even + first, 0.01);
  EXPECT_NEAR(seat.revoked, seat.works * 24 / 2, 0.05);
}

TEST(MostUpShareTest, NoFleetDoesMoreThanThatOfItsWork) {
  Random random(5);
  int less = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    const PlanningSample sample = RandomSample(
        seed, {.classes = 3, .quota_max = 3, .has_held = seed % 2 == 0, .is_queue = seed % 3 == 0});
    const PlanProblem& problem = sample.problem;
    const FleetLives lives =
        RandomLives(seed, problem, seed % 4 == 0 ? LifeShape::kOwnLawsAndAges : LifeShape::kOneLaw);
    FleetJudge judge(problem);
    std::vector<int> counts;
    for (const Offer& offer : problem.offers) {
      counts.push_back(
          offer.held +
          static_cast<int>(random.Below(static_cast<uint64_t>(offer.quota - offer.held) + 1)));
    }
    if (WorkersOf(counts) == 0) {
      continue;
    }
    const FleetChoice choice = judge.Choose(counts, 0, 1);
    const auto run = std::isfinite(choice.seconds) && choice.steps > 0
                         ? ExpectChoice(problem, choice, lives, true)
                         : Result<RunExpectation>(Status::NotFound("never"));
    if (run.ok()) {
      const double share = run->seconds_without / run->seconds;
      const double bound = MostUpShare(lives, run->seconds_without * 0.7, run->seconds);
      EXPECT_LE(share, bound * (1 + 1e-9)) << "seed " << seed;
      less += bound < 0.999 ? 1 : 0;
    }
  }
  EXPECT_GT(less, 20) << "a bound of 1 would do";
}

}  // namespace
}  // namespace ps::provisioner
