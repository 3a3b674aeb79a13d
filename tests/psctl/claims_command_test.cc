// psctl claims: what is typed wrongly, what is printed, and when it fails.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "provisioner/claims/claims.h"
#include "ps/base/file.h"
#include "psctl/view/claims_view.h"
#include "tests/psctl/command_fixture.h"

namespace ps::psctl {
namespace {

using provisioner::CheckedClaim;
using provisioner::Claim;
using provisioner::ClaimVerdict;
using ::testing::HasSubstr;
using ::testing::Not;

class ClaimsCommandTest : public CommandFixture {
 protected:
  /// With root_ as the working folder, where tests/data and configs lie as copies.
  int RunWithCopies(const std::vector<std::string>& arguments) {
    const std::filesystem::path here = std::filesystem::current_path();
    std::filesystem::current_path(root_.path());
    const int code = Run(arguments);
    std::filesystem::current_path(here);
    return code;
  }

  void CopyData() {
    const auto all = std::filesystem::copy_options::recursive;
    std::filesystem::create_directories(root_ / "tests");
    std::filesystem::copy("tests/data", root_ / "tests/data", all);
    std::filesystem::copy("configs", root_ / "configs", all);
  }

  void Replace(const std::string& file, const std::string& from, const std::string& to) {
    Result<std::string> text = ReadFile(root_ / file);
    ASSERT_TRUE(text.ok()) << text.status();
    const size_t at = text->find(from);
    ASSERT_NE(at, std::string::npos);
    text->replace(at, from.size(), to);
    ASSERT_TRUE(WriteFileAtomically(root_ / file, *text).ok());
  }
};

TEST_F(ClaimsCommandTest, ASystemsClaimsAreATableOfAtMost120Columns) {
  for (const char* seed : {"spotdnn", "deepvm", "transient", "syncswitch"}) {
    ASSERT_EQ(Run({"claims", seed}), 0) << err_;
    EXPECT_THAT(out_, HasSubstr("headline"));
    std::istringstream lines(out_);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 120U) << line;
    }
    EXPECT_THAT(out_, HasSubstr("behind the rows"));
    EXPECT_THAT(out_, Not(HasSubstr("got worse")));
  }
  EXPECT_THAT(out_, HasSubstr("can't be checked: it needs ResNet-32"));
  EXPECT_THAT(out_, Not(HasSubstr("spotdnn")));
}

TEST_F(ClaimsCommandTest, EachTraceHasATableOfItsOwn) {
  const std::string name = "a_trace_with_a_name_that_is_rather_long_for_a_column_of_a_table.csv";
  std::string lines;
  for (int minute = 0; minute <= 90; ++minute) {
    lines += std::to_string(minute * 60'000) + "," + std::to_string(16 + minute % 7) + "\n";
  }
  ASSERT_TRUE(WriteFileAtomically(root_ / name, lines).ok());
  ASSERT_EQ(
      Run({"claims", "parcae", "--trace", root_ / name, "--trace", "tests/data/parcae/p3.csv"}), 0)
      << err_;
  const size_t first = out_.find("claim, on a_trace_with_a_name");
  const size_t second = out_.find("claim, on p3.csv");
  ASSERT_NE(first, std::string::npos);
  ASSERT_NE(second, std::string::npos);
  EXPECT_LT(first, second);
  EXPECT_THAT(out_.substr(first, second - first), HasSubstr("parcae  below its ideal, at most"));
  EXPECT_THAT(out_, Not(HasSubstr("got worse"))) << "there is no record of them";
  std::istringstream rows(out_);
  for (std::string line; std::getline(rows, line);) {
    EXPECT_LE(line.size(), 120U) << line;
  }
}

TEST_F(ClaimsCommandTest, JsonHasAllOfARow) {
  ASSERT_EQ(Run({"claims", "transient", "--json"}), 0) << err_;
  for (const char* part :
       {"\"seed\": \"transient\"",
        "\"headline\": true",
        "\"better\": \"higher\"",
        "\"published\": 7.7",
        "\"ours\": 7.652",
        "\"recorded\": 7.65",
        "\"verdict\": \"equal\"",
        "\"verdict\": \"can't be checked\"",
        "\"ours\": null",
        "\"worse_than_recorded\": false",
        "\"command\": \"psctl claims transient\""}) {
    EXPECT_THAT(out_, HasSubstr(part));
  }
}

TEST_F(ClaimsCommandTest, WhatIsTypedWronglyIsRefused) {
  const std::string short_trace = root_ / "short.csv";
  ASSERT_TRUE(WriteFileAtomically(short_trace, "0,4\n60000,5\n").ok());

  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } rows[] = {
      {{"claims", "spotdn"}, "did you mean 'spotdnn'?"},
      {{"claims", "nobody"}, "parcae"},
      {{"claims", "parcae", "deepvm"}, "deepvm"},
      {{"claims", "deepvm", "--trace", "tests/data/parcae/p3.csv"}, "--trace is for the claims of"},
      {{"claims", "parcae", "--trace", root_ / "none.csv"}, "none.csv"},
      {{"claims", "parcae", "--trace", "README.md"}, "README.md"},
      {{"claims", "parcae", "--trace", short_trace}, "2 minutes are too few"},
      {{"claims", "parcae", "--trace"}, "--trace"},
      {{"claims", "--unit", "days"}, "days"},
      {{"claims", "--gaps", "fill"}, "fill"},
      {{"claims", "--jsn"}, "--json"}};

  for (const auto& row : rows) {
    EXPECT_EQ(Run(row.arguments), 2) << row.says;
    EXPECT_THAT(err_, HasSubstr(row.says));
    EXPECT_EQ(out_, "");
  }
}

