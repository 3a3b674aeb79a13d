// Hosts that OpenSSH reaches.

#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <utility>

#include "provisioner/fleet/agent_kind.h"
#include "provisioner/fleet/ssh_agent.h"
#include "ps/base/file.h"
#include "ps/base/unique_fd.h"

namespace ps::provisioner {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kBootSecondsMax = 86'400;
constexpr size_t kTokenBytesMax = size_t{16} << 10;

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

class Ssh final : public AgentKind {
 public:
  std::string_view name() const override { return "ssh"; }

  std::vector<std::string> programs() const override { return {"ssh"}; }

  std::string_view package() const override { return "openssh-client"; }

  /// That ssh gets to each of servers.hosts, and that it has this machine's folder of checkpoints.
  Status CheckServerPlaces(const proto::JobConfig& config, Duration limit) const override {
    for (const proto::HostConfig& host : config.servers.hosts) {
      PS_TRY(CheckHost(config, host.host, limit));
    }
    return Status::Ok();
  }

  bool has_hosts() const override { return true; }

  HostTable ServerHosts(const proto::ServerConfig& servers) const override {
    return HostTable(servers.hosts, "servers.hosts");
  }

  AgentCall CallFor(
      const RemoteProcess& process,
      const proto::LaunchConfig& launch,
      const proto::ServerConfig& /*servers*/) const override {
    AgentCall call{{"--host", process.host, "--token-file", process.token_file}, "/dev/stdin"};
    if (!launch.ssh_config.empty()) {
      call.flags.insert(call.flags.end(), {"--ssh-config", launch.ssh_config});
    }
    if (!process.machine_keys.empty()) {
      call.flags.insert(
          call.flags.end(),
          {"--machine-keys", process.machine_keys, "--boot-s", std::to_string(launch.rent.boot_s)});
    }
    return call;
  }

  std::vector<ManualFlag> flags() const override {
    return {
        {"--host", "HOST", "ssh: where. Required there."},
        {"--token-file", "FILE", "ssh: what lets the program into the run; becomes its stdin."},
        {"--ssh-config", "FILE", "ssh: its configuration. Default: the user's own."},
        {"--machine-keys",
         "DIR",
         "ssh: the only key that the host may show, and the one that lets us in. Default: as ssh "
         "has them."},
        {"--boot-s", "S", "ssh: seconds that the host may need to let anybody in. Default: 0."}};
  }

  Result<AgentWork> WorkFor(
      const Flags& flags, std::string program, std::vector<std::string> arguments) const override {
    SshJob job;
    job.program = std::move(program);
    job.arguments = std::move(arguments);
    PS_ASSIGN(job.host, flags.Text("host"));
    PS_ASSIGN(const std::string token_file, flags.Text("token-file"));
    PS_ASSIGN(job.token, ReadSmallFile(token_file, kTokenBytesMax));
    const std::string folder = fs::path(token_file).parent_path().string();
    job.turns = folder.empty() ? "." : folder;
    job.ssh_config = flags.TextOr("ssh-config", "");
    job.machine_keys = flags.TextOr("machine-keys", "");
    if (flags.Has("boot-s")) {
      PS_ASSIGN(const uint64_t boot_s, flags.Number("boot-s", 0, kBootSecondsMax));
      job.boot_limit = std::chrono::seconds(boot_s);
    }
    job.needs = flags.TextOr("needs", "");
    PS_ASSIGN(job.answer_limit, AnswerLimit(flags));
    return AgentWork(
        [job = std::move(job)](const AgentWishes& wishes) { return RunOverSsh(job, wishes); });
  }
};

}  // namespace

const AgentKind& SshKind() {
  static const Ssh kind;
  return kind;
}

}  // namespace ps::provisioner
