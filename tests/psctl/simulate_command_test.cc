#include "psctl/plan/simulate_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ps/base/random.h"
#include "ps/json/json_value.h"
#include "ps/proto/files/profile.h"
#include "psctl/plan/goal_policy.h"
#include "run/planning/goal_policy.h"
#include "tests/psctl/plan_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class SimulateCommandTest : public PlanFixture {
 protected:
  /// By the shipped profile, on a trace of these lines.
  int Simulate(const std::string& lines, std::vector<std::string> more) {
    const std::string path = root_ / "t.csv";
    EXPECT_TRUE(WriteFileAtomically(path, lines).ok());
    more.insert(more.begin(), {"--trace", path, "--type", "g4dn.4xlarge", "--ps", "m5.xlarge=1"});
    return RunWith("simulate", more);
  }
};

TEST_F(SimulateCommandTest, PoliciesAreComparedOnARecordedTrace) {
  const std::string plot = root_ / "plot.svg";
  ASSERT_EQ(
      RunWith(
          "simulate",
          {"--trace",
           "tests/data/parcae/p3.csv",
           "--type",
           "g4dn.4xlarge",
           "--ps",
           "m5.xlarge=1",
           "--seeds",
           "2",
           "--engine",
           "rates",
           "--plot",
           plot}),
      run::kExitOk)
      << err_;
  EXPECT_THAT(
      out_,
      AllOf(
          HasSubstr("p3.csv: 11h 22m, up to 32 machines; 32 workers of"),
          HasSubstr("2 seeds; by rates\n"),
          HasSubstr("\nreactive"),
          HasSubstr("\nhold"),
          HasSubstr("\nparcae"),
          HasSubstr("\nstandby"),
          HasSubstr("\noracle"),
          HasSubstr("\noracle: a bound, by rates: on spot machines nobody can train more"),
          Not(HasSubstr("\ndeadline"))));
  EXPECT_THAT(
      ReadAll(plot),
      AllOf(
          HasSubstr(
              ">Policies on p3: 32 workers of resnet110_cifar100_spotdnn, seed 1 of 2</text>"),
          HasSubstr(">oracle</text>"),
          HasSubstr(">10h</text>"),
          HasSubstr(">40</text>"),
          HasSubstr("</svg>\n")));
}

/// 60 s a step, which a worker finishes after a notice. In each of these a policy was ahead of what
/// the cores made of a schedule that knew the future.
TEST_F(SimulateCommandTest, NoPolicyIsAheadOfTheOracle) {
  const std::string job = root_ / "job.json";
  ASSERT_TRUE(WriteFileAtomically(
                  job,
                  R"({"name": "j", "model": {"name": "mlp"}, "data": {"directory": "."},
                      "train": {"minibatch": 100}, "workers": [{"count": 1, "step_ms": 60000}]})")
                  .ok());
  const auto fields = [&](const std::string& field) {
    std::vector<double> values;
    const std::string name = "\"" + field + "\": ";
    for (size_t at = out_.find(name); at != std::string::npos; at = out_.find(name, at + 1)) {
      values.push_back(std::stod(out_.substr(at + name.size())));
    }
    return values;
  };
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--notice"}, {"--notice", "--start-up", "0s"}, {"--samples", "20000"}, {}}) {
    std::vector<std::string> arguments = {
        "simulate",
        job,
        "--trace",
        "tests/data/parcae/p3.csv",
        "--workers",
        "20",
        "--policy",
        "oracle,reactive,hold,standby",
        "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    ASSERT_EQ(Run(arguments), run::kExitOk) << err_;
    const std::vector<double> samples = fields("samples");
    const std::vector<double> seconds = fields("seconds");
    ASSERT_EQ(samples.size(), 4U);
    ASSERT_EQ(seconds.size(), 4U);
    for (size_t i = 1; i < samples.size(); ++i) {
      EXPECT_LE(samples[i], samples[0] * (1 + 1e-9)) << i << " of " << out_;
      EXPECT_GE(seconds[i], seconds[0] * (1 - 1e-9)) << i << " of " << out_;
    }
  }
}

