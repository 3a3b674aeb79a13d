#include "psctl/plan/plan_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "ps/base/file.h"
#include "ps/proto/files/catalog.h"
#include "ps/proto/files/plan.h"
#include "ps/proto/files/profile.h"
#include "tests/psctl/plan_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using PlanCommandTest = PlanFixture;

// Figure 9 of the spotDNN paper; strategies_test has its arithmetic.
TEST_F(PlanCommandTest, PlansWithWhatIsLeftOfARun) {
  const std::vector<std::string> arguments = {
      "--loss",
      "0.8",
      "--from-loss",
      "0.9",
      "--within",
      "810s",
      "--takeover",
      "126s",
      "--held",
      "g3.16xlarge=3",
      "--without",
      "g3.8xlarge",
      "--quota",
      "p3.2xlarge=8"};
  ASSERT_EQ(RunWith("plan", arguments), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("loss 0.80 from 0.90 within 13m 30s at 90 % confidence"));
  std::vector<std::string> paced = arguments;
  paced.insert(
      paced.end(), {"--steps-done", "9000", "--done-by", "g3.16xlarge=3,g3.8xlarge=5", "--json"});
  const int code = RunWith("plan", paced);
  ASSERT_EQ(code, 0) << err_;
  const auto plan = proto::ParsePlan(out_, "plan.json");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->loss_now, 0.9);
  EXPECT_EQ(plan->steps_done, 9000);
  EXPECT_LT(plan->seconds.high, 810);
  EXPECT_THAT(plan->notes, testing::Contains(HasSubstr("times the steps that the profile says")));
}

TEST_F(PlanCommandTest, PrintsWhatItAlwaysPrinted) {
  ASSERT_EQ(RunWith("plan", {"--loss", "0.8", "--within", "40m", "--quota", "p3.2xlarge=2"}), 0)
      << err_;
  EXPECT_EQ(out_, ReadAll("tests/psctl/golden/plan.txt")) << out_;
  EXPECT_THAT(err_, IsEmpty());
}

TEST_F(PlanCommandTest, APlanIsWrittenAsTheFileThatTrainRuns) {
  ASSERT_EQ(
      RunWith("plan", {"--loss", "0.8", "--within", "40m", "-o", root_ / "plan.json", "--json"}), 0)
      << err_;
  EXPECT_EQ(out_, ReadAll(root_ / "plan.json"));
  const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->job, "resnet110-cifar100");
  EXPECT_EQ(plan->strategy, "exact");
  EXPECT_EQ(plan->seconds_max, 2400);
  EXPECT_LT(plan->seconds.low, plan->seconds.value);
  EXPECT_LE(plan->seconds.high, 2400);
  EXPECT_FALSE(plan->workers.empty());
}

TEST_F(PlanCommandTest, AsJsonItHasAllThatTheTableHas) {
  ASSERT_EQ(
      RunWith(
          "plan",
          {"--loss",
           "0.8",
           "--within",
           "40m",
           "--quota",
           "p3.2xlarge=2",
           "--budget",
           "6",
           "--json"}),
      0)
      << err_;
  const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_GT(plan->server_busy, 0);
  ASSERT_EQ(plan->alternatives.size(), 4U);
  EXPECT_EQ(plan->alternatives.front().kind, "next best");
  EXPECT_GE(plan->alternatives.front().usd.value, plan->usd.value);
  const proto::PlanAlternative& on_demand = plan->alternatives.back();
  EXPECT_EQ(on_demand.kind, "on demand");
  EXPECT_EQ(on_demand.workers.front().market, proto::Market::kOnDemand);
  EXPECT_GT(on_demand.usd.value, plan->usd_max) << "what it costs without spot, budget or not";
  ASSERT_EQ(plan->quotas.size(), 1U);
  EXPECT_EQ(plan->quotas.front().instance_type, "p3.2xlarge");
  EXPECT_LT(plan->quotas.front().usd, plan->usd.value);
  EXPECT_GE(plan->gains.size(), 8U);
}

// Where both ends of a range are its value, rounding had put one on the other side of it.
TEST_F(PlanCommandTest, APlanAtLittleConfidenceCanBeRead) {
  for (const char* const within : {"50m", "60m", "3h"}) {
    for (const char* const confidence : {"0.1", "0.4", "0.5"}) {
      ASSERT_EQ(
          RunWith(
              "plan",
              {"--loss",
               "0.8",
               "--within",
               within,
               "--start-up",
               "2m",
               "--servers",
               "m5.xlarge=1",
               "--confidence",
               confidence,
               "--json"}),
          0)
          << err_;
      const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
      EXPECT_TRUE(plan.ok()) << plan.status();
    }
  }
}

