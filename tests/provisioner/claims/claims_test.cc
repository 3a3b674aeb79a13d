// The verdict on a claim, and the claims that take no time. claims_record_test.cc has all of them.

#include "provisioner/claims/claims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "provisioner/claims/claim.h"
#include "tests/base/temporary_folder.h"

namespace ps::provisioner {
namespace {

using ::testing::HasSubstr;

Claim ClaimOf(Better better, double published, double recorded, double ours) {
  return {
      .seed = "srift",
      .text = "speed",
      .published = published,
      .unit = " x",
      .digits = 1,
      .better = better,
      .recorded = recorded,
      .ours = [ours]() -> Result<double> { return ours; }};
}

CheckedClaim Checked(const Claim& claim) {
  const Result<CheckedClaim> checked = CheckClaim(claim);
  EXPECT_TRUE(checked.ok()) << checked.status();
  return checked.ok() ? *checked : CheckedClaim();
}

TEST(ClaimTest, VerdictsGoByTheDirectionThatIsBetter) {
  const struct {
    Better better;
    double published;
    double ours;
    ClaimVerdict verdict;
  } rows[] = {
      {Better::kHigher, 2, 2.06, ClaimVerdict::kBetter},
      {Better::kHigher, 2, 1.94, ClaimVerdict::kWorse},
      {Better::kHigher, 2, 2.05, ClaimVerdict::kEqual},
      {Better::kLower, 2, 1.94, ClaimVerdict::kBetter},
      {Better::kLower, 2, 2.06, ClaimVerdict::kWorse},
      {Better::kNearer, 2, 1.96, ClaimVerdict::kEqual},
      {Better::kNearer, 2, 1.9, ClaimVerdict::kWorse},
      {Better::kNearer, 2, 2.1, ClaimVerdict::kWorse}};

  for (const auto& row : rows) {
    EXPECT_EQ(
        Checked(ClaimOf(row.better, row.published, Claim::kNone, row.ours)).verdict, row.verdict)
        << row.ours;
  }
  Claim wide = ClaimOf(Better::kHigher, 2, Claim::kNone, 1.92);
  wide.equal_within = 0.05;
  EXPECT_EQ(Checked(wide).verdict, ClaimVerdict::kEqual);
  wide.equal_within = 0.03;
  EXPECT_EQ(Checked(wide).verdict, ClaimVerdict::kWorse);
}

TEST(ClaimTest, WhatGotWorseThanItsRecordIsToldWhateverTheVerdict) {
  const struct {
    Better better;
    double recorded;
    double ours;
    bool is_worse;
  } rows[] = {
      {Better::kHigher, 3, 2.8, true},
      {Better::kHigher, 3, 2.95, false},  // printed alike, or a unit of the last digit apart
      {Better::kHigher, 3, 3.5, false},
      {Better::kHigher, 1, 0.8, true},
      {Better::kLower, 3, 3.2, true},
      {Better::kLower, 3, 2.5, false},
      {Better::kNearer, 2.1, 1.75, true},
      {Better::kNearer, 2.1, 1.9, false},
      {Better::kNearer, 2.1, 2.0, false},
      {Better::kHigher, Claim::kNone, 0, false}};

  for (const auto& row : rows) {
    EXPECT_EQ(
        Checked(ClaimOf(row.better, 2, row.recorded, row.ours)).is_worse_than_recorded,
        row.is_worse)
        << row.recorded << " " << row.ours;
  }
}

TEST(ClaimTest, WhatCannotBeCheckedHasAReasonAndNoFigure) {
  Claim claim = ClaimOf(Better::kHigher, 2, Claim::kNone, 1);
  claim.ours = nullptr;
  claim.why_not = "nobody has the machines";
  const CheckedClaim checked = Checked(claim);
  EXPECT_EQ(checked.verdict, ClaimVerdict::kNotChecked);
  EXPECT_EQ(FigureText(claim, checked.ours), "-");
  EXPECT_EQ(FigureText(claim, claim.published), "2.0 x");
  EXPECT_EQ(VerdictName(checked.verdict), "can't be checked");
}

TEST(ClaimTest, AFigureThatIsNoneIsAnError) {
  const Result<CheckedClaim> checked = CheckClaim(
      ClaimOf(Better::kHigher, 2, Claim::kNone, std::numeric_limits<double>::quiet_NaN()));
  ASSERT_FALSE(checked.ok());
  EXPECT_THAT(std::string(checked.status().message()), HasSubstr("srift: 'speed' comes to no"));
}

std::vector<Claim> Shipped() {
  return AllClaims({.data = "tests/data", .configs = "configs"}, {});
}

TEST(ClaimsTest, EveryClaimIsWholeAndHeadlinesComeFirst) {
  const std::vector<Claim> claims = Shipped();
  const std::vector<std::string> seeds = ClaimSeeds();
  std::set<std::string> headlines;
  std::set<std::string> texts;
  bool is_past_headlines = false;
  for (const Claim& claim : claims) {
    EXPECT_EQ(std::ranges::count(seeds, claim.seed), 1) << claim.text;
    EXPECT_TRUE(texts.insert(claim.seed + claim.text).second) << claim.text;
    EXPECT_FALSE(claim.text.empty() || claim.text.size() > 57) << claim.text;
    EXPECT_EQ(claim.ours == nullptr, !claim.why_not.empty()) << claim.text;
    EXPECT_EQ(claim.ours == nullptr, std::isnan(claim.recorded)) << claim.text;
    EXPECT_FALSE(std::isnan(claim.published)) << claim.text;
    is_past_headlines = is_past_headlines || !claim.is_headline;
    EXPECT_NE(claim.is_headline, is_past_headlines) << claim.text;
    if (claim.is_headline) {
      headlines.insert(claim.seed);
    }
  }
  EXPECT_EQ(headlines.size(), seeds.size()) << "each system has one";
}

TEST(ClaimsTest, ATraceAddsRowsOfParcaeWithoutRecords) {
  const std::vector<Claim> claims = AllClaims(
      {.data = "tests/data", .configs = "configs"},
      {{.name = "mine.csv", .minutes = std::vector<uint32_t>(60, 16)}});
  size_t added = 0;
  for (const Claim& claim : claims) {
    if (claim.trace == "mine.csv") {
      ++added;
      EXPECT_EQ(claim.seed, "parcae");
      EXPECT_TRUE(std::isnan(claim.recorded)) << claim.text;
    }
  }
  EXPECT_EQ(added, 4U);
  EXPECT_EQ(claims.back().trace, "mine.csv") << "they come last";
  EXPECT_EQ(claims.size(), Shipped().size() + added);
}

TEST(ClaimsTest, MissingDataIsAnErrorOfItsClaimsAlone) {
  const TemporaryFolder empty;
  size_t failed = 0;
  for (const Claim& claim : AllClaims({.data = empty.path(), .configs = empty.path()}, {})) {
    const Result<CheckedClaim> checked = CheckClaim(claim);
    failed += checked.ok() ? 0 : 1;
    if (!checked.ok()) {
      EXPECT_EQ(checked.status().code(), StatusCode::kNotFound) << checked.status();
    }
    const bool needs_files =
        claim.seed == "parcae" || claim.seed == "srift" || claim.seed == "spotdnn";
    if (claim.ours != nullptr && needs_files) {
      EXPECT_FALSE(checked.ok()) << claim.text;
    }
  }
  EXPECT_GT(failed, 20U);
}

}  // namespace
}  // namespace ps::provisioner