TEST_F(SimulateCommandTest, ATimeToStartOrToNoticeMayBeNoneOrLong) {
  const auto samples = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "--policy", "hold,parcae", "--engine", "rates", "--workers", "4", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(Simulate("0,4\n36000000,4\n", arguments), run::kExitOk) << err_;
    const size_t at = out_.find("\"samples\": ");
    return at == std::string::npos ? 0 : std::stod(out_.substr(at + 11));
  };
  const double at_once = samples({"--start-up", "0s", "--detect", "0s"});
  EXPECT_GT(at_once, 0);
  EXPECT_NEAR(samples({"--start-up", "12m"}) / at_once, 1 - 0.2 / 10, 1e-6);
  EXPECT_NEAR(samples({"--start-up", "2h"}) / at_once, 0.8, 1e-6);
}

TEST_F(SimulateCommandTest, AMachineStartsAsItsTypeWasMeasuredToUnlessSomebodySaysOtherwise) {
  proto::JobProfile profile = proto::ParseProfile(ReadAll(kProfilePath), kProfilePath).value();
  for (int i = 0; i < 12; ++i) {
    profile.starts.push_back(
        {.instance_type = "g4dn.4xlarge", .launcher = "ec2", .join_s = 60, .step_s = 94});
  }
  const std::string path = root_ / "profile.json";
  ASSERT_TRUE(WriteFileAtomically(path, proto::PrintProfile(profile)).ok());
  const std::string trace = root_ / "t.csv";
  ASSERT_TRUE(WriteFileAtomically(trace, "0,4\n36000000,4\n").ok());
  const auto simulate = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "simulate",
        "--profile",
        path,
        "--catalog",
        kCatalogPath,
        "--trace",
        trace,
        "--type",
        "g4dn.4xlarge",
        "--ps",
        "m5.xlarge=1",
        "--policy",
        "hold",
        "--engine",
        "rates",
        "--workers",
        "4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(Run(arguments), run::kExitOk) << err_;
    return out_;
  };
  EXPECT_THAT(simulate({}), HasSubstr("\nstart-up of g4dn.4xlarge: 1m 34s, measured 12 times\n"));
  EXPECT_THAT(simulate({"--json"}), HasSubstr("\"start_s\": 94,"));
  EXPECT_THAT(simulate({"--start-up", "30s"}), Not(HasSubstr("start-up of")));
  EXPECT_THAT(simulate({"--start-up", "30s", "--json"}), HasSubstr("\"start_s\": 30,"));
  const int exit_code = Simulate("0,4\n36000000,4\n", {"--policy", "hold", "--json"});
  EXPECT_EQ(exit_code, run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("\"start_s\": 120,"));
}

TEST_F(SimulateCommandTest, ASlowJobsSpeedIsNotRoundedToNothing) {
  const std::string trace = root_ / "t.csv";
  const std::string job = root_ / "job.json";
  ASSERT_TRUE(WriteFileAtomically(trace, "0,4\n36000000,4\n").ok());
  ASSERT_TRUE(WriteFileAtomically(
                  job,
                  R"({"name": "j", "model": {"name": "mlp"}, "data": {"directory": "."},
                      "train": {"minibatch": 1}, "workers": [{"count": 1, "step_ms": 300000}]})")
                  .ok());
  ASSERT_EQ(Run({"simulate", job, "--trace", trace, "--policy", "reactive"}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("4 workers of 0.0033 samples/s alone"));
}

TEST_F(SimulateCommandTest, TheProductionCoresAreTheDefaultAndBesideThemAreRates) {
  const auto samples = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--policy", "reactive,oracle", "--json"});
    EXPECT_EQ(Simulate("0,4\n1800000,2\n2400000,5\n5400000,5\n", more), run::kExitOk) << err_;
    const size_t at = out_.find("\"samples\": ");
    return at == std::string::npos ? 0 : std::stod(out_.substr(at + 11));
  };
  const double rates = samples({"--engine", "rates"});
  EXPECT_THAT(out_, AllOf(HasSubstr("\"engine\": \"rates\""), HasSubstr("\"name\": \"oracle\"")));
  const double cores = samples({});
  EXPECT_THAT(
      out_,
      AllOf(
          HasSubstr("\"engine\": \"cores\""),
          HasSubstr("\"seeds\": 1"),
          HasSubstr("\"workers_max\": 5"),
          HasSubstr("\"lost_node_s\":"),
          HasSubstr("\"usd\":")));
  EXPECT_NEAR(cores / rates, 1, 0.005);
  EXPECT_NE(cores, rates) << "steps are whole ones";
}

