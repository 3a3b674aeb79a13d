// What a plan comes to by the spot machines that could be had.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ps/json/json_value.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/plan.h"
#include "tests/psctl/plan_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;

class PlanCapacityTest : public PlanFixture {
 protected:
  std::string Trace(const std::string& name, const std::string& lines) {
    const std::string path = root_ / name;
    EXPECT_TRUE(WriteFileAtomically(path, lines).ok());
    return path;
  }

  std::vector<std::string> Flags(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {
        "plan",
        "--profile",
        kProfilePath,
        "--catalog",
        catalog_path_,
        "--loss",
        "0.8",
        "--servers",
        "m5.xlarge=1",
        "--start-up",
        "2m",
        "--types",
        types_};
    if (!within_.empty()) {
      all.insert(all.end(), {"--within", within_});
    }
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  /// `exit_code` 1: no fleet keeps the goal.
  proto::Plan PlanOf(std::vector<std::string> more, int exit_code = 0) {
    more.emplace_back("--json");
    EXPECT_EQ(Run(Flags(more)), exit_code) << err_;
    const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
    EXPECT_TRUE(plan.ok()) << plan.status() << out_;
    return plan.ok() ? *plan : proto::Plan();
  }

  struct Simulations {
    double reached = 0;  // share that trains all samples
    double seconds = 0;  // mean of these
    double usd = 0;      // mean of all
  };

  /// Runs of the plan's fleet that begin where the plan's do.
  Simulations Simulated(
      const proto::Plan& plan, const std::string& path, const std::string& unit, double end_s) {
    const proto::PlanWorkers& workers = plan.workers.front();
    const auto samples = static_cast<int64_t>(plan.steps.value * workers.minibatch);
    Simulations sum;
    for (int i = 0; i < plan.traces.windows; ++i) {
      const double begin_s = (end_s - plan.traces.window_s) * i / (plan.traces.windows - 1);
      const std::vector<std::pair<std::string, std::string>> flags = {
          {"--trace", path},
          {"--unit", unit},
          {"--from-hour", std::to_string(begin_s / 3600)},
          {"--hours", std::to_string(plan.traces.window_s / 3600)},
          {"--profile", kProfilePath},
          {"--catalog", kCatalogPath},
          {"--type", workers.instance_type},
          {"--ps", "m5.xlarge=1"},
          {"--samples", std::to_string(samples)},
          {"--workers", std::to_string(workers.count)},
          {"--policy", "reactive"},
          {"--engine", "rates"},
          {"--start-up", "2m"}};
      std::vector<std::string> all = {"simulate", "--json"};
      for (const auto& [flag, value] : flags) {
        all.insert(all.end(), {flag, value});
      }
      EXPECT_EQ(Run(all), 0) << err_;
      const Result<JsonValue> json = ParseJson(out_, "simulate");
      if (!json.ok()) {
        ADD_FAILURE() << json.status();
        break;
      }
      const JsonValue& policy = json->Find("policies")->children.front();
      sum.usd += std::stod(policy.Find("usd")->text) / plan.traces.windows;
      if (std::stod(policy.Find("samples")->text) >= 0.9999 * static_cast<double>(samples)) {
        sum.reached += 1;
        sum.seconds += std::stod(policy.Find("seconds")->text);
      }
    }
    sum.seconds /= std::max(sum.reached, 1.0);
    sum.reached /= plan.traces.windows;
    return sum;
  }

  std::string catalog_path_ = kCatalogPath;
  std::string within_ = "60m";  // empty: --within is left out
  std::string types_ = "g3.8xlarge";
};

const proto::PlanCapacity* Find(const proto::Plan& plan, const std::string& change) {
  const auto found = std::ranges::find(plan.capacity, change, &proto::PlanCapacity::change);
  return found == plan.capacity.end() ? nullptr : &*found;
}

struct Recorded {
  const char* path;
  const char* unit;
  const char* type;
  const char* within;
  const char* confidence;
  double end_s;
};

class RecordedTraceTest : public PlanCapacityTest,
                          public ::testing::WithParamInterface<Recorded> {};

// For the same samples, the same time and cost within 3 %.
TEST_P(RecordedTraceTest, ThePlanAgreesWithASimulation) {
  const Recorded& recorded = GetParam();
  types_ = recorded.type;
  within_ = recorded.within;
  const proto::Plan plan = PlanOf(
      {"--capacity",
       std::string(recorded.type) + "=" + recorded.path,
       "--unit",
       recorded.unit,
       "--confidence",
       recorded.confidence});
  ASSERT_EQ(plan.workers.size(), 1U);
  ASSERT_FALSE(plan.capacity.empty());
  const proto::PlanCapacity& fleet = plan.capacity.front();
  EXPECT_EQ(plan.traces.windows, 100);
  EXPECT_GT(fleet.revoked, 0);
  const Simulations some = Simulated(plan, recorded.path, recorded.unit, recorded.end_s);
  EXPECT_NEAR(fleet.reached, some.reached, 0.021);
  EXPECT_NEAR(fleet.seconds, some.seconds, 0.03 * some.seconds);
  EXPECT_NEAR(fleet.usd, some.usd, 0.03 * some.usd);
  RecordProperty("seconds_off", std::to_string(fleet.seconds / some.seconds - 1));
  RecordProperty("usd_off", std::to_string(fleet.usd / some.usd - 1));
}

INSTANTIATE_TEST_SUITE_P(
    Recorded,
    RecordedTraceTest,
    ::testing::Values(
        Recorded{"tests/data/parcae/p3.csv", "ms", "p3.2xlarge", "1h", "0.6", 40920},
        Recorded{"tests/data/bamboo/g4dn_us-east-1c.csv", "s", "g4dn.4xlarge", "3h", "0.6", 88194},
        Recorded{"tests/data/bamboo/g4dn_us-east-1d.csv", "s", "g4dn.4xlarge", "9h", "0.5", 45668},
        Recorded{"tests/data/bamboo/p2_hours.csv", "h", "p2.8xlarge", "3h", "0.6", 319302}));

TEST_F(PlanCapacityTest, TheChoiceKnowsWhatCouldBeHad) {
  types_ = "g3.8xlarge,p3.2xlarge";
  const proto::Plan plain = PlanOf({});
  ASSERT_EQ(plain.workers.size(), 1U);
  EXPECT_EQ(plain.traces.windows, 0);
  const std::string scarce_type = plain.workers.front().instance_type;
  const std::string other = scarce_type == "p3.2xlarge" ? "g3.8xlarge" : "p3.2xlarge";
  const std::string scarce = Trace("scarce.csv", "0,1\n3000,1\n4000,0\n10800,1\n");
  const std::string plenty = Trace("plenty.csv", "0,20\n10800,19\n");
  const std::vector<std::string> traces = {
      "--capacity", scarce_type + "=" + scarce, "--capacity", other + "=" + plenty, "--unit", "s"};
  const proto::Plan plan = PlanOf(traces);
  EXPECT_NE(plan.workers, plain.workers);
  EXPECT_TRUE(plan.traces.is_chosen_by);
  EXPECT_TRUE(plan.traces.is_kept);
  EXPECT_GT(plan.traces.fleets_seen, plan.traces.fleets_followed);
  EXPECT_EQ(plan.certainty, proto::Certainty::kBoundsChecked);
  ASSERT_EQ(plan.capacity.front().change, "");
  EXPECT_EQ(plan.capacity.front().workers, plan.workers);
  EXPECT_GE(plan.capacity.front().in_goal, 0.9);
  ASSERT_NE(Find(plan, "without_traces"), nullptr);
  EXPECT_EQ(Find(plan, "without_traces")->workers, plain.workers);
  EXPECT_LT(Find(plan, "without_traces")->in_goal, 0.1);
  ASSERT_FALSE(plan.capacity.front().points.empty());
  EXPECT_EQ(plan.capacity.front().points.front().working, 0) << "it starts";
  EXPECT_GT(plan.capacity.front().points[1].working, 0);
  ASSERT_EQ(Run(Flags(traces)), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("by the spot machines that could be had  in goal"));
  EXPECT_THAT(out_, HasSubstr("chosen without traces, "));
  EXPECT_THAT(out_, HasSubstr("all that there are"));

  std::vector<std::string> published = traces;
  published.insert(published.end(), {"--strategy", "homogeneous"});
  const proto::Plan described = PlanOf(published);
  EXPECT_FALSE(described.traces.is_chosen_by) << "the strategy is as published";
  EXPECT_EQ(described.workers, plain.workers);
  EXPECT_LT(described.capacity.front().in_goal, 0.1);
}

TEST_F(PlanCapacityTest, WhereNoFleetKeepsTheGoalTheMostLikelyIsTold) {
  const proto::Plan plain = PlanOf({});
  const std::string type = plain.workers.front().instance_type;
  // All that it takes for two hours, then one less.
  const std::string all = std::to_string(plain.workers.front().count);
  const std::string less = std::to_string(plain.workers.front().count - 1);
  const std::string path =
      Trace("less.csv", "0," + all + "\n7200," + less + "\n36000," + all + "\n");
  const proto::Plan plan = PlanOf({"--capacity", type + "=" + path, "--unit", "s"}, 1);
  EXPECT_FALSE(plan.traces.is_kept);
  EXPECT_LT(plan.capacity.front().in_goal, 0.9);
  EXPECT_GT(plan.capacity.front().in_goal, 0);
  EXPECT_THAT(err_, HasSubstr("no fleet keeps the goal along the traces at 90 %"));
  EXPECT_THAT(plan.notes.front(), HasSubstr("this one most likely does, at "));
  const proto::Plan sure =
      PlanOf({"--capacity", type + "=" + path, "--unit", "s", "--confidence", "0.1"});
  EXPECT_TRUE(sure.traces.is_kept) << "less is asked for";
}

// More fleets than are all looked at, and none in time even with all its machines.
TEST_F(PlanCapacityTest, OfManyFleetsTheMostLikelyIsToldToo) {
  types_ = "g3.8xlarge,p3.2xlarge,g4dn.4xlarge,p2.8xlarge,g3.16xlarge";
  within_ = "24m";
  const std::string none = Trace("none.csv", "0,0\n40000,1\n");
  const proto::Plan plan = PlanOf({"--capacity", "p3.2xlarge=" + none, "--unit", "s"}, 1);
  ASSERT_FALSE(plan.capacity.empty());
  EXPECT_FALSE(plan.traces.is_kept);
  EXPECT_GT(plan.capacity.front().in_goal, 0);
  EXPECT_LT(plan.capacity.front().in_goal, 0.9);
  EXPECT_EQ(plan.certainty, proto::Certainty::kBestFound);
  EXPECT_THAT(err_, HasSubstr("no fleet keeps the goal along the traces at 90 %"));
}

TEST_F(PlanCapacityTest, AFurtherTypeIsAddedSwappedOrStandsIn) {
  types_ = "g3.8xlarge,p3.2xlarge";
  const proto::Plan plain = PlanOf({});
  ASSERT_EQ(plain.workers.size(), 1U);
  const std::string type = plain.workers.front().instance_type;
  const std::string other = type == "p3.2xlarge" ? "g3.8xlarge" : "p3.2xlarge";
  const std::string most = Trace("most.csv", "0,20\n3000,1\n3300,20\n40000,19\n");
  const std::string plenty = Trace("plenty.csv", "0,20\n40000,19\n");
  const std::vector<std::string> traces = {
      "--capacity", type + "=" + most, "--capacity", other + "=" + plenty, "--unit", "s"};
  const proto::Plan plan = PlanOf(traces);
  ASSERT_EQ(plan.workers.size(), 1U);
  ASSERT_EQ(plan.workers.front().instance_type, type) << "it lacks for a short time only";
  const proto::PlanCapacity* more = Find(plan, "added");
  more = more == nullptr ? Find(plan, "swapped") : more;
  ASSERT_NE(more, nullptr);
  EXPECT_EQ(more->spare, other);
  EXPECT_GE(more->spares, 1);
  EXPECT_GE(more->in_goal, 0.9);
  EXPECT_EQ(more->taken > 0, more->change == "swapped");
  const proto::PlanCapacity* stand_in = Find(plan, "stands_in");
  ASSERT_NE(stand_in, nullptr);
  EXPECT_EQ(stand_in->spare, other);
  EXPECT_GE(stand_in->in_goal, plan.capacity.front().in_goal);
  ASSERT_EQ(Run(Flags(traces)), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("with " + other + " for what lacks"));
}

TEST_F(PlanCapacityTest, ZonesOfATypeAreTakenApart) {
  const std::string few = Trace("few.csv", "0,3\n40000,2\n");
  const std::string rest = Trace("rest.csv", "0,9\n40000,8\n");
  const std::vector<std::string> traces = {
      "--capacity",
      "g3.8xlarge@us-east-1a=" + few,
      "--capacity",
      "g3.8xlarge@us-east-1b=" + rest,
      "--unit",
      "s"};
  const proto::Plan plan = PlanOf(traces);
  const proto::Plan plain = PlanOf({});
  ASSERT_EQ(plan.workers.size(), 2U) << "neither zone has enough by itself";
  EXPECT_EQ(plan.workers[0].zone, "us-east-1a");
  EXPECT_LE(plan.workers[0].count, 3);
  EXPECT_EQ(plan.workers[1].zone, "us-east-1b");
  EXPECT_EQ(plan.workers[0].count + plan.workers[1].count, plain.workers[0].count);
  EXPECT_NEAR(plan.usd.value, plain.usd.value, 1e-6) << "one price in the region";
  std::set<std::string> zones;
  for (const proto::PlanCapacityPoint& point : plan.capacity.front().points) {
    zones.insert(point.zone);
  }
  EXPECT_EQ(zones, (std::set<std::string>{"us-east-1a", "us-east-1b"}));
  ASSERT_EQ(Run(Flags(traces)), 0) << err_;
  EXPECT_THAT(out_, HasSubstr(" g3.8xlarge in us-east-1a, "));
  EXPECT_THAT(out_, HasSubstr("g3.8xlarge in us-east-1b"));

  std::vector<std::string> quota = traces;
  quota.insert(quota.end(), {"--quota", "g3.8xlarge=5"});
  const proto::Plan limited = PlanOf(quota, 1);
  int count = 0;
  for (const proto::PlanWorkers& workers : limited.workers) {
    count += workers.count;
  }
  EXPECT_LE(count, 5) << "the quota is of all zones together";
  for (const proto::PlanCapacity& row : limited.capacity) {
    int of_row = 0;
    for (const proto::PlanWorkers& workers : row.workers) {
      of_row += workers.count;
    }
    EXPECT_LE(of_row, 5) << row.change;
  }
  for (const char* const strategy : {"homogeneous", "spotdnn", "exhaustive"}) {
    std::vector<std::string> other = traces;
    other.insert(other.end(), {"--strategy", strategy});
    EXPECT_EQ(Run(Flags(other)), 2) << out_;
    EXPECT_THAT(err_, HasSubstr("does not know that zones of a type share its quota"));
  }
}

TEST_F(PlanCapacityTest, WithoutATimeAFleetMayTakeLongIfItKeepsTheBudget) {
  types_ = "g3.8xlarge,p3.2xlarge";
  within_ = "";
  const std::vector<std::string> budget = {"--budget", "100"};
  const proto::Plan plain = PlanOf(budget);
  ASSERT_EQ(plain.workers.size(), 1U);
  ASSERT_EQ(plain.workers.front().instance_type, "p3.2xlarge");
  // The other type is there for half of the time only, and starts again each time.
  std::string now_and_then;
  for (int i = 0; i <= 160; ++i) {
    now_and_then += std::to_string(600 * i) + (i % 2 == 0 ? ",1\n" : ",0\n");
  }
  const proto::Plan plan = PlanOf(
      {"--budget",
       "100",
       "--capacity",
       "p3.2xlarge=" + Trace("scarce.csv", "0,1\n600,0\n96000,1\n"),
       "--capacity",
       "g3.8xlarge=" + Trace("half.csv", now_and_then),
       "--unit",
       "s"});
  EXPECT_TRUE(plan.traces.is_kept);
  EXPECT_NEAR(plan.traces.window_s, 48000, 1);
  ASSERT_EQ(plan.workers.size(), 1U);
  EXPECT_EQ(plan.workers.front().instance_type, "g3.8xlarge");
  EXPECT_GT(plan.capacity.front().seconds, 2 * plain.seconds.value);
  EXPECT_GT(plan.capacity.front().points.size(), 3U);
}

TEST_F(PlanCapacityTest, ZonesAreToldApartByTheirWholeNames) {
  Result<proto::Catalog> catalog = proto::ParseCatalog(ReadAll(kCatalogPath), kCatalogPath);
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  const auto type =
      std::ranges::find(catalog->types, std::string("g3.8xlarge"), &proto::InstanceType::name);
  type->spot = {{"zone-1", 0.684, "2023-06-19"}, {"zone-10", 0.684, "2023-06-19"}};
  catalog_path_ = Trace("zones.json", proto::PrintCatalog(*catalog));
  const std::string rest = Trace("rest.csv", "0,9\n40000,8\n");
  const proto::Plan plan = PlanOf(
      {"--capacity",
       "g3.8xlarge@zone-1=" + rest,
       "--capacity",
       "g3.8xlarge@zone-10=" + rest,
       "--unit",
       "s"});
  EXPECT_EQ(plan.traces.windows, 100);
}

TEST_F(PlanCapacityTest, EnoughMachinesChangeNothing) {
  const proto::Plan plain = PlanOf({});
  const std::string plenty = Trace("plenty.csv", "0,20\n40000,19\n");
  const proto::Plan plan =
      PlanOf({"--capacity", plain.workers.front().instance_type + "=" + plenty, "--unit", "s"});
  EXPECT_EQ(plan.workers, plain.workers);
  ASSERT_EQ(plan.capacity.size(), 1U);
  EXPECT_NEAR(plan.capacity[0].seconds, plan.seconds.value, 1e-3 * plan.seconds.value);
  EXPECT_NEAR(plan.capacity[0].usd, plan.usd.value, 1e-3 * plan.usd.value);
  EXPECT_GE(plan.capacity[0].in_goal, plan.confidence - 1e-6) << "the goal holds at that";
  EXPECT_EQ(plan.capacity[0].revoked, 0);
  const proto::Plan soonest = PlanOf(
      {"--capacity",
       plain.workers.front().instance_type + "=" + plenty,
       "--unit",
       "s",
       "--objective",
       "time"});
  EXPECT_LT(soonest.capacity[0].seconds, plan.capacity[0].seconds);
  EXPECT_GT(soonest.workers[0].count, plan.workers[0].count);
}

TEST_F(PlanCapacityTest, WhatMakesNoSenseIsRefusedByName) {
  const std::string brief = Trace("brief.csv", "0,20\n100,19\n");
  const std::string plenty = Trace("plenty.csv", "0,20\n40000,19\n");
  const std::string none = Trace("none.csv", "0,1\n0,0\n40000,1\n");
  const std::string empty = Trace("empty.csv", "");
  const auto why = [&](const std::vector<std::string>& capacities,
                       const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = more;
    for (const std::string& some : capacities) {
      flags.insert(flags.end(), {"--capacity", some});
    }
    flags.insert(flags.end(), {"--unit", "s"});
    EXPECT_EQ(Run(Flags(flags)), 2) << err_ << out_;
    return err_;
  };
  EXPECT_THAT(why({"p3.2xlarge"}), HasSubstr("--capacity wants TYPE=TRACE or TYPE@ZONE=TRACE"));
  EXPECT_THAT(why({"p3.2xlarge@=" + plenty}), HasSubstr("got 'p3.2xlarge@="));
  EXPECT_THAT(why({"@us-east-1a=" + plenty}), HasSubstr("--capacity wants"));
  EXPECT_THAT(
      why({"nothing=" + plenty}),
      HasSubstr("--capacity is of spot machines of nothing, which are not on offer"));
  EXPECT_THAT(why({"nothing@us-east-1a=" + plenty}), HasSubstr("has no type nothing"));
  EXPECT_THAT(
      why({"g3.8xlarge@us-west-2a=" + plenty}),
      HasSubstr("--capacity g3.8xlarge@us-west-2a: the catalog has no spot price of it there, but "
                "in us-east-1"));
  EXPECT_THAT(why({"g3.8xlarge=" + empty}), HasSubstr("empty.csv"));
  EXPECT_THAT(
      why({"g3.8xlarge=" + brief}),
      HasSubstr("the trace of g3.8xlarge is of 1m 40s, and a run may take 1h 00m"));
  std::string many_lines;
  for (int i = 0; i < 1000; ++i) {
    many_lines += std::to_string(100 * i) + (i % 2 == 0 ? ",0\n" : ",14000\n");
  }
  EXPECT_THAT(
      why({"g3.8xlarge=" + Trace("many.csv", many_lines)}),
      HasSubstr(
          "many.csv: with it the traces have 7,000,000 machines that come, and 2,000,000 can"));
  EXPECT_THAT(why({"g3.8xlarge=" + none}), HasSubstr("there never is a machine of any type"));
  EXPECT_THAT(
      why({"g3.8xlarge=" + plenty, "g3.8xlarge=" + plenty}), HasSubstr("names g3.8xlarge twice"));
  EXPECT_THAT(
      why({"g3.8xlarge=" + plenty, "g3.8xlarge@us-east-1a=" + plenty}),
      HasSubstr("names g3.8xlarge and g3.8xlarge in us-east-1a: machines of the one are among"));
  EXPECT_THAT(
      why({"g3.8xlarge@us-east-1=" + plenty, "g3.8xlarge@us-east-1a=" + plenty}),
      HasSubstr("machines of the one are among those of the other"));
  EXPECT_THAT(
      why({"g3.8xlarge@us-east-1a=" + plenty}, {"--held", "g3.8xlarge=1"}),
      HasSubstr("nobody says in which zone"));
  EXPECT_THAT(why({"g3.8xlarge=" + plenty}, {"--confidence", "1.2"}), HasSubstr("--confidence"));
  EXPECT_THAT(why({"g3.8xlarge=" + plenty}, {"--confidence", "0"}), HasSubstr("--confidence"));

  EXPECT_EQ(
      Run(
          {"plan",
           "--profile",
           kProfilePath,
           "--catalog",
           kCatalogPath,
           "--loss",
           "0.8",
           "--capacity",
           "g3.8xlarge=" + plenty}),
      2);
  EXPECT_THAT(err_, HasSubstr("there is none: give --within, --budget or both"));
  EXPECT_EQ(
      Run(
          {"plan",
           "--profile",
           kProfilePath,
           "--catalog",
           kCatalogPath,
           "--objective",
           "throughput-per-hour",
           "--price-per-hour",
           "3",
           "--capacity",
           "g3.8xlarge=" + plenty}),
      2);
  EXPECT_THAT(err_, HasSubstr("leave it out, or take --objective cost or time"))
      << "--within would be refused next";
  for (const char* const strategy : {"parcae", "deepvm"}) {
    EXPECT_EQ(
        Run(
            {"plan",
             "--strategy",
             strategy,
             "--price-per-hour",
             "3",
             "--capacity",
             "g3.8xlarge=" + plenty}),
        2);
    EXPECT_THAT(
        err_, HasSubstr("--strategy " + std::string(strategy) + " does not support --capacity"));
  }
}

}  // namespace
}  // namespace ps::psctl
