#include "psctl/plan/parcae_plan.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ps/base/file.h"
#include "ps/json/json_value.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/profile.h"
#include "tests/psctl/plan_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;

class ParcaePlanTest : public PlanFixture {
 protected:
  int PlanParcae(std::vector<std::string> more) {
    more.insert(
        more.begin(),
        {"--strategy",
         "parcae",
         "--types",
         "p3.2xlarge",
         "--servers",
         "m5.xlarge=1",
         "--quota",
         "p3.2xlarge=32"});
    return RunWith("plan", std::move(more));
  }

  /// A field of the JSON that was printed.
  double NumberAt(const std::string& path) {
    const Result<JsonValue> root = ParseJson(out_, "plan");
    EXPECT_TRUE(root.ok()) << root.status();
    const JsonValue* const value = root.ok() ? root->At(path) : nullptr;
    EXPECT_NE(value, nullptr) << path << " in " << out_;
    return value == nullptr ? -1 : std::stod(value->text);
  }
};

TEST_F(ParcaePlanTest, ThePlanHasItsForecastLiveputAndAlternatives) {
  const std::vector<std::string> trace = {
      "--trace", "tests/data/parcae/p3.csv", "--at", "5h30m", "--json"};
  ASSERT_EQ(PlanParcae(trace), run::kExitOk) << err_;
  const double available = NumberAt("available");
  EXPECT_GT(available, 15);
  EXPECT_EQ(NumberAt("plans[0].workers"), available) << "every machine is worth taking";
  EXPECT_GT(NumberAt("plans[0].liveput"), NumberAt("plans[3].liveput")) << "one less";
  EXPECT_LE(NumberAt("plans[0].liveput"), NumberAt("plans[0].samples_per_s") * (1 + 1e-12));
  EXPECT_GE(NumberAt("forecast[11]"), 0);
  ASSERT_EQ(PlanParcae({"--trace", "tests/data/parcae/p3.csv", "--at", "5h30m"}), run::kExitOk)
      << err_;
  EXPECT_THAT(out_, HasSubstr("\nforecast    "));
  EXPECT_THAT(out_, HasSubstr(" in the next intervals of 1m 00s\n"));
  EXPECT_THAT(out_, HasSubstr("planned by  parcae, forecast parcae-arima\n"));
  EXPECT_THAT(out_, HasSubstr("\nas if nothing changed "));
}

TEST_F(ParcaePlanTest, FewerAreTakenWhereTheForecastFalls) {
  const auto liveput_of = [&](const std::string& history) {
    EXPECT_EQ(PlanParcae({"--history", history, "--json"}), run::kExitOk) << err_;
    return NumberAt("plans[0].liveput");
  };
  const double steady = liveput_of("20,20,20,20,20,20,20,20,20,20,20,20,20");
  const double falling = liveput_of("24,24,24,23,23,23,22,22,22,21,21,21,20");
  EXPECT_LT(falling, 0.98 * steady);
  EXPECT_EQ(NumberAt("available"), 20);
}

