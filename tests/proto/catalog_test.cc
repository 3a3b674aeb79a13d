#include "ps/proto/files/catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ps/proto/files/planning_fields.h"
#include "tests/proto/file_checks.h"

namespace ps::proto {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

// One fact a line, so that a test knows where the error is.
constexpr std::string_view kText = R"({
  "provider": "aws",
  "region": "us-east-1",
  "as_of": "2026-07-20",
  "source": "a test",
  "types": [
    {
      "name": "g4dn.4xlarge",
      "device": "T4",
      "device_memory_gib": 16,
      "network_gbit_per_s": 20,
      "network_burst_gbit_per_s": 25,
      "pcie_gbyte_per_s": 7.9,
      "on_demand_usd_per_hour": 1.204,
      "spot": [
        {"zone": "us-east-1a", "usd_per_hour": 0.3612, "as_of": "2026-07-20"},
        {"zone": "us-east-1", "usd_per_hour": 0.4, "as_of": "2026-07-19", "is_estimate": true}
      ],
      "quota": 5
    },
    {
      "name": "m5.xlarge",
      "network_gbit_per_s": 1.25,
      "on_demand_usd_per_hour": 0.192,
      "quota": 2,
      "is_server_host": true
    }
  ]
})";

std::string CatalogWith(const std::string& from, const std::string& to) {
  std::string text(kText);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

/// The error of the text with one part changed.
std::string ErrorOf(const std::string& from, const std::string& to) {
  return tests::ErrorOf(ParseCatalog(CatalogWith(from, to), "c.json"));
}

TEST(CatalogTest, FieldsArriveWhereTheyBelong) {
  const auto parsed = ParseCatalog(kText, "c.json");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->region, "us-east-1");
  const InstanceType* gpu = parsed->Find("g4dn.4xlarge");
  ASSERT_NE(gpu, nullptr);
  EXPECT_EQ(gpu->devices, 1);
  EXPECT_EQ(gpu->pcie_gbyte_per_s, 7.9);
  ASSERT_EQ(gpu->spot.size(), 2U);
  EXPECT_EQ(gpu->spot[0].usd_per_hour, 0.3612);
  EXPECT_FALSE(gpu->spot[0].is_estimate);
  EXPECT_TRUE(gpu->spot[1].is_estimate);
  EXPECT_EQ(gpu->quota, 5);
  EXPECT_EQ(parsed->Find("m5"), nullptr);
}

TEST(CatalogTest, WhatIsNotSaidHasTheStructsDefault) {
  InstanceType expected;
  expected.name = "m5.xlarge";
  expected.device = "cpu";
  expected.network_gbit_per_s = expected.network_burst_gbit_per_s = 1.25;
  expected.on_demand_usd_per_hour = 0.192;
  expected.quota = 2;
  expected.is_server_host = true;
  EXPECT_EQ(ParseCatalog(kText, "c.json").value().types[1], expected);
}

