#include "provisioner/fleet/launch_check.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "provisioner/fleet/agent_kind.h"
#include "provisioner/fleet/cpu_groups.h"
#include "ps/base/text.h"
#include "ps/proto/fleet_actions.h"

namespace ps::provisioner {
namespace {

using proto::ProcessKind;
using proto::ProcessKindName;

bool IsProgram(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

/// As the launcher looks for it (execvp): in PATH, unless it has a slash.
bool IsCommand(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return IsProgram(name);
  }
  const char* const variable = std::getenv("PATH");
  std::string_view rest = variable != nullptr ? variable : "/bin:/usr/bin";
  while (true) {
    const std::string_view directory = rest.substr(0, rest.find(':'));
    if (IsProgram((directory.empty() ? "." : std::string(directory)) + "/" + name)) {
      return true;
    }
    if (directory.size() == rest.size()) {
      return false;
    }
    rest.remove_prefix(directory.size() + 1);
  }
}

/// What the launcher of `section` needs.
Status CheckLauncher(
    const std::string& directory, std::string_view section, proto::LauncherKind launcher) {
  const AgentKind* const kind = AgentKindOf(launcher);
  if (kind == nullptr) {
    return Status::Ok();
  }
  if (!IsProgram(directory + "/ps_agent")) {
    return Status::NotFound(
        fmt::format("there is no program {}/ps_agent; build all targets", directory));
  }
  for (const std::string& name : kind->programs()) {
    if (!IsCommand(name)) {
      return Status::NotFound(fmt::format(
          "{}.launcher is {}, and no folder of PATH has the program {}; install {}",
          section,
          kind->name(),
          name,
          kind->package()));
    }
  }
  return Status::Ok();
}

Status CheckCpuShares(const proto::JobConfig& config) {
  const bool is_asked =
      std::ranges::any_of(
          config.workers, [](const proto::WorkerGroup& group) { return group.cpu_share > 0; }) ||
      std::ranges::any_of(
          config.faults, [](const proto::FaultConfig& fault) { return fault.add.cpu_share > 0; });
  return is_asked ? CpuGroups::Find().status() : Status::Ok();
}

}  // namespace

std::string FillLaunchText(std::string_view text, std::string_view role, uint32_t index) {
  const std::string number = std::to_string(index);
  const std::array<std::pair<std::string_view, std::string>, 3> values = {{
      {"{name}", std::string(role) + number},
      {"{role}", std::string(role)},
      {"{index}", number},
  }};
  std::string filled;
  while (!text.empty()) {
    size_t taken = 1;
    std::string_view part = text.substr(0, 1);
    for (const auto& [key, value] : values) {
      if (text.starts_with(key)) {
        taken = key.size();
        part = value;
      }
    }
    filled += part;
    text.remove_prefix(taken);
  }
  return filled;
}

std::vector<std::string> LaunchWords(
    std::string_view prefix, std::string_view role, uint32_t index) {
  std::vector<std::string> words;
  while (true) {
    const size_t begin = prefix.find_first_not_of(" \t");
    if (begin == std::string_view::npos) {
      return words;
    }
    prefix.remove_prefix(begin);
    const std::string_view word = prefix.substr(0, prefix.find_first_of(" \t"));
    words.push_back(FillLaunchText(word, role, index));
    prefix.remove_prefix(word.size());
  }
}

Status CheckPrograms(const std::string& directory, const proto::JobConfig& config) {
  const proto::LaunchConfig& launch = config.launch;
  PS_TRY(CheckLauncher(directory, "launch", launch.launcher));
  PS_TRY(CheckLauncher(directory, "servers", config.servers.launcher));
  std::error_code error;
  if (!launch.ssh_config.empty() && !std::filesystem::is_regular_file(launch.ssh_config, error)) {
    return Status::NotFound(fmt::format(
        "launch.ssh_config {} is no file; allowed: a configuration file of ssh",
        Printable(launch.ssh_config)));
  }
  for (const ProcessKind kind : {ProcessKind::kServer, ProcessKind::kWorker}) {
    const std::string path = fmt::format("{}/ps_{}", directory, ProcessKindName(kind));
    if (!IsProgram(path)) {
      return Status::NotFound(fmt::format(
          "there is no program {}; build all targets, so that it lies beside psctl", path));
    }
    const std::vector<std::string> words = LaunchWords(launch.prefix, ProcessKindName(kind), 0);
    if (!words.empty() && !IsCommand(words.front())) {
      return Status::NotFound(fmt::format(
          "launch.prefix begins with '{}', {}; install it, or mend launch.prefix",
          Printable(words.front()),
          words.front().find('/') == std::string::npos ? "which no folder of PATH has as a program"
                                                       : "which is not a program"));
    }
  }
  return CheckCpuShares(config);
}

Status CheckWorkerPlaces(const proto::JobConfig& config, Duration limit) {
  const AgentKind* const kind = AgentKindOf(config.launch.launcher);
  return kind == nullptr ? Status::Ok() : kind->CheckWorkerPlaces(config, limit);
}

Status CheckServerPlaces(const proto::JobConfig& config, Duration limit) {
  const AgentKind* const kind = AgentKindOf(config.servers.launcher);
  return kind == nullptr ? Status::Ok() : kind->CheckServerPlaces(config, limit);
}

}  // namespace ps::provisioner
