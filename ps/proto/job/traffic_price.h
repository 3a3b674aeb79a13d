#pragma once

#include <cstdint>
#include <string_view>

#include "ps/proto/job/job_config.h"

namespace ps::proto {

// What bytes between a worker and the servers of a job cost, by the rules of the providers' price
// lists as they were on 2026-11-28:
//  - within a zone nothing;
//  - from one zone of a region to another each byte is charged whichever way it goes. EC2 charges
//    0.01 USD a GB twice, where it leaves and where it arrives (EC2 on-demand pricing page, "data
//    transfer within the same AWS region"; the same by a bill, duckbillgroup.com, "AWS cross-AZ
//    data transfer costs more than AWS says"). Compute Engine charges what leaves alone (VPC
//    network pricing page). `zone_usd_per_gb` is the sum of both ends, as in the catalogs;
//  - from region to region each byte is charged once, where it leaves; what arrives is free. Both
//    machines are the provider's, so again each byte costs whichever way it goes;
//  - between a region and machines elsewhere what leaves the region is charged, so pushes, and what
//    arrives is free.

/// TrafficConfig::server_zone of servers that are not at the provider.
inline constexpr std::string_view kOutside = "outside";

/// "us-east-1" of "us-east-1a", "us-central1" of "us-central1-b"; else the name itself.
std::string_view RegionOf(std::string_view zone);

/// Whether any traffic costs anything.
inline bool HasPrices(const TrafficConfig& traffic) {
  return traffic.zone_usd_per_gb > 0 || traffic.egress_usd_per_gb > 0;
}

/// US dollars for a GB (1e9 bytes).
struct TrafficPrice {
  double push_usd_per_gb = 0;  // from the worker to servers
  double pull_usd_per_gb = 0;  // the opposite

  double Usd(uint64_t pushed_bytes, uint64_t pulled_bytes) const {
    constexpr double kBytesPerGb = 1e9;
    return (push_usd_per_gb * static_cast<double>(pushed_bytes) +
            pull_usd_per_gb * static_cast<double>(pulled_bytes)) /
           kBytesPerGb;
  }
};

/// For a worker in `zone`. A zone that is not known, empty, counts as another one of the servers'
/// region: rather too much than too little.
TrafficPrice PriceOf(const TrafficConfig& traffic, std::string_view zone);

}  // namespace ps::proto