TEST(CatalogTest, PrintedCatalogsReadBackTheSame) {
  const Catalog catalog = ParseCatalog(kText, "c.json").value();
  const auto again = ParseCatalog(PrintCatalog(catalog), "again.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, catalog);
}

TEST(CatalogTest, EveryMemberIsAField) {
  tests::ExpectAllMembersVisited<LifetimePoint, SpotPrice, InstanceType, Catalog>();
}

TEST(CatalogTest, PricesAreFiniteAndAboveZero) {
  for (const std::string bad : {"0", "-1.204", "1e999", "0.0"}) {
    EXPECT_EQ(
        ErrorOf("1.204", bad),
        "c.json:14:33: types[0].on_demand_usd_per_hour is " + bad +
            "; allowed: a number above 0 up to 100000");
    EXPECT_EQ(
        ErrorOf("0.3612", bad),
        "c.json:16:48: types[0].spot[0].usd_per_hour is " + bad +
            "; allowed: a number above 0 up to 100000");
  }
  EXPECT_THAT(ErrorOf("1.204", "NaN"), StartsWith("c.json:14:33: \"NaN\" is no value"));
  EXPECT_THAT(ErrorOf("1.204", "inf"), StartsWith("c.json:14:33: \"inf\" is no value"));
  EXPECT_THAT(ErrorOf("1.204", "-Infinity"), StartsWith("c.json:14:34: unexpected \"I\""));
  EXPECT_EQ(
      ErrorOf("1.204", "\"1.204\""),
      "c.json:14:33: types[0].on_demand_usd_per_hour is a text; allowed: a number above 0 up to "
      "100000");
}

TEST(CatalogTest, PricesAndRatesHaveToBeThere) {
  EXPECT_EQ(
      ErrorOf("\"on_demand_usd_per_hour\": 0.192,", ""),
      "c.json:21:5: types[1].on_demand_usd_per_hour is missing; allowed: a number above 0 up to "
      "100000");
  EXPECT_EQ(
      ErrorOf("\"network_gbit_per_s\": 1.25,", ""),
      "c.json:21:5: types[1].network_gbit_per_s is missing; allowed: a number above 0 up to "
      "100000");
  EXPECT_EQ(
      ErrorOf("\"usd_per_hour\": 0.4, ", ""),
      "c.json:17:9: types[0].spot[1].usd_per_hour is missing; allowed: a number above 0 up to "
      "100000");
}

TEST(CatalogTest, BandwidthsAreAboveZeroAndBurstIsNotBelow) {
  EXPECT_THAT(ErrorOf("1.25", "0"), StartsWith("c.json:23:29: types[1].network_gbit_per_s is 0;"));
  EXPECT_THAT(ErrorOf("1.25", "-1"), StartsWith("c.json:23:29: types[1].network_gbit_per_s is -1"));
  EXPECT_EQ(
      ErrorOf("25,", "19,"),
      "c.json:12:35: types[0].network_burst_gbit_per_s is 19, below network_gbit_per_s; allowed: "
      "20 or more");
  EXPECT_THAT(
      ErrorOf("7.9", "0"), StartsWith("c.json:13:27: types[0].pcie_gbyte_per_s is 0 with device "));
}

TEST(CatalogTest, AcceleratorsHaveMemoryAndOtherTypesHaveNone) {
  EXPECT_EQ(
      ErrorOf("\"device_memory_gib\": 16,", ""),
      "c.json:7:5: types[0].device_memory_gib is 0 with device \"T4\"; allowed: more than 0, or "
      "\"device\": \"cpu\"");
  EXPECT_THAT(ErrorOf("\"T4\"", "\"cpu\""), StartsWith("c.json:10:28: types[0].device_memory_gib"));
  EXPECT_THAT(
      ErrorOf("\"quota\": 2", "\"devices\": 2"), StartsWith("c.json:25:18: types[1].devices is 2"));
}

TEST(CatalogTest, NamesAndZonesAreUnique) {
  EXPECT_EQ(
      ErrorOf("m5.xlarge", "g4dn.4xlarge"),
      "c.json:22:15: types[1].name is \"g4dn.4xlarge\", as types[0].name; allowed: each name once");
  EXPECT_EQ(
      ErrorOf("\"us-east-1\", \"usd", "\"us-east-1a\", \"usd"),
      "c.json:17:18: types[0].spot[1].zone is \"us-east-1a\", which has a price already; allowed: "
      "each zone once in a type");
}

TEST(CatalogTest, LifetimesGrowWithAge) {
  const auto error_of = [](const std::string& points) {
    return ErrorOf("\"is_estimate\": true", "\"lifetimes\": " + points);
  };
  EXPECT_EQ(
      error_of(R"([{"hours": 1, "revoked": 0.25}, {"hours": 2, "revoked": 0.25}])"), "no error");
  EXPECT_THAT(
      error_of(R"([{"hours": 2, "revoked": 0.1}, {"hours": 2, "revoked": 0.2}])"),
      HasSubstr("types[0].spot[1].lifetimes[1].hours is 2, not above the point before; allowed: "
                "more than 2"));
  EXPECT_THAT(
      error_of(R"([{"hours": 1, "revoked": 0.3}, {"hours": 2, "revoked": 0.2}])"),
      HasSubstr("types[0].spot[1].lifetimes[1].revoked is 0.2, below the point before; allowed: "
                "0.3 to 1"));
  EXPECT_THAT(
      error_of(R"([{"hours": 1, "revoked": 1.5}])"), HasSubstr("lifetimes[0].revoked is 1.5"));
  EXPECT_THAT(error_of(R"([{"revoked": 0.5}])"), HasSubstr("lifetimes[0].hours is missing"));
}

TEST(CatalogTest, DatesAreDays) {
  EXPECT_THAT(
      ErrorOf("2026-07-20", "20.7.2026"), StartsWith("c.json:4:12: as_of is \"20.7.2026\""));
  EXPECT_EQ(
      ErrorOf("2026-07-19", "2026-02-30"),
      "c.json:17:61: types[0].spot[1].as_of is \"2026-02-30\", which is no day; allowed: a date "
      "such as 2026-07-20");
  EXPECT_EQ(ErrorOf("2026-07-19", "2024-02-29"), "no error");
}

TEST(CatalogTest, SomethingCanBeRentedAndHoldParameters) {
  std::string text = CatalogWith("\"quota\": 5", "\"quota\": 0");
  text.replace(text.find("\"quota\": 2"), 10, "\"quota\": 0");
  EXPECT_EQ(
      ParseCatalog(text, "c.json").status().message(),
      "c.json:6:12: every types[].quota is 0, so nothing can be rented; allowed: one above 0");
  EXPECT_THAT(
      ErrorOf("\"is_server_host\": true", "\"is_server_host\": false"),
      StartsWith("c.json:6:12: no types[].is_server_host is true"));
  EXPECT_THAT(
      ErrorOf("\"quota\": 2", "\"quota\": 0"),
      StartsWith("c.json:6:12: every types[].quota of those with is_server_host is 0"));
  EXPECT_THAT(ErrorOf("\"quota\": 2", "\"quota\": -1"), HasSubstr(":25:16: types[1].quota is -1"));
  EXPECT_THAT(ErrorOf("\"quota\": 2", "\"quota\": 1.5"), HasSubstr("a whole number from 0"));
}

TEST(CatalogTest, UnknownFieldsGetTheNearestName) {
  EXPECT_THAT(ErrorOf("quota", "qouta"), EndsWith("; did you mean \"quota\"?"));
  EXPECT_THAT(ErrorOf("device\"", "gpu_model\""), EndsWith("; did you mean \"device\"?"));
  EXPECT_THAT(ErrorOf("\"zone\"", "\"az\""), EndsWith("; did you mean \"zone\"?"));
}

}  // namespace
}  // namespace ps::proto
