#include "run/planning/run_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "psctl/runs/scale_preview.h"
#include "run/planning/goal_policy.h"
#include "run/planning/plan_arguments.h"
#include "run/planning/plan_from_run.h"
#include "run/report/summary.h"
#include "tests/psctl/plan_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Of the job that the shipped profile is of: 3 g3.16xlarge of 8, the others were revoked; loss
/// 0.9.
proto::JobConfig ResNetConfig() {
  proto::JobConfig config;
  config.name = "resnet110-cifar100";
  config.workers = {
      {.count = 3, .minibatch = 2048, .type = "g3.16xlarge"},
      {.count = 5, .minibatch = 1024, .type = "g3.8xlarge"},
      {.count = 0, .minibatch = 1024, .type = "p3.2xlarge"}};
  config.goal.loss = 0.8F;
  config.goal.within_s = 2600;
  config.goal.takeover_s = 30;
  config.goal.profile = kProfilePath;
  config.goal.catalog = kCatalogPath;
  return config;
}

proto::JobStatus ResNetStatus(uint32_t big = 3, uint32_t small = 0) {
  proto::JobStatus status;
  status.state = proto::RunState::kTraining;
  status.train_loss = 0.9;
  status.steps_counted = 9000;
  status.elapsed_s = 1790;
  status.samples_per_s = 5800;
  status.revocations_noticed = 5;
  status.fleet = {{"g3.16xlarge", 3, big}, {"g3.8xlarge", small, small}, {"p3.2xlarge", 0, 0}};
  return status;
}

void AddWorker(
    const std::string& type,
    uint32_t minibatch,
    uint64_t steps,
    double step_s,
    proto::JobStatus* s) {
  proto::WorkerRow row;
  row.type = type;
  row.state = proto::WorkerRowState::kComputing;
  row.minibatch = minibatch;
  row.stats.steps = steps;
  row.stats.compute_s = step_s * static_cast<double>(steps);
  s->workers.push_back(row);
}

using RunFactsTest = PlanFixture;

TEST_F(RunFactsTest, ALiveRunTellsWhatIsLeftOfItsGoal) {
  const proto::JobConfig config = ResNetConfig();
  const auto filled = run::FillFromFacts({}, run::FactsOf(ResNetStatus(), config), config);
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_NEAR(filled->common.loss, 0.8, 1e-6);
  EXPECT_EQ(filled->common.profile_path, kProfilePath);
  EXPECT_EQ(filled->from_loss, 0.9);
  EXPECT_EQ(filled->steps_done, 9000);
  EXPECT_EQ(filled->within, "810.000");
  EXPECT_EQ(filled->detect_s, 3) << "fleet.max_detect_s";
  EXPECT_EQ(filled->takeover, "30.000");
  EXPECT_THAT(filled->held, ElementsAre("g3.16xlarge=3"));
  EXPECT_FALSE(filled->has_budget);
}

TEST_F(RunFactsTest, HeldWorkersAreAsOldAsTheirProcesses) {
  const proto::JobConfig config = ResNetConfig();
  proto::JobStatus status = ResNetStatus(3, 7);
  for (uint32_t seat = 0; seat < 10; ++seat) {
    AddWorker(seat < 3 ? "g3.16xlarge" : "g3.8xlarge", 1024, 1, 1.0, &status);
    status.workers.back().worker = WorkerId(seat);
    status.workers.back().incarnation = Incarnation(seat + 1);
    if (seat != 1) {
      status.workers.back().age_s = seat < 3 ? 7200 : 100.0 * seat;
    }
  }
  const run::RunFacts facts = run::FactsOf(status, config);
  EXPECT_THAT(
      run::FleetFlags(facts.held_by_age),
      ElementsAre(
          "g3.16xlarge=2@7200s",
          "g3.16xlarge=1",
          "g3.8xlarge=1@900s",
          "g3.8xlarge=2@750s",
          "g3.8xlarge=2@550s",
          "g3.8xlarge=2@350s"))
      << "few groups of about the same age";
  EXPECT_EQ(run::FleetText(facts.held), "3 g3.16xlarge, 7 g3.8xlarge");
  const auto filled = run::FillFromFacts({}, facts, config);
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_THAT(filled->held, ::testing::Contains("g3.16xlarge=2@7200s"));
  EXPECT_TRUE(run::AskPlanner(status, config, {}, "2026-11-22", nullptr).ok());
}

