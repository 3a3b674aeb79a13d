#include "ps/proto/job/job_trust.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "ps/proto/job/job_fields.h"
#include "ps/proto/job/launcher_name.h"

namespace ps::proto {
namespace {

/// Texts that start nothing and write nowhere: names, addresses that are bound, files that are read
/// as what they are said to be, and what psctl resume replaces in any case. Without indices.
constexpr auto kHarmless = std::to_array<std::string_view>({
    "name",
    "model.name",
    "model.from",        // a checkpoint has the values
    "parameters.match",  // names of tensors
    "data.directory",
    "data.validation",  // a name within the directory
    "exchange.push",
    "exchange.pull",
    "data.tokenizer",
    "data.label",
    "data.labels",
    "workers.type",
    "workers.device",
    "workers.zones",
    "faults.add.type",
    "faults.add.device",
    "faults.add.zones",
    "checkpoint.path",  // that of the checkpoints themselves
    "launch.server_listen",
    "launch.server_advertise",
    "run.directory",  // psctl resume takes its own
    "run.listen",
    "run.advertise",
    "run.page",
    "goal.profile",
    "goal.catalog",
    "provisioner.type",
    "provisioner.on_demand_type",
    "launch.rent.region",  // the image and the endpoint are asked about
    "launch.rent.zones",
    "launch.rent.types",
    "launch.rent.head.type",
    "launch.rent.user",
    "launch.hosts.zone",  // a label; the host beside it is asked about
    "servers.hosts.zone",
    "launch.zones.name",
    "traffic.server_zone",
    // What is asked for an image, and where in it. The image, the cluster and the rights of the
    // Pods are asked about.
    "launch.kubernetes.namespace",
    "launch.kubernetes.programs",
    "launch.kubernetes.memory",
    "launch.kubernetes.gpu_resource",
    "servers.kubernetes.namespace",
    "servers.kubernetes.programs",
    "servers.kubernetes.memory",
    "servers.kubernetes.gpu_resource",
});

/// "a[3].b" is "a.b".
std::string WithoutIndices(std::string_view path) {
  std::string plain;
  bool is_index = false;
  for (const char c : path) {
    is_index = c == '[' || (is_index && c != ']');
    if (!is_index && c != ']') {
      plain.push_back(c);
    }
  }
  return plain;
}

class Collector {
 public:
  explicit Collector(std::vector<JobSetting>* found) : found_(found) {}

  template <typename T>
  void Visit(const std::string& path, const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      Add(path, value);
    } else if constexpr (std::is_same_v<T, LauncherKind>) {
      if (value != LauncherKind::kLocal) {
        Add(path, LauncherName(value));
      }
    } else if constexpr (IsVector<T>::value) {
      for (size_t i = 0; i < value.size(); ++i) {
        Visit(fmt::format("{}[{}]", path, i), value[i]);
      }
    } else if constexpr (TableValue<const T>) {
      VisitFields(value, [&]<typename M>(const char* name, const M& member) {
        Visit(path.empty() ? name : fmt::format("{}.{}", path, name), member);
      });
    }
  }

 private:
  void Add(const std::string& path, std::string_view value) {
    const bool is_harmless =
        std::find(kHarmless.begin(), kHarmless.end(), WithoutIndices(path)) != kHarmless.end();
    // A folder is read; with a place in an object store go requests that are signed with keys of
    // this machine, to whatever host it names.
    const bool is_place = (path == "data.directory" || path == "data.tokenizer") &&
                          value.find("://") != std::string_view::npos;
    if (!value.empty() && (!is_harmless || is_place)) {
      found_->push_back({.path = path, .value = std::string(value)});
    }
  }

  std::vector<JobSetting>* const found_;
};

}  // namespace

std::vector<JobSetting> SettingsToTrust(const JobConfig& config) {
  std::vector<JobSetting> found;
  Collector(&found).Visit("", config);
  return found;
}

bool IsOverridden(std::string_view path, const std::vector<ConfigOverride>& overrides) {
  return std::any_of(overrides.begin(), overrides.end(), [path](const ConfigOverride& override) {
    const std::string& key = override.key;
    return path.starts_with(key) && !key.empty() &&
           (path.size() == key.size() || path[key.size()] == '.' || path[key.size()] == '[');
  });
}

}  // namespace ps::proto