TEST_F(SimulateCommandTest, TheCoordinatorsLogCanBeHad) {
  const std::string log = root_ / "coordinator.log";
  const std::string lines = "0,4\n1800000,2\n2400000,2\n";
  ASSERT_EQ(Simulate(lines, {"--policy", "hold", "--log", log}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("1 seed; production cores, async\n"));
  const std::string text = ReadAll(log);
  EXPECT_THAT(
      text,
      AllOf(
          HasSubstr("t=0.000000 time=1970-01-01T00:00:00.000Z node=coordinator"),
          HasSubstr("event=training_begins workers=1 after_s=120"),
          HasSubstr("event=worker_lost")));
  EXPECT_EQ(Simulate(lines, {"--log", log}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("--log is the coordinator's of one run"));
  EXPECT_EQ(Simulate(lines, {"--policy", "oracle", "--log", log}), run::kExitMisused);
  EXPECT_EQ(
      Simulate(lines, {"--policy", "hold", "--engine", "rates", "--log", log}), run::kExitMisused);
  EXPECT_EQ(Simulate(lines, {"--engine", "core"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("no engine 'core'; allowed: cores"));
}

TEST_F(SimulateCommandTest, AGoalIsMetByItsDeadline) {
  ASSERT_EQ(
      Simulate(
          "0,4\n3600000,1\n36000000,1\n",
          {"--samples", "20000000", "--within", "4h", "--policy", "reactive,deadline"}),
      run::kExitOk)
      << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("met 0 of 1\n"), HasSubstr("met\n")));
}

TEST_F(SimulateCommandTest, LossesThatAreAnnouncedOrNoticedLateAreTold) {
  const auto table = [&](const std::vector<std::string>& more) {
    EXPECT_EQ(Simulate("0,4\n3600000,1\n7200000,4\n36000000,4\n", more), run::kExitOk) << err_;
    return out_.substr(out_.find("\nreactive"));
  };
  const std::vector<std::string> few = {"--policy", "reactive", "--workers", "4"};
  const std::string word = table(few);
  const std::string told = table({"--policy", "reactive", "--workers", "4", "--notice"});
  EXPECT_NE(word, told);
  // Nobody can take the seats, so that it does not matter when they are free.
  EXPECT_EQ(word, table({"--policy", "reactive", "--workers", "4", "--detect", "10s"}));
}

TEST_F(SimulateCommandTest, AJobsModeIsTheOneItTrainsIn) {
  const std::string trace = root_ / "t.csv";
  const std::string job = root_ / "job.json";
  ASSERT_TRUE(WriteFileAtomically(trace, "0,4\n3600000,3\n7200000,3\n").ok());
  const auto text = [&](const std::string& mode) {
    const std::string config = R"({"name": "j", "model": {"name": "mlp"},
        "data": {"directory": "."}, "train": {"mode": ")" +
                               mode + R"("}, "workers": [{"count": 1, "step_ms": 500}]})";
    EXPECT_TRUE(WriteFileAtomically(job, config).ok());
    EXPECT_EQ(
        Run({"simulate", job, "--trace", trace, "--policy", "reactive", "--detect", "10s"}),
        run::kExitOk)
        << err_;
    EXPECT_THAT(out_, HasSubstr("production cores, " + mode + "\n"));
    return out_.substr(out_.find("\nreactive"));
  };
  // In rounds everybody waits until the loss is told.
  EXPECT_EQ(text("async"), text("ssp"));
  EXPECT_NE(text("async"), text("bsp"));
}