TEST_F(RunFactsTest, ServersAreThoseThatTheRunHasNow) {
  proto::JobStatus status = ResNetStatus();
  EXPECT_EQ(run::FactsOf(status, ResNetConfig()).server_hosts, 1);
  status.servers.count = 3;
  EXPECT_EQ(run::FactsOf(status, ResNetConfig()).server_hosts, 3);
}

TEST_F(RunFactsTest, FlagsSayOtherwise) {
  const proto::JobConfig config = ResNetConfig();
  run::PlanCommand command;
  command.common.loss = 0.7;
  command.within = "1h";
  command.has_within = true;
  command.held = {"p3.2xlarge=2"};
  const auto filled = run::FillFromFacts(command, run::FactsOf(ResNetStatus(), config), config);
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_EQ(filled->common.loss, 0.7);
  EXPECT_EQ(filled->within, "1h");
  EXPECT_THAT(filled->held, ElementsAre("p3.2xlarge=2"));
}

TEST_F(RunFactsTest, WhatHasNothingLeftIsSaid) {
  proto::JobConfig config = ResNetConfig();
  const auto error_of = [&](const proto::JobStatus& status) {
    const auto filled = run::FillFromFacts({}, run::FactsOf(status, config), config);
    return filled.ok() ? "" : std::string(filled.status().message());
  };
  proto::JobStatus status = ResNetStatus();
  status.elapsed_s = 2601;
  EXPECT_THAT(error_of(status), HasSubstr("nothing is left of the time"));
  status = ResNetStatus();
  status.train_loss = 0;
  EXPECT_THAT(error_of(status), HasSubstr("has no loss yet"));
  config.goal.budget_usd = 0.1F;
  EXPECT_THAT(error_of(ResNetStatus()), HasSubstr("nothing is left of the budget"));
  config.goal.loss = 0;
  EXPECT_THAT(error_of(ResNetStatus()), HasSubstr("say with --loss"));
}

TEST_F(RunFactsTest, AnEndedRunIsReadFromItsSummary) {
  const auto facts =
      run::FactsOfEnded(run::SummaryToJson(ResNetStatus()), "summary.json", ResNetConfig());
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->loss, 0.9);
  EXPECT_EQ(facts->steps, 9000);
  EXPECT_EQ(facts->seconds, 1790);
  EXPECT_THAT(facts->held, IsEmpty());
  EXPECT_EQ(run::FleetText(facts->done_by), "3 g3.16xlarge, 5 g3.8xlarge");
  for (const char* text : {"", "[]", "{}", R"({"train_loss": "low"})", R"({"train_loss": 1})"}) {
    EXPECT_FALSE(run::FactsOfEnded(text, "summary.json", ResNetConfig()).ok()) << text;
  }
}

TEST_F(RunFactsTest, WhatAnEndedRunSpentIsNotLeftOfItsBudget) {
  proto::JobConfig config = ResNetConfig();
  config.goal.budget_usd = 50;
  proto::JobStatus status = ResNetStatus();
  status.usd_spent = 30;
  status.traffic.usd = 5;
  const auto facts = run::FactsOfEnded(run::SummaryToJson(status), "summary.json", config);
  ASSERT_TRUE(facts.ok()) << facts.status();
  const auto filled = run::FillFromFacts({}, *facts, config);
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_NEAR(filled->budget_usd, 15, 1e-9);
  constexpr char kOld[] = R"({"train_loss": 0.9, "steps_counted": 9000, "elapsed_s": 1790})";
  const auto old = run::FactsOfEnded(kOld, "summary.json", config);
  ASSERT_TRUE(old.ok()) << old.status();
  EXPECT_EQ(old->usd, 0) << "nobody knows";
  constexpr char kWrong[] =
      R"({"train_loss": 1, "steps_counted": 9, "elapsed_s": 17, "usd_spent": "much"})";
  EXPECT_FALSE(run::FactsOfEnded(kWrong, "summary.json", config).ok());
}

