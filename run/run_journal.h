#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "checkpoint/storage/storage.h"
#include "ps/base/logger.h"
#include "ps/coordinator/job_journal.h"
#include "run/directory/run_directory.h"

namespace ps::run {

/// The log and the journal of a run's coordinator.
struct RunJournal {
  std::unique_ptr<LogSink> sink;
  std::unique_ptr<Logger> log;
  std::unique_ptr<checkpoint::Storage> storage;
  std::unique_ptr<coordinator::JobJournal> journal;

  /// Both are appended to. `is_behind`: somebody else knows that the journal is, and it is refused
  /// as if its mark said so. Errors: those of JobJournal::Open, kIo.
  static Result<RunJournal> Open(const RunDirectory& directory, bool is_behind = false);
};

/// Processes that the run's journal names, of this boot, whatever else is wrong with the journal.
std::vector<proto::LaunchRecord> ReadLaunches(const RunPaths& run);

/// Whether a run without a coordinator can go on from its journal: every server that was noted
/// lives, and at least one does. Otherwise parameters are lost, and its checkpoint is what it goes
/// on from.
bool HasItsServers(const std::vector<proto::LaunchRecord>& launches);

/// Ends those that live. Returns how many did.
size_t KillProcesses(const std::vector<proto::LaunchRecord>& launches);

}  // namespace ps::run
