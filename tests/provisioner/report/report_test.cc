#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "provisioner/planner/fleet_judge.h"
#include "provisioner/planner/objective.h"
#include "provisioner/planner/plan_setup.h"
#include "provisioner/report/outlook.h"
#include "provisioner/report/plan_report.h"
#include "provisioner/report/sensitivity.h"
#include "ps/base/file.h"
#include "ps/proto/files/catalog.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;

proto::InstanceType TypeOf(const char* name, double spot_usd, double on_demand_usd, int quota) {
  proto::InstanceType type;
  type.name = name;
  type.device = "T4";
  type.network_gbit_per_s = 10;
  type.network_burst_gbit_per_s = 10;
  type.pcie_gbyte_per_s = 10;
  type.on_demand_usd_per_hour = on_demand_usd;
  if (spot_usd > 0) {
    type.spot = {{"zone-a", spot_usd * 2, "2024-01-01"}, {"zone-b", spot_usd, "2024-01-01"}};
  }
  type.quota = quota;
  return type;
}

/// Two kinds of workers and a kind of server, and a job that moves 50 MB a step.
class ReportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    catalog_.provider = "test";
    catalog_.types = {
        TypeOf("slow", 0.3, 1, 6), TypeOf("fast", 1, 3, 3), TypeOf("server", 0, 0.2, 4)};
    catalog_.types[2].is_server_host = true;
    profile_.job = "job";
    profile_.parameter_bytes = 5e7;
    profile_.workers = {{"slow", 128, 1.0}, {"fast", 256, 0.6}};
    profile_.loss = {
        .c1 = 100, .c2 = -0.5, .c3 = 900, .c4 = 0.2, .c5 = 0.3, .residual = 0.05, .samples = 9};
    input_.catalog = &catalog_;
    input_.profile = &profile_;
    input_.setup.goal.loss = 0.6;
    input_.setup.goal.seconds_max = 1800;
    input_.setup.goal.usd_max = INFINITY;
  }

  void Make() {
    Result<JobModels> models = BuildJobModels(catalog_, profile_, input_.models);
    ASSERT_TRUE(models.ok()) << models.status();
    models_ = std::move(models).value();
    Result<PlanProblem> problem = MakePlanProblem(catalog_, models_, input_.setup);
    ASSERT_TRUE(problem.ok()) << problem.status();
    problem_ = std::move(problem).value();
  }

  std::string SetupError() {
    Result<JobModels> models = BuildJobModels(catalog_, profile_, input_.models);
    EXPECT_TRUE(models.ok()) << models.status();
    models_ = std::move(models).value();
    const Result<PlanProblem> problem = MakePlanProblem(catalog_, models_, input_.setup);
    return problem.ok() ? "" : std::string(problem.status().message());
  }

  FleetChoice Best() {
    const Result<PlanAnswer> answer = MakeStrategy("exact")->Solve(problem_);
    EXPECT_TRUE(answer.ok() && !answer->best.empty());
    return answer.ok() && !answer->best.empty() ? answer->best.front() : FleetChoice();
  }

  proto::Catalog catalog_;
  proto::JobProfile profile_;
  PlanInput input_;
  JobModels models_;
  PlanProblem problem_;
};

TEST_F(ReportTest, OffersAreTheLowestPriceOfTheMarketAndServersAreOnDemand) {
  Make();
  ASSERT_EQ(problem_.offers.size(), 2U);
  EXPECT_EQ(problem_.offers[0].usd_per_hour, 0.3);
  EXPECT_EQ(problem_.offers[0].market, proto::Market::kSpot);
  ASSERT_EQ(problem_.servers.size(), 1U);
  EXPECT_EQ(problem_.servers[0].usd_per_hour, 0.2);
  EXPECT_EQ(problem_.servers[0].hosts_max, 4);
  catalog_.types[1].spot.clear();
  input_.setup.market = MarketChoice::kBoth;
  input_.setup.quotas = {{"slow", 2}};
  Make();
  ASSERT_EQ(problem_.offers.size(), 2U);
  EXPECT_EQ(problem_.offers[0].quota, 2);
  EXPECT_EQ(problem_.offers[1].market, proto::Market::kOnDemand);
  EXPECT_EQ(problem_.offers[1].usd_per_hour, 3);
  input_.setup.market = MarketChoice::kSpot;
  Make();
  EXPECT_EQ(problem_.offers.size(), 1U);
}