TEST_F(RunFactsTest, ServersThatAreKeptAreOfTheTypeThatTheRunHas) {
  proto::JobConfig config = ResNetConfig();
  config.goal.catalog = "configs/catalog/aws.json";
  proto::JobStatus status = ResNetStatus();
  const auto servers_of = [&] {
    const auto filled = run::FillFromFacts({}, run::FactsOf(status, config), config);
    EXPECT_TRUE(filled.ok()) << filled.status();
    return filled.ok() ? filled->servers : std::vector<std::string>();
  };
  EXPECT_THAT(servers_of(), ElementsAre("c5.large=1")) << "the cheapest that holds parameters";
  config.launch.rent.head.type = "m5.2xlarge";
  status.servers.count = 9;
  EXPECT_THAT(servers_of(), ElementsAre("m5.2xlarge=1")) << "all nine are on it";
  config.launch.rent.head.type.clear();
  config.launch.rent.head.usd_per_hour = 0.384F;
  EXPECT_THAT(servers_of(), ElementsAre("m5.2xlarge=1")) << "on the head, by its price";
  config.launch.rent.head.usd_per_hour = 0;
  config.launch.rent.head.type = "g3.8xlarge";
  EXPECT_THAT(servers_of(), ElementsAre("c5.large=9")) << "no host of servers in the catalog";
}

TEST_F(RunFactsTest, MeasuredStepsTakeThePlaceOfTheProfiles) {
  proto::JobStatus status = ResNetStatus();
  AddWorker("g3.16xlarge", 2048, 200, 1.0, &status);
  AddWorker("g3.16xlarge", 2048, 300, 2.0, &status);
  AddWorker("g3.4xlarge", 512, 5, 9.0, &status);  // too few
  AddWorker("", 1024, 500, 9.0, &status);         // started by hand, of nobody knows what
  const auto measured = run::MeasuredSteps(status, ResNetConfig());
  ASSERT_EQ(measured.size(), 1U);
  EXPECT_EQ(measured[0].instance_type, "g3.16xlarge");
  EXPECT_DOUBLE_EQ(measured[0].compute_s, 1.6);
  proto::JobProfile profile;
  profile.workers = {{"g3.16xlarge", 2048, 1.0}, {"g3.16xlarge", 1024, 0.5}};
  EXPECT_THAT(
      run::UseMeasured(measured, &profile), ElementsAre(HasSubstr("+60 % of the profile's 1 s")));
  EXPECT_DOUBLE_EQ(profile.workers[0].compute_s, 1.6);
  EXPECT_EQ(profile.workers[1].compute_s, 0.5);
}

TEST_F(RunFactsTest, OfStepsWithSeveralMinibatchesTheMinibatchesCount) {
  proto::JobConfig config = ResNetConfig();
  config.train.local_steps = 8;
  proto::JobStatus status = ResNetStatus();
  status.steps.in_force.local_steps = 10;  // changed while it trains
  AddWorker("g3.16xlarge", 2048, 200, 16, &status);
  proto::WorkerRow& row = status.workers.back();
  row.stats.samples = 200 * 10 * 2048 - 4096;  // a round was cut short
  row.samples_counted = row.stats.samples;
  status.steps_counted = 200;
  status.samples_counted = row.samples_counted;
  EXPECT_DOUBLE_EQ(run::FactsOf(status, config).steps, 1998);
  const auto measured = run::MeasuredSteps(status, config);
  ASSERT_EQ(measured.size(), 1U);
  EXPECT_EQ(measured[0].steps, 1998U);
  EXPECT_DOUBLE_EQ(measured[0].compute_s, 16.0 * 200 / 1998);
  // Of the run's own fleet, 3 of 2048 and 5 of 1024.
  const auto ended = run::FactsOfEnded(run::SummaryToJson(status), "summary.json", config);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_NEAR(ended->steps, 1998 * 2048 / 1408.0, 1e-6);
  const auto filled = run::FillFromFacts({}, run::FactsOf(status, config), config);
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_EQ(filled->common.local_steps, 10) << "a run keeps what it has";
}

