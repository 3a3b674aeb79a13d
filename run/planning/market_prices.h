#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ps/proto/files/catalog.h"
#include "ps/proto/fleet_policy.h"

namespace ps::run {

// What machines cost now, in place of what a catalog says of another day. Pure.

/// A type that the market has spot prices of is sold in their zones alone, at these prices of the
/// day `today`; how long it lives there is as the catalog has it for that zone, or else for its
/// cheapest one. Types that the catalog does not have are passed over.
void TakeMarketPrices(
    const std::vector<proto::MarketPrice>& prices,
    const std::string& today,
    proto::Catalog* catalog);

/// Tells when prices have moved far enough for another plan, so that each wiggle asks for none.
class PriceWatch {
 public:
  /// A share of a price, compared with that when the mark changed last.
  static constexpr double kMoveMin = 0.1;

  /// A number that changes when a price has moved so far, up or down, or another one is told.
  uint64_t Mark(const std::vector<proto::MarketPrice>& prices);

 private:
  using Pool = std::pair<std::pair<std::string, std::string>, bool>;  // type and zone, spot

  std::map<Pool, double> at_mark_;
  uint64_t mark_ = 0;
};

}  // namespace ps::run
