#include "run/planning/market_prices.h"

#include <algorithm>
#include <cmath>

#include "provisioner/planner/plan_setup.h"

namespace ps::run {
namespace {

/// As the catalog has it in that zone, or else where it is cheapest.
proto::SpotPrice SoldIn(
    const proto::InstanceType& type, const std::string& zone, const std::string& today) {
  const auto same = std::ranges::find(type.spot, zone, &proto::SpotPrice::zone);
  proto::SpotPrice price;
  if (same != type.spot.end()) {
    price = *same;
  } else if (!type.spot.empty()) {
    price = *provisioner::LowestSpot(type);
  }
  price.zone = zone;
  price.is_estimate = false;
  price.as_of = today.empty() ? price.as_of : today;
  return price;
}

}  // namespace

void TakeMarketPrices(
    const std::vector<proto::MarketPrice>& prices,
    const std::string& today,
    proto::Catalog* catalog) {
  for (proto::InstanceType& type : catalog->types) {
    std::vector<proto::SpotPrice> spot;
    for (const proto::MarketPrice& price : prices) {
      if (price.type != type.name || !(price.usd_per_hour > 0)) {
        continue;
      }
      if (price.is_spot) {
        spot.push_back(SoldIn(type, price.zone, today));
        spot.back().usd_per_hour = price.usd_per_hour;
      } else {
        type.on_demand_usd_per_hour = price.usd_per_hour;
      }
    }
    if (!spot.empty()) {
      type.spot = std::move(spot);
    }
  }
}

uint64_t PriceWatch::Mark(const std::vector<proto::MarketPrice>& prices) {
  std::map<Pool, double> now;
  for (const proto::MarketPrice& price : prices) {
    now[{{price.type, price.zone}, price.is_spot}] = price.usd_per_hour;
  }
  const auto is_near = [](const auto& a, const auto& b) {
    return a.first == b.first && std::abs(a.second - b.second) < kMoveMin * a.second;
  };
  if (!std::ranges::equal(at_mark_, now, is_near)) {
    at_mark_ = std::move(now);
    ++mark_;
  }
  return mark_;
}

}  // namespace ps::run
