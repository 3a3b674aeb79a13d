#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "provisioner/fleet/agent_kind.h"
#include "provisioner/fleet/cpu_groups.h"
#include "provisioner/fleet/host_table.h"
#include "provisioner/fleet/launcher.h"
#include "provisioner/fleet/process_arguments.h"
#include "ps/base/logger.h"
#include "ps/base/time.h"
#include "ps/proto/fleet_actions.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/state/launch_journal.h"

namespace ps::provisioner {

/// Does what the coordinator asks for with a launcher: ps_server and ps_worker processes of this
/// machine, whose logs are files. One that runs elsewhere has a ps_agent here, which is what the
/// launcher starts and knows.
///
/// A server that has no free slot elsewhere waits here for one, since nothing goes on without it:
/// the coordinator learns of it when it is started. Of a worker it is told, and decides. A worker
/// whose machine is rented waits here for that.
class JobFleet final : public proto::FleetActions {
 public:
  using Options = FleetOptions;

  /// Both outlive the fleet.
  JobFleet(Options options, Launcher* launcher, const Logger* log);

  void StartServer(uint32_t server, LaunchId launch) override;
  void StartWorker(WorkerId seat, LaunchId launch, const proto::WorkerGroup& group) override;
  void KillWorker(WorkerId seat) override;
  void KillServer(uint32_t server, LaunchId keep) override;
  bool HasServer(uint32_t server) const override;
  std::string ZoneOf(WorkerId seat) const override;

  /// Goes on with the processes of an earlier fleet. TakeEnds tells of those that have ended.
  void Adopt(std::span<const proto::LaunchRecord> launches);

  /// Processes that ended, or did not start, since the last call. The journal forgets them at the
  /// next call: by then the coordinator has acted on them.
  std::vector<proto::ProcessEnd> TakeEnds();
  void KillAll();

  size_t running_count() const { return processes_.size(); }

 private:
  struct Process {
    proto::LaunchRecord launch;
    std::string log_path;
    std::string host;         // of a HostTable; empty: this machine
    bool is_planned = false;  // this fleet has killed it
    std::string lost = {};    // its machine is: how
    std::string zone = {};    // of a worker's machine; empty: not known
  };

  /// A worker whose machine is being rented.
  struct WaitingWorker {
    LaunchId launch;
    proto::WorkerGroup group;
    std::vector<std::string> arguments;
  };

  struct Ended {
    proto::ProcessEnd end;
    proto::LaunchRecord launch;
  };

  /// What no other run has, for the names of batch systems.
  std::string RunName() const;
  LaunchSpec SpecOf(proto::ProcessKind kind, uint32_t index, LaunchId launch) const;
  /// `cpu_share` 0: as much as there is.
  void Start(LaunchSpec spec, std::vector<std::string> arguments, double cpu_share = 0);
  /// The words before a command that keep the worker within its share.
  Result<std::vector<std::string>> LimitCpu(uint32_t worker, double share);
  void StartServerOn(const std::string& host, LaunchSpec spec);
  void StartWaitingServers();
  /// It is told that this one has not run.
  void DropWaiting(uint32_t server);
  void DropWaitingWorker(WorkerId seat);
  void TakeRentals();
  void OnMachine(const RentalEvent& event);
  void OnNoMachine(const RentalEvent& event);
  void OnLostMachine(const RentalEvent& event);
  void StartWorkerElsewhere(
      LaunchSpec spec, const proto::WorkerGroup& group, std::vector<std::string> arguments);
  /// A worker is ordered now, and has its place.
  void TellStart(LaunchId launch, const std::string& type, const std::string& zone) const;
  void TellRentedStart(const RentalEvent& event) const;
  void StartAgent(LaunchSpec spec, RemoteProcess process, std::vector<std::string> arguments);
  void Launch(LaunchSpec spec, const std::string& host, const std::string& zone);
  void Tell(proto::EventCode code, std::initializer_list<LogField> fields) const;
  void LogNotStarted(const proto::LaunchRecord& launch, const std::string& why);
  void NotStarted(const proto::LaunchRecord& launch, const Status& why);
  /// Null: processes of this machine.
  const AgentKind* KindOf(proto::ProcessKind kind) const;
  HostTable& HostsOf(proto::ProcessKind kind);
  proto::ProcessEnd EndOf(const Process& process, const ProcessExit& exit);
  /// The running processes of a seat: one, and those that it has taken the place of.
  std::vector<ProcessHandle> WorkersIn(WorkerId seat) const;
  void Note(ProcessHandle handle, Process process);
  void Kill(ProcessHandle handle, Process* process);
  std::string LogPath(proto::ProcessKind kind, uint32_t index) const;
  std::string CpuGroupOf(uint32_t worker) const;

  const Options options_;
  Launcher* const launcher_;
  const Logger* const log_;
  const AgentKind* const worker_kind_;
  const AgentKind* const server_kind_;
  HostTable worker_hosts_;
  HostTable server_hosts_;
  std::map<uint32_t, LaunchId> waiting_servers_;  // for a slot
  std::map<WorkerId, WaitingWorker> waiting_workers_;
  std::optional<CpuGroups> cpu_groups_;         // once needed
  std::set<std::string> full_zones_;            // of which it was told, not at each attempt
  std::map<ProcessHandle, Process> processes_;  // running
  std::set<std::pair<WorkerId, ProcessHandle>> workers_;  // of these
  std::vector<Ended> unreported_;              // never ran, or ended before they could be adopted
  std::vector<proto::LaunchRecord> reported_;  // by the last TakeEnds
};

}  // namespace ps::provisioner