TEST_F(ReportTest, SpotMachinesAndThoseOnDemandOfATypeAreMixedWhereTheyHaveQuotas) {
  profile_.workers.pop_back();  // "fast"
  input_.setup.quotas = {{"slow", 2}};
  Make();
  const Result<PlanAnswer> fastest = SolveForTime(problem_);
  ASSERT_TRUE(fastest.ok() && !fastest->best.empty());
  input_.setup.goal.seconds_max = 0.8 * fastest->best.front().seconds;
  Make();
  ASSERT_TRUE(MakeStrategy("exact")->Solve(problem_)->best.empty()) << "two are too slow";
  input_.setup.on_demand_quotas = {{"slow", 9}};
  Make();
  ASSERT_EQ(problem_.offers.size(), 2U);
  const FleetChoice best = Best();
  EXPECT_EQ(best.counts[0], 2) << "spot machines come first";
  ASSERT_GT(best.counts[1], 0);
  const Result<PlanAnswer> oracle = MakeStrategy("exhaustive")->Solve(problem_);
  ASSERT_TRUE(oracle.ok() && !oracle->best.empty());
  EXPECT_EQ(best.counts, oracle->best.front().counts);
  const proto::Plan plan = PlanOf(problem_, profile_, best, "exact");
  EXPECT_EQ(
      FleetText(plan.workers, false), fmt::format("2 slow, {} slow (on demand)", best.counts[1]));
  EXPECT_EQ(plan.workers[1].usd_per_hour, 1);
  EXPECT_EQ(plan.workers[1].zone, "");
  const auto gains = WhatMoreBuys(input_, problem_, best);
  EXPECT_EQ(gains[1].change, "one more slow, on demand");
  input_.setup.on_demand_quotas = {{"server", 1}};
  EXPECT_THAT(SetupError(), HasSubstr("quota on demand for server"));
  profile_.workers.push_back({"slow", 64, 0.6});
  input_.setup.on_demand_quotas = {{"slow", 9}};
  EXPECT_THAT(SetupError(), HasSubstr("which the profile has with 2 minibatches"));
}

TEST_F(ReportTest, WhatTheCatalogDoesNotHaveIsRefused) {
  input_.setup.quotas = {{"huge", 2}};
  EXPECT_THAT(SetupError(), HasSubstr("quota for huge, a type that the catalog does not have"));
  catalog_.types.push_back(TypeOf("unknown", 0.3, 1, 6));
  input_.setup.quotas = {{"unknown", 2}};
  EXPECT_THAT(SetupError(), HasSubstr("which the profile has no figures for"));
  input_.setup.quotas = {};
  input_.setup.held = {{"slow", 1, 64}};
  EXPECT_THAT(SetupError(), HasSubstr("slow:64, which is left out or which the profile has no"));
  input_.setup.held = {};
  input_.setup.servers = {{"slow", 1, 1}};
  EXPECT_THAT(SetupError(), HasSubstr("may not hold parameters"));
  input_.setup.servers = {{"server", 1, 9}};
  EXPECT_THAT(SetupError(), HasSubstr("beyond the type's quota of 4"));
}

TEST_F(ReportTest, AQuotaHoldsForServersToo) {
  input_.setup.quotas = {{"server", 2}};
  Make();
  EXPECT_EQ(problem_.servers[0].hosts_max, 2);
  input_.setup.servers = {{"server", 1, 3}};
  EXPECT_THAT(SetupError(), HasSubstr("beyond the type's quota of 2"));
}

