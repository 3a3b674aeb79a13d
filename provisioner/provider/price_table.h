#pragma once

#include <string>
#include <vector>

#include "provisioner/provider/provider.h"

namespace ps::provisioner {

/// Spot prices as lines of zone, type, product, price and time with tabs between them: the form in
/// which histories are published, and which ImportCatalog takes as "spot-tsv". Prices of pools that
/// are not spot, or of 0, are left out.
std::string SpotPriceTable(const std::vector<PoolPrice>& prices);

}  // namespace ps::provisioner
