// Text -> tree -> schema check -> values -> rules that span fields, and values -> text.

#include "ps/proto/files/catalog.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>

#include "catalog_bfbs_generated.h"
#include "ps/proto/files/file_check.h"
#include "ps/proto/files/file_schema.h"
#include "ps/proto/files/file_values.h"
#include "ps/proto/files/planning_fields.h"

namespace ps::proto {
namespace {

/// Whether "2026-02-30", which has passed the schema's pattern, is a day.
bool IsDay(const std::string& date) {
  const auto part = [&](size_t at, size_t digits) {
    unsigned value = 0;
    std::from_chars(date.data() + at, date.data() + at + digits, value);
    return value;
  };
  return std::chrono::year_month_day(
             std::chrono::year(static_cast<int>(part(0, 4))),
             std::chrono::month(part(5, 2)),
             std::chrono::day(part(8, 2)))
      .ok();
}

class Rules {
 public:
  Rules(const Catalog& catalog, const JsonValue& root, const std::string& file)
      : catalog_(catalog), root_(root), file_(file) {}

  Status Check() const {
    PS_TRY(Day("as_of", catalog_.as_of));
    PS_TRY(Traffic());
    PS_TRY(Families());
    std::map<std::string_view, size_t> names;
    for (size_t i = 0; i < catalog_.types.size(); ++i) {
      const InstanceType& type = catalog_.types[i];
      const std::string path = fmt::format("types[{}].", i);
      if (const auto [at, is_new] = names.emplace(type.name, i); !is_new) {
        return Error(
            path + "name",
            fmt::format(
                "{}name is {}, as types[{}].name; allowed: each name once",
                path,
                Quoted(type.name),
                at->second));
      }
      PS_TRY(Network(type, path));
      PS_TRY(Device(type, path));
      PS_TRY(Spot(type, path));
    }
    return Quotas();
  }

 private:
  Status Error(std::string_view path, const std::string& what) const {
    return ErrorAtPath(file_, root_, path, what);
  }

  Status Day(const std::string& path, const std::string& date) const {
    return IsDay(date) ? Status::Ok()
                       : Error(
                             path,
                             path + " is " + Quoted(date) +
                                 ", which is no day; allowed: a date such as 2026-07-20");
  }

  Status Traffic() const {
    const TrafficPrices& traffic = catalog_.traffic;
    if (!traffic.as_of.empty()) {
      return Day("traffic.as_of", traffic.as_of);
    }
    return traffic.zone_usd_per_gb == 0 && traffic.egress_usd_per_gb == 0
               ? Status::Ok()
               : Error("traffic", "traffic has prices without as_of; allowed: their day as well");
  }

  Status Families() const {
    for (size_t i = 0; i < catalog_.vcpu_quotas.size(); ++i) {
      const std::string& family = catalog_.vcpu_quotas[i].family;
      const std::string path = fmt::format("vcpu_quotas[{}].family", i);
      const auto same = std::ranges::find(catalog_.vcpu_quotas, family, &VcpuQuota::family);
      if (same - catalog_.vcpu_quotas.begin() != static_cast<std::ptrdiff_t>(i)) {
        return Error(path, path + " is " + Quoted(family) + " again; allowed: each family once");
      }
      for (size_t k = 0; k < catalog_.types.size(); ++k) {
        const InstanceType& type = catalog_.types[k];
        if (type.quota_family == family && type.vcpus == 0) {
          const std::string at = fmt::format("types[{}]", k);
          return Error(
              at,
              at + ".vcpus is 0, and vcpu_quotas limit those of its family " + Quoted(family) +
                  "; allowed: 1 or more");
        }
      }
      if (std::ranges::count(catalog_.types, family, &InstanceType::quota_family) == 0) {
        return Error(
            path,
            path + " is " + Quoted(family) +
                ", of which there is no type; allowed: the quota_family of one");
      }
    }
    return Status::Ok();
  }

  Status Network(const InstanceType& type, const std::string& path) const {
    if (type.network_burst_gbit_per_s >= type.network_gbit_per_s) {
      return Status::Ok();
    }
    return Error(
        path + "network_burst_gbit_per_s",
        path + "network_burst_gbit_per_s is " + NumberText(type.network_burst_gbit_per_s) +
            ", below network_gbit_per_s; allowed: " + NumberText(type.network_gbit_per_s) +
            " or more");
  }