TEST_F(ReportTest, TheMinibatchesOfATypeAndItsServersShareOneQuota) {
  profile_.workers.push_back({"slow", 64, 0.4});
  catalog_.types[0].is_server_host = true;
  input_.setup.held = {{"slow", 1, 64}};
  Make();
  ASSERT_EQ(problem_.offers.size(), 3U);
  ASSERT_EQ(problem_.servers.size(), 2U);
  ASSERT_EQ(problem_.pools.size(), 1U);
  EXPECT_EQ(problem_.pools[0].quota, 6);
  EXPECT_EQ(problem_.offers[0].pool, 0);
  EXPECT_EQ(problem_.offers[1].pool, 0);
  EXPECT_EQ(problem_.offers[1].held, 1);
  EXPECT_EQ(problem_.offers[2].pool, -1);
  EXPECT_EQ(problem_.servers[0].pool, 0);
  EXPECT_EQ(problem_.servers[1].pool, -1);
  const FleetJudge judge(problem_);
  EXPECT_TRUE(judge.Fits(std::vector<int>{2, 3, 3}, 0, 1));
  EXPECT_FALSE(judge.Fits(std::vector<int>{2, 3, 3}, 0, 2));
  EXPECT_TRUE(judge.Fits(std::vector<int>{3, 3, 3}, 1, 4));
  EXPECT_FALSE(judge.Fits(std::vector<int>{4, 3, 3}, 1, 1));
}

TEST_F(ReportTest, EveryStrategyKeepsASharedQuota) {
  profile_.workers.push_back({"slow", 64, 0.4});
  catalog_.types[0].is_server_host = true;
  catalog_.types[0].network_gbit_per_s = 40;
  catalog_.types[1].quota = 0;
  input_.setup.goal.seconds_max = INFINITY;
  for (const double confidence : {0.5, 0.9}) {
    input_.setup.goal.confidence = confidence;
    Make();
    problem_.answers_max = 40;
    for (const std::string_view name : StrategyNames()) {
      if (name == "on-demand") {
        continue;  // all is spot here
      }
      const Result<PlanAnswer> answer = MakeStrategy(name)->Solve(problem_);
      ASSERT_TRUE(answer.ok()) << answer.status();
      EXPECT_FALSE(answer->best.empty()) << name;
      const FleetJudge judge(problem_);
      for (const FleetChoice& choice : answer->best) {
        EXPECT_TRUE(judge.Fits(choice.counts, choice.server_offer, choice.server_hosts)) << name;
      }
    }
  }
}

TEST_F(ReportTest, MoreOfEverythingIsWhatTheModelSaysOfTheChangedFleet) {
  Make();
  const FleetChoice best = Best();
  const std::vector<proto::PlanGain> gains = WhatMoreBuys(input_, problem_, best);
  std::vector<std::string> changes;
  for (const proto::PlanGain& gain : gains) {
    changes.push_back(gain.change);
  }
  EXPECT_THAT(
      changes,
      ::testing::ElementsAre(
          "one more slow",
          "one more fast",
          "one more server server",
          "twice the servers' network",
          "twice the workers' network",
          "twice the PCIe"));
  FleetJudge judge(problem_);
  std::vector<int> counts = best.counts;
  ++counts[0];
  const Verdict verdict = judge.Judge(counts, best.server_offer, best.server_hosts);
  EXPECT_EQ(gains[0].usd, verdict.usd);
  EXPECT_EQ(gains[0].seconds, verdict.seconds);
  for (size_t i = 2; i < gains.size(); ++i) {
    EXPECT_GE(gains[i].samples_per_s, best.speed.samples_per_s * (1 - 1e-9)) << gains[i].change;
  }
}

TEST_F(ReportTest, AQuotaThatCostsMoneyIsTheBottleneckOfComputation) {
  profile_.parameter_bytes = 1e5;  // so that computation limits
  profile_.push_bytes = 1e5;
  profile_.pull_bytes = 1e5;
  profile_.loss.has_heterogeneity = false;
  input_.setup.goal.seconds_max = 1100;
  input_.setup.quotas = {{"slow", 30}, {"fast", 1}};
  catalog_.types[1].spot[1].usd_per_hour = 0.1;  // the fast ones are a bargain
  Make();
  const FleetChoice best = Best();
  ASSERT_EQ(best.counts[1], 1);
  const std::vector<proto::PlanQuota> gains = WhatQuotaBuys(problem_, best);
  ASSERT_EQ(gains.size(), 1U);
  EXPECT_EQ(gains[0].instance_type, "fast");
  EXPECT_LT(gains[0].usd, best.usd);
  EXPECT_EQ(BindingBottleneck(best, gains), "quota");
  EXPECT_EQ(BindingBottleneck(best, {}), "compute");
}

