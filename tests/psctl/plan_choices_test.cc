#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/plan.h"
#include "ps/proto/files/profile.h"
#include "psctl/plan/plan_command.h"
#include "tests/psctl/plan_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using PlanChoicesTest = PlanFixture;

TEST_F(PlanChoicesTest, AGoalThatIsMetBeforeTheFirstStepIsNoPlan) {
  for (const char* loss : {"1.6", "3", "100", "1e300"}) {
    for (const char* strategy : {"exact", "homogeneous", "ideal"}) {
      EXPECT_EQ(RunWith("plan", {"--loss", loss, "--strategy", strategy}), run::kExitFailed)
          << loss;
      EXPECT_THAT(out_, IsEmpty());
      EXPECT_THAT(err_, HasSubstr("met before the first step: the fitted curve begins at 1.49"));
      EXPECT_THAT(err_, HasSubstr("--loss below 1.49\n"));
    }
  }
  ASSERT_EQ(RunWith("plan", {"--loss", "1.49"}), run::kExitOk) << err_;
  EXPECT_EQ(out_.find("nan"), std::string::npos) << out_;
  EXPECT_EQ(out_.find("inf"), std::string::npos) << out_;
}

TEST_F(PlanChoicesTest, ARunThatIsAsGoodAsThereIsNotSaidToBeginThere) {
  EXPECT_EQ(
      RunWith("plan", {"--loss", "0.8", "--from-loss", "0.8000001", "--within", "1h"}),
      run::kExitFailed);
  EXPECT_THAT(
      err_, HasSubstr("loss 0.8 is less than a step away from 0.8000001, where the run is"));
  EXPECT_THAT(err_, Not(HasSubstr("before the first step")));
}

// Before, the search for a bound of so long a push did not end.
TEST_F(PlanChoicesTest, BytesThatNobodyCanSendAreRefused) {
  const std::string path = root_ / "profile.json";
  std::string text = ReadAll(kProfilePath);
  const std::string field = R"("push_bytes": )";
  const size_t at = text.find(field) + field.size();
  text.replace(at, text.find(',', at) - at, "1e300");
  ASSERT_TRUE(WriteFileAtomically(path, text).ok());
  EXPECT_EQ(
      Run({"plan", "--profile", path, "--catalog", kCatalogPath, "--loss", "0.8"}),
      run::kExitMisused);
  EXPECT_THAT(err_, AllOf(HasSubstr("profile.json:"), HasSubstr("push_bytes")));
}

TEST_F(PlanChoicesTest, PredictPromisesNoTimeWhereTheCurveHasNone) {
  const std::vector<std::string> fleet = {"--fleet", "g4dn.4xlarge=2", "--ps", "m5.xlarge"};
  const auto predict = [&](const char* loss) {
    std::vector<std::string> arguments = fleet;
    arguments.insert(arguments.end(), {"--loss", loss});
    return RunWith("predict", arguments);
  };
  EXPECT_EQ(predict("0.4"), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("loss 0.4 is out of reach: the fitted curve ends at 0.5"));
  EXPECT_THAT(out_, IsEmpty());
  EXPECT_EQ(predict("5"), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("loss 5 is met before the first step"));
  EXPECT_EQ(RunWith("predict", {"--fleet", "g3.8xlarge=1", "--ps", "m5.xlarge", "--loss=-1"}), 2);
  EXPECT_THAT(err_, HasSubstr("--loss wants the loss to reach"));
}

TEST_F(PlanChoicesTest, WhatTheProfileDidNotSeeIsSaid) {
  Result<proto::JobProfile> profile = proto::ParseProfile(ReadAll(kProfilePath), kProfilePath);
  ASSERT_TRUE(profile.ok()) << profile.status();
  profile->losses = {{.steps = 10, .loss = 1.2}, {.steps = 90, .loss = 0.9, .workers = 2}};
  const std::string path = root_ / "profile.json";
  ASSERT_TRUE(WriteFileAtomically(path, proto::PrintProfile(*profile)).ok());
  const auto notes = [&](const std::string& loss, const std::string& fleet) {
    EXPECT_EQ(
        Run(
            {"predict",
             "--profile",
             path,
             "--catalog",
             kCatalogPath,
             "--fleet",
             fleet,
             "--ps",
             "m5.xlarge",
             "--loss",
             loss,
             "--json"}),
        0)
        << err_;
    const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
    return plan.ok() ? Join(plan->notes) : std::string(plan.status().message());
  };
  EXPECT_THAT(
      notes("0.8", "g3.8xlarge=2"),
      HasSubstr("loss 0.8 is below all that the profile saw, 0.9 to 1.2"));
  EXPECT_THAT(
      notes("1.3", "g3.8xlarge=2"), HasSubstr("loss 1.3 is above all that the profile saw"));
  EXPECT_THAT(notes("1", "g3.8xlarge=3"), HasSubstr("fleets of up to 2 workers: the steps of 3"));
  EXPECT_EQ(notes("1", "g3.8xlarge=2").find("the profile saw"), std::string::npos);
}

