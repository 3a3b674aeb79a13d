#include <gtest/gtest.h>

#include <limits>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/planner.h"
#include "tests/provisioner/planner/planning_samples.h"

namespace ps::provisioner {
namespace {

std::string ErrorOf(const PlanProblem& problem) {
  const Result<PlanAnswer> answer = MakeStrategy("exact")->Solve(problem);
  return answer.ok() ? "" : std::string(answer.status().message());
}

struct PrototypePlan {
  double loss;
  double seconds_max;
  std::vector<int> counts;
  double seconds;
  double usd;
};

// What spotDNN's released program prints for its ResNet-110.
TEST(WindowStrategyTest, PrintsThePrototypesPlans) {
  const PrototypePlan plans[] = {
      {0.9, 1900, {2, 0, 2, 0, 0}, 1884.21, 1.676947},
      {0.8, 2400, {2, 0, 4, 0, 0}, 2351.08, 2.985872},
      {0.7, 3700, {2, 0, 4, 0, 0}, 3584.07, 4.551769}};
  for (const PrototypePlan& plan : plans) {
    const PlanningSample sample =
        ResNet110(SpotDnnVariant::kPrototype, plan.loss, plan.seconds_max);
    const PlanAnswer answer = Solve("spotdnn-prototype", sample.problem);
    ASSERT_FALSE(answer.best.empty()) << "loss " << plan.loss;
    EXPECT_EQ(answer.best.front().counts, plan.counts) << "loss " << plan.loss;
    EXPECT_NEAR(answer.best.front().seconds, plan.seconds, 1e-9) << "loss " << plan.loss;
    EXPECT_NEAR(answer.best.front().usd, plan.usd, 1e-12) << "loss " << plan.loss;
  }
  const PlanningSample sample = ResNet110(SpotDnnVariant::kPrototype, 0.8, 1600);
  const PlanAnswer answer = Solve("spotdnn-prototype", sample.problem);
  EXPECT_TRUE(answer.best.empty());
  EXPECT_NE(answer.infeasible.reason, "");
}

/// Its program sorts by the time that was measured alone. Its predictions have the copies over PCIe
/// twice more, and by them types of many devices would move down the list.
TEST(WindowStrategyTest, ThePrototypeSortsByMeasuredIterations) {
  JobTraffic traffic;
  traffic.push_bytes = 1e8;
  traffic.pull_bytes = 1e8;
  traffic.pcie_bytes = 2e8;

  const struct {
    const char* name;
    int devices;
    double iteration_s;
    double usd_per_hour;
  } rows[] = {{"a", 8, 2.00, 0.1}, {"b", 1, 2.02, 0.1}, {"c", 1, 2.06, 9}, {"d", 8, 2.04, 9}};

  std::vector<WorkerClass> classes;
  PlanProblem problem;
  for (const auto& row : rows) {
    WorkerClass worker;
    worker.name = row.name;
    worker.devices = row.devices;
    worker.samples = 64;
    worker.pcie_bytes_per_s = 10e9;
    worker.link_bytes_per_s = 1e9;
    worker.iteration_s = row.iteration_s;
    worker.compute_s = PrototypeComputeSeconds(row.iteration_s, worker, traffic);
    problem.offers.push_back(
        {static_cast<int>(classes.size()), proto::Market::kSpot, row.usd_per_hour, 1, 0});
    classes.push_back(worker);
  }
  proto::LossFit fit = {.c1 = 100, .c2 = 0, .c3 = 500, .c5 = 0.1, .has_heterogeneity = false};
  const SpotDnnSpeedModel speed(
      classes, traffic, {.a1 = 0, .b1 = 0}, {.variant = SpotDnnVariant::kPrototype});
  const SpotDnnLossModel loss(fit, SpotDnnVariant::kPrototype);
  problem.speed = &speed;
  problem.loss = &loss;
  problem.servers.push_back({"server", 10e9, 0, 1, 1});
  problem.goal.loss = 0.6;
  problem.goal.usd_max = std::numeric_limits<double>::infinity();
  // On the ring a, b, d, c the two cheap ones are neighbours; by predictions, b, c, a, d, they
  // are not.
  problem.goal.seconds_max = std::numeric_limits<double>::infinity();
  problem.workers_min = 1;
  FleetJudge judge(problem);
  const double pair_s = judge.Judge(std::vector<int>{1, 1, 0, 0}, 0, 1).seconds;
  const double alone_s = judge.Judge(std::vector<int>{0, 1, 0, 0}, 0, 1).seconds;
  ASSERT_LT(pair_s, alone_s);
  problem.goal.seconds_max = (pair_s + alone_s) / 2;
  const PlanAnswer answer = Solve("spotdnn-prototype", problem);
  ASSERT_FALSE(answer.best.empty());
  EXPECT_EQ(answer.best.front().counts, (std::vector<int>{1, 1, 0, 0}));
}

// The published note: over a grid of goals the window was optimal in nearly all.
TEST(WindowStrategyTest, IsMostlyOptimalOnTheGridOfGoals) {
  int feasible = 0;
  int optimal = 0;
  double worst = 1;
  for (int i = 0; i < 8; ++i) {
    for (int k = 0; k < 12; ++k) {
      const double loss = 0.65 + 0.05 * i;
      const double seconds = 1500 + 250 * k;
      const PlanningSample sample = ResNet110(SpotDnnVariant::kPrototype, loss, seconds);
      const PlanAnswer window = Solve("spotdnn-prototype", sample.problem);
      if (window.best.empty()) {
        continue;
      }
      ++feasible;
      const PlanAnswer exact = Solve("exact", sample.problem);
      ASSERT_FALSE(exact.best.empty());
      const double ratio = window.best.front().usd / exact.best.front().usd;
      EXPECT_GE(ratio, 1 - 1e-4);  // but for the prototype's rounding
      optimal += ratio < 1.001 ? 1 : 0;
      worst = std::max(worst, ratio);
    }
  }
  EXPECT_GT(feasible, 40);
  EXPECT_GT(optimal, feasible * 8 / 10);
  EXPECT_GT(worst, 1.02);
  RecordProperty("feasible", feasible);
  RecordProperty("optimal", optimal);
  RecordProperty("worst_permille", static_cast<int>(worst * 1000));
}

// Figure 9 of the paper: of 3 g3.16xlarge and 5 g3.8xlarge the latter are revoked, at loss 0.9 and
// with 810 s left to loss 0.8. With 3 p3.2xlarge, which joined 126 s later, it was reached 600 s
// after that, 84 s before the end.
TEST(WindowStrategyTest, TheRunOfFigureNineIsPlannedToItsEndWithWhatIsLeft) {
  PlanningSample sample = ResNet110(SpotDnnVariant::kPaper, 0.8, 810, {.loss = 0.9});
  PlanProblem& problem = sample.problem;
  problem.goal.takeover_s = 126;
  problem.offers[0].quota = 8;
  problem.offers[2].quota = 0;  // nobody sells them any more
  problem.offers[3].held = 3;
  FleetJudge judge(problem);
  const FleetChoice papers = judge.Choose(std::vector<int>{3, 0, 0, 3, 0}, 0, 1);
  EXPECT_NEAR(papers.seconds - 126, 600, 0.15 * 600);
  EXPECT_LE(papers.seconds, 810);
  const FleetChoice left = judge.Choose(std::vector<int>{0, 0, 0, 3, 0}, 0, 1);
  EXPECT_GT(left.seconds, 810) << "those that were left are too slow";
  for (const char* strategy : {"exact", "spotdnn"}) {
    const PlanAnswer answer = Solve(strategy, problem);
    ASSERT_FALSE(answer.best.empty()) << strategy;
    const FleetChoice& best = answer.best.front();
    EXPECT_LE(best.usd, papers.usd * (1 + 1e-9)) << strategy;
    EXPECT_LE(best.seconds, 810) << strategy;
    EXPECT_EQ(best.counts[2], 0) << strategy;
    EXPECT_GE(best.counts[3], 3) << strategy << " keeps what is held";
  }
  // From the beginning there is no time for it.
  PlanningSample whole = ResNet110(SpotDnnVariant::kPaper, 0.8, 810);
  whole.problem.goal = problem.goal;
  whole.problem.offers = problem.offers;
  EXPECT_TRUE(Solve("exact", whole.problem).best.empty());
}

TEST(WindowStrategyTest, TriesOnlyWindowsOfTheAllowedSizes) {
  PlanningSample sample = ResNet110(SpotDnnVariant::kPaper, 0.8, 2400);
  sample.problem.workers_min = 3;
  sample.problem.workers_max = 3;
  sample.problem.goal.seconds_max = std::numeric_limits<double>::infinity();
  sample.problem.answers_max = 100;
  for (const FleetChoice& choice : Solve("spotdnn", sample.problem).best) {
    int workers = 0;
    for (const int count : choice.counts) {
      workers += count;
    }
    EXPECT_EQ(workers, 3);
  }
}

TEST(StrategiesTest, EveryNameMakesAStrategyOfThatName) {
  for (const std::string_view name : StrategyNames()) {
    const auto strategy = MakeStrategy(name);
    ASSERT_NE(strategy, nullptr) << name;
    EXPECT_EQ(strategy->name(), name);
  }
  EXPECT_EQ(MakeStrategy("best"), nullptr);
}

TEST(StrategiesTest, HomogeneousFleetsAreOfOneClassAndNeverCheaperThanExact) {
  const PlanningSample sample = ResNet110(SpotDnnVariant::kPaper, 0.8, 3600);
  const PlanAnswer answer = Solve("homogeneous", sample.problem);
  ASSERT_FALSE(answer.best.empty());
  for (const FleetChoice& choice : answer.best) {
    int kinds = 0;
    for (const int count : choice.counts) {
      kinds += count > 0 ? 1 : 0;
    }
    EXPECT_EQ(kinds, 1);
  }
  EXPECT_GE(answer.best.front().usd, Solve("exact", sample.problem).best.front().usd);
}

TEST(StrategiesTest, OnlyThoseThatExcludeAllOtherFleetsClaimMoreThanTheBestFound) {
  const PlanningSample sample = ResNet110(SpotDnnVariant::kPaper, 0.8, 3600);
  for (const char* name : {"spotdnn", "spotdnn-prototype", "ideal", "homogeneous"}) {
    EXPECT_EQ(Solve(name, sample.problem).certainty, proto::Certainty::kBestFound) << name;
  }
  const PlanningSample small = RandomSample(1, SampleShape{});
  EXPECT_EQ(Solve("exhaustive", small.problem).certainty, proto::Certainty::kProven);
}

TEST(StrategiesTest, OnDemandUsesNoSpotInstances) {
  PlanningSample sample = ResNet110(SpotDnnVariant::kPaper, 0.8, 2400);
  const size_t spot_offers = sample.problem.offers.size();
  for (size_t i = 0; i < spot_offers; ++i) {
    Offer offer = sample.problem.offers[i];
    offer.market = proto::Market::kOnDemand;
    offer.usd_per_hour *= 3;
    sample.problem.offers.push_back(offer);
  }
  const PlanAnswer answer = Solve("on-demand", sample.problem);
  ASSERT_FALSE(answer.best.empty());
  const FleetChoice& choice = answer.best.front();
  ASSERT_EQ(choice.counts.size(), 2 * spot_offers);
  for (size_t i = 0; i < spot_offers; ++i) {
    EXPECT_EQ(choice.counts[i], 0);
  }
  const PlanningSample spot = ResNet110(SpotDnnVariant::kPaper, 0.8, 2400);
  EXPECT_NEAR(choice.usd, 3 * Solve("exact", spot.problem).best.front().usd, 1e-9);
}

TEST(StrategiesTest, IdealTellsWhatItsPlanReallyTakes) {
  // One slow server: contention rules, and a planner that does not know of it is late.
  PlanningSample sample = ResNet110(SpotDnnVariant::kPaper, 0.8, 1700);
  sample.problem.servers.front().link_bytes_per_s = 1e6;
  const PlanAnswer answer = Solve("ideal", sample.problem);
  ASSERT_FALSE(answer.best.empty());
  EXPECT_GT(answer.best.front().seconds, 1700);
}

TEST(InfeasibleTest, NamesTheFastestTimeThatCanBeMet) {
  PlanningSample sample = ResNet110(SpotDnnVariant::kPaper, 0.8, 1000);
  const PlanAnswer answer = Solve("exact", sample.problem);
  ASSERT_TRUE(answer.best.empty());
  EXPECT_NE(answer.infeasible.reason.find("time: the fastest fleet needs"), std::string::npos)
      << answer.infeasible.reason;
  ASSERT_GT(answer.infeasible.seconds_min, 1000);
  sample.problem.goal.seconds_max = answer.infeasible.seconds_min * 1.0000001;
  EXPECT_FALSE(Solve("exact", sample.problem).best.empty());
  sample.problem.goal.seconds_max = answer.infeasible.seconds_min * 0.998;
  EXPECT_TRUE(Solve("exhaustive", sample.problem).best.empty());
}

TEST(InfeasibleTest, NamesTheLeastBudgetAndTheFastestFleetWithinTheGivenOne) {
  PlanningSample sample = ResNet110(SpotDnnVariant::kPaper, 0.8, 2400);
  sample.problem.goal.usd_max = 2;
  const Infeasible why = Solve("exact", sample.problem).infeasible;
  EXPECT_NE(why.reason.find("budget: the cheapest fleet in time costs"), std::string::npos)
      << why.reason;
  sample.problem.goal.usd_max = why.usd_min_in_time * 1.0000001;
  EXPECT_FALSE(Solve("exact", sample.problem).best.empty());
  sample.problem.goal.usd_max = 2;
  sample.problem.goal.seconds_max = why.seconds_min_in_usd * 1.0001;
  EXPECT_FALSE(Solve("exact", sample.problem).best.empty());
}

TEST(InfeasibleTest, SaysWhenALossIsOutOfReach) {
  const PlanningSample sample = ResNet110(SpotDnnVariant::kPaper, 0.45, 1e9);
  const Infeasible why = Solve("exact", sample.problem).infeasible;
  EXPECT_EQ(why.loss_floor, 0.5);
  EXPECT_NE(why.reason.find("the fitted curve ends at 0.5"), std::string::npos) << why.reason;
}

TEST(ProblemTest, SenselessOnesAreRefused) {
  const auto sample = [] { return ResNet110(SpotDnnVariant::kPaper, 0.8, 2400); };
  PlanningSample none = sample();
  none.problem.offers.clear();
  EXPECT_NE(ErrorOf(none.problem).find("nothing is on offer"), std::string::npos);
  PlanningSample zero = sample();
  for (Offer& offer : zero.problem.offers) {
    offer.quota = 0;
  }
  EXPECT_NE(ErrorOf(zero.problem).find("the quota of every instance type is 0"), std::string::npos);
  PlanningSample serverless = sample();
  serverless.problem.servers.clear();
  EXPECT_NE(ErrorOf(serverless.problem).find("needs a server"), std::string::npos);
  PlanningSample held = sample();
  held.problem.offers[0].held = 3;
  EXPECT_NE(ErrorOf(held.problem).find("beyond its quota of 2"), std::string::npos);
  PlanningSample timeless = sample();
  timeless.problem.goal.seconds_max = 0;
  EXPECT_NE(ErrorOf(timeless.problem).find("time limit"), std::string::npos);
  PlanningSample sure = sample();
  sure.problem.goal.confidence = 1;
  EXPECT_NE(ErrorOf(sure.problem).find("confidence"), std::string::npos);
}

TEST(BillingTest, ExactPaysTheMinimumOfEachMachineAsExhaustiveDoes) {
  int dearer = 0;
  for (uint64_t seed = 800'000; seed < 800'150; ++seed) {
    PlanningSample sample =
        RandomSample(seed, {.classes = 3, .quota_max = 4, .server_offers = 2, .hosts_max = 2});
    const PlanAnswer before = Solve("exact", sample.problem);
    for (Offer& offer : sample.problem.offers) {
      offer.billed_s_min =
          600.0 * static_cast<double>((seed + static_cast<uint64_t>(offer.quota)) % 4);
    }
    for (ServerOffer& server : sample.problem.servers) {
      server.billed_s_min = 900;
    }
    const PlanAnswer exact = Solve("exact", sample.problem);
    const PlanAnswer all = Solve("exhaustive", sample.problem);
    ASSERT_EQ(exact.best.size(), all.best.size()) << "seed " << seed;
    for (size_t i = 0; i < all.best.size(); ++i) {
      EXPECT_EQ(exact.best[i].counts, all.best[i].counts) << "seed " << seed;
      EXPECT_EQ(exact.best[i].usd, all.best[i].usd) << "seed " << seed;
    }
    if (!all.best.empty()) {
      EXPECT_GE(all.best.front().usd, before.best.front().usd * (1 - 1e-12)) << "seed " << seed;
      dearer += all.best.front().usd > before.best.front().usd * 1.01 ? 1 : 0;
    }
  }
  EXPECT_GT(dearer, 20);
}

}  // namespace
}  // namespace ps::provisioner
