#include "psctl/view/catalog_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/planning/price_age.h"
#include "tests/run/dates.h"

namespace ps::psctl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

proto::Catalog Sample() {
  proto::Catalog catalog{
      .provider = "aws",
      .region = "us-east-1",
      .as_of = "2026-07-20",
      .source = "a test",
      .types = {}};
  proto::InstanceType gpu{"g4dn.12xlarge", "T4", 4, 16, 48, 192, 20, 50, 7.88, 3.912, {}, 10};
  gpu.spot = {{"us-east-1a", 1.22, "2026-07-20", false}, {"us-east-1b", 1.25, "2026-07-20", false}};
  proto::InstanceType other{"g3.4xlarge", "M60", 1, 8, 16, 122, 5, 10, 15.75, 1.14, {}, 2};
  other.spot = {{"us-east-1", 0.342, "2026-07-20", true}};
  proto::InstanceType server{"m5.xlarge", "cpu", 1, 0, 4, 16, 1.25, 10, 0, 0.192, {}, 10};
  server.is_server_host = true;
  catalog.types = {gpu, other, server};
  return catalog;
}

TEST(CatalogViewTest, TheTableIsSortedByPricePerDevice) {
  EXPECT_EQ(
      RenderCatalog(Sample(), "price", run::kToday, 0),
      "aws us-east-1: 3 types\n"
      "\n"
      "type           device   GiB each  vCPUs      Gbit/s  PCIe GB/s  on-demand $/h  spot $/h  "
      "saving  $/device h  zone        quota  server\n"
      "m5.xlarge      cpu             -      4  1.25 to 10          -          0.192         -  "
      "     -       0.192  -              10  yes\n"
      "g4dn.12xlarge  4 x T4         16     48    20 to 50       7.88          3.912     1.220  "
      "  69 %       0.305  us-east-1a     10  -\n"
      "g3.4xlarge     1 x M60         8     16     5 to 10      15.75          1.140    ~0.342  "
      "  70 %       0.342  us-east-1       2  -\n"
      "\n"
      "On-demand prices of 2026-07-20, 12 days old.\n"
      "Spot prices, the oldest of 2026-07-20, 12 days old.\n"
      "~ is an estimate, worked out from a usual saving: nobody was asked this price.\n"
      "Source: a test\n");
}

TEST(CatalogViewTest, OtherOrdersAreByWhatTheyAreCalled) {
  const auto first = [](const std::string& sort) {
    const std::string text = RenderCatalog(Sample(), sort, run::kToday, 0);
    const size_t at = text.find("server\n") + 7;
    return text.substr(at, text.find(' ', at) - at);
  };
  EXPECT_THAT(CatalogSortOrders(), ElementsAre("price", "name", "device", "network"));
  EXPECT_EQ(first("name"), "g3.4xlarge");
  EXPECT_EQ(first("device"), "g3.4xlarge");
  EXPECT_EQ(first("network"), "g4dn.12xlarge");
}

TEST(CatalogViewTest, ANarrowTerminalKeepsTypeDeviceAndPrices) {
  const std::string text = RenderCatalog(Sample(), "price", run::kToday, 60);
  EXPECT_THAT(text, HasSubstr("type           device   on-demand $/h  spot $/h  $/device h\n"));
}

TEST(CatalogViewTest, StalePricesAreSaid) {
  EXPECT_THAT(
      RenderCatalog(Sample(), "price", "2026-10-19", 0),
      HasSubstr("On-demand prices of 2026-07-20, 91 days old: stale, look them up before"));
  EXPECT_THAT(RenderCatalog(Sample(), "price", "2026-10-18", 0), Not(HasSubstr("stale")));
  EXPECT_THAT(
      CatalogWarnings(Sample(), "2026-10-19"),
      ElementsAre(
          HasSubstr("as_of: on-demand prices of 2026-07-20, 91 days old: stale"),
          "types: 3 of 3 spot prices older than 90 days, the oldest types[0] (g4dn.12xlarge) of "
          "2026-07-20",
          "types: 1 of 3 spot prices worked out from a usual saving (is_estimate): nobody was "
          "asked"));
}

TEST(CatalogViewTest, SpotAboveOnDemandIsAWarning) {
  proto::Catalog catalog = Sample();
  catalog.types[1].spot = {{"us-east-1a", 1.2, "2026-07-20", false}};
  EXPECT_THAT(
      CatalogWarnings(catalog, run::kToday),
      ElementsAre("types[1].spot[0] (g3.4xlarge): spot costs 1.2 USD/h, more than on-demand at "
                  "1.14"));
}

TEST(CatalogViewTest, ACatalogWithoutSpotPricesIsAWarning) {
  proto::Catalog catalog = Sample();
  catalog.types.erase(catalog.types.begin(), catalog.types.begin() + 2);
  EXPECT_THAT(
      CatalogWarnings(catalog, run::kToday), ElementsAre(HasSubstr("no type has a spot price")));
  EXPECT_THAT(
      CatalogWarnings(catalog, "2026-07-01").at(0), HasSubstr("of 2026-07-20, 19 days from now"));
}

TEST(CatalogViewTest, NamesFromFilesAreMadePrintable) {
  proto::Catalog catalog = Sample();
  catalog.types[0].name = "a\x1b[2J";
  EXPECT_THAT(RenderCatalog(catalog, "price", run::kToday, 0), Not(HasSubstr("\x1b")));
}

TEST(CatalogViewTest, DaysAreCountedAcrossMonthsAndLeapYears) {
  EXPECT_EQ(run::DaysBetween("2024-02-28", "2024-03-01"), 2);
  EXPECT_EQ(run::DaysBetween("2025-12-31", "2026-01-01"), 1);
  EXPECT_EQ(run::DaysBetween("2026-01-02", "2026-01-01"), -1);
  EXPECT_EQ(run::DayOf(1'706'702'400'000'000), "2024-01-31");
  EXPECT_EQ(run::DayOf(0), "1970-01-01");
}

}  // namespace
}  // namespace ps::psctl
