#include "provisioner/provider/gce_forms.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "provisioner/provider/request_check.h"
#include "ps/crypto/sha256.h"
#include "ps/json/json_writer.h"

namespace ps::provisioner {
namespace {

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= 63 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

void WriteLabels(const RentRequest& request, const Pool& pool, JsonWriter* json) {
  json->BeginObject("labels");
  for (const auto& [name, value] : request.tags) {
    json->Field(name, value);
  }
  json->Field(kTokenTag, request.token);
  json->Field(kDigestTag, RequestDigest(request));
  json->Field(kGceTypeTag, GceTypeLabel(pool.type));
  json->EndObject();
}

void WriteScheduling(
    const MachineSetup& setup, const Pool& pool, bool has_device, JsonWriter* json) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(setup.run_max).count();
  json->BeginObject("scheduling");
  json->Field("provisioningModel", pool.is_spot ? "SPOT" : "STANDARD");
  if (pool.is_spot || seconds > 0) {
    json->Field("instanceTerminationAction", setup.keeps_disk ? "STOP" : "DELETE");
  }
  if (seconds > 0) {
    json->BeginObject("maxRunDuration");
    json->Field("seconds", fmt::format("{}", seconds));
    json->EndObject();
  }
  // Machines with devices and spot machines can't be moved to another host.
  json->Field("onHostMaintenance", pool.is_spot || has_device ? "TERMINATE" : "MIGRATE");
  json->Field("automaticRestart", false);
  json->EndObject();
}

void WriteDisk(const RentRequest& request, const Pool& pool, JsonWriter* json) {
  json->BeginList("disks");
  json->BeginObject();
  json->Field("boot", true);
  json->Field("autoDelete", true);
  json->BeginObject("initializeParams");
  json->Field("sourceImage", request.setup.image);
  if (request.setup.disk_gib > 0) {
    json->Field("diskSizeGb", fmt::format("{}", request.setup.disk_gib));
  }
  WriteLabels(request, pool, json);
  json->EndObject();
  json->EndObject();
  json->EndList();
}

void WriteNetwork(const MachineSetup& setup, const Pool& pool, JsonWriter* json) {
  json->BeginList("networkInterfaces");
  json->BeginObject();
  if (setup.subnet.empty()) {
    json->Field("network", "global/networks/default");
  } else if (setup.subnet.find('/') == std::string::npos) {
    json->Field(
        "subnetwork", fmt::format("regions/{}/subnetworks/{}", GceRegion(pool.zone), setup.subnet));
  } else {
    json->Field("subnetwork", setup.subnet);
  }
  json->BeginList("accessConfigs");
  json->BeginObject();
  json->Field("type", "ONE_TO_ONE_NAT");
  json->Field("name", "External NAT");
  json->EndObject();
  json->EndList();
  json->EndObject();
  json->EndList();
  const std::vector<std::string> tags = PartsOf(setup.security_group);
  if (!tags.empty()) {
    json->BeginObject("tags");
    json->BeginList("items");
    for (const std::string& tag : tags) {
      json->Value(tag);
    }
    json->EndList();
    json->EndObject();
  }
}

void WriteMetadata(const MachineSetup& setup, JsonWriter* json) {
  json->BeginObject("metadata");
  json->BeginList("items");
  for (const auto& [key, value] :
       {std::pair<const char*, const std::string&>("startup-script", setup.user_data),
        std::pair<const char*, const std::string&>("ssh-keys", setup.key_name)}) {
    if (!value.empty()) {
      json->BeginObject();
      json->Field("key", key);
      json->Field("value", value);
      json->EndObject();
    }
  }
  json->EndList();
  json->EndObject();
}

}  // namespace