// The decision of figure 9, from what a live run says.
TEST_F(RunFactsTest, ThePlannerReplacesWhatFigureNineLost) {
  const auto answer = run::AskPlanner(ResNetStatus(), ResNetConfig(), {}, "2026-11-22", nullptr);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->infeasible, "");
  EXPECT_FALSE(answer->wanted_meets);
  EXPECT_NE(run::FleetText(answer->best), "3 g3.16xlarge");
  EXPECT_GT(answer->speed.low, 0);
  proto::JobStatus late = ResNetStatus();
  late.elapsed_s = 2500;
  const auto hopeless = run::AskPlanner(late, ResNetConfig(), {}, "2026-11-22", nullptr);
  ASSERT_TRUE(hopeless.ok()) << hopeless.status();
  EXPECT_THAT(hopeless->infeasible, HasSubstr("time"));
  proto::JobConfig config = ResNetConfig();
  config.goal.profile = root_ / "none.json";
  EXPECT_EQ(
      run::AskPlanner(late, config, {}, "2026-11-22", nullptr).status().code(),
      StatusCode::kNotFound);
}

proto::MarketPrice SpotPriceOf(const std::string& type, const std::string& zone, double usd) {
  return {.type = type, .zone = zone, .is_spot = true, .usd_per_hour = usd};
}

TEST_F(RunFactsTest, ThePlannerTakesWhatMachinesCostNow) {
  const auto ask = [](const std::vector<proto::MarketPrice>& prices) {
    const auto answer =
        run::AskPlanner(ResNetStatus(), ResNetConfig(), {}, "2026-11-22", nullptr, prices);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : provisioner::ReplanAnswer();
  };
  const auto count_of = [](const provisioner::ReplanAnswer& answer, const std::string& type) {
    const auto some = std::ranges::find(answer.best, type, &provisioner::TypeCount::instance_type);
    return some == answer.best.end() ? 0 : some->count;
  };
  const provisioner::ReplanAnswer by_catalog = ask({});
  const provisioner::ReplanAnswer dear = ask(
      {SpotPriceOf("g3.8xlarge", "us-east-1a", 90), SpotPriceOf("p3.2xlarge", "us-east-1a", 0.01)});
  EXPECT_EQ(count_of(dear, "g3.8xlarge"), 0) << "nobody takes it at that price";
  EXPECT_GT(count_of(dear, "p3.2xlarge"), 0);
  const provisioner::ReplanAnswer other = ask(
      {SpotPriceOf("p3.2xlarge", "us-east-1a", 90), SpotPriceOf("g3.8xlarge", "us-east-1a", 0.01)});
  EXPECT_EQ(count_of(other, "p3.2xlarge"), 0);
  EXPECT_GT(count_of(other, "g3.8xlarge"), 0);
  EXPECT_NE(dear.best_usd, by_catalog.best_usd);
}

