#include "run/run_journal.h"

#include <utility>

#include "checkpoint/storage/rocksdb_storage.h"
#include "provisioner/fleet/local_process.h"

namespace ps::run {

Result<RunJournal> RunJournal::Open(const RunDirectory& directory, bool is_behind) {
  if (is_behind) {
    return coordinator::JobJournal::FellBehind();
  }
  const RunPaths& paths = directory.paths();
  RunJournal run;
  PS_ASSIGN(run.sink, MakeFileSink(paths.coordinator_log(), LogLevel::kInfo));
  run.log =
      std::make_unique<Logger>("coordinator", &SystemTime(), run.sink.get(), directory.begun_us());
  run.storage = checkpoint::MakeRocksDbStorage();
  PS_ASSIGN(const std::string boot_id, coordinator::ReadBootId());
  PS_ASSIGN(
      run.journal,
      coordinator::JobJournal::Open(*run.storage, paths.journal(), boot_id, run.log.get()));
  return run;
}

std::vector<proto::LaunchRecord> ReadLaunches(const RunPaths& run) {
  const Result<std::string> boot_id = coordinator::ReadBootId();
  return boot_id.ok() ? coordinator::JobJournal::ReadLaunches(
                            *checkpoint::MakeRocksDbStorage(), run.journal(), *boot_id)
                      : std::vector<proto::LaunchRecord>();
}

bool HasItsServers(const std::vector<proto::LaunchRecord>& launches) {
  size_t servers = 0;
  for (const proto::LaunchRecord& launch : launches) {
    if (launch.kind != proto::ProcessKind::kServer) {
      continue;
    }
    ++servers;
    if (!provisioner::OpenProcess(launch.pid, launch.start_ticks).ok()) {
      return false;
    }
  }
  return servers > 0;
}

size_t KillProcesses(const std::vector<proto::LaunchRecord>& launches) {
  size_t killed = 0;
  for (const proto::LaunchRecord& launch : launches) {
    const Result<UniqueFd> process = provisioner::OpenProcess(launch.pid, launch.start_ticks);
    if (process.ok() && provisioner::KillProcess(process->get())) {
      ++killed;
    }
  }
  return killed;
}

}  // namespace ps::run
