#pragma once

#include <string>
#include <vector>

#include "checkpoint/part.h"
#include "checkpoint/storage/storage.h"
#include "ps/base/status.h"

namespace ps::checkpoint {

struct PruneReport {
  std::vector<CheckpointId> kept;
  std::vector<CheckpointId> removed;
  std::vector<std::string> removed_directories;  // of shards that no kept checkpoint has
};

/// Removes all checkpoints but the newest `keep` and `spared` (0: none), and what they alone had.
/// Requires: keep >= 1. Errors: kUnavailable while a run has the path open; kNotFound; kCorruption
/// when a kept one can't be read; kIo.
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
