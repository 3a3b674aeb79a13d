#include "psctl/remote/head_job.h"

#include "provisioner/fleet/agent_process.h"

namespace ps::psctl {
namespace {

constexpr const char* kSetup = "setup";
constexpr const char* kSshConfig = "ssh_config";
constexpr const char* kRuns = "runs";
constexpr const char* kListen = "0.0.0.0";

}  // namespace

bool IsInBucket(const std::string& place) {
  return place.find("://") != std::string::npos;
}

HeadJob HeadJobOf(proto::JobConfig config, const std::string& private_address) {
  HeadJob job;
  const auto take_along = [&job](std::string* path, const char* name) {
    if (!path->empty() && !IsInBucket(*path)) {
      job.files.emplace_back(*path, name);
      *path = name;
    }
  };
  take_along(&config.launch.rent.setup, kSetup);
  take_along(&config.launch.ssh_config, kSshConfig);
  take_along(&config.model.from, "model_from.safetensors");
  config.checkpoint.path.clear();
  config.launch.rent.head = {};
  config.launch.rent.private_address = true;
  config.run.directory = kRuns;
  config.run.listen = kListen;
  config.run.advertise = private_address;
  job.text = proto::PrintJobConfig(config);
  return job;
}

std::string SettingsOnHead(
    const proto::JobConfig& config,
    const std::string& private_address,
    const std::vector<std::string>& changes) {
  std::string words;
  for (const std::string& change : changes) {
    if (!change.starts_with("launch.rent.head.")) {
      words += " " + provisioner::ShellQuoted({change});
    }
  }
  const auto add = [&words](const std::string& key, const std::string& value) {
    words += " " + provisioner::ShellQuoted({key + "=" + value});
  };
  const auto add_file = [&words](
                            const std::string& key, const std::string& path, const char* name) {
    if (!path.empty()) {
      words += " " + key + "=\"$PWD\"/" + name;
    }
  };
  add("run.directory", kRuns);
  add("run.listen", kListen);
  add("run.advertise", private_address);
  add("launch.rent.private_address", "true");
  add_file("launch.rent.setup", config.launch.rent.setup, kSetup);
  add_file("launch.ssh_config", config.launch.ssh_config, kSshConfig);
  return "--set" + words;
}

}  // namespace ps::psctl
