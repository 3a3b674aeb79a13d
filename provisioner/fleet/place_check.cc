#include "provisioner/fleet/place_check.h"

#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/fleet/agent_process.h"
#include "provisioner/fleet/launch_check.h"
#include "provisioner/fleet/ssh_agent.h"
#include "ps/base/file.h"
#include "ps/base/text.h"
#include "ps/base/unique_fd.h"

namespace ps::provisioner {
namespace {

namespace fs = std::filesystem;

/// A file in the folder of a job's checkpoints, or in the nearest one above it that there is, for
/// as long as this object lives.
class Marker {
 public:
  static Result<Marker> Make(const proto::JobConfig& config) {
    const std::string& path = config.checkpoint.path;
    std::error_code error;
    fs::path folder = fs::absolute(path.empty() ? config.run.directory : path, error);
    while (!fs::is_directory(folder, error) && folder.has_relative_path()) {
      folder = folder.parent_path();
    }
    Marker marker;
    marker.file_ = (folder / ".spotps-check-XXXXXX").string();
    const UniqueFd fd(::mkstemp(marker.file_.data()));
    if (!fd.is_open()) {
      marker.file_.clear();
      return IoError("cannot make a file in", folder.string());
    }
    return marker;
  }

  Marker(Marker&& other) noexcept : file_(std::exchange(other.file_, "")) {}

  Marker& operator=(Marker&&) = delete;

  ~Marker() {
    if (!file_.empty()) {
      ::unlink(file_.c_str());
    }
  }

  const std::string& file() const { return file_; }

 private:
  Marker() = default;

  std::string file_;
};

Status CheckHost(const proto::JobConfig& config, const std::string& host, Duration limit) {
  const bool is_shared = config.checkpoint.enabled;
  std::optional<Marker> marker;
  std::string question = "echo there";
  if (is_shared) {
    PS_ASSIGN(Marker made, Marker::Make(config));
    marker.emplace(std::move(made));
    question = "test -e " + ShellQuoted({marker->file()}) + " && echo there || echo absent";
  }
  std::vector<std::string> words = SshWords(host, config.launch.ssh_config, limit);
  words.push_back("exec /bin/sh -c " + ShellQuoted({question}));
  const Result<std::string> answer = RunCommand(words, "", limit);
  if (!answer.ok()) {
    return Status::Unavailable(fmt::format(
        "no server can be started on {} of servers.hosts: {}; try: ssh {} true",
        host,
        answer.status().message(),
        host));
  }
  if (LastLineOf(*answer) == "there") {
    return Status::Ok();
  }
  return Status::Unavailable(fmt::format(
      "{} of servers.hosts does not have this machine's folder {}, and servers write checkpoints "
      "there; set checkpoint.path to a folder that all machines share under one path, or "
      "checkpoint.enabled to false",
      host,
      fs::path(marker->file()).parent_path().string()));
}

Status CheckSlurm(const proto::JobConfig& config, Duration limit) {
  std::vector<std::string> words = {
      "sbatch",
      "--test-only",
      "--ntasks=1",
      fmt::format("--cpus-per-task={}", config.servers.shards_per_server)};
  for (std::string& word : LaunchWords(config.servers.sbatch, "", 0)) {
    words.push_back(std::move(word));
  }
  const Status status = RunCommand(words, "#!/bin/sh\ntrue\n", limit).status();
  return status.ok()
             ? status
             : Status::Unavailable(fmt::format(
                   "Slurm would take no server: {}; mend servers.sbatch", status.message()));
}

}  // namespace

Status CheckServerPlaces(const proto::JobConfig& config, Duration limit) {
  switch (config.servers.launcher) {
    case proto::LauncherKind::kLocal:
      return Status::Ok();
    case proto::LauncherKind::kSlurm:
      return CheckSlurm(config, limit);
    case proto::LauncherKind::kSsh:
      break;
  }
  for (const proto::HostConfig& host : config.servers.hosts) {
    PS_TRY(CheckHost(config, host.host, limit));
  }
  return Status::Ok();
}

}  // namespace ps::provisioner