TEST_F(SimulateCommandTest, ARevocationUndoesARoundOfLocalSteps) {
  const std::string trace = root_ / "t.csv";
  const std::string job = root_ / "job.json";
  ASSERT_TRUE(WriteFileAtomically(trace, "0,4\n3600000,3\n7200000,3\n").ok());
  for (const char* const engine : {"rates", "cores"}) {
    const auto text = [&](const std::string& local_steps) {
      const std::string config = R"({"name": "j", "model": {"name": "mlp"},
          "data": {"directory": "."}, "train": {"local_steps": )" +
                                 local_steps + R"(}, "workers": [{"count": 1, "step_ms": 500}]})";
      EXPECT_TRUE(WriteFileAtomically(job, config).ok());
      EXPECT_EQ(
          Run({"simulate", job, "--trace", trace, "--policy", "reactive", "--engine", engine}),
          run::kExitOk)
          << err_;
      return out_.substr(out_.find("\nreactive"));
    };
    EXPECT_NE(text("1"), text("1000")) << engine << ", of 500 s";
  }
}

TEST_F(SimulateCommandTest, PricesOverTimeEgressAndFailuresAreCounted) {
  const std::string path = root_ / "prices.csv";
  const auto table = [&](const std::string& prices, const std::vector<std::string>& more) {
    EXPECT_TRUE(WriteFileAtomically(path, prices).ok());
    std::vector<std::string> all = {"--policy", "reactive", "--prices", path};
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_EQ(Simulate("0,2\n7200000,1\n7200001,1\n", all), run::kExitOk) << err_;
    return out_;
  };
  // Two machines for two hours, and a server at 0.192 USD/h.
  EXPECT_THAT(table("0,1\n3600000,3\n", {}), HasSubstr("  8.38  "));
  EXPECT_THAT(table("0,9\n1800000,1\n3600000,3\n", {"--from-hour", "1"}), HasSubstr("  6.19  "));
  EXPECT_THAT(
      table("0,1\n", {"--egress-usd-per-gb", "0.01", "--launch-failures", "0.9"}),
      AllOf(HasSubstr("egress, USD"), HasSubstr("failed")));
}

TEST_F(SimulateCommandTest, TheServersArePaidForWithTheWorkers) {
  const auto usd_of = [&](const std::string& servers, const std::string& engine) {
    const std::string path = root_ / "t.csv";
    EXPECT_TRUE(WriteFileAtomically(path, "0,4\n7200000,4\n").ok());
    EXPECT_EQ(
        Run(
            {"simulate",
             "--trace",
             path,
             "--profile",
             kProfilePath,
             "--catalog",
             "configs/catalog/aws.json",
             "--type",
             "g4dn.4xlarge",
             "--ps",
             servers,
             "--policy",
             "reactive,oracle",
             "--engine",
             engine,
             "--json"}),
        run::kExitOk)
        << err_;
    const Result<JsonValue> json = ParseJson(out_, "simulate");
    std::vector<double> usd;
    if (!json.ok()) {
      ADD_FAILURE() << json.status();
      return usd;
    }
    for (const JsonValue& policy : json->Find("policies")->children) {
      usd.push_back(std::stod(policy.Find("usd")->text));
    }
    return usd;
  };
  for (const char* const engine : {"rates", "cores"}) {
    const std::vector<double> one = usd_of("m5.12xlarge=1", engine);
    const std::vector<double> two = usd_of("m5.12xlarge=2", engine);
    ASSERT_EQ(one.size(), 2U);
    ASSERT_EQ(two.size(), 2U);
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_NEAR(two[i] - one[i], 2 * 2.304, 0.05) << engine << ": two hours of one host more";
    }
  }
}

