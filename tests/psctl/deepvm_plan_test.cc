#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/psctl/command_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;

class DeepVmPlanTest : public CommandFixture {
 protected:
  int Plan(std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "plan", "--strategy", "deepvm", "--catalog", "configs/catalog/deepvm_paper.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
};

TEST_F(DeepVmPlanTest, TheThreeFleetsOfThePaperAreShown) {
  ASSERT_EQ(Plan({"--price-per-hour", "3"}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("1  tiering       17 x g4dn.xlarge spot  1 x c5.xlarge   2.8526"));
  EXPECT_THAT(out_, HasSubstr("2  tiering       17 x g4dn.xlarge spot  1 x m6i.xlarge  2.8746"));
  EXPECT_THAT(out_, HasSubstr("3  tiering       17 x g4dn.xlarge spot  1 x c5n.xlarge  2.8986"));
  ASSERT_EQ(Plan({"--price-per-hour", "3", "--json"}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr(R"("remote_type": "c5.xlarge")"));
  ASSERT_EQ(Plan({"--price-per-hour", "6", "--quota", "g4dn.xlarge=4"}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("x g5.xlarge spot"));
  ASSERT_EQ(Plan({"--price-per-hour", "5"}), run::kExitOk) << err_;
  EXPECT_THAT(out_, HasSubstr("14 x g5.xlarge is faster, speed 9744"));
}

TEST_F(DeepVmPlanTest, WhatIsMissingIsSaid) {
  EXPECT_EQ(Plan({}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("--strategy deepvm wants --price-per-hour"));
  EXPECT_EQ(Plan({"--price-per-hour", "nan"}), run::kExitMisused);
  EXPECT_EQ(Plan({"--price-per-hour", "0.1"}), run::kExitFailed);
  EXPECT_THAT(err_, HasSubstr("the cheapest node is g4dn.xlarge at 0.1578"));
  EXPECT_EQ(Plan({"--price-per-hour", "3", "--loss", "0.5"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("--strategy deepvm does not support --loss"));
  EXPECT_EQ(Plan({"--price-per-hour", "3", "--types", "p3.2xlarge"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("the catalog has no type p3.2xlarge"));
  EXPECT_EQ(
      Run(
          {"plan",
           "--strategy",
           "deepvm",
           "--price-per-hour",
           "3",
           "--catalog",
           "configs/catalog/aws.json",
           "--types",
           "p3.2xlarge"}),
      run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("p3.2xlarge: device, which is V100-SXM2-16GB"));
  EXPECT_EQ(Run({"plan", "--loss", "0.5", "--price-per-hour", "3"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("--price-per-hour is of --strategy deepvm"));
}

}  // namespace
}  // namespace ps::psctl
