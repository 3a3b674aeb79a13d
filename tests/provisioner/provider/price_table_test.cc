#include "provisioner/provider/price_table.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "provisioner/catalog/catalog_import.h"
#include "ps/base/file.h"
#include "ps/proto/files/catalog.h"

namespace ps::provisioner {
namespace {

TEST(PriceTableTest, TheCatalogTakesTheNewestPriceOfEachZone) {
  const auto text = ReadFile("configs/catalog/aws.json");
  ASSERT_TRUE(text.ok()) << text.status();
  const auto catalog = proto::ParseCatalog(*text, "aws.json");
  ASSERT_TRUE(catalog.ok()) << catalog.status();
  const Pool pool = {.type = "g4dn.xlarge", .zone = "us-east-1b", .is_spot = true};
  Pool stable = pool;
  stable.is_spot = false;
  const int64_t day_us = 86'400'000'000;
  const std::vector<PoolPrice> prices = {
      {.pool = pool, .usd_per_hour = 0.1, .since_us = 20'000 * day_us},
      {.pool = pool, .usd_per_hour = 0.1234, .since_us = 20'700 * day_us},
      {.pool = stable, .usd_per_hour = 9, .since_us = 20'701 * day_us},
      {.pool = pool, .usd_per_hour = 0, .since_us = 20'702 * day_us}};
  const std::string table = SpotPriceTable(prices);
  EXPECT_EQ(
      table,
      "us-east-1b\tg4dn.xlarge\tLinux/UNIX\t0.1\t2024-10-04T00:00:00Z\n"
      "us-east-1b\tg4dn.xlarge\tLinux/UNIX\t0.1234\t2026-09-04T00:00:00Z\n");
  const ImportFile file = {.name = "ec2", .text = table, .as_of = {}};
  const auto imported = ImportCatalog(
      *catalog, std::span(&file, 1), {.format = "spot-tsv", .provider = {}, .region = {}});
  ASSERT_TRUE(imported.ok()) << imported.status();
  for (const proto::InstanceType& type : imported->catalog.types) {
    if (type.name == pool.type) {
      ASSERT_EQ(type.spot.size(), 1U) << "estimates of the region have gone";
      EXPECT_EQ(type.spot.front().zone, "us-east-1b");
      EXPECT_EQ(type.spot.front().usd_per_hour, 0.1234);
      EXPECT_EQ(type.spot.front().as_of, "2026-09-04");
    }
  }
}

}  // namespace
}  // namespace ps::provisioner
