#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ps/base/status.h"

namespace ps::proto {

// What can be rented, as plain values. configs/catalog.fbs is the schema and the manual of the
// file: every field here has the same name there. Validated: a Catalog made by ParseCatalog has
// finite, positive prices and rates, unique names, burst rates that are not below the lasting ones,
// a quota somewhere and a server host with a quota.

/// Share of machines that had been revoked at an age.
struct LifetimePoint {
  double hours = 0;
  double revoked = 0;

  friend bool operator==(const LifetimePoint&, const LifetimePoint&) = default;
};

/// A spot price in one zone, or in a whole region, as it stood on a day, and how long machines live
/// there.
struct SpotPrice {
  std::string zone;  // "us-east-1a"
  double usd_per_hour = 0;
  std::string as_of;         // "2022-05-31"
  bool is_estimate = false;  // worked out from a usual saving; nobody was asked this price
  std::vector<LifetimePoint> lifetimes = {};  // hours ascend, shares never fall; empty: not known
  std::string lifetimes_from = {};

  friend bool operator==(const SpotPrice&, const SpotPrice&) = default;
};

struct InstanceType {
  std::string name;    // "g4dn.4xlarge"
  std::string device;  // "T4", or "cpu" when it has no accelerator
  int devices = 1;     // accelerators that compute for one worker; 1 for cpu
  double device_memory_gib = 0;
  int vcpus = 0;
  double memory_gib = 0;
  double network_gbit_per_s = 0;        // what it keeps up
  double network_burst_gbit_per_s = 0;  // what it reaches for minutes; never below the above
  double pcie_gbyte_per_s = 0;          // host to device and back, each way; 0: no device
  double on_demand_usd_per_hour = 0;
  std::vector<SpotPrice> spot;    // empty: not sold as spot
  int quota = 0;                  // instances of it that the account may run at once
  bool quota_is_guess = false;    // nobody told
  std::string quota_family = {};  // whose vCPUs are limited together; empty: not known
  bool is_server_host = false;    // may hold parameters
  double start_up_s = 0;          // from asking for one until it is up; 0: not known
  double billing_min_s = 0;       // that one is paid for at least
  double disk_usd_per_hour = 0;   // beside either price

  friend bool operator==(const InstanceType&, const InstanceType&) = default;
};

/// USD for a GB (1e9 bytes) that goes from zone to zone, both ends' charges together.
struct TrafficPrices {
  double zone_usd_per_gb = 0;    // within the region
  double egress_usd_per_gb = 0;  // out of it
  std::string as_of = {};        // empty: not known
  std::string source = {};

  friend bool operator==(const TrafficPrices&, const TrafficPrices&) = default;
};

/// vCPUs of a family of types that the account may have at once; -1: not known.
struct VcpuQuota {
  std::string family;
  int spot_vcpus = -1;
  int on_demand_vcpus = -1;

  friend bool operator==(const VcpuQuota&, const VcpuQuota&) = default;
};

struct Catalog {
  std::string provider;  // "aws"
  std::string region;    // "us-east-1"
  std::string as_of;     // day of the on-demand prices, "2026-07-20"
  std::string source;    // where the figures are from, for people
  TrafficPrices traffic = {};
  std::vector<VcpuQuota> vcpu_quotas = {};
  double server_gbit_per_vcpu = 0;  // each way, of a server host; 0: not known
  std::vector<InstanceType> types;

  /// Null when there is none.
  const InstanceType* Find(std::string_view name) const;

  friend bool operator==(const Catalog&, const Catalog&) = default;
};

/// `file` names the text in errors. Error: kInvalidArgument, "FILE:LINE:COLUMN: what; what is
/// allowed".
Result<Catalog> ParseCatalog(std::string_view text, const std::string& file);

/// JSON that ParseCatalog reads back as the same catalog.
std::string PrintCatalog(const Catalog& catalog);

}  // namespace ps::proto
