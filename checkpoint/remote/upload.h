#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/remote/index.h"
#include "checkpoint/remote/writer_mark.h"
#include "checkpoint/storage/storage.h"
#include "ps/base/status.h"
#include "ps/store/object_store.h"

namespace ps::checkpoint {

struct UploadReport {
  std::vector<CheckpointId> copied;
  std::vector<CheckpointId> present;  // there already, and still there
  std::vector<CheckpointId> removed;  // old ones, beyond `keep`
  uint64_t sent_bytes = 0;
  uint64_t shared_bytes = 0;  // of the copied checkpoints, there already
};

struct UploadOptions {
  std::string writer;  // names this uploader among all: "host, process 12, 9f86d081"
  size_t keep = 0;     // that many are left in the target, the newest; 0: all
  /// Told after each object: bytes sent, and to be sent.
  std::function<void(uint64_t sent, uint64_t total)> on_progress;
};

/// Copies the checkpoints of a path on this machine to an object store, again and again: files of
/// the databases, cut into pieces that are named by what they contain. What the store has is not
/// sent again, so a copy that was cut off goes on where it was. Reads beside a run that writes.
/// One uploader at a time: whoever begins takes over, and the other stops and commits nothing. A
/// copy counts once the place lists all of it. Thread: any one at a time.
class Uploader {
 public:
  /// `path` has databases of RocksDB. `target` outlives it.
  Uploader(std::string path, store::ObjectStore* target, UploadOptions options);

  /// Copies what is newer than what the target has. Errors: kNotFound (no checkpoint here);
  /// kInvalidArgument (the target has checkpoints of something else, or newer ones); kUnavailable
  /// (another process took over, or pieces went; a checkpoint went while it was copied: run again);
  /// kIo (the target does not list what it took); those of the target and of the disk.
  Result<UploadReport> Run();

 private:
  /// What a file was when its pieces were computed; the file behind it does not change.
  using FileIdentity = std::tuple<uint64_t, uint64_t, int64_t, int64_t>;

  struct Wanted {
    Manifest manifest;
    std::vector<std::byte> bytes;  // of the manifest
  };

  Result<std::vector<Wanted>> FindNew(Storage& storage, UploadReport* report);
  Result<bool> IsBehind(CheckpointId newest_here, CheckpointId newest_there);
  Status CheckFits(const Manifest& oldest_here, CheckpointId theirs);
  Status Change(Storage& storage, std::vector<Wanted> wanted, UploadReport* report);
  Status CheckListed(const std::vector<CopyIndex>& written);
  Status LinkDatabases(const std::vector<Wanted>& wanted, const std::string& links);
  Status DropPruned(Storage& storage, const std::string& links, std::vector<Wanted>* wanted);
  Result<CopiedFile> Describe(const std::string& path, const std::string& name, uint64_t size);
  Result<std::vector<CopiedDatabase>> DescribeAll(const std::string& links);
  Status Send(
      const std::vector<CopiedDatabase>& databases, const std::string& links, UploadReport* report);
  Result<CopyIndex> Commit(const Wanted& wanted, const std::vector<CopiedDatabase>& databases);

  const std::string path_;
  store::ObjectStore* const target_;
  const UploadOptions options_;
  WriterMark mark_;
  std::map<FileIdentity, std::vector<Piece>> known_;  // of the newest links
  std::vector<std::byte> buffer_;                     // a piece
};

}  // namespace ps::checkpoint
