#include "ps/proto/fleet_messages.h"

#include <fmt/format.h>

#include "ps/proto/mode_messages.h"

namespace ps::proto {

std::string_view AskerName(Asker asker) {
  constexpr std::string_view kNames[] = {"psctl", "plan", "policy", "replay"};
  return kNames[static_cast<size_t>(asker)];
}

std::string ModeText(const ModeChoice& mode) {
  const std::string_view name = ModeName(mode.mode);
  return mode.mode == Mode::kSsp ? fmt::format("{}:{}", name, mode.staleness_max)
                                 : std::string(name);
}

std::string SharesText(const std::vector<uint32_t>& shares) {
  return shares.empty() ? "even" : fmt::format("{}", fmt::join(shares, ":"));
}

}  // namespace ps::proto
