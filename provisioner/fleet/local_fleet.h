#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "provisioner/fleet/host_table.h"
#include "provisioner/fleet/launcher.h"
#include "ps/base/logger.h"
#include "ps/base/time.h"
#include "ps/emulation/emulation.h"
#include "ps/proto/fleet_actions.h"
#include "ps/proto/job_config.h"
#include "ps/proto/launch_journal.h"

namespace ps::provisioner {

// The texts of a job's `launch` section. Pure.

/// `text` with {name}, {role} and {index} filled in for, e.g., role "worker" and index 3: worker3,
/// worker, 3. Other braces stay.
std::string FillLaunchText(std::string_view text, std::string_view role, uint32_t index);

/// The words of a command prefix, filled in.
std::vector<std::string> LaunchWords(
    std::string_view prefix, std::string_view role, uint32_t index);

/// Errors: kNotFound when ps_server, ps_worker or ps_agent is not in `directory`, or when a program
/// that `launch` asks for is not there.
Status CheckPrograms(const std::string& directory, const proto::LaunchConfig& launch);

/// Does what the coordinator asks for with a launcher: ps_server and ps_worker processes of this
/// machine, whose logs are files. A worker that runs elsewhere has a ps_agent here, which is what
/// the launcher starts and knows.
class LocalFleet final : public proto::FleetActions {
 public:
  struct Options {
    std::string program_directory;  // of ps_server and ps_worker
    std::string log_directory;      // gets "server0.log", "worker2.log"
    /// The file that lets a process in that is about to start. Errors: the process is not started.
    std::function<Result<std::string>(proto::ProcessKind kind, uint32_t index)> make_token_file;
    std::string coordinator;   // "HOST:PORT" as the processes reach it
    std::string listen;        // address the servers bind, unless launch says otherwise
    int64_t run_start_us = 0;  // zero of all logs, microseconds since 1970 UTC
    std::string machine;       // where servers that bind everything are reached
    proto::LaunchConfig launch;
    uint32_t shards_per_server = 1;
    uint32_t server_port = 0;  // of the first server's first shard; 0: any free ones
    emulation::Emulation server_emulation;
    proto::NoticeService server_notices = proto::NoticeService::kNone;
    /// Outlives the fleet. Null: nobody could adopt the processes, and they die with this thread.
    proto::LaunchJournal* journal = nullptr;
    std::string job_name;  // for batch systems
    const TimeSource* time = &SystemTime();
  };

  /// Both outlive the fleet.
  LocalFleet(Options options, Launcher* launcher, const Logger* log)
      : options_(std::move(options)),
        launcher_(launcher),
        log_(log),
        hosts_(options_.launch.hosts) {}

  void StartServer(uint32_t server, LaunchId launch) override;
  void StartWorker(WorkerId seat, LaunchId launch, const proto::WorkerGroup& group) override;
  void KillWorker(WorkerId seat) override;
  void KillServer(uint32_t server) override;
  bool HasServer(uint32_t server) const override;

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
    std::string host;         // with the launcher ssh; empty: this machine
    bool is_planned = false;  // this fleet has killed it
  };

  struct Ended {
    proto::ProcessEnd end;
    proto::LaunchRecord launch;
  };

  LaunchSpec SpecOf(proto::ProcessKind kind, uint32_t index, LaunchId launch) const;
  void Start(LaunchSpec spec, std::vector<std::string> arguments);
  void StartAgent(LaunchSpec spec, const proto::WorkerGroup& group, std::vector<std::string> words);
  void Launch(LaunchSpec spec, const std::string& host);
  void NotStarted(const proto::LaunchRecord& launch, const Status& why);
  bool IsElsewhere(proto::ProcessKind kind) const;
  proto::ProcessEnd EndOf(const Process& process, const ProcessExit& exit);
  /// The running processes of a seat: one, and those that it has taken the place of.
  std::vector<ProcessHandle> WorkersIn(WorkerId seat) const;
  void Note(ProcessHandle handle, Process process);
  void Kill(ProcessHandle handle, Process* process);
  std::string LogPath(proto::ProcessKind kind, uint32_t index) const;

  const Options options_;
  Launcher* const launcher_;
  const Logger* const log_;
  HostTable hosts_;
  std::set<std::string> full_zones_;            // of which it was told, not at each attempt
  std::map<ProcessHandle, Process> processes_;  // running
  std::set<std::pair<WorkerId, ProcessHandle>> workers_;  // of these
  std::vector<Ended> unreported_;              // never ran, or ended before they could be adopted
  std::vector<proto::LaunchRecord> reported_;  // by the last TakeEnds
};

}  // namespace ps::provisioner
