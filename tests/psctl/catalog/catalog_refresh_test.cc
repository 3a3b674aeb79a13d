#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ps/proto/files/catalog.h"
#include "psctl/plan/catalog_refresh_command.h"
#include "run/planning/planning_files.h"
#include "tests/psctl/command_fixture.h"

namespace ps::psctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// Tells the prices that it was given, of the types that it is asked for.
class PriceTeller final : public provisioner::Provider {
 public:
  std::string_view name() const override { return "ec2"; }

  provisioner::RentReply Rent(const provisioner::RentRequest& /*request*/) override { return {}; }

  provisioner::ListReply List(const std::map<std::string, std::string>& /*tags*/) override {
    return {};
  }

  provisioner::CallEnd Release(const std::vector<std::string>& /*ids*/) override { return {}; }

  provisioner::CallEnd Tidy(const std::map<std::string, std::string>& /*tags*/) override {
    return {};
  }

  std::vector<provisioner::CheckLine> Check(const provisioner::RentRequest& /*request*/) override {
    return {};
  }

  provisioner::PriceReply Prices(
      const std::vector<provisioner::Pool>& pools, int64_t since_us) override {
    calls_.push_back(pools.size());
    since_us_ = since_us;
    provisioner::PriceReply reply;
    reply.end = end_;
    for (const provisioner::Pool& pool : pools) {
      EXPECT_TRUE(pool.is_spot && pool.zone.empty()) << "in every zone";
      for (const provisioner::PoolPrice& price : prices_) {
        if (price.pool.type == pool.type) {
          reply.prices.push_back(price);
        }
      }
    }
    return reply;
  }

  std::vector<provisioner::PoolPrice> prices_;
  provisioner::CallEnd end_;
  std::vector<size_t> calls_;
  int64_t since_us_ = 0;
};

class CatalogRefreshTest : public CommandFixture {
 protected:
  static provisioner::PoolPrice Price(const char* type, const char* zone, double usd) {
    return {
        .pool = {.type = type, .zone = zone, .is_spot = true},
        .usd_per_hour = usd,
        .since_us = 20'700LL * 86'400'000'000};
  }

  proto::Catalog catalog_ = *run::LoadCatalog("");
  PriceTeller teller_;
  std::vector<std::string> notes_;
};

TEST_F(CatalogRefreshTest, PricesOfEachZoneTakeThePlaceOfEstimates) {
  teller_.prices_ = {
      Price("g4dn.xlarge", "us-east-1a", 0.21), Price("g4dn.xlarge", "us-east-1b", 0.2)};
  const auto fresh = RefreshedCatalog(catalog_, &teller_, 77, &notes_);
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  EXPECT_EQ(teller_.since_us_, 77);
  ASSERT_EQ(fresh->types.size(), catalog_.types.size()) << "no type is lost";
  for (const proto::InstanceType& type : fresh->types) {
    if (type.name == "g4dn.xlarge") {
      ASSERT_EQ(type.spot.size(), 2U);
      EXPECT_EQ(type.spot[0].usd_per_hour, 0.21);
      EXPECT_EQ(type.spot[1].zone, "us-east-1b");
      EXPECT_FALSE(type.spot[1].is_estimate);
      EXPECT_EQ(type.spot[1].as_of, "2026-09-04");
    }
  }
  ASSERT_FALSE(notes_.empty());
  EXPECT_THAT(notes_.front(), HasSubstr("that of the catalog stays: "));
  EXPECT_THAT(notes_.front(), Not(HasSubstr("g4dn.xlarge,")));
  EXPECT_TRUE(proto::ParseCatalog(proto::PrintCatalog(*fresh), "fresh").ok());
}

TEST_F(CatalogRefreshTest, WhoTellsNothingOrFailsIsSaid) {
  EXPECT_EQ(
      RefreshedCatalog(catalog_, &teller_, 0, &notes_).status().code(), StatusCode::kNotFound);
  teller_.end_ = {.fault = provisioner::CallFault::kDenied, .message = "no permission"};
  const auto failed = RefreshedCatalog(catalog_, &teller_, 0, &notes_);
  EXPECT_EQ(failed.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(failed.status().message(), "no permission");
}

TEST_F(CatalogRefreshTest, ProvidersThatTellNoPricesAreNamed) {
  EXPECT_EQ(Run({"catalog", "refresh", "gce"}), run::kExitMisused);
  EXPECT_THAT(err_, HasSubstr("ec2"));
}

}  // namespace
}  // namespace ps::psctl
