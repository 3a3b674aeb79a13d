#include "ps/proto/job/traffic_price.h"

namespace ps::proto {

std::string_view RegionOf(std::string_view zone) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (zone.size() < 3 || !is_letter(zone.back())) {
    return zone;
  }
  const char before = zone[zone.size() - 2];
  if (is_digit(before)) {
    return zone.substr(0, zone.size() - 1);
  }
  return before == '-' && is_digit(zone[zone.size() - 3]) ? zone.substr(0, zone.size() - 2) : zone;
}

TrafficPrice PriceOf(const TrafficConfig& traffic, std::string_view zone) {
  const auto across = double{traffic.zone_usd_per_gb};
  const auto out = double{traffic.egress_usd_per_gb};
  if (traffic.server_zone == kOutside) {
    return {out, 0};
  }
  if (zone == traffic.server_zone) {
    return {};
  }
  if (zone.empty() || RegionOf(zone) == RegionOf(traffic.server_zone)) {
    return {across, across};
  }
  return {out, out};
}

}  // namespace ps::proto
