#pragma once

#include <rocksdb/env.h>

#include <cstdint>
#include <memory>
#include <string>

#include "ps/base/random.h"

namespace ps::checkpoint {

/// The machine's files as RocksDB sees them, with faults. Counts changes: each write, sync, and
/// creation, renaming or removal of a file.
class FaultyFiles {
 public:
  FaultyFiles();
  ~FaultyFiles();
  FaultyFiles(const FaultyFiles&) = delete;
  FaultyFiles& operator=(const FaultyFiles&) = delete;

  rocksdb::Env* env();

  /// So far.
  uint64_t changes() const;

  /// After so many more changes none has an effect: as if the process had died there.
  void CrashAfter(uint64_t changes);

  /// After so many more changes this process is killed.
  void KillAfter(uint64_t changes);

  /// Files can grow by so many bytes together; negative: as far as they like.
  void SetSpace(int64_t bytes);

  void SetReadOnly(bool is_read_only);

  /// No file can be opened for reading, as in a process that has too many open.
  void SetUnreadable(bool is_unreadable);

  /// After a crash, and when everything is closed: what was not synced is lost, or torn.
  void LoseUnsynced(Random* random);

  struct State;

 private:
  std::shared_ptr<State> state_;
  std::unique_ptr<rocksdb::Env> env_;
};

}  // namespace ps::checkpoint