std::optional<GceType> ParseGceType(const std::string& type) {
  GceType parsed;
  const size_t plus = type.find('+');
  parsed.machine = type.substr(0, plus);
  if (!IsName(parsed.machine)) {
    return std::nullopt;
  }
  if (plus == std::string::npos) {
    const size_t dash = type.rfind('-');
    const std::string device = type.substr(dash + 1);
    constexpr std::string_view kDevices[] = {"k80", "p4", "p100", "v100", "t4"};
    const bool has_device =
        std::find(std::begin(kDevices), std::end(kDevices), device) != std::end(kDevices);
    if (has_device) {
      parsed.machine = type.substr(0, dash);
      parsed.accelerator = "nvidia-tesla-" + device;
      parsed.accelerators = 1;
    }
    return parsed;
  }
  const size_t colon = std::min(type.find(':', plus), type.size());
  parsed.accelerator = type.substr(plus + 1, colon - plus - 1);
  const std::string count = colon == type.size() ? "1" : type.substr(colon + 1);
  const auto read = std::from_chars(count.data(), count.data() + count.size(), parsed.accelerators);
  const bool is_right = IsName(parsed.accelerator) && read.ec == std::errc() &&
                        read.ptr == count.data() + count.size() && parsed.accelerators >= 1 &&
                        parsed.accelerators <= 16;
  return is_right ? std::optional(parsed) : std::nullopt;
}

std::string GceInstance(const RentRequest& request, const Pool& pool, const std::string& project) {
  const GceType type = ParseGceType(pool.type).value_or(GceType{});
  const bool has_device =
      !type.accelerator.empty() || type.machine.starts_with("a") || type.machine.starts_with("g");
  JsonWriter json(JsonForm::kOneLine);
  json.BeginObject();
  json.Field("name", request.token);
  json.Field("machineType", fmt::format("zones/{}/machineTypes/{}", pool.zone, type.machine));
  WriteLabels(request, pool, &json);
  WriteScheduling(request.setup, pool, has_device, &json);
  WriteDisk(request, pool, &json);
  WriteNetwork(request.setup, pool, &json);
  WriteMetadata(request.setup, &json);
  if (!type.accelerator.empty()) {
    json.BeginList("guestAccelerators");
    json.BeginObject();
    json.Field(
        "acceleratorType",
        fmt::format(
            "projects/{}/zones/{}/acceleratorTypes/{}", project, pool.zone, type.accelerator));
    json.Field("acceleratorCount", type.accelerators);
    json.EndObject();
    json.EndList();
  }
  if (!request.setup.role.empty()) {
    json.BeginList("serviceAccounts");
    json.BeginObject();
    json.Field("email", request.setup.role);
    json.BeginList("scopes");
    json.Value("https://www.googleapis.com/auth/cloud-platform");
    json.EndList();
    json.EndObject();
    json.EndList();
  }
  json.EndObject();
  return std::move(json).Take();
}

std::string GceRequestId(const RentRequest& request, const Pool& pool) {
  const std::string text = fmt::format("{}/{}/{}", request.token, pool.zone, pool.type);
  std::string hex = crypto::HexOf(crypto::Sha256Of(std::as_bytes(std::span(text)))).substr(0, 32);
  hex[12] = '4';  // the version, and below the variant, that make it a UUID
  hex[16] = 'a';
  return fmt::format(
      "{}-{}-{}-{}-{}",
      hex.substr(0, 8),
      hex.substr(8, 4),
      hex.substr(12, 4),
      hex.substr(16, 4),
      hex.substr(20));
}

std::string GceTypeLabel(const std::string& type) {
  std::string label;
  for (const char c : type) {
    label += c == '+' ? "__" : std::string(1, c == ':' ? '_' : c);
  }
  return label;
}

std::string GceTypeOf(std::string_view label) {
  std::string type;
  for (size_t i = 0; i < label.size(); ++i) {
    const bool is_plus = label.substr(i, 2) == "__";
    type += is_plus ? '+' : label[i] == '_' ? ':' : label[i];
    i += is_plus ? 1 : 0;
  }
  return type;
}

std::string GceRegion(const std::string& zone) {
  return zone.substr(0, zone.rfind('-'));
}

}  // namespace ps::provisioner