TEST_F(PlanChoicesTest, PricesThatNobodyWasAskedOrThatAreOldAreSaid) {
  Result<proto::Catalog> catalog = proto::ParseCatalog(ReadAll(kCatalogPath), kCatalogPath);
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  for (proto::InstanceType& type : catalog->types) {
    for (proto::SpotPrice& price : type.spot) {
      price.is_estimate = type.name == "g3.8xlarge";
    }
  }
  const std::string path = root_ / "catalog.json";
  ASSERT_TRUE(WriteFileAtomically(path, proto::PrintCatalog(*catalog)).ok());
  run::PredictCommand command;
  command.common.profile_path = kProfilePath;
  command.common.catalog_path = path;
  command.common.is_json = true;
  command.fleet = {"p3.2xlarge=1,g3.8xlarge=1"};
  command.servers = "m5.xlarge";
  const auto notes_on = [&](const std::string& today) {
    out_.clear();
    EXPECT_EQ(RunPredict(command, today, console_), run::kExitOk) << err_;
    const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
    return plan.ok() ? plan->notes : std::vector<std::string>{"not a plan"};
  };
  const std::string estimated =
      "estimated prices, worked out from a usual saving, nobody was asked: g3.8xlarge";
  const std::string stale =
      "stale prices, look them up before you rely on them: p3.2xlarge of 2023-06-19, g3.8xlarge "
      "of 2023-06-19, m5.xlarge of 2023-06-19";
  EXPECT_THAT(notes_on("2023-06-20"), ::testing::ElementsAre(estimated));
  EXPECT_THAT(notes_on("2023-12-20"), ::testing::ElementsAre(estimated, stale));
  command.common.is_json = false;
  out_.clear();
  EXPECT_EQ(RunPredict(command, "2023-12-20", console_), run::kExitOk);
  EXPECT_THAT(out_, HasSubstr("\n" + estimated + "\n" + stale + "\n"));
}