TEST(MarketPricesTest, PricesOfTheMarketReplaceThoseOfTheCatalogInItsZones) {
  proto::Catalog catalog;
  catalog.region = "us-east-1";
  catalog.types.resize(2);
  catalog.types[0].name = "a";
  catalog.types[0].spot = {
      {.zone = "us-east-1", .usd_per_hour = 1, .as_of = "2020-01-01", .is_estimate = true}};
  catalog.types[1].name = "b";
  catalog.types[1].on_demand_usd_per_hour = 4;
  catalog.types[1].spot = catalog.types[0].spot;
  run::TakeMarketPrices(
      {SpotPriceOf("a", "us-east-1a", 0.5),
       SpotPriceOf("a", "us-east-1b", 0.25),
       SpotPriceOf("nobody's", "us-east-1b", 7),
       {.type = "b", .zone = "us-east-1a", .is_spot = false, .usd_per_hour = 5}},
      "2026-11-29",
      &catalog);
  ASSERT_EQ(catalog.types[0].spot.size(), 2U);
  EXPECT_EQ(catalog.types[0].spot[1].zone, "us-east-1b");
  EXPECT_EQ(catalog.types[0].spot[1].usd_per_hour, 0.25);
  EXPECT_EQ(catalog.types[0].spot[1].as_of, "2026-11-29");
  EXPECT_FALSE(catalog.types[0].spot[1].is_estimate);
  EXPECT_EQ(catalog.types[1].on_demand_usd_per_hour, 5);
  EXPECT_EQ(catalog.types[1].spot[0].usd_per_hour, 1) << "nobody said otherwise";
}

TEST(MarketPricesTest, AWiggleIsNoNews) {
  run::PriceWatch watch;
  const uint64_t begin = watch.Mark({});
  const uint64_t first = watch.Mark({SpotPriceOf("a", "z", 1)});
  EXPECT_NE(first, begin);
  for (const double usd : {1.05, 0.95, 1.09, 0.91, 1.0}) {
    EXPECT_EQ(watch.Mark({SpotPriceOf("a", "z", usd)}), first);
  }
  const uint64_t risen = watch.Mark({SpotPriceOf("a", "z", 1.1)});
  EXPECT_NE(risen, first);
  EXPECT_EQ(watch.Mark({SpotPriceOf("a", "z", 1.01)}), risen) << "less than a tenth of 1.1";
  EXPECT_NE(watch.Mark({SpotPriceOf("a", "z", 0.98)}), risen);
}

TEST_F(RunFactsTest, ABudgetLeavesWhatWasNotPaid) {
  proto::JobConfig config = ResNetConfig();
  config.goal.budget_usd = 50;
  proto::JobStatus status = ResNetStatus();
  status.usd_spent = 30;
  status.traffic.usd = 5;
  const auto filled = run::FillFromFacts({}, run::FactsOf(status, config), config);
  ASSERT_TRUE(filled.ok()) << filled.status();
  EXPECT_NEAR(filled->budget_usd, 15, 1e-9);
}

Result<std::string> PreviewOf(
    const std::vector<std::string>& words,
    const proto::JobStatus& status,
    proto::JobConfig config) {
  ScaleCommand command;
  PS_TRY(ParseScale(words, &command));
  return PreviewScale(command, status, config, "2026-11-22", 0);
}

/// The cells of the row that begins with `first`; two spaces or more are between them.
std::vector<std::string> RowOf(const std::string& table, const std::string& first) {
  const size_t begin = table.find("\n" + first + " ");
  std::vector<std::string> cells;
  if (begin != std::string::npos) {
    std::string line = table.substr(begin + 1, table.find('\n', begin + 1) - begin - 1);
    for (size_t at = 0; (at = line.find("  ")) != std::string::npos;) {
      cells.push_back(line.substr(0, at));
      line.erase(0, line.find_first_not_of(' ', at));
    }
    cells.push_back(line);
  }
  return cells;
}

using Cells = std::vector<std::string>;

/// The rows of both fleets in a preview. Fails the test when a cell is missing.
void ReadRows(const Result<std::string>& text, Cells* now, Cells* then) {
  ASSERT_TRUE(text.ok()) << text.status();
  *now = RowOf(*text, "now");
  *then = RowOf(*text, "then");
  ASSERT_EQ(now->size(), 8U) << *text;
  ASSERT_EQ(then->size(), 8U) << *text;
}

/// What is predicted of a fleet, without how sure that is.
double SamplesOf(const std::vector<std::string>& row) {
  std::string text = row.at(3).substr(0, row.at(3).find(' '));
  std::erase(text, ',');
  return std::stod(text);
}

