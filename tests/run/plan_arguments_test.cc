#include "run/planning/plan_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ps::run {
namespace {

using ::testing::HasSubstr;

template <typename T>
std::string ErrorOf(const Result<T>& result) {
  return result.ok() ? "" : std::string(result.status().message());
}

TEST(PlanArgumentsTest, DurationsHaveUnitsOrAreSeconds) {
  EXPECT_EQ(*ParseDuration("--within", "40m"), 2400);
  EXPECT_EQ(*ParseDuration("--within", "2h"), 7200);
  EXPECT_EQ(*ParseDuration("--within", "1h30m"), 5400);
  EXPECT_EQ(*ParseDuration("--within", "1.5h"), 5400);
  EXPECT_EQ(*ParseDuration("--within", "90s"), 90);
  EXPECT_EQ(*ParseDuration("--within", "2400"), 2400);
  EXPECT_EQ(*ParseDuration("--within", "2d"), 172800);
  EXPECT_EQ(*ParseDuration("--within", "1h30"), 5400);
  EXPECT_EQ(*ParseDuration("--within", "1d12"), 129600);
  EXPECT_EQ(*ParseDuration("--within", "1m30"), 90);
  EXPECT_EQ(*ParseDuration("--within", "1d2h3m4s"), 93784);
}

TEST(PlanArgumentsTest, SomeTimesMayBeZero) {
  EXPECT_EQ(*ParseDurationOrZero("--start-up", "0s"), 0);
  EXPECT_EQ(*ParseDurationOrZero("--start-up", "0"), 0);
  EXPECT_EQ(*ParseDurationOrZero("--start-up", "1m30"), 90);
  for (const char* const text : {"", "-1s", "s", "nan"}) {
    EXPECT_THAT(
        ErrorOf(ParseDurationOrZero("--start-up", text)), HasSubstr("--start-up wants a time"))
        << text;
  }
  EXPECT_THAT(ErrorOf(ParseDuration("--within", "0s")), HasSubstr("above 0"));
}

TEST(PlanArgumentsTest, WrongDurationsSayWhatIsWanted) {
  for (const char* text :
       {"",
        "0",
        "-5m",
        "m",
        "40x",
        "40mm",
        "nan",
        "inf",
        "1e999",
        "4 0",
        "30m1h",
        "1h1h",
        "30s30"}) {
    EXPECT_THAT(
        ErrorOf(ParseDuration("--within", text)), HasSubstr("--within wants a time such as"))
        << text;
  }
}

TEST(PlanArgumentsTest, CountsComeInListsAndRepeatedly) {
  const auto counts = ParseTypeCounts("--fleet", {"a.large=2,b.large=4", "c=0"});
  ASSERT_TRUE(counts.ok()) << counts.status();
  ASSERT_EQ(counts->size(), 3U);
  EXPECT_EQ((*counts)[0].instance_type, "a.large");
  EXPECT_EQ((*counts)[0].count, 2);
  EXPECT_EQ((*counts)[2].count, 0);
  EXPECT_TRUE(ParseTypeCounts("--quota", {})->empty());
  const auto batches = ParseTypeCounts("--fleet", {"a:64=2,a:128=3"});
  ASSERT_TRUE(batches.ok()) << batches.status();
  EXPECT_EQ(batches->front().minibatch, 64);
  EXPECT_EQ(batches->back().count, 3);
}

TEST(PlanArgumentsTest, WrongCountsSayWhatIsWanted) {
  for (const char* text :
       {"a:=1",
        "a:0=1",
        ":8=1",
        "a:x=1",
        "a:8",
        "",
        "a",
        "=2",
        "a=",
        "a=-1",
        "a=1.5",
        "a=2,",
        "a=99999999999"}) {
    EXPECT_THAT(ErrorOf(ParseTypeCounts("--fleet", {text})), HasSubstr("--fleet wants TYPE=COUNT"))
        << text;
  }
  EXPECT_EQ(ErrorOf(ParseTypeCounts("--fleet", {"a=1", "a=2"})), "--fleet names a twice");
  EXPECT_EQ(ErrorOf(ParseTypeCounts("--fleet", {"a:8=1,a:8=2"})), "--fleet names a:8 twice");
}

TEST(PlanArgumentsTest, HeldMachinesHaveAges) {
  const auto held = ParseHeld("--held", {"a=2@3h,a=1", "a:64=1@1h30m,a=4@10m"});
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_EQ(held->size(), 4U);
  EXPECT_EQ((*held)[0].age_s, 3 * 3600);
  EXPECT_EQ((*held)[0].count, 2);
  EXPECT_EQ((*held)[1].age_s, 0);
  EXPECT_EQ((*held)[2].minibatch, 64);
  EXPECT_EQ((*held)[2].age_s, 5400);
  EXPECT_THAT(ErrorOf(ParseHeld("--held", {"a@3h"})), HasSubstr("TYPE=COUNT@AGE"));
  EXPECT_THAT(ErrorOf(ParseHeld("--held", {"a=2@"})), HasSubstr("the age after @ wants a time"));
  EXPECT_THAT(ErrorOf(ParseHeld("--held", {"a=2@-1h"})), HasSubstr("the age after @ wants"));
  EXPECT_EQ(ErrorOf(ParseHeld("--held", {"a=1,a=2"})), "--held names a twice");
  EXPECT_EQ(
      ErrorOf(ParseHeld("--held", {"a:8=1@1h,a:8=2@60m"})),
      "--held names a:8 twice with the same age");
  EXPECT_THAT(ErrorOf(ParseTypeCounts("--quota", {"a=2@3h"})), HasSubstr("wants TYPE=COUNT"));
}

TEST(PlanArgumentsTest, ServerRangesAreOneOrFromTo) {
  const auto ranges = ParseServerRanges("--servers", {"m5.xlarge=1..4,c5.large=2", "r5.large"});
  ASSERT_TRUE(ranges.ok()) << ranges.status();
  ASSERT_EQ(ranges->size(), 3U);
  EXPECT_EQ((*ranges)[0].hosts_min, 1);
  EXPECT_EQ((*ranges)[0].hosts_max, 4);
  EXPECT_EQ((*ranges)[1].hosts_min, 2);
  EXPECT_EQ((*ranges)[1].hosts_max, 2);
  EXPECT_EQ((*ranges)[2].hosts_max, 1);
  for (const char* text : {"", "=1", "a=0", "a=3..1", "a=1..", "a=..2", "a=x"}) {
    EXPECT_THAT(ErrorOf(ParseServerRanges("--servers", {text})), HasSubstr("TYPE=HOSTS")) << text;
  }
}

TEST(PlanArgumentsTest, MarketsAreThree) {
  EXPECT_EQ(*ParseMarket("both"), provisioner::MarketChoice::kBoth);
  EXPECT_THAT(ErrorOf(ParseMarket("spt")), HasSubstr("spot, on-demand or both"));
}

}  // namespace
}  // namespace ps::run
