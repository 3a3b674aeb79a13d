#include "provisioner/provider/price_table.h"

#include <fmt/core.h>

#include "ps/http/date.h"
#include "ps/json/json_writer.h"

namespace ps::provisioner {

std::string SpotPriceTable(const std::vector<PoolPrice>& prices) {
  std::string table;
  for (const PoolPrice& price : prices) {
    if (price.pool.is_spot && price.usd_per_hour > 0) {
      table += fmt::format(
          "{}\t{}\tLinux/UNIX\t{}\t{}\n",
          price.pool.zone,
          price.pool.type,
          NumberText(price.usd_per_hour),
          Rfc3339Text(price.since_us / 1'000'000));
    }
  }
  return table;
}

}  // namespace ps::provisioner
