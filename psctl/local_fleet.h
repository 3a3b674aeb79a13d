#pragma once

#include <map>
#include <string>
#include <vector>

#include "provisioner/fleet/launcher.h"
#include "ps/base/logger.h"
#include "ps/coordinator/fleet_actions.h"
#include "ps/proto/job_config.h"
#include "psctl/run_directory.h"

namespace ps::psctl {

/// Errors: kNotFound when ps_server or ps_worker is not in `directory`.
Status CheckPrograms(const std::string& directory);

/// What the coordinator asks for, done with a launcher: ps_server and ps_worker processes whose
/// logs and notices are in the run directory.
class LocalFleet final : public coordinator::FleetActions {
 public:
  struct Options {
    RunPaths paths;
    std::string program_directory;  // of ps_server and ps_worker
    std::string coordinator;        // "HOST:PORT" as the processes reach it
    std::string listen;             // address the servers bind, unless launch says otherwise
    std::string machine;            // where servers that bind everything are reached
    proto::LaunchConfig launch;
    uint32_t shards_per_server = 1;
    float server_mbit_per_s = 0;  // of each one's link; 0: not limited
  };

  /// Both outlive the fleet.
  LocalFleet(Options options, provisioner::Launcher* launcher, const Logger* log)
      : options_(std::move(options)), launcher_(launcher), log_(log) {}

  void StartServer(uint32_t server) override;
  void StartWorker(WorkerId seat, const proto::WorkerGroup& group) override;
  void NotifyWorker(WorkerId seat, Duration grace) override;
  void KillWorker(WorkerId seat) override;

  struct End {
    coordinator::ProcessEnd end;
    bool is_clean = false;    // exited with code 0
    bool is_planned = false;  // KillWorker or KillAll asked for it
    std::string log_path;
  };

  /// Processes that ended, or did not start, since the last call.
  std::vector<End> TakeEnds();
  void KillAll();

  size_t running_count() const { return processes_.size(); }

 private:
  struct Process {
    coordinator::ProcessKind kind = coordinator::ProcessKind::kWorker;
    uint32_t index = 0;
    int64_t pid = 0;
    std::string log_path;
    bool is_planned = false;
  };

  void Start(provisioner::ProcessRole role, uint32_t index, std::vector<std::string> arguments);
  void Kill(provisioner::ProcessHandle handle, Process* process);

  const Options options_;
  provisioner::Launcher* const launcher_;
  const Logger* const log_;
  std::map<provisioner::ProcessHandle, Process> processes_;  // running
  std::vector<End> failed_starts_;
};

}  // namespace ps::psctl