// The cheapest machine for a server costs 0.192 USD an hour, g3.16xlarge 1.37, p3.2xlarge 1.25.
TEST_F(RunFactsTest, APreviewOfAScaleShowsBothFleetsAndWhatLimitsThem) {
  const auto text = PreviewOf({"p3.2xlarge=3"}, ResNetStatus(), ResNetConfig());
  Cells now;
  Cells then;
  ASSERT_NO_FATAL_FAILURE(ReadRows(text, &now, &then));
  EXPECT_THAT(*text, HasSubstr("time to loss 0.8"));
  EXPECT_THAT(*text, HasSubstr("measured now: 5,800 samples/s"));
  EXPECT_THAT(*text, HasSubstr("nothing was changed\n"));
  EXPECT_THAT(std::vector(now.begin(), now.begin() + 3), ElementsAre("now", "3 g3.16xlarge", "1"));
  EXPECT_THAT(
      std::vector(then.begin(), then.begin() + 3),
      ElementsAre("then", "3 g3.16xlarge, 3 p3.2xlarge", "1"));
  EXPECT_THAT(now[4] + " " + then[4], "4.30 8.05");
  EXPECT_THAT(now[5] + " " + then[5], "compute compute");
  EXPECT_GT(SamplesOf(then), SamplesOf(now));
}

TEST_F(RunFactsTest, APreviewOfMoreServersShowsThemAndTheirPrice) {
  const auto text = PreviewOf({"servers=2"}, ResNetStatus(), ResNetConfig());
  Cells now;
  Cells then;
  ASSERT_NO_FATAL_FAILURE(ReadRows(text, &now, &then));
  EXPECT_THAT(std::vector(now.begin(), now.begin() + 3), ElementsAre("now", "3 g3.16xlarge", "1"));
  EXPECT_THAT(
      std::vector(then.begin(), then.begin() + 3), ElementsAre("then", "3 g3.16xlarge", "2"));
  EXPECT_EQ(now[4] + " " + then[4], "4.30 4.49");
}

/// 1.37 USD for each of 3 workers, 0.384 for the machine that is rented for the servers.
TEST_F(RunFactsTest, APreviewTakesTheServersForWhatTheyAre) {
  proto::JobConfig config = ResNetConfig();
  config.goal.catalog = "configs/catalog/aws.json";
  config.launch.rent.head.type = "m5.2xlarge";
  proto::JobConfig cheap = config;
  cheap.launch.rent.head.type.clear();
  const auto text = PreviewOf({"p3.2xlarge=40"}, ResNetStatus(), config);
  const auto other = PreviewOf({"p3.2xlarge=40"}, ResNetStatus(), cheap);
  Cells now;
  Cells then;
  Cells now_cheap;
  Cells then_cheap;
  ASSERT_NO_FATAL_FAILURE(ReadRows(text, &now, &then));
  ASSERT_NO_FATAL_FAILURE(ReadRows(other, &now_cheap, &then_cheap));
  EXPECT_NEAR(std::stod(now[4]) - std::stod(now_cheap[4]), 0.384 - 0.085, 0.011);
  EXPECT_GT(SamplesOf(then), 2 * SamplesOf(then_cheap)) << "2.5 against 0.75 Gbit/s";
  EXPECT_THAT(*text, HasSubstr("servers count as one m5.2xlarge (launch.rent.head)"));
  EXPECT_THAT(*other, HasSubstr("servers count as c5.large, the cheapest type of the catalog"));
}

