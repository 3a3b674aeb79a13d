#include "provisioner/provider/provider.h"

#include <fmt/core.h>

#include <array>

namespace ps::provisioner {

std::string PoolText(const Pool& pool) {
  return fmt::format("{}{} in {}", pool.type, pool.is_spot ? " spot" : "", pool.zone);
}

std::string_view CallFaultName(CallFault fault) {
  static constexpr std::array<std::string_view, 9> kNames = {
      "none",
      "no stock",
      "quota",
      "throttled",
      "permission",
      "credentials",
      "token used before",
      "refused",
      "no clear answer"};
  return kNames.at(static_cast<size_t>(fault));
}

}  // namespace ps::provisioner
