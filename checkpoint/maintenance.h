#pragma once

#include <string>
#include <vector>

#include "checkpoint/job_store.h"
#include "checkpoint/part.h"
#include "checkpoint/storage/storage.h"
#include "ps/base/status.h"

namespace ps::checkpoint {

struct PruneReport {
  std::vector<CheckpointId> kept;     // each was read whole
  std::vector<CheckpointId> removed;  // older ones, and those in `damaged`
  std::vector<SetAside> damaged;      // for good, newer than the oldest that is kept
  std::vector<SetAside> unread;       // likewise, not to be read now: they stay and do not count
  std::vector<std::string> removed_directories;  // of shards that no kept checkpoint has
};

/// Removes all checkpoints but the newest `keep` that can be read whole and `spared` (0: none), and
/// what they alone had. Nothing is removed before all that are kept were read, nor where there is
/// none. Requires: keep >= 1. Errors: kUnavailable while a run has the path open; kNotFound; that
/// of the newest one where none can be read; kIo.
Result<PruneReport> Prune(
    Storage& storage, const std::string& path, size_t keep, CheckpointId spared = 0);

struct CopyReport {
  std::vector<CheckpointId> copied;
  std::vector<CheckpointId> present;  // in the target already
  uint64_t written_bytes = 0;
};

/// Copies the checkpoints of `source` that are newer than those of `target`, oldest first. What is
/// the same in two of them is written once. Every value is checked on the way, and read beside a
/// run that writes. Errors: kUnavailable while somebody has the target open for writing;
/// kInvalidArgument when the target has checkpoints of something else; those of reading.
Result<CopyReport> Copy(Storage& storage, const std::string& source, const std::string& target);

}  // namespace ps::checkpoint
