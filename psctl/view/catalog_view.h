#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ps/proto/files/catalog.h"

namespace ps::psctl {

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

}  // namespace ps::psctl
