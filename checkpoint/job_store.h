#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/job_index.h"
#include "checkpoint/part.h"
#include "checkpoint/row_store.h"
#include "checkpoint/storage/storage.h"
#include "ps/base/status.h"

namespace ps::checkpoint {

/// A checkpoint that exists and that no run goes on from or goes back to: it could not be read. Its
/// manifest and its parts stay until somebody prunes them, since what could not be read today (a
/// folder that is not mounted, too many open files, another build's format) may be there tomorrow.
/// The only exception is one that is proved to be corrupt: the next checkpoint replaces it.
struct SetAside {
  CheckpointId id = 0;
  bool is_corrupt = false;  // by failure.h
  std::string why;          // for people

  friend bool operator==(const SetAside&, const SetAside&) = default;
};

/// Manifests, by which checkpoints exist, and a few rows beside them.
/// Thread: any one at a time.
class JobStore {
 public:
  /// Errors: those of Storage::Open. With kWrite it is the lock of the whole path: the second run
  /// on one path gets kUnavailable.
  static Result<std::unique_ptr<JobStore>> Open(
      Storage& storage, const std::string& path, OpenMode mode);

  /// The checkpoint exists when it returns, and so do all rows written before. Errors:
  /// kInvalidArgument when there is a manifest of this number or a later one; kIo.
  Status PutManifest(CheckpointId id, std::span<const std::byte> manifest);

  /// Errors: kNotFound, kCorruption, kIo.
  Result<std::vector<std::byte>> ReadManifest(CheckpointId id);

  /// Oldest first.
  Result<std::vector<CheckpointId>> Manifests();

  /// Deleted for good: also after a crash. Ok when there is none.
  Status DeleteManifest(CheckpointId id);

  /// From now on these are the ones that are set aside. Errors: kIo.
  Status NoteSetAside(std::span<const SetAside> all);

  /// Those that exist, oldest first. Errors: kCorruption, kIo.
  Result<std::vector<SetAside>> ReadSetAside();

  /// All changes in order, or none. SIGKILL loses none that was written, a lost machine may lose
  /// the newest: a row never survives without those before it. Errors: kIo.
  Status WriteRows(std::span<const RowChange> changes);

  /// Rows whose key begins with `prefix`, by key. Errors: kCorruption, kIo.
  Result<std::vector<Row>> ReadRows(std::string_view prefix);

  /// What was wrong with the files of manifests when they were opened, and was made good.
  const IndexDamage& index_damage() const { return index_->damage(); }

 private:
  explicit JobStore(std::unique_ptr<JobIndex> index);

  std::unique_ptr<JobIndex> index_;
  CheckpointId newest_ = 0;  // manifest
};

}  // namespace ps::checkpoint
