#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ps/proto/catalog.h"
#include "ps/proto/plan.h"

namespace ps::psctl {

/// Prices older than this are stale.
inline constexpr int kPriceAgeDaysMax = 90;

/// "price" (per device and hour, cheapest market), "name", "device", "network".
std::vector<std::string> CatalogSortOrders();

/// The table of types and what is known of its prices' age. `today` and dates as "2026-07-20".
/// Requires: `sort` is one of CatalogSortOrders(). `width_max` 0: as wide as it is.
std::string RenderCatalog(
    const proto::Catalog& catalog,
    const std::string& sort,
    const std::string& today,
    size_t width_max);

/// Figures that are allowed but look wrong, a line each: "types[3].spot[0] (g4dn.xlarge): ...".
std::vector<std::string> CatalogWarnings(const proto::Catalog& catalog, const std::string& today);

/// What is to be known of the prices that a plan's cost is made of: estimates, and those that are
/// stale or of a day to come; a line each.
std::vector<std::string> PriceNotes(
    const proto::Catalog& catalog, const proto::Plan& plan, const std::string& today);

/// The UTC day of a time: "2026-07-20".
std::string DayOf(int64_t unix_micros);

/// From one day to another; negative when `to` is earlier.
int DaysBetween(const std::string& from, const std::string& to);

}  // namespace ps::psctl
