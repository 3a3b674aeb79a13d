// Fleets chosen by traces, against every fleet that there is.

#include "run/planning/capacity/capacity_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "provisioner/planner/fleet_judge.h"
#include "ps/base/random.h"
#include "run/planning/capacity/capacity_addition.h"
#include "tests/provisioner/planner/planning_samples.h"
#include "tests/run/planning/trace_brute_force.h"

namespace ps::run {
namespace {

using provisioner::FleetChoice;
using provisioner::PlanningSample;
using provisioner::PlanProblem;
using provisioner::SampleShape;

constexpr double kAlike = 1e-6;  // sums in other orders

/// A random problem with traces of some of its spot offers.
struct TracedSample {
  std::unique_ptr<PlanningSample> sample;
  std::unique_ptr<BruteTraces> traces;
};

SpotPool RandomPool(Random* random, std::vector<size_t> offers, int most, double limit_s) {
  SpotPool pool = {std::move(offers), {}, limit_s * (1 + 5 * random->Unit())};
  // Many machines for long, few for long, or now these and now those.
  const auto changes = 1 + random->Below(12);
  const int least =
      random->Chance(0.4) ? 0 : static_cast<int>(random->Below(static_cast<uint64_t>(most) + 1));
  for (uint64_t i = 0; i < changes; ++i) {
    const double at_s = i == 0 ? 0 : pool.steps.back().at_s + random->Unit() * limit_s;
    if (at_s >= pool.end_s) {
      break;
    }
    const auto nodes = static_cast<uint32_t>(
        least + static_cast<int>(random->Below(static_cast<uint64_t>(most - least) + 1)));
    pool.steps.push_back({at_s, nodes});
  }
  return pool;
}

/// Two zones of the first spot offer, with prices of their own and one quota.
void SplitFirst(Random* random, PlanProblem* problem, std::vector<ZonedType>* zoned) {
  provisioner::Offer other = problem->offers.front();
  other.held = 0;
  other.usd_per_hour *= 0.5 + random->Unit();
  other.places.clear();
  problem->offers.front().places.clear();
  zoned->push_back({{0, problem->offers.size()}, problem->offers.front().quota});
  problem->offers.push_back(other);
  if (!problem->runs.empty()) {
    problem->runs.push_back(0);
  }
}

TracedSample RandomTraces(uint64_t seed, const SampleShape& shape, bool is_zoned) {
  TracedSample out = {std::make_unique<PlanningSample>(RandomSample(seed, shape)), nullptr};
  PlanProblem& problem = out.sample->problem;
  Random random(seed + 1'000'000);
  std::vector<ZonedType> zoned;
  if (is_zoned) {
    SplitFirst(&random, &problem, &zoned);
  }
  const double limit_s = std::isfinite(problem.goal.seconds_max) ? problem.goal.seconds_max : 5'000;
  for (provisioner::Offer& offer : problem.offers) {
    offer.billed_s_min = random.Chance(0.2) ? limit_s * random.Unit() : 0;
  }
  out.traces = std::make_unique<BruteTraces>(
      BruteTraces{.problem = problem, .pools = {}, .times = {}, .limit_s = limit_s, .windows = 12});
  BruteTraces& traces = *out.traces;
  traces.zoned = std::move(zoned);
  traces.objective = random.Chance(0.3) ? proto::Objective::kTime : proto::Objective::kCost;
  traces.times.detect_s = random.Chance(0.5) ? 0 : 0.05 * limit_s * random.Unit();
  for (size_t i = 0; i < problem.offers.size(); ++i) {
    traces.times.start_s.push_back(random.Chance(0.2) ? 0 : 0.2 * limit_s * random.Unit());
  }
  std::vector<bool> is_taken(problem.offers.size(), false);
  for (size_t i = 0; i < problem.offers.size(); ++i) {
    const provisioner::Offer& offer = problem.offers[i];
    const bool has_trace = traces.pools.empty() || random.Chance(0.7);
    if (is_taken[i] || offer.market != proto::Market::kSpot || !has_trace) {
      continue;
    }
    // Minibatches of one type are one pool of machines.
    std::vector<size_t> offers = {i};
    for (size_t j = i + 1; j < problem.offers.size(); ++j) {
      if (offer.pool >= 0 && problem.offers[j].pool == offer.pool) {
        offers.push_back(j);
        is_taken[j] = true;
      }
    }
    traces.pools.push_back(RandomPool(&random, std::move(offers), offer.quota + 1, limit_s));
  }
  return out;
}

SpotCapacity CapacityOf(const BruteTraces& traces) {
  return {traces.problem, traces.pools, traces.times, traces.limit_s, traces.windows};
}

double ScoreOf(const BruteTraces& traces, const BruteOutlook& outlook) {
  return traces.objective == proto::Objective::kTime ? outlook.seconds : outlook.usd;
}

/// What the best fleets are worth, as the answer has to be.
struct BruteBest {
  bool is_kept = false;
  std::vector<double> scores;    // of those that keep the goal, the best few
  std::vector<double> in_goals;  // of all, where none does
};

BruteBest BestBrutally(const BruteTraces& traces) {
  BruteBest best;
  for (const BruteOutlook& some : AllBrutally(traces)) {
    if (some.in_goal >= traces.problem.goal.confidence - 1e-9) {
      best.scores.push_back(ScoreOf(traces, some));
    }
    best.in_goals.push_back(some.in_goal);
  }
  best.is_kept = !best.scores.empty();
  const auto most = static_cast<size_t>(traces.problem.answers_max);
  std::ranges::sort(best.scores);
  std::ranges::sort(best.in_goals, std::greater<>());
  best.scores.resize(std::min(best.scores.size(), most));
  best.in_goals.resize(std::min(best.in_goals.size(), most));
  return best;
}

struct Compared {
  int kept = 0;
  int missed = 0;  // some chance, but not enough
  int other = 0;   // than what is chosen without the traces
  int better = 0;  // the brute force found
  int whole = 0;   // all fleets were looked at
};

/// `all_most` 0: not all fleets are looked at, so that some answers may be worse.
Compared Compare(
    uint64_t begin, int problems, const SampleShape& shape, bool is_zoned, double all_most) {
  Compared out;
  for (uint64_t seed = begin; seed < begin + static_cast<uint64_t>(problems); ++seed) {
    const TracedSample some = RandomTraces(seed, shape, is_zoned);
    const BruteTraces& traces = *some.traces;
    const SpotCapacity capacity = CapacityOf(traces);
    const BruteBest brute = BestBrutally(traces);
    const Result<TraceAnswer> answer = SolveAlongTraces(
        {.problem = traces.problem,
         .capacity = capacity,
         .objective = traces.objective,
         .zoned = traces.zoned,
         .all_most = all_most});
    EXPECT_TRUE(answer.ok()) << answer.status() << " seed " << seed;
    const bool is_whole = answer.ok() && answer->certainty == proto::Certainty::kProven;
    EXPECT_TRUE(is_whole || all_most == 0) << "seed " << seed;
    bool is_alike = answer.ok() && answer->is_kept == brute.is_kept;
    size_t wanted = brute.is_kept ? brute.scores.size() : brute.in_goals.size();
    is_alike = is_alike && (answer->best.size() == wanted || (!is_whole && !answer->best.empty()));
    wanted = is_whole ? wanted : std::min<size_t>(wanted, 1);
    for (size_t i = 0; is_alike && i < wanted; ++i) {
      const CapacityOutlook& got = answer->best[i].outlook;
      const double score = traces.objective == proto::Objective::kTime ? got.seconds : got.usd;
      is_alike = brute.is_kept ? std::abs(score - brute.scores[i]) <= kAlike * brute.scores[i]
                               : std::abs(got.in_goal - brute.in_goals[i]) <= kAlike;
    }
    EXPECT_TRUE(is_alike || !is_whole) << "seed " << seed << (brute.is_kept ? ", kept" : "");
    const bool is_some = answer.ok() && !answer->best.empty();
    EXPECT_EQ(is_some, !brute.in_goals.empty()) << "seed " << seed << ": the likeliest is told";
    out.better += is_alike ? 0 : 1;
    out.whole += is_whole ? 1 : 0;
    out.kept += brute.is_kept ? 1 : 0;
    out.missed += !brute.is_kept && !brute.in_goals.empty() && brute.in_goals[0] > 0 ? 1 : 0;
    if (answer.ok() && !answer->best.empty() && all_most > 0) {
      const provisioner::PlanAnswer without = Solve("exact", traces.problem);
      out.other +=
          !without.best.empty() && without.best[0].counts != answer->best[0].choice.counts ? 1 : 0;
    }
    if (::testing::Test::HasFailure()) {
      break;
    }
  }
  return out;
}

/// Problems a shape; SPOTPS_PLAN_PROBLEMS asks for more.
int Each() {
  const char* const text = std::getenv("SPOTPS_PLAN_PROBLEMS");
  return text == nullptr ? 20 : std::atoi(text);
}

/// All ten shapes in turn.
Compared CompareShapes(int each, double all_most) {
  Compared sum;
  const auto add = [&](uint64_t begin, const SampleShape& shape, bool is_zoned = false) {
    const Compared some = Compare(begin, each, shape, is_zoned, all_most);
    sum.kept += some.kept;
    sum.missed += some.missed;
    sum.other += some.other;
    sum.better += some.better;
    sum.whole += some.whole;
  };
  add(1, {.classes = 3, .quota_max = 3});
  add(10'000, {.classes = 3, .quota_max = 3, .is_queue = true, .has_curves = true});
  add(20'000, {.classes = 2, .quota_max = 3, .has_two_markets = true});
  add(30'000, {.classes = 2, .quota_max = 3, .has_start_up = true}, true);
  add(40'000, {.classes = 2, .quota_max = 3, .has_zones = true});
  add(50'000, {.classes = 3, .quota_max = 3, .server_offers = 2, .has_memory = true});
  add(60'000, {.classes = 3, .quota_max = 3, .has_start_up = true, .has_vcpus = true});
  add(70'000, {.classes = 3, .quota_max = 3, .has_held = true});
  add(80'000, {.classes = 4, .quota_max = 2, .has_pools = true});
  add(90'000, {.classes = 3, .quota_max = 3, .is_queue = true, .local_steps = 8}, true);
  return sum;
}

TEST(CapacityChoiceTest, EqualsTheBestOfAllFleets) {
  const Compared some = CompareShapes(Each(), 1e9);
  EXPECT_EQ(some.better, 0);
  EXPECT_GT(some.kept, 30);
  EXPECT_GT(some.missed, 10);
  EXPECT_GT(some.other, 20) << "traces change hardly any choice: the test tests nothing";
}

TEST(CapacityChoiceTest, WhereNotAllAreLookedAtItIsSeldomBeaten) {
  const Compared some = CompareShapes(20, 0);
  EXPECT_LE(some.better, some.kept / 20);
  EXPECT_GT(some.kept, 30);
  EXPECT_LT(some.whole, some.kept);
}

// Thousands of fleets, which are all looked at in one of the answers.
TEST(CapacityChoiceTest, OfThousandsItFindsOneThatIsAboutAsGood) {
  int kept = 0;
  int worse = 0;
  for (uint64_t seed = 1; seed <= 14; ++seed) {
    const TracedSample some = RandomTraces(seed, {.classes = 5, .quota_max = 5}, false);
    BruteTraces& traces = *some.traces;
    traces.objective = proto::Objective::kCost;
    const SpotCapacity capacity = CapacityOf(traces);
    const auto solve = [&](double all_most) {
      return SolveAlongTraces(
          {.problem = traces.problem,
           .capacity = capacity,
           .all_most = all_most,
           .followed_most = 1'000'000});
    };
    const Result<TraceAnswer> all = solve(1e9);
    ASSERT_TRUE(all.ok()) << all.status();
    const Result<TraceAnswer> part = solve(0);
    ASSERT_TRUE(part.ok()) << part.status();
    if (!all->is_kept) {
      continue;
    }
    ++kept;
    ASSERT_TRUE(part->is_kept) << "seed " << seed;
    const double best = all->best.front().outlook.usd;
    EXPECT_LE(part->best.front().outlook.usd, best * 1.05) << "seed " << seed;
    worse += part->best.front().outlook.usd > best * (1 + kAlike) ? 1 : 0;
  }
  EXPECT_GT(kept, 5);
  EXPECT_LE(worse, kept / 3);
  RecordProperty("worse", worse);
}

class CountingWatch final : public provisioner::SearchWatch {
 public:
  explicit CountingWatch(int most) : most_(most) {}

  bool GoesOn(const provisioner::SearchProgress& /*progress*/) override {
    return ++asked_ <= most_;
  }

  int asked() const { return asked_; }

 private:
  const int most_;
  int asked_ = 0;
};

TEST(CapacityChoiceTest, IsAskedByFleetWhetherItGoesOnAndByEventsToo) {
  uint64_t followed = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const TracedSample some = RandomTraces(seed, {.classes = 3, .quota_max = 3}, false);
    PlanProblem& problem = some.sample->problem;
    const SpotCapacity capacity = CapacityOf(*some.traces);
    const TraceProblem traces = {.problem = problem, .capacity = capacity};
    const Result<TraceAnswer> whole = SolveAlongTraces(traces);
    ASSERT_TRUE(whole.ok()) << whole.status();
    followed += whole->followed;
    CountingWatch watch(3);
    problem.watch = &watch;
    const Result<TraceAnswer> part = SolveAlongTraces(traces);
    ASSERT_TRUE(part.ok()) << part.status();
    EXPECT_LE(part->followed, 3U) << "seed " << seed;
    EXPECT_EQ(part->is_stopped, whole->followed > 3) << "seed " << seed;
  }
  EXPECT_GT(followed, 100U);

  // A trace of which one fleet takes long.
  const TracedSample some = RandomTraces(1, {.classes = 1, .quota_max = 2}, false);
  BruteTraces& traces = *some.traces;
  ASSERT_EQ(traces.pools.size(), 1U);
  SpotPool& pool = traces.pools.front();
  pool.steps.clear();
  for (int i = 0; i < 100'000; ++i) {
    pool.steps.push_back({pool.end_s * i / 100'000, static_cast<uint32_t>(i % 2)});
  }
  const SpotCapacity capacity = CapacityOf(traces);
  CountingWatch watch(5);
  some.sample->problem.watch = &watch;
  const Result<TraceAnswer> answer =
      SolveAlongTraces({.problem = traces.problem, .capacity = capacity});
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->is_stopped);
  EXPECT_LT(answer->followed, 5U);
}

TEST(SpotCapacityTest, FollowsFleetsAsALookAtEveryMomentDoes) {
  int revoked = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const TracedSample some =
        RandomTraces(seed, {.classes = 3, .quota_max = 4, .has_start_up = seed % 2 == 0}, false);
    const BruteTraces& traces = *some.traces;
    const SpotCapacity capacity = CapacityOf(traces);
    provisioner::FleetJudge judge(traces.problem);
    std::vector<int> counts;
    for (const provisioner::Offer& offer : traces.problem.offers) {
      counts.push_back(offer.quota);
    }
    const FleetChoice choice = judge.Choose(counts, 0, 1);
    if (!std::isfinite(choice.seconds)) {
      continue;
    }
    const CapacityOutlook got = capacity.Expect(choice);
    const BruteOutlook brute = FollowBrutally(traces, choice);
    EXPECT_NEAR(got.in_goal, brute.in_goal, kAlike) << "seed " << seed;
    EXPECT_NEAR(got.reached, brute.reached, kAlike) << "seed " << seed;
    EXPECT_NEAR(got.seconds, brute.seconds, kAlike * brute.seconds) << "seed " << seed;
    EXPECT_NEAR(got.usd, brute.usd, kAlike * brute.usd) << "seed " << seed;
    EXPECT_NEAR(got.revocations, brute.revocations, kAlike * (1 + brute.revocations));
    revoked += got.revocations > 0 ? 1 : 0;
    EXPECT_LE(capacity.UsdAtLeast(choice), got.usd * (1 + kAlike)) << "seed " << seed;
    EXPECT_GE(capacity.InGoalAtMost(choice), got.in_goal - kAlike) << "seed " << seed;
  }
  EXPECT_GT(revoked, 10) << "hardly anybody was revoked: the test tests little";
}

TEST(SpotCapacityTest, OutlooksThatAreWorseThanAskedForAreCutShort) {
  int cut = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const TracedSample some = RandomTraces(seed, {.classes = 3, .quota_max = 3}, false);
    const BruteTraces& traces = *some.traces;
    const SpotCapacity capacity = CapacityOf(traces);
    provisioner::FleetJudge judge(traces.problem);
    std::vector<int> counts(traces.problem.offers.size(), 0);
    counts.front() = 1;
    const FleetChoice choice = judge.Choose(counts, 0, 1);
    if (!std::isfinite(choice.seconds)) {
      continue;
    }
    const CapacityOutlook whole = capacity.Expect(choice);
    if (!(whole.usd > 0)) {
      continue;  // no machine ever came, and servers are free
    }
    EXPECT_FALSE(capacity.Expect(choice, {}, {whole.in_goal, whole.usd}).is_cut);
    EXPECT_TRUE(capacity.Expect(choice, {}, {0, whole.usd * 0.99}).is_cut) << "seed " << seed;
    EXPECT_EQ(capacity.Expect(choice, {}, {whole.in_goal + 0.01}).is_cut, true);
    cut += whole.in_goal > 0 ? 1 : 0;
  }
  EXPECT_GT(cut, 3);
}

/// As BestAddition prefers them: of those that are likely enough the cheapest.
bool IsBetterThan(const BruteOutlook& a, const BruteOutlook& b, double wanted) {
  const double in_goal_a = std::min(a.in_goal, wanted);
  const double in_goal_b = std::min(b.in_goal, wanted);
  return in_goal_a > in_goal_b + 1.1e-3 || (in_goal_a >= in_goal_b && a.usd < b.usd * (1 - kAlike));
}

TEST(BestAdditionTest, IsTheBestOfOnePoolMore) {
  int found = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const TracedSample some = RandomTraces(seed, {.classes = 3, .quota_max = 3}, false);
    const BruteTraces& traces = *some.traces;
    const SpotCapacity capacity = CapacityOf(traces);
    const TraceProblem problem = {.problem = traces.problem, .capacity = capacity};
    const Result<TraceAnswer> answer = SolveAlongTraces(problem);
    ASSERT_TRUE(answer.ok());
    const auto addition =
        answer->best.empty() ? std::nullopt : BestAddition(problem, answer->best.front());
    if (!addition) {
      continue;
    }
    ++found;
    CountingWatch ended(0);
    PlanProblem stopped_problem = traces.problem;
    stopped_problem.watch = &ended;
    const TraceProblem stopped = {.problem = stopped_problem, .capacity = capacity};
    EXPECT_FALSE(BestAddition(stopped, answer->best.front())) << "nobody waits for it";
    const FleetChoice& choice = answer->best.front().choice;
    const double wanted =
        std::max(traces.problem.goal.confidence, answer->best.front().outlook.in_goal + 1e-3);
    const size_t offer = traces.pools[addition->pool].offers.front();
    EXPECT_EQ(choice.counts[offer], 0);
    std::vector<int> counts = choice.counts;
    counts[offer] += addition->added;
    counts[addition->from] -= addition->taken;
    EXPECT_EQ(addition->fleet.choice.counts, counts) << "seed " << seed;
    const BruteOutlook brute = FollowBrutally(traces, addition->fleet.choice);
    EXPECT_NEAR(addition->fleet.outlook.in_goal, brute.in_goal, kAlike);
    EXPECT_NEAR(addition->fleet.outlook.usd, brute.usd, kAlike * brute.usd);
    // No other number of any pool's machines beside the fleet is better.
    for (const BruteOutlook& other : AllBrutally(traces)) {
      int more = 0;
      int less = 0;
      for (size_t i = 0; i < choice.counts.size(); ++i) {
        more += choice.counts[i] == 0 && other.choice.counts[i] > 0 ? 1 : 0;
        less += choice.counts[i] > 0 && other.choice.counts[i] != choice.counts[i] ? 1 : 0;
      }
      const bool is_traced = std::ranges::any_of(traces.pools, [&](const SpotPool& pool) {
        return choice.counts[pool.offers.front()] == 0 &&
               other.choice.counts[pool.offers.front()] > 0;
      });
      if (more == 1 && less == 0 && is_traced && other.choice.server_offer == choice.server_offer &&
          other.choice.server_hosts == choice.server_hosts) {
        EXPECT_FALSE(IsBetterThan(other, brute, wanted)) << "seed " << seed;
      }
    }
  }
  EXPECT_GT(found, 15);
}

}  // namespace
}  // namespace ps::run
