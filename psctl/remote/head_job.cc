#include "psctl/remote/head_job.h"

#include <fmt/core.h>

#include "provisioner/fleet/agent_process.h"
#include "ps/json/json_writer.h"
#include "ps/proto/job/job_trust.h"

namespace ps::psctl {

bool IsInBucket(const std::string& place) {
  return place.find("://") != std::string::npos && !place.starts_with("file://");
}

namespace {

constexpr const char* kSetup = "setup";
constexpr const char* kSshConfig = "ssh_config";
constexpr const char* kRuns = "runs";
constexpr const char* kListen = "0.0.0.0";

/// Returns the files of this machine that are to lie beside the job, and their names there.
std::vector<std::pair<std::string, std::string>> ChangeForHead(
    proto::JobConfig* config, const HeadFacts& head) {
  std::vector<std::pair<std::string, std::string>> files;
  const auto take_along = [&files](std::string* path, const char* name) {
    if (!path->empty() && !IsInBucket(*path)) {
      files.emplace_back(*path, name);
      *path = name;
    }
  };
  take_along(&config->launch.rent.setup, kSetup);
  take_along(&config->launch.ssh_config, kSshConfig);
  take_along(&config->model.from, "model_from.safetensors");
  config->checkpoint.path.clear();
  config->launch.rent.head = {};
  config->launch.rent.head.usd_per_hour = static_cast<float>(head.usd_per_hour);
  config->launch.rent.private_address = true;
  config->traffic.server_zone = head.zone;
  config->run.directory = kRuns;
  config->run.listen = kListen;
  config->run.advertise = head.private_address;
  return files;
}

/// For psctl resume on the head. The last one of a field counts.
std::string SettingsOnHead(
    proto::JobConfig config, const HeadFacts& head, const std::vector<std::string>& changes) {
  std::string words;
  const auto add = [&words](const std::string& key, const std::string& value) {
    words += " " + provisioner::ShellQuoted({key + "=" + value});
  };
  const bool has_setup = !config.launch.rent.setup.empty();
  const bool has_ssh_config = !config.launch.ssh_config.empty();
  ChangeForHead(&config, head);
  for (const proto::JobSetting& setting : proto::SettingsToTrust(config)) {
    JsonWriter json(JsonForm::kOneLine);
    json.Value(setting.value);
    add(setting.path, std::move(json).Take());
  }
  for (const std::string& change : changes) {
    if (!change.starts_with("launch.rent.head.")) {
      words += " " + provisioner::ShellQuoted({change});
    }
  }
  add("run.directory", kRuns);
  add("run.listen", kListen);
  add("run.advertise", head.private_address);
  add("launch.rent.head.usd_per_hour", fmt::format("{}", head.usd_per_hour));
  add("launch.rent.private_address", "true");
  if (!head.zone.empty()) {
    add("traffic.server_zone", head.zone);
  }
  if (has_setup) {
    words += fmt::format(" launch.rent.setup=\"$PWD\"/{}", kSetup);
  }
  if (has_ssh_config) {
    words += fmt::format(" launch.ssh_config=\"$PWD\"/{}", kSshConfig);
  }
  return words;
}

}  // namespace

HeadJob HeadJobOf(proto::JobConfig config, const HeadFacts& head) {
  HeadJob job;
  job.files = ChangeForHead(&config, head);
  job.text = proto::PrintJobConfig(config);
  return job;
}

std::string BeginWords(
    const proto::JobConfig& config,
    const HeadFacts& head,
    const run::HeadFile& file,
    const std::string& programs,
    bool has_plan) {
  const std::string psctl = programs + "/psctl";
  if (file.from.empty()) {
    return psctl + " train job.json" + (has_plan ? " --plan plan.json" : "");
  }
  std::string fetch;
  if (IsInBucket(file.from)) {
    fetch = psctl + " checkpoint copy " + kCheckpointsThere + " " +
            provisioner::ShellQuoted({file.from}) + " && ";
  }
  return fmt::format(
      "{}{} resume {}{} --set{}",
      fetch,
      psctl,
      kCheckpointsThere,
      file.is_trusted ? " --trust-launch" : "",
      SettingsOnHead(config, head, file.changes));
}

}  // namespace ps::psctl
