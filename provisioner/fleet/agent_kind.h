#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "provisioner/fleet/agent_process.h"
#include "provisioner/fleet/host_table.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/process/flags.h"
#include "ps/process/manual.h"
#include "ps/proto/fleet_actions.h"
#include "ps/proto/job/job_config.h"

namespace ps::provisioner {

/// A process that is to run elsewhere.
struct RemoteProcess {
  proto::ProcessKind kind = proto::ProcessKind::kWorker;
  uint32_t index = 0;
  std::string host;   // where, by the kind's HostTable
  std::string zone;   // of a worker's group; empty: none
  uint32_t cpus = 1;  // that it keeps busy
  std::string name;   // for lists of a batch system
  std::string job;    // its name
  std::string run;    // no other run has it: letters and digits
  LaunchId launch;
  std::string log_path;
  std::string token_file;  // of this machine
  /// The folder of its keys (MachineKeysIn), if the host is rented and may still boot. Else empty.
  std::string machine_keys;
};

/// What its ps_agent is told.
struct AgentCall {
  std::vector<std::string> flags;   // of the kind
  std::string token_file;           // where the process finds its token
  std::string program_directory{};  // of the programs there; empty: as on this machine
  bool gets_credentials = false;    // ps_agent, of the environment here: environment.h
};

using AgentWork = std::function<AgentEnd(const AgentWishes&)>;

/// A kind of machines elsewhere: an entry for each `launcher` of a job but "local". What differs
/// between the kinds stands in their entries (ssh_kind.cc, slurm_kind.cc, kubernetes_kind.cc),
/// once for the process that owns the fleet and once for ps_agent. Entries have no state; any
/// thread.
class AgentKind {
 public:
  virtual ~AgentKind() = default;
  /// As job files and --launcher write it.
  virtual std::string_view name() const = 0;

  // For the process that owns the fleet.

  /// Programs of this machine without which nothing starts, and the package that has them.
  virtual std::vector<std::string> programs() const = 0;
  virtual std::string_view package() const = 0;
  /// Whether the servers of the job could be started, tried on the spot. Each place has `limit` to
  /// answer. Errors: kUnavailable, which says what to do.
  virtual Status CheckServerPlaces(const proto::JobConfig& config, Duration limit) const = 0;

  /// The same of workers. A kind that does not say finds out when it starts them.
  virtual Status CheckWorkerPlaces(const proto::JobConfig& /*config*/, Duration /*limit*/) const {
    return Status::Ok();
  }

  /// Whether a process has a host of the job's list. Otherwise the kind finds a place for it, and
  /// losing the process says nothing of the next one's place.
  virtual bool has_hosts() const = 0;
  /// Where servers may go.
  virtual HostTable ServerHosts(const proto::ServerConfig& servers) const = 0;
  virtual AgentCall CallFor(
      const RemoteProcess& process,
      const proto::LaunchConfig& launch,
      const proto::ServerConfig& servers) const = 0;

  // For ps_agent.

  virtual std::vector<ManualFlag> flags() const = 0;
  /// `program`: what to run, with `arguments`. Errors: kInvalidArgument, kNotFound, kIo.
  virtual Result<AgentWork> WorkFor(
      const Flags& flags, std::string program, std::vector<std::string> arguments) const = 0;
};

const AgentKind& SshKind();
const AgentKind& SlurmKind();
const AgentKind& KubernetesKind();

/// All of them, in the order of LauncherKind behind kLocal.
std::span<const AgentKind* const> AgentKinds();

/// Null for kLocal: this machine. Rented machines are reached by ssh.
const AgentKind* AgentKindOf(proto::LauncherKind launcher);

/// --answer-s, which each kind has: how long a host or a batch system may be silent.
Result<Duration> AnswerLimit(const Flags& flags);

}  // namespace ps::provisioner
