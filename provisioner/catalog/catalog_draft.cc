#include "provisioner/catalog/catalog_draft.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

/// Rounds to the precision of published prices, which removes rounding errors of the arithmetic.
double RoundedPrice(double usd_per_hour) {
  return std::round(usd_per_hour * 1e6) / 1e6;
}

/// The figures that a catalog needs and the type lacks; empty when it is complete.
std::string Missing(const proto::InstanceType& type, bool has_device) {
  if (!has_device) {
    return "word on accelerators";
  }
  if (type.network_gbit_per_s == 0) {
    return "network rate";
  }
  if (type.on_demand_usd_per_hour == 0) {
    return "on-demand price";
  }
  if (type.device == "cpu") {
    return "";
  }
  if (type.device_memory_gib == 0) {
    return "accelerator memory";
  }
  return type.pcie_gbyte_per_s == 0 ? "PCIe rate" : "";
}

std::string FirstOf(const std::vector<std::string>& names) {
  constexpr size_t kNamesMax = 6;
  const std::span<const std::string> all(names);
  return Join(all.first(std::min(all.size(), kNamesMax))) + (all.size() > kNamesMax ? ", ..." : "");
}

}  // namespace

CatalogDraft::CatalogDraft(const proto::Catalog& base) {
  for (const proto::InstanceType& type : base.types) {
    Type& draft = At(type.name);
    draft.type = type;
    draft.has_device = true;
    draft.price_as_of = base.as_of;
    draft.quota = type.quota;
  }
}

CatalogDraft::Type& CatalogDraft::At(const std::string& name) {
  const auto [at, is_new] = index_.emplace(name, types_.size());
  if (is_new) {
    Type& draft = types_.emplace_back();
    draft.type.name = name;
    draft.type.device = "cpu";
  }
  return types_[at->second];
}

void CatalogDraft::SetSpot(proto::InstanceType& type, proto::SpotPrice price) {
  const auto at = std::ranges::find(type.spot, price.zone, &proto::SpotPrice::zone);
  if (at == type.spot.end()) {
    type.spot.push_back(std::move(price));
  } else if (at->is_estimate || price.as_of >= at->as_of) {
    *at = std::move(price);
  }
}

CatalogDraft::Finished CatalogDraft::Finish(const std::string& region, int quota) const {
  Finished finished;
  std::map<std::string, std::vector<std::string>> left_out;
  for (const Type& draft : types_) {
    proto::InstanceType type = draft.type;
    if (const auto memory = device_memory_.find(type.device); memory != device_memory_.end()) {
      type.device_memory_gib = memory->second;
    }
    if (const std::string missing = Missing(type, draft.has_device); !missing.empty()) {
      left_out[missing].push_back(type.name);
      continue;
    }
    type.network_burst_gbit_per_s =
        std::max(type.network_burst_gbit_per_s, type.network_gbit_per_s);
    type.on_demand_usd_per_hour = RoundedPrice(type.on_demand_usd_per_hour);
    for (proto::SpotPrice& price : type.spot) {
      price.usd_per_hour = RoundedPrice(price.usd_per_hour);
    }
    const bool has_asked = std::ranges::any_of(
        type.spot, [](const proto::SpotPrice& price) { return !price.is_estimate; });
    if (draft.saving && !has_asked) {
      const double usd = RoundedPrice(type.on_demand_usd_per_hour * (1 - *draft.saving));
      type.spot = {{region, usd, draft.saving_as_of, true}};
    }
    type.quota = draft.quota.value_or(quota);
    type.quota_is_guess = type.quota_is_guess || !draft.quota;
    type.is_server_host = type.is_server_host || type.device == "cpu";
    if (finished.as_of.empty() || draft.price_as_of < finished.as_of) {
      finished.as_of = draft.price_as_of;
    }
    finished.types.push_back(std::move(type));
  }
  for (const auto& [missing, names] : left_out) {
    finished.notes.push_back(fmt::format(
        "left out {}{} without {}: {}",
        names.size(),
        names.size() == 1 ? " type" : " types",
        missing,
        FirstOf(names)));
  }
  return finished;
}

}  // namespace ps::provisioner
