#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "provisioner/rental/rented_hosts.h"
#include "ps/base/ids.h"
#include "ps/base/status.h"
#include "ps/base/time.h"
#include "ps/proto/event.h"
#include "ps/proto/fleet_actions.h"
#include "ps/proto/job/job_config.h"
#include "ps/proto/state/launch_journal.h"
#include "ps/proto/worker_start.h"

namespace ps::provisioner {

struct FleetOptions {
  std::string program_directory;  // of ps_server and ps_worker
  std::string log_directory;      // gets "server0.log", "worker2.log"
  /// The file that lets a process in that is about to start. Errors: the process is not started.
  std::function<Result<std::string>(proto::ProcessKind kind, uint32_t index)> make_token_file;
  std::string coordinator;   // "HOST:PORT" as the processes reach it
  std::string listen;        // address the servers bind, unless launch says otherwise
  int64_t run_start_us = 0;  // zero of all logs, microseconds since 1970 UTC
  std::string machine;       // where servers that bind everything are reached
  proto::LaunchConfig launch;
  proto::ServerConfig servers;
  std::string server_needs;  // a file or folder that a server elsewhere has to find; empty: none
  /// Outlives the fleet. Null: nobody could adopt the processes, and they die with this thread.
  proto::LaunchJournal* journal = nullptr;
  std::string job_name;  // for batch systems
  /// Flags of ps_worker for what is to compute in its place (worker.program).
  std::vector<std::string> worker_flags = {};
  /// Where workers' machines come from, when they are rented; outlives the fleet. And the folder of
  /// their keys.
  RentedHosts* rented = nullptr;
  std::string machine_keys = {};
  const TimeSource* time = &SystemTime();
  /// Tells what people of the run are to know. Null: it is in the fleet's log alone.
  std::function<void(proto::EventCode code, std::initializer_list<LogField> fields)> tell = nullptr;
  /// Hears of each worker that is about to be started, but for one on a machine that was there
  /// before it was ordered.
  std::function<void(const proto::WorkerStart& start)> on_start = nullptr;
};

/// The command line of a server, and of a worker, as far as it depends on the job. Elsewhere a
/// server finds out by itself by which of its addresses it reaches the coordinator.
std::vector<std::string> ServerArguments(const FleetOptions& options, uint32_t server);
std::vector<std::string> WorkerArguments(
    const FleetOptions& options, WorkerId seat, const proto::WorkerGroup& group);

/// How a process finds the run, is let in, and is known. `token_file`: as the process sees it.
std::vector<std::string> RunArguments(
    const FleetOptions& options, LaunchId launch, const std::string& token_file);

}  // namespace ps::provisioner