TEST_F(SimulateCommandTest, PricesThatAreMissingAreNamed) {
  const std::string path = root_ / "prices.csv";
  const auto error = [&](const std::string& prices) {
    EXPECT_TRUE(WriteFileAtomically(path, prices).ok());
    EXPECT_EQ(Simulate("0,2\n7200000,1\n", {"--prices", path}), run::kExitMisused) << out_;
    return err_;
  };
  EXPECT_THAT(
      error("0,1\n3600000,\n7200000,1\n"), HasSubstr("prices.csv:2: the price from hour 1.00"));
  EXPECT_THAT(error("0,1\n3600000,null\n"), HasSubstr("prices.csv:2: the price from hour 1.00"));
  EXPECT_THAT(error("3600000,1\n"), HasSubstr("missing from hour 0.00 of the trace"));
  EXPECT_THAT(error("3600000,1\n0,1\n"), HasSubstr("prices.csv:2: the time is before"));
  EXPECT_THAT(error("0,1\n0,2\n"), HasSubstr("prices.csv:2: there is a price of this time"));
  EXPECT_THAT(error("0,-1\n"), HasSubstr("prices.csv:1: expected a price in USD; got '-1'"));
  EXPECT_THAT(error("0,nan\n"), HasSubstr("expected a price"));
  EXPECT_THAT(error("0;1\n"), HasSubstr("expected TIME,USD"));
  EXPECT_THAT(error("\n"), HasSubstr("there is no price in it"));
  // Every hour one, but for hours 4 and 5. Of changes nobody can tell.
  const std::string hourly =
      "0,1\n3600000,1\n7200000,2\n10800000,1\n21600000,1\n25200000,2\n28800000,2\n";
  EXPECT_THAT(
      error(hourly),
      HasSubstr("prices.csv:5: prices are missing from hour 4.00 to hour 6.00, where one comes "
                "every 3600 s else: fill them in, or say --gaps hold"));
  EXPECT_EQ(Simulate("0,2\n7200000,1\n", {"--prices", path, "--gaps", "hold"}), run::kExitOk)
      << err_;
  EXPECT_TRUE(ParsePrices("0,1\n60,2\n7200,1\n9000,3\n80000,2\n80060,1\n", "p.csv", 1).ok());
}

TEST_F(SimulateCommandTest, AnyBytesAreTakenAsPrices) {
  Random random(12);
  for (int i = 0; i < 10'000; ++i) {
    std::string text = "0,1\n1000,0.25\n2000,7e1\n";
    for (uint64_t change = random.Below(4); change > 0; --change) {
      text[random.Below(text.size())] = static_cast<char>(random.Below(256));
    }
    const auto prices = ParsePrices(text, "p.csv", 0.001);
    for (size_t k = 1; prices.ok() && k < prices->size(); ++k) {
      ASSERT_LT((*prices)[k - 1].at_s, (*prices)[k].at_s) << text;
    }
  }
}

