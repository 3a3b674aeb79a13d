#include "provisioner/planner/vcpu_quotas.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ps/base/text.h"

namespace ps::provisioner {
namespace {

const char* MarketText(proto::Market market) {
  return market == proto::Market::kSpot ? "spot" : "on demand";
}

std::optional<int> VcpusOf(
    const proto::Catalog& catalog,
    const PlanSetup& setup,
    const std::string& family,
    proto::Market market) {
  if (family.empty()) {
    return std::nullopt;
  }
  for (const FamilyQuota& given : setup.vcpu_quotas) {
    if (given.family == family && given.market == market) {
      return given.vcpus;
    }
  }
  const auto known = std::ranges::find(catalog.vcpu_quotas, family, &proto::VcpuQuota::family);
  if (known == catalog.vcpu_quotas.end()) {
    return std::nullopt;
  }
  const int vcpus = market == proto::Market::kSpot ? known->spot_vcpus : known->on_demand_vcpus;
  return vcpus >= 0 ? std::optional(vcpus) : std::nullopt;
}

Status CheckFamilies(const proto::Catalog& catalog, const PlanSetup& setup) {
  for (const FamilyQuota& given : setup.vcpu_quotas) {
    std::set<std::string> families;
    for (const proto::InstanceType& type : catalog.types) {
      families.insert(type.quota_family);
      if (type.quota_family == given.family && type.vcpus == 0) {
        return Status::InvalidArgument(fmt::format(
            "quota of vCPUs of {}: the catalog does not say those of {} (vcpus)",
            Printable(given.family),
            type.name));
      }
    }
    families.erase("");
    if (!families.contains(given.family)) {
      return Status::InvalidArgument(fmt::format(
          "quota of vCPUs of {}, a family that no type of the catalog is of (quota_family); {}",
          Printable(given.family),
          families.empty()
              ? "it has none"
              : "there are " + Join(std::vector<std::string>(families.begin(), families.end()))));
    }
    if (given.vcpus < 0) {
      return Status::InvalidArgument(
          fmt::format("quota of vCPUs of {} below 0", Printable(given.family)));
    }
  }
  return Status::Ok();
}

}  // namespace

std::optional<int> CountOf(const std::vector<TypeCount>& counts, const std::string& type) {
  const auto found = std::ranges::find(counts, type, &TypeCount::instance_type);
  return found == counts.end() ? std::nullopt : std::optional(found->count);
}

int QuotaOf(
    const proto::Catalog& catalog,
    const PlanSetup& setup,
    const proto::InstanceType& type,
    proto::Market market) {
  if (const std::optional<int> given = CountOf(setup.quotas, type.name); given) {
    return *given;
  }
  const std::optional<int> vcpus = VcpusOf(catalog, setup, type.quota_family, market);
  if (!vcpus || type.vcpus == 0) {
    return type.quota;
  }
  const int most = *vcpus / type.vcpus;
  return type.quota_is_guess ? most : std::min(most, type.quota);
}

Status AddVcpuQuotas(const proto::Catalog& catalog, const PlanSetup& setup, PlanProblem* problem) {
  PS_TRY(CheckFamilies(catalog, setup));
  const auto index_of = [&](const std::string& family, proto::Market market) {
    const std::optional<int> vcpus = VcpusOf(catalog, setup, family, market);
    if (!vcpus) {
      return -1;
    }
    std::vector<VcpuQuota>& all = problem->vcpu_quotas;
    const auto found = std::ranges::find_if(
        all, [&](const VcpuQuota& some) { return some.family == family && some.market == market; });
    if (found != all.end()) {
      return static_cast<int>(found - all.begin());
    }
    all.push_back({family, market, *vcpus});
    return static_cast<int>(all.size()) - 1;
  };
  for (Offer& offer : problem->offers) {
    const auto k = static_cast<size_t>(offer.worker_class);
    const proto::InstanceType* const type = catalog.Find(problem->speed->classes()[k].name);
    offer.vcpu_quota = index_of(type->quota_family, offer.market);
  }
  for (ServerOffer& server : problem->servers) {
    const proto::InstanceType* const type = catalog.Find(server.instance_type);
    server.vcpu_quota = index_of(type->quota_family, proto::Market::kOnDemand);
  }
  return Status::Ok();
}

std::vector<std::string> QuotaNotes(
    const proto::Catalog& catalog, const PlanSetup& setup, const proto::Plan& plan) {
  std::vector<std::string> guesses;
  std::map<std::pair<std::string, proto::Market>, int> vcpus;
  const auto see = [&](const std::string& name, proto::Market market, int count) {
    const proto::InstanceType* const type = catalog.Find(name);
    if (type == nullptr || !type->quota_is_guess || CountOf(setup.quotas, name) ||
        VcpusOf(catalog, setup, type->quota_family, market)) {
      return;
    }
    if (std::ranges::count(guesses, name) == 0) {
      guesses.push_back(name);
    }
    if (!type->quota_family.empty() && type->vcpus > 0) {
      vcpus[{type->quota_family, market}] += count * type->vcpus;
    }
  };
  for (const proto::PlanWorkers& workers : plan.workers) {
    see(workers.instance_type, workers.market, workers.count);
  }
  see(plan.servers.instance_type, proto::Market::kOnDemand, plan.servers.count);
  std::vector<std::string> notes;
  if (!guesses.empty()) {
    std::string counted;
    for (const auto& [family, sum] : vcpus) {
      counted += fmt::format(
          "{}{} of {}, {}",
          counted.empty() ? "" : "; ",
          sum,
          family.first,
          MarketText(family.second));
    }
    notes.push_back(
        "quotas are a guess: " + Join(guesses) + "; " +
        (counted.empty() ? "give yours with --quota TYPE=COUNT"
                         : "the provider counts vCPUs by family, of which this takes " + counted +
                               ": give yours with --quota-vcpus FAMILY=VCPUS"));
  }
  // What a core of ours moved by TLS (docs/measurements/exchange.md), half of it a vCPU.
  constexpr double kGbitPerVcpu = 2.5;
  const proto::InstanceType* const host = catalog.Find(plan.servers.instance_type);
  if (host != nullptr && catalog.server_gbit_per_vcpu == 0 && host->vcpus > 0 &&
      host->network_gbit_per_s > kGbitPerVcpu * host->vcpus) {
    notes.push_back(fmt::format(
        "{} counts as fast a server as its network, {:.4g} Gbit/s, with {}: whether they keep it "
        "up "
        "is not known (server_gbit_per_vcpu of the catalog)",
        host->name,
        host->network_gbit_per_s,
        Plural(static_cast<uint64_t>(host->vcpus), "vCPU")));
  }
  return notes;
}

}  // namespace ps::provisioner
