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

/// Replaces the spot prices of the catalog's types by those of the market, of the day `today`. Such
/// a type is then offered in the zones of these prices alone. Its mean life there is what the
/// catalog says of the zone, or else of its cheapest zone. Prices of other types are passed over.
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