TEST_F(ParcaePlanTest, WithoutHistoryEnoughTheCountStaysAndThePlanSaysSo) {
  const std::string twelve = "9,9,8,9,9,8,9,9,9,9,8,9";
  ASSERT_EQ(PlanParcae({"--history", twelve}), run::kExitOk) << err_;
  EXPECT_THAT(
      out_,
      HasSubstr("planned by  parcae, as if nothing changed: parcae-arima wants 13 counts and there "
                "are 12\n"));
  ASSERT_EQ(PlanParcae({"--history", twelve, "--json"}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr(R"("forecast_by": "current")"));
  ASSERT_EQ(PlanParcae({"--history", twelve + ",9", "--json"}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr(R"("forecast_by": "parcae-arima")"));
}

TEST_F(ParcaePlanTest, RevocationsToComeCanBeIgnored) {
  const std::vector<std::string> falling = {
      "--history", "24,24,24,23,23,23,22,22,22,21,21,21,20", "--ignore-revocations"};
  ASSERT_EQ(PlanParcae(falling), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("planned by  parcae, as if nothing changed (--ignore-revocations)"));
  std::vector<std::string> json = falling;
  json.emplace_back("--json");
  ASSERT_EQ(PlanParcae(json), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr(R"("name": "as if nothing changed")"));
  EXPECT_EQ(NumberAt("plans[0].workers"), 20);
}

TEST_F(ParcaePlanTest, NoForecastIsAboveTheQuota) {
  ASSERT_EQ(
      PlanParcae({"--history", "26,26,27,27,28,28,29,29,30,30,31,31,32", "--json"}), run::kExitOk)
      << err_;
  for (int i = 0; i < 12; ++i) {
    EXPECT_LE(NumberAt(fmt::format("forecast[{}]", i)), 32);
  }
}

TEST_F(ParcaePlanTest, NoMoreVcpusAreTakenThanTheFamilyHas) {
  const std::vector<std::string> twelve = {
      "plan",
      "--strategy",
      "parcae",
      "--profile",
      kProfilePath,
      "--types",
      "p3.2xlarge",
      "--servers",
      "m5.xlarge=1",
      "--history",
      "9,9,9,9,9,9,9,9,9,9,9,9,9",
      "--json"};
  const auto workers_with = [&](const std::string& quota) {
    std::vector<std::string> all = twelve;
    all.insert(all.end(), {"--quota-vcpus", quota});
    EXPECT_EQ(Run(all), run::kExitOk) << err_;
    return NumberAt("plans[0].workers");
  };
  EXPECT_EQ(workers_with("P=1000"), 9);
  EXPECT_EQ(workers_with("P=28"), 3) << "of 8 vCPUs each";
  std::vector<std::string> wrong = twelve;
  wrong.insert(wrong.end(), {"--quota-vcpus", "P=7"});
  EXPECT_EQ(Run(wrong), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("no p3.2xlarge is within the quotas"));
  wrong.back() = "Q=64";
  EXPECT_EQ(Run(wrong), run::kExitMisused);
  wrong = twelve;
  wrong.insert(wrong.end(), {"--without", "p3.2xlarge"});
  EXPECT_EQ(Run(wrong), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("--strategy parcae does not support --without"));
}

TEST_F(ParcaePlanTest, MachinesThatHaveToStartAreWorthLess) {
  const std::vector<std::string> steady = {"--history", "9,9,9,9,9,9,9,9,9,9,9,9,9", "--json"};
  const auto liveput_with = [&](std::vector<std::string> more) {
    more.insert(more.end(), steady.begin(), steady.end());
    EXPECT_EQ(PlanParcae(more), run::kExitOk) << err_;
    return NumberAt("plans[0].liveput");
  };
  const double all_work = liveput_with({});
  const double some_start = liveput_with({"--held", "p3.2xlarge=5"});
  EXPECT_LT(some_start, all_work);
  EXPECT_GT(liveput_with({"--held", "p3.2xlarge=5", "--start-up", "10s"}), some_start);
  EXPECT_EQ(NumberAt("start_s"), 10);
  // The same as it was measured.
  proto::JobProfile profile = proto::ParseProfile(ReadAll(kProfilePath), kProfilePath).value();
  profile.starts = {{.instance_type = "p3.2xlarge", .launcher = "ec2", .join_s = 5, .step_s = 10}};
  const std::string path = root_ / "profile.json";
  ASSERT_TRUE(WriteFileAtomically(path, proto::PrintProfile(profile)).ok());
  const std::vector<std::string> measured = {
      "plan",
      "--strategy",
      "parcae",
      "--types",
      "p3.2xlarge",
      "--servers",
      "m5.xlarge=1",
      "--quota",
      "p3.2xlarge=32",
      "--profile",
      path,
      "--catalog",
      kCatalogPath,
      "--held",
      "p3.2xlarge=5",
      "--history",
      steady[1]};
  ASSERT_EQ(Run(measured), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("\nstart-up of p3.2xlarge: 10.0 s, measured 1 time\n"));
  std::vector<std::string> json = measured;
  json.emplace_back("--json");
  ASSERT_EQ(Run(json), run::kExitOk) << err_;
  EXPECT_EQ(NumberAt("start_s"), 10);
  EXPECT_GT(NumberAt("plans[0].liveput"), some_start);
}

TEST_F(ParcaePlanTest, WhatIsMissingIsSaid) {
  const std::pair<std::vector<std::string>, std::string> wrong[] = {
      {{}, "wants the counts of machines until now: either --trace FILE"},
      {{"--history", "1,2", "--trace", "t.csv"}, "either --trace FILE"},
      {{"--history", "3,x"}, "--history wants counts of machines up to 14000"},
      {{"--history", "3,"}, "--history wants counts"},
      {{"--history", "3", "--loss", "0.8"}, "--strategy parcae does not support --loss"},
      {{"--trace", "tests/data/parcae/p3.csv", "--at", "20h"}, "is after the end of"},
      {{"--trace", "nowhere.csv"}, "nowhere.csv"}};
  for (const auto& [arguments, expected] : wrong) {
    EXPECT_EQ(PlanParcae(arguments), run::kExitMisused) << expected;
    EXPECT_THAT(err_, HasSubstr(expected));
  }
  EXPECT_EQ(RunWith("plan", {"--strategy", "parcae", "--history", "3"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("plans machines of one type: name it and the servers"));
  EXPECT_EQ(RunWith("plan", {"--history", "3", "--loss", "0.8"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("--trace, --at and --history are of --strategy parcae"));
}

TEST_F(ParcaePlanTest, ACatalogWithoutWhatItNeedsNamesTheFieldOfTheType) {
  Result<proto::Catalog> catalog = proto::ParseCatalog(ReadAll(kCatalogPath), kCatalogPath);
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  for (proto::InstanceType& type : catalog->types) {
    if (type.name == "p3.2xlarge") {
      type.spot.clear();
    }
  }
  const std::string path = root_ / "catalog.json";
  ASSERT_TRUE(WriteFileAtomically(path, proto::PrintCatalog(*catalog)).ok());
  const std::vector<std::string> arguments = {
      "plan",
      "--profile",
      kProfilePath,
      "--catalog",
      path,
      "--strategy",
      "parcae",
      "--history",
      "3,3,4",
      "--types",
      "p3.2xlarge",
      "--servers",
      "m5.xlarge=1"};
  EXPECT_EQ(Run(arguments), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("the catalog has no spot[] price of p3.2xlarge"));
  std::vector<std::string> unknown = arguments;
  unknown[10] = "g3.4xlarge";
  EXPECT_EQ(Run(unknown), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("no profile for g3.4xlarge"));
}

}  // namespace
}  // namespace ps::psctl