  Status Device(const InstanceType& type, const std::string& path) const {
    const auto wrong = [&](const std::string& field, double value, const std::string& allowed) {
      return Error(
          path + field,
          path + field + " is " + NumberText(value) + " with device " + Quoted(type.device) +
              "; allowed: " + allowed);
    };
    const std::string more = "more than 0, or \"device\": \"cpu\"";
    if (type.device != "cpu") {
      if (type.device_memory_gib == 0) {
        return wrong("device_memory_gib", 0, more);
      }
      return type.pcie_gbyte_per_s == 0 ? wrong("pcie_gbyte_per_s", 0, more) : Status::Ok();
    }
    if (type.devices != 1) {
      return wrong("devices", type.devices, "1, or the name of the accelerator as device");
    }
    const std::string none = "0, or the name of the accelerator as device";
    if (type.device_memory_gib != 0) {
      return wrong("device_memory_gib", type.device_memory_gib, none);
    }
    return type.pcie_gbyte_per_s != 0 ? wrong("pcie_gbyte_per_s", type.pcie_gbyte_per_s, none)
                                      : Status::Ok();
  }

  Status Spot(const InstanceType& type, const std::string& path) const {
    std::map<std::string_view, size_t> zones;
    for (size_t i = 0; i < type.spot.size(); ++i) {
      const std::string at = fmt::format("{}spot[{}].", path, i);
      PS_TRY(Day(at + "as_of", type.spot[i].as_of));
      if (!zones.emplace(type.spot[i].zone, i).second) {
        return Error(
            at + "zone",
            at + "zone is " + Quoted(type.spot[i].zone) +
                ", which has a price already; allowed: each zone once in a type");
      }
      PS_TRY(Lifetimes(type.spot[i], at));
    }
    return Status::Ok();
  }

  Status Lifetimes(const SpotPrice& price, const std::string& path) const {
    for (size_t i = 1; i < price.lifetimes.size(); ++i) {
      const LifetimePoint& before = price.lifetimes[i - 1];
      const LifetimePoint& point = price.lifetimes[i];
      const std::string at = fmt::format("{}lifetimes[{}].", path, i);
      if (point.hours <= before.hours) {
        return Error(
            at + "hours",
            at + "hours is " + NumberText(point.hours) +
                ", not above the point before; allowed: more than " + NumberText(before.hours));
      }
      if (point.revoked < before.revoked) {
        return Error(
            at + "revoked",
            at + "revoked is " + NumberText(point.revoked) +
                ", below the point before; allowed: " + NumberText(before.revoked) + " to 1");
      }
    }
    return Status::Ok();
  }

  Status Quotas() const {
    const auto has_quota = [](const InstanceType& type) { return type.quota > 0; };
    const auto is_server = [](const InstanceType& type) { return type.is_server_host; };
    if (std::ranges::none_of(catalog_.types, has_quota)) {
      return Error(
          "types", "every types[].quota is 0, so nothing can be rented; allowed: one above 0");
    }
    if (std::ranges::none_of(catalog_.types, is_server)) {
      return Error(
          "types",
          "no types[].is_server_host is true, so nothing can hold the parameters; allowed: at "
          "least one");
    }
    const auto can_serve = [&](const InstanceType& type) {
      return has_quota(type) && is_server(type);
    };
    if (std::ranges::none_of(catalog_.types, can_serve)) {
      return Error(
          "types",
          "every types[].quota of those with is_server_host is 0, so nothing can hold the "
          "parameters; allowed: one above 0");
    }
    return Status::Ok();
  }

  const Catalog& catalog_;
  const JsonValue& root_;
  const std::string& file_;
};

}  // namespace

const Schema& CatalogSchema() {
  return *reflection::GetSchema(config::CatalogBinarySchema::data());
}

const InstanceType* Catalog::Find(std::string_view name) const {
  const auto found = std::ranges::find(types, name, &InstanceType::name);
  return found == types.end() ? nullptr : &*found;
}

Result<Catalog> ParseCatalog(std::string_view text, const std::string& file) {
  PS_ASSIGN(JsonValue root, ParseJson(text, file));
  PS_TRY(CheckSchema(root, CatalogSchema(), file));
  auto catalog = ReadValues<Catalog>(root, CatalogSchema());
  for (InstanceType& type : catalog.types) {
    if (type.network_burst_gbit_per_s == 0) {
      type.network_burst_gbit_per_s = type.network_gbit_per_s;
    }
  }
  PS_TRY(Rules(catalog, root, file).Check());
  return catalog;
}

std::string PrintCatalog(const Catalog& catalog) {
  return PrintValues(catalog, CatalogSchema());
}

}  // namespace ps::proto
