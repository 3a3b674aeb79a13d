#include "psctl/view/catalog_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "ps/base/text.h"
#include "ps/json/json_writer.h"
#include "run/planning/price_age.h"
#include "run/report/tables.h"

namespace ps::psctl {
namespace {

using proto::InstanceType;
using proto::SpotPrice;

double UsdPerDeviceHour(const InstanceType& type) {
  const SpotPrice* spot = run::CheapestSpot(type);
  const double usd = spot == nullptr ? type.on_demand_usd_per_hour
                                     : std::min(spot->usd_per_hour, type.on_demand_usd_per_hour);
  return usd / type.devices;
}

std::string Devices(const InstanceType& type) {
  return type.device == "cpu" ? "cpu"
                              : fmt::format("{} x {}", type.devices, Printable(type.device));
}

std::string Network(const InstanceType& type) {
  const std::string kept = NumberText(type.network_gbit_per_s);
  return type.network_burst_gbit_per_s == type.network_gbit_per_s
             ? kept
             : kept + " to " + NumberText(type.network_burst_gbit_per_s);
}

std::vector<const InstanceType*> Sorted(const proto::Catalog& catalog, const std::string& sort) {
  std::vector<const InstanceType*> types;
  for (const InstanceType& type : catalog.types) {
    types.push_back(&type);
  }
  const auto by = [&](const auto& key_of) {
    std::ranges::sort(types, {}, [&](const InstanceType* type) {
      return std::pair(key_of(*type), std::string_view(type->name));  // equal ones by name
    });
  };
  if (sort == "price") {
    by(UsdPerDeviceHour);
  } else if (sort == "device") {
    by([](const InstanceType& type) {
      return std::pair(std::string_view(type.device), type.devices);
    });
  } else if (sort == "network") {
    by([](const InstanceType& type) { return -type.network_gbit_per_s; });
  } else {
    by([](const InstanceType& /*type*/) { return 0; });
  }
  return types;
}

void AddRow(run::Table& table, const InstanceType& type) {
  const SpotPrice* spot = run::CheapestSpot(type);
  const bool has_device = type.device != "cpu";
  table.AddRow(
      {Printable(type.name),
       Devices(type),
       has_device ? NumberText(type.device_memory_gib) : "-",
       type.vcpus == 0 ? "?" : std::to_string(type.vcpus),
       Network(type),
       has_device ? NumberText(type.pcie_gbyte_per_s) : "-",
       FormatFixed(type.on_demand_usd_per_hour, 3),
       spot == nullptr ? "-" : (spot->is_estimate ? "~" : "") + FormatFixed(spot->usd_per_hour, 3),
       spot == nullptr ? "-"
                       : FormatPercent(1 - spot->usd_per_hour / type.on_demand_usd_per_hour, 0),
       FormatFixed(UsdPerDeviceHour(type), 3),
       spot == nullptr ? "-" : Printable(spot->zone),
       std::to_string(type.quota),
       type.is_server_host ? "yes" : "-"});
}

std::string AgeNote(const std::string& what, const std::string& as_of, const std::string& today) {
  const int days = run::DaysBetween(as_of, today);
  std::string text =
      what + " of " + as_of + ", " + Plural(static_cast<uint64_t>(std::abs(days)), "day");
  text += days < 0 ? " from now" : " old";
  return days > run::kPriceAgeDaysMax ? text + ": stale, look them up before you rely on them"
                                      : text;
}

struct SpotSummary {
  uint64_t prices = 0;
  uint64_t estimates = 0;
  uint64_t stale = 0;
  std::string oldest;
  std::string oldest_path;
};

SpotSummary SummarizeSpot(const proto::Catalog& catalog, const std::string& today) {
  SpotSummary summary;
  for (size_t i = 0; i < catalog.types.size(); ++i) {
    for (const SpotPrice& price : catalog.types[i].spot) {
      ++summary.prices;
      summary.estimates += price.is_estimate ? 1 : 0;
      summary.stale += run::DaysBetween(price.as_of, today) > run::kPriceAgeDaysMax ? 1 : 0;
      if (summary.oldest.empty() || price.as_of < summary.oldest) {
        summary.oldest = price.as_of;
        summary.oldest_path = fmt::format("types[{}] ({})", i, Printable(catalog.types[i].name));
      }
    }
  }
  return summary;
}

void WarnOfSpotAboveOnDemand(
    const InstanceType& type, const std::string& path, std::vector<std::string>& warnings) {
  for (size_t i = 0; i < type.spot.size(); ++i) {
    if (type.spot[i].usd_per_hour > type.on_demand_usd_per_hour) {
      warnings.push_back(fmt::format(
          "{}.spot[{}] ({}): spot costs {} USD/h, more than on-demand at {}",
          path,
          i,
          Printable(type.name),
          NumberText(type.spot[i].usd_per_hour),
          NumberText(type.on_demand_usd_per_hour)));
    }
  }
}

}  // namespace

std::vector<std::string> CatalogSortOrders() {
  return {"price", "name", "device", "network"};
}

std::string RenderCatalog(
    const proto::Catalog& catalog,
    const std::string& sort,
    const std::string& today,
    size_t width_max) {
  run::Table table(
      {{"type", run::Align::kLeft},
       {"device", run::Align::kLeft},
       {"GiB each", run::Align::kRight, 6},
       {"vCPUs", run::Align::kRight, 7},
       {"Gbit/s", run::Align::kRight, 2},
       {"PCIe GB/s", run::Align::kRight, 5},
       {"on-demand $/h"},
       {"spot $/h"},
       {"saving", run::Align::kRight, 3},
       {"$/device h", run::Align::kRight, 1},
       {"zone", run::Align::kLeft, 8},
       {"quota", run::Align::kRight, 4},
       {"server", run::Align::kLeft, 9}});
  for (const InstanceType* type : Sorted(catalog, sort)) {
    AddRow(table, *type);
  }
  const SpotSummary spot = SummarizeSpot(catalog, today);
  std::string out = Printable(catalog.provider) + " " + Printable(catalog.region) + ": " +
                    Plural(catalog.types.size(), "type") + "\n\n" + table.Render(width_max) + "\n";
  out += AgeNote("On-demand prices", catalog.as_of, today) + ".\n";
  if (spot.prices > 0) {
    out += AgeNote("Spot prices, the oldest", spot.oldest, today) + ".\n";
  }
  if (spot.estimates > 0) {
    out += "~ is an estimate, worked out from a usual saving: nobody was asked this price.\n";
  }
  return out + "Source: " + Printable(catalog.source) + "\n";
}

std::vector<std::string> CatalogWarnings(const proto::Catalog& catalog, const std::string& today) {
  std::vector<std::string> warnings;
  if (run::IsOutdated(catalog.as_of, today)) {
    warnings.push_back("as_of: " + AgeNote("on-demand prices", catalog.as_of, today));
  }
  for (size_t i = 0; i < catalog.types.size(); ++i) {
    WarnOfSpotAboveOnDemand(catalog.types[i], fmt::format("types[{}]", i), warnings);
  }
  const SpotSummary spot = SummarizeSpot(catalog, today);
  if (spot.prices == 0) {
    warnings.emplace_back("types: no type has a spot price, so plans are on-demand only");
  }
  if (spot.stale > 0) {
    warnings.push_back(fmt::format(
        "types: {} of {} older than {} days, the oldest {} of {}",
        spot.stale,
        Plural(spot.prices, "spot price"),
        run::kPriceAgeDaysMax,
        spot.oldest_path,
        spot.oldest));
  }
  if (spot.estimates > 0) {
    warnings.push_back(fmt::format(
        "types: {} of {} worked out from a usual saving (is_estimate): nobody was asked",
        spot.estimates,
        Plural(spot.prices, "spot price")));
  }
  return warnings;
}

}  // namespace ps::psctl