TEST_F(SimulateCommandTest, WhatIsWrongIsNamed) {
  const auto error = [&](const std::string& lines, const std::vector<std::string>& more) {
    EXPECT_EQ(Simulate(lines, more), run::kExitMisused) << out_;
    return err_;
  };
  const std::string good = "0,4\n3600000,3\n";
  EXPECT_THAT(error("0,4\n60000,-5\n", {}), HasSubstr("t.csv:2: expected a count"));
  EXPECT_THAT(error("60000,4\n0,5\n", {}), HasSubstr("t.csv:2: the time is before"));
  EXPECT_THAT(error("0,add,a\n0,add,a\n", {}), HasSubstr("node 'a' is there already"));
  EXPECT_THAT(error("0,4\n", {}), HasSubstr("there is nothing of it"));
  EXPECT_THAT(error("0,0\n60000,0\n", {}), HasSubstr("there never is a machine in it"));
  EXPECT_THAT(error(good, {"--policy", "oracel"}), HasSubstr("did you mean 'oracle'?"));
  EXPECT_THAT(error(good, {"--policy", "deadline"}), HasSubstr("needs a goal"));
  EXPECT_THAT(error(good, {"--within", "1h"}), HasSubstr("say --samples too"));
  EXPECT_THAT(error(good, {"--detect", "soon"}), HasSubstr("--detect"));
  EXPECT_THAT(error(good, {"--start-up", "-1s"}), HasSubstr("--start-up wants a time"));
  EXPECT_THAT(error(good, {"--seeds", "0"}), HasSubstr("--seeds wants"));
  EXPECT_THAT(error(good, {"--samples", "-1"}), HasSubstr("--samples wants"));
  EXPECT_THAT(error(good, {"--samples", "0"}), HasSubstr("--samples wants"));
  EXPECT_THAT(error(good, {"--workers", "0"}), HasSubstr("--workers wants"));
  EXPECT_THAT(error(good, {"--nodes", "0"}), HasSubstr("--nodes wants"));
  EXPECT_THAT(error(good, {"--nodes", "4294967295"}), HasSubstr("--nodes wants"));
  for (const char* const hours : {"0", "-1", "nan"}) {
    EXPECT_THAT(error(good, {"--hours", hours}), HasSubstr("--hours wants"));
  }
  EXPECT_THAT(error(good, {"--from-hour", "nan"}), HasSubstr("--from-hour wants"));
  EXPECT_THAT(error(good, {"--launch-failures", "1"}), HasSubstr("a share below 1"));
  EXPECT_THAT(error(good, {"--egress-usd-per-gb", "-1"}), HasSubstr("--egress-usd-per-gb wants"));
  EXPECT_THAT(
      error(good, {"--samples", "1e12", "--within", "1h"}),
      HasSubstr("can't promise 1000000000000"));
  const std::string path = root_ / "t.csv";
  EXPECT_EQ(Run({"simulate", "--trace", path}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("nothing says how fast a worker is"));
  EXPECT_EQ(
      Run({"simulate", "job.json", "--trace", path, "--egress-usd-per-gb", "1"}),
      run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("needs a --profile"));
  EXPECT_EQ(
      Run({"simulate", "configs/fashion_mnist_cnn.json", "--trace", path}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("workers[0].step_ms does not say"));
}

TEST_F(SimulateCommandTest, WhatTheCatalogLacksIsNamed) {
  std::string catalog = ReadAll(kCatalogPath);
  const size_t type = catalog.find("\"g4dn.4xlarge\"");
  const size_t prices = catalog.find("\"spot\": [", type) + 9;
  catalog.erase(prices, catalog.find(']', prices) - prices);
  ASSERT_TRUE(WriteFileAtomically(root_ / "catalog.json", catalog).ok());
  const std::string path = root_ / "t.csv";
  ASSERT_TRUE(WriteFileAtomically(path, "0,4\n3600000,3\n").ok());
  const std::vector<std::string> arguments = {
      "simulate",
      "--trace",
      path,
      "--profile",
      kProfilePath,
      "--catalog",
      root_ / "catalog.json",
      "--type",
      "g4dn.4xlarge",
      "--ps",
      "m5.xlarge=1"};
  EXPECT_EQ(Run(arguments), run::kExitMisused) << out_;
  EXPECT_THAT(err_, HasSubstr("the catalog has no 'spot' price of g4dn.4xlarge"));
}

class GoalPolicyTest : public SimulateCommandTest {
 protected:
  /// The job of the shipped profile with a goal, and as many workers at first.
  std::string Job(uint32_t workers, const std::string& goal) {
    const std::string path = root_ / "job.json";
    const std::string text = R"({"name": "a", "model": {"name": "mlp"},
        "data": {"directory": ")" +
                             (root_ / "") + R"(", "format": "cifar10"},
        "train": {"lr_policy": "fixed"}, "goal": )" +
                             goal + R"(, "workers": [{"type": "g4dn.4xlarge", "count": )" +
                             std::to_string(workers) + "}]}";
    EXPECT_TRUE(WriteFileAtomically(path, text).ok());
    const std::string record(1 + 3 * 32 * 32, '\x01');
    for (const char* const name :
         {"data_batch_1",
          "data_batch_2",
          "data_batch_3",
          "data_batch_4",
          "data_batch_5",
          "test_batch"}) {
      EXPECT_TRUE(WriteFileAtomically(root_ / (std::string(name) + ".bin"), record).ok());
    }
    return path;
  }

  /// With the shipped profile, as if it were of this job.
  int SimulateJob(const std::string& job, const std::string& policies) {
    const std::string trace = root_ / "t.csv";
    EXPECT_TRUE(WriteFileAtomically(trace, "0,8\n1200000,3\n2400000,8\n30000000,8\n").ok());
    std::vector<std::string> arguments = {
        "simulate",
        job,
        "--trace",
        trace,
        "--type",
        "g4dn.4xlarge",
        "--ps",
        "m5.xlarge=1",
        "--policy",
        policies,
        "--json",
        "--catalog",
        kCatalogPath,
        "--profile",
        kProfilePath};
    EXPECT_EQ(Run(arguments), run::kExitMisused);
    constexpr std::string_view kOther = "against '";
    const size_t at = err_.find(kOther);
    if (at == std::string::npos) {
      return run::kExitFailed;
    }
    const std::string print = err_.substr(at + kOther.size(), 8);
    std::string profile = ReadAll(kProfilePath);
    profile.insert(profile.find("\n{\n") + 2, R"("model_fingerprint": ")" + print + R"(",)");
    EXPECT_TRUE(WriteFileAtomically(root_ / "profile.json", profile).ok());
    arguments.back() = root_ / "profile.json";
    return Run(arguments);
  }
};

TEST_F(GoalPolicyTest, ThePlannerIsAskedAsInARun) {
  SimulateCommand command;
  command.profile_path = kProfilePath;
  command.catalog_path = kCatalogPath;
  command.type = "g4dn.4xlarge";
  command.servers = "m5.xlarge=1";
  const auto config = proto::LoadJobConfig(Job(2, R"({"loss": 0.8, "within_s": 5400})"));
  ASSERT_TRUE(config.ok()) << config.status();
  const auto goal = SimulatedGoal::Make(command, *config, 8);
  ASSERT_TRUE(goal.ok()) << goal.status();
  const double steps = (*goal)->steps_wanted() / 4;
  EXPECT_LT((*goal)->LossAfter(steps), (*goal)->LossAfter(steps / 2));
  EXPECT_NEAR((*goal)->LossAfter((*goal)->steps_wanted()), 0.8, 1e-6);

  provisioner::SimulatedJob job;
  job.samples_per_s = {0, 850, 1700, 2550, 3400, 4250, 5100, 5950, 6800};
  const auto policy = (*goal)->MakePolicy(job);
  provisioner::FleetView view = {.now_s = 0, .counts = {}, .available = 8};
  EXPECT_EQ(policy->Decide(view).spot, 2U) << "as the job begins, until its loss tells something";
  view.now_s = 600;
  view.spot = view.spot_working = 2;
  view.samples = steps * 1024;
  const uint32_t wanted = policy->Decide(view).spot;

  proto::JobConfig run = *config;
  run.goal.profile = kProfilePath;
  run.goal.catalog = kCatalogPath;
  run.workers = {{.count = 2, .type = command.type}};
  proto::JobStatus status;
  status.state = proto::RunState::kTraining;
  status.train_loss = (*goal)->LossAfter(steps);
  status.steps_counted = static_cast<uint64_t>(steps);
  status.elapsed_s = 600;
  status.samples_per_s = 1700;
  status.fleet = {{command.type, 2, 2}};
  status.servers.count = 1;
  const auto answer = run::AskPlanner(status, run, {command.servers}, "", nullptr);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->best.size(), 1U) << answer->infeasible;
  EXPECT_EQ(wanted, static_cast<uint32_t>(answer->best[0].count)) << policy->Explain().why;
  EXPECT_GT(wanted, 2U);
  EXPECT_THAT(policy->Explain().why, HasSubstr("the run has begun: "));
}