TEST_F(PlanCommandTest, WithoutAFeasibleFleetItNamesTheNearestGoals) {
  EXPECT_EQ(RunWith("plan", {"--loss", "0.8", "--within", "10m"}), run::kExitFailed);
  EXPECT_THAT(out_, IsEmpty());
  EXPECT_THAT(err_, HasSubstr("no fleet meets the goal: time: the fastest fleet needs"));
  const size_t at = err_.find("--within ");
  ASSERT_NE(at, std::string::npos) << err_;
  const std::string nearest = err_.substr(at + 9, err_.find(' ', at + 9) - at - 9);
  EXPECT_EQ(RunWith("plan", {"--loss", "0.8", "--within", nearest}), 0) << nearest << err_;
}

TEST_F(PlanCommandTest, AJobFileAfterAQuotaIsTheJob) {
  EXPECT_EQ(
      RunWith("plan", {"--loss", "0.8", "--quota", "p3.2xlarge=2", root_ / "none.json"}),
      run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("none.json"));
  EXPECT_THAT(err_, ::testing::Not(HasSubstr("--quota")));
}

TEST_F(PlanCommandTest, ABudgetThatIsTooSmallNamesTheLeast) {
  EXPECT_EQ(
      RunWith("plan", {"--loss", "0.8", "--within", "40m", "--budget", "1"}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("budget: the cheapest fleet in time costs"));
  EXPECT_THAT(err_, HasSubstr("with --within 2400s"));
}

TEST_F(PlanCommandTest, AnExplanationSaysWhatEachTypeDoesAndHowLateExchangesAre) {
  ASSERT_EQ(RunWith("plan", {"--loss", "0.8", "--within", "40m", "--explain"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("step alone, s"));
  EXPECT_THAT(out_, HasSubstr("exchanges too late for the next step: 100 %"));  // no overlap
}

TEST_F(PlanCommandTest, ThePlotIsAnSvgWithTheChosenFleet) {
  const std::string path = root_ / "plan.svg";
  ASSERT_EQ(RunWith("plan", {"--loss", "0.8", "--within", "40m", "--plot", path}), 0) << err_;
  const std::string svg = ReadAll(path);
  EXPECT_EQ(svg.rfind("<svg ", 0), 0U);
  EXPECT_THAT(svg, HasSubstr("chosen: 4 p3.2xlarge"));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme: dark"));
}

TEST_F(PlanCommandTest, PredictSaysSpeedAndWithALossTimeAndCost) {
  ASSERT_EQ(
      RunWith("predict", {"--fleet", "g4dn.4xlarge=2,g3.8xlarge=4", "--ps", "m5.xlarge=1"}), 0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("samples/s"));
  EXPECT_EQ(out_.find("cost"), std::string::npos);
  ASSERT_EQ(
      RunWith("predict", {"--fleet", "g4dn.4xlarge=2", "--ps", "m5.xlarge", "--loss", "0.8"}), 0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("cost, USD"));
  EXPECT_THAT(out_, HasSubstr("what more would buy"));
}

TEST_F(PlanCommandTest, HeldInstancesAreKeptAndAChangePaysForItsTakeover) {
  const std::vector<std::string> goal = {"--loss", "0.8", "--within", "1h", "--held"};
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = goal;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunWith("plan", arguments);
  };
  ASSERT_EQ(run({"g3.8xlarge=2", "--takeover", "45s"}), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("\nkept          2 g3.8xlarge\n"));
  EXPECT_THAT(out_, HasSubstr("; taking over costs 45.0 s\n"));
  ASSERT_EQ(run({"g3.8xlarge=2", "--takeover", "45s", "--json"}), 0) << err_;
  const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->takeover_s, 45);
  int held = 0;
  for (const proto::PlanWorkers& workers : plan->workers) {
    EXPECT_LE(workers.held, workers.count);
    held += workers.held;
  }
  EXPECT_EQ(held, 2);
}

TEST_F(PlanCommandTest, AFleetThatIsGoodEnoughIsLeftAsItIs) {
  ASSERT_EQ(RunWith("plan", {"--loss", "0.8", "--within", "1h"}), 0) << err_;
  ASSERT_EQ(RunWith("plan", {"--loss", "0.8", "--within", "1h", "--json"}), 0) << err_;
  const Result<proto::Plan> plan = proto::ParsePlan(out_, "plan.json");
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::string held;
  for (const proto::PlanWorkers& workers : plan->workers) {
    held += (held.empty() ? "" : ",") + workers.instance_type + "=" + std::to_string(workers.count);
  }
  ASSERT_EQ(
      RunWith(
          "plan",
          {"--loss", "0.8", "--within", "1h", "--held", held, "--takeover", "5m", "--json"}),
      0)
      << err_;
  const Result<proto::Plan> again = proto::ParsePlan(out_, "plan.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->seconds.value, plan->seconds.value);  // no take-over
  ASSERT_EQ(
      RunWith("plan", {"--loss", "0.8", "--within", "1h", "--held", held, "--takeover", "5m"}), 0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("\nnew           none\n"));
}

TEST_F(PlanCommandTest, MisuseIsOneClearLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--within", "40m"}, "--loss wants the loss to reach"},
      {{"--loss=-1"}, "--loss wants the loss to reach"},
      {{"--loss", "0.8", "--within", "soon"}, "--within wants a time such as 40m"},
      {{"--loss", "0.8", "--within", ""}, "--within wants a time such as 40m"},
      {{"--loss", "0.8", "--within", "-5m"}, "--within wants a time such as 40m"},
      {{"--loss", "0.8", "--within=-5m"}, "--within wants a time such as 40m"},
      {{"--loss", "-1"}, "--loss wants the loss to reach"},
      {{"--loss", "0.8", "--budget", "-3"}, "--budget wants USD above 0"},
      {{"--loss", "0.8", "--held", "p3.2xlarge=1", "--takeover", ""}, "--takeover wants a time"},
      {{"--loss", "0.8", "--budget", "0"}, "--budget wants USD above 0"},
      {{"--loss", "0.8", "--budget=-3"}, "--budget wants USD above 0"},
      {{"--loss", "0.8", "--confidence", "1.5"},
       "--confidence has to be above 0 and at most 0.999"},
      {{"--loss", "0.8", "--confidence", "0.9999999"}, "at most 0.999"},
      {{"--loss", "0.8", "--local-steps", "0"}, "--local-steps wants a number from 1 to 10000"},
      {{"--loss", "0.8", "--local-steps-max", "0"}, "--local-steps-max wants a number from 1"},
      {{"--loss", "0.8", "--push-bytes-factor", "0"}, "--push-bytes-factor wants a number above 0"},
      {{"--loss", "0.8", "--push-bytes-factor", "nan"}, "--push-bytes-factor wants a number"},
      {{"--loss", "0.8", "--strategy", "exakt"}, "did you mean 'exact'?"},
      {{"--loss", "0.8", "--speed-model", "magic"}, "no speed model \"magic\""},
      {{"--loss", "0.8", "--market", "black"}, "--market wants spot, on-demand or both"},
      {{"--loss", "0.8", "--strategy", "on-demand", "--market", "both"}, "leave out --market both"},
      {{"--loss", "0.8", "--strategy", "on-demand", "--market", "spot"}, "leave out --market spot"},
      {{"--loss", "0.8", "--quota", "p3.2xlrge=2"}, "did you mean 'p3.2xlarge'?"},
      {{"--loss", "0.8", "--quota", "p3.2xlarge=-2"}, "--quota wants TYPE=COUNT"},
      {{"--loss", "0.8", "--quota", "g3.4xlarge=2"}, "which the profile has no figures for"},
      {{"--loss", "0.8", "--held", "p3.2xlrge=2"}, "did you mean 'p3.2xlarge'?"},
      {{"--loss", "0.8", "--held", "p3.2xlarge"}, "--held wants TYPE=COUNT"},
      {{"--loss", "0.8", "--held", "g3.4xlarge=2"}, "which the profile has no figures for"},
      {{"--loss", "0.8", "--held", "p3.2xlarge=3", "--quota", "p3.2xlarge=2"},
       "3 are held, beyond its quota of 2"},
      {{"--loss", "0.8", "--held", "p3.2xlarge=1", "--takeover", "soon"},
       "--takeover wants a time"},
      {{"--loss", "0.8", "--takeover", "30s"}, "say with --held which one runs"},
      {{"--loss", "0.8", "--steps-done", "100"}, "say with --from-loss"},
      {{"--loss", "0.8", "--from-loss", "0.7"}, "--loss 0.8 is met already"},
      {{"--loss", "0.8", "--from-loss", "0"}, "--from-loss wants a loss above 0"},
      {{"--loss", "0.8", "--from-loss", "0.9", "--steps-done", "100"}, "--done-by, or --held"},
      {{"--loss", "0.8", "--from-loss", "0.9", "--steps-done", "0", "--held", "p3.2xlarge=1"},
       "--steps-done wants a number"},
      {{"--loss", "0.8", "--from-loss", "0.9", "--steps-done", "9", "--done-by", "cray=1"},
       "no figures for cray"},
      {{"--loss", "0.8", "--servers", "p3.2xlarge=1"}, "may not hold parameters"},
      {{"--loss", "0.8", "--servers", "m5.xlarge=2"}, "beyond the type's quota of 1"},
      {{"--loss",
        "0.8",
        "--quota",
        "p3.2xlarge=0,g4dn.4xlarge=0,g3.8xlarge=0,g3.16xlarge=0,p2.8xlarge=0"},
       "the quota of every instance type is 0"}};
  for (const auto& [arguments, expected] : cases) {
    EXPECT_EQ(RunWith("plan", arguments), run::kExitMisused) << expected;
    EXPECT_THAT(err_, HasSubstr(expected));
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1) << err_;
    EXPECT_THAT(out_, IsEmpty());
  }
  EXPECT_EQ(Run({"plan", "--loss", "0.8"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("no profile profile.json; make one with psctl profile"));
  EXPECT_EQ(
      RunWith("predict", {"--fleet", "g3.8xlarge=0", "--ps", "m5.xlarge"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("--fleet has no worker in it"));
  EXPECT_EQ(
      RunWith("predict", {"--fleet", "g3.8xlarge=1", "--ps", "m5.xlarge=1..2"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("--ps wants one type and a number"));
  EXPECT_EQ(
      RunWith("predict", {"--fleet", "g3.9xlarge=1", "--ps", "m5.xlarge"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("no type"));
}

TEST_F(PlanCommandTest, ACatalogWithoutSpotPricesNamesTheOtherMarkets) {
  Result<proto::Catalog> catalog = proto::ParseCatalog(ReadAll(kCatalogPath), kCatalogPath);
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  for (proto::InstanceType& type : catalog->types) {
    type.spot.clear();
  }
  const std::string path = root_ / "catalog.json";
  ASSERT_TRUE(WriteFileAtomically(path, proto::PrintCatalog(*catalog)).ok());
  const std::vector<std::string> plan = {
      "plan", "--profile", kProfilePath, "--catalog", path, "--loss", "0.8", "--within", "1h"};
  EXPECT_EQ(Run(plan), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("nothing is on offer"));
  EXPECT_THAT(err_, HasSubstr("try --market both"));
  std::vector<std::string> more = plan;
  more.insert(more.end(), {"--held", "p3.2xlarge=1"});
  EXPECT_EQ(Run(more), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("which the catalog has no spot price for"));
  more = plan;
  more.insert(more.end(), {"--market", "both"});
  EXPECT_EQ(Run(more), run::kExitOk) << err_;
}

TEST_F(PlanCommandTest, AProfileWithoutALossCurveIsForPredictionsOnly) {
  Result<proto::JobProfile> profile = proto::ParseProfile(ReadAll(kProfilePath), kProfilePath);
  ASSERT_TRUE(profile.ok()) << profile.status();
  proto::JobProfile speeds = *profile;
  speeds.loss = {};
  const std::string path = root_ / "profile.json";
  ASSERT_TRUE(WriteFileAtomically(path, proto::PrintProfile(speeds)).ok());
  EXPECT_EQ(
      Run({"plan", "--profile", path, "--catalog", kCatalogPath, "--loss", "0.8"}),
      run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("no loss curve is fitted"));
  EXPECT_EQ(
      Run(
          {"predict",
           "--profile",
           path,
           "--catalog",
           kCatalogPath,
           "--fleet",
           "g3.8xlarge=2",
           "--ps",
           "m5.xlarge"}),
      0)
      << err_;
}

TEST_F(PlanCommandTest, AProfileOfAnotherModelIsRefused) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) {
    GTEST_SKIP() << "no dataset-fashion-mnist, whose shape the job's model needs";
  }
  EXPECT_EQ(
      RunWith("plan", {"configs/fashion_mnist_cnn.json", "--loss", "0.8"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("the profile is of another model than configs/fashion_mnist_cnn"));
}

}  // namespace
}  // namespace ps::psctl