TEST_F(ClaimsCommandTest, AFigureThatGotWorseEndsItWithOne) {
  CopyData();
  ASSERT_EQ(RunWithCopies({"claims", "transient"}), 0) << err_;
  // Eight V100 behind two servers were faster than that.
  Replace("tests/data/ps_scaling/transient_ps_scaling.csv", "811.8,78.849", "811.8,70.000");
  EXPECT_EQ(RunWithCopies({"claims", "transient"}), 1);
  EXPECT_THAT(out_, HasSubstr("got worse: 1.75 x is recorded, it is"));
}

TEST_F(ClaimsCommandTest, DamagedDataIsNamed) {
  CopyData();
  Replace("tests/data/spotdnn/table6_homogeneous.csv", "0.71", "0,71");
  Replace("tests/data/spotdnn/prototype_instances.csv", "0.918", "free");
  EXPECT_EQ(RunWithCopies({"claims", "spotdnn"}), 2);
  EXPECT_THAT(err_, HasSubstr("prototype_instances.csv:2: column spot_usd_per_hour: 'free'"));
}

/// But psctl claims itself, which the other tests run.
TEST_F(ClaimsCommandTest, TheCommandsBehindRowsRun) {
  std::set<std::string> commands;
  for (const Claim& claim :
       provisioner::AllClaims({.data = "tests/data", .configs = "configs"}, {})) {
    commands.insert(claim.command);
  }
  commands.erase("");
  EXPECT_GT(commands.size(), 3U);
  for (const std::string& command : commands) {
    std::istringstream words(command);
    std::vector<std::string> arguments;
    for (std::string word; words >> word;) {
      arguments.push_back(word);
    }
    ASSERT_EQ(arguments.front(), "psctl");
    arguments.erase(arguments.begin());
    EXPECT_EQ(Run(arguments), 0) << command << "\n" << err_;
  }
}

TEST(ClaimsViewTest, RowsWithOneExplanationShareIt) {
  CheckedClaim first = {.claim = {.seed = "srift", .text = "faster", .published = 2, .unit = " x"}};
  first.ours = 3;
  first.verdict = ClaimVerdict::kBetter;
  first.claim.how = "by our queue";
  first.claim.command = "psctl plan --loss 0.8";
  CheckedClaim other = first;
  other.claim.how = "otherwise";
  other.claim.recorded = 4;
  other.is_worse_than_recorded = true;
  const std::string text = RenderClaims({first, first, other});
  EXPECT_THAT(text, HasSubstr("row  seed   claim   published    ours  verdict\n"));
  EXPECT_THAT(text, HasSubstr("  1  srift  faster     2.00 x  3.00 x  better\n"));
  EXPECT_THAT(text, HasSubstr("  1-2  by our queue\n       psctl plan --loss 0.8\n"));
  EXPECT_THAT(text, HasSubstr("    3  otherwise\n"));
  EXPECT_THAT(text, HasSubstr("row 3 got worse: 4.00 x is recorded, it is 3.00 x now\n"));
  EXPECT_THAT(text, Not(HasSubstr("headline"))) << "there is none";
}

}  // namespace
}  // namespace ps::psctl
