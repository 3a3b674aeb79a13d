#include "psctl/simulate_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

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
           "--plot",
           plot}),
      kExitOk)
      << err_;
  EXPECT_THAT(
      out_,
      AllOf(
          HasSubstr("p3.csv: 11h 22m, up to 32 machines; 32 workers of"),
          HasSubstr("\nreactive"),
          HasSubstr("\nhold"),
          HasSubstr("\nparcae"),
          HasSubstr("\nstandby"),
          HasSubstr("\noracle"),
          Not(HasSubstr("\ndeadline"))));
  EXPECT_THAT(
      ReadAll(plot),
      AllOf(HasSubstr(">oracle</text>"), HasSubstr(">10h</text>"), HasSubstr("</svg>\n")));
}

TEST_F(SimulateCommandTest, AGoalIsMetByItsDeadline) {
  ASSERT_EQ(
      Simulate(
          "0,4\n3600000,1\n36000000,1\n",
          {"--samples", "20000000", "--within", "4h", "--policy", "reactive,deadline"}),
      kExitOk)
      << err_;
  EXPECT_THAT(out_, AllOf(HasSubstr("met 0 of 1\n"), HasSubstr("met\n")));
}

TEST_F(SimulateCommandTest, LossesThatAreAnnouncedOrNoticedLateAreTold) {
  const auto table = [&](const std::vector<std::string>& more) {
    EXPECT_EQ(Simulate("0,4\n3600000,1\n7200000,4\n36000000,4\n", more), kExitOk) << err_;
    return out_.substr(out_.find("\nreactive"));
  };
  const std::vector<std::string> few = {"--policy", "reactive", "--workers", "4"};
  const std::string word = table(few);
  const std::string told = table({"--policy", "reactive", "--workers", "4", "--notice"});
  EXPECT_NE(word, told);
  // Nobody can take the seats, so that it does not matter when they are free.
  EXPECT_EQ(word, table({"--policy", "reactive", "--workers", "4", "--detect", "10s"}));
}

TEST_F(SimulateCommandTest, WhatIsWrongIsNamed) {
  const auto error = [&](const std::string& lines, const std::vector<std::string>& more) {
    EXPECT_EQ(Simulate(lines, more), kExitMisused) << out_;
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
  EXPECT_THAT(error(good, {"--seeds", "0"}), HasSubstr("--seeds wants"));
  EXPECT_THAT(error(good, {"--samples", "-1"}), HasSubstr("--samples wants"));
  EXPECT_THAT(
      error(good, {"--samples", "1e12", "--within", "1h"}),
      HasSubstr("can't promise 1000000000000"));
  const std::string path = root_ / "t.csv";
  EXPECT_EQ(Run({"simulate", "--trace", path}), kExitMisused);
  EXPECT_THAT(err_, HasSubstr("nothing says how fast a worker is"));
  EXPECT_EQ(Run({"simulate", "configs/fashion_mnist_cnn.json", "--trace", path}), kExitMisused);
  EXPECT_THAT(err_, HasSubstr("workers[0].step_ms does not say"));
}

TEST_F(SimulateCommandTest, WhatTheCatalogLacksIsNamed) {
  std::string catalog = ReadAll(kCatalog);
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
      kProfile,
      "--catalog",
      root_ / "catalog.json",
      "--type",
      "g4dn.4xlarge",
      "--ps",
      "m5.xlarge=1"};
  EXPECT_EQ(Run(arguments), kExitMisused) << out_;
  EXPECT_THAT(err_, HasSubstr("the catalog has no 'spot' price of g4dn.4xlarge"));
}

}  // namespace
}  // namespace ps::psctl
