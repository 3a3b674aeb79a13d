#include "provisioner/provider/gce_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "provisioner/provider/gce_forms.h"
#include "provisioner/provider/gce_replies.h"
#include "provisioner/provider/request_check.h"
#include "ps/base/text.h"
#include "ps/http/url.h"

namespace ps::provisioner {
namespace {

double NumberAt(const JsonValue& json, std::string_view path) {
  const JsonValue* const value = json.kind == JsonValue::Kind::kObject ? json.At(path) : nullptr;
  double number = 0;
  if (value != nullptr && value->kind == JsonValue::Kind::kNumber) {
    std::from_chars(value->text.data(), value->text.data() + value->text.size(), number);
  }
  return number;
}

/// "NVIDIA_T4_GPUS" of "nvidia-tesla-t4".
std::string DeviceMetric(std::string device) {
  for (const std::string_view beginning : {"nvidia-tesla-", "nvidia-"}) {
    if (device.starts_with(beginning)) {
      device.erase(0, beginning.size());
    }
  }
  std::transform(device.begin(), device.end(), device.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  return "NVIDIA_" + device + "_GPUS";
}

/// What is asked only here: who may not, may rent all the same.
constexpr std::string_view kLooks[] = {
    "compute.images.get",
    "compute.machineTypes.get",
    "compute.networks.get",
    "compute.regions.get",
    "compute.subnetworks.get"};

/// Quotas of the project, which new ones have few of.
constexpr const char* kEverywhere = "all regions";

class GceChecker {
 public:
  GceChecker(const RentRequest& request, GceClient* client) : request_(request), client_(client) {}

  std::vector<CheckLine> All() {
    const GceReply project = client_->Do({.permission = "compute.projects.get"});
    Tell("credentials", project.end, "project " + client_->project());
    if (!project.end.ok()) {
      return std::move(lines_);
    }
    replies_[kEverywhere] = project;
    CheckPermissions();
    CheckImage();
    CheckNetwork();
    for (const Pool& pool : request_.pools) {
      CheckPool(pool);
    }
    for (const Quota& quota : quotas_) {
      CheckQuota(quota);
    }
    return std::move(lines_);
  }

 private:
  /// The machines of the request that count for a quota, and how much one of each takes.
  struct Quota {
    std::string region;
    std::string metric;
    std::vector<std::pair<Pool, double>> needed;
  };

  void Tell(
      std::string what,
      CallEnd end,
      std::string finding = "",
      std::vector<Pool> pools = {},
      std::optional<uint64_t> room = {}) {
    lines_.push_back(
        {.what = std::move(what),
         .end = end,
         .finding = end.ok() ? std::move(finding) : std::string(),
         .pools = std::move(pools),
         .room = room});
  }

  void CheckPermissions() {
    const GceReply reply = client_->HeldPermissions(GcePermissions());
    if (!reply.end.ok()) {
      return Tell("permissions", reply.end);
    }
    std::set<std::string> held;
    if (const JsonValue* const list = reply.json.Find("permissions")) {
      for (const JsonValue& permission : list->children) {
        held.insert(permission.text);
      }
    }
    for (const std::string& permission : GcePermissions()) {
      const CallEnd none = {
          .fault = CallFault::kDenied,
          .message = fmt::format("{} is missing in project {}", permission, client_->project())};
      const bool is_look = std::ranges::find(kLooks, permission) != std::end(kLooks);
      Tell(
          (is_look ? "look-up permission " : "permission ") + permission,
          held.contains(permission) ? CallEnd{} : none);
    }
  }

  /// "projects/P/global/..." of another project, or a path within this one.
  GceReply Look(std::string path, const std::string& permission) {
    std::string project;
    constexpr std::string_view kProjects = "projects/";
    if (const size_t at = path.find(kProjects); at != std::string::npos) {
      const size_t begin = at + kProjects.size();
      const size_t end = std::min(path.find('/', begin), path.size());
      project = path.substr(begin, end - begin);
      path = path.substr(std::min(end + 1, path.size()));
    }
    return client_->Do(
        {.path = PercentEncoded(path, true), .permission = permission, .project = project});
  }

  /// What another project has may be used, and not be looked at.
  void TellOfLook(std::string what, const GceReply& reply, std::vector<Pool> pools) {
    const bool is_hidden = reply.end.fault == CallFault::kDenied;
    Tell(
        std::move(what),
        is_hidden ? CallEnd{} : reply.end,
        is_hidden ? "not looked at: " + reply.end.message : GceText(reply.json, "name"),
        std::move(pools));
  }

  void CheckImage() {
    const std::string& image = request_.setup.image;
    const GceReply reply = Look(image, "compute.images.get");
    TellOfLook("image " + Printable(image), reply, {});
  }

  /// The network is the default one, or one subnet, which has the same name in each region.
  void CheckNetwork() {
    const std::string& subnet = request_.setup.subnet;
    if (subnet.empty()) {
      return CheckNetworkAt("global/networks/default", "compute.networks.get", {});
    }
    if (subnet.find('/') != std::string::npos) {
      return CheckNetworkAt(subnet, "compute.subnetworks.get", {});
    }
    std::map<std::string, std::vector<Pool>> pools_of;
    for (const Pool& pool : request_.pools) {
      pools_of[GceRegion(pool.zone)].push_back(pool);
    }
    for (auto& [region, pools] : pools_of) {
      CheckNetworkAt(
          fmt::format("regions/{}/subnetworks/{}", region, subnet),
          "compute.subnetworks.get",
          std::move(pools));
    }
  }

  void CheckNetworkAt(
      const std::string& path, const std::string& permission, std::vector<Pool> pools) {
    const GceReply reply = Look(path, permission);
    TellOfLook("network " + Printable(path), reply, std::move(pools));
  }

  void CheckPool(const Pool& pool) {
    const std::optional<GceType> type = ParseGceType(pool.type);
    if (!type) {
      return Tell(PoolText(pool), Refused(pool.type + " is no type of Compute Engine"), "", {pool});
    }
    const GceReply reply = client_->Do(
        {.path = fmt::format("zones/{}/machineTypes/{}", PercentEncoded(pool.zone), type->machine),
         .permission = "compute.machineTypes.get"});
    CallEnd end = reply.end;
    if (end.fault == CallFault::kRefused) {
      end.message =
          fmt::format("there is no {} in {}: {}", pool.type, pool.zone, GceErrorText(reply.error));
    }
    const double cpus = NumberAt(reply.json, "guestCpus");
    Tell(PoolText(pool), end, fmt::format("{} vCPUs", cpus), {pool});
    if (end.ok()) {
      std::string device = type->accelerator;
      double devices = type->accelerators;
      if (device.empty()) {
        device = GceText(reply.json, "accelerators[0].guestAcceleratorType");
        devices = NumberAt(reply.json, "accelerators[0].guestAcceleratorCount");
      }
      Count(pool, GceRegion(pool.zone), "CPUS", cpus);
      if (!device.empty()) {
        Count(pool, GceRegion(pool.zone), DeviceMetric(device), devices);
        Count(pool, kEverywhere, "GPUS_ALL_REGIONS", devices);
      }
    }
  }

  /// By metric. Errors: those of the region.
  const std::map<std::string, std::pair<double, double>>& UsedAndLimits(const std::string& region) {
    if (!replies_.contains(region)) {
      replies_[region] = client_->Do(
          {.path = "regions/" + PercentEncoded(region), .permission = "compute.regions.get"});
    }
    auto& used_of = used_[region];
    if (const JsonValue* const quotas = replies_[region].json.Find("quotas");
        quotas != nullptr && used_of.empty()) {
      for (const JsonValue& quota : quotas->children) {
        used_of[GceText(quota, "metric")] = {NumberAt(quota, "usage"), NumberAt(quota, "limit")};
      }
    }
    return used_of;
  }

  /// A spot machine counts where the project has a quota for those, else with all others.
  void Count(const Pool& pool, const std::string& region, const std::string& name, double needed) {
    const auto& used_of = UsedAndLimits(region);
    const auto spot = used_of.find("PREEMPTIBLE_" + name);
    const bool is_apart =
        pool.is_spot && spot != used_of.end() && (name != "CPUS" || spot->second.second != 0);
    const std::string metric = is_apart ? spot->first : name;
    const auto it = std::ranges::find_if(quotas_, [&](const Quota& quota) {
      return quota.region == region && quota.metric == metric;
    });
    Quota& quota =
        it != quotas_.end()
            ? *it
            : quotas_.emplace_back(Quota{.region = region, .metric = metric, .needed = {}});
    quota.needed.emplace_back(pool, needed);
  }

  void CheckQuota(const Quota& quota) {
    const std::string what = fmt::format("quota {} of {}", quota.metric, quota.region);
    const CallEnd& asked = replies_[quota.region].end;
    const auto& used_of = UsedAndLimits(quota.region);
    const auto it = used_of.find(quota.metric);
    if (!asked.ok() || it == used_of.end()) {
      return Tell(what, asked, "not told");
    }
    const auto& [used, limit] = it->second;
    for (const bool is_fitting : {true, false}) {
      std::vector<Pool> pools;
      const std::pair<Pool, double>* least = nullptr;
      for (const auto& entry : quota.needed) {
        if ((used + entry.second <= limit) == is_fitting) {
          pools.push_back(entry.first);
          least = least == nullptr || entry.second < least->second ? &entry : least;
        }
      }
      if (least == nullptr) {
        continue;
      }
      const std::string finding = fmt::format(
          "{} of {} in use; one {} has {}", used, limit, least->first.type, least->second);
      const CallEnd full = {
          .fault = CallFault::kQuota,
          .message = finding + "; ask for more in the console under IAM, Quotas"};
      if (is_fitting) {
        const double room = (limit - used) / std::max(least->second, 1.0);
        Tell(what, {}, finding, pools, static_cast<uint64_t>(room));
      } else {
        Tell(what, full, finding, pools);
      }
    }
  }

  const RentRequest& request_;
  GceClient* const client_;
  std::vector<CheckLine> lines_;
  std::map<std::string, GceReply> replies_;  // of regions, with their quotas
  std::map<std::string, std::map<std::string, std::pair<double, double>>> used_;  // and limits
  std::vector<Quota> quotas_;
};

}  // namespace

const std::vector<std::string>& GcePermissions() {
  static const std::vector<std::string> permissions = {
      "compute.disks.create",        "compute.disks.setLabels",
      "compute.images.get",          "compute.images.useReadOnly",
      "compute.instances.create",    "compute.instances.delete",
      "compute.instances.get",       "compute.instances.list",
      "compute.instances.setLabels", "compute.instances.setMetadata",
      "compute.instances.setTags",   "compute.machineTypes.get",
      "compute.networks.get",        "compute.projects.get",
      "compute.regions.get",         "compute.subnetworks.get",
      "compute.subnetworks.use",     "compute.subnetworks.useExternalIp",
      "compute.zoneOperations.get",  "compute.zoneOperations.list"};
  return permissions;
}

std::vector<CheckLine> CheckGce(const RentRequest& request, GceClient* client) {
  return GceChecker(request, client).All();
}

}  // namespace ps::provisioner