TEST_F(ReportTest, APlanHoldsTheFleetAndIntervalsWhoseUpperEndsAreInTime) {
  input_.setup.goal.confidence = 0.9;
  profile_.training_fingerprint = "07ab";
  Make();
  const FleetChoice best = Best();
  const proto::Plan plan = PlanOf(problem_, profile_, best, "exact");
  EXPECT_EQ(plan.job, "job");
  EXPECT_EQ(plan.training_fingerprint, "07ab");
  EXPECT_EQ(plan.speed_model, "queue");
  EXPECT_EQ(plan.usd_max, 0);
  EXPECT_EQ(plan.seconds.value, best.seconds);
  EXPECT_LE(plan.seconds.high, 1800);
  EXPECT_LT(plan.usd.low, plan.usd.value);
  const Result<proto::Plan> parsed = proto::ParsePlan(proto::PrintPlan(plan), "plan.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, plan);
}

TEST_F(ReportTest, SpeedsThatTheServersCannotCarryAreFlagged) {
  profile_.workers[0].compute_s = profile_.workers[1].compute_s = 0.01;
  profile_.contention = {.a1 = 0.01, .b1 = 0.01, .samples = 3};  // hardly any
  for (const char* model : {"spotdnn", "ideal", "queue"}) {
    input_.models.speed_model = model;
    Make();
    FleetJudge judge(problem_);
    const bool knows_the_limit = problem_.speed->name() == "queue";
    const FleetChoice many = judge.Choose(std::vector<int>{6, 3}, 0, 1);
    EXPECT_EQ(OverpromiseText(problem_, models_.traffic, many).empty(), knows_the_limit) << model;
    const FleetChoice one = judge.Choose(std::vector<int>{1, 0}, 0, 1);
    EXPECT_EQ(OverpromiseText(problem_, models_.traffic, one), "") << model;
  }
  input_.models.speed_model = "ideal";
  Make();
  FleetJudge judge(problem_);
  EXPECT_THAT(
      OverpromiseText(problem_, models_.traffic, judge.Choose(std::vector<int>{6, 3}, 0, 1)),
      HasSubstr("the ideal model promises "));
}

TEST_F(ReportTest, RevocationsFollowTheLifetimesOfTypeAndZone) {
  Make();
  const FleetChoice choice = Best();
  const auto expect = [&](const OutlookSetup& setup) {
    Result<proto::PlanRevocations> outlook = ExpectRevocations(catalog_, problem_, choice, setup);
    EXPECT_TRUE(outlook.ok()) << outlook.status();
    return outlook.ok() ? *outlook : proto::PlanRevocations();
  };
  proto::PlanRevocations outlook = expect({});
  EXPECT_EQ(outlook.seconds, 0) << "no lifetimes";
  EXPECT_FALSE(outlook.unknown.empty());
  for (proto::InstanceType& type : catalog_.types) {
    if (!type.spot.empty()) {
      type.spot[0].lifetimes = {{0.01, 1}};  // the dearer zone's, which the plan does not use
      type.spot[1].lifetimes = {{1, 0}, {2, 0.5}};
      type.spot[1].lifetimes_from = "a test";
    }
  }
  outlook = expect({});
  EXPECT_THAT(outlook.unknown, ::testing::IsEmpty());
  EXPECT_THAT(outlook.lifetimes_from, ::testing::ElementsAre("a test"));
  EXPECT_LT(choice.seconds, 3600) << "nobody is revoked so early";
  EXPECT_NEAR(outlook.seconds, choice.seconds, 1e-6 * choice.seconds);
  EXPECT_NEAR(outlook.usd, choice.usd, 1e-6 * choice.usd);
  EXPECT_NEAR(outlook.revoked, 0, 1e-9);
  catalog_.types[0].spot[1].lifetimes = {{0.5, 0.5}};
  catalog_.types[1].spot[1].lifetimes = {{0.5, 0.5}};
  outlook = expect({.start_up_s = 60});
  EXPECT_GT(outlook.revoked, 0.1);
  EXPECT_GT(outlook.seconds, choice.seconds);
  EXPECT_GT(expect({.start_up_s = 600}).seconds, outlook.seconds);
  EXPECT_EQ(
      expect({.detect_s = 540, .start_up_s = 60}).seconds, expect({.start_up_s = 600}).seconds);
  EXPECT_GT(outlook.seconds_unreplaced, outlook.seconds);
  EXPECT_GT(outlook.lost_unreplaced, 0);
  EXPECT_LT(outlook.lost_unreplaced, 0.5);
  EXPECT_THAT(
      ExpectRevocations(catalog_, problem_, choice, {.lifetimes = "H100"}).status().message(),
      HasSubstr("no published lifetimes 'H100'; there are K80"));
}

TEST_F(ReportTest, AKillLosesHalfARoundOfLocalSteps) {
  Make();
  const FleetChoice choice = Best();
  const auto expect = [&](int local_steps) {
    problem_.local_steps = local_steps;
    const auto outlook = ExpectRevocations(
        catalog_, problem_, choice, {.start_up_s = 60, .lifetimes = "V100@us-central1"});
    EXPECT_TRUE(outlook.ok()) << outlook.status();
    return outlook.ok() ? *outlook : proto::PlanRevocations();
  };
  EXPECT_EQ(MinibatchesLost(problem_), 1);
  const proto::PlanRevocations single = expect(1);
  EXPECT_EQ(expect(2), single) << "the minibatch in hand";
  const proto::PlanRevocations rounds = expect(400);
  EXPECT_EQ(MinibatchesLost(problem_), 200);
  EXPECT_GT(rounds.revoked, 0.01);
  // Each loses 199 minibatches more, which all make up for.
  const double more = 199 * rounds.revoked / choice.speed.steps_per_s;
  EXPECT_NEAR(rounds.seconds - single.seconds, more, 0.3 * more);
  EXPECT_LT(rounds.samples_per_s, single.samples_per_s);
}

TEST_F(ReportTest, PublishedLifetimesStandInForThoseThatTheCatalogLacks) {
  Make();
  const FleetChoice choice = Best();
  const auto outlook =
      ExpectRevocations(catalog_, problem_, choice, {.lifetimes = "V100@us-central1"});
  ASSERT_TRUE(outlook.ok()) << outlook.status();
  EXPECT_THAT(
      outlook->lifetimes_from,
      ::testing::ElementsAre("CM-DARE's of V100@us-central1 on GCP in 2019"));
  // Two thirds go in the first hour, evenly: so many do within the run, but for successors.
  const double hours = choice.seconds / 3600;
  int workers = 0;
  for (const int count : choice.counts) {
    workers += count;
  }
  EXPECT_NEAR(outlook->revoked / (0.667 * hours * workers), 1, 0.35);
  const auto other = ExpectRevocations(catalog_, problem_, choice, {.lifetimes = "V100"});
  ASSERT_TRUE(other.ok());
  EXPECT_LT(other->seconds, outlook->seconds) << "all regions together live longer";
}

TEST_F(ReportTest, EachOfferLivesByItsZoneAndStartsAsItsType) {
  catalog_.types[0].start_up_s = 45;
  catalog_.types[0].spot[0].lifetimes = {{1, 0.9}};  // of the dearer zone
  catalog_.types[0].spot[1].lifetimes = {{1, 0.5}};
  catalog_.types[1].spot[1].lifetimes = {{1, 0.5}};
  Make();
  const auto known = LivesOf(catalog_, problem_, {});
  ASSERT_TRUE(known.ok()) << known.status();
  const std::vector<OfferLife>& offers = known->lives.offers;
  ASSERT_EQ(offers.size(), 2U);
  ASSERT_NE(offers[0].law, nullptr);
  EXPECT_EQ(offers[0].law, offers[1].law) << "one table, one law";
  EXPECT_EQ(offers[0].law->SurvivalAt(1), 0.5);
  EXPECT_EQ(offers[0].start_up_s, 45);
  EXPECT_EQ(offers[1].start_up_s, kStartUpS);
  EXPECT_EQ(known->from[0], "the catalog");
  EXPECT_EQ(known->lives.join_s, 0.24) << "docs/measurements/fleet.md";
  EXPECT_EQ(LivesOf(catalog_, problem_, {.start_up_s = 0})->lives.offers[0].start_up_s, 0);
}

TEST(ShippedCatalogTest, ItsLifetimesAreThoseOfCmDare) {
  const Result<std::string> text = ReadFile("configs/catalog/gcp.json");
  ASSERT_TRUE(text.ok()) << text.status();
  const auto catalog = proto::ParseCatalog(*text, "gcp.json");
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  const std::pair<const char*, const char*> types[] = {
      {"n1-standard-8-k80", "K80"}, {"n1-standard-8-p100", "P100"}, {"n1-standard-8-v100", "V100"}};
  for (const auto& [name, device] : types) {
    const proto::InstanceType* const type = catalog->Find(name);
    ASSERT_NE(type, nullptr) << name;
    ASSERT_EQ(type->spot.size(), 1U);
    EXPECT_THAT(type->spot[0].lifetimes_from, HasSubstr("Apache-2.0"));
    std::vector<LifetimePoint> points = {{0, 0}};
    for (const proto::LifetimePoint& point : type->spot[0].lifetimes) {
      points.push_back({point.hours, point.revoked});
    }
    EXPECT_EQ(PublishedLifetimes(device, "us-central1")->points(), points) << name;
  }
}

TEST_F(ReportTest, MachinesOnDemandStay) {
  input_.setup.market = MarketChoice::kOnDemand;
  Make();
  const auto outlook = ExpectRevocations(catalog_, problem_, Best(), {.lifetimes = "V100"});
  ASSERT_TRUE(outlook.ok()) << outlook.status();
  EXPECT_EQ(outlook->seconds, 0);
  EXPECT_THAT(outlook->unknown, ::testing::IsEmpty());
}

TEST_F(ReportTest, ZonesAreNamedWithTheTypesInThem) {
  const auto workers_in = [](const char* type, const char* zone) {
    return proto::PlanWorkers{.instance_type = type, .zone = zone};
  };
  EXPECT_EQ(ZonesText({workers_in("a", "z1"), workers_in("b", "z1")}), "z1");
  EXPECT_EQ(
      ZonesText({workers_in("b", "z1"), workers_in("a", "z1"), workers_in("c", "z0")}),
      "z0: c; z1: a, b");
  EXPECT_EQ(ZonesText({workers_in("a", "")}), "");
}

TEST_F(ReportTest, ThePlotHasAPointOfEverySizeAndEscapesNames) {
  catalog_.types[0].name = "a<b";
  profile_.workers[0].instance_type = "a<b";
  Make();
  const FleetChoice best = Best();
  const std::vector<PlotPoint> points = PlotPoints(problem_, best, 5);
  ASSERT_EQ(points.size(), 5U);
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].workers, static_cast<int>(i) + 1);
    EXPECT_EQ(WorkersOf(points[i].choice.counts), points[i].workers);
    EXPECT_EQ(points[i].is_in_time, points[i].choice.seconds <= 1800);
  }
  const std::string svg = PlotSvg(points, 2, {"a & b", "c"});
  EXPECT_THAT(svg, HasSubstr("a &amp; b"));
  EXPECT_THAT(svg, HasSubstr("chosen: "));
  EXPECT_EQ(svg.find("a<b"), std::string::npos);
  for (const PlotPoint& point : points) {
    EXPECT_FALSE(point.fleet.empty());
    std::string shown = point.fleet;
    if (const size_t at = shown.find('<'); at != std::string::npos) {
      shown.replace(at, 1, "&lt;");
    }
    EXPECT_THAT(svg, HasSubstr("text-anchor=\"end\">" + shown + "</text>")) << point.workers;
  }
  EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
}

TEST_F(ReportTest, WindowSizesAreTheEquationsOfThePaper) {
  Make();
  profile_.contention = {.a1 = 0.8, .b1 = -1.92, .samples = 3};
  LimitSizesAsSpotDnn(profile_, &problem_);
  EXPECT_EQ(problem_.workers_max, 13);  // ((1 + 1.92) / 0.8)^2 = 13.3
  EXPECT_GE(problem_.workers_min, 1);
  EXPECT_LE(problem_.workers_min, 13);
}

}  // namespace
}  // namespace ps::provisioner