// At rate 8/n with gradients n/8 times as old the run is that of 8 workers in slow motion.
TEST_F(RunFactsTest, WorkersBeyondTheListedOnesBuyNoTime) {
  proto::JobConfig config = ResNetConfig();
  config.train.lr_policy = proto::LrPolicy::kListed;
  const auto seconds_of = [](const Cells& row) {
    std::string text = row.size() == 8 ? row[6].substr(0, row[6].find(" (")) : "";
    std::erase(text, ' ');
    const auto seconds = run::ParseDuration("time to the loss", text);
    EXPECT_TRUE(seconds.ok()) << seconds.status();
    return seconds.ok() ? *seconds : 1;
  };
  const auto times_of = [&](const proto::JobConfig& job, proto::Mode mode) {
    proto::JobStatus status = ResNetStatus(3, 5);
    status.mode = mode;
    Cells now;
    Cells then;
    ReadRows(PreviewOf({"g3.16xlarge=6", "g3.8xlarge=10"}, status, job), &now, &then);
    return seconds_of(then) / seconds_of(now);
  };
  EXPECT_GT(times_of(config, proto::Mode::kAsync), 0.95);
  EXPECT_LT(times_of(config, proto::Mode::kBsp), 0.8) << "no rate is taken from rounds";
  config.train.lr_policy = proto::LrPolicy::kFixed;
  EXPECT_LT(times_of(config, proto::Mode::kAsync), 0.8);
  config.train.lr_policy = proto::LrPolicy::kListed;
  config.workers.clear();
  config.workers = {{.count = 0, .type = "g3.16xlarge"}, {.count = 0, .type = "g3.8xlarge"}};
  EXPECT_LT(times_of(config, proto::Mode::kAsync), 0.8) << "nobody is listed, nothing is taken";
}

TEST_F(RunFactsTest, AGoalCountsOnNoTimeFromWorkersBeyondTheListedOnes) {
  proto::JobConfig config = ResNetConfig();
  config.workers = {{.count = 1, .minibatch = 1024, .type = "g3.8xlarge"}};
  config.goal.within_s = 7000;
  proto::JobStatus status = ResNetStatus(0, 1);
  status.elapsed_s = 6000;
  status.steps_counted = 0;  // no pace is measured
  status.fleet = {{"g3.8xlarge", 1, 1}};
  config.train.lr_policy = proto::LrPolicy::kFixed;
  const auto grown = run::AskPlanner(status, config, {}, "2026-11-22", nullptr);
  ASSERT_TRUE(grown.ok()) << grown.status();
  EXPECT_FALSE(grown->best.empty()) << grown->infeasible;
  config.train.lr_policy = proto::LrPolicy::kListed;
  const auto listed = run::AskPlanner(status, config, {}, "2026-11-22", nullptr);
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_TRUE(listed->best.empty()) << run::FleetText(listed->best);
}

/// So many workers that one server is not enough.
TEST_F(RunFactsTest, APreviewSaysWhereTheBottleneckMovesTo) {
  const proto::JobStatus status = ResNetStatus(10, 10);
  const auto text = PreviewOf({"p3.2xlarge=100"}, status, ResNetConfig());
  Cells now;
  Cells then;
  ASSERT_NO_FATAL_FAILURE(ReadRows(text, &now, &then));
  EXPECT_NE(now[5], then[5]) << *text;
}

TEST_F(RunFactsTest, APreviewOfNobodySaysThatNobodyWorks) {
  const auto text = PreviewOf({"workers=0"}, ResNetStatus(), ResNetConfig());
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(
      RowOf(*text, "then"),
      ElementsAre("then", "nobody", "1", "0", "0.00", "nobody works", "never", "-"));
}

TEST_F(RunFactsTest, APreviewSaysWhatItCannotKnow) {
  proto::JobConfig config = ResNetConfig();
  config.goal.profile = root_ / "none.json";
  const auto text = PreviewOf({"workers+=1"}, ResNetStatus(), config);
  ASSERT_EQ(text.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(text.status().message(), HasSubstr("5,800 samples/s now with 3 g3.16xlarge"));
  const auto unknown = PreviewOf({"cray=1"}, ResNetStatus(), ResNetConfig());
  EXPECT_THAT(unknown.status().message(), HasSubstr("no group of workers has the type cray"));
}

}  // namespace
}  // namespace ps::psctl