TEST_F(GoalPolicyTest, AJobWithAGoalIsJudgedByIt) {
  ASSERT_EQ(
      SimulateJob(Job(2, R"({"loss": 0.8, "within_s": 9000})"), "goal,reactive"), run::kExitOk)
      << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("\"name\": \"goal\""), HasSubstr("\"goals_met\": 1")));
  const auto figure = [&](const std::string& policy, const std::string& name) {
    const std::string field = "\"" + name + "\": ";
    const size_t at = out_.find(field, out_.find("\"name\": \"" + policy + "\""));
    return at == std::string::npos ? 0 : std::stod(out_.substr(at + field.size()));
  };
  // The server, at 0.192 USD/h, is there for longer.
  const auto workers_usd = [&](const std::string& policy) {
    return figure(policy, "usd") - 0.192 * figure(policy, "seconds") / 3600;
  };
  EXPECT_GT(workers_usd("goal"), 0);
  EXPECT_LT(workers_usd("goal"), workers_usd("reactive")) << "no more machines than it needs";
}

TEST_F(GoalPolicyTest, WhatItNeedsIsSaid) {
  EXPECT_EQ(Simulate("0,4\n3600000,3\n", {"--policy", "goal"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("needs a JOB.json"));
  EXPECT_EQ(SimulateJob(Job(1, "{}"), "goal"), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("job.json: the policy 'goal' needs goal.loss"));
  EXPECT_EQ(SimulateJob(Job(1, R"({"loss": 0.01})"), "goal"), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("goal.loss 0.01 is never reached"));
}

}  // namespace
}  // namespace ps::psctl
