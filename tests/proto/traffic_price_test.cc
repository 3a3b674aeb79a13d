// What bytes between workers and servers cost, by their zones.

#include "ps/proto/job/traffic_price.h"

#include <gtest/gtest.h>

namespace ps::proto {
namespace {

TrafficConfig PricesOf(const std::string& server_zone) {
  TrafficConfig traffic;
  traffic.server_zone = server_zone;
  traffic.zone_usd_per_gb = 0.25F;
  traffic.egress_usd_per_gb = 0.5F;
  return traffic;
}

TEST(TrafficPriceTest, RegionsAreTheNamesOfTheirZonesWithoutTheirLetter) {
  EXPECT_EQ(RegionOf("us-east-1a"), "us-east-1");
  EXPECT_EQ(RegionOf("us-central1-b"), "us-central1");
  EXPECT_EQ(RegionOf("us-east-1"), "us-east-1");
  EXPECT_EQ(RegionOf("rack"), "rack");
  EXPECT_EQ(RegionOf(""), "");
}

TEST(TrafficPriceTest, AByteCostsWhereItCrossesWhicheverWayItGoes) {
  const TrafficConfig traffic = PricesOf("us-east-1a");
  EXPECT_EQ(PriceOf(traffic, "us-east-1a").Usd(8'000'000'000, 8'000'000'000), 0);
  EXPECT_DOUBLE_EQ(PriceOf(traffic, "us-east-1b").Usd(4'000'000'000, 8'000'000'000), 3);
  EXPECT_DOUBLE_EQ(PriceOf(traffic, "us-west-2a").Usd(4'000'000'000, 8'000'000'000), 6);
  EXPECT_DOUBLE_EQ(PriceOf(traffic, "").Usd(4'000'000'000, 8'000'000'000), 3)
      << "not known: rather too much";
}

TEST(TrafficPriceTest, WhatArrivesFromElsewhereIsFree) {
  const TrafficPrice price = PriceOf(PricesOf(std::string(kOutside)), "us-east-1a");
  EXPECT_DOUBLE_EQ(price.Usd(4'000'000'000, 0), 2);
  EXPECT_EQ(price.Usd(0, 8'000'000'000), 0);
}

TEST(TrafficPriceTest, WithoutPricesNothingCosts) {
  EXPECT_FALSE(HasPrices(TrafficConfig()));
  EXPECT_TRUE(HasPrices(PricesOf("")));
  EXPECT_EQ(PriceOf(TrafficConfig(), "us-east-1a").Usd(1'000'000'000, 1'000'000'000), 0);
}

}  // namespace
}  // namespace ps::proto
