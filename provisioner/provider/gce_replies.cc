#include "provisioner/provider/gce_replies.h"

#include <fmt/core.h>

#include <optional>
#include <utility>

#include "provisioner/provider/gce_forms.h"
#include "provisioner/provider/request_check.h"
#include "ps/base/text.h"
#include "ps/http/date.h"

namespace ps::provisioner {
namespace {

std::optional<MachineState> GceStateOf(std::string_view name) {
  constexpr std::pair<std::string_view, MachineState> kStates[] = {
      {"PENDING", MachineState::kStarting},
      {"PROVISIONING", MachineState::kStarting},
      {"STAGING", MachineState::kStarting},
      {"REPAIRING", MachineState::kStarting},
      {"RUNNING", MachineState::kRunning},
      {"PENDING_STOP", MachineState::kEnding},
      {"STOPPING", MachineState::kEnding},
      {"SUSPENDING", MachineState::kEnding},
      {"SUSPENDED", MachineState::kEnding},
      {"STOPPED", MachineState::kEnding},
      {"TERMINATED", MachineState::kEnding},
      {"DEPROVISIONING", MachineState::kEnding}};
  for (const auto& [text, state] : kStates) {
    if (name == text) {
      return state;
    }
  }
  return std::nullopt;
}

/// What is behind the last slash of a link.
std::string LastOf(const std::string& link) {
  return link.substr(link.rfind('/') + 1);
}

/// The lists of all zones, one after another; the first failure ends it.
template <typename Read>
Status ForEachScope(const JsonValue& page, std::string_view list, const Read& read) {
  const JsonValue* const scopes =
      page.kind == JsonValue::Kind::kObject ? page.Find("items") : nullptr;
  if (scopes == nullptr) {
    return Status::Ok();
  }
  for (const JsonValue& scope : scopes->children) {
    if (scope.kind != JsonValue::Kind::kObject) {
      return Status::Corruption("a zone that is no object");
    }
    if (GceText(scope, "warning.code") == "UNREACHABLE") {
      return Status::Unavailable(
          fmt::format("{} could not be reached", Printable(Clip(scope.key, 60))));
    }
    const JsonValue* const items = scope.Find(list);
    if (items == nullptr) {
      continue;
    }
    for (const JsonValue& item : items->children) {
      PS_TRY(read(item));
    }
  }
  return Status::Ok();
}

}  // namespace

std::string GceText(const JsonValue& json, std::string_view path) {
  const JsonValue* const value = json.kind == JsonValue::Kind::kObject ? json.At(path) : nullptr;
  return value != nullptr && value->kind == JsonValue::Kind::kText ? value->text : std::string();
}

Result<GceMachine> ReadGceInstance(const JsonValue& json) {
  GceMachine read;
  Machine& machine = read.machine;
  const std::string name = GceText(json, "name");
  machine.pool.zone = LastOf(GceText(json, "zone"));
  const std::string status = GceText(json, "status");
  const std::optional<MachineState> state = GceStateOf(status);
  if (name.empty() || machine.pool.zone.empty() || !state) {
    return Status::Corruption(fmt::format(
        "an instance \"{}\" in zone \"{}\" and state \"{}\"",
        Printable(Clip(name, 80)),
        Printable(Clip(machine.pool.zone, 80)),
        Printable(Clip(status, 80))));
  }
  machine.id = machine.pool.zone + "/" + name;
  machine.token = name;
  machine.state = *state;
  machine.pool.is_spot = GceText(json, "scheduling.provisioningModel") == "SPOT";
  machine.pool.type = LastOf(GceText(json, "machineType"));
  machine.private_address = GceText(json, "networkInterfaces[0].networkIP");
  machine.address = GceText(json, "networkInterfaces[0].accessConfigs[0].natIP");
  machine.started_us = ParseRfc3339(GceText(json, "creationTimestamp")).value_or(0) * 1'000'000;
  if (!IsThere(machine.state)) {
    machine.ended_us = ParseRfc3339(GceText(json, "lastStopTimestamp")).value_or(0) * 1'000'000;
  }
  machine.why = Printable(Clip(GceText(json, "statusMessage"), 200));
  if (const JsonValue* const labels = json.Find("labels")) {
    for (const JsonValue& label : labels->children) {
      machine.tags[label.key] = label.text;
    }
  }
  if (const auto it = machine.tags.find(std::string(kGceTypeTag)); it != machine.tags.end()) {
    machine.pool.type = GceTypeOf(it->second);
  }
  if (const auto it = machine.tags.find(std::string(kDigestTag)); it != machine.tags.end()) {
    read.digest = it->second;
  }
  TakeOwnTags(&machine);
  return read;
}

Result<std::vector<GceMachine>> ReadGceInstances(const JsonValue& page) {
  std::vector<GceMachine> machines;
  PS_TRY(ForEachScope(page, "instances", [&](const JsonValue& item) -> Status {
    PS_ASSIGN(GceMachine machine, ReadGceInstance(item));
    machines.push_back(std::move(machine));
    return Status::Ok();
  }));
  return machines;
}

std::vector<std::string> ReadGcePreemptions(const JsonValue& page) {
  std::vector<std::string> ids;
  ForEachScope(page, "operations", [&](const JsonValue& item) -> Status {
    const std::string link = GceText(item, "targetLink");
    const std::string zone = LastOf(GceText(item, "zone"));
    if (GceText(item, "operationType") == "compute.instances.preempted" && !link.empty()) {
      ids.push_back(zone + "/" + LastOf(link));
    }
    return Status::Ok();
  }).Ignore("a zone that is away tells of its preemptions later");
  return ids;
}

}  // namespace ps::provisioner