TEST_F(PlanChoicesTest, EveryStrategyAndModelCanBeAskedFor) {
  for (const char* strategy :
       {"exact", "spotdnn", "spotdnn-prototype", "ideal", "homogeneous", "exhaustive"}) {
    EXPECT_EQ(
        RunWith(
            "plan",
            {"--loss",
             "0.8",
             "--within",
             "1h",
             "--strategy",
             strategy,
             "--quota",
             "p3.2xlarge=2,g4dn.4xlarge=3,g3.8xlarge=3,g3.16xlarge=2,p2.8xlarge=1"}),
        0)
        << strategy << ": " << err_;
    EXPECT_THAT(out_, HasSubstr(std::string(strategy) + ", queue model"));
  }
  for (const char* model : {"queue", "spotdnn", "ideal"}) {
    EXPECT_EQ(RunWith("plan", {"--loss", "0.8", "--within", "1h", "--speed-model", model}), 0)
        << err_;
    EXPECT_THAT(out_, HasSubstr(std::string(model) + " model"));
  }
  ASSERT_EQ(RunWith("plan", {"--loss", "0.8", "--strategy", "on-demand"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr(", on demand"));
  const std::string without_market = out_;
  ASSERT_EQ(
      RunWith("plan", {"--loss", "0.8", "--strategy", "on-demand", "--market", "on-demand"}), 0)
      << err_;
  EXPECT_EQ(out_, without_market);
}

TEST_F(PlanChoicesTest, APlanOfAnIdealWorldThatMissesTheGoalSaysSo) {
  Result<proto::Catalog> catalog = proto::ParseCatalog(ReadAll(kCatalogPath), kCatalogPath);
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  for (proto::InstanceType& type : catalog->types) {
    if (type.is_server_host) {
      type.network_gbit_per_s = type.network_burst_gbit_per_s = 0.5;
    }
  }
  const std::string path = root_ / "catalog.json";
  ASSERT_TRUE(WriteFileAtomically(path, proto::PrintCatalog(*catalog)).ok());
  const auto plan_within = [&](const std::string& within) {
    return Run(
        {"plan",
         "--profile",
         kProfilePath,
         "--catalog",
         path,
         "--loss",
         "0.8",
         "--strategy",
         "ideal",
         "--within",
         within,
         "--json"});
  };
  ASSERT_EQ(plan_within("4h"), run::kExitOk) << err_;
  EXPECT_THAT(err_, IsEmpty());
  ASSERT_EQ(plan_within("40m"), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("this fleet misses the goal, at 90 % confidence: it takes up to "));
  const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT(plan->seconds.high, plan->seconds_max);
  EXPECT_THAT(plan->notes.front(), HasSubstr("misses the goal"));
}

TEST_F(PlanChoicesTest, TypesCanBeChosenAndLeftOut) {
  const auto plan_with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--loss", "0.8", "--within", "1h", "--explain"});
    EXPECT_EQ(RunWith("plan", more), run::kExitOk) << err_;
    return out_;
  };
  const auto names = [](const std::string& text, const std::string& type) {
    return text.find(type) != std::string::npos;
  };
  EXPECT_TRUE(names(plan_with({}), "p3.2xlarge"));
  std::string text = plan_with({"--types", "g3.8xlarge,g4dn.4xlarge"});
  EXPECT_TRUE(names(text, "g3.8xlarge"));
  EXPECT_FALSE(names(text, "p3.2xlarge") || names(text, "p2.8xlarge"));
  text = plan_with({"--without", "p3.2xlarge", "--without", "p2.8xlarge"});
  EXPECT_TRUE(names(text, "g3.16xlarge"));
  EXPECT_FALSE(names(text, "p3.2xlarge") || names(text, "p2.8xlarge"));
  const std::vector<std::pair<std::vector<std::string>, std::string>> wrong = {
      {{"--types", "g3.8xlrge"}, "--types: no type 'g3.8xlrge' in the catalog; did you mean"},
      {{"--without", "g3.8xlrge"}, "--without: no type 'g3.8xlrge'"},
      {{"--types", "g3.8xlarge", "--without", "g3.8xlarge"}, "named by --types and by --without"},
      {{"--types", "g3.8xlarge=2"}, "--types wants TYPE"},
      {{"--types", ""}, "--types wants TYPE"},
      {{"--types", "g3.8xlarge", "--quota", "p3.2xlarge=1"}, "which is left out"},
      {{"--types", "g3.4xlarge"}, "no profile for g3.4xlarge"},
      {{"--without", "m5.xlarge"}, "no instance type may hold parameters"},
      {{"--without", "p3.2xlarge,g4dn.4xlarge,g3.8xlarge,g3.16xlarge,p2.8xlarge"},
       "no type of the catalog has a profile"}};
  for (const auto& [arguments, expected] : wrong) {
    std::vector<std::string> all = {"--loss", "0.8"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    EXPECT_EQ(RunWith("plan", all), run::kExitMisused) << expected;
    EXPECT_THAT(err_, HasSubstr(expected));
  }
}

TEST_F(PlanChoicesTest, EachObjectiveIsAsGoodAsAnyOtherPlanInWhatItIsFor) {
  const auto plan_for = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--json", "--servers", "m5.xlarge=1"});
    EXPECT_EQ(RunWith("plan", more), run::kExitOk) << err_;
    Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? *plan : proto::Plan();
  };
  const proto::Plan cost = plan_for({"--loss", "0.8", "--within", "1h", "--budget", "6"});
  const proto::Plan time =
      plan_for({"--loss", "0.8", "--within", "1h", "--budget", "6", "--objective", "time"});
  EXPECT_EQ(time.objective, proto::Objective::kTime);
  EXPECT_LT(time.seconds.high, cost.seconds.high);
  EXPECT_GT(time.usd.value, cost.usd.value);
  EXPECT_LE(time.usd.high, 6);
  ASSERT_FALSE(time.alternatives.empty());
  double usd = time.usd.value;
  for (const proto::PlanAlternative& other : time.alternatives) {
    EXPECT_THAT(other.kind, ::testing::EndsWith(" % slower"));
    EXPECT_LT(other.usd.value, usd);
    usd = other.usd.value;
  }
  const proto::Plan fast = plan_for(
      {"--objective", "throughput-per-hour", "--price-per-hour", "5", "--quota", "p3.2xlarge=2"});
  EXPECT_EQ(fast.usd_per_hour_max, 5);
  EXPECT_EQ(fast.seconds.value, 0) << "no loss was asked for";
  double usd_per_hour = fast.servers.count * fast.servers.usd_per_hour;
  for (const proto::PlanWorkers& workers : fast.workers) {
    usd_per_hour += workers.count * workers.usd_per_hour;
  }
  EXPECT_LE(usd_per_hour, 5);
  ASSERT_EQ(fast.alternatives.size(), 3U);
  EXPECT_EQ(fast.alternatives.front().kind, "for 3.75 USD/h");
  EXPECT_LT(fast.alternatives.front().samples_per_s.value, fast.samples_per_s.value);
  const proto::Plan same = plan_for(
      {"--objective",
       "throughput-per-hour",
       "--price-per-hour",
       "5",
       "--quota",
       "p3.2xlarge=2",
       "--loss",
       "0.8"});
  EXPECT_EQ(same.workers, fast.workers);
  EXPECT_GT(same.seconds.value, 0);
}

TEST_F(PlanChoicesTest, AnObjectiveThatCannotBePlannedSaysWhy) {
  const std::pair<std::vector<std::string>, std::string> wrong[] = {
      {{"--objective", "speed"},
       "--objective wants cost, time or throughput-per-hour; got 'speed'"},
      {{"--objective", "time", "--strategy", "spotdnn"}, "is planned by the strategy exact alone"},
      {{"--objective", "throughput-per-hour"}, "wants --price-per-hour, USD above 0"},
      {{"--objective", "throughput-per-hour", "--price-per-hour", "3", "--within", "1h"},
       "--within and --budget limit the way to a loss"},
      {{"--price-per-hour", "3"}, "--price-per-hour is of --strategy deepvm and of --objective"},
      {{"--quota-on-demand", "p3.2xlarge=1", "--market", "on-demand"},
       "--quota-on-demand is of machines on demand beside spot ones"},
      {{"--start-up", "soon"}, "--start-up wants a time"},
      {{"--lifetimes", "H100"}, "--lifetimes: none are published of 'H100'; there are K80"},
      {{"--objective", "throughput-per-hour", "--price-per-hour", "3", "--loss", "0.4"},
       "loss 0.4 is out of reach"}};
  for (const auto& [arguments, expected] : wrong) {
    std::vector<std::string> all = arguments;
    if (std::ranges::count(all, "--loss") == 0) {
      all.insert(all.end(), {"--loss", "0.8"});
    }
    EXPECT_EQ(RunWith("plan", all), run::kExitMisused) << expected;
    EXPECT_THAT(err_, HasSubstr(expected));
  }
  EXPECT_EQ(
      RunWith("plan", {"--objective", "throughput-per-hour", "--price-per-hour", "0.2"}),
      run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("an hour may cost 0.2 USD, and that of the cheapest fleet"));
  EXPECT_THAT(err_, ::testing::EndsWith("can be met:\n  --price-per-hour 0.56\n"));
}

TEST_F(PlanChoicesTest, RevocationsAndDoublePricesAreInThePlan) {
  const std::vector<std::string> goal = {"--loss", "0.8", "--within", "1h"};
  ASSERT_EQ(RunWith("plan", goal), run::kExitOk) << err_;
  EXPECT_THAT(
      out_,
      HasSubstr("revocations are left out of time and cost, since the catalog has no "
                "spot[].lifetimes of p3.2xlarge"));
  EXPECT_EQ(out_.find("with revocations"), std::string::npos);
  std::vector<std::string> arguments = goal;
  arguments.insert(arguments.end(), {"--lifetimes", "V100@us-central1", "--start-up", "3m"});
  ASSERT_EQ(RunWith("plan", arguments), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("\nwith revocations"));
  EXPECT_THAT(out_, HasSubstr("\nnew machines after 3m 00s  "));
  EXPECT_THAT(out_, HasSubstr("\nno new machines  "));
  EXPECT_THAT(out_, HasSubstr("lifetimes: CM-DARE's of V100@us-central1 on GCP in 2019\n"));
  EXPECT_THAT(out_, HasSubstr("\nat twice the spot price"));
  arguments.emplace_back("--json");
  ASSERT_EQ(RunWith("plan", arguments), run::kExitOk) << err_;
  const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT(plan->revocations.seconds, plan->seconds.value);
  EXPECT_EQ(plan->revocations.start_up_s, 180);
  ASSERT_FALSE(plan->if_prices_double.empty());
  const proto::PlanAlternative& same = plan->if_prices_double.front();
  EXPECT_EQ(same.kind, "the same fleet");
  EXPECT_EQ(same.seconds, plan->seconds);
  double spot_usd_per_hour = 0;
  double usd_per_hour = plan->servers.count * plan->servers.usd_per_hour;
  for (const proto::PlanWorkers& workers : plan->workers) {
    spot_usd_per_hour += workers.count * workers.usd_per_hour;
    EXPECT_FALSE(workers.zone.empty());
  }
  usd_per_hour += spot_usd_per_hour;
  EXPECT_NEAR(same.usd.value / plan->usd.value, 1 + spot_usd_per_hour / usd_per_hour, 1e-6);
  if (plan->if_prices_double.size() > 1) {
    EXPECT_EQ(plan->if_prices_double[1].kind, "planned anew");
    EXPECT_LT(plan->if_prices_double[1].usd.value, same.usd.value);
  }
}

TEST_F(PlanChoicesTest, FleetsAreComparedByWhatTheyCostWithRevocations) {
  const auto plan_with = [&](std::vector<std::string> more) {
    more.insert(
        more.end(),
        {"--loss", "0.8", "--within", "100m", "--lifetimes", "V100@us-central1", "--json"});
    EXPECT_EQ(RunWith("plan", more), run::kExitOk) << err_;
    const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? *plan : proto::Plan();
  };
  // The first start, which is not in doubt, leaves an hour.
  const auto trained_high = [](const proto::Plan& some) {
    const double start_s = some.takeover_s;
    return (some.revocations.seconds - start_s) * (some.seconds.high - start_s) /
           (some.seconds.value - start_s);
  };
  const proto::Plan plan = plan_with({"--start-up", "40m"});
  const proto::Plan blind = plan_with({"--start-up", "40m", "--ignore-revocations"});
  EXPECT_GT(trained_high(blind), 3600) << "it misses the goal";
  EXPECT_LE(trained_high(plan), 3600 * (1 + 1e-6));
  EXPECT_NE(plan.workers, blind.workers);
  EXPECT_EQ(plan.certainty, blind.certainty);
  const std::string chosen = "chosen by time and cost with revocations";
  const auto says = [&](const proto::Plan& some) {
    return std::ranges::any_of(
        some.notes, [&](const std::string& note) { return note.starts_with(chosen); });
  };
  EXPECT_TRUE(says(plan));
  EXPECT_FALSE(says(blind));
  EXPECT_EQ(
      RunWith(
          "plan",
          {"--loss",
           "0.8",
           "--within",
           "1245m",
           "--types",
           "p3.2xlarge",
           "--quota",
           "p3.2xlarge=3",
           "--servers",
           "m5.xlarge=1",
           "--lifetimes",
           "V100@us-central1",
           "--start-up",
           "20h"}),
      run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("no fleet meets the goal: machines are revoked: the fastest takes "));
}

TEST_F(PlanChoicesTest, WhoLooksAtNoRevocationsCannotIgnoreThem) {
  for (const char* strategy : {"spotdnn", "homogeneous"}) {
    EXPECT_EQ(
        RunWith(
            "plan",
            {"--loss", "0.8", "--budget", "9", "--ignore-revocations", "--strategy", strategy}),
        run::kExitMisused);
    EXPECT_THAT(err_, HasSubstr("--ignore-revocations is of the strategies exact and parcae"));
  }
  EXPECT_EQ(
      RunWith("plan", {"--strategy", "deepvm", "--price-per-hour", "3", "--ignore-revocations"}),
      run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("--strategy deepvm does not support --ignore-revocations"));
}

TEST_F(PlanChoicesTest, EveryObjectiveCountsRevocations) {
  // Of two types the one that is cheap for its speed does not stay.
  Result<proto::Catalog> catalog = proto::ParseCatalog(ReadAll(kCatalogPath), kCatalogPath);
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  for (proto::InstanceType& type : catalog->types) {
    if (type.name == "g4dn.4xlarge") {
      type.spot.front().lifetimes = {{0.2, 0.7}, {24, 0.95}};
    }
  }
  const std::string path = root_ / "catalog.json";
  ASSERT_TRUE(WriteFileAtomically(path, proto::PrintCatalog(*catalog)).ok());
  const auto run_with = [&](std::vector<std::string> more) {
    more.insert(
        more.begin(),
        {"plan",
         "--profile",
         kProfilePath,
         "--catalog",
         path,
         "--servers",
         "m5.xlarge=1",
         "--quota",
         "p3.2xlarge=2,g4dn.4xlarge=6",
         "--types",
         "p3.2xlarge,g4dn.4xlarge",
         "--start-up",
         "9h"});
    EXPECT_EQ(Run(more), run::kExitOk) << err_;
  };
  const auto plan_with = [&](std::vector<std::string> more) {
    more.emplace_back("--json");
    run_with(more);
    const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? *plan : proto::Plan();
  };
  const auto seconds_with = [](const proto::Plan& plan) {
    return plan.revocations.seconds > 0 ? plan.revocations.seconds : plan.seconds.value;
  };
  std::vector<std::string> objective = {"--loss", "0.8", "--objective", "time"};
  const proto::Plan soonest = plan_with(objective);
  EXPECT_THAT(Join(soonest.notes), HasSubstr("chosen by time and cost with revocations"));
  objective.emplace_back("--ignore-revocations");
  const proto::Plan blind = plan_with(objective);
  EXPECT_EQ(Join(blind.notes).find("chosen by time"), std::string::npos);
  EXPECT_LE(seconds_with(soonest), seconds_with(blind) * (1 + 1e-6));
  objective = {"--objective", "throughput-per-hour", "--price-per-hour", "2.8"};
  const proto::Plan most = plan_with(objective);
  run_with(objective);
  EXPECT_EQ(out_.find("with revocations, in"), std::string::npos) << "nobody of it is revoked";
  EXPECT_THAT(out_, HasSubstr("\nchosen by samples/s with revocations"));
  objective.emplace_back("--ignore-revocations");
  const proto::Plan blind_most = plan_with(objective);
  EXPECT_LT(most.samples_per_s.value, blind_most.samples_per_s.value);
  EXPECT_GT(most.samples_per_s.value, blind_most.revocations.samples_per_s);
  EXPECT_GT(blind_most.revocations.revoked_a_day, 3);
  double hour_usd = blind_most.servers.count * blind_most.servers.usd_per_hour;
  for (const proto::PlanWorkers& workers : blind_most.workers) {
    hour_usd += workers.count * workers.usd_per_hour;
  }
  EXPECT_NEAR(blind_most.revocations.usd_per_hour, hour_usd, 1e-6)
      << "a successor is paid for while it starts";
  run_with(objective);
  EXPECT_THAT(out_, HasSubstr("\nwith revocations, in the mean of a day"));
  EXPECT_THAT(out_, HasSubstr("\nnew machines after 9h 00m"));
}

TEST_F(PlanChoicesTest, HeldMachinesAreAsOldAsTheyAreSaidToBe) {
  const auto revoked_with = [&](const std::string& held) {
    EXPECT_EQ(
        RunWith(
            "plan",
            {"--loss",
             "0.8",
             "--within",
             "2h",
             "--held",
             held,
             "--lifetimes",
             "V100@us-central1",
             "--json"}),
        run::kExitOk)
        << err_;
    const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? plan->revocations.revoked : -1;
  };
  const double fresh = revoked_with("p3.2xlarge=2");
  const double mixed = revoked_with("p3.2xlarge=1@10h,p3.2xlarge=1@5m");
  EXPECT_GT(fresh, mixed);
  EXPECT_GT(mixed, revoked_with("p3.2xlarge=2@10h"));
  EXPECT_EQ(RunWith("plan", {"--loss", "0.8", "--held", "p3.2xlarge=2@soon"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("--held: the age after @ wants a time such as"));
}

TEST_F(PlanChoicesTest, APlanMayDoWithoutWhatRuns) {
  const std::vector<std::string> kept = {
      "--loss", "0.8", "--within", "1h", "--held", "p2.8xlarge=1", "--takeover", "30s"};
  ASSERT_EQ(RunWith("plan", kept), run::kExitOk) << err_;
  EXPECT_THAT(out_, ContainsRegex("\nkept +1 p2.8xlarge\n"));
  EXPECT_EQ(out_.find("\ndropped"), std::string::npos);
  std::vector<std::string> any = kept;
  any.emplace_back("--drop-held");
  ASSERT_EQ(RunWith("plan", any), run::kExitOk) << err_;
  EXPECT_THAT(out_, ContainsRegex("\ndropped +1 p2.8xlarge\n"));
  EXPECT_THAT(out_, ContainsRegex("\nkept +none\n"));
  EXPECT_THAT(out_, HasSubstr("taking over costs 30.0 s"));
  EXPECT_EQ(RunWith("plan", {"--loss", "0.8", "--drop-held"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("say with --held which that is"));
}

TEST_F(PlanChoicesTest, AContentionMarginMakesSpotDnnPromiseLess) {
  const auto speed_with = [&](const char* margin) {
    EXPECT_EQ(
        RunWith(
            "predict",
            {"--fleet",
             "p3.2xlarge=10",
             "--ps",
             "m5.xlarge",
             "--speed-model",
             "spotdnn",
             "--contention-margin",
             margin,
             "--json"}),
        run::kExitOk)
        << err_;
    const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
    return plan.ok() ? plan->samples_per_s.value : 0;
  };
  const double usual = speed_with("0");
  EXPECT_LT(speed_with("5"), usual);
  EXPECT_GT(speed_with("5"), usual / 1.05);
  EXPECT_LT(speed_with("10"), speed_with("5"));
  const std::pair<std::vector<std::string>, std::string> wrong[] = {
      {{"--contention-margin", "5"}, "for the model queue ask for more --confidence"},
      {{"--speed-model", "spotdnn", "--contention-margin", "-5"}, "wants percent from 0 to 100"},
      {{"--speed-model", "spotdnn", "--contention-margin", "5%"}, "--contention-margin"}};
  for (const auto& [arguments, expected] : wrong) {
    std::vector<std::string> all = {"--loss", "0.8"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    EXPECT_EQ(RunWith("plan", all), run::kExitMisused) << expected;
    EXPECT_THAT(err_, HasSubstr(expected));
  }
}

TEST_F(PlanChoicesTest, ThePlanChoosesAmongTheMinibatchesOfAType) {
  Result<proto::JobProfile> profile = proto::ParseProfile(ReadAll(kProfilePath), kProfilePath);
  ASSERT_TRUE(profile.ok()) << profile.status();
  profile->workers.insert(
      profile->workers.begin(), {.instance_type = "p3.2xlarge", .minibatch = 64, .compute_s = 0.3});
  const std::string path = root_ / "profile.json";
  ASSERT_TRUE(WriteFileAtomically(path, proto::PrintProfile(*profile)).ok());
  const std::vector<std::string> files = {"--profile", path, "--catalog", kCatalogPath};
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin() + 1, files.begin(), files.end());
    return Run(arguments);
  };
  ASSERT_EQ(run({"plan", "--loss", "0.8", "--within", "1h"}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("\nworkers       2 p3.2xlarge:1024\n"));
  EXPECT_THAT(out_, HasSubstr("one more p3.2xlarge:64 "));
  ASSERT_EQ(
      run({"plan", "--loss", "0.8", "--within", "40m", "--quota", "p3.2xlarge=2"}), run::kExitOk);
  EXPECT_THAT(out_, HasSubstr("workers       2 p3.2xlarge:1024, 1 g4dn.4xlarge:1024, "));
  ASSERT_EQ(
      run({"plan", "--loss", "0.8", "--held", "p3.2xlarge:1024=1,p3.2xlarge:64=1"}), run::kExitOk);
  EXPECT_THAT(out_, HasSubstr("kept          1 p3.2xlarge:64, 1 p3.2xlarge:1024\n"));
  const auto speed_of = [&](const std::string& fleet) {
    EXPECT_EQ(run({"predict", "--fleet", fleet, "--ps", "m5.xlarge", "--json"}), run::kExitOk)
        << err_;
    const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
    return plan.ok() ? plan->samples_per_s.value : 0;
  };
  EXPECT_GT(speed_of("p3.2xlarge:1024=1"), 3 * speed_of("p3.2xlarge=1"));
  EXPECT_EQ(speed_of("p3.2xlarge:64=1"), speed_of("p3.2xlarge=1")) << "the first is the usual one";
  EXPECT_GT(speed_of("p3.2xlarge:64=1,p3.2xlarge:1024=1"), speed_of("p3.2xlarge:1024=1"));
  EXPECT_EQ(run({"predict", "--fleet", "p3.2xlarge:65=1", "--ps", "m5.xlarge"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("no figures of p3.2xlarge with a minibatch of 65"));
  EXPECT_EQ(run({"plan", "--loss", "0.8", "--quota", "p3.2xlarge:64=1"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("--quota is of a type, whatever its minibatch"));
}

TEST_F(PlanChoicesTest, OneQuotaHoldsForWorkersAndServersOfAType) {
  Result<proto::Catalog> catalog = proto::ParseCatalog(ReadAll(kCatalogPath), kCatalogPath);
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  for (proto::InstanceType& type : catalog->types) {
    type.is_server_host = type.name == "p3.2xlarge";
  }
  const std::string path = root_ / "catalog.json";
  ASSERT_TRUE(WriteFileAtomically(path, proto::PrintCatalog(*catalog)).ok());
  ASSERT_EQ(
      Run(
          {"plan",
           "--profile",
           kProfilePath,
           "--catalog",
           path,
           "--loss",
           "0.8",
           "--within",
           "1h",
           "--quota",
           "p3.2xlarge=2",
           "--json"}),
      run::kExitOk)
      << err_;
  const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
  ASSERT_TRUE(plan.ok()) << plan.status();
  int used = plan->servers.count;
  for (const proto::PlanWorkers& workers : plan->workers) {
    used += workers.instance_type == "p3.2xlarge" ? workers.count : 0;
  }
  EXPECT_EQ(plan->servers.instance_type, "p3.2xlarge");
  EXPECT_LE(used, 2);
}

TEST_F(PlanChoicesTest, TheEffortOfASearchCanBeLimited) {
  const std::vector<std::string> goal = {"--loss", "0.8", "--within", "40m", "--effort"};
  const auto plan_with = [&](const char* effort) {
    std::vector<std::string> arguments = goal;
    arguments.emplace_back(effort);
    return RunWith("plan", arguments);
  };
  ASSERT_EQ(plan_with("1h"), run::kExitOk) << err_;
  EXPECT_EQ(out_.find("not all fleets"), std::string::npos);
  EXPECT_THAT(err_, IsEmpty()) << "no terminal, no line";
  ASSERT_EQ(plan_with("0.000001"), run::kExitOk) << "the first fleets are found before it is asked";
  EXPECT_THAT(out_, HasSubstr("not all fleets were looked at: a cheaper one may exist; offer"));
  EXPECT_THAT(out_, HasSubstr("the search was ended after 0.00 s (--effort)"));
  EXPECT_EQ(
      RunWith("plan", {"--loss", "0.8", "--within", "10m", "--effort", "0.000001"}),
      run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("none was found before the search was stopped"));
  EXPECT_EQ(plan_with("0"), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("--effort wants a time"));
  EXPECT_EQ(plan_with(""), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("--effort wants a time"));
}

TEST_F(PlanChoicesTest, ThePrototypesPlansComeOutOfTheShippedProfile) {
  // As its program prints them, at its prices and quotas, with a server that costs nothing.
  Result<proto::Catalog> catalog = proto::ParseCatalog(ReadAll(kCatalogPath), kCatalogPath);
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  const std::pair<const char*, std::pair<double, int>> offers[] = {
      {"p3.2xlarge", {0.918, 2}},
      {"g4dn.4xlarge", {0.3612, 5}},
      {"g3.8xlarge", {0.684, 5}},
      {"g3.16xlarge", {1.5676, 8}},
      {"p2.8xlarge", {2.16, 5}}};
  for (proto::InstanceType& type : catalog->types) {
    for (const auto& [name, offer] : offers) {
      if (type.name == name) {
        type.spot.front().usd_per_hour = offer.first;
        type.quota = offer.second;
      }
    }
    type.on_demand_usd_per_hour = type.is_server_host ? 1e-9 : type.on_demand_usd_per_hour;
  }
  const std::string path = root_ / "catalog.json";
  ASSERT_TRUE(WriteFileAtomically(path, proto::PrintCatalog(*catalog)).ok());
  const auto plan_by = [&](const char* loss, const char* within) {
    EXPECT_EQ(
        Run(
            {"plan",
             "--profile",
             kProfilePath,
             "--catalog",
             path,
             "--servers",
             "m5.xlarge=1",
             "--loss",
             loss,
             "--within",
             within,
             "--confidence",
             "0.5",
             "--speed-model",
             "spotdnn-prototype",
             "--strategy",
             "spotdnn-prototype"}),
        run::kExitOk)
        << err_;
    return out_;
  };
  std::string text = plan_by("0.9", "1900");
  EXPECT_THAT(text, HasSubstr("workers       2 p3.2xlarge, 2 g3.8xlarge\n"));
  EXPECT_THAT(text, HasSubstr("time          31m 24s"));  // 1884.21 s
  EXPECT_THAT(text, HasSubstr("cost, USD     1.68 "));
  EXPECT_THAT(text, HasSubstr("planned by    spotdnn-prototype, spotdnn-prototype model\n"));
  text = plan_by("0.8", "2400");
  EXPECT_THAT(text, HasSubstr("workers       2 p3.2xlarge, 4 g3.8xlarge\n"));
  EXPECT_THAT(text, HasSubstr("time          39m 11s"));  // 2351.08 s
  text = plan_by("0.7", "3700");
  EXPECT_THAT(text, HasSubstr("workers       2 p3.2xlarge, 4 g3.8xlarge\n"));
  EXPECT_THAT(text, HasSubstr("time          59m 44s"));  // 3584.07 s
}

}  // namespace
}  // namespace ps::psctl
